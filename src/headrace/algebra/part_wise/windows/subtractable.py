"""Aggregates that subtract: a helper holds them since the beginning, the view takes one part from another (View6).

A helper's part has, for each group, what all rows up to its end come to. The window is the part at its end less the
part before its beginning. A group that has had no row for a whole window is forgotten; should it come back, it begins
anew, and `since` tells its lives apart: the part before the window may still hold the earlier one, whose sums must not
be taken from those of the later one. So the view subtracts within (group, since), and what is present is what has a
count above 0: an earlier life that is only subtracted comes out below 0.
"""

from __future__ import annotations

from headrace.algebra.part_wise.windows.calls import NoForm
from headrace.algebra.part_wise.windows.exact_forms import exact_form
from headrace.algebra.part_wise.windows.layout import Layout, Read, having_text, lay_out, outputs_text
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
from headrace.algebra.part_wise.windows.window_query import WindowQuery
from headrace.language import quote_name

_LIFE = {"since": "MIN(PART_TIMESTAMP)", "last": "MAX(PART_TIMESTAMP)"}


def subtractable(query: WindowQuery, view: str, helper: str) -> list[str]:
    """Helper and view; NoForm where an aggregate cannot be subtracted exactly."""
    layout = lay_out(query, exact_form)
    layout.row_count()
    need_keys(layout)
    parts = query.pane // query.source.length

    def entering(variable: str) -> str:
        return grouped_source(layout, run_of_parts(variable, 0, parts - 1, times=parts), _LIFE)

    return [
        view_function(helper, query.pane, entering(INITIALIZE), _carried_on(query, layout, helper, entering(UPDATE))),
        same_function(view, query.slide, lambda variable: _subtracted(query, layout, helper, variable)),
    ]


def need_keys(layout: Layout) -> None:
    """A helper that drops absent groups cannot keep the one group of a query without keys."""
    if not layout.keys:
        raise NoForm("the query has no GROUP BY, and has a row for an empty window too")


def _carried_on(query: WindowQuery, layout: Layout, helper: str, entering: str) -> str:
    """The sums of the part before, without the groups that are not in the new part's window, and the new rows."""
    panes = query.window // query.pane
    names = [*layout.keys, *layout.values, *_LIFE, *_sums(layout)]
    # The window of this part begins so many seconds before the part in which `Prev` lies.
    back = (panes - 2) * query.pane
    start = "Prev.PART_TIMESTAMP" + (f" - INTERVAL '{back}' SECONDS" if back else "")
    kept = select(
        ", ".join(f"Prev.{quote_name(name)}" for name in names),
        f"{parts_of(helper, one_part(UPDATE, -1))} AS Prev",
        where=f"Prev.last >= {start}",
    )
    temp = Read("Temp", grouped=True)
    group = [temp.column(name) for name in (*layout.keys, *layout.values)]
    made = [f"{item} AS {quote_name(name)}" for name, item in zip((*layout.keys, *layout.values), group, strict=True)]
    made += ["MIN(Temp.since) AS since", "MAX(Temp.last) AS last"]
    return select(
        ", ".join(made + merged_sums(layout, temp)),
        f"({entering} UNION ALL {kept}) AS Temp",
        group=", ".join(group),
    )


def _subtracted(query: WindowQuery, layout: Layout, helper: str, variable: str) -> str:
    step, panes = query.slide // query.pane, query.window // query.pane
    names = [*map(quote_name, (*layout.keys, *layout.values)), "since"]
    plus = names + [quote_name(name) for name in _sums(layout)]
    minus = names + [f"-{quote_name(name)} AS {quote_name(name)}" for name in _sums(layout)]
    at_end = parts_of(helper, one_part(variable, step - 1, times=step))
    before = parts_of(helper, one_part(variable, step - 1 - panes, times=step))
    both = f"({select(', '.join(plus), at_end)} UNION ALL {select(', '.join(minus), before)}) AS Temp"
    temp = Read("Temp", grouped=True)
    present = f"{temp.merged(layout.row_count())} > 0"
    if not layout.values:
        having = having_text(layout, temp)
        return select(
            outputs_text(layout, temp),
            both,
            group=", ".join(map(temp.column, (*layout.keys, "since"))),
            having=present if having is None else f"{present} AND ({having})",
        )
    values = [*layout.keys, *layout.values]
    inner = select(
        ", ".join([f"{temp.column(name)} AS {quote_name(name)}" for name in values] + merged_sums(layout, temp)),
        both,
        group=", ".join(map(temp.column, (*values, "since"))),
        having=present,
    )
    return from_values(layout, f"({inner})")


def _sums(layout: Layout) -> list[str]:
    return [partial.name for partial in layout.partials.values()]


def merged_sums(layout: Layout, read: Read) -> list[str]:
    """Each partial added up, under its own name."""
    return [f"{read.merged(partial)} AS {quote_name(partial.name)}" for partial in layout.partials.values()]


def from_values(layout: Layout, relation: str) -> str:
    """The query's answer from a row for each group and value of a window."""
    read = Read("Present", grouped=True)
    return select(
        outputs_text(layout, read),
        f"{relation} AS Present",
        group=", ".join(map(read.column, layout.keys)),
        having=having_text(layout, read),
    )
