"""OVER: window functions over plain columns, all calls with one PARTITION BY in one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from headrace.algebra.aggregates import plain_calls
from headrace.algebra.context import Context
from headrace.algebra.expressions import ref, text
from headrace.algebra.nodes import Call, Node, Order, Over
from headrace.algebra.not_bound import NotBound
from headrace.algebra.typed import Typer
from headrace.language import nodes as language_nodes


def find_windows(expression: exp.Expr) -> Iterator[exp.Window]:
    """The topmost OVER calls of an expression."""
    if isinstance(expression, exp.Window):
        yield expression
    elif not isinstance(expression, exp.Query):
        for child in expression.iter_expressions():
            yield from find_windows(child)


def spell_windows(expression: exp.Expr, named: Mapping[str, exp.Window]) -> exp.Expr:
    """A copy in which each window says itself what the WINDOW clause says of its name."""
    copy = expression.copy()
    for window in list(find_windows(copy)):
        for length in list(window.find_all(language_nodes.Length)):
            unit = length.args.get("unit")
            length.replace(exp.Interval(this=exp.Literal.string(length.this.name), unit=unit))
        alias = window.args.get("alias")
        if alias is None:
            continue
        definition = named.get(alias.name.lower())
        if definition is None:
            raise NotBound(f"the window {alias.name} is not defined")
        for key in ("partition_by", "order", "spec"):
            value = definition.args.get(key)
            if value is not None and not window.args.get(key):
                copied = [item.copy() for item in value] if isinstance(value, list) else value.copy()
                window.set(key, copied)
        window.set("alias", None)
    return copy


def bind_windows(context: Context, node: Node, expressions: Sequence[exp.Expr]) -> tuple[Node, dict[str, exp.Expr]]:
    """The node under all windows that the expressions call; and for each call's text, its column."""
    found = {text(window): window for item in expressions for window in find_windows(item)}
    if not found:
        return node, {}
    for window in found.values():
        inner = [child for child in window.iter_expressions() if next(find_windows(child), None) is not None]
        if inner:
            raise NotBound("a window function inside another has no meaning")
    node, calls = plain_calls(context, node, found.values(), "over")
    groups: dict[tuple[str, ...], list[Call]] = {}
    for call in calls.values():
        partition = call.expression.args.get("partition_by") or []
        # A constant does not part anything.
        kept = [item for item in partition if isinstance(item, exp.Column)]
        call.expression.set("partition_by", kept or None)
        groups.setdefault(tuple(dict.fromkeys(item.name for item in kept)), []).append(call)
    for names, group in groups.items():
        node = Over(node, names, tuple(group))
    return node, {told: ref(call.column.name) for told, call in calls.items()}


def partition_also(node: Over, child: Node, keys: Sequence[str]) -> Over:
    """The same windows over another child, parted by `keys` too."""
    partition = tuple(dict.fromkeys((*node.partition, *keys)))
    calls = []
    for call in node.calls:
        copy = call.expression.copy()
        copy.set("partition_by", [ref(name) for name in partition])
        calls.append(Call(call.column, copy))
    return Over(child, partition, tuple(calls))


def row_number(typer: Typer, child: Node, partition: Sequence[str], order: Sequence[Order]) -> tuple[Over, str]:
    """The child with each row's number in its partition, ties broken by all columns; and that number's name."""
    ordered = {item.column: item for item in order}
    for column in child.columns:
        if column.name not in partition and "map<" not in column.type:
            ordered.setdefault(column.name, Order(column.name))
    items = [
        exp.Ordered(this=ref(item.column), desc=item.descending or None, nulls_first=item.nulls_first)
        for item in ordered.values()
    ]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[ref(name) for name in partition],
        order=exp.Order(expressions=items)
        if items
        else exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(1))]),
        over="OVER",
    )
    column = typer.fresh("row_number", "int")
    return Over(child, tuple(partition), (Call(column, window),)), column.name
