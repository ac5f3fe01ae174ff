"""A tree under other column names, so that it can become a part of another one."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from sqlglot import exp

from headrace.algebra.nodes import Call, Column, Constant, Equal, Node, Order
from headrace.algebra.trees import with_children


def renamed(root: Node, prefix: str) -> Node:
    """The same tree, every column's name with `prefix` before it."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = with_children(_one(node, prefix), [visit(child) for child in node.children])
        return done[id(node)]

    return visit(root)


def _one(node: Node, prefix: str) -> Node:
    changes: dict[str, Any] = {}
    for item in fields(node):  # type: ignore[arg-type]
        value = getattr(node, item.name)
        if item.name in ("child", "left", "right", "inputs", "sources", "name", "kind", "text"):
            continue
        changes[item.name] = _value(value, prefix)
    if isinstance(node, Constant):
        names = ", ".join(f"`{name}` AS `{prefix}{name}`" for name in node.names)
        changes["text"] = f"SELECT {names} FROM ({node.text})"
    return replace(node, **changes)  # type: ignore[type-var]


def _value(value: Any, prefix: str) -> Any:
    match value:
        case Column():
            return Column(prefix + value.name, value.type)
        case exp.Expr():
            return _expression(value, prefix)
        case Call():
            return Call(_value(value.column, prefix), _expression(value.expression, prefix))
        case Equal():
            return Equal(prefix + value.left, prefix + value.right, value.null_safe)
        case Order():
            return replace(value, column=prefix + value.column)
        case str():
            return prefix + value
        case tuple():
            return tuple(_value(item, prefix) for item in value)
    return value


def _expression(tree: exp.Expr, prefix: str) -> exp.Expr:
    copy = tree.copy()
    for column in list(copy.find_all(exp.Column)):
        column.this.set("this", prefix + column.name)
    return copy
