"""Synchronization streams (SyncSQL 3.2): the clock stream, and which relations can synchronize others.

The clock stream has a row for every second that the clock has passed. It is made when a statement first names it,
begins with the oldest moment the home knows of, and goes on in the transaction of every refresh, before any view.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.errors import DefinitionError, EngineError, Place
from headrace.language import Query
from headrace.runtime.home import Home
from headrace.storage.catalog import Snapshot
from headrace.storage.records import CLOCK, Field, Object
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS, write_table

#: More seconds than these at once are taken for a slip in some row's time.
MOST_TICKS = 5_000_000


def reads_clock_stream(query: Query) -> bool:
    """Whether a query names the clock stream."""
    return any(ref.name.lower() == CLOCK.lower() for ref in query.relations())


def ensure_clock_stream(home: Home, query: Query) -> None:
    """Make the clock stream if a query names it and it is not there yet."""
    if not reads_clock_stream(query) or home.snapshot().get(CLOCK) is not None:
        return
    with home.transaction("the clock stream") as transaction:
        clock = Object(
            0, CLOCK, "stream", "append", f"CREATE STREAM {CLOCK} (Timepoint TIMESTAMP) ORDER BY Timepoint",
            (Field("Timepoint", "TIMESTAMP", not_null=True),), None, time_column="Timepoint", time_kind="external",
            system=True, options={"clock": True},
        )  # fmt: skip
        transaction.create(clock, [])
    with home.transaction("the clock stream begins") as transaction:
        tick(home, transaction)


def tick(home: Home, transaction: Transaction) -> None:
    """Let the clock stream go on to where the clock is."""
    clock = next((item for item in transaction.base.objects("stream") if item.option("clock")), None)
    now = home.relations(transaction).clock
    if clock is None or now is None:
        return
    parts = transaction.parts(clock)
    newest = max((part.newest for part in parts if part.newest is not None), default=None)
    first = _beginning(transaction, now) if newest is None else newest // MICROS + 1
    seconds = np.arange(first, now // MICROS + 1, dtype=np.int64)
    if len(seconds) > MOST_TICKS:
        raise EngineError(
            "CLOCK_TOO_FAR",
            f"The clock would go on by {len(seconds):,} seconds at once, and views read the clock stream.",
            hint="Look for rows with a wrong time, or drop the views over clockStr and use REFRESH EVERY.",
        )
    times = pa.array(seconds * MICROS)
    rows = pa.table({
        "Timepoint": times.cast(pa.timestamp("us", tz="UTC")), "__t": times,
        "__seq": pa.array(np.arange(len(seconds), dtype=np.int64)),
    })  # fmt: skip
    write_table(transaction, clock, rows, inserts_only=True)


def _beginning(transaction: Transaction, now: int) -> int:
    """The first second: that of the oldest row, or now."""
    times: list[int] = [
        part.oldest
        for item in transaction.base.objects("stream", "table")
        if not item.system
        for part in transaction.parts(item)
        if part.oldest is not None
    ]
    return min([*times, now]) // MICROS


def synchronization_stream(snapshot: Snapshot, name: str, place: Place | None) -> Object:
    """The stream that synchronizes a view: a relation of moments that come when they are."""
    item = snapshot.find(name, "stream", "view")
    time = item.time_column or "TS"
    if len(item.columns) != 1 or item.columns[0].type.upper() != "TIMESTAMP":
        raise DefinitionError(
            "NOT_A_SYNCHRONIZATION",
            f"{item.name} has the columns {', '.join(item.names)}; a synchronization stream has one, of type "
            "TIMESTAMP: the moments at which it ticks.",
            hint=f"CREATE STREAMED VIEW ticks AS SELECT {time} FROM {item.name}, and SYNC BY ticks.",
            place=place,
        )
    if item.log == "state":
        raise DefinitionError(
            "NOT_A_SYNCHRONIZATION",
            f"{item.name} keeps only its newest content, and not when its moments came.",
            hint=f"CREATE OR REPLACE STREAMED VIEW {item.name} AS ...",
            place=place,
        )
    return item
