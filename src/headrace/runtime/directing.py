"""Which of a plan's rows carry their death, and what the clock shows its operators.

The view's option `tuples` decides: `negative` has every death sent as a row of its own, from the scans on. By default
rows carry their death wherever nothing else can make them go, and calendars find what falls due; `direct` finds it by
looking at everything that is kept, and is there to be measured against.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.algebra.deaths import DEATH, NEVER, Lifetime, lifetimes
from headrace.algebra.nodes import Node, Scan
from headrace.maintenance.deltas import Delta
from headrace.maintenance.lifetimes import death_sql
from headrace.maintenance.operators.base import Clock
from headrace.maintenance.program import Direct, Program
from headrace.maintenance.relations import Relations
from headrace.runtime.scans import Read
from headrace.storage.records import RefreshRecord


def direct_of(root: Node, reads: Sequence[Read], tuples: str) -> Direct:
    """What of a tree in core form is maintained without negative rows."""
    if tuples == "negative":
        return Direct()

    def leaf(scan: Scan) -> Lifetime | None:
        return _lifetime(reads[scan.relation])

    # Without calendars nothing finds what falls due in the middle of a plan, so duplicates are counted.
    calendars = tuples != "direct"
    return Direct(lifetimes(root, leaf, distinct=calendars), calendars)


def _lifetime(read: Read) -> Lifetime | None:
    """How rows of a stored relation die: of their age, never, or (None) otherwise."""
    window = read.ref.window
    if read.item.log != "append" or read.item.maintained or not read.reading.plain:
        return None
    retain = read.item.option("retain")
    if retain is not None and (window is None or window.length is None or window.length > int(retain)):
        return None  # rows are forgotten too
    if window is None:
        return Lifetime(None, in_log=True)
    if window.kind == "rows" or window.internal:
        return None
    length = None if window.length is None else window.length + (window.slide or 0)
    return Lifetime(length, in_log=True)


def needs(program: Program, relation: int) -> tuple[bool, bool]:
    """Whether a program reads signed rows of a relation, and whether rows that carry their death."""
    kinds = {edge.direct for edge in program.edges if edge.scan is not None and edge.scan.relation == relation}
    return (False in kinds or not kinds), True in kinds


def joined(signed: Delta | None, births: Delta) -> Delta:
    """The change of a relation that is read in one way or in both."""
    if signed is None:
        return Delta(None, births.rows, births.oldest, births.changes)
    times = [delta.oldest for delta in (signed, births) if delta.oldest is not None]
    return Delta(signed.changes, signed.rows + births.rows, min(times, default=None), births.changes)


def clock_of(last: RefreshRecord, point: int | None, *, timed: bool) -> Clock:
    """The clock at a view's last refresh and at this one."""
    return Clock(-NEVER if last.point is None else last.point, point or 0, timed)


def living(relations: Relations, read: Read, point: int | None) -> Any:
    """The rows that a window on time shows, with their deaths."""
    window, engine = read.ref.window, relations.logs.engine
    assert window is not None
    frame = relations.windowed(read.ref, read.item, point, ("__t",))
    shown = f"SELECT *, {death_sql(window)} AS {DEATH.name} FROM living_"
    return engine.sql(shown, {"living_": frame}).drop("__t")
