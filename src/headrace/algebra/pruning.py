"""Columns that nobody reads, dropped everywhere; windows and aggregates that nobody reads, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.algebra.expressions import columns_of_all
from headrace.algebra.nodes import (
    Aggregate,
    Call,
    Constant,
    Filter,
    Generate,
    Join,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)
from headrace.algebra.trees import all_nodes, narrow, references, with_children


def prune(root: Node) -> Node:
    """The tree with only the columns that its root's columns need."""
    needed = {id(root): set(root.names)}
    for node in reversed(all_nodes(root)):
        for child, names in _asked(node, needed[id(node)]):
            needed.setdefault(id(child), set()).update(names)
    done: dict[int, Node] = {}

    def build(node: Node) -> Node:
        if id(node) not in done:
            children = [build(child) for child in node.children]
            done[id(node)] = _build(node, children, needed, id(node))
        return done[id(node)]

    return narrow(build(root), root.names)


def _asked(node: Node, needed: set[str]) -> Iterable[tuple[Node, set[str]]]:
    """Which columns of each child the node needs, to give `needed`."""
    match node:
        case Project():
            kept = [i for i, n in zip(node.items, node.names, strict=True) if n in needed] or node.items[:1]
            yield node.child, set(columns_of_all(kept))
        case Aggregate():
            used = columns_of_all(call.expression for call in _kept_calls(node, needed))
            yield node.child, set(node.keys) | used
        case Over():
            calls = [call for call in node.calls if call.column.name in needed]
            partition = set(node.partition) if calls else set()
            used = columns_of_all(call.expression for call in calls)
            yield node.child, (needed & set(node.child.names)) | partition | used
        case Union():
            for child in node.inputs:
                pairs = zip(node.names, child.names, strict=True)
                yield child, {theirs for mine, theirs in pairs if mine in needed} or {child.names[0]}
        case SetOperation():
            yield node.left, set(node.left.names)
            yield node.right, set(node.right.names)
        case TopK():
            # Ties are broken by all columns.
            yield node.child, set(node.child.names)
        case _:
            for child in node.children:
                yield child, (needed | references(node)) & set(child.names)


def _kept_calls(node: Aggregate, needed: set[str]) -> tuple[Call, ...]:
    kept = tuple(call for call in node.calls if call.column.name in needed)
    return kept or (() if node.keys else node.calls[:1])


def _build(node: Node, children: list[Node], needs: dict[int, set[str]], key: int) -> Node:
    needed = needs[key]
    match node:
        case Scan():
            kept = [(c, s) for c, s in zip(node.columns, node.sources, strict=True) if c.name in needed]
            kept = kept or [(node.columns[0], node.sources[0])]
            return replace(node, columns=tuple(c for c, _ in kept), sources=tuple(s for _, s in kept))
        case Constant():
            return node
        case Project():
            pairs = [(c, i) for c, i in zip(node.columns, node.items, strict=True) if c.name in needed]
            pairs = pairs or [(node.columns[0], node.items[0])]
            return Project(children[0], tuple(c for c, _ in pairs), tuple(i for _, i in pairs))
        case Aggregate():
            return Aggregate(_only(children[0], needs, node.child), node.keys, _kept_calls(node, needed))
        case Over():
            calls = tuple(call for call in node.calls if call.column.name in needed)
            return Over(_only(children[0], needs, node.child), node.partition, calls) if calls else children[0]
        case Union():
            wanted = [i for i, name in enumerate(node.names) if name in needed] or [0]
            inputs = [narrow(c, [o.names[i] for i in wanted]) for c, o in zip(children, node.inputs, strict=True)]
            return Union(tuple(inputs), tuple(node.columns[i] for i in wanted))
        case SetOperation():
            sides = [narrow(c, o.names) for c, o in zip(children, node.children, strict=True)]
            return with_children(node, sides)
        case TopK():
            return with_children(node, [narrow(children[0], node.child.names)])
        case Join():
            sides = [_only(c, needs, o) for c, o in zip(children, node.children, strict=True)]
            return with_children(node, sides)
        case Generate():
            return with_children(node, [_only(children[0], needs, node.child)])
    return with_children(node, children)


def _only(child: Node, needs: dict[int, set[str]], before: Node) -> Node:
    """A join below gives its keys too; what is above it need not carry them on."""
    inner = child
    while isinstance(inner, Filter):
        inner = inner.child
    needed = needs[id(before)]
    if not isinstance(inner, Join) or set(child.names) <= needed:
        return child
    return narrow(child, [name for name in child.names if name in needed] or child.names[:1])
