"""The points of time at which a view may change: every time at which something it reads changed.

A view that is refreshed EVERY d has its points on the grid of multiples of d instead; what happened between two of them
is released at the later one. The first point of every view is its birth, at which all it then has is released. A view
that keeps only its state has no log of times: they are its own points, worked out from what it reads, up to where its
last refresh left it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headrace.maintenance.logs import Logs
from headrace.maintenance.relations import Relations, least
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
    return None if last is None else last.point


def _logged_until(relations: Relations, item: Object) -> int | None:
    parts = relations.source.parts(item)
    newest = max((part.newest for part in parts if part.newest is not None), default=None)
    return None if newest is None else least(newest, relations.reach(item, parts))


def points_of(relations: Relations, view: Object, start: int | None, end: int | None) -> list[int]:
    """A view's points from `start` (inclusive) up to `end`, its birth among them, in order."""
    born = view.option("born")
    first = born if start is None else start if born is None else max(start, born)
    points = points_between(relations, relations.source.needs(view), first, end, view.option("every"))
    if born is not None and born == first and born not in points and (end is None or born <= end):
        return [born, *points]
    return points


def points_between(
    relations: Relations, inputs: Iterable[Object], start: int | None, end: int | None, every: int | None
) -> list[int]:
    """The points of a query over `inputs` from `start` (inclusive) up to `end`, in order."""
    first = start if every is None or start is None else start - every
    times = [_times_of(relations, item, first, end) for item in inputs]
    points = np.unique(np.concatenate(times)) if times else np.empty(0, dtype=np.int64)
    if every is not None:
        points = np.unique(-(-points // every) * every)
        if end is not None:
            points = points[points <= end]
    if start is not None:
        points = points[points >= start]
    return [int(point) for point in points]


def _times_of(relations: Relations, item: Object, start: int | None, end: int | None) -> np.ndarray:
    """The times at which an input may have changed."""
    if item.log == "state":
        found = points_of(relations, item, start, least(end, _left_at(relations, item)))
        return np.array(found, dtype=np.int64)
    parts = relations.source.parts(item)
    return times_between(relations.logs, parts, start, least(end, relations.reach(item, parts)))


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
    times = np.unique(times)
    if start is not None:
        times = times[times >= start]
    return times if end is None else times[times <= end]
