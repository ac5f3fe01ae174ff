"""Which operators' rows can carry the time of their death, and a tree that computes it (thesis 2.3.2, 3.5).

A row of a time window dies when its window ends. As long as nothing but that makes rows go, every result knows its
death at its birth: a selection keeps it, a pair dies with the first of its two rows, and of equal rows the last to die
is the one that counts. Such a part of a plan needs no negative rows. It ends at the first operator that may take a
result back for another reason, and at whatever reads rows that may (a table, a keyed stream, a view).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.core import Names, cast, column_of
from headrace.algebra.nodes import Aggregate, Call, Column, Constant, Filter, Generate, Join, Node, Project, Scan, Union
from headrace.algebra.trees import with_children

#: What a row's death is called, in a tree and among the columns of a change.
DEATH = Column("__exp", "BIGINT")
#: When a row dies that never does; also `maintenance.kernels.tables.NEVER`.
NEVER = 1 << 62


@dataclass(frozen=True)
class Lifetime:
    """Rows that only die of their age: at most `length` after they are shown, or never (None).

    `in_log`: they come row by row from stored logs in the order of time, and so the logs tell again which have died.
    """

    length: int | None
    in_log: bool = False

    @property
    def dies(self) -> bool:
        return self.length is not None


def lifetimes(root: Node, leaf: Callable[[Scan], Lifetime | None], *, distinct: bool = True) -> Mapping[Node, Lifetime]:
    """The nodes whose rows only die of their age. `distinct`: whether duplicate elimination can be one of them."""
    found: dict[Node, Lifetime] = {}
    for node in root.walk():
        if node not in found:
            lifetime = _of(node, leaf, found, distinct)
            if lifetime is not None:
                found[node] = lifetime
    return found


def _of(
    node: Node, leaf: Callable[[Scan], Lifetime | None], known: Mapping[Node, Lifetime], distinct: bool
) -> Lifetime | None:
    if isinstance(node, Scan):
        return leaf(node)
    if isinstance(node, Constant):
        return Lifetime(None, in_log=True)
    below = [known[child] for child in node.children if child in known]
    if len(below) < len(node.children):
        return None
    lengths = [lifetime.length for lifetime in below if lifetime.length is not None]
    match node:
        case Filter() | Project():
            return below[0]
        case Generate() if below[0].in_log:  # above an operator, the engine makes signed rows of it
            return below[0]
        case Union():
            return Lifetime(max(lengths, default=None), all(lifetime.in_log for lifetime in below))
        case Join(kind="inner") if node.equal or node.residual is None:
            return Lifetime(min(lengths, default=None))
        case Aggregate(calls=()) if node.keys and distinct and lengths:
            return Lifetime(lengths[0])
    return None


def with_deaths(root: Node, known: Mapping[Node, Lifetime]) -> Node:
    """A tree of the same rows with their deaths beside them, as the last column; scans read it under its own name."""
    names = Names(root)
    done: dict[Node, Node] = {}

    def visit(node: Node) -> Node:
        if node not in done:
            done[node] = _carrying(node, known, names, visit)
        return done[node]

    made = visit(root)
    items = tuple(column_of(name) for name in made.names)
    return Project(made, (*root.columns, DEATH), items)


def _carrying(node: Node, known: Mapping[Node, Lifetime], names: Names, visit: Callable[[Node], Node]) -> Node:
    death = Column(names.fresh("death"), DEATH.type)
    if not known[node].dies:
        return Project(node, (*node.columns, death), (*(column_of(name) for name in node.names), never()))
    match node:
        case Scan():
            return replace(node, columns=(*node.columns, death), sources=(*node.sources, DEATH.name))
        case Filter():
            return replace(node, child=visit(node.child))
        case Project():
            child = visit(node.child)
            return Project(child, (*node.columns, death), (*node.items, column_of(child.names[-1])))
        case Generate():
            child = visit(node.child)
            made = replace(node, child=child, columns=(*child.columns, *node.made))
            items = tuple(column_of(name) for name in (*node.names, child.names[-1]))
            return Project(made, (*node.columns, death), items)
        case Union():
            return Union(tuple(visit(child) for child in node.inputs), (*node.columns, death))
        case Join():
            left, right = visit(node.left), visit(node.right)
            first = exp.Least(this=column_of(left.names[-1]), expressions=[column_of(right.names[-1])])
            items = tuple(column_of(name) for name in node.names)
            return Project(replace(node, left=left, right=right), (*node.columns, death), (*items, first))
        case Aggregate():
            child = visit(node.child)
            return replace(node, child=child, calls=(Call(death, exp.Max(this=column_of(child.names[-1]))),))
    raise TypeError(f"rows of {type(node).__name__} do not carry their death")


def carried(step: Filter | Project | Generate) -> Node:
    """A row-wise step that lets the deaths of its rows through."""
    if isinstance(step, Filter | Generate):
        # These have the columns of what is below them, and the death is to be one of them.
        return with_children(step, [undying(step.child)])
    return replace(step, columns=(*step.columns, DEATH), items=(*step.items, column_of(DEATH.name)))


def undying(node: Node) -> Project:
    """A step that gives rows a death that never comes."""
    return Project(node, (*node.columns, DEATH), (*(column_of(name) for name in node.names), never()))


def never() -> exp.Expr:
    return cast(exp.Literal.number(NEVER), DEATH.type)


def only_refs(step: Project) -> bool:
    """Whether a projection only picks columns."""
    return all(isinstance(item, exp.Column) for item in step.items)
