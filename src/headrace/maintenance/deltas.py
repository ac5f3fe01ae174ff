"""What changed in a stored relation between two readings of it, as signed rows.

A log's rows that have come since, or that were waiting for the clock, are its change. What a view holds is known as a
set of files that never change: so its change is what the new files say, less what the files that are gone said.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language.types import arrow_type
from headrace.maintenance.logs import Logs, listed, log_fields, relation_fields
from headrace.maintenance.relations import least
from headrace.storage.bags import consolidate, netted
from headrace.storage.records import Object, Part

#: Up to so many rows a change is read here and given to the engine; beyond, the engine reads it itself.
SMALL = 200_000
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class NoDelta(Exception):
    """A relation's change cannot be told; the message says why."""


@dataclass(frozen=True)
class Position:
    """How far a reader has come: up to which time, in which snapshot."""

    reach: int | None
    snapshot: int


@dataclass(frozen=True)
class Delta:
    """Signed rows: the columns a query sees, `__t`, `__w`. `oldest` is the earliest time at which anything changed.

    They are a table where they are at hand, and else a frame of the engine's. The oldest time may be before all of the
    rows: an upsert that came late is not in them, but the key's past is another. `dying` are rows that came, with their
    death `__exp`, for a plan that needs no more, or that too. `inserts_only`: no row is taken away, as far as that is
    known.
    """

    changes: Any
    rows: int
    oldest: int | None
    dying: Any = None
    inserts_only: bool = False


@dataclass(frozen=True)
class LogRows:
    """Rows of a log, not read yet: some parts whole, others only within times."""

    fresh: tuple[Part, ...]
    waiting: tuple[Part, ...]
    since: int | None
    upto: int | None

    @property
    def files(self) -> tuple[object, ...]:
        """What tells these rows from others."""
        bounds = (self.since,) if self.waiting else ()
        return (
            frozenset(part.files for part in self.fresh),
            frozenset(part.files for part in self.waiting),
            bounds,
            self.upto,
        )

    @property
    def most(self) -> int:
        return sum(part.rows for part in (*self.fresh, *self.waiting))

    @property
    def oldest(self) -> int | None:
        """No row is older."""
        waiting = [self.since + 1] if self.waiting and self.since is not None else []
        return min([*waiting, *(part.oldest for part in self.fresh if part.oldest is not None)], default=None)


def rows_since(parts: Sequence[Part], since: Position, upto: int | None) -> LogRows:
    """The rows that have come after a reading, and those that were there and have been released since."""
    fresh = tuple(part for part in parts if part.arrived_in > since.snapshot and not _beyond(part, upto))
    waiting: tuple[Part, ...] = ()
    if since.reach is not None and (upto is None or upto > since.reach):
        waiting = tuple(
            part
            for part in parts
            if part.arrived_in <= since.snapshot
            and part.newest is not None
            and part.newest > since.reach
            and not _beyond(part, upto)
        )
    return LogRows(fresh, waiting, since.reach, upto)


def _beyond(part: Part, upto: int | None) -> bool:
    return upto is not None and part.oldest is not None and part.oldest > upto


def read_here(logs: Logs, item: Object, rows: LogRows) -> pa.Table:
    """A few rows, as they are stored."""
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in log_fields(item)])
    tables = []
    for parts, since in ((rows.fresh, None), (rows.waiting, rows.since)):
        paths = [path for part in parts for path in part.files]
        if paths:
            table = pa.concat_tables([t.select(schema.names).cast(schema) for t in logs.recent.read(paths)])
            tables.append(within(table, since, rows.upto))
    return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()


def within(table: pa.Table, since: int | None, upto: int | None) -> pa.Table:
    """Rows of a log that are after a time and not after another."""
    if since is not None:
        table = table.filter(pc.greater(table.column("__t"), since))
    return table if upto is None else table.filter(pc.less_equal(table.column("__t"), upto))


def read_there(logs: Logs, item: Object, rows: LogRows) -> Any:
    """Many rows, as the engine reads them."""
    fresh = logs.rows(item, rows.fresh, rows.upto)
    if not rows.waiting:
        return fresh
    waiting = logs.rows(item, rows.waiting, rows.upto, rows.since)
    return logs.engine.sql(
        "SELECT * FROM fresh_ UNION ALL SELECT * FROM waiting_", {"fresh_": fresh, "waiting_": waiting}
    )


def appended(
    logs: Logs, item: Object, rows: LogRows, *, timed: bool, shown: Set[str] | None = None, most: int = SMALL
) -> Delta:
    """The change of an append or signed log. `shown` are the columns that are read, where that is known."""
    if rows.most <= most:
        table = read_here(logs, item, rows)
        weights = table.column("__w") if item.log == "signed" else pa.array(np.ones(table.num_rows, dtype=np.int64))
        times = table.column("__t")
        return signed_table(item, table, times, times, weights, oldest=rows.oldest, timed=timed, shown=shown)
    moment = "__t" if timed else "CAST(0 AS BIGINT) AS __t"
    weight = "__w" if item.log == "signed" else "CAST(1 AS BIGINT) AS __w"
    stamp = ", timestamp_micros(__t) AS TS" if item.option("exposes_ts") else ""
    text = f"SELECT {listed(item.names)}{stamp}, {moment}, {weight} FROM log_rows"
    return Delta(logs.engine.sql(text, {"log_rows": read_there(logs, item, rows)}), rows.most, rows.oldest)


def signed_table(
    item: Object,
    table: pa.Table,
    times: Any,
    born: Any,
    weights: Any,
    *,
    oldest: int | None,
    timed: bool,
    shown: Set[str] | None = None,
) -> Delta:
    """A change that is at hand. `born` is when each row came to be, which a query may see as TS."""
    # Rows that differ in what nobody reads net to nothing, and need not be told apart.
    columns = {name: table.column(name) for name in item.names if shown is None or name in shown}
    if item.option("exposes_ts") and (shown is None or "TS" in shown):
        columns["TS"] = born.cast(_TIMESTAMP)
    zeros = pa.array(np.zeros(table.num_rows, dtype=np.int64))
    signed = netted(pa.table({**columns, "__t": times if timed else zeros, "__w": weights}))
    inserts = bool(pc.all(pc.greater(signed.column("__w"), 0)).as_py()) if signed.num_rows else True
    return Delta(signed, signed.num_rows, oldest, inserts_only=inserts)


def between(
    logs: Logs,
    item: Object,
    before: Sequence[Part],
    after: Sequence[Part],
    upto: int | None,
    *,
    since: int | None = None,
    timed: bool,
    shown: Set[str] | None = None,
    most: int = SMALL,
) -> Delta:
    """The change of a view's content between two sets of its parts, of which one was read up to `since`.

    Without `since` it was read as a whole.
    """
    old, new = {part.files for part in before}, {part.files for part in after}
    came = [part for part in after if part.files not in old]
    gone = [part for part in before if part.files not in new]
    times = item.log == "signed"
    if timed and not times:
        raise NoDelta(f"{item.name} keeps only its newest content, not when it changed")
    # What was there, and was not yet to be seen.
    waiting = [] if since is None else [part for part in after if part.files in old and (part.newest or since) > since]
    total = sum(part.rows for part in (*came, *gone, *waiting))
    if total <= most:
        read = (
            (LogRows(tuple(came), tuple(waiting), since, upto if times else None), 1),
            (LogRows(tuple(gone), (), None, least(since, upto) if times else None), -1),
        )
        pieces = [(read_here(logs, item, rows), sign) for rows, sign in read]
        table = pa.concat_tables([piece for piece, _sign in pieces])
        weights = np.concatenate([piece.column("__w").to_numpy() * sign for piece, sign in pieces])
        table = table.set_column(table.column_names.index("__w"), "__w", pa.array(weights))
        # Files that were only rolled up take back what others put in their place.
        table = consolidate(table.combine_chunks())
        moments = table.column("__t") if times else pa.array(np.zeros(table.num_rows, dtype=np.int64))
        oldest = pc.min(moments).as_py() if times else None
        signs = table.column("__w")
        return signed_table(item, table, moments, moments, signs, oldest=oldest, timed=timed, shown=shown)
    listed_ = ", ".join(listed([field.name]) for field in relation_fields(item))
    moment = "__t" if timed else "CAST(0 AS BIGINT) AS __t"
    frames = {
        "came_": read_there(logs, item, LogRows(tuple(came), tuple(waiting), since, upto)),
        "gone_": logs.rows(item, gone, least(since, upto)),
    }
    text = f"SELECT {listed_}, {moment}, __w FROM came_ UNION ALL SELECT {listed_}, {moment}, -__w AS __w FROM gone_"
    told = [part.oldest for part in (*came, *gone) if part.oldest is not None]
    oldest = min([*told, *([since + 1] if waiting and since is not None else [])], default=None)
    return Delta(logs.engine.sql(text, frames), total, oldest)
