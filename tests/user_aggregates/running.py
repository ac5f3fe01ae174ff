"""Calls of aggregates run over rows in memory: all at once, and in pieces with states carried between them.

Rows are tuples whose first value is the time in seconds; the others go into the columns that a test names.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.algebra.user_aggregates.checking import check
from headrace.algebra.user_aggregates.definition import Versions, definition_of
from headrace.algebra.user_aggregates.forms import Form
from headrace.language import CreateAggregate, parse
from headrace.language.types import arrow_type
from headrace.maintenance.user_aggregates.blocks import ID, Block, Call, Groups, grouped, results, run_call, run_whole
from headrace.maintenance.user_aggregates.machine import Machine

SECOND = 1_000_000
Row = tuple[Any, ...]


def defined(text: str, known: Mapping[str, Versions] | None = None) -> Versions:
    """The versions that a script of CREATE AGGREGATE statements defines under its last name, all checked."""
    found = dict(known or {})
    name = ""
    for statement in parse(text):
        assert isinstance(statement, CreateAggregate)
        definition = definition_of(statement)
        check(definition, found)
        name = definition.name.lower()
        found[name] = found.get(name, Versions(definition.name)).with_version(definition)
    return found[name]


def rows_over(length: int | None, slide: int | None = None) -> Form:
    """ROWS, the row itself among them."""
    return Form("rows", length, slide)


def range_over(length: float | None, slide: float | None = None, *, active: bool = False) -> Form:
    """RANGE, in seconds."""
    return Form("range", _micros(length), _micros(slide), active)


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * SECOND)


def table_of(given: Sequence[Row], columns: Mapping[str, str]) -> pa.Table:
    """Rows as the kernel reads them."""
    arrays = {"__t": pa.array([int(row[0] * SECOND) for row in given], pa.int64())}
    for number, (name, type_) in enumerate(columns.items(), 1):
        arrays[name] = pa.array([row[number] for row in given], arrow_type(type_))
    return pa.table(arrays)


def call_of(
    versions: Versions, form: Form, arguments: Sequence[str], partition: Sequence[str] = (), results: Sequence[str] = ()
) -> Call:
    names = results or [column.name if number else "r" for number, column in enumerate(versions.any.returns)]
    return Call(versions, form, tuple(arguments), tuple(partition), tuple(names))


def whole(block: Block, rows: pa.Table, upto: float) -> list[Row]:
    """What a block tells of all rows at once: the columns it passes, its results, and the time in seconds."""
    return told(run_whole(block, rows, int(upto * SECOND)))


def told(found: pa.Table) -> list[Row]:
    return [(*list(row.values())[:-1], row["__t"] / SECOND) for row in found.to_pylist()]


def pieces(
    block: Block, rows: pa.Table, upto: float, cuts: Sequence[int], *, native: bool = False, lag: float = 0.0
) -> list[Row]:
    """The same of rows that come in pieces. All that is kept goes through a file between them, as over a restart.

    The clock stands at the last row of a piece, or `lag` seconds before it.
    """
    rows = rows if ID in rows.column_names else rows.append_column(ID, pa.array(np.arange(rows.num_rows)))
    machines = block.machines(rows.schema, ends=False, native=native)
    kept: list[dict[Row, dict[str, Any]]] = [{} for _call in block.calls]
    found: list[Row] = []
    bounds = [0, *sorted(cuts), rows.num_rows]
    for number, (first, last) in enumerate(pairwise(bounds)):
        piece = rows.slice(first, last - first).combine_chunks()
        clock = rows.column("__t")[last - 1].as_py() - int(lag * SECOND) if last else 0
        clock = int(upto * SECOND) if number == len(bounds) - 2 else clock
        ran = [
            _ran(machine, call, piece, states, clock)
            for machine, call, states in zip(machines, block.calls, kept, strict=True)
        ]
        if all(one is not None for one in ran):
            found += told(results(block, machines, [one for one in ran if one is not None]))
    return found


def _ran(machine: Machine, call: Call, piece: pa.Table, kept: dict[Row, dict[str, Any]], clock: int) -> Any:
    """One call over one piece, for the groups that it has and all that were there before."""
    groups = grouped(piece, call.partition)
    keys = [tuple(piece.column(name)[int(at)].as_py() for name in call.partition) for at in groups.first]
    others = [key for key in kept if key not in keys]
    if not keys and not others:
        return None
    starts = groups.starts if len(groups.starts) else np.array([0])
    starts = np.concatenate([starts, np.full(len(others), piece.num_rows)]).astype(np.int64)
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in machine.state_columns])
    states = pa.Table.from_pylist([kept.get(key, {}) for key in (*keys, *others)], schema=schema)
    ran = run_call(machine, call, piece, Groups(groups.order, starts), states, clock)
    kept.update(zip((*keys, *others), _through_a_file(ran.states).to_pylist(), strict=True))
    return ran


def _through_a_file(states: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, states.schema) as writer:
        writer.write_table(states)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_all()


def some_cuts(count: int, seed: int) -> list[int]:
    """Where rows are cut into pieces, some of them empty."""
    chance = random.Random(seed)
    return [chance.randint(0, count) for _number in range(chance.randint(0, 4))]


def same(got: Sequence[Row], wanted: Sequence[Row], *, close: float | None = None) -> None:
    """The same rows, in any order of those that are told at one time."""
    assert len(got) == len(wanted), (got, wanted)
    for one, two in zip(sorted(got, key=_order), sorted(wanted, key=_order), strict=True):
        if close is None:
            assert one == two, (got, wanted)
            continue
        for mine, other in zip(one, two, strict=True):
            if isinstance(mine, float) and isinstance(other, float):
                assert abs(mine - other) <= close * max(1.0, abs(other)), (one, two)
            else:
                assert mine == other, (one, two)


def _order(row: Row) -> tuple[Any, ...]:
    return (row[-1], *(repr(value) for value in row[:-1]))
