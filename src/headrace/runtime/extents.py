"""Which temporal parts of a relation there are.

A stream's part is there as soon as a row of it, or of a later part, has come: a part that nothing came for is an empty
part. Where the clock is moved by hand or by the wall, a part that has ended is there as well. More rows may come for a
part that is there; what was made of it is then made again.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.maintenance.relations import Relations
from headrace.runtime.clock import forgotten_before
from headrace.runtime.home import Home
from headrace.storage.catalog import now_micros
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS, part_of


@dataclass(frozen=True)
class Extent:
    """The first and the newest part there is, and the first of those that RETAIN has not begun to let go of."""

    first: int
    newest: int
    kept: int


def extent_of(home: Home, transaction: Transaction, relations: Relations, item: Object) -> Extent | None:
    """The parts of a relation, if there are any."""
    stored = relations.source.parts(item)
    if item.part_wise:
        progress = transaction.current(item).option("parts") or {}
        if progress.get("next") is None or progress["next"] == progress["first"]:
            return None
        edge = forgotten_before(item, stored, None)
        kept = progress["first"] if edge is None else max(progress["first"], part_of(edge, item.partition_length))
        return Extent(progress["first"], progress["next"] - 1, max(kept, progress.get("dropped", kept)))
    oldest = min((part.oldest for part in stored if part.oldest is not None), default=None)
    newest = max((part.newest for part in stored if part.newest is not None), default=None)
    reach = relations.reach(item, stored)
    if oldest is None or newest is None or (reach is not None and reach < oldest):
        return None
    length = item.partition_length
    last = part_of(newest if reach is None else min(newest, reach), length)
    moved = _moved(home, transaction)
    if item.maintained:
        refreshed = relations.source.last_refresh(item)
        moved = None if refreshed is None else refreshed.point
    if moved is not None:
        last = max(last, moved // ((length or 1) * MICROS) - 1)
    edge = forgotten_before(item, stored, reach)
    first = part_of(oldest, length)
    return Extent(first, last, first if edge is None else max(first, part_of(edge, length)))


def _moved(home: Home, transaction: Transaction) -> int | None:
    """How far the clock was moved, not by rows but by hand or by the wall."""
    if home.clock_mode == "wall":
        return max(now_micros(), transaction.advanced_to or 0)
    return transaction.advanced_to
