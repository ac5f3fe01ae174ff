"""Each part of a window view by its query over the window's source parts: no helper, and right for every query."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.windows.part_text import run_of_parts, same_function
from headrace.algebra.part_wise.windows.window_aggregate import output_name
from headrace.algebra.part_wise.windows.window_query import WindowQuery, windowed_table
from headrace.algebra.snippets import select_of
from headrace.language import nodes


def recompute(query: WindowQuery, view: str) -> list[str]:
    """The one statement: the query as it is written, with parts of the source in place of the window."""
    step = query.slide // query.source.length

    def over_parts(variable: str) -> str:
        reference = run_of_parts(variable, step - query.source_parts, step - 1, times=step)
        tree = _with_names(query)
        table = windowed_table(tree)
        read = select_of(f"SELECT 1 FROM parts[{reference}]").args["from_"].this
        table.set("suffixes", [_part_reference(read)])
        return text(tree)

    return [same_function(view, query.slide, over_parts)]


def _part_reference(table: exp.Expr) -> exp.Expr:
    (found,) = table.args["suffixes"]
    assert isinstance(found, nodes.PartReference)
    return found.copy()


def _with_names(query: WindowQuery) -> exp.Expr:
    """The query's tree with the names that the other strategies give to its columns."""
    tree = query.query.tree.copy()
    if query.aggregate is None or not isinstance(tree, exp.Select):
        return tree
    for item, output in zip(list(tree.expressions), query.aggregate.outputs, strict=True):
        if (item.alias or output_name(item.unalias())) != output.name or not isinstance(item, exp.Column | exp.Alias):
            item.replace(exp.alias_(item.unalias().copy(), output.name, quoted=True))
    return tree
