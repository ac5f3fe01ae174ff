"""A call of a class that takes Arrow batches: all new rows of a group in one call of its method.

`step` computes base calls and windows from the first row on, `step_window` windows of so many rows or so long a time.
In all other ways such a class is given one row at a time. What a group keeps is the same in both, so that one can go on
where the other stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.algebra.user_aggregates.classes import Takes, Written, written
from headrace.algebra.user_aggregates.definition import INWINDOW, Definition, Versions
from headrace.algebra.user_aggregates.forms import Form, Way
from headrace.algebra.user_aggregates.statements import Lookup
from headrace.language.statement import Column
from headrace.language.types import arrow_type
from headrace.maintenance.user_aggregates.columns import column_of, flattened, list_column, one_array
from headrace.maintenance.user_aggregates.external import External
from headrace.maintenance.user_aggregates.machine import NEVER, Machine, Ran


def taking_batches(versions: Versions, form: Form, way: Way) -> Takes | None:
    """The method that computes a call in whole batches; None where rows have to be gone through one by one."""
    if form.kind == "range" and form.slide is not None:
        return None  # results wait for the ends of slots
    version = _version(versions, way)
    if way not in ("base", "cumulative", "window") or version is None or version.external is None:
        return None
    found = written(version.external, window=version.window)
    # Over a window, what is told at the end is told after every row.
    by_row = found.takes == "iterate" or (way == "cumulative" and "TERMINATE" in found.blocks)
    return None if by_row else found.takes


def _version(versions: Versions, way: Way) -> Definition | None:
    """The version that computes a call: a window without a beginning is the base version's, where there is one."""
    return versions.window if way == "window" else versions.base or (versions.window if way == "cumulative" else None)


def machine_of(
    versions: Versions, form: Form, way: Way, lookup: Lookup, types: Sequence[str], passed: Sequence[Column], *,
    ends: bool = False, native: bool | None = None,
) -> Machine:  # fmt: skip
    """What computes a call: in batches where its class takes them, else row by row."""
    kind = Machine if taking_batches(versions, form, way) is None else BatchMachine
    return kind(versions, form, way, lookup, types, passed, ends=ends, native=native)


class BatchMachine(Machine):
    """One call of a class with `step` or `step_window`."""

    def run(
        self, arguments: Sequence[pa.ChunkedArray], passed: pa.Table, starts: np.ndarray, times: np.ndarray,
        states: pa.Table | None, upto: int,  # noqa: ARG002 - nothing is told by the clock here
    ) -> Ran:  # fmt: skip
        kept = self.no_states(len(starts) - 1) if states is None else states
        return _Run(self, kept, starts, times).results([one_array(column) for column in arguments], passed)

    @property
    def definition(self) -> Definition:
        versions, _form, way, _lookup, _types = self._told
        found = _version(versions, way)
        assert found is not None
        return found


class _Run:
    """All groups of one run."""

    def __init__(self, machine: BatchMachine, states: pa.Table, starts: np.ndarray, times: np.ndarray) -> None:
        definition, program = machine.definition, machine.program
        assert definition.external is not None
        self._machine, self._states, self._starts, self._times = machine, states, starts, times
        self._external = External(
            definition.external, definition.name, definition.window,
            [(one.name, one.type) for one in program.parameters], [one.type for one in program.returns],
        )  # fmt: skip
        self._written: Written = self._external.written
        self._form = machine._form
        self._object = next(section.prefix for section in program.sections if section.name == "object")
        self._window = next((one.prefix for one in program.sections if one.name == INWINDOW), "")
        self._places: list[np.ndarray] = []
        self._columns: list[list[pa.Array]] = [[] for _column in program.returns]
        self._objects: list[bytes | None] = []
        self._kept: list[tuple[np.ndarray, list[pa.Array]]] = []

    def results(self, arguments: list[pa.Array], passed: pa.Table) -> Ran:
        count = len(self._starts) - 1
        offsets, objects = flattened(self._states.column(f"{self._object}_0"))
        carried = self._carried(len(arguments)) if self._window else None
        seen = self._states.column("__seen").combine_chunks().fill_null(0).to_numpy()
        fresh = np.diff(self._starts)
        for group in range(count):
            known = objects[int(offsets[group])].as_py() if offsets[group + 1] > offsets[group] else None
            first, rows = int(self._starts[group]), int(fresh[group])
            mine = [column.slice(first, rows) for column in arguments]
            before = None if carried is None else carried(group)
            self._group(group, known, mine, int(seen[group]), before)
        return self._ran(passed, seen + fresh)

    def _carried(self, width: int) -> Any:
        """The rows that the windows of groups still hold: their keys, and their columns."""
        offsets, keys = flattened(self._states.column(f"{self._window}_key"))
        columns = [flattened(self._states.column(f"{self._window}_{number}"))[1] for number in range(width)]
        numbers = keys.to_numpy(zero_copy_only=False).astype(np.int64)

        def of(group: int) -> tuple[np.ndarray, list[pa.Array]]:
            low, high = int(offsets[group]), int(offsets[group + 1])
            return numbers[low:high], [column.slice(low, high - low) for column in columns]

        return of

    def _group(
        self, group: int, known: bytes | None, mine: list[pa.Array], seen: int,
        carried: tuple[np.ndarray, list[pa.Array]] | None,
    ) -> None:  # fmt: skip
        first, last = int(self._starts[group]), int(self._starts[group + 1])
        if first == last:
            self._objects.append(known)
            if carried is not None:
                self._kept.append(carried)
            return
        held = self._external.new() if known is None else self._external.restored(known)
        told = np.arange(last - first)
        slide = self._form.slide
        if slide is not None:
            told = told[(seen + 1 + told) % slide == 0]
        if carried is None:
            found = self._external.stepped(held, self._external.batch(mine))
            if found is not None and slide is not None:
                found = [column.take(pa.array(told)) for column in found]
        else:
            found = self._windows(held, carried, mine, np.arange(seen + 1, seen + 1 + last - first), told, first)
        self._tell(first + told, found)
        if self._machine._ends and "TERMINATE" in self._written.blocks and self._form.kind == "base":
            rows = self._external.called(held, "terminate", ())
            types = [column.type for column in self._machine.returns]
            ended = [
                column_of([row[2 * n] for row in rows], [row[2 * n + 1] for row in rows], len(rows), type_)
                for n, type_ in enumerate(types)
            ]
            self._tell(np.full(len(rows), last - 1), ended)
        self._objects.append(self._external.kept(held))

    def _windows(
        self, held: Any, carried: tuple[np.ndarray, list[pa.Array]], mine: list[pa.Array], numbers: np.ndarray,
        told: np.ndarray, at: int,
    ) -> list[pa.Array] | None:  # fmt: skip
        """The windows of the rows that are told, over the rows that were still there and the new ones."""
        before, columns = carried
        times = self._form.kind == "range"
        now = self._times[at : at + len(numbers)] if times else numbers
        keys = np.concatenate([before, now])
        whole = [_joined(one, other) for one, other in zip(columns, mine, strict=True)]
        first = np.zeros(len(now), dtype=np.int64)
        if self._form.length is not None:
            # A row that came late leaves no later than those before it, which stand in front of it.
            rising = np.maximum.accumulate(keys)
            found = np.searchsorted(rising, now - self._form.length, side="left" if times else "right")
            first = np.maximum.accumulate(found).astype(np.int64)
        left = int(first[-1])
        self._kept.append((keys[left:], [column.slice(left) for column in whole]))
        if not len(told):
            return None
        batch = self._external.batch(whole)
        return self._external.stepped_windows(held, batch, first[told], len(before) + told)

    def _tell(self, places: np.ndarray, columns: list[pa.Array] | None) -> None:
        if columns is None:
            return
        self._places.append(places)
        for to, column in zip(self._columns, columns, strict=True):
            to.append(column)

    def _ran(self, passed: pa.Table, seen: np.ndarray) -> Ran:
        machine = self._machine
        columns = [
            pa.concat_arrays([pa.array([], arrow_type(one.type)), *found])
            for one, found in zip(machine.returns, self._columns, strict=True)
        ]
        places = np.concatenate([np.empty(0, dtype=np.int64), *self._places])
        due = np.full(len(self._objects), NEVER, dtype=np.int64)
        values = pa.table(columns, names=[f"r{number}" for number in range(len(columns))])
        return Ran(
            places, self._times[places], values, passed,
            self._states_now(seen, due), due,
        )  # fmt: skip

    def _states_now(self, seen: np.ndarray, due: np.ndarray) -> pa.Table:
        schema = self._machine.no_states(0).schema
        there = np.array([one is not None for one in self._objects], dtype=np.bool_)
        found: dict[str, Any] = {
            "__seen": pa.array(seen),
            "__began": pa.array(there),
            "__due": pa.array(due),
            f"{self._object}_0": list_column(
                np.concatenate([[0], np.cumsum(there)]),
                pa.array([one for one in self._objects if one is not None], pa.binary()),
            ),
        }
        if self._window:
            offsets = np.cumsum([0, *(len(keys) for keys, _columns in self._kept)])
            keys = np.concatenate([np.empty(0, dtype=np.int64), *(keys for keys, _columns in self._kept)])
            found[f"{self._window}_key"] = list_column(offsets, pa.array(keys))
            for number, column in enumerate(self._machine.program.parameters):
                parts = [columns[number].cast(arrow_type(column.type)) for _keys, columns in self._kept]
                whole = pa.concat_arrays([pa.array([], arrow_type(column.type)), *parts])
                found[f"{self._window}_{number}"] = list_column(offsets, whole)
        blank = self._machine.scalars_of(self._states)
        return pa.table([found.get(name, blank.get(name)) for name in schema.names], schema=schema)


def _joined(one: pa.Array, other: pa.Array) -> pa.Array:
    return pa.concat_arrays([one, other.cast(one.type)])
