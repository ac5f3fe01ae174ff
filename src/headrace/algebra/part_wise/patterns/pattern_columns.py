"""A pattern query bound to its input: every column known and spelled as the input spells it, with its type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from headrace.algebra.expressions import rewrite, text
from headrace.algebra.not_bound import NotBound
from headrace.algebra.part_wise.patterns.pattern_query import Item, PatternQuery
from headrace.algebra.scalars import type_of
from headrace.algebra.typed import Typer
from headrace.errors import DefinitionError
from headrace.language import normalise_type, quote_name
from headrace.language.query import Scalar

Describe = Callable[[str], tuple[str, ...]]

_CAST_HINT = "Aggregate over a column, or write CAST(... AS type) around the expression."


@dataclass(frozen=True)
class PatternSource:
    """The input of a pattern query, as far as the translation must know it.

    `order_by` is the column by which rows of a part are ordered; `length` the span of the input's own parts in seconds;
    `not_null` are columns that are known to have no NULL, which makes for simpler text.
    """

    name: str
    columns: Sequence[tuple[str, str]]
    order_by: str | None
    length: int
    not_null: Collection[str] = ()


@dataclass(frozen=True)
class Bound:
    """A description whose columns are the source's, and the types of expressions over them."""

    described: PatternQuery
    source: PatternSource
    describe: Describe | None = field(default=None, compare=False)

    @cached_property
    def types(self) -> dict[str, str]:
        return {name: normalise_type(type_) for name, type_ in self.source.columns}

    def type(self, expression: Scalar) -> str:
        """The type of an expression over input columns: by rule where that is sure, else the engine is asked."""
        tree = expression.tree
        if isinstance(tree, exp.Column):
            return self.types[tree.name]
        if isinstance(tree, exp.Cast):
            return normalise_type(text(tree.args["to"]))
        found = type_of(tree, self.types)
        if found is None and self.describe is not None:
            typer = Typer(self.describe, known={name: type_.lower() for name, type_ in self.types.items()})
            try:
                found = normalise_type(typer.types([tree])[0])
            except NotBound as error:
                raise self.error("BAD_PATTERN_ITEM", f"{expression.sql()}: {error.what}.", _CAST_HINT) from None
        if found is None:
            raise self.error(
                "BAD_PATTERN_ITEM",
                f"The type of {expression.sql()} is not known without asking an engine.",
                _CAST_HINT,
            )
        return found

    def order_by(self) -> tuple[str, ...]:
        """The columns that order rows in time; none if nobody told."""
        asked, given = self.described.order_by, self.source.order_by
        if not asked:
            return (given,) if given is not None else ()
        if given is not None and asked[0].lower() != given.lower():
            raise self.error(
                "BAD_MATCH_RECOGNIZE",
                f"ORDER BY {asked[0]} is not the order of {self.source.name}, whose parts follow {given}.",
                f"Write ORDER BY {given}.",
            )
        return asked

    def error(self, condition: str, message: str, hint: str) -> DefinitionError:
        return DefinitionError(condition, message, hint=hint, place=self.described.place)


def bind_columns(described: PatternQuery, source: PatternSource, describe: Describe | None = None) -> Bound:
    """The description over the columns of its input."""
    spelled = {name.lower(): name for name, _ in source.columns}

    def name_of(name: str) -> str:
        if name.lower() not in spelled:
            raise DefinitionError(
                "UNKNOWN_COLUMN",
                f"{source.name} has no column {name}.",
                hint=f"It has: {', '.join(spelled.values())}.",
                place=described.place,
            )
        return spelled[name.lower()]

    def column(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        return exp.Column(this=identifier(name_of(node.name)), table=node.args.get("table"))

    def scalar(given: Scalar) -> Scalar:
        return Scalar(rewrite(given.tree, column))

    bound = replace(
        described,
        groups=tuple(map(name_of, described.groups)),
        predicates=tuple(map(scalar, described.predicates)),
        filters=tuple(map(scalar, described.filters)),
        items=tuple(Item(item.name, scalar(item.expression)) for item in described.items),
        having=None if described.having is None else scalar(described.having),
        order_by=tuple(map(name_of, described.order_by)),
    )
    order_by = None if source.order_by is None else name_of(source.order_by)
    not_null = tuple(map(name_of, source.not_null))
    return Bound(bound, replace(source, order_by=order_by, not_null=not_null), describe)


def identifier(name: str) -> exp.Identifier:
    """A name as it is safe in any statement."""
    return exp.to_identifier(name, quoted=quote_name(name) != name)
