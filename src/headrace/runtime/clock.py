"""The clock, and how far each object may be read.

The clock is ``data`` (the newest event time seen, less slack), ``wall`` or ``manual``. A stream is read up to its
*horizon*; rows beyond it have landed durably and wait. In ``data`` mode each stream has its own horizon, so a stream
that lags behind another is not late by it. ADVANCE CLOCK moves every horizon up: time has passed, whatever arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.storage.catalog import now_micros
from headrace.storage.records import Object, Part
from headrace.storage.writer import MICROS

MODES = ("data", "wall", "manual")


def horizon(
    item: Object, parts: Sequence[Part], mode: str, advanced_to: int | None, now: int | None = None
) -> int | None:
    """The time up to which `item` may be read; None when it is not bounded. `now` is the wall clock's, if not now."""
    if item.maintained or item.system:
        return None
    if mode == "manual":
        return advanced_to or 0
    if item.kind == "table":
        return (now or now_micros()) if mode == "wall" else None
    slack = int(item.option("slack") or 0)
    if mode == "wall":
        return max((now or now_micros()) - slack, advanced_to or 0)
    if slack == 0:
        return None
    newest = max((part.newest for part in parts if part.newest is not None), default=None)
    reached = None if newest is None else newest - slack
    return max((time for time in (reached, advanced_to) if time is not None), default=None)


def clock_of(mode: str, clock: int | None, advanced_to: int | None, now: int | None = None) -> int | None:
    """What the clock shows: in ``data`` mode the newest time seen, which is `clock`."""
    if mode == "manual":
        return advanced_to
    if mode == "wall":
        return max(now or now_micros(), advanced_to or 0)
    return clock


def forgotten_before(item: Object, parts: Sequence[Part], upto: int | None) -> int | None:
    """With RETAIN: the time before which nothing is kept, in whole parts where the object has parts.

    An older row of a stream is gone; of a table or view only the history is, and AS OF cannot go back there.
    """
    retain = item.option("retain")
    newest = max((part.newest for part in parts if part.newest is not None), default=None)
    if retain is None or newest is None:
        return None
    reached = newest if upto is None else min(newest, upto)
    edge = reached - int(retain)
    if item.partition_length is not None:
        length = item.partition_length * MICROS
        edge = edge // length * length
    return edge
