"""The change of a relation whose rows come and go by the clock too, between two readings of it.

A row is there from its birth until it is replaced, for keyed relations, or for good. A window on time and conditions on
Now cut that span: all of them turn over, for a row, at times that the row tells. So the events of a row (it comes, it
goes) are found by asking at these times and just before them. The change between two readings is all events up to now,
less all events up to then as they were known then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.lives import Life
from headrace.language import Window
from headrace.maintenance.deltas import SMALL, Delta, LogRows, NoDelta, read_here, read_there
from headrace.maintenance.forgetting import Forgetting
from headrace.maintenance.logs import NEVER, Logs, extra_column, listed
from headrace.storage.bags import consolidate
from headrace.storage.records import Object, Part

#: Hidden columns: a row's time of birth and its number of arrival; the span of a version.
BORN, NUMBER = "__at", "__seq"
FROM, TO = "__from", "__to"


@dataclass(frozen=True)
class Reading:
    """What a plan reads of a relation beyond its columns: `hidden` ones, rows while they live, versions of its rows.

    `forgets`: RETAIN lets rows go.
    """

    hidden: tuple[str, ...] = ()
    life: Life | None = None
    versions: bool = False
    forgets: bool = False

    @property
    def plain(self) -> bool:
        return not (self.hidden or self.life or self.versions or self.forgets)


@dataclass(frozen=True)
class Spans:
    """Rows of a log as they were known at one reading of the clock; `after` is up to where their events are known.

    None of their events that are new is before `oldest`.
    """

    rows: Any
    count: int
    upto: int
    oldest: int | None
    after: int | None = None
    sign: int = 1


def appended_spans(
    logs: Logs, item: Object, window: Window | None, reading: Reading, fresh: LogRows, older: LogRows,
    clock: tuple[int | None, int], forgetting: Forgetting | None = None,
) -> list[Spans]:  # fmt: skip
    """The rows of an append log that can have come or gone: those that are new, and those that were there."""
    before, now = clock
    found = []
    for rows, after in ((fresh, None), (older, before)):
        if rows.fresh or rows.waiting:
            dies = str(NEVER)
            if rows.most <= SMALL:
                table = read_here(logs, item, rows)
                frame = logs.engine.frame(table if forgetting is None else forgetting.with_deaths(table))
                dies = dies if forgetting is None else "__dead"
            else:
                if forgetting is not None and forgetting.points is not None:
                    raise NoDelta(f"{item.name} has forgotten too much at once to tell when")
                frame = read_there(logs, item, rows)
                dies = dies if forgetting is None else forgetting.deaths_sql()
            text = _spanned(item, window, reading, "__t", dies)
            oldest = rows.oldest if after is None else after + 1
            found.append(Spans(logs.engine.sql(text, {"log_rows": frame}), rows.most, now, oldest, after))
    return found


def still_turning(
    parts: Sequence[Part],
    window: Window | None,
    life: Life | None,
    clock: tuple[int | None, int],
    read_upto: int | None,
) -> LogRows:
    """The rows read before that come or go as the clock moves on; `read_upto` is how far they had been read.

    Where a row's own time tells, only rows of such times; else the log says nothing, and all rows are asked.
    """
    before, now = clock
    if before is None or read_upto is None or (life is None and (window is None or window.kind == "rows")):
        return LogRows((), (), None, None)
    if life is not None and life.distances is None:
        return LogRows((), tuple(parts), None, read_upto)
    slide = 0 if window is None or window.kind == "rows" else window.slide or 0
    length = () if window is None or window.length is None else (window.length,)
    distances = (0, *length, *(() if life is None else life.distances or ()))
    since, upto = before - slide - max(distances), min(read_upto, now - min(distances))
    chosen = [
        part
        for part in parts
        if part.newest is not None
        and part.oldest is not None
        and any(part.newest > before - slide - far and part.oldest <= now - far for far in distances)
    ]
    return LogRows((), tuple(chosen), since, upto)


def keyed_spans(
    logs: Logs, item: Object, window: Window | None, reading: Reading, now: tuple[Sequence[Part], int | None, int],
    then: tuple[Sequence[Part], int | None, int], oldest: int | None,
) -> list[Spans]:  # fmt: skip
    """The versions of an upsert log's rows, as they are known now and as they were known then.

    `now` and `then` are the parts, how far they are read, and the clock; `oldest` is the time of the oldest new row.
    """
    found = []
    # What was known then says the same again up to then, unless new rows are older.
    earliest = then[2] + 1 if oldest is None else min(oldest, then[2] + 1)
    for (parts, upto, clock), sign in ((now, 1), (then, -1)):
        old = None if window is None or window.length is None else then[2] - window.length - (window.slide or 0)
        wanted = [part for part in parts if old is None or part.newest is None or part.newest > old]
        rows = logs.versions(item, wanted, upto)
        count = sum(part.rows for part in wanted)
        text = _spanned(item, window, reading, FROM, TO)
        found.append(Spans(logs.engine.sql(text, {"log_rows": rows}), count, clock, earliest, None, sign))
    return found


def events(logs: Logs, item: Object, reading: Reading, spans: Sequence[Spans], *, timed: bool) -> Delta:
    """The signed rows that some spans give, with the relation's columns and the hidden ones."""
    engine, shown = logs.engine, shown_columns(item, reading)
    frames = {f"spans_{number}_": span.rows for number, span in enumerate(spans)}
    texts = [
        f"SELECT {listed(shown)}, __b AS __t, CAST({span.sign} * __w * __n AS BIGINT) AS __w FROM ("
        f"{_stepped(reading.life, name, span)}) WHERE __w <> 0"
        for name, span in zip(frames, spans, strict=True)
    ]
    total = sum(span.count for span in spans)
    if not texts:
        return Delta(None, 0, None)
    frame = engine.sql(" UNION ALL ".join(texts), frames)
    if total > SMALL:
        moment = "__t" if timed else "CAST(0 AS BIGINT) AS __t"
        source = "events_"
        if any(span.sign < 0 for span in spans):
            by = f"{listed(shown)}, __t"
            summed = f"SELECT {by}, CAST(sum(__w) AS BIGINT) AS __n FROM events_ GROUP BY {by}"
            source = f"(SELECT {by}, __n AS __w FROM ({summed}) WHERE __n <> 0)"
        net = f"SELECT {listed(shown)}, {moment}, __w FROM {source}"
        oldest = min((span.oldest for span in spans if span.oldest is not None), default=None)
        return Delta(engine.sql(net, {"events_": frame}), total, oldest)
    table = consolidate(engine.arrow(frame).combine_chunks())
    oldest = pc.min(table.column("__t")).as_py()
    if not timed:
        zeros = pa.array([0] * table.num_rows, pa.int64())
        table = consolidate(table.set_column(table.column_names.index("__t"), "__t", zeros).combine_chunks())
    return Delta(table, table.num_rows, oldest)


def born_rows(item: Object, changes: pa.Table, oldest: int | None, *, timed: bool) -> Delta:
    """Signed rows that are at hand, with their births among their columns."""
    stamp = {"TS": changes.column(BORN).cast(pa.timestamp("us", tz="UTC"))} if item.option("exposes_ts") else {}
    times = changes.column("__t") if timed else pa.array([0] * changes.num_rows, pa.int64())
    columns = {name: changes.column(name) for name in item.names}
    table = pa.table({**columns, **stamp, BORN: changes.column(BORN), "__t": times, "__w": changes.column("__w")})
    net = consolidate(table.combine_chunks())
    return Delta(net, net.num_rows, oldest)


def shown_columns(item: Object, reading: Reading) -> list[str]:
    return [*item.names, *(["TS"] if item.option("exposes_ts") else []), *reading.hidden]


def _spanned(item: Object, window: Window | None, reading: Reading, born: str, dies: str) -> str:
    """SQL for rows of a log with the span in which they are there."""
    slide = None if window is None or window.kind == "rows" else window.slide
    ends = dies
    if window is not None and window.kind != "rows" and window.length is not None:
        ends = f"least({dies}, {born} + {window.length})"
    stamp = f", timestamp_micros({born}) AS TS" if item.option("exposes_ts") else ""
    hidden = "".join(f", {_hidden(item, name, born)}" for name in reading.hidden)
    return (
        f"SELECT {listed(item.names)}{stamp}{hidden}, {_up(born, slide)} AS __begin, {_up(ends, slide)} AS __end,"
        f" {'__w' if item.log == 'signed' else '1'} AS __n FROM log_rows"
    )


def _hidden(item: Object, name: str, born: str) -> str:
    if name == BORN:
        return f"{born} AS {BORN}"
    return name if name == NUMBER else extra_column(item, name, born)


def _up(time: str, slide: int | None) -> str:
    """The first multiple of the slide at or after a time; what never ends never ends."""
    if slide is None:
        return f"CAST({time} AS BIGINT)"
    rounded = f"CAST(-floor(-({time}) / {slide}) AS BIGINT) * {slide}"
    return f"CASE WHEN {time} = {NEVER} THEN {NEVER} ELSE {rounded} END"


def _stepped(life: Life | None, source: str, span: Spans) -> str:
    """What each row's weight becomes at each time at which it can turn over."""
    turns = ", ".join(["__begin", "__end", *(() if life is None else life.turns)])
    there = "__b < __end" + ("" if life is None else f" AND {life.at('__b')}")
    was = "__b > __begin" + ("" if life is None else f" AND {life.at('(__b - 1)')}")
    bound = "" if span.after is None else f" AND __b > {span.after}"
    return (
        f"SELECT *, CASE WHEN {there} THEN 1 ELSE 0 END - CASE WHEN {was} THEN 1 ELSE 0 END AS __w FROM"
        f" (SELECT *, explode(array_distinct(array({turns}))) AS __b FROM {source})"
        f" WHERE __b >= __begin AND __b <= __end AND __b <= {span.upto}{bound}"
    )
