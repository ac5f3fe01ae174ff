"""From a query's tree to a tree Spark can run: other names for relations, and PART_TIMESTAMP made an ordinary column.

Both functions change the tree they are given; callers pass a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.errors import LanguageError
from headrace.language import nodes
from headrace.language.relations import (
    PART_TIMESTAMP,
    direct_tables,
    find_relations,
    is_part_timestamp,
    tables_with_part_timestamp,
)
from headrace.language.times import format_time, parse_time


def put_names(tree: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """Replace the i-th relation by names[i], keeping the alias by which the query's columns know it."""
    tables = find_relations(tree)
    if len(tables) != len(names):
        raise ValueError(f"The query reads {len(tables)} relations, and {len(names)} names were given.")
    for table, name in zip(tables, names, strict=True):
        kept = {key: value for key, value in table.args.items() if key not in ("suffixes", "changes_of")}
        plain = exp.Table(**kept)
        if not plain.args.get("alias"):
            plain.set("alias", exp.TableAlias(this=table.this.copy()))
        elif plain.args["alias"].this is None:
            plain.args["alias"].set("this", table.this.copy())
        plain.set("this", exp.to_identifier(name, quoted=True))
        if table.parent is None:
            tree = plain
        else:
            table.replace(plain)
    for select in tree.find_all(exp.Select):
        select.set("operation_modifiers", None)
    for length in tree.find_all(nodes.Length):
        length.replace(_interval(length))
    return tree


def _interval(length: nodes.Length) -> exp.Expr:
    """The lengths that are left stand in OVER frames; Spark wants an interval there."""
    return exp.Interval(this=exp.Literal.string(length.this.name), unit=length.args.get("unit"))


def with_types(tree: exp.Expr, types: Sequence[str | None]) -> exp.Expr:
    """The query with some of its columns cast, under the names they have."""
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    names = [item.alias_or_name for item in first.expressions]
    inner = exp.Subquery(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier("typed")))
    items: list[exp.Expr] = []
    for name, type_ in zip(names, types, strict=True):
        column = exp.column(exp.to_identifier(name, quoted=True))
        if type_ is None:
            items.append(column)
        else:
            cast = exp.Cast(this=column, to=exp.DataType.build(type_, dialect="spark"))
            items.append(exp.alias_(cast, exp.to_identifier(name, quoted=True)))
    return exp.Select(expressions=items).from_(inner)


def hide_and_convert_part_timestamps(tree: exp.Expr) -> None:
    """Keep PART_TIMESTAMP out of stars, and make what it is compared with a timestamp."""
    shown = tables_with_part_timestamp(tree)
    if not shown:
        return
    _convert_comparisons(tree)
    for select in list(tree.find_all(exp.Select)):
        tables = direct_tables(select)
        hidden = [table for table in tables if any(table is found for found in shown)]
        for item in select.expressions:
            if isinstance(item, exp.Star):
                alone = len(tables) == 1
                _hide(item, [exp.column(PART_TIMESTAMP, None if alone else t.alias_or_name) for t in hidden])
            elif (
                isinstance(item, exp.Column)
                and isinstance(item.this, exp.Star)
                and any(table.alias_or_name.lower() == item.table.lower() for table in hidden)
            ):
                _hide(item.this, [exp.column(PART_TIMESTAMP)])


def _hide(star: exp.Star, columns: list[exp.Column]) -> None:
    for column in columns:
        star.append("except_", column)


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def _convert_comparisons(tree: exp.Expr) -> None:
    for column in list(tree.find_all(exp.Column)):
        if not is_part_timestamp(column):
            continue
        node: exp.Expr | None = column.parent
        while isinstance(node, exp.Paren):
            node = node.parent
        if isinstance(node, _COMPARISONS):
            for key in ("this", "expression"):
                node.set(key, _timestamp(node.args[key]))
        elif isinstance(node, exp.Between):
            for key in ("low", "high"):
                node.set(key, _timestamp(node.args[key]))
        elif isinstance(node, exp.In):
            node.set("expressions", [_timestamp(item) for item in node.expressions])


def _timestamp(node: exp.Expr) -> exp.Expr:
    sign = ""
    inner = node.unnest()
    if isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal):
        sign, inner = "-", inner.this
    if isinstance(inner, exp.Cast) and inner.to.is_type(exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMP, exp.DType.DATE):
        inner = inner.this
    if not isinstance(inner, exp.Literal):
        return node
    try:
        micros = parse_time(sign + inner.name)
    except LanguageError as error:
        raise LanguageError(
            "BAD_TIME",
            f"PART_TIMESTAMP is compared with '{inner.name}', which is not a point in time.",
            hint=error.hint,
        ) from None
    return exp.cast(exp.Literal.string(format_time(micros)), exp.DType.TIMESTAMPTZ)
