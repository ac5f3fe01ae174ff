"""An aggregate call taken apart: one name for each function however it is spelled, its arguments, DISTINCT, FILTER."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.aggregates import function_of
from headrace.algebra.expressions import text, unparen


class NoForm(Exception):
    """An aggregate has no form in the strategy at hand, for the reason that is told in a sentence."""


@dataclass(frozen=True)
class Call:
    """``name(arguments) FILTER (WHERE condition)``; `fraction` is the constant of a percentile."""

    name: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    condition: exp.Expr | None = None
    fraction: str | None = None
    shown: str = ""

    @property
    def argument(self) -> exp.Expr:
        return self.arguments[0]

    def over(self, function: str, argument: str | None = None) -> str:
        """The text of a function over the call's arguments, or another one, and under its FILTER."""
        given = ", ".join(map(text, self.arguments)) if argument is None else argument
        tail = "" if self.condition is None else f" FILTER (WHERE {text(self.condition)})"
        return f"{function}({given}){tail}"


_NAMES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count_if",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Any: "bool_or",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.VariancePop: "var_pop",
    exp.Variance: "var_samp",
    exp.StddevPop: "stddev_pop",
    exp.StddevSamp: "stddev_samp",
    exp.Stddev: "stddev_samp",
    exp.Quantile: "percentile",
    exp.Median: "percentile",
}
_SPELLED = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or", "std": "stddev_samp"}
SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
#: What tells of two equal values no more than of one.
_UNMOVED_BY_DISTINCT = ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or")


def read_call(node: exp.Expr) -> Call:
    """The pieces of an aggregate, or NoForm for one that is made anew from all rows only."""
    shown, condition = text(node), None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if isinstance(node, exp.WithinGroup):
        return _within_group(node, condition, shown)
    function = function_of(node)
    name = _NAMES.get(type(function))
    if isinstance(function, exp.Anonymous):
        name = _SPELLED.get(function.name.lower())
    if name is None or function is not node:
        raise NoForm(f"{shown} has to see all rows of the window")
    first = [] if isinstance(function, exp.Anonymous) else [function.this]
    given = [*first, *function.args.get("expressions", ())]
    distinct = isinstance(given[0], exp.Distinct) if given else False
    if distinct:
        given = given[0].expressions
    if distinct and name in _UNMOVED_BY_DISTINCT:
        distinct = False
    if not given or (distinct and any(item.is_star for item in given)):
        raise NoForm(f"{shown} has to see all rows of the window")
    fraction = None
    if name == "percentile":
        fraction = text(function.args["quantile"]) if function.args.get("quantile") else "0.5"
        if function.args.get("quantile") is not None and function.args["quantile"].find(exp.Column):
            raise NoForm(f"{shown} has a fraction that differs from row to row")
    return Call(name, tuple(map(unparen, given)), distinct, condition, fraction, shown)


def _within_group(node: exp.WithinGroup, condition: exp.Expr | None, shown: str) -> Call:
    (ordered,) = node.expression.expressions if len(node.expression.expressions) == 1 else (None,)
    if not isinstance(node.this, exp.PercentileCont) or ordered is None or ordered.args.get("desc"):
        raise NoForm(f"{shown} has to see all rows of the window")
    return Call("percentile", (unparen(ordered.this),), False, condition, text(node.this.this), shown)
