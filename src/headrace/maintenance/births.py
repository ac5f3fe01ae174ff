"""Results over INTERNAL windows, and of subqueries that have a window: every birth of the query, at each of its points.

The query is evaluated over external windows at every point, each result telling who made it (`algebra.births`). A
result that was not there at the point before is born. What was worked out is kept for as long as its inputs are the
same, so that a view's many points need it once.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.algebra.births import births
from headrace.errors import DefinitionError
from headrace.language import Query, RelationRef, normalise_type
from headrace.maintenance.differentiate import differences
from headrace.maintenance.grown import Grown
from headrace.maintenance.logs import relation_fields
from headrace.maintenance.points import points_between
from headrace.maintenance.relations import Relations
from headrace.storage.records import Field, Object


def grown(relations: Relations, query: Query, time: int, *, monotonic: bool = False) -> Grown:
    """Every row of `query`'s result born up to `time` or the clock, whichever is later.

    With `monotonic`, refuse a query whose results could die by anything but an external window: then a window over
    them has no meaning.
    """
    asked = relations.asked(query)
    references = asked.outer.relations()
    if asked.lifted:
        raise DefinitionError(
            "NEVER_DYING_RESULT",
            "Results that never die cannot be had through a subquery that has a window itself.",
            hint="CREATE STREAM s AS the inner subquery, and read s.",
            place=query.place,
        )
    items = [relations.source.find(ref.name) for ref in references]
    shown = {number: [field.name for field in relation_fields(item)] for number, item in enumerate(items)}
    wanted = births(asked.outer, shown, {number: _identity(item) for number, item in enumerate(items)})
    if monotonic:
        _check_monotonic(references, items, wanted.aggregates, query)
    end = max(time, relations.now)
    key = ("grown", query.sql(), end, *(_state(relations, item) for item in items))
    kept = relations.logs.kept
    if key not in kept:
        inputs = list({item.id: item for item in items}.values())
        points = points_between(relations, inputs, None, end, None, asked.query)

        def evaluate(point: int) -> Any:
            return relations.rows(wanted.query, point, extras=wanted.extras)

        fields = [(item.name, item.dataType.simpleString()) for item in evaluate(end).schema.fields]
        relations.logs.keep(key, _born(relations, fields, points, evaluate))
    fields, table = kept[key]
    hidden = 1 + len(wanted.outlived)
    times = [f"c{number}" for number in range(len(fields) - hidden, len(fields) - 1)]
    renamed = zip(times, wanted.outlived, strict=True)
    return Grown(
        tuple(fields[: len(fields) - hidden]),
        table.select([*(f"c{number}" for number in range(len(fields) - hidden)), "__t", *times]),
        tuple((name, window) for name, (_, window) in renamed),
    )


def _born(relations: Relations, fields: list[tuple[str, str]], points: list[int], evaluate: Any) -> Any:
    columns = tuple(Field(f"c{number}", normalise_type(kind)) for number, (_, kind) in enumerate(fields))
    pretend = Object(0, "births", "view", "signed", "", columns, None)
    changes = differences(relations.logs.engine, pretend, points, None, evaluate)
    weights = changes.column("__w").to_pylist()
    repeated = [row for row, weight in enumerate(weights) for _ in range(max(weight, 0))]
    return fields, changes.take(pa.array(repeated, pa.int64())).sort_by("__t")


def _identity(item: Object) -> tuple[str, ...]:
    """The columns that tell a relation's rows apart. A non-retroactive table has none: its changes make no result."""
    if item.option("non_retroactive"):
        return ()
    return ("__t",) if item.log == "signed" else ("__t", "__seq")


def _state(relations: Relations, item: Object) -> Any:
    parts = relations.source.parts(item)
    last = relations.source.last_refresh(item)
    files = tuple(path for part in parts for path in part.files)
    return item.id, files, relations.reach(item, parts), None if last is None else (last.snapshot_id, last.point)


def _check_monotonic(references: tuple[RelationRef, ...], items: list[Object], aggregates: bool, query: Query) -> None:
    """A window over a subquery needs results that stay until that window lets go of them (thesis 3.4)."""
    for ref, item in zip(references, items, strict=True):
        internal = ref.window is not None and ref.window.internal
        if internal or item.option("non_retroactive"):
            continue
        if ref.window is None and item.log == "append" and not aggregates:
            continue
        why = "an external window" if ref.window is not None else "an aggregate" if aggregates else "changes"
        wanted = f"{item.name} [RANGE 10 SECONDS INTERNAL]" if item.log == "append" else "a stream without a key"
        raise DefinitionError(
            "WINDOW_OVER_DYING_RESULTS",
            f"A window over a subquery needs results that never die, and through {item.name} these die by {why}.",
            hint=f"Let the subquery read {wanted}.",
            place=query.place,
        )
