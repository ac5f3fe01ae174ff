"""Algorithms 2 and 3 of the ViewDF paper: a pattern query as two view delta functions, a helper and the final view.

The helper's part j has one row for each group that has a run at the end of part j: the group's columns, what its
aggregates have come to, and its state. UPDATE joins the new rows with the helper's part j-1, both sides outer: a group
without a new row keeps its run, unless WITHIN has run out. The final view shows the runs that are in the accepting
state. Where groups may have several rows in a part, these are taken in order (`folded_runs`); where each has one at
most, the paper's plain join does (`joined_runs`).
"""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.expressions import rewrite, text, unparen
from headrace.algebra.part_wise.patterns.aggregates import is_one_aggregate, read_aggregate
from headrace.algebra.part_wise.patterns.folded_runs import folded_initialize, folded_update
from headrace.algebra.part_wise.patterns.joined_runs import joined_initialize, joined_update
from headrace.algebra.part_wise.patterns.pattern_columns import Describe, PatternSource, bind_columns, identifier
from headrace.algebra.part_wise.patterns.pattern_query import describe_pattern
from headrace.algebra.part_wise.patterns.runs import Runs, bind_runs
from headrace.errors import DefinitionError
from headrace.language import Query, parse_one, quote_name
from headrace.language.query import Scalar


def pattern_functions(
    query: Query,
    view: str,
    helper: str,
    source: PatternSource,
    length: int,
    *,
    one_row: bool = False,
    describe: Describe | None = None,
) -> tuple[str, str]:
    """The statements that create the helper view and the final view of a pattern query.

    Parameters
    ----------
    query
        The pattern query, in either spelling.
    view, helper
        The names of the two views.
    source
        The relation that the query reads.
    length
        The span of the views' parts in seconds: a multiple of the source's.
    one_row
        No group has more than one row in a part of the views.
    describe
        Tells the column types of a Spark query; asked for aggregates over expressions whose type no rule tells.
    """
    runs, final = _bound(query, view, helper, source, length, describe)
    initialize, update = (joined_initialize, joined_update) if one_row else (folded_initialize, folded_update)
    return _statement(helper, initialize(runs, "i"), update(runs, "j"), length), final


def sequence_of(
    query: Query, view: str, helper: str, source: PatternSource, length: int, describe: Describe | None = None
) -> list[str]:
    """The columns by which the rows of a group are put in order, the first first."""
    return _bound(query, view, helper, source, length, describe)[0].columns_read()


def _bound(
    query: Query, view: str, helper: str, source: PatternSource, length: int, describe: Describe | None
) -> tuple[Runs, str]:
    """The runs that the helper keeps, and the statement of the final view, which tells what they must keep."""
    bound = bind_columns(describe_pattern(query), source, describe)
    if length < 1 or length % source.length:
        raise DefinitionError(
            "BAD_PARTITION_LENGTH",
            f"Parts of {length} seconds do not hold whole parts of {source.name}, which span {source.length}.",
            hint=f"Write PARTITION LENGTH {source.length}, or a multiple of it.",
            place=query.place,
        )
    runs = bind_runs(bound, helper, length)
    final = _final(query, view, helper, runs, length)
    runs.complete()
    return runs, final


def _statement(name: str, initialize: str, update: str, length: int) -> str:
    name = quote_name(name)
    written = (
        f"CREATE VIEW {name} AS INITIALIZE {name}[i] AS {initialize} UPDATE {name}[j] AS {update} "
        f"PARTITION LENGTH {length}"
    )
    return parse_one(written).sql()


def _final(query: Query, view: str, helper: str, runs: Runs, length: int) -> str:
    described = runs.bound.described
    items: dict[str, str] = {}
    for item in described.items:
        value = text(_over_helper(query, runs, item.expression))
        name = item.name or _name_of(query, item.expression, value, runs)
        if name.lower() in items:
            raise DefinitionError(
                "BAD_PATTERN_ITEM", f"Two columns are called {name}.", hint="Name one with AS.", place=query.place
            )
        items[name.lower()] = value if value == text(identifier(name)) else f"{value} AS {quote_name(name)}"
    condition = f"{runs.state} = {runs.machine.accepting}"
    if described.having is not None:
        condition += f" AND ({text(_over_helper(query, runs, described.having))})"
    selects = [
        f"SELECT {', '.join(items.values())} FROM {quote_name(helper)}[{part}] WHERE {condition}" for part in "ij"
    ]
    return _statement(view, selects[0], selects[1], length)


def _over_helper(query: Query, runs: Runs, expression: Scalar) -> exp.Expr:
    """An expression of SELECT or HAVING over the helper's columns."""
    variables = [variable.name.lower() for variable in runs.machine.variables]

    def value(node: exp.Expr) -> exp.Expr | None:
        if not is_one_aggregate(node):
            return None
        return exp.maybe_parse(runs.kept.result(read_aggregate(query, node, variables)), dialect="spark")

    return rewrite(expression.tree, value)


def _name_of(query: Query, expression: Scalar, value: str, runs: Runs) -> str:
    """The name of a column to which SELECT gives none: that of the helper, where it is one aggregate."""
    if isinstance(unparen(expression.tree), exp.AggFunc) and any(value == kept.name for kept in runs.kept):
        return value
    raise DefinitionError(
        "BAD_PATTERN_ITEM",
        f"{expression.sql()} is a column without a name.",
        hint=f"Write {expression.sql()} AS name.",
        place=query.place,
    )
