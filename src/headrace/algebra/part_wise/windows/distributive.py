"""Aggregates that merge: a helper holds them for each pane, the view merges the panes of its window (ViewDF View5).

A pane is the longest span of which window and slide are made. Old panes need no subtraction, so MIN and MAX go too, and
so do sums of FLOAT and DOUBLE, which never drift because every window is summed from its own panes alone.
"""

from __future__ import annotations

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.windows.argument_types import FRACTIONS, INTEGERS, decimal_digits, sum_type, type_of
from headrace.algebra.part_wise.windows.averages import decimal_average
from headrace.algebra.part_wise.windows.calls import SPREADS, Call, NoForm
from headrace.algebra.part_wise.windows.layout import (
    Form,
    Layout,
    Partial,
    Read,
    counted,
    having_text,
    lay_out,
    outputs_text,
)
from headrace.algebra.part_wise.windows.part_text import parts_of, run_of_parts, same_function, select
from headrace.algebra.part_wise.windows.source_rows import grouped_source
from headrace.algebra.part_wise.windows.spreads import finished_spread
from headrace.algebra.part_wise.windows.window_query import WindowQuery
from headrace.language import quote_name

_MERGED_BY_ITSELF = ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor")


def distributive(query: WindowQuery, view: str, helper: str) -> list[str]:
    """Helper and view; NoForm where an aggregate does not merge."""
    layout = lay_out(query, merging_form)
    parts = query.pane // query.source.length
    step, panes = query.slide // query.pane, query.window // query.pane
    read = Read("Pane", grouped=True)

    def merged(variable: str) -> str:
        window = run_of_parts(variable, step - panes, step - 1, times=step)
        return select(
            outputs_text(layout, read),
            f"{_with_group_values(layout, parts_of(helper, window))} AS Pane",
            group=", ".join(map(read.column, layout.keys)),
            having=having_text(layout, read),
        )

    def pane(variable: str) -> str:
        return grouped_source(layout, run_of_parts(variable, 0, parts - 1, times=parts))

    return [same_function(helper, query.pane, pane), same_function(view, query.slide, merged)]


def _with_group_values(layout: Layout, panes: str) -> str:
    if not layout.over_group:
        return panes
    made = [*map(quote_name, layout.columns())]
    made += [f"{item} AS {quote_name(name)}" for name, item in layout.over_group.items()]
    return f"(SELECT {', '.join(made)} FROM {panes})"


def merging_form(layout: Layout, call: Call) -> Form:
    """How the call's result is merged from its values over panes."""
    shown = ", ".join(map(text, call.arguments))
    if call.name in ("count", "count_if"):
        return _count(layout, counted(layout, call))
    if call.name in _MERGED_BY_ITSELF:
        function = call.name.upper()
        partial = layout.partial(f"{call.name}_{shown}", call.over(function), function)
        return lambda read: read.merged(partial)
    type_ = type_of(call.argument, layout.source)
    if type_ is None or sum_type(type_) is None:
        told = "is not known" if type_ is None else f"is {type_}"
        raise NoForm(f"the type of {shown} in {call.shown} {told}: write CAST({shown} AS a type of numbers)")
    if call.name in SPREADS:
        return _spread(layout, call)
    return _sum(layout, call, type_) if call.name == "sum" else _average(layout, call, type_)


def _count(layout: Layout, partial: Partial) -> Form:
    if layout.keys:
        return lambda read: read.merged(partial)
    # Without keys there is a row for an empty window too, and it counts 0.
    return lambda read: f"COALESCE({read.merged(partial)}, 0)"


def _sum(layout: Layout, call: Call, type_: str) -> Form:
    partial = layout.partial(f"sum_{text(call.argument)}", call.over("SUM"))
    if decimal_digits(type_) is None:
        return lambda read: read.merged(partial)
    # A sum of sums has ten digits more than Spark's own sum.
    return lambda read: f"CAST({read.merged(partial)} AS {sum_type(type_)})"


def _average(layout: Layout, call: Call, type_: str) -> Form:
    argument = text(call.argument)
    count = layout.partial(f"count_{argument}", call.over("COUNT"))
    if type_ in INTEGERS or type_ in FRACTIONS:
        # Spark averages in DOUBLE; a sum of BIGINT could overflow where its average does not.
        given = f"CAST({argument} AS DOUBLE)" if type_ == "BIGINT" else argument
        total = layout.partial(f"sum_{argument}", call.over("SUM", given))
        return lambda read: f"CAST({read.merged(total)} AS DOUBLE) / NULLIF({read.merged(count)}, 0)"
    average = decimal_average(type_, call.shown)
    total = layout.partial(f"sum_{argument}", call.over("SUM"))
    return lambda read: average(read.merged(total), read.merged(count))


def _spread(layout: Layout, call: Call) -> Form:
    """Variance from each pane's count, average and squared distances, which loses no digits as sums of squares would.

    The distance of a pane's average from the group's own has to be known before the sum: `over_group` has that average.
    """
    argument = text(call.argument)
    count = layout.partial(f"count_{argument}", call.over("COUNT"))
    average = layout.partial(f"avg_{argument}", call.over("AVG", f"CAST({argument} AS DOUBLE)"))
    square = layout.partial(f"var_{argument}", call.over("VAR_POP"))
    n, mean = quote_name(count.name), quote_name(average.name)
    keys = ", ".join(map(quote_name, layout.keys))
    over = f"OVER (PARTITION BY {keys})" if keys else "OVER ()"
    whole = f"SUM({n} * {mean}) {over} / NULLIF(SUM({n}) {over}, 0)"
    known = [name for name, made in layout.over_group.items() if made == whole]
    name = known[0] if known else layout.fresh(f"mean_{argument}")
    layout.over_group[name] = whole

    def form(read: Read) -> str:
        far = f"({read.column(average.name)} - {read.column(name)})"
        squares = f"SUM({read.column(count.name)} * ({read.column(square.name)} + {far} * {far}))"
        return finished_spread(call.name, squares, read.merged(count))

    return form
