"""Which column a written name means: by qualifier and name, without regard to case, inside out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.algebra.expressions import ref, rewrite
from headrace.algebra.nodes import Column, Node
from headrace.algebra.not_bound import NotBound


@dataclass(frozen=True)
class Field:
    """A name by which a column can be called; what is not `shown` needs its qualifier and is left out of stars."""

    name: str
    column: str
    qualifier: str = ""
    shown: bool = True


@dataclass(frozen=True)
class Relation:
    """An operator tree and the names of its columns."""

    node: Node
    fields: tuple[Field, ...]

    def called(self, alias: str, columns: Sequence[str] = ()) -> Relation:
        """Under another name: what is not shown can no longer be called."""
        shown = [item for item in self.fields if item.shown]
        if columns and len(columns) != len(shown):
            raise NotBound(f"the alias {alias} names {len(columns)} columns and the relation has {len(shown)}")
        names = list(columns) or [item.name for item in shown]
        fields = (Field(name, item.column, alias) for name, item in zip(names, shown, strict=True))
        return replace(self, fields=tuple(fields))

    @property
    def output(self) -> tuple[Field, ...]:
        return tuple(item for item in self.fields if item.shown)


@dataclass(frozen=True)
class Scope:
    """The names that can be called at one place; `outer` is the query around, `ctes` what WITH has named."""

    fields: tuple[Field, ...] = ()
    outer: Scope | None = None
    ctes: Mapping[str, Relation] = field(default_factory=dict)

    def find(self, parts: Sequence[str]) -> exp.Expr | None:
        """What ``a``, ``t.a``, ``a.field`` or ``t.a.field`` means in this scope alone."""
        if len(parts) > 1:
            hits = [f for f in self.fields if _same(f.qualifier, parts[0]) and _same(f.name, parts[1])]
            if hits:
                return _dotted(_only(hits, ".".join(parts)), parts[2:])
        hits = [f for f in self.fields if f.shown and _same(f.name, parts[0])]
        return _dotted(_only(hits, parts[0]), parts[1:]) if hits else None

    def knows(self, column: str) -> bool:
        return any(item.column == column for item in self.fields)


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _only(hits: Sequence[Field], written: str) -> str:
    columns = {item.column for item in hits}
    if len(columns) > 1:
        raise NotBound(f"the name {written} is ambiguous")
    return hits[0].column


def _dotted(column: str, path: Sequence[str]) -> exp.Expr:
    found: exp.Expr = ref(column)
    for name in path:
        found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    return found


def resolve(expression: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr] | None = None) -> exp.Expr:
    """A copy in which every column is one of the operator tree; subqueries stay as they are written.

    `aliases` are the names that SELECT has given so far; they yield to columns of FROM.
    """

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return None
        if node.meta.get("bound"):
            return node.copy()
        found = find(node, scope, aliases)
        if found is None:
            raise NotBound(f"the column {'.'.join(part.name for part in node.parts)} is not found")
        return found

    return rewrite(expression, change)


def find(column: exp.Column, scope: Scope, aliases: Mapping[str, exp.Expr] | None = None) -> exp.Expr | None:
    """What a written column means, looking from the inside out."""
    parts = [part.name for part in column.parts]
    found = scope.find(parts)
    if found is None and aliases and parts[0].lower() in aliases:
        found = aliases[parts[0].lower()].copy()
        for name in parts[1:]:
            found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
    around = scope.outer
    while found is None and around is not None:
        found = around.find(parts)
        around = around.outer
    return found


def fields_of(names: Sequence[str], columns: Sequence[Column], qualifier: str = "") -> tuple[Field, ...]:
    return tuple(Field(name, column.name, qualifier) for name, column in zip(names, columns, strict=True))
