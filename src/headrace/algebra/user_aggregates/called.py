"""Which functions a query or a body calls, by the names that a user may have given to aggregates of his own."""

from __future__ import annotations

import re

from sqlglot import exp

from headrace.algebra.user_aggregates.definition import Definition
from headrace.errors import HeadraceError
from headrace.language import Query, Select, parse_one, quote_name

_CALL = re.compile(r"(?<![\w.`])`?([A-Za-z_]\w*)`?\s*\(")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'")


def names_of(node: exp.Expr) -> tuple[str, ...]:
    """The names, in small letters, that a call may have been written with; none where it is no call."""
    if isinstance(node, exp.Anonymous):
        return (node.name.lower(),)
    if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Cast):
        return tuple(name.lower() for name in node.sql_names())
    return ()


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call, in the order they are written."""
    found: list[exp.Expr] = []
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    for key in node.arg_types:
        value = node.args.get(key)
        found += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, exp.Expr)]
    return found


def can_be_called(name: str, count: int) -> bool:
    """Whether a call under this name is read as one, and again when it was printed.

    Some names are those of built-in functions that are printed otherwise, or take other arguments.
    """
    arguments = [f"x{number}" for number in range(count)]
    text = f"SELECT {quote_name(name)}({', '.join(arguments)})"
    for _ in range(2):
        try:
            statement = parse_one(text)
        except HeadraceError:
            return False
        node = statement.query.tree.expressions[0] if isinstance(statement, Select) else None
        if node is None or name.lower() not in names_of(node) or [it.name for it in arguments_of(node)] != arguments:
            return False
        text = statement.sql()
    return True


def over_of(node: exp.Expr) -> exp.Window | None:
    """The OVER that stands behind a call, if there is one."""
    parent = node.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and parent.this is node:
        node, parent = parent, parent.parent
    return parent if isinstance(parent, exp.Window) and parent.this is node else None


def called_in(query: Query) -> frozenset[tuple[str, bool]]:
    """The functions a query calls, each with whether it is called OVER a window."""
    return frozenset(
        (name, over_of(node) is not None) for node in query.tree.find_all(exp.Func) for name in names_of(node)
    )


def called_in_body(definition: Definition) -> frozenset[str]:
    """The functions that the statements of an aggregate call."""
    own = {table.name.lower() for table in definition.tables}
    texts = [_STRING.sub("''", text) for statements in definition.blocks.values() for text in statements]
    return frozenset(name.lower() for text in texts for name in _CALL.findall(text)) - own
