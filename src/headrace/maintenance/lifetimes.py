"""The change of a window on time between two readings of the clock.

A row with time t is in `[RANGE w SLIDE s]` from the first multiple of s at or after t until the first at or after
t + w. So what comes in is told by the rows that arrived, and what goes out by the rows of the log that are a window
older: the stream's own log, in the order of time, is all the state a window needs. Where rows carry their death, nobody
has to be told what goes out, and only what arrived is read (`born`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.algebra.deaths import DEATH
from headrace.language import Window
from headrace.maintenance.deltas import SMALL, Delta, LogRows, read_here, read_there, signed_table
from headrace.maintenance.logs import Logs, listed
from headrace.storage.records import Object, Part

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def windowed(
    logs: Logs,
    item: Object,
    window: Window,
    fresh: LogRows,
    parts: Sequence[Part],
    clock: tuple[int | None, int],
    read_upto: int | None,
    *,
    timed: bool,
) -> Delta:
    """Signed rows of a window over an append log.

    `fresh` are the rows that were not read before, `parts` all others, `clock` what it was then and is now. `read_upto`
    is how far the log was read then: rows of those parts that had to wait are among the fresh ones.
    """
    before, now = clock
    older = _leaving(parts, window, before, now, read_upto)
    if fresh.most + older.most <= SMALL:
        new, old = read_here(logs, item, fresh), read_here(logs, item, older)
        pieces = [_events(new, window, None, now), _events(old, window, before, now)]
        rows = pa.concat_tables([new.take(pieces[0][0]), old.take(pieces[1][0])])
        times, weights = (np.concatenate([piece[n] for piece in pieces]) for n in (1, 2))
        born, moments, signs = rows.column("__t"), pa.array(times), pa.array(weights)
        oldest = int(times.min()) if len(times) else None
        return signed_table(item, rows, moments, born, signs, oldest=oldest, timed=timed)
    frames = {"fresh_": read_there(logs, item, fresh), "older_": read_there(logs, item, older)}
    text = f"{_events_sql(item, window, 'fresh_', None, now, timed)} UNION ALL "
    text += _events_sql(item, window, "older_", before, now, timed)
    earliest = [time for time in (fresh.oldest, None if before is None else before + 1) if time is not None]
    return Delta(logs.engine.sql(text, frames), fresh.most + older.most, min(earliest, default=None))


def born(
    logs: Logs,
    item: Object,
    window: Window,
    fresh: LogRows,
    parts: Sequence[Part],
    clock: tuple[int | None, int],
    read_upto: int | None,
) -> Delta:
    """The rows that come into a window, each with its death; as `windowed`, without what goes."""
    before, now = clock
    # Rows that were there come in only where they waited for a slide.
    unending = replace(window, length=None)
    older = _leaving(parts, unending, before, now, read_upto) if window.slide else LogRows((), (), None, None)
    if fresh.most + older.most > SMALL:
        frames = {"fresh_": read_there(logs, item, fresh), "older_": read_there(logs, item, older)}
        pieces = (("fresh_", None), ("older_", before)) if older.most else (("fresh_", None),)
        text = " UNION ALL ".join(_births_sql(item, window, name, after, now) for name, after in pieces)
        return Delta(logs.engine.sql(text, frames), fresh.most + older.most, fresh.oldest)
    tables = []
    for rows, after in ((read_here(logs, item, fresh), None), (read_here(logs, item, older), before)):
        come, leave = turning(window, rows.column("__t").to_numpy())
        assert leave is not None
        here = np.flatnonzero((come <= now) & (True if after is None else come > after))
        columns = {name: rows.column(name).take(pa.array(here)) for name in item.names}
        if item.option("exposes_ts"):
            columns["TS"] = rows.column("__t").take(pa.array(here)).cast(_TIMESTAMP)
        ones = pa.array(np.ones(len(here), dtype=np.int64))
        tables.append(pa.table({**columns, DEATH.name: leave[here], "__t": come[here], "__w": ones}))
    table = pa.concat_tables(tables).combine_chunks()
    oldest = int(table.column("__t").to_numpy().min()) if table.num_rows else None
    return Delta(table, table.num_rows, oldest)


def _births_sql(item: Object, window: Window, source: str, after: int | None, upto: int) -> str:
    stamp = ", timestamp_micros(__t) AS TS" if item.option("exposes_ts") else ""
    come = _up_sql("__t", window.slide)
    bound = "" if after is None else f" AND {come} > {after}"
    shown = f"{listed(item.names)}{stamp}, {death_sql(window)} AS {DEATH.name}, {come} AS __t, CAST(1 AS BIGINT) AS __w"
    return f"SELECT {shown} FROM {source} WHERE {come} <= {upto}{bound}"


def death_sql(window: Window) -> str:
    """When a row with the time `__t` leaves a window."""
    return _up_sql(f"(__t + {window.length})", window.slide)


def turning(window: Window, times: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """When rows come in, and when they go."""
    leave = None if window.length is None else _up(times + window.length, window.slide)
    return _up(times, window.slide), leave


def _up(times: np.ndarray, slide: int | None) -> np.ndarray:
    return times if slide is None else -(-times // slide) * slide


def _leaving(parts: Sequence[Part], window: Window, before: int | None, now: int, read_upto: int | None) -> LogRows:
    """Rows read before that come in or go out since: those a window old, and those that waited for a slide."""
    if before is None or read_upto is None:
        return LogRows((), (), None, None)
    slide = window.slide or 0
    earliest = before - slide - (window.length or 0)
    found = []
    for part in parts:
        if part.newest is None or part.oldest is None or part.newest <= earliest:
            continue
        goes = window.length is not None and part.oldest <= now - window.length
        if goes or part.newest > before - slide:
            found.append(part)
    return LogRows((), tuple(found), earliest, min(now, read_upto))


def _events(rows: pa.Table, window: Window, after: int | None, upto: int) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """Which rows come in or go out after `after` and up to `upto`, when, and with which sign."""
    come, leave = turning(window, rows.column("__t").to_numpy())
    found = []
    for times, sign in ((come, 1), (leave, -1)):
        if times is not None:
            here = np.flatnonzero((times <= upto) & (True if after is None else times > after))
            found.append((here, times[here], np.full(len(here), sign, dtype=np.int64)))
    where, times, signs = (np.concatenate([piece[n] for piece in found]) for n in range(3))
    return pa.array(where), times, signs


def _events_sql(item: Object, window: Window, source: str, after: int | None, upto: int, timed: bool) -> str:
    stamp = ", timestamp_micros(__t) AS TS" if item.option("exposes_ts") else ""
    steps = [f"named_struct('t', {_up_sql('__t', window.slide)}, 'w', CAST(1 AS BIGINT))"]
    if window.length is not None:
        leave = _up_sql(f"(__t + {window.length})", window.slide)
        steps.append(f"named_struct('t', {leave}, 'w', CAST(-1 AS BIGINT))")
    bound = "" if after is None else f" AND __step.t > {after}"
    time = "__step.t AS __t" if timed else "CAST(0 AS BIGINT) AS __t"
    names = listed(item.names)
    shown = names + (", TS" if stamp else "")
    return (
        f"SELECT {shown}, {time}, __step.w AS __w FROM (SELECT {names}{stamp}, explode(array({', '.join(steps)}))"
        f" AS __step FROM {source}) WHERE __step.t <= {upto}{bound}"
    )


def _up_sql(time: str, slide: int | None) -> str:
    return time if slide is None else f"CAST(-floor(-{time} / {slide}) AS BIGINT) * {slide}"
