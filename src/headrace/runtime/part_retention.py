"""Which temporal parts have to stay, whatever RETAIN says, and which helper parts nothing can need any more.

A part that the next part of some view is made of stays. Of a helper view that is all, but for late rows: a part that
they can still change is made again of the same parts it was made of before. How many that are depends on how late rows
can be (ViewDF 5.1.2): as late as the stream's slack, or, where late rows are merged, as old as what it keeps.
"""

from __future__ import annotations

from headrace.maintenance.relations import Source
from headrace.runtime.delta_functions import function_of
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object
from headrace.storage.writer import MICROS, part_of


def oldest_needed(snapshot: Snapshot, item: Object, source: Source) -> int | None:
    """The time from which on an object's parts are needed for parts that are still to be made; None: none are."""
    found = [_needed_by(view, item, source, None) for view in _readers(snapshot, item)]
    return min((time for time in found if time is not None), default=None)


def helper_needed(snapshot: Snapshot, helper: Object, source: Source) -> int | None:
    """The time before which nothing can need a helper's parts any more; None where late rows may come for any."""
    open_from = _open_from(snapshot, helper)
    if open_from is None:
        return None
    found = [_needed_by(view, helper, source, open_from) for view in _readers(snapshot, helper)]
    return min((time for time in found if time is not None), default=None)


def _readers(snapshot: Snapshot, item: Object) -> list[Object]:
    """The views that are made of an object's parts, itself among them."""
    readers = [view for view in snapshot.dependents(item) if view.part_wise]
    return [*readers, item] if item.part_wise else readers


def _needed_by(view: Object, item: Object, source: Source, open_from: int | None) -> int | None:
    """The oldest time a view needs of an object; with `open_from`, also for parts that may change from there on."""
    progress = view.option("parts") or {}
    if progress.get("next") is None:
        return -(1 << 62)  # it has not begun, and may begin with the oldest
    function = function_of(source, view)
    # More rows may still come for the newest part.
    part = progress["next"] - 1
    if open_from is not None:
        part = min(part, part_of(open_from, view.partition_length))
    needed = [
        ref.needs(part)[0] * ref.length * MICROS
        for step in (function.initialize, function.update)
        for ref in step.references
        if ref.relation == item.id and ref.parts.first.scale
    ]
    return min(needed, default=None)


def _open_from(snapshot: Snapshot, item: Object) -> int | None:
    """From which time on rows may still come into what lies behind a view; None: from any."""
    if item.kind == "stream" and not item.maintained:
        newest = max((part.newest for part in snapshot.parts(item) if part.newest is not None), default=None)
        if newest is None:
            return None
        if item.option("late", "divert") != "merge":
            return newest - int(item.option("slack") or 0)
        retain = item.option("retain")
        return None if retain is None else newest - int(retain)
    if not item.part_wise:
        return None  # a table, or a view that may change anywhere
    found = [_open_from(snapshot, other) for other in snapshot.needs(item)]
    known = [time for time in found if time is not None]
    return min(known) if known and len(known) == len(found) else None
