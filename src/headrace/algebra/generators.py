"""Generators: explode, posexplode, inline, stack and json_tuple, in LATERAL VIEW, in FROM and in SELECT."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.context import Context
from headrace.algebra.nodes import Generate, Node
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Relation, fields_of

_OUTER = {"explode_outer": "explode", "posexplode_outer": "posexplode", "inline_outer": "inline"}
_NAMES = {"explode", "posexplode", "inline", "stack", "json_tuple", "variant_explode", *_OUTER}


def is_generator(expression: exp.Expr) -> bool:
    return _name(expression) in _NAMES


def _name(expression: exp.Expr) -> str:
    if isinstance(expression, exp.Anonymous):
        return expression.name.lower()
    return expression.sql_name().lower() if isinstance(expression, exp.Func) else ""


def generate(context: Context, child: Node, generator: exp.Expr, alias: exp.Expr | None, outer: bool) -> Relation:
    """The child beside what `generator` makes; the fields are those of the made columns alone."""
    name = _name(generator)
    if name in _OUTER:
        generator = exp.Anonymous(this=_OUTER[name], expressions=_arguments(generator))
        outer, name = True, _OUTER[name]
    types = context.typer.generated(generator)
    table = alias.args.get("alias") if alias is not None else None
    written = [item.name for item in (table.args.get("columns") if isinstance(table, exp.TableAlias) else None) or ()]
    names = written or _default_names(context, name, generator, len(types))
    made = tuple(context.typer.fresh(name, type_) for name, type_ in zip(names, types, strict=True))
    node = Generate(child, child.columns + made, generator, made, outer)
    return Relation(node, fields_of(names, made, table.name if isinstance(table, exp.TableAlias) else ""))


def _arguments(generator: exp.Expr) -> list[exp.Expr]:
    if isinstance(generator, exp.Anonymous):
        return list(generator.expressions)
    return [generator.this, *generator.expressions]


def _default_names(context: Context, name: str, generator: exp.Expr, width: int) -> list[str]:
    if name in ("explode", "posexplode"):
        position = ["pos"] if name == "posexplode" else []
        values = ["col"] if width - len(position) == 1 else ["key", "value"]
        return position + values
    if name == "inline":
        # An array of structs: the columns are called like the fields.
        array = exp.DataType.build(context.typer.types(_arguments(generator)[:1])[0], dialect="spark")
        fields = [item.name for element in array.expressions for item in element.expressions]
        if len(fields) != width:
            raise NotBound("inline is given something else than an array of structs")
        return fields
    return [f"c{i}" if name == "json_tuple" else f"col{i}" for i in range(width)]
