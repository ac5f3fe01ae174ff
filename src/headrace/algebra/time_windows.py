"""Spark's `window(time, length[, slide[, start]])` in GROUP BY, spelled out as a generator.

A row lies in every window that holds its time: one, or with a slide several. So the call is a LATERAL VIEW of these
windows, and a group has one of them as its key. Rows without a time lie in none.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.snippets import select_of
from headrace.errors import LanguageError
from headrace.language import parse_duration
from headrace.language.dialect import headrace_sql

#: A row in more windows than this is not spelled out.
MOST_WINDOWS = 1_000


def spell_out_windows(tree: exp.Expr) -> exp.Expr:
    """The tree with such calls replaced, in place, where their lengths are literals."""
    for select in list(tree.find_all(exp.Select)):
        group = select.args.get("group")
        calls = [call for call in group.find_all(exp.Anonymous) if _is_window(call)] if group is not None else []
        if len({headrace_sql(call) for call in calls}) == 1:
            _replace(select, calls[0])
    return tree


def _is_window(call: exp.Anonymous) -> bool:
    return str(call.this).lower() == "window" and 2 <= len(call.expressions) <= 4


def _replace(select: exp.Select, call: exp.Anonymous) -> None:
    lengths = [_micros(item) for item in call.expressions[1:]]
    if any(length is None for length in lengths) or not lengths[0]:
        return
    length = lengths[0]
    slide = lengths[1] if len(lengths) > 1 else length
    start = lengths[2] if len(lengths) > 2 else 0
    if not slide or slide > length or -(-length // slide) > MOST_WINDOWS:
        return
    text = headrace_sql(call)
    time = headrace_sql(call.expressions[0])
    micros = f"unix_micros(CAST({time} AS TIMESTAMP))"
    last = f"{micros} - pmod({micros} - {start}, {slide})"
    windows = ", ".join(
        f"named_struct('start', timestamp_micros({last} - {back * slide}),"
        f" 'end', timestamp_micros({last} - {back * slide} + {length}))"
        for back in range(-(-length // slide))
    )
    view = f"LATERAL VIEW explode(array({windows})) window_rows AS window"
    made = select_of(f"SELECT 1 FROM x {view} WHERE {time} IS NOT NULL AND {micros} < unix_micros(window.end)")
    for found in [item for item in select.find_all(exp.Anonymous) if headrace_sql(item) == text]:
        if found.find_ancestor(exp.Select) is select:
            found.replace(exp.column("window"))
    select.set("laterals", [*(select.args.get("laterals") or []), *made.args["laterals"]])
    select.where(made.args["where"].this, copy=False)


def _micros(item: exp.Expr) -> int | None:
    if not isinstance(item, exp.Literal) or not item.is_string:
        return None
    try:
        return parse_duration(item.name)
    except LanguageError:
        return None
