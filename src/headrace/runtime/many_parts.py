"""Many parts of a view by one query: what each relation brings, with the part that a row goes into."""

from __future__ import annotations

from typing import Any

from headrace.algebra.part_wise.lifting import PART
from headrace.algebra.part_wise.references import Reference, parts_touched_sql
from headrace.engine import apart
from headrace.maintenance.logs import listed, relation_fields
from headrace.maintenance.relations import Relations, least
from headrace.runtime.delta_functions import Step
from headrace.runtime.home import Home
from headrace.storage.records import Object
from headrace.storage.writer import MICROS


def frame_of_parts(home: Home, relations: Relations, step: Step, first: int, last: int) -> Any:
    """The rows of the parts from `first` to `last`; the last column tells the part."""
    assert step.many is not None
    base = apart("relation_", step.many.sql())
    frames = {}
    for number, (name, reference) in enumerate(step.inputs):
        item, whole = relations.source.find(name), reference is None
        frames[f"{base}{number}_"] = (
            relations.at(item, None) if whole else _parted(home, relations, item, reference, first, last)
        )
    return home.engine.sql(step.many.to_spark(list(frames)), frames)


def _parted(home: Home, relations: Relations, item: Object, reference: Any, first: int, last: int) -> Any:
    """The rows of all parts that are needed, each once for every part of the view that needs it."""
    length = reference.length * MICROS
    oldest, newest = _needed(reference, first, last)
    stored = relations.source.parts(item)
    upto = least((newest + 1) * length - 1, relations.reach(item, stored))
    rows = relations.logs.relation(item, stored, upto, forgotten_before=oldest * length, extra=("__t",))
    low, high = parts_touched_sql(reference.parts, f"CAST(floor(__t / {length}) AS BIGINT)", first, last)
    names = listed([field.name for field in relation_fields(item)])
    text = (
        f"SELECT {names}, explode(sequence(__low, __high)) AS {PART} FROM"
        f" (SELECT {names}, {low} AS __low, {high} AS __high FROM parted_rows) WHERE __low <= __high"
    )
    return home.engine.sql(text, {"parted_rows": rows})


def _needed(reference: Reference, first: int, last: int) -> tuple[int, int]:
    return reference.needs(first)[0], reference.needs(last)[1]
