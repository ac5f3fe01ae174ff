"""The view delta function of a view: its two queries, and which parts of what they need."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headrace.algebra.determinism import check_deterministic
from headrace.algebra.part_wise.lifting import lift
from headrace.algebra.part_wise.outer_joins import spell_out_outer_joins
from headrace.algebra.part_wise.references import Reference, check_reference
from headrace.errors import DefinitionError, NotYetMaintained
from headrace.language import CreateViewDelta, Query, RelationRef, parse_one
from headrace.maintenance.logs import relation_fields
from headrace.maintenance.relations import Source
from headrace.storage.records import Object


@dataclass(frozen=True)
class Step:
    """A query that makes one part: INITIALIZE or UPDATE.

    `inputs` are the names of its relations in their order, each with the parts it is read by; None where it is read as
    a whole. `many` is the same query for many parts at once, if there is one.
    """

    query: Query
    inputs: tuple[tuple[str, Reference | None], ...]
    many: Query | None

    @property
    def references(self) -> list[Reference]:
        return [reference for _name, reference in self.inputs if reference is not None]

    @property
    def whole(self) -> list[str]:
        return [name for name, reference in self.inputs if reference is None]


@dataclass(frozen=True)
class DeltaFunction:
    """How a view's first part is made, and every other one."""

    initialize: Step
    update: Step

    def step(self, part: int, first: int) -> Step:
        return self.initialize if part == first else self.update


@lru_cache(maxsize=512)
def _parsed(text: str) -> CreateViewDelta:
    statement = parse_one(text)
    assert isinstance(statement, CreateViewDelta)
    return statement


def statement_of(view: Object) -> CreateViewDelta:
    """The statement that makes a view's parts: as the user wrote it, or as it was translated."""
    return _parsed(view.option("function") or view.definition)


def function_of(source: Source, view: Object) -> DeltaFunction:
    """A view's delta function over the relations of `source`."""
    return _kept(source, view, view.option("function") or view.definition)


def plain_function_of(source: Source, view: Object) -> DeltaFunction | None:
    """The function of a view for parts in which no group has two rows, if it has one."""
    text = view.option("plain_function")
    return None if text is None else _kept(source, view, text)


#: Functions that were worked out, by their text and by what their relations are: a refresh asks for each of them.
_known: OrderedDict[tuple[Any, ...], DeltaFunction] = OrderedDict()
_MOST_KNOWN = 256


def _kept(source: Source, view: Object, text: str) -> DeltaFunction:
    statement = _parsed(text)
    names = [ref.name for query in (statement.initialize, statement.update) for ref in query.relations()]
    items = [view if name.lower() == view.name.lower() else source.find(name) for name in names]
    key = (text, view.id, *((item.id, item.partition_length, item.log, item.columns) for item in items))
    if key not in _known:
        _known[key] = delta_function(source, statement, view)
        while len(_known) > _MOST_KNOWN:
            _known.popitem(last=False)
    return _known[key]


def delta_function(source: Source, statement: CreateViewDelta, view: Object) -> DeltaFunction:
    """The delta function a statement tells, its references checked."""
    return DeltaFunction(
        initialize_step(source, statement), _step(source, statement.update, statement.update_index, statement, view)
    )


def initialize_step(source: Source, statement: CreateViewDelta) -> Step:
    """The INITIALIZE query alone, which tells the view's columns."""
    return _step(source, statement.initialize, statement.initialize_index, statement, None)


def _step(source: Source, query: Query, variable: str, statement: CreateViewDelta, view: Object | None) -> Step:
    _check_query(query, statement)
    items = [_item(source, ref.name, statement.name, view) for ref in query.relations()]
    inputs: list[tuple[str, Reference | None]] = []
    for ref, item in zip(query.relations(), items, strict=True):
        own = view is not None and item is view
        if ref.parts is None and not own and (item.partition_length is None or item.kind == "table"):
            inputs.append((item.name, None))
            continue
        length = None if item.log == "state" else item.partition_length
        parts = check_reference(ref, statement.partition_length, length, variable, own=own)
        inputs.append((item.name, Reference(item.id, item.name, item.partition_length or 1, parts, own)))
    columns = [[(field.name, field.type) for field in relation_fields(item)] for item in items]
    query = spell_out_outer_joins(query, columns)
    met = any(item.option("non_retroactive") for item in items)
    # Not for many at once where one part follows from another, or versions are met by arrival.
    alone = met or any(ref is not None and ref.own for _name, ref in inputs)
    return Step(query, tuple(inputs), None if alone else _for_many(query, columns))


def _for_many(query: Query, columns: Any) -> Query | None:
    return lift(query, [[name for name, _kind in found] for found in columns])


def _item(source: Source, name: str, own: str, view: Object | None) -> Object:
    if name.lower() != own.lower():
        return source.find(name)
    if view is None:
        raise DefinitionError(
            "READS_ITSELF",
            f"INITIALIZE makes the first part of {own}, so there is no part of it to be read yet.",
            hint="Read earlier parts of the view in UPDATE.",
        )
    return view


def _check_query(query: Query, statement: CreateViewDelta) -> None:
    if query.features():
        raise NotYetMaintained(f"{query.features()[0]} in a view delta function", place=query.place)
    if query.output is not None:
        raise DefinitionError("MISPLACED_OUTPUT", f"A part of {statement.name} is no stream.", place=query.place)
    if query.reads_clock:
        raise DefinitionError(
            "CLOCK_IN_PART",
            f"A part of {statement.name} follows from the parts it names, so it cannot depend on Now or on a window.",
            hint="Name the parts of the window: M[j-9..j].",
            place=query.place,
        )
    for ref in query.relations():
        if ref.sync is not None:
            raise sync_in_parts(statement.name, ref)
        if ref.as_of is not None or ref.kind == "changes":
            raise DefinitionError(
                "AS_OF_IN_VIEW",
                f"A part of {statement.name} cannot read {ref.name} AS OF a time, or its CHANGES.",
                hint=f"Name the parts it reads: {ref.name}[{statement.update_index}].",
                place=ref.place,
            )
    check_deterministic(query)


def sync_in_parts(view: str, ref: RelationRef) -> DefinitionError:
    """A view that is made part by part reads whole parts."""
    return DefinitionError(
        "SYNC_IN_PART",
        f"{view} is made part by part, and a part of {ref.name} cannot be read through {ref.sync}.",
        hint=f"CREATE STREAMED VIEW s AS SELECT * FROM {ref.name} SYNC BY {ref.sync} PARTITION LENGTH n, and read s.",
        place=ref.place,
    )


def inputs_of(function: DeltaFunction, source: Source) -> Sequence[Object]:
    """The objects the function reads, each once, without the view itself."""
    found: dict[int, Object] = {}
    for step in (function.initialize, function.update):
        for reference in step.references:
            if not reference.own:
                found[reference.relation] = source.find(reference.name)
        found |= {item.id: item for item in map(source.find, step.whole)}
    return list(found.values())
