"""The query of a step of a view delta function as a tree of operators, with its result in the view's types."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.algebra.binder import NotBound, bind
from headrace.algebra.core import Names, cast, column_of, to_core
from headrace.algebra.nodes import Column, Node, Project
from headrace.algebra.part_wise.lifting import PART
from headrace.algebra.pushdown import optimise
from headrace.errors import EngineError
from headrace.language import Query, normalise_type
from headrace.maintenance.logs import relation_fields
from headrace.maintenance.relations import Relations
from headrace.maintenance.small_logs import PART_TIMESTAMP
from headrace.runtime.delta_functions import Step
from headrace.runtime.home import Home
from headrace.runtime.plans import types_of
from headrace.storage.records import Object


def part_tree(home: Home, relations: Relations, step: Step, view: Object, *, many: bool) -> Node | None:
    """The tree in core form, worked out once: for one part, or for many, whose last column is `PART`.

    None where the query cannot be understood.
    """
    query = step.many if many else step.query
    if query is None:
        return None
    items = [relations.source.find(name) for name, _reference in step.inputs]
    shapes = tuple((item.id, item.columns, item.log, item.options.get("exposes_ts")) for item in items)
    key = ("tree of parts" if many else "tree of a part", query, shapes, view.columns)
    if key not in home.plans:
        fields = [
            [(field.name, field.type) for field in relation_fields(item)]
            + ([(PART_TIMESTAMP, "TIMESTAMP")] if ref.part_timestamp else [])
            + ([(PART, "BIGINT")] if many else [])
            for item, ref in zip(items, step.query.relations(), strict=True)
        ]
        types = [*(column.type for column in view.columns), *(["BIGINT"] if many else [])]
        home.plans[key] = _worked_out(home, query, items, fields, types)
    known: Node | None = home.plans[key]
    return known


def _worked_out(
    home: Home,
    query: Query,
    items: Sequence[Object],
    fields: Sequence[Sequence[tuple[str, str]]],
    types: Sequence[str],
) -> Node | None:
    stored = [(item.name, columns) for item, columns in zip(items, fields, strict=True)]
    try:
        root = bind(query.without_parts(), stored, lambda text: types_of(home, text)).root
    except (NotBound, EngineError):
        return None
    return to_core(optimise(_typed(root, [normalise_type(kind) for kind in types])))


def _typed(root: Node, types: Sequence[str]) -> Node:
    """The result in the types that the view's columns have."""
    if [normalise_type(column.type) for column in root.columns] == types:
        return root
    names = Names(root)
    made = tuple(Column(names.fresh("typed"), kind) for kind in types)
    items = tuple(cast(column_of(name), kind) for name, kind in zip(root.names, types, strict=True))
    return Project(root, made, items)
