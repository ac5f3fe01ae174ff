"""Spark's `session_window(time, gap)` in GROUP BY, spelled out with window functions.

A session goes on as long as the next row of its group comes within the gap. So a row that comes later than that after
the one before it begins a session, and the number of such beginnings up to a row tells which session it is in.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.snippets import select_of
from headrace.errors import LanguageError
from headrace.language import parse_duration
from headrace.language.dialect import headrace_sql

_NAME = "session_window"


def spell_out_sessions(tree: exp.Expr) -> exp.Expr:
    """The tree with such calls replaced, in place, where the gap is a literal and one relation is read."""
    for select in list(tree.find_all(exp.Select)):
        group = select.args.get("group")
        calls = [call for call in group.expressions if _is_call(call)] if group is not None else []
        if len(calls) == 1 and not select.args.get("joins") and not select.args.get("laterals"):
            _replace(select, calls[0])
    return tree


def _is_call(item: exp.Expr) -> bool:
    return isinstance(item, exp.Anonymous) and str(item.this).lower() == _NAME and len(item.expressions) == 2


def _replace(select: exp.Select, call: exp.Anonymous) -> None:
    gap = call.expressions[1]
    try:
        micros = parse_duration(gap.name) if isinstance(gap, exp.Literal) and gap.is_string else 0
    except LanguageError:
        return
    if micros <= 0 or select.args.get("from_") is None:
        return
    for column in [found for found in select.find_all(exp.Column) if found.table and found.table.lower() != _NAME]:
        if column.find_ancestor(exp.Select) is select:
            column.set("table", None)  # one relation is read, and from now on through a subquery
    spent = headrace_sql(call)
    time = headrace_sql(call.expressions[0])
    keys = [item for item in select.args["group"].expressions if item is not call]
    partition = f"PARTITION BY {', '.join(headrace_sql(key) for key in keys)} " if keys else ""
    before = f"lag(__session_time) OVER ({partition}ORDER BY __session_time)"
    begins = f"CASE WHEN unix_micros(__session_time) > unix_micros(__session_before) + {micros} THEN 1 ELSE 0 END"
    made = select_of(
        f"SELECT 1 FROM (SELECT *, sum({begins}) OVER ({partition}ORDER BY __session_time) AS __session_number FROM"
        f" (SELECT *, {before} AS __session_before FROM (SELECT *, CAST({time} AS TIMESTAMP) AS __session_time FROM x"
        f" WHERE {time} IS NOT NULL) AS timed_rows) AS ordered_rows) AS session_rows"
    )
    innermost = [found for found in made.find_all(exp.Select) if found.find(exp.Table, bfs=False) is not None][-1]
    innermost.set("from_", select.args["from_"])
    if select.args.get("where") is not None:
        innermost.where(select.args["where"].this, copy=False)
    select.set("where", None)
    select.set("from_", made.args["from_"])
    select.args["group"].set("expressions", [*keys, exp.column("__session_number")])
    _put_bounds(select, spent, micros)


def _put_bounds(select: exp.Select, spent: str, micros: int) -> None:
    """What the query shows of the session: its first time, and its last with the gap."""
    bounds = {
        "start": "min(__session_time)",
        "end": f"timestamp_micros(unix_micros(max(__session_time)) + {micros})",
    }
    whole = f"named_struct('start', {bounds['start']}, 'end', {bounds['end']})"
    for found in list(select.find_all(exp.Column, exp.Dot, exp.Anonymous)):
        if found.find_ancestor(exp.Select) is not select:
            continue
        text = None
        if isinstance(found, exp.Column) and found.table.lower() == _NAME:
            text = bounds.get(found.name.lower())
        elif isinstance(found, exp.Column) and not found.table and found.name.lower() == _NAME:
            text = whole
        elif isinstance(found, exp.Dot) and headrace_sql(found.this) == spent:
            text = bounds.get(found.expression.name.lower())
        elif (
            isinstance(found, exp.Anonymous) and headrace_sql(found) == spent and not isinstance(found.parent, exp.Dot)
        ):
            text = whole
        if text is not None:
            found.replace(select_of(f"SELECT {text} FROM x").expressions[0])
