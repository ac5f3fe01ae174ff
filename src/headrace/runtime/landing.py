"""Taking rows in: into every stream over a source, with late and faulty rows where they belong.

All of it happens inside the caller's transaction, so the rows, the source's offset and the counts are committed
together or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.errors import InputError
from headrace.runtime.arrival import Before, Landed, land
from headrace.runtime.foreign_keys import checks_of
from headrace.storage.catalog import Snapshot, now_micros
from headrace.storage.records import LATE_SUFFIX, REJECTED_SUFFIX, Field, Object
from headrace.storage.transactions import Transaction
from headrace.storage.writer import write_table

REJECTED_FIELDS = (Field("line", "STRING"), Field("reason", "STRING"), Field("origin", "STRING"))


@dataclass(frozen=True)
class Reject:
    """Something that arrived and could not be taken in."""

    line: str
    reason: str
    origin: str


def streams_over(snapshot: Snapshot, source: Object) -> list[Object]:
    """The streams a source feeds."""
    return [
        item for item in snapshot.dependents(source) if item.kind == "stream" and not (item.maintained or item.system)
    ]


def arrival_times(transaction: Transaction, mode: str, count: int, at: Sequence[int | None] | None = None) -> pa.Array:
    """Each row's time of arrival: the one given, else the manual clock's, else the wall clock's."""
    now = arrival_time(transaction, mode)
    if at is None:
        return pa.array(np.full(count, now, dtype=np.int64))
    return pa.array([now if time is None else time for time in at], pa.int64())


def arrival_time(transaction: Transaction, mode: str) -> int:
    """The time of what arrives now: never before where the clock was moved to."""
    moved = transaction.advanced_to or 0
    return moved if mode == "manual" else max(moved, now_micros())


def before(transaction: Transaction, stream: Object, mode: str) -> Before:
    """What `stream` knows so far, the transaction's own rows included."""
    progress = transaction.progress(stream)
    return Before(
        progress.newest,
        transaction.advanced_to,
        progress.next_unit,
        ordered=mode != "manual",
        checks=checks_of(transaction, stream),
    )


def land_rows(
    transaction: Transaction,
    stream: Object,
    table: pa.Table,
    arrived: pa.Array,
    mode: str,
    *,
    together: bool = False,
) -> int:
    """Land rows in a stream; a faulty one raises and nothing is taken in. Returns the number of rows."""
    landed = land(stream, table, arrived, before(transaction, stream, mode), together=together)
    if landed.faults:
        row, reason = landed.faults[0]
        raise InputError(
            landed.conditions.get(row, "BAD_VALUE"),
            f"Row {row + 1} for {stream.name}: {reason}.",
            detail="None of the rows was taken in.",
        )
    return keep(transaction, stream, landed)


def land_rows_or_reject(
    transaction: Transaction,
    source: Object,
    streams: Sequence[Object],
    table: pa.Table,
    arrived: pa.Array,
    mode: str,
    origin: str,
) -> int:
    """Land rows in streams; faulty ones go to the source's rejected rows with their reason."""
    total = 0
    for stream in streams:
        # Rows that bring no time of their own are never late: they are as old as their landing.
        known = before(transaction, stream, mode)
        known = known if stream.time_kind == "external" else replace(known, closed=None)
        landed = land(stream, table, arrived, known, together=False)
        reject(
            transaction,
            source,
            [Reject(str(table.slice(row, 1).to_pylist()[0]), reason, origin) for row, reason in landed.faults],
        )
        total += keep(transaction, stream, landed)
    return total


def keep(transaction: Transaction, stream: Object, landed: Landed) -> int:
    """Write what `land` made of some rows and count what went astray."""
    rows = write_table(transaction, stream, landed.rows, inserts_only=not landed.deletes)
    note(transaction, stream, landed.newest, landed.late)
    return rows


def note(transaction: Transaction, stream: Object, newest: int | None, late: pa.Table) -> None:
    """Record a unit's arrival: newest time, next unit, late rows by the stream's policy, and the clock."""
    policy = stream.option("late", "divert")
    progress = transaction.progress(stream)
    transaction.set_progress(
        stream,
        replace(
            progress,
            newest=newest,
            next_unit=progress.next_unit + 1,
            late_rows=progress.late_rows + late.num_rows,
            dropped_rows=progress.dropped_rows + (late.num_rows if policy == "drop" else 0),
        ),
    )
    if late.num_rows and policy == "divert":
        side = transaction.base.find(stream.name + LATE_SUFFIX)
        write_table(transaction, side, late.select([*side.names, "__t", "__seq"]), inserts_only=True)
    advance_by_data(transaction, stream, newest)


def advance_by_data(transaction: Transaction, stream: Object, newest: int | None) -> None:
    """Move the home's clock to the newest time seen, less slack."""
    if newest is None:
        return
    reached = newest - int(stream.option("slack") or 0)
    if transaction.clock is None or reached > transaction.clock:
        transaction.clock = reached


def reject(transaction: Transaction, source: Object, rejects: Sequence[Reject]) -> None:
    """Keep what could not be taken in, with its reason, and count it."""
    if not rejects:
        return
    side = transaction.base.find(source.name + REJECTED_SUFFIX)
    progress = transaction.progress(source)
    now = now_micros()
    numbers = np.arange(len(rejects), dtype=np.int64) + progress.rejected_rows
    table = pa.table(
        {
            "line": pa.array([item.line for item in rejects], pa.string()),
            "reason": pa.array([item.reason for item in rejects], pa.string()),
            "origin": pa.array([item.origin for item in rejects], pa.string()),
            "__t": pa.array(np.full(len(rejects), now, dtype=np.int64)),
            "__seq": pa.array(numbers),
        }
    )
    write_table(transaction, side, table, inserts_only=True)
    transaction.set_progress(source, replace(progress, rejected_rows=progress.rejected_rows + len(rejects)))
