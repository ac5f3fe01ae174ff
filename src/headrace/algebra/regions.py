"""Inner joins taken as one: a set of inputs and a set of conditions, joined again along the equalities.

The written order is kept, but for inputs that nothing connects yet: they wait until an equality does, and where none
ever does the connected parts are joined without a key at the end.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.algebra.expressions import all_of, columns_of, is_ref, ref, substitute, text, unparen
from headrace.algebra.joins import conditions_of, equality, filtered
from headrace.algebra.nodes import Column, Equal, Filter, Join, Node, Project
from headrace.algebra.normal import factored, settled_type
from headrace.algebra.trees import all_nodes, definitions


class Fresh:
    """Names that a finished tree does not have yet."""

    def __init__(self, root: Node) -> None:
        numbers = [int(m.group(1)) for node in all_nodes(root) for n in node.names if (m := re.search(r"_(\d+)$", n))]
        self._numbers = itertools.count(max(numbers, default=0) + 1)

    def column(self, base: str, type_: str) -> Column:
        return Column(f"{base}_{next(self._numbers)}", type_)


@dataclass
class Region:
    """The inputs of nested inner joins, all conditions, and by its text what projections among them computed."""

    leaves: list[Node] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    computed: dict[str, Column] = field(default_factory=dict)


def collect(node: Join, region: Region, shared: Collection[int]) -> dict[str, exp.Expr]:
    """Take a join apart into `region`; what each of its columns is in terms of the inputs."""
    known = _collect(node.left, region, shared) | _collect(node.right, region, shared)
    region.conditions += [substitute(part, known) for part in conditions_of(node)]
    return known


def _collect(node: Node, region: Region, shared: Collection[int]) -> dict[str, exp.Expr]:
    if _reaches_join(node, shared):
        match node:
            case Join():
                return collect(node, region, shared)
            case Filter():
                known = _collect(node.child, region, shared)
                region.conditions += [substitute(part, known) for part in factored(node.predicate)]
                return known
            case Project():
                known = _collect(node.child, region, shared)
                found = {name: substitute(item, known) for name, item in definitions(node).items()}
                for column in node.columns:
                    if not is_ref(found[column.name]):
                        region.computed.setdefault(text(found[column.name]), column)
                return found
    return _leaf(node, region)


def _leaf(node: Node, region: Region) -> dict[str, exp.Expr]:
    region.leaves.append(node)
    return {name: ref(name) for name in node.names}


def _reaches_join(node: Node, shared: Collection[int]) -> bool:
    while id(node) not in shared and isinstance(node, Filter | Project):
        node = node.child
    return id(node) not in shared and isinstance(node, Join) and node.kind == "inner"


def rebuild(region: Region, fresh: Fresh) -> Node:
    """Join the inputs again."""
    waiting = list(region.leaves)
    conditions = list(region.conditions)
    whole: Node | None = None
    while waiting:
        part = waiting.pop(0)
        while (found := _connected(part, waiting, conditions, region)) is not None:
            waiting.remove(found)
            part = joined(part, found, conditions, region, fresh)
        whole = part if whole is None else joined(whole, part, conditions, region, fresh)
    assert whole is not None
    return filtered(whole, conditions)


def _connected(part: Node, waiting: list[Node], conditions: list[exp.Expr], region: Region) -> Node | None:
    names = frozenset(part.names)
    for leaf in waiting:
        theirs = frozenset(leaf.names)
        for condition in conditions:
            pair = equality(condition, names, theirs)
            if pair is not None and all(usable(side, region) for side in pair[:2]):
                return leaf
    return None


def usable(side: exp.Expr, region: Region) -> bool:
    return is_ref(unparen(side)) or settled_type(side) is not None or text(side) in region.computed


def joined(left: Node, right: Node, conditions: list[exp.Expr], region: Region, fresh: Fresh) -> Node:
    """Join two parts on all conditions that both together can tell, and take those off the list."""
    lefts, rights = frozenset(left.names), frozenset(right.names)
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    residual: list[exp.Expr] = []
    for condition in list(conditions):
        if not columns_of(condition) or not columns_of(condition) <= lefts | rights:
            continue
        conditions[:] = [kept for kept in conditions if kept is not condition]
        pair = equality(condition, lefts, rights)
        if pair is not None and all(usable(side, region) for side in pair[:2]):
            pairs.append(pair)
        else:
            residual.append(condition)
    left, left_names = _with_keys(left, [pair[0] for pair in pairs], region, fresh)
    right, right_names = _with_keys(right, [pair[1] for pair in pairs], region, fresh)
    equals = [Equal(a, b, pair[2]) for a, b, pair in zip(left_names, right_names, pairs, strict=True)]
    return Join("inner", left, right, tuple(dict.fromkeys(equals)), all_of(residual))


def _with_keys(node: Node, sides: list[exp.Expr], region: Region, fresh: Fresh) -> tuple[Node, list[str]]:
    names: list[str] = []
    new: dict[str, tuple[Column, exp.Expr]] = {}
    for side in map(unparen, sides):
        if is_ref(side):
            names.append(side.name)
            continue
        told = text(side)
        if told not in new:
            # A new name: the column that a projection made of it is made again above.
            type_ = region.computed[told].type if told in region.computed else settled_type(side) or ""
            new[told] = (fresh.column("key", type_), side)
        names.append(new[told][0].name)
    if new:
        columns = node.columns + tuple(column for column, _ in new.values())
        node = Project(node, columns, tuple(map(ref, node.names)) + tuple(item for _, item in new.values()))
    return node, names
