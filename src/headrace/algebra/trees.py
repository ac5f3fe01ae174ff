"""Small tools on operator trees: what a node mentions, what it lacks, and the same node over other children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.expressions import columns_of, columns_of_all, ref
from headrace.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Newest,
    Node,
    Over,
    Project,
    SetOperation,
    TopK,
    Unary,
    Union,
)


def references(node: Node) -> frozenset[str]:
    """The columns that the node itself mentions."""
    match node:
        case Filter():
            return columns_of(node.predicate)
        case Project():
            return columns_of_all(node.items)
        case Generate():
            return columns_of(node.generator)
        case Join():
            pairs = frozenset(name for pair in node.equal for name in (pair.left, pair.right))
            return pairs | columns_of(node.residual)
        case Aggregate():
            return frozenset(node.keys) | columns_of_all(call.expression for call in node.calls)
        case TopK():
            return frozenset(order.column for order in node.order)
        case Newest():
            return frozenset((*node.partition, node.time, node.number))
        case Over():
            return frozenset(node.partition) | columns_of_all(call.expression for call in node.calls)
    return frozenset()


def free_columns(node: Node, known: dict[int, frozenset[str]] | None = None) -> frozenset[str]:
    """The columns that the tree mentions and no node of it gives: those of a query around it."""
    known = {} if known is None else known
    if id(node) not in known:
        inside = frozenset(name for child in node.children for name in child.names)
        found = references(node) - inside
        for child in node.children:
            found |= free_columns(child, known)
        known[id(node)] = found
    return known[id(node)]


def with_children(node: Node, children: Sequence[Node]) -> Node:
    """The same operator over other children, which give the columns it mentions."""
    if all(old is new for old, new in zip(node.children, children, strict=True)):
        return node
    match node:
        case Generate():
            return replace(node, child=children[0], columns=children[0].columns + node.made)
        case Unary():
            return replace(node, child=children[0])
        case Join() | SetOperation():
            return replace(node, left=children[0], right=children[1])
        case Union():
            return replace(node, inputs=tuple(children))
    return node


def types_of(node: Node) -> dict[str, str]:
    return {column.name: column.type for column in node.columns}


def narrow(node: Node, names: Sequence[str]) -> Node:
    """Exactly the columns `names`, in that order."""
    if tuple(names) == node.names:
        return node
    known = {column.name: column for column in node.columns}
    return Project(node, tuple(known[name] for name in names), tuple(ref(name) for name in names))


def definitions(node: Project) -> dict[str, exp.Expr]:
    """What each column of the projection stands for."""
    return dict(zip(node.names, node.items, strict=True))


def all_nodes(root: Node) -> list[Node]:
    """Every node of the tree once, children first."""
    seen: set[int] = set()
    found: list[Node] = []

    def visit(node: Node) -> None:
        if id(node) not in seen:
            seen.add(id(node))
            for child in node.children:
                visit(child)
            found.append(node)

    visit(root)
    return found


def parents(root: Node) -> dict[int, int]:
    """How many mentions each node has in the tree; above one, it is shared."""
    counts: dict[int, int] = {}

    def visit(node: Node) -> None:
        counts[id(node)] = counts.get(id(node), 0) + 1
        if counts[id(node)] == 1:
            for child in node.children:
                visit(child)

    visit(root)
    return counts
