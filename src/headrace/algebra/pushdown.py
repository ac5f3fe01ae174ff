"""A better tree of the same meaning: filters low, joins on equalities, no column and no expression that nobody needs.

Nodes that are shared stay shared: nothing is pushed into a node that has a second reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.distincts import split_distincts
from headrace.algebra.expressions import columns_of, is_ref, rename, substitute, text
from headrace.algebra.join_order import Rates, rebuild_by_rates
from headrace.algebra.joins import filtered
from headrace.algebra.merging import merge, push_computations
from headrace.algebra.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    Union,
)
from headrace.algebra.normal import factored, implied
from headrace.algebra.nulls import rejects_nulls
from headrace.algebra.pruning import prune
from headrace.algebra.regions import Fresh, Region, collect, rebuild
from headrace.algebra.trees import definitions, narrow, parents, with_children


def optimise(root: Node, rates: Rates | None = None) -> Node:
    """The same columns in the same order, computed in a better way; with `rates`, joins in the order they suggest."""
    names = root.names
    root = narrow(_Pusher(root, rates).push(root, []), names)
    root = merge(prune(root))
    root = split_distincts(root)
    root = push_computations(root)
    root = merge(prune(root))
    return narrow(root, names)


class _Pusher:
    def __init__(self, root: Node, rates: Rates | None) -> None:
        self.rates = rates
        self.shared = {node for node, count in parents(root).items() if count > 1}
        self.done: dict[int, Node] = {}
        self.fresh = Fresh(root)

    def push(self, node: Node, conditions: Sequence[exp.Expr]) -> Node:
        """The rows of `node` for which all `conditions`, over its columns, hold."""
        if id(node) not in self.shared:
            return self._push(node, conditions)
        if id(node) not in self.done:
            self.done[id(node)] = self._push(node, [])
        return filtered(self.done[id(node)], conditions)

    def _push(self, node: Node, conditions: Sequence[exp.Expr]) -> Node:
        match node:
            case Filter():
                return self.push(node.child, [*conditions, *factored(node.predicate)])
            case Project():
                items = definitions(node)
                down = [substitute(part, items) for part in conditions]
                return replace(node, child=self.push(node.child, down))
            case Join() if node.kind == "inner":
                return self._region(node, conditions)
            case Join():
                return self._outer_join(node, conditions)
            case Aggregate():
                return self._through(node, conditions, frozenset(node.keys))
            case Over():
                return self._through(node, conditions, frozenset(node.partition))
            case Generate():
                return self._through(node, conditions, frozenset(node.child.names))
            case Union():
                return with_children(node, [self._positional(child, node, conditions) for child in node.inputs])
            case SetOperation():
                sides = [self._positional(child, node, conditions) for child in (node.left, node.right)]
                return with_children(node, sides)
        children = [self.push(child, []) for child in node.children]
        return filtered(with_children(node, children), conditions)

    def _through(
        self, node: Aggregate | Over | Generate, conditions: Sequence[exp.Expr], names: frozenset[str]
    ) -> Node:
        """Conditions on `names` alone hold for all rows that one result row is made of."""
        down = [part for part in conditions if columns_of(part) and columns_of(part) <= names]
        kept = [part for part in conditions if not any(part is moved for moved in down)]
        return filtered(with_children(node, [self.push(node.child, down)]), kept)

    def _positional(self, child: Node, node: Union | SetOperation, conditions: Sequence[exp.Expr]) -> Node:
        names = dict(zip(node.names, child.names, strict=True))
        return narrow(self.push(child, [rename(part, names) for part in conditions]), child.names)

    def _outer_join(self, node: Join, conditions: Sequence[exp.Expr]) -> Node:
        node = _stricter(node, conditions)
        if node.kind == "inner":
            return self._region(node, conditions)
        lefts, rights = frozenset(node.left.names), frozenset(node.right.names)
        left_may = node.kind in ("left", "semi", "anti")
        right_may = node.kind == "right"
        to_left = [p for p in conditions if left_may and columns_of(p) and columns_of(p) <= lefts]
        to_right = [p for p in conditions if right_may and columns_of(p) and columns_of(p) <= rights]
        kept = [p for p in conditions if not any(p is moved for moved in (*to_left, *to_right))]
        inner_side, outer_side = (to_left, to_right) if right_may else (to_right, to_left)
        # A condition on the key alone holds for both sides of an equality.
        inner_side += _copied(node, outer_side, from_left=left_may)
        left, right = self.push(node.left, to_left), self.push(node.right, to_right)
        return filtered(with_children(node, [left, right]), kept)

    def _region(self, node: Join, conditions: Sequence[exp.Expr]) -> Node:
        region = Region()
        known = collect(node, region, self.shared)
        region.conditions += [substitute(part, known) for part in conditions]
        parts = list({text(part): part for whole in region.conditions for part in factored(whole)}.values())
        parts += _copies(parts, region)
        for position, leaf in enumerate(region.leaves):
            names = frozenset(leaf.names)
            mine = [part for part in parts if columns_of(part) and columns_of(part) <= names]
            parts = [part for part in parts if not any(part is moved for moved in mine)]
            told = [implied(part, names) for part in parts]
            mine += [part for part in told if part is not None]
            region.leaves[position] = self.push(leaf, mine)
        region.conditions = parts
        if self.rates is not None and len(region.leaves) > 2:
            return _restored(node, rebuild_by_rates(region, self.fresh, self.rates), known)
        return _restored(node, rebuild(region, self.fresh), known)


def _copies(parts: Sequence[exp.Expr], region: Region) -> list[exp.Expr]:
    """Conditions on one column, told of every column that must be equal to it."""
    exact = {c.name for leaf in region.leaves for c in leaf.columns if c.type not in ("float", "double")}
    classes: list[set[str]] = []
    for part in parts:
        if isinstance(part, exp.EQ) and is_ref(part.this) and is_ref(part.expression):
            pair = {part.this.name, part.expression.name}
            joined = [known for known in classes if known & pair]
            classes = [known for known in classes if not known & pair]
            classes.append(pair.union(*joined))
    told = {text(part) for part in parts}
    found: dict[str, exp.Expr] = {}
    for part in parts:
        (name, *more) = columns_of(part) or {""}
        for known in classes:
            if not more and name in known & exact:
                copies = [rename(part, {name: other}) for other in sorted(known & exact) if other != name]
                found |= {text(copy): copy for copy in copies if text(copy) not in told}
    return list(found.values())


def _restored(node: Node, joined: Node, known: dict[str, exp.Expr]) -> Node:
    """The columns that projections inside the region gave, computed above it."""
    if all(name in joined.names for name in node.names):
        return joined
    items = tuple(known[name] for name in node.names)
    return Project(joined, node.columns, items)


def _copied(node: Join, conditions: Sequence[exp.Expr], *, from_left: bool) -> list[exp.Expr]:
    pairs = {(p.left if from_left else p.right): (p.right if from_left else p.left) for p in node.equal}
    side = node.left if from_left else node.right
    exact = {c.name for c in side.columns if c.type not in ("float", "double")}
    return [rename(p, pairs) for p in conditions if columns_of(p) <= set(pairs) & exact]


def _stricter(node: Join, conditions: Sequence[exp.Expr]) -> Join:
    """An outer join as an inner one where the rows it would fill with NULLs are thrown away above."""
    if node.kind not in ("left", "right", "full"):
        return node
    no_left_nulls = any(rejects_nulls(part, frozenset(node.left.names)) for part in conditions)
    no_right_nulls = any(rejects_nulls(part, frozenset(node.right.names)) for part in conditions)
    keeps_left = node.kind in ("left", "full") and not no_right_nulls
    keeps_right = node.kind in ("right", "full") and not no_left_nulls
    if keeps_left and keeps_right:
        return node
    kind = "left" if keeps_left else "right" if keeps_right else "inner"
    return replace(node, kind=kind)  # type: ignore[arg-type]
