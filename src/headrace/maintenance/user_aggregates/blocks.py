"""A SELECT with calls of aggregates over the rows it reads, in the order of the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headrace.algebra.user_aggregates.checking import lookup
from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import Form, way_of
from headrace.language.statement import Column
from headrace.language.types import ddl_type
from headrace.maintenance.kernels.tables import heads
from headrace.maintenance.user_aggregates.batches import machine_of
from headrace.maintenance.user_aggregates.machine import Machine, Ran, overflow
from headrace.storage.bags import codes


@dataclass(frozen=True)
class Call:
    """One call: its versions and window, and columns of the rows it reads.

    `arguments` and `partition` name columns; `results` are the names of its results, as many as it returns columns.
    Arguments are in the types of the parameters, where those have types.
    """

    versions: Versions
    form: Form
    arguments: tuple[str, ...]
    partition: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """All calls of one SELECT, and the columns of its rows that are shown beside their results."""

    calls: tuple[Call, ...]
    passed: tuple[str, ...]
    streaming: bool
    known: Mapping[str, Versions] = field(default_factory=dict)

    def machines(self, schema: pa.Schema, *, ends: bool, native: bool | None = None) -> list[Machine]:
        """A machine for each call, for rows of this schema."""
        beside = [*self.passed, *([ID] if len(self.calls) > 1 else [])]
        passed = [Column(name, ddl_type(schema.field(name).type)) for name in beside]
        return [self._machine(call, schema, passed, ends, native) for call in self.calls]

    def _machine(
        self, call: Call, schema: pa.Schema, passed: Sequence[Column], ends: bool, native: bool | None
    ) -> Machine:
        types = [ddl_type(schema.field(name).type) for name in call.arguments]
        way = way_of(call.versions, call.form, streaming=self.streaming)
        known = {**self.known, call.versions.name.lower(): call.versions}
        return machine_of(
            call.versions, call.form, way, lambda name, given: lookup(known, name, given), types, passed, ends=ends,
            native=native,
        )  # fmt: skip


#: What tells the rows of a block apart, where several calls have results for the same row.
ID = "__id"


@dataclass(frozen=True)
class Groups:
    """Rows put together by group: `order` says where they were, `first` where each group has its first row."""

    order: np.ndarray
    starts: np.ndarray

    @property
    def first(self) -> np.ndarray:
        return self.order[self.starts[:-1]]


def grouped(rows: pa.Table, partition: Sequence[str]) -> Groups:
    """The groups of some rows, which stand in the order of the stream. NULL is a group like any other."""
    if not partition:
        ends = [0, rows.num_rows] if rows.num_rows else [0]
        return Groups(np.arange(rows.num_rows), np.array(ends, dtype=np.int64))
    ids = codes(rows, list(partition))
    # Numbers of two bytes are sorted by counting.
    few = rows.num_rows and int(ids.max()) < 1 << 16
    order = np.argsort(ids.astype(np.uint16) if few else ids, kind="stable")
    return Groups(order, np.append(heads(ids[order]), rows.num_rows).astype(np.int64))


def run_call(machine: Machine, call: Call, rows: pa.Table, groups: Groups, states: pa.Table | None, upto: int) -> Ran:
    """One call over rows that stand in the order of the stream. Its results stand for rows as they stand there."""
    beside = [column.name for column in machine.passed]
    if call.partition:
        at = pa.array(groups.order)
        arguments = [rows.column(name).take(at) for name in call.arguments]
        passed = rows.select(beside).take(at) if machine.remembers_rows else rows.select(beside)
        times = rows.column("__t").to_numpy()[groups.order]
    else:
        arguments, passed = [rows.column(name) for name in call.arguments], rows.select(beside)
        times = rows.column("__t").to_numpy()
    try:
        ran = machine.run(arguments, passed, groups.starts, times, states, upto)
    except OverflowError as error:
        raise overflow(call.versions.name) from error
    return ran if machine.remembers_rows or not call.partition else replace(ran, places=groups.order[ran.places])


def results(block: Block, machines: Sequence[Machine], ran: Sequence[Ran]) -> pa.Table:
    """What a block tells: `passed`, the results of all its calls, `__t`; in no order."""
    tables = []
    for call, machine, one in zip(block.calls, machines, ran, strict=True):
        shown = one.shown.select([column.name for column in machine.passed]).take(pa.array(one.places))
        columns = {name: shown.column(name) for name in shown.column_names}
        columns |= {name: one.values.column(number) for number, name in enumerate(call.results)}
        columns["__t"] = pa.chunked_array([pa.array(one.times)])
        tables.append(pa.table(columns))
    first, *others = tables if len(tables) == 1 else _together(tables)
    columns = {name: first.column(name) for name in (*block.passed, "__t")}
    for call, table in zip(block.calls, (first, *others), strict=True):
        columns |= {name: table.column(name) for name in call.results}
    names = [*block.passed, *(name for call in block.calls for name in call.results), "__t"]
    return pa.table({name: columns[name] for name in names})


def _together(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The results of several calls, each put beside those of the others for the same row at the same time.

    A row is told with one result of each call; where a call has none, it is not told. Only numbers are joined: columns
    may be of any type.
    """
    keys = [ID, "__t"]
    joined: pa.Table | None = None
    for number, table in enumerate(tables):
        numbered = table.select(keys).append_column(f"__{number}", pa.array(np.arange(table.num_rows)))
        joined = numbered if joined is None else joined.join(numbered, keys, join_type="inner")
    assert joined is not None
    return [table.take(joined.column(f"__{number}")) for number, table in enumerate(tables)]


def run_whole(block: Block, rows: pa.Table, upto: int | None) -> pa.Table:
    """All results over all rows, which stand in the order of the stream: `passed`, the results, `__t`, by time.

    Rows have `__t` (microseconds, int64). `upto` is the time of the clock, up to which rows leave windows by
    themselves; None: as far as the rows tell.
    """
    if upto is None:
        upto = max(rows.column("__t").to_pylist(), default=0)
    if len(block.calls) > 1 and ID not in rows.column_names:
        rows = rows.append_column(ID, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    machines = block.machines(rows.schema, ends=True)
    ran = [
        run_call(machine, call, rows, grouped(rows, call.partition), None, upto)
        for machine, call in zip(machines, block.calls, strict=True)
    ]
    found = results(block, machines, ran)
    return found.take(pa.array(np.argsort(found.column("__t").to_numpy(), kind="stable")))
