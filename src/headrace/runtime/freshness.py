"""Whether a view shows what its inputs are now."""

from __future__ import annotations

from headrace.maintenance.points import dies_by_now, grid_of, reaches
from headrace.maintenance.relations import Relations
from headrace.runtime.starts import BEGINNING
from headrace.storage.records import Object


def has_changed(relations: Relations, view: Object, inputs: list[Object]) -> bool:
    """Whether anything the view reads has changed since it was read, or died as the clock moved on."""
    last = relations.source.last_refresh(view)
    if last is None:
        return True
    for item in inputs:
        made = relations.source.last_refresh(item)
        if made is not None and made.snapshot_id > last.read_snapshot:
            return True
        if any(part.arrived_in > last.read_snapshot for part in relations.source.parts(item)):
            return True
    now = reaches(relations, inputs)
    grid = grid_of(relations, view)
    if grid is not None and any(reached > (last.point or -1) for reached in now.values()):
        return True
    if any(reached > last.reaches.get(str(item), BEGINNING) for item, reached in now.items()):
        return True
    return dies_by_now(relations, relations.query_of(view), inputs, last.point, grid)


def is_fresh(relations: Relations, view: Object) -> bool:
    """Whether a view and all views behind it show what is there now."""
    inputs = relations.source.needs(view)
    if view.part_wise or has_changed(relations, view, inputs):
        return False
    return all(is_fresh(relations, item) for item in inputs if item.maintained)
