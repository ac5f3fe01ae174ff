"""The points of a view, and which of them are full (SyncSQL 4.1-4.2): there it shows all its inputs up to that time.

An input that is read through a synchronization stream is complete at that stream's points, any other always. So a point
is full where it is one of every synchronization stream (Prop. 1 and 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.maintenance.grids import NOT_YET, Times
from headrace.maintenance.points import points_of, points_of_stream, times_of
from headrace.maintenance.relations import Relations
from headrace.storage.records import Object

_SCHEMA = pa.schema([("point", pa.timestamp("us", tz="UTC")), ("kind", pa.string())])


def sync_points(relations: Relations, view: Object) -> Any:
    """One row a point: the time, and whether it is full or partial."""
    last = relations.source.last_refresh(view) if view.maintained else None
    end = None if last is None else last.point
    found = np.array(points_of(relations, view, None, end) if view.maintained else [], dtype=np.int64)
    if not view.maintained:
        found = times_of(relations, view, None, None)
    found = found[found > -NOT_YET]
    full = np.ones(len(found), dtype=np.bool_)
    for times in streams_of(relations, view):
        full &= np.isin(found, times)
    kinds = pa.array(np.where(full, "full", "partial").astype(object), pa.string())
    moments = pa.array(found).cast(_SCHEMA.field("point").type)
    return relations.logs.engine.frame(pa.table([moments, kinds], schema=_SCHEMA))


def streams_of(relations: Relations, view: Object) -> list[Times]:
    """The points of each synchronization stream that something the view reads is read through."""
    return [points_of_stream(relations, stream).times for stream in _streams(relations, view)]


def _streams(relations: Relations, view: Object) -> list[Object]:
    needed = relations.source.needs(view) if view.maintained else []
    regulators = [item for item in needed if item.option("regulator") and item.option("sync") is not None]
    found = [relations.source.find(item.option("sync")) for item in regulators]
    if view.option("shared"):
        # What it is read from shows it at the same points.
        found += [stream for item in needed if item not in regulators for stream in _streams(relations, item)]
    return found


def last_full_point(relations: Relations, view: Object, point: int | None) -> int | None:
    """The newest full point of a view up to a point of it; None if there was none yet."""
    if point is None:
        return None
    common: Times | None = None
    for times in streams_of(relations, view):
        common = times if common is None else np.intersect1d(common, times)
    if common is None:
        return point
    known = common[common <= point]
    return int(known[-1]) if len(known) else None
