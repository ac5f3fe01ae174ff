"""Queries and scalar expressions: parsed once, printed as Headrace text or as Spark text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property

from sqlglot import exp

from headrace.errors import LanguageError, NotYetMaintained, Place
from headrace.language import nodes
from headrace.language.dialect import headrace_sql
from headrace.language.features import find_features
from headrace.language.parts import at_part, without_parts
from headrace.language.relations import RelationRef, describe_relation, find_relations
from headrace.language.shape import QueryShape, find_shape
from headrace.language.spark_text import hide_and_convert_part_timestamps, put_names, with_types
from headrace.language.synchronized import through_regulators, with_sync
from headrace.language.times import parse_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Query:
    """A query; two are equal when they print alike.

    The tree is private to the language layer: it can change in place, and every method here works on a copy.
    """

    tree: exp.Expr = field(repr=False)
    output: str | None = None
    text: str | None = field(default=None, repr=False)
    place: Place | None = field(default=None, repr=False)

    @cached_property
    def _printed(self) -> str:
        return headrace_sql(self.tree)

    def sql(self) -> str:
        """Headrace text, with STREAMED or COMPLETE if the query says so."""
        if self.output is None:
            return self._printed
        marked = self.tree.copy()
        first = marked
        while isinstance(first, exp.SetOperation):
            first = first.this
        while isinstance(first, exp.Subquery):
            first = first.this
        first.set("operation_modifiers", [exp.var(f"<{self.output}>")])
        return headrace_sql(marked)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.sql() == other.sql()

    def __hash__(self) -> int:
        return hash(self.sql())

    def __repr__(self) -> str:
        return f"Query({self.sql()!r})"

    @cached_property
    def _relations(self) -> tuple[RelationRef, ...]:
        return tuple(describe_relation(table, self.text) for table in find_relations(self.tree))

    def relations(self) -> tuple[RelationRef, ...]:
        """Every relation the query mentions, in the order that `to_spark` takes names in."""
        return self._relations

    def features(self) -> tuple[str, ...]:
        """Constructs that are understood but not executed yet, each named once."""
        return find_features(self.tree)

    @cached_property
    def reads_clock(self) -> bool:
        """Whether the result depends on the time itself: through Now, or a window that rows leave as it goes on."""
        if self.tree.find(nodes.StreamWindow, nodes.Now) is not None:
            return True
        return any(nodes.goes_by_clock(window) for window in self.tree.find_all(nodes.SlidingWindow))

    def at_part(self, part: int) -> Query:
        """The query with its part variable set: `M[j-1]` becomes `M[6]` for part 7."""
        return Query(at_part(self.tree, part), self.output)

    def through_regulators(self, made: Callable[[str], bool] | None = None) -> Query:
        """The query with every `S SYNC y` read from the regulator of S by y, or from S where that is not `made`."""
        if not any(ref.sync is not None for ref in self.relations()):
            return self
        return Query(through_regulators(self.tree, made), self.output, place=self.place)

    @cached_property
    def named_in_with(self) -> frozenset[str]:
        """The names, in lower case, that a WITH anywhere in the query gives."""
        return frozenset(cte.alias.lower() for cte in self.tree.find_all(exp.CTE))

    def with_sync(self, relation: str, stream: str) -> Query:
        """The query with a relation read through a synchronization stream."""
        return Query(with_sync(self.tree, relation, stream), self.output)

    def with_types(self, types: Sequence[str | None]) -> Query:
        """The query with some of its columns cast: to a type each, or None where it is left as it is."""
        return Query(with_types(self.tree, types), self.output)

    def without_parts(self) -> Query:
        """The query with every relation read as a whole: `M[j-1]` becomes `M`."""
        return Query(without_parts(self.tree), self.output)

    def shape(self) -> QueryShape | None:
        """What key inference needs of a single SELECT; None for set operations and VALUES."""
        return find_shape(self.tree)

    def to_spark(self, names: Sequence[str]) -> str:
        """Spark text that reads `names[i]` where the query reads the i-th of `relations()`.

        Each replaced name gets the user's alias, or the object's own name, so that qualified columns still resolve.
        """
        return _to_spark(self.tree, names, self.place)


@dataclass(frozen=True, eq=False)
class Scalar:
    """One value expression: in VALUES, SET, WHERE, ON."""

    tree: exp.Expr = field(repr=False)

    @cached_property
    def _printed(self) -> str:
        return headrace_sql(self.tree)

    def sql(self) -> str:
        return self._printed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and self.sql() == other.sql()

    def __hash__(self) -> int:
        return hash(self.sql())

    def __repr__(self) -> str:
        return f"Scalar({self.sql()!r})"

    def relations(self) -> tuple[RelationRef, ...]:
        """The relations that subqueries of the expression read."""
        return tuple(describe_relation(table, None) for table in find_relations(self.tree))

    def to_spark(self, names: Sequence[str] | None = None) -> str:
        """Spark text; without `names`, relations in subqueries keep their own."""
        if names is None:
            names = [ref.name for ref in self.relations()]
        if any(ref.window is not None for ref in self.relations()):
            raise NotYetMaintained("A window in a value expression")
        if any(ref.sync is not None for ref in self.relations()):
            raise NotYetMaintained("SYNC in a value expression")
        return _to_spark(self.tree, names, None)

    def literal(self) -> tuple[bool, object]:
        """``(True, value)`` for a plain literal, ``(False, None)`` for anything that must be computed.

        Numbers with a point are Decimal, as Spark reads them; with an exponent, float. Dates and timestamps are
        Python's, timestamps in UTC.
        """
        return _literal(self.tree)


def _to_spark(tree: exp.Expr, names: Sequence[str], place: Place | None) -> str:
    found = find_features(tree)
    if found:
        raise NotYetMaintained(found[0], place=place)
    # A query is given the time before it comes here, and its windowed subqueries are relations by then.
    if tree.find(nodes.Now) is not None:
        raise NotYetMaintained("Now in a value expression", place=place)
    if tree.find(nodes.WindowedSubquery) is not None:
        raise NotYetMaintained("A window over a subquery here", place=place)
    if (window := tree.find(nodes.SlidingWindow)) is not None:
        what = "SLIDE in OVER" if window.args.get("slide") else "ACTIVE EXPIRATION in OVER"
        raise NotYetMaintained(f"{what} here", place=place)
    copy = tree.copy()
    hide_and_convert_part_timestamps(copy)
    # Nothing of ours is left in the tree now, so our printer prints Spark's own text.
    return headrace_sql(put_names(copy, names))


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def _literal(node: exp.Expr) -> tuple[bool, object]:
    match node:
        case exp.Paren():
            return _literal(node.this)
        case exp.Null():
            return True, None
        case exp.Boolean():
            return True, bool(node.this)
        case exp.Literal() if node.is_string:
            return True, node.name
        case exp.Literal():
            return True, _number(node.name)
        case exp.Neg():
            known, value = _literal(node.this)
            if known and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                return True, -value
        case exp.Cast() if isinstance(node.this, exp.Literal):
            return _cast_literal(node.this, node.to)
    return False, None


def _number(text: str) -> int | float | Decimal:
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _cast_literal(literal: exp.Literal, to: exp.DataType) -> tuple[bool, object]:
    """DATE '...' and TIMESTAMP '...', and numbers with a suffix such as 10L, are casts in the tree."""
    kind = to.sql(dialect="spark").upper()
    if literal.is_string and kind in ("DATE", "TIMESTAMP"):
        try:
            point = _EPOCH + timedelta(microseconds=parse_time(literal.name))
        except (LanguageError, OverflowError):
            return False, None
        return True, date(point.year, point.month, point.day) if kind == "DATE" else point
    if literal.is_string:
        known = kind.startswith("DECIMAL") and _is_decimal(literal.name)
        return (True, Decimal(literal.name)) if known else (False, None)
    if kind in _INTEGERS and literal.name.isdigit():
        return True, int(literal.name)
    return (True, float(literal.name)) if kind in ("FLOAT", "DOUBLE") else (False, None)


def _is_decimal(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
