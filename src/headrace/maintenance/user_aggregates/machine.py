"""A call of an aggregate at work: new rows of some groups and what these keep, to results and what they keep now."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import Form, Way
from headrace.algebra.user_aggregates.frames import Section
from headrace.algebra.user_aggregates.programs import Program, program_of
from headrace.algebra.user_aggregates.statements import Lookup
from headrace.errors import EngineError
from headrace.language.statement import Column
from headrace.language.types import arrow_type
from headrace.maintenance.user_aggregates.columns import column_of, flattened, list_column, values_of
from headrace.maintenance.user_aggregates.compiled import has_numba, native_run, plain_run

#: A slot that has not begun, and the end of time.
NO_SLOT = -(2**63) + 1
NEVER = 2**63 - 1

#: Fewer rows are through in plain Python before machine code is made.
ROWS_WORTH_COMPILING = 20_000

_SCALARS = (("began", "BOOLEAN"), ("began2", "BOOLEAN"), ("seen", "BIGINT"), ("slot", "BIGINT"), ("slot2", "BIGINT"))


@dataclass(frozen=True)
class Ran:
    """Results: for each the row it stands for, and its time; and what each group keeps now.

    `places` are rows of `shown`, which has the columns beside the results. `due` is when a group's next row leaves by
    the clock.
    """

    places: np.ndarray
    times: np.ndarray
    values: pa.Table
    shown: pa.Table
    states: pa.Table
    due: np.ndarray


class Machine:
    """One call, compiled for the types of its arguments."""

    def __init__(
        self, versions: Versions, form: Form, way: Way, lookup: Lookup, types: Sequence[str],
        passed: Sequence[Column], *, ends: bool = False, native: bool | None = None,
    ) -> None:  # fmt: skip
        """`passed` are the columns beside the results; `ends`: all rows there will be are there."""
        self._told = (versions, form, way, lookup, tuple(types))
        self._ends = ends
        self._form, self.passed = form, tuple(passed)
        self.program = self._program(nulls=True)
        self._native = native

    def _program(self, *, nulls: bool) -> Program:
        return program_of(*self._told, nulls=nulls, ends=self._ends)

    def _is_native(self, rows: int) -> bool:
        """Whether so many rows are worth machine code, which takes seconds to make."""
        return (
            self.program.native and has_numba() and rows >= ROWS_WORTH_COMPILING
            if self._native is None
            else self._native
        )

    @property
    def returns(self) -> tuple[Column, ...]:
        return self.program.returns

    @property
    def remembers_rows(self) -> bool:
        """Whether columns of rows that came earlier may still be shown."""
        return self.program.referring or any(section.referring for section in self.program.sections)

    @property
    def goes_by_clock(self) -> bool:
        """Whether the clock alone can bring results about."""
        return self._form.active or self.program.referring

    @property
    def state_columns(self) -> tuple[Column, ...]:
        """What a group keeps, as columns."""
        found = [Column(f"__{name}", type_) for name, type_ in _SCALARS]
        found.append(Column("__due", "BIGINT"))
        for section in self.program.sections:
            if section.keyed:
                found.append(Column(_name(section, "key"), "ARRAY<BIGINT>"))
            for number, type_ in zip(section.numbers, section.types, strict=True):
                found.append(Column(_name(section, number), f"ARRAY<{type_}>"))
            if not section.keyed and not section.numbers:
                found.append(Column(_name(section, "rows"), "ARRAY<BIGINT>"))
            if section.referring:
                found += [Column(_name(section, f"beside_{c.name}"), f"ARRAY<{c.type}>") for c in self.passed]
        if self.program.referring:
            found += [Column(f"__{which}_{c.name}", c.type) for which in ("last", "held") for c in self.passed]
        return tuple(found)

    def run(
        self, arguments: Sequence[pa.ChunkedArray], passed: pa.Table, starts: np.ndarray, times: np.ndarray,
        states: pa.Table | None, upto: int,
    ) -> Ran:  # fmt: skip
        """Go through the groups: rows `starts[g]` to `starts[g + 1]` are those of group g.

        `states` has a row for each group, of `state_columns`; all NULL where a group is new.
        """
        groups = len(starts) - 1
        native = self._is_native(len(times))
        if states is None:
            states = self.no_states(groups)
        given = [values_of(column, one.type, native=native) for column, one in self._typed(arguments)]
        nulls = any(bool(np.any(np.asarray(mask))) for _values, mask in given) or _has_nulls(states, self.program)
        program = self.program if nulls or not native else self._lean
        shown, fresh, refs = self._shown(states, passed)
        told: list[Any] = [
            _as(starts, native), _as(times, native), fresh, upto, self._form.length or 0,
            self._form.slide or 1, math.gcd(self._form.length or 1, self._form.slide or 1),
        ]  # fmt: skip
        scalars = [_scalar(states, name, type_, native) for name, type_ in _SCALARS]
        lasts, helds = (_as(one, native) for one in refs[:2])
        dues = _as(np.full(groups, NEVER), native)
        told += [*scalars, lasts, helds, dues]
        for values, mask in given:
            told += [values, mask] if nulls or not native else [values]
        for section in program.sections:
            told += self._taken(section, states, refs[2], native)
        # A DECIMAL has up to 38 digits, and a product of two twice as many.
        with decimal.localcontext(prec=80):
            made = (native_run if native else plain_run)(program.text)(*told)
        return self._results(program, made, shown, scalars, (lasts, helds, dues), groups)

    def no_states(self, groups: int) -> pa.Table:
        """What so many new groups keep: nothing."""
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.state_columns])
        return pa.table([pa.nulls(groups, field.type) for field in schema], schema=schema)

    def scalars_of(self, states: pa.Table) -> dict[str, pa.Array]:
        """What groups keep besides rows, as it was or as it is when they begin."""
        found = {name: _scalar(states, name, type_, True) for name, type_ in _SCALARS}
        return {f"__{name}": pa.array(values) for name, values in found.items()}

    # --- In ------------------------------------------------------------------------------------------------------

    @property
    def _lean(self) -> Program:
        """The program for arguments that are never NULL."""
        return _lean_program(self)

    def _typed(self, arguments: Sequence[pa.ChunkedArray]) -> list[tuple[pa.ChunkedArray, Column]]:
        return list(zip(arguments, self.program.parameters, strict=True))

    def _shown(self, states: pa.Table, passed: pa.Table) -> tuple[pa.Table, int, tuple[np.ndarray, ...]]:
        """Rows that results may stand for: those remembered and then the new ones; and where the former are."""
        groups = states.num_rows
        nothing = np.full(groups, -1, dtype=np.int64)
        if not self.remembers_rows:
            return passed, 0, (nothing, nothing, np.empty(0, dtype=np.int64))
        tables, window = [], np.empty(0, dtype=np.int64)
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.passed])
        at = 0
        for section in self.program.sections:
            if section.referring:
                _offsets, keys = flattened(states.column(_name(section, "key")))
                window = np.arange(len(keys), dtype=np.int64)
                beside = [flattened(states.column(_name(section, f"beside_{c.name}")))[1] for c in self.passed]
                tables.append(pa.table(beside, schema=schema) if beside else _rows(len(keys)))
                at += len(keys)
        refs = []
        for which in ("last", "held"):
            if self.program.referring:
                kept = [states.column(f"__{which}_{c.name}") for c in self.passed]
                tables.append(pa.table(kept, schema=schema) if kept else _rows(groups))
                refs.append(np.arange(at, at + groups, dtype=np.int64))
                at += groups
            else:
                refs.append(nothing.copy())
        if not self.passed:
            return _rows(at + passed.num_rows), at, (*refs, window)
        return pa.concat_tables([*tables, passed.select(schema.names).cast(schema)]), at, (*refs, window)

    def _taken(self, section: Section, states: pa.Table, refs: np.ndarray, native: bool) -> list[Any]:
        first = "key" if section.keyed else section.numbers[0] if section.numbers else "rows"
        offsets, rows = flattened(states.column(_name(section, first)))
        found: list[Any] = [_as(offsets, native)]
        if section.keyed:
            found.append(values_of(rows, "BIGINT", native=native)[0])
        if section.referring:
            found.append(_as(refs, native))
        for number, type_ in zip(section.numbers, section.types, strict=True):
            _offsets, values = flattened(states.column(_name(section, number)))
            found += values_of(values, type_, native=native)
        return found

    # --- Out -----------------------------------------------------------------------------------------------------

    def _results(
        self, program: Program, made: tuple[Any, ...], shown: pa.Table, scalars: list[Any], kept: tuple[Any, ...],
        groups: int,
    ) -> Ran:  # fmt: skip
        count, places, times, *rest = made
        columns = []
        for column in program.returns:
            columns.append(column_of(rest[0], rest[1], count, column.type))
            rest = rest[2:]
        states: dict[str, pa.Array] = {}
        for (name, type_), values in zip(_SCALARS, scalars, strict=True):
            states[f"__{name}"] = column_of(values, np.zeros(groups, np.bool_), groups, type_)
        states["__due"] = pa.array(np.asarray(kept[2], dtype=np.int64))
        for section in program.sections:
            rest = self._kept(section, rest, shown, states, program)
        if self.program.referring:
            for which, refs in zip(("last", "held"), kept[:2], strict=True):
                at = pa.array(np.asarray(refs, dtype=np.int64))
                for column in self.passed:
                    states[f"__{which}_{column.name}"] = shown.column(column.name).combine_chunks().take(at)
        ordered = pa.table({column.name: states[column.name] for column in self.state_columns})
        names = [f"r{number}" for number in range(len(columns))]
        return Ran(
            np.asarray(places[:count], dtype=np.int64), np.asarray(times[:count], dtype=np.int64),
            pa.table(columns, names=names), shown, ordered, np.asarray(kept[2], dtype=np.int64),
        )  # fmt: skip

    def _kept(
        self, section: Section, rest: list[Any], shown: pa.Table, states: dict[str, pa.Array], program: Program
    ) -> list[Any]:
        """What a group keeps of one section, put among `states`; gives what comes after it."""
        rows, offsets, *rest = rest
        if section.keyed:
            keys, *rest = rest
            states[_name(section, "key")] = list_column(offsets, pa.array(np.asarray(keys[:rows], dtype=np.int64)))
        if section.referring:
            refs, *rest = rest
            at = pa.array(np.asarray(refs[:rows], dtype=np.int64))
            for column in self.passed:
                beside = shown.column(column.name).combine_chunks().take(at)
                states[_name(section, f"beside_{column.name}")] = list_column(offsets, beside)
        for number, type_ in zip(section.numbers, section.types, strict=True):
            values, nulls, *rest = rest
            if not (section.prefix in ("p", "q") or (section.prefix, number) in program.nullable):
                nulls = np.zeros(rows, dtype=np.bool_)
            states[_name(section, number)] = list_column(offsets, column_of(values, nulls, rows, type_))
        if not section.keyed and not section.numbers:
            states[_name(section, "rows")] = list_column(offsets, pa.array(np.zeros(rows, dtype=np.int64)))
        return rest


@lru_cache(maxsize=256)
def _lean_program(machine: Machine) -> Program:
    return machine._program(nulls=False)


def _name(section: Section, what: str | int) -> str:
    return f"{section.prefix}_{what}"


def _rows(count: int) -> pa.Table:
    """Rows without columns, told apart by their number alone."""
    return pa.table({"__none": pa.nulls(count)})


def _as(numbers: np.ndarray, native: bool) -> Any:
    found = np.ascontiguousarray(numbers, dtype=np.int64)
    return found if native else found.tolist()


def _scalar(states: pa.Table, name: str, type_: str, native: bool) -> Any:
    array = states.column(f"__{name}").combine_chunks()
    kind: Any = np.bool_ if type_ == "BOOLEAN" else np.int64
    start = NO_SLOT if name.startswith("slot") else False if type_ == "BOOLEAN" else 0
    values = np.array(array.fill_null(start).to_numpy(zero_copy_only=False), dtype=kind)
    return values if native else values.tolist()


def _has_nulls(states: pa.Table, program: Program) -> bool:
    """Whether anything that groups keep is NULL inside its list."""
    for section in program.sections:
        for number in section.numbers:
            if flattened(states.column(_name(section, number)))[1].null_count:
                return True
    return False


def overflow(name: str) -> EngineError:
    """A number that does not fit where it is to be stored."""
    return EngineError(
        "ARITHMETIC_OVERFLOW",
        f"A number became too large in {name}.",
        hint="Give the state's column or the result a wider type, such as BIGINT or DOUBLE.",
    )
