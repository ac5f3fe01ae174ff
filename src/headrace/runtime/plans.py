"""How a view's query is maintained by its changes: its tree, its delta program, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.algebra.binder import NotBound, bind
from headrace.algebra.cells import join_by_cells
from headrace.algebra.core import column_of, to_core
from headrace.algebra.deaths import Lifetime
from headrace.algebra.determinism import nondeterministic
from headrace.algebra.join_order import Rates
from headrace.algebra.nodes import Column, Node, Project, Scan
from headrace.algebra.pushdown import optimise
from headrace.algebra.renaming import renamed
from headrace.algebra.trees import with_children
from headrace.errors import EngineError
from headrace.language import Query, RelationRef
from headrace.language.types import arrow_type, normalise_type
from headrace.maintenance.program import Direct, Program, compile_program
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.maintenance.user_aggregates.known import KIND
from headrace.maintenance.verdicts import with_verdicts
from headrace.runtime.directing import direct_of
from headrace.runtime.home import Home, query_of
from headrace.runtime.rewriting import rewritten, spans_of
from headrace.runtime.scans import NoPlan, Read, make_ready, stored, with_lives, with_row_windows
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object


@dataclass(frozen=True)
class Plan:
    """A view's program. `reads[i]` is what its scans number i read.

    `grows`: the view is every result that the program ever gives (over INTERNAL windows), without its last columns.
    `lifetimes`: the nodes whose rows only die of their age. `tuples` is the view's option, `rewriting` what was done.
    """

    root: Node
    program: Program
    reads: tuple[Read, ...]
    grows: bool = False
    lifetimes: Mapping[Node, Lifetime] = field(default_factory=dict)
    tuples: str = "auto"
    rewriting: str = ""

    @property
    def inputs(self) -> tuple[Object, ...]:
        return tuple(read.item for read in self.reads)

    @property
    def refs(self) -> tuple[RelationRef, ...]:
        return tuple(read.ref for read in self.reads)


def plan_of(
    home: Home,
    source: Snapshot,
    query: Query,
    *,
    timed: bool,
    rates: Mapping[str, int] | None = None,
    spans: Mapping[str, float] | None = None,
    tuples: str = "auto",
    rewriting: str = "auto",
) -> Plan:
    """The plan of a query, made once for each shape of what it reads. Raises `NoPlan`.

    `rates` says how fast each relation (by id) changes; joins are ordered by it. `spans` says over how many seconds.
    `tuples` and `rewriting` are the view's options.
    """
    inputs = _all_inputs(source, query, timed)
    asked = _Asked(rates or {}, spans or {}, tuples, rewriting)
    told = (*sorted(asked.rates.items()), *sorted(asked.spans.items()))
    shapes = tuple((item.id, item.columns, item.option("retain")) for item in inputs)
    policies = tuple((item.id, *_policies(item)) for item in _read_through(source, query, timed))
    aggregates = tuple(item.id for item in source.objects(KIND))
    key = (query.sql(), aggregates, timed, told, tuples, rewriting, shapes, policies)
    known = home.plans.get(key)
    if known is None:
        try:
            known = _plan(home, source, query, timed, asked)
        except NoPlan as reason:
            known = reason
        home.plans[key] = known
    if isinstance(known, NoPlan):
        raise known
    return known


def _all_inputs(source: Snapshot, query: Query, timed: bool) -> list[Object]:
    found = []
    for ref in query.relations():
        item = source.find(ref.name)
        found += _all_inputs(source, query_of(item), timed) if _inlined(item, timed) else [item]
    return found


def _read_through(source: Snapshot, query: Query, timed: bool) -> list[Object]:
    """The views that are read through their queries."""
    found = []
    for item in (source.find(ref.name) for ref in query.relations()):
        if _inlined(item, timed):
            found += [item, *_read_through(source, query_of(item), timed)]
    return found


def _policies(item: Object) -> tuple[object, ...]:
    """When a view is refreshed, if not always."""
    return tuple(item.option(policy) for policy in ("every", "sync", "after_rows", "on_demand"))


def _inlined(item: Object, timed: bool) -> bool:
    """Whether a view is read through its query: when times are wanted of one that keeps only its newest content."""
    return timed and item.maintained and item.log == "state"


def rates_of(source: Snapshot, query: Query) -> dict[str, int]:
    """How fast relations change, as far as that can be told: a large one has changed often."""
    found = _all_inputs(source, query, timed=True)
    return {str(item.id): sum(part.rows for part in source.parts(item)) for item in found}


def times_of(source: Snapshot, query: Query) -> dict[str, float]:
    """Over how many seconds the rows of relations have come."""
    return spans_of(source, _all_inputs(source, query, timed=True))


@dataclass(frozen=True)
class _Asked:
    """What a view was made with."""

    rates: Mapping[str, int]
    spans: Mapping[str, float]
    tuples: str
    rewriting: str


def _plan(home: Home, source: Snapshot, query: Query, timed: bool, asked: _Asked) -> Plan:
    reads: list[Read] = []
    bound, grows = _bound(home, source, query, timed, reads)
    inputs = [read.item for read in reads]
    told = asked.rates
    by_rates = Rates(
        lambda scan: float(told.get(str(inputs[scan.relation].id), 0)), lambda scan: inputs[scan.relation].key
    )
    better = optimise(bound, by_rates if told else None)
    better, rewriting = rewritten(better, reads, asked.rewriting, asked.tuples, asked.rates, asked.spans)
    root = with_lives(better, reads)
    root = with_row_windows(to_core(root), reads)
    root = join_by_cells(root, by_rates if told else None, in_utc=home.engine.in_utc)
    for node in root.walk():
        for column in node.columns:
            _check_type(column)
    # What only comes is told by every row that comes and goes.
    direct = Direct() if grows else direct_of(root, reads, asked.tuples)
    program = with_verdicts(compile_program(root, direct), home.engine.kind)
    return Plan(root, program, tuple(reads), grows, direct.known, asked.tuples, rewriting)


def _check_type(column: Column) -> None:
    try:
        arrow_type(column.type)
    except Exception as error:
        raise NoPlan(f"a column of type {column.type} cannot be kept in a state") from error


def _bound(home: Home, source: Snapshot, query: Query, timed: bool, reads: list[Read]) -> tuple[Node, bool]:
    """The query's tree, its scans numbered on from those already in `reads`; and whether its results only come."""
    _check(source, query)
    ready = make_ready(home, source, query)
    query, timed = ready.query, timed or ready.grows
    items = [source.find(ref.name) for ref in query.relations()]
    relations = [(item.name, ready.fields(number, item)) for number, item in enumerate(items)]
    try:
        root = bind(query, relations, lambda text: types_of(home, text)).root
    except NotBound as error:
        raise NoPlan(str(error)) from error
    except EngineError as error:
        raise NoPlan(f"the engine does not analyse a part of it: {error.message}") from error
    numbers: dict[int, int] = {}
    views: dict[int, Node] = {}
    for number, item in enumerate(items):
        if _inlined(item, timed):
            if any(_policies(item)):
                raise NoPlan(f"{item.name} is refreshed when its own policy says so, and keeps no times of its changes")
            views[number], grows = _bound(home, source, query_of(item), timed, reads)
            if grows:
                raise NoPlan(f"results of {item.name} only come, and it keeps no times at which they came")
        else:
            numbers[number] = len(reads)
            reads.append(Read(item, query.relations()[number], ready.reading(number, item)))
    return _substituted(root, numbers, views, dict(enumerate(items))), ready.grows


def _substituted(root: Node, numbers: dict[int, int], views: dict[int, Node], items: dict[int, Object]) -> Node:
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) in done:
            return done[id(node)]
        if not isinstance(node, Scan):
            made = with_children(node, [visit(child) for child in node.children])
        elif node.relation in views:
            inner = _apart(views[node.relation], len(done))
            place = {name.lower(): number for number, name in enumerate(items[node.relation].names)}
            chosen = [inner.names[place[source.lower()]] for source in node.sources]
            made = Project(inner, node.columns, tuple(column_of(name) for name in chosen))
        else:
            made = replace(node, relation=numbers[node.relation], sources=tuple(map(stored, node.sources)))
        done[id(node)] = made
        return made

    return visit(root)


def _apart(view: Node, number: int) -> Node:
    """A view's tree under an outermost naming of its own: its names may also occur in the tree that reads it."""
    return renamed(view, f"v{number}_")


def _check(source: Snapshot, query: Query) -> None:
    features = query.features()
    if features:
        raise NoPlan(f"{features[0]} is evaluated as a whole")
    if calls_aggregates(source, query):
        raise NoPlan("it calls aggregates over rows in their order")
    if any(ref.parts is not None for ref in query.relations()):
        raise NoPlan("parts are read one by one")
    call = nondeterministic(query)
    if call is not None:
        raise NoPlan(f"{call} gives another value each time it is asked")


def types_of(home: Home, text: str) -> tuple[str, ...]:
    """The column types of a Spark text, as the engine tells them."""
    frame = home.engine.sql(text)
    with home.engine.translated():
        fields: Sequence[Any] = frame.schema.fields
    return tuple(_type(item.dataType.simpleString()) for item in fields)


def _type(name: str) -> str:
    return name if name == "void" else normalise_type(name)
