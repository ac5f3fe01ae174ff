"""ORDER BY with LIMIT and OFFSET. A relation has no order, so ORDER BY alone says nothing and is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.algebra.context import Context
from headrace.algebra.expressions import unparen
from headrace.algebra.nodes import Node, Order, TopK
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Field, Relation, Scope, resolve


def bounds(tree: exp.Expr) -> tuple[int | None, int] | None:
    """LIMIT and OFFSET of a query; None if it has neither."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if isinstance(limit, exp.Fetch):
        count = limit.args.get("count")
        found = None if count is None else _number(count, "FETCH")
    else:
        found = None if limit is None else _number(limit.expression, "LIMIT")
    skipped = 0 if offset is None else _number(offset.expression, "OFFSET") or 0
    return None if found is None and not skipped else (found, skipped)


def _number(expression: exp.Expr, what: str) -> int | None:
    expression = unparen(expression)
    if isinstance(expression, exp.Literal) and expression.name.isdigit():
        return int(expression.name)
    if expression.name.upper() == "ALL":
        return None
    raise NotBound(f"{what} is not a plain number")


def ordinal(expression: exp.Expr, width: int) -> int | None:
    """The position that ``ORDER BY 2`` or ``GROUP BY 2`` means, from 0."""
    if isinstance(expression, exp.Literal) and not expression.is_string and expression.name.isdigit():
        position = int(expression.name)
        if not 1 <= position <= width:
            raise NotBound(f"position {position} is not in the SELECT list")
        return position - 1
    return None


def limited(context: Context, tree: exp.Expr, relation: Relation, around: Scope) -> Relation:
    """The relation under the ORDER BY and LIMIT of a set operation or of a bracketed query."""
    found = bounds(tree)
    if found is None:
        return relation
    scope = Scope(tuple(Field(item.name, item.column) for item in relation.output), around, around.ctes)
    columns = [item.column for item in relation.output]
    order = tree.args.get("order")
    items: list[exp.Expr] = []
    for item in order.expressions if order is not None else ():
        position = ordinal(item.this, len(columns))
        items.append(resolve(item.this, scope) if position is None else resolve(_bound(columns[position]), scope))
    node, names = context.typer.extend(relation.node, items, "order")
    orders = ordering(order.expressions if order is not None else (), names)
    return Relation(top(node, orders, found), relation.fields)


def _bound(name: str) -> exp.Column:
    column = exp.Column(this=exp.Identifier(this=name, quoted=False))
    column.meta["bound"] = True
    return column


def ordering(items: Sequence[exp.Expr], names: Sequence[str]) -> tuple[Order, ...]:
    """What ORDER BY says of each of its columns, once a column."""
    found: dict[str, Order] = {}
    for item, name in zip(items, names, strict=True):
        descending = bool(item.args.get("desc"))
        nulls_first = bool(item.args["nulls_first"]) if item.args.get("nulls_first") is not None else not descending
        found.setdefault(name, Order(name, descending, nulls_first))
    return tuple(found.values())


def top(node: Node, order: tuple[Order, ...], found: tuple[int | None, int]) -> Node:
    return TopK(node, order, found[0], found[1])
