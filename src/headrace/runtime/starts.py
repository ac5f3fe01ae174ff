"""From which point on a view may differ from what it was: there its log is gone on with, or made again."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.maintenance.grids import ceiling
from headrace.maintenance.points import first_between, grid_of
from headrace.maintenance.relations import Relations
from headrace.runtime.clock import forgotten_before
from headrace.runtime.home import Home
from headrace.storage.records import Object, Part, RefreshRecord
from headrace.storage.transactions import Transaction

#: Beside how far each input was read, a refresh notes from which time on it made the view anew: whoever reads the view
#: must follow from there, also where rows were taken back and nothing was put in their place.
CHANGED_FROM = "changed_from"
#: And the newest time at which all that the view reads was released: its last full point.
FULL_POINT = "full_point"
#: Before every time.
BEGINNING = -(1 << 62)


def start_of(
    home: Home,
    transaction: Transaction,
    relations: Relations,
    view: Object,
    inputs: list[Object],
    reached: dict[int, int],
    last: RefreshRecord | None,
    known: dict[tuple[int, int], int | None],
) -> int | None:
    """The earliest point at which the view may differ from what it was; None: from the very beginning.

    `known` is what has been found out for other views: where views they read began to differ.
    """
    start = None
    if last is not None:
        start = BEGINNING if last.point is None else last.point + 1
        found = [changed_from(home, transaction, relations, item, reached.get(item.id), last, known) for item in inputs]
        earliest = [time for time in found if time is not None]
        if earliest:
            start = min(earliest) if last.point is None else min(*earliest, start)
    grid, born = grid_of(relations, view), view.option("born")
    if start is None or (born is not None and start <= born):
        return None if born is None else int(born)
    if grid is not None:
        start = ceiling(grid, start)
    edge = kept_from(relations, view, transaction.base.parts(view))
    return start if edge is None else max(start, edge)


def kept_from(relations: Relations, view: Object, parts: Sequence[Part]) -> int | None:
    """Before this the view's log may have been folded, and cannot be made anew."""
    edge = forgotten_before(view, parts, None)
    grid = grid_of(relations, view)
    return edge if edge is None or grid is None else ceiling(grid, edge)


def changed_from(
    home: Home,
    transaction: Transaction,
    relations: Relations,
    item: Object,
    reached: int | None,
    last: RefreshRecord,
    known: dict[tuple[int, int], int | None],
) -> int | None:
    """The earliest time at which an input has become another since it was read; None when it has not."""
    if item.maintained:
        key = (item.id, last.read_snapshot)
        if key not in known:
            made = _refreshes_since(home, transaction, item, last.read_snapshot)
            known[key] = min((record.reaches.get(CHANGED_FROM, BEGINNING) for record in made), default=None)
        return known[key]
    parts = relations.source.parts(item)
    times = [part.oldest for part in parts if part.arrived_in > last.read_snapshot and part.oldest is not None]
    seen = last.reaches.get(str(item.id))
    if seen is not None and reached is not None and reached > seen:
        released = first_between(relations.logs, parts, seen + 1, reached)
        times += [] if released is None else [released]
    return min(times, default=None)


def _refreshes_since(home: Home, transaction: Transaction, view: Object, snapshot: int) -> list[RefreshRecord]:
    own = transaction.refresh_of(view)
    most = 100
    while True:
        newest_first = home.catalog.refreshes(view.id, most)
        made = [record for record in newest_first if record.snapshot_id > snapshot]
        if len(made) < len(newest_first) or len(newest_first) < most:
            return made if own is None else [*made, own]
        most *= 10
