"""A delta program: the operators of a view that keep state, and the edges that lead changes between them.

A query's tree in core form is cut at its keyed operators. What lies between two of them (filters and projections, and
for a scan also generators) are the *steps* of an edge, which the engine evaluates. Operators run in levels: all whose
inputs are there run together in one stage, each row going to the operator and bucket its edge and its key's hash name.

Where rows only die of their age they carry their death (`algebra.deaths`) and no negative row flows: these edges are
*direct*. An `Expire` stands where the first operator, or the view, has to be told what goes. Operators that must act
when a row falls due get ticks from the driver, by an edge that has no source.

What only the engine can evaluate follows an operator as its `after`: the rows it gives are collected, and SQL over them
gives the changes. That ends a job; the levels between two such ends are one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.algebra.core import column_of, is_simple, primitive
from headrace.algebra.deaths import DEATH, Lifetime, carried, only_refs, undying
from headrace.algebra.nodes import (
    Aggregate,
    Column,
    Constant,
    Filter,
    Generate,
    Join,
    Newest,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)
from headrace.algebra.trees import parents
from headrace.maintenance.operators.aggregate import AdditiveAggregate, GroupAggregate, NamedCall
from headrace.maintenance.operators.base import PAGES, Input, Operator
from headrace.maintenance.operators.direct_distinct import DirectDistinct
from headrace.maintenance.operators.direct_join import DirectJoin
from headrace.maintenance.operators.emitted import EmittedOperator
from headrace.maintenance.operators.expire import Expire
from headrace.maintenance.operators.expiring_join import ExpiringJoin
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.operators.newest_rows import NewestRows
from headrace.maintenance.operators.pairs import PairsOperator
from headrace.maintenance.operators.rows_of_groups import RowsOfGroups
from headrace.maintenance.operators.set_operation import SetOperator
from headrace.maintenance.operators.top import TopOperator

ROOT = -1
#: The bucket that a tick is for.
TICK = Column("__tick", "INT")
_ADDITIVE = ("count_rows", "count", "sum")


@dataclass(frozen=True, eq=False)
class Edge:
    """Changes on their way: from a scan or an operator, through `steps`, to an operator's input or to the view.

    `direct`: a scan's rows carry their death, and come without negative ones. `buckets`: into how many its target is
    cut, where that is not the same for all.
    """

    number: int
    scan: Scan | None
    source: int | None
    steps: tuple[Node, ...]
    start: tuple[Column, ...]
    columns: tuple[Column, ...]
    target: int
    slot: int
    key: tuple[str, ...] = ()
    direct: bool = False
    buckets: int | None = None

    @property
    def is_tick(self) -> bool:
        return self.scan is None and self.source is None


@dataclass(frozen=True, eq=False)
class Placed:
    """An operator in its place: the node it maintains and, where the engine has to finish its work, that node again.

    `reads` are the nodes of its inputs, if they are not the node's own children; `expires` is the one whose rows it
    keeps as long as they are alive.
    """

    number: int
    node: Node
    operator: Operator
    after: Node | None = None
    reads: tuple[Node, ...] = ()
    expires: Node | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """All of a view's operators, each after those it reads, and the edges between them."""

    root: Node
    operators: tuple[Placed, ...]
    edges: tuple[Edge, ...]

    def into(self, target: int) -> list[Edge]:
        return [edge for edge in self.edges if edge.target == target]

    def out_of(self, source: int) -> list[Edge]:
        return [edge for edge in self.edges if edge.source == source]

    def active(self, changed: Iterable[int], ticking: Iterable[int] = ()) -> set[int]:
        """The edges that can carry anything when only these relations changed, and these operators get ticks."""
        relations, due = set(changed), set(ticking)
        running: set[int] = set()
        found: set[int] = set()
        for placed in [*self.operators, None]:
            for edge in self.into(ROOT if placed is None else placed.number):
                if edge.is_tick:
                    carries = edge.target in due
                else:
                    carries = edge.scan.relation in relations if edge.scan is not None else edge.source in running
                if carries:
                    found.add(edge.number)
                    if placed is not None:
                        running.add(placed.number)
        return found


@dataclass(frozen=True)
class Direct:
    """The nodes whose rows carry their death, and whether calendars keep them; else all are looked at each time."""

    known: Mapping[Node, Lifetime] = field(default_factory=dict)
    calendars: bool = True

    def dies(self, node: Node) -> bool:
        return node in self.known and self.known[node].dies

    def expires(self, node: Node) -> bool:
        """Whether signed rows of a node need an `Expire`. A stream's own log is a queue that serves as well."""
        return self.dies(node) and not (self.calendars and self.known[node].in_log)

    def width(self, node: Node) -> int:
        """Of a page of the calendar of a node's rows; 0 for rows that never die."""
        length = self.known[node].length
        return 0 if length is None else max(1, length // PAGES)


@dataclass
class _Building:
    direct: Direct
    shared: frozenset[int]
    operators: list[Placed] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    placed: dict[tuple[int, bool], int] = field(default_factory=dict)


def compile_program(root: Node, direct: Direct | None = None) -> Program:
    """The delta program of a tree in core form."""
    work = _Building(direct or Direct(), frozenset(node for node, count in parents(root).items() if count > 1))
    _connect(work, root, ROOT, 0, root.columns, ())
    edges = tuple(replace(edge, number=number) for number, edge in enumerate(work.edges))
    return Program(root, tuple(work.operators), edges)


@dataclass(frozen=True)
class _Traced:
    source: Scan | int
    start: tuple[Column, ...]
    steps: tuple[Node, ...]
    direct: bool = False


def _connect(
    work: _Building, node: Node, target: int, slot: int, columns: tuple[Column, ...], key: tuple[str, ...]
) -> None:
    """Edges from all that `node` is made of to an operator's input; direct ones where that has a column for deaths."""
    for traced in _trace_direct(work, node) if DEATH in columns else _trace(work, node):
        scan = traced.source if isinstance(traced.source, Scan) else None
        source = None if isinstance(traced.source, Scan) else traced.source
        edge = Edge(0, scan, source, traced.steps, traced.start, columns, target, slot, key, traced.direct)
        work.edges.append(edge)


def _trace_direct(work: _Building, node: Node) -> list[_Traced]:
    """As `_trace`, for rows that carry their death."""
    if not work.direct.dies(node):
        return [_Traced(it.source, it.start, (*it.steps, undying(node))) for it in _trace(work, node)]
    match node:
        case Scan():
            return [_Traced(node, (*node.columns, DEATH), (), direct=True)]
        case Filter() | Project() | Generate():
            return [replace(it, steps=(*it.steps, carried(node))) for it in _trace_direct(work, node.child)]
        case Union():
            return [
                replace(it, steps=(*it.steps, carried(_renaming(child, node.columns))))
                for child in node.inputs
                for it in _trace_direct(work, child)
            ]
    return [_Traced(_place(work, node), (*node.columns, DEATH), ())]


def _trace(work: _Building, node: Node) -> list[_Traced]:
    """Where a node's rows come from, and through which row-wise steps."""
    if work.direct.expires(node) and not (isinstance(node, Filter | Project) and _over_distinct(node)):
        return [_Traced(_place(work, node, expire=True), node.columns, ())]
    match node:
        case Scan():
            return [_Traced(node, node.columns, ())]
        case Constant():
            return []
        case Generate() if _above_operator(node):
            return [_Traced(_place(work, node), node.columns, ())]
        case Filter() | Project() | Generate():
            return [_Traced(it.source, it.start, (*it.steps, node)) for it in _trace(work, node.child)]
        case Union():
            return [
                _Traced(it.source, it.start, (*it.steps, _renaming(child, node.columns)))
                for child in node.inputs
                for it in _trace(work, child)
            ]
    number = _place(work, node)
    return [_Traced(number, node.columns, ())]


def _above_operator(node: Node) -> bool:
    """Whether a generator has rows that do not come straight from stored relations."""
    if isinstance(node, Scan | Constant):
        return False
    if isinstance(node, Filter | Project | Generate | Union):
        return any(_above_operator(child) for child in node.children)
    return True


def _renaming(child: Node, columns: tuple[Column, ...]) -> Project:
    return Project(child, columns, tuple(column_of(name) for name in child.names))


def _place(work: _Building, node: Node, *, expire: bool = False) -> int:
    """The operator of a node, or the one that expires its rows, made once however many read it."""
    if (id(node), expire) in work.placed:
        return work.placed[id(node), expire]
    placed = _expiring(node, work) if expire else _made(node, work.direct)
    operator, reads = placed.operator, placed.reads or _inputs(node)
    # Children first, so that every operator comes after those it reads.
    pending = _Building(work.direct, work.shared, work.operators, [], work.placed)
    for slot, (child, read) in enumerate(zip(reads, operator.inputs, strict=True)):
        _connect(pending, child, ROOT, slot, read.columns, read.key)
    number = len(work.operators)
    work.operators.append(replace(placed, number=number))
    work.edges += [replace(edge, target=number) if edge.target == ROOT else edge for edge in pending.edges]
    if isinstance(operator, Expire | ExpiringJoin | DirectDistinct):
        work.edges.append(Edge(0, None, None, (), (TICK,), (TICK,), number, -1))
    if isinstance(operator, RowsOfGroups):
        emitted = EmittedOperator(node.columns, operator.keys)
        work.operators.append(Placed(number + 1, node, emitted))
        columns = emitted.inputs[0].columns
        work.edges.append(Edge(0, None, number, (), columns, columns, number + 1, 0, operator.keys))
        number += 1
    work.placed[id(node), expire] = number
    return number


def _made(node: Node, direct: Direct) -> Placed:
    if direct.dies(node):
        return Placed(0, node, _direct(node, direct))
    operator, after = _operator(node)
    return Placed(0, node, operator, after)


def _over_distinct(node: Node) -> bool:
    """Whether row-wise steps stand over duplicate elimination, which can tell by itself what goes."""
    while isinstance(node, Filter | Project):
        node = node.child
    return isinstance(node, Aggregate)


def _expiring(node: Node, work: _Building) -> Placed:
    """The operator that gives signed rows of a node whose rows carry their death."""
    direct = work.direct
    if isinstance(node, Aggregate):
        read = Input((*node.child.columns, DEATH), node.keys)
        return Placed(0, node, DirectDistinct(read, node.keys, direct.width(node), signed=True), reads=(node.child,))
    expire, picked, inner = _expire(node, direct), node.names, node
    while isinstance(inner, Project) and only_refs(inner) and id(inner) not in work.shared:
        source = dict(zip(inner.names, (item.name for item in inner.items), strict=True))
        picked, inner = tuple(source[name] for name in picked), inner.child
    if isinstance(inner, Join) and id(inner) not in work.shared:
        joined = ExpiringJoin(_direct_join(inner, direct), expire, picked)
        return Placed(0, inner, joined, reads=inner.children, expires=node)
    return Placed(0, node, expire, reads=(node,), expires=node)


def _expire(node: Node, direct: Direct) -> Expire:
    # Any cut into buckets will do: rows are not looked up by a key.
    key = tuple(column.name for column in node.columns if is_simple(column.type))
    return Expire(Input((*node.columns, DEATH), key), direct.width(node) if direct.calendars else 0)


def _direct(node: Node, direct: Direct) -> Operator:
    """The operator of a node whose rows carry their death."""
    match node:
        case Join():
            return _direct_join(node, direct)
        case Aggregate():
            read = Input((*node.child.columns, DEATH), node.keys)
            return DirectDistinct(read, node.keys, direct.width(node))
    raise TypeError(f"rows of {type(node).__name__} do not carry their death")


def _direct_join(node: Join, direct: Direct) -> DirectJoin:
    left = Input((*node.left.columns, DEATH), tuple(pair.left for pair in node.equal))
    right = Input((*node.right.columns, DEATH), tuple(pair.right for pair in node.equal))
    widths = direct.width(node.left), direct.width(node.right)
    return DirectJoin(left, right, node.equal, widths, not direct.calendars)


def _inputs(node: Node) -> Sequence[Node]:
    if isinstance(node, SetOperation):
        return [_renaming(node.left, node.columns), _renaming(node.right, node.columns)]
    return node.children


def _operator(node: Node) -> tuple[Operator, Node | None]:
    match node:
        case Join() if node.equal or node.residual is None:
            left = Input(node.left.columns, tuple(pair.left for pair in node.equal))
            right = Input(node.right.columns, tuple(pair.right for pair in node.equal))
            return JoinOperator(node.kind, left, right, node.equal), None
        case Join():
            return PairsOperator(Input(node.left.columns, ()), Input(node.right.columns, ())), node
        case Aggregate():
            return _aggregate(node)
        case SetOperation():
            return SetOperator(node.kind, node.all, Input(node.columns, tuple(c.name for c in node.columns))), None
        case TopK():
            return TopOperator(Input(node.columns, ()), node.order, node.limit, node.offset), None
        case Newest():
            read = Input(node.columns, node.partition)
            return NewestRows(read, node.time, node.number, node.length, node.slide), None
        case Over():
            read = Input(node.child.columns, node.partition)
            return RowsOfGroups(read, node.partition, "the rows of each partition"), node
        case Generate():
            return PairsOperator(Input(node.child.columns, ())), node
    raise TypeError(f"{type(node).__name__} keeps no state")


def _aggregate(node: Aggregate) -> tuple[Operator, Node | None]:
    read = Input(node.child.columns, node.keys)
    types = {column.name: column.type for column in node.child.columns}
    found = [(call.column, primitive(call, types)) for call in node.calls]
    calls = tuple(NamedCall(column, known) for column, known in found if known is not None)
    if len(calls) < len(node.calls):
        return RowsOfGroups(read, node.keys, "the rows of each group"), node
    if all(call.primitive.function in _ADDITIVE for call in calls):
        return AdditiveAggregate(read, node.keys, calls), None
    return GroupAggregate(read, node.keys, calls), None


@dataclass(frozen=True)
class Schedule:
    """Which operators run when: segments are jobs, each a list of levels, each a list of operators."""

    segments: tuple[tuple[tuple[int, ...], ...], ...]


def schedule(program: Program, active: set[int], most: int = 1_000) -> Schedule:
    """Put every operator that gets any changes as early as its inputs allow, with at most `most` levels in a job."""
    place: dict[int, tuple[int, int]] = {}
    for placed in program.operators:
        edges = [edge for edge in program.into(placed.number) if edge.number in active]
        if not edges:
            continue
        segment, level = 0, 0
        for edge in edges:
            if edge.source is not None:
                before = place[edge.source]
                ends = program.operators[edge.source].after is not None
                segment, level = max((segment, level), (before[0] + 1, 0) if ends else (before[0], before[1] + 1))
        place[placed.number] = (segment, level) if level < most else (segment + 1, 0)
    segments: list[list[list[int]]] = []
    for number, (segment, level) in place.items():
        while len(segments) <= segment:
            segments.append([])
        while len(segments[segment]) <= level:
            segments[segment].append([])
        segments[segment][level].append(number)
    return Schedule(tuple(tuple(tuple(level) for level in levels if level) for levels in segments))
