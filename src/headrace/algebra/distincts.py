"""count(DISTINCT x) and its like as a plain aggregate over the distinct values, which changes can maintain."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.nodes import Aggregate, Call, Node
from headrace.algebra.trees import with_children

_KINDS = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


def split_distincts(root: Node) -> Node:
    """The tree with every aggregate split whose calls are all DISTINCT over the same columns."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            rebuilt = with_children(node, [visit(child) for child in node.children])
            done[id(node)] = _split(rebuilt) if isinstance(rebuilt, Aggregate) else rebuilt
        return done[id(node)]

    return visit(root)


def _split(node: Aggregate) -> Node:
    told = {_columns(call.expression) for call in node.calls}
    if len(told) != 1:
        return node
    (columns,) = told
    if columns is None:
        return node
    below = Aggregate(node.child, tuple(dict.fromkeys((*node.keys, *columns))))
    calls = tuple(Call(call.column, _plain(call.expression)) for call in node.calls)
    return Aggregate(below, node.keys, calls)


def _columns(expression: exp.Expr) -> tuple[str, ...] | None:
    """The columns of ``f(DISTINCT a, b)``; None for anything else."""
    if not isinstance(expression, _KINDS) or not isinstance(expression.this, exp.Distinct):
        return None
    items = expression.this.expressions
    return tuple(item.name for item in items) if items and all(isinstance(i, exp.Column) for i in items) else None


def _plain(expression: exp.Expr) -> exp.Expr:
    copy = expression.copy()
    items = copy.this.expressions
    copy.set("this", items[0])
    if len(items) > 1:
        copy.set("expressions", items[1:])
    return copy
