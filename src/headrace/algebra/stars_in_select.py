"""The SELECT list with its stars spelled out."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.context import Context
from headrace.algebra.expressions import ref
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Scope


def expand(select: exp.Select, scope: Scope, context: Context) -> list[tuple[str, exp.Expr]]:
    """Each item as (alias or empty, expression); what a star stands for is resolved already."""
    found: list[tuple[str, exp.Expr]] = []
    for item in select.expressions:
        if isinstance(item, exp.Star):
            found += _star(item, "", scope)
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            qualifier = item.parts[0].name
            if not any(f.qualifier.lower() == qualifier.lower() for f in scope.fields):
                found += _struct(item, scope, context)
            else:
                found += _star(item.this, qualifier, scope)
        elif isinstance(item, exp.Alias):
            found.append((item.alias, item.this))
        else:
            found.append(("", item))
    return found


def _star(star: exp.Star, qualifier: str, scope: Scope) -> list[tuple[str, exp.Expr]]:
    if star.args.get("replace") or star.args.get("rename"):
        raise NotBound("a star that replaces columns is not Spark's")
    left_out: set[str] = set()
    for column in star.args.get("except_") or ():
        hidden = scope.find([part.name for part in column.parts] if isinstance(column, exp.Column) else [column.name])
        if not isinstance(hidden, exp.Column):
            raise NotBound("EXCEPT after a star names a column that is not there")
        left_out.add(hidden.name)
    if qualifier:
        fields = [f for f in scope.fields if f.qualifier.lower() == qualifier.lower()]
    else:
        fields = [f for f in scope.fields if f.shown]
        if not fields:
            raise NotBound("a star without FROM")
    return [(f.name, _bound(f.column)) for f in fields if f.column not in left_out]


def _bound(name: str) -> exp.Column:
    column = ref(name)
    column.meta["bound"] = True
    return column


def _struct(item: exp.Column, scope: Scope, context: Context) -> list[tuple[str, exp.Expr]]:
    """``s.*`` of a struct column."""
    base = scope.find([part.name for part in item.parts[:-1]])
    if base is None:
        raise NotBound(f"the relation {item.parts[0].name} is not found")
    type_ = exp.DataType.build(context.typer.types([base])[0], dialect="spark")
    if type_.this != exp.DType.STRUCT:
        raise NotBound(f"{item.parts[0].name}.* is neither a relation nor a struct")
    for column in base.find_all(exp.Column):
        column.meta["bound"] = True
    names = [definition.name for definition in type_.expressions]
    return [(name, exp.Dot(this=base.copy(), expression=exp.to_identifier(name, quoted=True))) for name in names]
