"""What the engine finishes after an operator: SQL from the rows it gave to the changes of the node's result.

An operator that keeps the rows of groups gives every new version of each group that changed; the node's own
expressions, evaluated for each version apart, give its results, and a result lives as long as its version (see
`operators.emitted`). Of a join without an equality it gives the changes of both sides, which meet what the other has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.algebra.nodes import Aggregate, Generate, Join, Node, Over
from headrace.algebra.versioned import apart_by, counting_only
from headrace.engine import Engine
from headrace.language.dialect import headrace_sql
from headrace.maintenance.operators.base import quote
from headrace.maintenance.wide import generate_sql

Scans = Callable[[str], Any]
_MARKS = ("CAST(0 AS BIGINT) AS __t", "CAST(1 AS BIGINT) AS __w")


def finish(engine: Engine, node: Node, rows: Any, scans: Scans) -> Any:
    """The node's columns with `__t` and `__w`, or the span of each. `scans`: what a state of it held before."""
    match node:
        case Aggregate():
            return engine.sql(_grouped(node), {"rows_": rows})
        case Over():
            return engine.sql(_windowed(node), {"rows_": rows})
        case Join():
            return engine.sql(_joined(node), {"rows_": rows, "left_old_": scans("left"), "right_old_": scans("right")})
        case Generate():
            return engine.sql(generate_sql(node, "rows_"), {"rows_": rows})
    raise TypeError(f"nothing follows {type(node).__name__}")


def _grouped(node: Aggregate) -> str:
    keys = [quote(name) for name in node.keys]
    calls = []
    for call in node.calls:
        # A version without rows is given one that only says so and is not to be counted.
        text = f"CAST({headrace_sql(counting_only(call.expression, '__present'))} AS {call.column.type})"
        calls.append(f"{text} AS {quote(call.column.name)}")
    # A global aggregate has a result over no rows too; any other group without rows has none.
    present = "max(__present) AS __present" if node.keys else "TRUE AS __present"
    shown = [*keys, *calls, "__since", "__until", present, *_MARKS]
    return f"SELECT {', '.join(shown)} FROM rows_ GROUP BY {', '.join([*keys, '__version', '__since', '__until'])}"


def _windowed(node: Over) -> str:
    calls = []
    for call in node.calls:
        text = headrace_sql(apart_by(call.expression, "__version"))
        calls.append(f"CAST({text} AS {call.column.type}) AS {quote(call.column.name)}")
    kept = [quote(name) for name in node.child.names]
    return f"SELECT {', '.join([*kept, *calls, '__since', '__until', '__present', *_MARKS])} FROM rows_"


def _joined(node: Join) -> str:
    left, right = node.left.names, node.right.names
    condition = "TRUE" if node.residual is None else headrace_sql(node.residual)
    shown = ", ".join(quote(name) for name in (*left, *right))
    sides: Mapping[str, tuple[str, str]] = {
        "l": (_side(left, 0), _old(left, "left_old_")),
        "r": (_side(right, 1), _old(right, "right_old_")),
    }
    terms = [(sides["l"][0], sides["r"][1]), (sides["l"][1], sides["r"][0]), (sides["l"][0], sides["r"][0])]
    return " UNION ALL ".join(
        f"SELECT {shown}, greatest(__lt, __rt) AS __t, __lw * __rw AS __w FROM"
        f" (SELECT *, __t AS __lt, __w AS __lw FROM ({first})) AS l JOIN"
        f" (SELECT *, __t AS __rt, __w AS __rw FROM ({second})) AS r ON {condition}"
        for first, second in terms
    )


def _side(names: tuple[str, ...], side: int) -> str:
    return f"SELECT {', '.join(quote(name) for name in names)}, __t, __w FROM rows_ WHERE __side = {side}"


def _old(names: tuple[str, ...], source: str) -> str:
    shown = ", ".join(quote(name) for name in names)
    return f"SELECT {shown}, CAST(-9223372036854775808 AS BIGINT) AS __t, __w FROM {source}"
