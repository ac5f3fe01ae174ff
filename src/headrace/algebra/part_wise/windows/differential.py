"""Aggregates that follow the window: a helper holds them for each group in it, plus what enters, less what leaves.

The helper is as large as the window has groups, and nothing is kept for long; but rows are read twice, when they enter
and when they leave. A group is dropped with its last row: that its count is 0 says so.
"""

from __future__ import annotations

from headrace.algebra.part_wise.windows.exact_forms import exact_form
from headrace.algebra.part_wise.windows.layout import Layout, Partial, Read, having_text, lay_out, outputs_text
from headrace.algebra.part_wise.windows.part_text import (
    INITIALIZE,
    UPDATE,
    one_part,
    parts_of,
    run_of_parts,
    same_function,
    select,
    view_function,
)
from headrace.algebra.part_wise.windows.source_rows import grouped_source
from headrace.algebra.part_wise.windows.subtractable import from_values, merged_sums, need_keys
from headrace.algebra.part_wise.windows.window_query import WindowQuery
from headrace.language import quote_name


def differential(query: WindowQuery, view: str, helper: str) -> list[str]:
    """Helper and view; NoForm where an aggregate cannot be subtracted exactly."""
    layout = lay_out(query, exact_form)
    layout.row_count()
    need_keys(layout)
    step = query.slide // query.source.length
    window = run_of_parts(INITIALIZE, step - query.source_parts, step - 1, times=step)
    return [
        view_function(helper, query.slide, grouped_source(layout, window), _moved_on(query, layout, helper)),
        same_function(view, query.slide, lambda variable: _shown(layout, parts_of(helper, one_part(variable)))),
    ]


def _moved_on(query: WindowQuery, layout: Layout, helper: str) -> str:
    step, width = query.slide // query.source.length, query.source_parts
    names = [*layout.keys, *layout.values]
    before = select(", ".join(map(quote_name, layout.columns())), parts_of(helper, one_part(UPDATE, -1)))
    entering = grouped_source(layout, run_of_parts(UPDATE, 0, step - 1, times=step))
    leaving = grouped_source(layout, run_of_parts(UPDATE, -width, step - width - 1, times=step), partial=_negated)
    temp = Read("Temp", grouped=True)
    group = [temp.column(name) for name in names]
    return select(
        ", ".join([f"{temp.column(name)} AS {quote_name(name)}" for name in names] + merged_sums(layout, temp)),
        f"({before} UNION ALL {entering} UNION ALL {leaving}) AS Temp",
        group=", ".join(group),
        having=f"{temp.merged(layout.row_count())} > 0",
    )


def _negated(partial: Partial) -> str:
    return f"-{partial.made}"


def _shown(layout: Layout, current: str) -> str:
    if layout.values:
        return from_values(layout, current)
    read = Read("Present", grouped=False)
    return select(outputs_text(layout, read), f"{current} AS Present", where=having_text(layout, read))
