"""The part of a helper's query that reads the source: its rows, filtered and brought to one row a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.windows.layout import Layout, Partial
from headrace.algebra.part_wise.windows.part_text import parts_of, select
from headrace.language import quote_name


def grouped_source(
    layout: Layout,
    reference: str,
    more: Mapping[str, str] | None = None,
    partial: Callable[[Partial], str] = lambda partial: partial.made,
) -> str:
    """Keys, values, `more` columns and partials of the source's rows in the parts that `reference` names."""
    made = {**layout.keys, **layout.values, **(more or {})}
    made |= {column.name: partial(column) for column in layout.partials.values()}
    where = layout.aggregate.where
    return select(
        ", ".join(item if item == quote_name(name) else f"{item} AS {quote_name(name)}" for name, item in made.items()),
        parts_of(layout.source.name, reference),
        where=None if where is None else text(where),
        group=", ".join(layout.grouping()),
    )
