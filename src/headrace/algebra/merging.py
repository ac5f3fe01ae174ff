"""Neighbouring projections and filters made one, and expressions computed below the joins that do not need them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.expressions import all_of, columns_of, columns_of_all, conjuncts, is_ref, ref, substitute, text
from headrace.algebra.nodes import Constant, Filter, Join, Node, Project
from headrace.algebra.trees import definitions, parents, references, with_children


def merge(root: Node) -> Node:
    """The tree without projections that change nothing, and with neighbours merged."""
    shared = {node for node, count in parents(root).items() if count > 1}
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            children = [visit(child) for child in node.children]
            may = not any(id(child) in shared for child in node.children)
            done[id(node)] = _merged(with_children(node, children), may)
        return done[id(node)]

    return visit(root)


def _merged(node: Node, may: bool) -> Node:
    match node:
        case Project() if node.names == node.child.names and all(map(is_ref, node.items)) and _same(node):
            return node.child
        case Project(child=Project() as below) if may and _cheap(node, below):
            items = definitions(below)
            joined = tuple(substitute(item, items) for item in node.items)
            return _merged(Project(below.child, node.columns, joined), True)
        case Project(child=Constant() as below) if may and not _has_window(node):
            shown = ", ".join(f"{text(i)} AS {c.name}" for i, c in zip(node.items, node.columns, strict=True))
            return Constant(f"SELECT {shown} FROM ({below.text})", node.columns)
        case Filter(child=Filter() as below) if may:
            predicate = all_of([*conjuncts(below.predicate), *conjuncts(node.predicate)])
            assert predicate is not None
            return Filter(below.child, predicate)
    return node


def _has_window(node: Project) -> bool:
    return any(item.find(exp.Window) for item in node.items)


def _same(node: Project) -> bool:
    return all(item.name == name for item, name in zip(node.items, node.names, strict=True))


def _cheap(node: Project, below: Project) -> bool:
    """Whether merging computes nothing twice."""
    uses: Counter[str] = Counter(c.name for item in node.items for c in item.find_all(exp.Column))
    simple = (exp.Column, exp.Literal, exp.Boolean)
    return all(isinstance(item, simple) or uses[name] <= 1 for name, item in definitions(below).items())


def push_computations(root: Node) -> Node:
    """Compute what speaks of one side of a join before it, where that leaves no more columns to carry."""
    shared = {node for node, count in parents(root).items() if count > 1}
    done: dict[int, Node] = {}
    # Nodes made on the way are visited too, and must live as long as what is known by their identity.
    alive: list[Node] = []

    def visit(node: Node) -> Node:
        if id(node) not in done:
            alive.append(node)
            rebuilt: Node = node
            if isinstance(node, Project) and isinstance(node.child, Join) and id(node.child) not in shared:
                rebuilt = _sunk(node, node.child, shared)
            children = [visit(child) for child in rebuilt.children]
            done[id(node)] = with_children(rebuilt, children)
        return done[id(node)]

    return visit(root)


def _sunk(node: Project, join: Join, shared: Collection[int]) -> Node:
    """The projection with what can be computed on one side of the join moved there."""
    sides = list(join.children)
    items = definitions(node)
    for number in _movable(join):
        mine = frozenset(sides[number].names)
        chosen = {n: i for n, i in items.items() if columns_of(i) and columns_of(i) <= mine and _is_safe(i)}
        others = columns_of_all(i for n, i in items.items() if n not in chosen) | references(join)
        freed = (columns_of_all(chosen.values()) - others) & mine
        if not chosen or len(chosen) > len(freed):
            continue
        side = sides[number]
        kept = [column for column in side.columns if column.name not in freed]
        made = [column for column in node.columns if column.name in chosen]
        expressions = [ref(column.name) for column in kept] + [chosen[column.name] for column in made]
        # A projection that was there is merged in, so that the next join below can be passed too.
        sides[number] = _merged(Project(side, (*kept, *made), tuple(expressions)), id(side) not in shared)
        items |= {name: ref(name) for name in chosen}
    moved = with_children(join, sides)
    if moved is join:
        return node
    return replace(node, child=moved, items=tuple(items[name] for name in node.names))


_SAFE = (
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Literal, exp.Column, exp.Identifier, exp.Null, exp.Boolean,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like,
    exp.Case, exp.If, exp.Coalesce, exp.Extract, exp.Year, exp.Month, exp.Day, exp.Var, exp.Concat, exp.Upper,
    exp.Lower, exp.Substring,
)  # fmt: skip


def _is_safe(item: exp.Expr) -> bool:
    """Whether the expression may be computed for rows that the join drops: a division could fail there."""
    return not is_ref(item) and all(isinstance(node, _SAFE) for node in item.walk())


def _movable(join: Join) -> tuple[int, ...]:
    """The sides whose columns are not made NULL by the join."""
    return {"inner": (0, 1), "left": (0,), "right": (1,), "semi": (0,), "anti": (0,)}.get(join.kind, ())
