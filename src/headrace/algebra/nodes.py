"""What a query means: a tree of relational operators over columns that each have one name in the whole tree.

The binder leaves the tree in normal form: whatever an operator compares, groups, orders or aggregates by is a plain
column of its child, and a `Project` below computes it. So every scalar expression stands in a `Filter`, a `Project` or
a `Generate`, which an engine evaluates row by row, and every other operator only moves typed columns about.

An expression is a sqlglot tree whose columns are names of the child's columns, unqualified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Column:
    """A column: a name that no other column of the tree has, and its Spark type (empty until it is asked for)."""

    name: str
    type: str = ""


class Node:
    """An operator. `columns` is what it gives, `children` what it reads."""

    columns: tuple[Column, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def walk(self) -> Iterator[Node]:
        """The node and all below it, children first."""
        for child in self.children:
            yield from child.walk()
        yield self


@dataclass(frozen=True, eq=False)
class Unary(Node):
    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """A stored relation: the `relation`-th of the query. `sources[i]` is what it calls `columns[i]`."""

    relation: int
    name: str
    columns: tuple[Column, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """A relation that never changes: VALUES, or a SELECT without FROM. `text` is Spark SQL that gives it."""

    text: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class Filter(Unary):
    """The rows for which `predicate` is true."""

    predicate: exp.Expr

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.child.columns


@dataclass(frozen=True, eq=False)
class Project(Unary):
    """`items[i]` computes `columns[i]`."""

    columns: tuple[Column, ...]
    items: tuple[exp.Expr, ...]


@dataclass(frozen=True, eq=False)
class Generate(Unary):
    """The child's columns beside each row that `generator` (explode, inline, ...) makes of them.

    With `outer`, a row that makes none stays, with NULLs. `made` are the last of `columns`.
    """

    columns: tuple[Column, ...]
    generator: exp.Expr
    made: tuple[Column, ...]
    outer: bool = False


@dataclass(frozen=True)
class Equal:
    """A join condition `left = right` between a column of each side; `null_safe`: NULLs are equal to each other."""

    left: str
    right: str
    null_safe: bool = False


@dataclass(frozen=True)
class Cells:
    """What a join on equal cells stands for: columns of each side that are about as near as a cell is wide."""

    left: str
    right: str
    width: str


@dataclass(frozen=True, eq=False)
class Join(Node):
    """Pairs of rows for which all of `equal` and `residual` hold; outer, semi and anti joins as SQL defines them.

    `cells`: its only equality is that of cells (see `cells`), by which a pair meets once.
    """

    kind: JoinKind
    left: Node
    right: Node
    equal: tuple[Equal, ...]
    residual: exp.Expr | None = None
    cells: Cells | None = None

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        if self.kind in ("semi", "anti"):
            return self.left.columns
        return self.left.columns + self.right.columns


@dataclass(frozen=True, eq=False)
class Call:
    """One aggregate: `function` over columns of the child, e.g. ``sum(x)``; `text` trees hold DISTINCT and FILTER."""

    column: Column
    expression: exp.Expr


@dataclass(frozen=True, eq=False)
class Aggregate(Unary):
    """One row a group: its key columns, then each call. Without keys there is always exactly one row.

    Without calls it is DISTINCT.
    """

    keys: tuple[str, ...]
    calls: tuple[Call, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        known = {column.name: column for column in self.child.columns}
        return tuple(known[name] for name in self.keys) + tuple(call.column for call in self.calls)

    @property
    def is_global(self) -> bool:
        return not self.keys


@dataclass(frozen=True, eq=False)
class Union(Node):
    """All rows of all inputs, columns by position; the inputs' types are already the same as `columns`'."""

    inputs: tuple[Node, ...]
    columns: tuple[Column, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.inputs


@dataclass(frozen=True, eq=False)
class SetOperation(Node):
    """EXCEPT or INTERSECT, ALL or DISTINCT; columns by position, named as in `columns`, types already the same."""

    kind: Literal["except", "intersect"]
    all: bool
    left: Node
    right: Node
    columns: tuple[Column, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Order:
    """One ordering column."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, eq=False)
class TopK(Unary):
    """The rows number `offset` to `offset + limit` in the given order; ties are broken by all columns, ascending."""

    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.child.columns


@dataclass(frozen=True, eq=False)
class Newest(Unary):
    """What a window of rows shows: of each partition the newest `length` rows by time and number of arrival.

    With `slide`, those it showed when their count was last a multiple of it. Without `length`, no row ever leaves.
    """

    partition: tuple[str, ...]
    time: str
    number: str
    length: int | None
    slide: int | None

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.child.columns


@dataclass(frozen=True, eq=False)
class Over(Unary):
    """Window functions: the child's columns, then each call, an expression ``f(...) OVER (...)`` of plain columns.

    All calls have the same PARTITION BY: `partition`.
    """

    partition: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        return self.child.columns + tuple(call.column for call in self.calls)
