"""Names and types for the binder's columns.

Types come from the engine: a text over typed NULLs is analysed, never run. Each question is asked once, with its
columns numbered instead of named, so that queries of the same shape share the answers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.algebra.expressions import cast, is_ref, ref, rename, text, unparen
from headrace.algebra.nodes import Column, Node, Project
from headrace.algebra.not_bound import NotBound
from headrace.errors import HeadraceError

Describe = Callable[[str], tuple[str, ...]]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("float", "double")


@dataclass
class Typer:
    """Gives columns names that no other column has, and types."""

    describe: Describe
    memo: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: The type of every column made so far: names are never used twice.
    known: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def fresh(self, base: str, type_: str = "") -> Column:
        """A new column whose name begins like `base`."""
        plain = re.sub(r"[^a-z0-9_]+", "_", base.lower()).strip("_")
        name = f"{plain if plain[:1].isalpha() else 'c' + plain}_{next(self._numbers)}"
        self.known[name] = type_
        return Column(name, type_)

    def ask(self, question: str) -> tuple[str, ...]:
        """The column types of a Spark SQL text."""
        if question not in self.memo:
            try:
                self.memo[question] = tuple(self.describe(question))
            except HeadraceError as error:
                raise NotBound(f"the engine cannot tell the type of an expression: {error.message}") from error
        return self.memo[question]

    def types(self, items: Sequence[exp.Expr]) -> tuple[str, ...]:
        """The type of each expression."""
        found = [_plain_type(item, self.known) for item in items]
        open_items = [item for item, type_ in zip(items, found, strict=True) if type_ is None]
        answers = iter(self._ask_for(open_items, "c") if open_items else ())
        return tuple(next(answers) if type_ is None else type_ for type_ in found)

    def generated(self, generator: exp.Expr) -> tuple[str, ...]:
        """The types of the columns that a generator makes."""
        return self._ask_for([generator], "")

    def _ask_for(self, items: Sequence[exp.Expr], alias: str) -> tuple[str, ...]:
        mentioned: list[str] = []
        for item in items:
            mentioned += [c.name for c in item.find_all(exp.Column) if c.name not in mentioned]
        numbered = {name: f"i{number}" for number, name in enumerate(dict.fromkeys(mentioned))}
        if missing := [name for name in mentioned if name not in self.known]:
            raise NotBound(f"the type of {missing[0]} is not known where it is used")
        given = ", ".join(f"CAST(NULL AS {self.known[name]}) AS {new}" for name, new in numbered.items())
        asked = ", ".join(
            text(rename(item, numbered)) + (f" AS {alias}{i}" if alias else "") for i, item in enumerate(items)
        )
        return self.ask(f"SELECT {asked} FROM (SELECT {given or '1 AS one'})")

    def common(self, left: str, right: str) -> str:
        """The type that values of both types are brought to in UNION, COALESCE and CASE."""
        if left == right or right == "void":
            return left
        if left == "void":
            return right
        if left in _INTEGERS and right in _INTEGERS:
            return max(left, right, key=_INTEGERS.index)
        if {left, right} == {"date", "timestamp"}:
            return "timestamp"
        return self.ask(
            f"SELECT coalesce(a, b) AS c FROM (SELECT CAST(NULL AS {left}) AS a, CAST(NULL AS {right}) AS b)"
        )[0]

    def comparable(self, left: str, right: str) -> str:
        """The type in which `left = right` compares."""
        for one, other in ((left, right), (right, left)):
            if one == "string" and other != "string":
                # A comparison brings the string to the other's kind, which COALESCE need not do.
                if other in _INTEGERS:
                    return "bigint"
                return "double" if other in _FRACTIONS or other.startswith("decimal") else other
        return self.common(left, right)

    def typed(self, bases: Sequence[str], items: Sequence[exp.Expr]) -> tuple[Column, ...]:
        """New columns, named after `bases`, for the expressions."""
        types = self.types(items)
        return tuple(self.fresh(base, type_) for base, type_ in zip(bases, types, strict=True))

    def extend(self, child: Node, items: Sequence[exp.Expr], base: str = "c") -> tuple[Node, tuple[str, ...]]:
        """The child with a column for each expression, computed where it is not a column already; and their names."""
        names: dict[str, str] = {}
        new: list[exp.Expr] = []
        for item in items:
            item = unparen(item)
            if not (is_ref(item) and item.name in child.names) and text(item) not in names:
                names[text(item)] = ""
                new.append(item)
        if new:
            made = self.typed([base] * len(new), new)
            names = {text(item): column.name for item, column in zip(new, made, strict=True)}
            child = Project(child, child.columns + made, tuple(map(ref, child.names)) + tuple(new))
        return child, tuple(names.get(text(unparen(item)), unparen(item).name) for item in items)

    def as_type(self, name: str, want: str) -> exp.Expr:
        """A column, brought to a type."""
        return ref(name) if self.known[name] == want else cast(ref(name), want)


def _plain_type(item: exp.Expr, known: Mapping[str, str]) -> str | None:
    """The type where no engine need be asked."""
    item = unparen(item)
    if isinstance(item, exp.Column):
        return known.get(item.name) or None
    if isinstance(item, exp.Literal):
        if item.is_string:
            return "string"
        return "int" if item.name.isdigit() and len(item.name) < 10 else None
    if isinstance(item, exp.Boolean | exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE | exp.Is | exp.Not):
        return "boolean"
    if isinstance(item, exp.And | exp.Or | exp.In | exp.Between | exp.NullSafeEQ):
        return "boolean"
    return None
