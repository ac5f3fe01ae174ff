"""Whether every group has one row at most in some parts: then a pattern is followed by a plain join."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from headrace.algebra.part_wise.references import Reference
from headrace.maintenance.relations import Relations
from headrace.runtime.home import Home
from headrace.storage.records import Object
from headrace.storage.writer import MICROS

#: More rows than these are not looked at here.
MOST_ROWS = 10_000_000


def single_rows(
    home: Home, relations: Relations, item: Object, reference: Reference, part: int, groups: Sequence[str]
) -> bool:
    """Whether no group has two rows in the parts that a part needs; False also where that is dear to know."""
    if not home.files.local or item.log != "append" or not set(groups) <= set(item.names):
        return False
    first, last = reference.needs(part)
    stored = [found for found in relations.source.parts(item) if found.first <= last and found.last >= first]
    rows = sum(found.rows for found in stored)
    if rows == 0:
        return True
    if rows > MOST_ROWS or not groups:
        return rows == 1
    table = home.files.read([path for found in stored for path in found.files], [*groups, "__t"])
    low, high = first * reference.length * MICROS, (last + 1) * reference.length * MICROS
    reach = relations.reach(item, stored)
    if any((found.oldest or 0) < low or (found.newest or 0) >= high for found in stored) or reach is not None:
        times = table.column("__t")
        inside = pc.and_(pc.greater_equal(times, low), pc.less(times, high))
        table = table.filter(inside if reach is None else pc.and_(inside, pc.less_equal(times, reach)))
    return bool(table.group_by(list(groups)).aggregate([]).num_rows == table.num_rows)
