"""The aggregates that a match may be asked for: of all its rows (`sum(loss)`) or of one variable's (`sum(d.loss)`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates
from headrace.algebra.expressions import rewrite, text
from headrace.algebra.part_wise.patterns.refusals import error
from headrace.language.query import Query, Scalar

Function = Literal["COUNT", "SUM", "MIN", "MAX", "AVG", "FIRST", "LAST"]

_FUNCTIONS: tuple[tuple[type[exp.Expr], Function], ...] = (
    (exp.Count, "COUNT"),
    (exp.Sum, "SUM"),
    (exp.Min, "MIN"),
    (exp.Max, "MAX"),
    (exp.Avg, "AVG"),
    (exp.First, "FIRST"),
    (exp.FirstValue, "FIRST"),
    (exp.Last, "LAST"),
    (exp.LastValue, "LAST"),
)
_HINT = "COUNT, SUM, MIN, MAX, AVG, FIRST and LAST of a column or a scalar expression are kept."


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over rows of a match: those of the variable of `state`, or all. No argument: rows are counted.

    The argument is over plain columns of the input.
    """

    function: Function
    argument: Scalar | None
    state: int | None


def is_one_aggregate(node: exp.Expr) -> bool:
    """Whether the node is an aggregate call, with all that belongs to it."""
    return next(find_aggregates(node), None) is node


def read_aggregate(query: Query, call: exp.Expr, variables: Sequence[str]) -> Aggregate:
    """The description of an aggregate call whose columns are in normal form; `variables` are in lower case."""
    function = next((name for kind, name in _FUNCTIONS if type(call) is kind), None)
    if function is None and isinstance(call, exp.Anonymous) and call.name.lower() == "mean":
        function, call = "AVG", exp.Avg(this=call.expressions[0] if len(call.expressions) == 1 else None)
    more = any(value for key, value in call.args.items() if key not in ("this", "big_int"))
    if function is None or more or call.this is None or isinstance(call.this, exp.Distinct):
        raise error("BAD_PATTERN_ITEM", query, f"{text(call)} of a match is not kept row by row.", _HINT, call)
    states = {variables.index(it.table.lower()) + 1 if it.table else None for it in call.this.find_all(exp.Column)}
    if len(states) > 1:
        raise error(
            "BAD_PATTERN_ITEM",
            query,
            f"{text(call)} mixes rows of different variables.",
            "Give an aggregate columns of one variable, or of none for all rows of the match.",
            call,
        )
    state = next(iter(states), None)
    counts_rows = call.this.is_star or isinstance(call.this, exp.Literal)
    if function == "COUNT" and counts_rows:
        return Aggregate("COUNT", None, state)
    if call.this.find(exp.AggFunc, exp.Star) is not None:
        raise error("BAD_PATTERN_ITEM", query, f"{text(call)} has no meaning.", _HINT, call)
    return Aggregate(function, Scalar(rewrite(call.this, _unqualified)), state)


def _unqualified(node: exp.Expr) -> exp.Expr | None:
    return exp.Column(this=node.this.copy()) if isinstance(node, exp.Column) else None
