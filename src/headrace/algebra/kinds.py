"""What an expression is in matters of time: a point, a length or a number, as far as its columns' types tell.

A column is looked up as SQL does: in the FROM of its own SELECT, then in those around it. A subquery's column is what
the subquery projects under that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from sqlglot import exp

from headrace.language import nodes
from headrace.language.relations import direct_tables, find_relations

Kind = Literal["time", "length", "number"]
Fields = tuple[tuple[str, str], ...]

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES = ("TIMESTAMP", "TIMESTAMP_NTZ")
_SAME_AS_ARGUMENT = (exp.Max, exp.Min, exp.Coalesce, exp.Greatest, exp.Least, exp.Paren, exp.Neg, exp.Abs)


def kind_of_type(text: str) -> Kind | None:
    """The kind of a column by its Spark type."""
    name = text.upper().split("(")[0].strip()
    if name in _TIMES:
        return "time"
    if name.startswith("INTERVAL"):
        return "length"
    return "number" if name in _NUMBERS else None


class Kinds:
    """The kinds of one tree's expressions; `fields` has the columns of its relations, by their numbers."""

    def __init__(self, tree: exp.Expr, fields: Sequence[Fields]) -> None:
        self._numbers = {id(table): number for number, table in enumerate(find_relations(tree))}
        self._fields: Mapping[int, Mapping[str, str]] = {
            number: {name.lower(): kind for name, kind in columns} for number, columns in enumerate(fields)
        }

    def of(self, node: exp.Expr | None) -> Kind | None:
        """The kind of an expression; None where it is none of them, or nobody can tell."""
        match node:
            case nodes.Now() | exp.CurrentTimestamp():
                return "time"
            case exp.Anonymous() if node.name.lower() == "timestamp_micros":
                return "time"
            case exp.Interval():
                return "length"
            case exp.Literal():
                return None if node.is_string else "number"
            case exp.Cast():
                return kind_of_type(node.to.sql(dialect="spark"))
            case exp.Add() | exp.Sub():
                return self._sum(node)
            case exp.Mul():
                kinds = {self.of(node.this), self.of(node.expression)}
                return "length" if kinds == {"length", "number"} else "number" if kinds == {"number"} else None
            case exp.Column():
                return self._column(node)
        if isinstance(node, _SAME_AS_ARGUMENT):
            return self.of(node.this)
        return None

    def relation_of(self, column: exp.Column) -> int | None:
        """The number of the relation that a column belongs to, if it is one that is stored."""
        source = self._source(column)
        return self._numbers.get(id(source)) if source is not None else None

    def _sum(self, node: exp.Expr) -> Kind | None:
        left, right = self.of(node.this), self.of(node.expression)
        if "time" in (left, right):
            if left == right:
                return "length" if isinstance(node, exp.Sub) else None
            return "time" if None not in (left, right) else None
        if "length" in (left, right):
            return "length" if None not in (left, right) else None
        return left if left == right else None

    def _column(self, column: exp.Column) -> Kind | None:
        source = self._source(column)
        if isinstance(source, exp.Table) and id(source) in self._numbers:
            return kind_of_type(self._fields[self._numbers[id(source)]].get(column.name.lower(), ""))
        projected = _projection(source, column.name)
        return None if projected is None else self.of(projected)

    def _source(self, column: exp.Column) -> exp.Expr | None:
        """What in FROM a column belongs to: a table or a subquery."""
        select = column.find_ancestor(exp.Select)
        while select is not None:
            # A subquery in FROM sees the SELECTs around it, but not itself.
            for source in (it for it in _sources(select) if not _stands_in(column, it)):
                if column.table and source.alias_or_name.lower() != column.table.lower():
                    continue
                if self._has(source, column.name):
                    return source
            # A common table expression sees nothing of the SELECT that it stands before.
            around = select.find_ancestor(exp.Select, exp.CTE)
            select = around if isinstance(around, exp.Select) else None
        return None

    def _has(self, source: exp.Expr, name: str) -> bool:
        if id(source) in self._numbers:
            return name.lower() in self._fields[self._numbers[id(source)]]
        return _projection(source, name) is not None


def _stands_in(node: exp.Expr, other: exp.Expr) -> bool:
    above: exp.Expr | None = node
    while above is not None and above is not other:
        above = above.parent
    return above is other


def _sources(select: exp.Select) -> list[exp.Expr]:
    holders = [select.args.get("from_"), *(select.args.get("joins") or [])]
    found: list[exp.Expr] = list(direct_tables(select))
    return found + [holder.this for holder in holders if holder is not None and isinstance(holder.this, exp.Subquery)]


def _projection(source: exp.Expr | None, name: str) -> exp.Expr | None:
    """The expression a subquery or common table expression gives under a name."""
    inner = source.this if isinstance(source, exp.Subquery) else _cte(source)
    while isinstance(inner, exp.SetOperation | exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Select):
        return None
    for item in inner.expressions:
        if item.alias_or_name.lower() == name.lower():
            return item.unalias()
    return None


def _cte(source: exp.Expr | None) -> exp.Expr | None:
    if not isinstance(source, exp.Table):
        return None
    around = source.parent
    while around is not None:
        with_ = around.args.get("with_")
        for cte in with_.expressions if isinstance(with_, exp.With) else ():
            if cte.alias.lower() == source.name.lower() and source.find_ancestor(exp.CTE) is not cte:
                return cte.this
        around = around.parent
    return None
