"""The points of time at which a view may change: every time at which something it reads changed.

A view that is refreshed EVERY d has its points on the grid of multiples of d instead; what happened between two of them
is released at the later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headrace.maintenance.logs import Logs
from headrace.maintenance.relations import Relations, least
from headrace.storage.records import Object, Part


def base_logs(relations: Relations, inputs: Iterable[Object]) -> list[Object]:
    """The logs behind a query: a view that keeps only its state stands for what it reads itself."""
    found: dict[int, Object] = {}
    for item in inputs:
        behind = base_logs(relations, relations.source.needs(item)) if item.log == "state" else [item]
        found.update({log.id: log for log in behind})
    return list(found.values())


def reaches(relations: Relations, logs: Iterable[Object]) -> dict[int, int]:
    """How far each log can be read now: its horizon, or the newest time it has."""
    found = {}
    for item in logs:
        parts = relations.source.parts(item)
        newest = max((part.newest for part in parts if part.newest is not None), default=None)
        reached = least(newest, relations.reach(item, parts))
        if newest is not None and reached is not None:
            found[item.id] = reached
    return found


def points_between(
    relations: Relations, logs: Iterable[Object], start: int | None, end: int | None, every: int | None
) -> list[int]:
    """The points from `start` (inclusive) up to `end`, in order."""
    times = [
        times_between(
            relations.logs,
            relations.source.parts(item),
            start if every is None or start is None else start - every,
            least(end, relations.reach(item, relations.source.parts(item))),
        )
        for item in logs
    ]
    points = np.unique(np.concatenate(times)) if times else np.empty(0, dtype=np.int64)
    if every is not None:
        points = np.unique(-(-points // every) * every)
        if end is not None:
            points = points[points <= end]
    if start is not None:
        points = points[points >= start]
    return [int(point) for point in points]


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
