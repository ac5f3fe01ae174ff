"""Subqueries that mention columns of the query around them, as joins.

Two ways. *Lifting* pulls the conditions that mention the outer row up to the join: a filter gives up its conjunct, a
GROUP BY and a window also group by the inner column that is compared. What cannot be lifted is computed for the
*domain*, the distinct values of the outer columns it mentions, and joined on them (Neumann and Kemper, Unnesting
Arbitrary Queries); that way takes any tree.

A global aggregate gives a row also where no inner row matches. Lifted it gives none, so `Lifted.total` says that the
missing row is to be made up, with the values in `Lifted.empty`: 0 for a count, NULL for a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.algebra.aggregates import empty_value
from headrace.algebra.domains import over_domain
from headrace.algebra.expressions import case, columns_of, conjuncts, equal, is_ref, ref, substitute, unparen
from headrace.algebra.joins import equality, filtered, keyed, make_join
from headrace.algebra.nodes import Aggregate, Constant, Filter, Generate, Join, JoinKind, Node, Over, Project, TopK
from headrace.algebra.not_bound import NotBound
from headrace.algebra.nulls import is_strict
from headrace.algebra.trees import definitions, free_columns, references, with_children
from headrace.algebra.typed import Typer
from headrace.algebra.windows import partition_also


class Stuck(Exception):
    """The tree cannot be lifted."""


@dataclass
class Lifted:
    """For each outer row, the subquery is the rows of `node` for which all `conditions` hold.

    A column in `late` is not in the node: it mentions the outer row and is computed after the join.
    """

    node: Node
    conditions: list[exp.Expr] = field(default_factory=list)
    late: dict[str, exp.Expr] = field(default_factory=dict)
    total: bool = False
    empty: dict[str, exp.Expr] = field(default_factory=dict)

    def value(self, column: str) -> exp.Expr:
        return self.late.get(column, ref(column))


def lift(typer: Typer, outer: Node, node: Node, *, total: bool = False) -> Lifted:
    """The subquery `node` without columns of `outer`; `total` says whether the caller can make up missing rows."""
    names = frozenset(outer.names)
    mentioned = free_columns(node) & names
    if not mentioned:
        return Lifted(node)
    try:
        found = _lift(typer, node, names)
        if not found.total or total:
            return found
    except Stuck:
        pass
    inside, columns = over_domain(typer, outer, node, sorted(mentioned))
    return Lifted(inside, [equal(ref(name), ref(columns[name]), null_safe=True) for name in sorted(mentioned)])


def _lift(typer: Typer, node: Node, outer: frozenset[str]) -> Lifted:
    if not free_columns(node) & outer:
        return Lifted(node)
    match node:
        case Filter():
            return _lift_filter(typer, node, outer)
        case Project():
            return _lift_project(typer, node, outer)
        case Join():
            return _lift_join(typer, node, outer)
        case Aggregate():
            return _lift_aggregate(typer, node, outer)
        case Over():
            below = _partial(typer, node, outer)
            child, keys = _grouped(typer, below, outer)
            return Lifted(partition_also(node, child, keys), below.conditions)
        case Generate():
            below = _partial(typer, node, outer)
            return Lifted(with_children(node, [below.node]), below.conditions, below.late)
    raise Stuck


def _partial(typer: Typer, node: Over | Generate | Aggregate, outer: frozenset[str]) -> Lifted:
    below = _lift(typer, node.child, outer)
    if below.total or references(node) & (outer | set(below.late)):
        raise Stuck
    return below


def _lift_filter(typer: Typer, node: Filter, outer: frozenset[str]) -> Lifted:
    below = _lift(typer, node.child, outer)
    if below.total:
        raise Stuck
    kept: list[exp.Expr] = []
    for part in conjuncts(node.predicate):
        part = substitute(part, below.late)
        (below.conditions if columns_of(part) & outer else kept).append(part)
    below.node = filtered(below.node, kept)
    return below


def _lift_project(typer: Typer, node: Project, outer: frozenset[str]) -> Lifted:
    below = _lift(typer, node.child, outer)
    items = {name: substitute(item, below.late) for name, item in definitions(node).items()}
    late = {name: item for name, item in items.items() if columns_of(item) & outer}
    needed = {name for part in (*below.conditions, *late.values()) for name in columns_of(part)}
    # What the conditions and the late columns need is passed on under its own name.
    carried = [c for c in below.node.columns if c.name in needed and not (c.name in items and c.name not in late)]
    kept = [column for column in node.columns if column.name not in late and column not in carried]
    columns = (*kept, *carried)
    computed = tuple(items[c.name] for c in kept) + tuple(ref(c.name) for c in carried)
    if not columns:
        column = below.node.columns[0]
        columns, computed = (column,), (ref(column.name),)
    empty = {name: _over_nothing(item, below.empty) for name, item in items.items()} if below.total else {}
    return Lifted(Project(below.node, columns, computed), below.conditions, late, below.total, empty)


def _over_nothing(item: exp.Expr, empty: Mapping[str, exp.Expr]) -> exp.Expr:
    """What an expression over aggregates is where there was no row; plainly NULL where that is sure."""
    nulls = frozenset(name for name, value in empty.items() if isinstance(value, exp.Null))
    return exp.Null() if is_strict(item, nulls) else substitute(item, empty)


def _lift_join(typer: Typer, node: Join, outer: frozenset[str]) -> Lifted:
    in_left = bool(free_columns(node.left) & outer)
    in_right = bool(free_columns(node.right) & outer)
    residual = conjuncts(node.residual)
    outer_parts = [part for part in residual if columns_of(part) & outer]
    if node.kind != "inner":
        preserved_only = in_left if node.kind == "right" else in_right
        if outer_parts or preserved_only or node.kind == "full":
            raise Stuck
    left = _lift(typer, node.left, outer) if in_left else Lifted(node.left)
    right = _lift(typer, node.right, outer) if in_right else Lifted(node.right)
    late = {**left.late, **right.late}
    if left.total or right.total or references(node) & set(late):
        raise Stuck
    inner_parts = [part for part in residual if not columns_of(part) & outer]
    predicate = None
    for part in inner_parts:
        predicate = part.copy() if predicate is None else exp.and_(predicate, part)
    joined = Join(node.kind, left.node, right.node, node.equal, predicate)
    return Lifted(joined, left.conditions + right.conditions + outer_parts, late)


def _lift_aggregate(typer: Typer, node: Aggregate, outer: frozenset[str]) -> Lifted:
    below = _partial(typer, node, outer)
    child, keys = _grouped(typer, below, outer)
    if not keys:
        raise Stuck
    known = dict.fromkeys((*node.keys, *keys))
    lifted = Lifted(Aggregate(child, tuple(known), node.calls), below.conditions)
    if node.is_global:
        lifted.total = True
        lifted.empty = {call.column.name: empty_value(call) for call in node.calls}
    return lifted


def _grouped(typer: Typer, below: Lifted, outer: frozenset[str]) -> tuple[Node, list[str]]:
    """The inner columns that the conditions compare with the outer row; all conditions must be such equalities."""
    inner = frozenset(below.node.names)
    pairs = [pair for part in below.conditions if (pair := equality(part, outer, inner)) is not None]
    if len(pairs) < len(below.conditions):
        raise Stuck
    node, keys, below.conditions = keyed(typer, below.node, pairs)
    return node, keys


def at_most_one(node: Node, fixed: frozenset[str]) -> bool:
    """Whether the node surely has at most one row for given values of the columns `fixed`."""
    match node:
        case Aggregate():
            return set(node.keys) <= fixed
        case Filter() | Over():
            return at_most_one(node.child, fixed)
        case TopK():
            return (node.limit is not None and node.limit <= 1) or at_most_one(node.child, fixed)
        case Project():
            below = {item.name for name, item in definitions(node).items() if name in fixed and is_ref(item)}
            return at_most_one(node.child, frozenset(below))
        case Join():
            mine = frozenset(node.left.names)
            if node.kind in ("semi", "anti"):
                return at_most_one(node.left, fixed & mine)
            if node.kind == "full":
                return False
            return at_most_one(node.left, fixed & mine) and at_most_one(node.right, fixed - mine)
    return _is_one_row(node)


def _is_one_row(node: Node) -> bool:
    """Whether it is a SELECT without FROM."""
    return isinstance(node, Constant) and " FROM " not in node.text


def exactly_one(node: Node) -> bool:
    """Whether the node surely has one row, whatever the data."""
    if isinstance(node, Project | Over):
        return exactly_one(node.child)
    if isinstance(node, Join) and node.kind in ("inner", "left"):
        plain = node.kind == "left" or not (node.equal or node.residual)
        return plain and exactly_one(node.left) and exactly_one(node.right)
    return (isinstance(node, Aggregate) and node.is_global) or _is_one_row(node)


def compared(conditions: Sequence[exp.Expr], outer: frozenset[str], inner: frozenset[str]) -> frozenset[str]:
    """The inner columns that some condition fixes for a given outer row."""
    found = set()
    for part in conditions:
        pair = equality(part, outer, inner)
        if pair is not None and is_ref(unparen(pair[1])):
            found.add(unparen(pair[1]).name)
    return frozenset(found)


def join_scalar(typer: Typer, outer: Node, inner: Node, column: str) -> tuple[Node, exp.Expr]:
    """The outer rows beside the one value that the subquery gives for each; and that value."""
    lifted = lift(typer, outer, inner, total=True)
    fixed = compared(lifted.conditions, frozenset(outer.names), frozenset(lifted.node.names))
    if not at_most_one(lifted.node, fixed) and not at_most_one(inner, frozenset()):
        raise NotBound("a scalar subquery may give more than one row, and Spark tells only when it runs")
    if not lifted.conditions and exactly_one(inner):
        return make_join(typer, "inner", outer, lifted.node, []), ref(column)
    node, (value,) = _outer_join(typer, outer, lifted, [column], [])
    return node, value


def join_lateral(
    typer: Typer,
    kind: JoinKind,
    outer: Node,
    inner: Node,
    columns: Sequence[str],
    conditions: Sequence[exp.Expr],
) -> tuple[Node, tuple[str, ...]]:
    """The outer rows beside all rows that the subquery gives for each, and the names of the subquery's columns."""
    lifted = lift(typer, outer, inner, total=not conditions)
    if kind == "inner" and not lifted.total:
        extra = [substitute(part, lifted.late) for part in conditions]
        node: Node = make_join(typer, "inner", outer, lifted.node, [*lifted.conditions, *extra])
        return typer.extend(node, [lifted.value(name) for name in columns], "lateral")
    node, values = _outer_join(typer, outer, lifted, columns, conditions)
    return typer.extend(node, values, "lateral")


def _outer_join(
    typer: Typer, outer: Node, lifted: Lifted, columns: Sequence[str], conditions: Sequence[exp.Expr]
) -> tuple[Node, tuple[exp.Expr, ...]]:
    """A left join, and the columns' values: made up where a total subquery has no row, else NULL there."""
    inner = lifted.node
    extra = [substitute(part, lifted.late) for part in conditions]
    made_up = {name: value for name, value in lifted.empty.items() if not isinstance(unparen(value), exp.Null)}
    if any(name in made_up or name in lifted.late for name in columns):
        inner, (there,) = typer.extend(inner, [exp.true()], "there")
        values = tuple(
            case([(ref(there), lifted.value(name))], made_up.get(name))
            if name in made_up or name in lifted.late
            else ref(name)
            for name in columns
        )
    else:
        values = tuple(map(ref, columns))
    return make_join(typer, "left", outer, inner, [*lifted.conditions, *extra]), values
