"""What becomes of rows on arrival: their time, whether they are late, and the log rows they turn into.

A function on Arrow tables, so it runs in the driver for a feed and inside the engine's tasks for large files. It is
pure but for enforced foreign keys, which are looked up in the logs they name.

Rows arrive in *units*. For a feed, an INSERT or a port the unit is the row: each row is judged against all rows before
it, so cutting a feed into several changes nothing. For a file or a DataFrame the unit is the whole: its rows arrive
together and are judged against what came before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import InputError
from headrace.language.types import arrow_type
from headrace.runtime.key_checks import Check, Fault
from headrace.storage.records import Field, Object

MICROS = 1_000_000
#: Rows of one unit are numbered below this, so that `unit * UNIT_SIZE + row` orders all rows of a stream.
UNIT_SIZE = 1 << 32

_UPSERTS = ["+", "i", "c", "r", "u", "insert", "create", "read", "update", "upsert", "u+"]
_DELETES = ["-", "d", "delete", "remove", "tombstone"]


@dataclass(frozen=True)
class Before:
    """What a stream knew before these rows: its newest time, how far the clock was moved, the next unit's number.

    `ordered` is False when only the clock makes a row late, not the rows before it (the manual clock). `checks` are the
    foreign keys that rows must keep.
    """

    newest: int | None
    closed: int | None
    unit: int
    ordered: bool = True
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Landed:
    """Log rows to keep, late rows by policy, faulty rows with their reasons (position in the input), and the times.

    `conditions` has the condition of a faulty row where it is another than BAD_VALUE.
    """

    rows: pa.Table
    late: pa.Table
    faults: list[tuple[int, str]]
    newest: int | None
    deletes: bool
    conditions: Mapping[int, str] = field(default_factory=dict)


def land(
    stream: Object, table: pa.Table, arrived: pa.Array, before: Before, *, together: bool, first_row: int = 0
) -> Landed:
    """Turn source rows into the stream's log rows.

    `table` has the columns of the stream's source (or its own); `arrived` is each row's time of arrival in
    microseconds. `together` says that the rows are one unit.
    """
    times, faults = _times(stream, table, arrived)
    operations, bad_operations = _operations(stream, table)
    faults += bad_operations
    sequence = np.arange(first_row, first_row + table.num_rows, dtype=np.int64) + before.unit * UNIT_SIZE
    columns = [_column(stream, column, table, times) for column in stream.columns]
    names = [*stream.names, "__t", "__seq"]
    columns += [pa.array(times), pa.array(sequence)]
    if stream.log == "upsert":
        names.append("__op")
        columns.append(operations)
    whole = pa.table(columns, names=names)
    for column in stream.columns:
        if column.not_null and whole.column(column.name).null_count:
            missing = np.flatnonzero(pc.is_null(whole.column(column.name)).to_numpy(zero_copy_only=False))
            faults += [(int(row), f"{column.name}: NULL in a NOT NULL column") for row in missing]
    # Of a row with several faults the plain ones are told first.
    broken = _broken_keys(before, whole, times, operations)
    faults = sorted(faults) + [(fault.row, fault.reason) for fault in broken]
    faults.sort(key=lambda fault: fault[0])
    sound = np.ones(table.num_rows, dtype=bool)
    sound[[row for row, _reason in faults]] = False
    late = sound & _late(stream, times, sound, before, together)
    kept = sound & ~late if stream.option("late", "divert") != "merge" else sound
    in_time = times[sound & ~late]
    newest = max([int(in_time.max())] if len(in_time) else [], default=None)
    if before.newest is not None:
        newest = before.newest if newest is None else max(newest, before.newest)
    rows = whole if kept.all() else whole.filter(pa.array(kept))
    deletes = stream.log == "upsert" and bool(pc.any(pc.equal(rows.column("__op"), "-")).as_py())
    behind = whole.filter(pa.array(late)) if late.any() else whole.slice(0, 0)
    return Landed(rows, behind, faults, newest, deletes, {fault.row: fault.condition for fault in broken})


def _broken_keys(before: Before, rows: pa.Table, times: np.ndarray, operations: pa.Array) -> list[Fault]:
    if not before.checks:
        return []
    deletes = np.asarray(pc.equal(operations, "-").to_numpy(zero_copy_only=False), dtype=bool)
    return [fault for check in before.checks for fault in check.faults(rows, times, deletes)]


def _times(stream: Object, table: pa.Table, arrived: pa.Array) -> tuple[np.ndarray, list[tuple[int, str]]]:
    if stream.time_kind != "external":
        return np.asarray(arrived.to_numpy(zero_copy_only=False), dtype=np.int64), []
    column = table.column(_named(table, stream.time_column or ""))
    absent = pc.is_null(column)
    micros = pc.fill_null(micros_of(column), 0).to_numpy().astype(np.int64)
    faults = [
        (int(row), f"{stream.time_column}: NULL, but the stream is ordered by it")
        for row in np.flatnonzero(absent.to_numpy())
    ]
    return micros, faults


def micros_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds: timestamps and dates as they are, numbers as seconds since the epoch."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_integer(kind):
        return pc.multiply(column.cast(pa.int64()), MICROS)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.round(pc.multiply(column.cast(pa.float64()), float(MICROS))).cast(pa.int64())
    raise InputError("NOT_A_TIME", f"A column of type {kind} cannot order a stream.")


def _operations(stream: Object, table: pa.Table) -> tuple[pa.Array, list[tuple[int, str]]]:
    name = stream.option("op")
    if name is None:
        return pa.repeat(pa.scalar("+"), table.num_rows), []
    given = table.column(_named(table, name))
    deletes, known = deleting(given)
    unknown = np.flatnonzero(~np.asarray(known.to_numpy(), dtype=bool))
    faults = [
        (int(row), f"{name}: {str(given[int(row)]).lower()!r} is no operation; use '+', 'u' or '-'") for row in unknown
    ]
    return pc.if_else(deletes, "-", "+"), faults


def deleting(operations: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Which operations delete, and which are operations at all. NULL is an upsert."""
    given = pc.utf8_lower(pc.fill_null(operations.cast(pa.string()), "+"))
    deletes = pc.is_in(given, pa.array(_DELETES))
    return deletes, pc.or_(deletes, pc.is_in(given, pa.array(_UPSERTS)))


def _column(stream: Object, field: Field, table: pa.Table, times: np.ndarray) -> pa.ChunkedArray | pa.Array:
    wanted = arrow_type(field.type)
    if stream.time_kind == "internal" and field.name == stream.time_column:
        return pa.array(times).cast(pa.timestamp("us")).cast(wanted)
    column = table.column(_named(table, field.name))
    return column if column.type.equals(wanted) else column.cast(wanted)


def _named(table: pa.Table, name: str) -> int:
    for index, other in enumerate(table.column_names):
        if other.lower() == name.lower():
            return index
    raise InputError(
        "MISSING_COLUMN",
        f"The rows have no column {name}.",
        detail=f"They have: {', '.join(table.column_names)}.",
    )


def _late(stream: Object, times: np.ndarray, sound: np.ndarray, before: Before, together: bool) -> np.ndarray:
    """Which rows are behind: before the newest time seen less the slack, or before where the clock was moved to."""
    late = np.zeros(len(times), dtype=bool)
    if not len(times):
        return late
    if before.closed is not None:
        late |= times < before.closed
    if stream.time_kind != "external" or not before.ordered:
        return late
    slack = int(stream.option("slack") or 0)
    lowest = np.iinfo(np.int64).min // 2
    start = lowest if before.newest is None else before.newest
    if together:
        return late | (times < start - slack)
    # The newest time each row finds: that of all sound rows before it. A late row cannot move it.
    considered = np.where(sound, times, lowest)
    seen = np.maximum.accumulate(np.concatenate(([start], considered[:-1])))
    return late | (times < seen - slack)
