"""Update-pattern simplification (thesis 3.5.3): weakest operators down, negation up, so that few see negative rows.

A negation (an anti join, or EXCEPT) asks only about rows of its left side. So it commutes with whatever keeps those
rows and the columns it asks by: with A anti C short for `A WHERE NOT EXISTS (C ...)`,

- (A anti C) JOIN B = (A JOIN B) anti C, for inner, semi and left joins that have A on a preserved side;
- FILTER (A anti C) = (FILTER A) anti C, and the same for a projection that keeps the columns asked by;
- DISTINCT (A anti C) = (DISTINCT A) anti C, if the columns asked by are among the distinct ones.

Read from left to right they pull negation up; from right to left they push it down. Both keep bags, NULLs and the order
of columns. EXCEPT (DISTINCT) is first written as an anti join of distinct rows, by NULL-safe equality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.nodes import (
    Aggregate,
    Equal,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SetOperation,
    Unary,
    Union,
)


def pull_up_negation(root: Node) -> Node:
    """`root` with every negation as far up as it can go."""
    return _everywhere(root, _pulled)


def push_down_weakest(root: Node) -> Node:
    """`root` with selections, projections and duplicate elimination below negations; joins stay where they are."""
    return _everywhere(root, lambda node: _swapped_unary(_as_anti(node)) or node)


def push_down_negation(root: Node, is_table: Callable[[Scan], bool] = lambda _: False) -> Node:
    """`root` with every negation as far down as joins let it; selections stay below it.

    A join with a table is not given an input that takes rows back: the table's row that a result was made with may be
    gone by then (thesis 3.5.3).
    """
    return _everywhere(root, lambda node: _pushed(_as_anti(node), is_table))


def _everywhere(root: Node, rewrite: Callable[[Node], Node]) -> Node:
    """Rewrite bottom up; a part that is shared stays shared, and one that does not change stays itself."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = rewrite(_with_children(node, [visit(child) for child in node.children]))
        return done[id(node)]

    return visit(root)


def _with_children(node: Node, children: list[Node]) -> Node:
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    if isinstance(node, Unary):
        return replace(node, child=children[0])
    if isinstance(node, Union):
        return replace(node, inputs=tuple(children))
    if isinstance(node, Join | SetOperation):
        return replace(node, left=children[0], right=children[1])
    return node


def _is_anti(node: Node) -> bool:
    return isinstance(node, Join) and node.kind == "anti"


def _as_anti(node: Node) -> Node:
    """EXCEPT DISTINCT as an anti join; any other node as it is."""
    if not isinstance(node, SetOperation) or node.kind != "except" or node.all:
        return node
    items = tuple(exp.column(exp.to_identifier(name, quoted=True)) for name in node.left.names)
    rows = Aggregate(Project(node.left, node.columns, items), tuple(column.name for column in node.columns))
    pairs = zip(node.columns, node.right.names, strict=True)
    return Join("anti", rows, node.right, tuple(Equal(column.name, other, null_safe=True) for column, other in pairs))


# -- up ----------------------------------------------------------------------------------------------------------------


def _pulled(node: Node) -> Node:
    node = _as_anti(node)
    swapped = _swapped_unary(node)
    if swapped is not None:
        return swapped
    if isinstance(node, Join) and node.kind in ("inner", "left", "semi") and _is_anti(node.left):
        negation = node.left
        assert isinstance(negation, Join)
        return replace(negation, left=_pulled(replace(node, left=negation.left)))
    if isinstance(node, Join) and node.kind in ("inner", "right") and _is_anti(node.right):
        negation = node.right
        assert isinstance(negation, Join)
        return replace(negation, left=_pulled(replace(node, right=negation.left)))
    return node


def _swapped_unary(node: Node) -> Node | None:
    """A filter, projection or duplicate elimination of a negation, taken below it; None if it is none that can be."""
    if not isinstance(node, Filter | Project | Aggregate) or not _is_anti(node.child):
        return None
    negation = node.child
    assert isinstance(negation, Join)
    asked = _asked_by(negation)
    names = {name: name for name in asked}
    if isinstance(node, Project):
        names = _kept_names(node, asked)
    elif isinstance(node, Aggregate) and (node.calls or not asked <= set(node.keys)):
        return None
    if len(names) < len(asked):
        return None
    below = replace(node, child=negation.left)
    return _renamed(replace(negation, left=_swapped_unary(below) or below), names)


def _asked_by(negation: Join) -> set[str]:
    """The columns of its left side that a negation asks by."""
    own = set(negation.left.names)
    found = {pair.left for pair in negation.equal}
    if negation.residual is not None:
        found |= {column.name for column in negation.residual.find_all(exp.Column) if column.name in own}
    return found


def _kept_names(project: Project, wanted: set[str]) -> dict[str, str]:
    """What a projection calls the columns that it keeps as they are, of those wanted."""
    found: dict[str, str] = {}
    for column, item in zip(project.columns, project.items, strict=True):
        if isinstance(item, exp.Column) and item.name in wanted:
            found.setdefault(item.name, column.name)
    return found


def _renamed(negation: Join, names: dict[str, str]) -> Join:
    """A negation whose left side calls its columns otherwise."""
    equal = tuple(replace(pair, left=names[pair.left]) for pair in negation.equal)
    residual = negation.residual
    if residual is not None and any(old != new for old, new in names.items()):
        residual = residual.transform(
            lambda part: (
                exp.column(exp.to_identifier(names[part.name], quoted=True))
                if isinstance(part, exp.Column) and part.name in names
                else part
            )
        )
    return replace(negation, equal=equal, residual=residual)


# -- down --------------------------------------------------------------------------------------------------------------


def _pushed(node: Node, is_table: Callable[[Scan], bool]) -> Node:
    if not (isinstance(node, Join) and node.kind == "anti"):
        return node
    lower = _lowered(node, node.left, is_table)
    return node if lower is None else lower


def _lowered(negation: Join, left: Node, is_table: Callable[[Scan], bool]) -> Node | None:
    """`left anti C` with the negation below the join it can pass; None if there is no such join."""
    asked = _asked_by(negation)
    if isinstance(left, Filter):
        inner = _lowered(replace(negation, left=left.child), left.child, is_table)
        return None if inner is None else replace(left, child=inner)
    if isinstance(left, Project):
        back = {item.name: column.name for column, item in zip(left.columns, left.items, strict=True)
                if isinstance(item, exp.Column)}  # fmt: skip
        names = {new: old for old, new in back.items() if new in asked}
        if len(names) < len(asked):
            return None
        inner = _lowered(_renamed(replace(negation, left=left.child), names), left.child, is_table)
        return None if inner is None else replace(left, child=inner)
    if isinstance(left, Join) and left.kind == "anti":
        inner = _lowered(replace(negation, left=left.left), left.left, is_table)
        return None if inner is None else replace(left, left=inner)
    if not isinstance(left, Join) or _reads_table(left, is_table):
        return None
    if left.kind in ("inner", "left", "semi") and asked <= set(left.left.names):
        return replace(left, left=_pushed(replace(negation, left=left.left), is_table))
    if left.kind in ("inner", "right") and asked <= set(left.right.names):
        return replace(left, right=_pushed(replace(negation, left=left.right), is_table))
    return None


def _reads_table(join: Join, is_table: Callable[[Scan], bool]) -> bool:
    return any(isinstance(node, Scan) and is_table(node) for node in join.walk())
