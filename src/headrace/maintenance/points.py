"""The points of time at which a view may change: every time at which something it reads changed or dies.

Rows die in windows on time, and where a query compares them with Now (`algebra.clock_reads`); the times of both follow
from the rows. A use of Now that follows from nothing is read at the other points alone: the current time of such a view
is that of the last change of what it reads.

A view that is refreshed EVERY d, or synchronized by a stream, has its points on a grid instead (`grids`); what happened
between two of them is released at the later one. The first point of every view is its birth, at which all it then has
is released. A view that keeps only its state has no log of times: they are its own points, worked out from what it
reads, up to where its last refresh left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from headrace.algebra.clock_reads import Crossing
from headrace.algebra.user_aggregates.forms import Form
from headrace.algebra.user_aggregates.windows_of_calls import clock_forms
from headrace.language import Query, RelationRef
from headrace.maintenance.grids import NOT_YET, Grid, Multiples, Points, Times
from headrace.maintenance.logs import Logs, tag_names
from headrace.maintenance.relations import Relations, least
from headrace.maintenance.windows import reach_back, turns
from headrace.storage.bags import distinct
from headrace.storage.records import Object, Part


def reaches(relations: Relations, inputs: Iterable[Object]) -> dict[int, int]:
    """How far each input can be read now: its horizon, or the newest time it has, or where its last refresh left it."""
    found = {}
    for item in inputs:
        # A view is known up to where it was refreshed, whether or not it changed there.
        reached = _left_at(relations, item) if item.maintained else _logged_until(relations, item)
        if reached is not None:
            found[item.id] = reached
    return found


def _left_at(relations: Relations, view: Object) -> int | None:
    last = relations.source.last_refresh(view)
    # What is synchronized and has had no point yet has not been read at any time.
    return None if last is None or last.point == -NOT_YET else last.point


def _logged_until(relations: Relations, item: Object) -> int | None:
    parts = relations.source.parts(item)
    newest = max((part.newest for part in parts if part.newest is not None), default=None)
    return None if newest is None else least(newest, relations.reach(item, parts))


def points_of(relations: Relations, view: Object, start: int | None, end: int | None) -> list[int]:
    """A view's points from `start` (inclusive) up to `end`, its birth among them, in order."""
    born = view.option("born")
    first = born if start is None else start if born is None else max(start, born)
    query = relations.query_of(view)
    points = points_between(relations, relations.source.needs(view), first, end, grid_of(relations, view), query)
    if born is not None and born == first and born not in points and (end is None or born <= end):
        return [born, *points]
    return points


def grid_of(relations: Relations, view: Object) -> Grid | None:
    """The grid that a view's points lie on, as far as it is known; None where it changes whenever its inputs do."""
    every, stream = view.option("every"), view.option("sync")
    if stream is not None:
        return points_of_stream(relations, relations.source.find(stream))
    return None if every is None else Multiples(int(every))


def points_of_stream(relations: Relations, stream: Object) -> Points:
    """The points of a synchronization stream. A refresh asks for them often, and reads them once."""
    parts = relations.source.parts(stream)
    files = tuple(path for part in parts for path in part.files)
    key = ("points", stream.id, files, relations.reach(stream, parts))
    known = relations.logs.kept.get(key)
    if known is None:
        known = Points(times_of(relations, stream, None, None))
        relations.logs.keep(key, known)
    assert isinstance(known, Points)
    return known


def point_at(relations: Relations, view: Object, time: int) -> int:
    """The time a view shows at `time`: the same, or the last point of its grid since its birth."""
    grid, born = grid_of(relations, view), view.option("born")
    if grid is None:
        return time
    found = grid.floor(time)
    if born is not None and born <= time and (found is None or found < born):
        return int(born)
    return time if found is None else found


def points_between(
    relations: Relations,
    inputs: Iterable[Object],
    start: int | None,
    end: int | None,
    grid: Grid | None,
    query: Query | None = None,
) -> list[int]:
    """The points of a query over `inputs` from `start` (inclusive) up to `end`, in order.

    Without the query itself, those at which its inputs change.
    """
    first = start if grid is None or start is None else grid.before(start)
    if query is not None and query.reads_clock:
        times = _timed(relations, query, first, end)
    else:
        times = [times_of(relations, item, first, end) for item in inputs]
    times += _synchronized(relations, query, first, end)
    points = distinct(np.concatenate(times)) if times else np.empty(0, dtype=np.int64)
    if grid is not None:
        points = distinct(grid.ceilings(points))
        points = points[points != NOT_YET]
    if end is not None:
        points = points[points <= end]
    if start is not None:
        points = points[points >= start]
    return [int(point) for point in points]


def _synchronized(relations: Relations, query: Query | None, start: int | None, end: int | None) -> list[Times]:
    """The points of the synchronization streams that a query names."""
    streams = [] if query is None else dict.fromkeys(ref.sync for ref in query.relations() if ref.sync is not None)
    return [times_of(relations, relations.source.find(name), start, end) for name in streams]


def released_at(relations: Relations, stream: str, time: int) -> int:
    """The newest point of a synchronization stream up to `time`; the beginning of time if there is none."""
    found = Points(times_of(relations, relations.source.find(stream), None, time)).floor(time)
    return -NOT_YET if found is None else found


def times_of(relations: Relations, item: Object, start: int | None, end: int | None) -> np.ndarray:
    """The times at which an input may have changed."""
    if item.log == "state":
        found = points_of(relations, item, start, least(end, _left_at(relations, item)))
        return np.array(found, dtype=np.int64)
    parts = relations.source.parts(item)
    return times_between(relations.logs, parts, start, least(end, relations.reach(item, parts)))


def refresh_time(
    relations: Relations, query: Query, inputs: Sequence[Object], reached: Mapping[int, int]
) -> int | None:
    """The time a refresh brings a view to: the newest its inputs can be read at; where rows die by time, the clock."""
    newest = max(reached.values(), default=None)
    if not query.reads_clock:
        return newest
    if relations.asked(query).reads.floats:
        points = points_between(relations, inputs, None, relations.now, None, query)
        return points[-1] if points else newest
    return max((time for time in (newest, relations.clock) if time is not None), default=None)


def dies_by_now(
    relations: Relations, query: Query, inputs: Sequence[Object], after: int | None, grid: Grid | None
) -> bool:
    """Whether the clock has passed a point of the view after `after`, though nothing need have arrived."""
    if not query.reads_clock:
        return False
    start = None if after is None else after + 1
    return bool(points_between(relations, inputs, start, relations.now, grid, query))


def _timed(relations: Relations, query: Query, start: int | None, end: int | None) -> list[np.ndarray]:
    """The times at which a query changes whose rows die by time: births and deaths, as windows show them."""
    asked = relations.asked(query)
    references = asked.query.relations()
    found = []
    forms = clock_forms(query)
    for ref in dict.fromkeys(references):
        item = relations.source.find(ref.name)
        if ref.window is None:
            found.append(times_of(relations, item, start, end))
            found += [_told_at(relations, item, form, start, end) for form in forms]
        else:
            first = None if start is None else start - reach_back(ref.window)
            found.append(turns(ref.window, times_of(relations, item, first, end)))
    found += [_crossed(relations, references[one.relation], one, end) for one in asked.reads.crossings]
    for lifted in asked.lifted:
        born = relations.grown(relations, lifted.inner, relations.now if end is None else end, monotonic=True)
        found.append(turns(lifted.window, born.table.column("__t").to_numpy()))
    return found


def _told_at(relations: Relations, item: Object, form: Form, start: int | None, end: int | None) -> np.ndarray:
    """The times at which a window of a call has results of the clock: its rows leave, or its slots end."""
    back = form.slide or form.length or 0
    times = times_of(relations, item, None if start is None else start - back, end)
    return times + back if form.slide is None else (times // form.slide + 1) * form.slide


def _crossed(relations: Relations, ref: RelationRef, crossing: Crossing, end: int | None) -> np.ndarray:
    """The times at which comparisons with Now turn over, of all rows there ever were."""
    item, engine = relations.source.find(ref.name), relations.logs.engine
    if item.log == "state" or ref.kind == "changes":
        rows = relations.changes_of(relations, item, None, end)
        time = tag_names(item)[1]
    else:
        parts = relations.source.parts(item)
        rows = relations.logs.rows(item, parts, least(end, relations.reach(item, parts)))
        time = "timestamp_micros(__t)"
    shown = f", {time} AS TS" if item.option("exposes_ts") else ""
    text = f"SELECT DISTINCT {crossing.text} AS time FROM (SELECT *{shown} FROM crossing_rows)"
    times = engine.arrow(engine.sql(text, {"crossing_rows": rows})).column("time").drop_null().to_numpy()
    return np.concatenate([times + step for step, wanted in ((0, crossing.at), (1, crossing.after)) if wanted])


def times_between(logs: Logs, parts: Sequence[Part], start: int | None, end: int | None) -> np.ndarray:
    """The distinct times of change in some parts, after or at `start` and up to `end`."""
    wanted = [
        part
        for part in parts
        if part.newest is not None
        and (start is None or part.newest >= start)
        and (end is None or (part.oldest or 0) <= end)
    ]
    if not wanted:
        return np.empty(0, dtype=np.int64)
    times = logs.files.read([path for part in wanted for path in part.files], ["__t"]).column("__t").to_numpy()
    if start is not None:
        times = times[times >= start]
    return distinct(times if end is None else times[times <= end])


def first_between(logs: Logs, parts: Sequence[Part], start: int, end: int) -> int | None:
    """The first time of change in some parts, after or at `start` and up to `end`."""
    found = []
    for part in parts:
        if part.oldest is None or part.newest is None or part.newest < start or part.oldest > end:
            continue
        if part.oldest >= start:
            found.append(part.oldest)
            continue
        times = logs.files.read(list(part.files), ["__t"]).column("__t").to_numpy()
        times = times[(times >= start) & (times <= end)]
        found += [int(times.min())] if len(times) else []
    return min(found, default=None)
