"""Which calls are aggregates, what they give over no rows, and their normal form: calls over plain columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from headrace.algebra.context import Context
from headrace.algebra.expressions import cast, ref, text
from headrace.algebra.nodes import Call, Node
from headrace.algebra.not_bound import NotBound

#: Aggregates of Spark that sqlglot knows only as some function.
_UNKNOWN_TO_SQLGLOT = frozenset(
    """
    any some every std mean count_min_sketch histogram_numeric hll_sketch_agg hll_union_agg try_avg try_sum
    schema_of_variant_agg bitmap_and_agg bitmap_construct_agg bitmap_or_agg regr_avgx regr_avgy regr_sxx regr_sxy
    regr_syy percentile theta_sketch_agg theta_union_agg kll_sketch_agg_bigint approx_top_k_accumulate
    """.split()  # noqa: SIM905
)
#: Functions that sqlglot counts as aggregates and that only stand in OVER.
_WINDOW_ONLY = (
    exp.Lag, exp.Lead, exp.Rank, exp.DenseRank, exp.Ntile, exp.PercentRank, exp.CumeDist, exp.RowNumber, exp.NthValue,
)  # fmt: skip
#: What stands around an aggregate and belongs to it.
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_ZERO = (exp.Count, exp.CountIf, exp.ApproxDistinct, exp.RegrCount)
_EMPTY_ARRAY = (exp.ArrayAgg, exp.ArrayUniqueAgg)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is an aggregate function by itself, without FILTER and the like around it."""
    if isinstance(node, (exp.Grouping, exp.GroupingId, *_WINDOW_ONLY)):
        return False
    if isinstance(node, exp.Any):
        return not isinstance(node.this, exp.Query)
    if isinstance(node, exp.AggFunc):
        return True
    return isinstance(node, exp.Anonymous) and node.name.lower() in _UNKNOWN_TO_SQLGLOT


def function_of(node: exp.Expr) -> exp.Expr:
    """The aggregate function inside FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def find_aggregates(expression: exp.Expr, *, in_over: bool = False) -> Iterator[exp.Expr]:
    """The aggregates of an expression with all that belongs to them; the functions of OVER are not."""
    if isinstance(expression, exp.Query):
        return
    if isinstance(expression, exp.Window):
        yield from find_aggregates(expression.this, in_over=True)
        for key in ("partition_by", "order"):
            value = expression.args.get(key)
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expr):
                    yield from find_aggregates(child)
        return
    if is_aggregate(function_of(expression)):
        if not in_over:
            yield expression
            return
        inner = function_of(expression)
        yield from (found for child in inner.iter_expressions() for found in find_aggregates(child))
        return
    if isinstance(expression, _WRAPPERS) and in_over:
        yield from find_aggregates(expression.this, in_over=True)
        return
    for child in expression.iter_expressions():
        yield from find_aggregates(child)


_TRANSPARENT = (*_WRAPPERS, exp.Distinct, exp.Order, exp.Ordered, exp.Where, exp.Having, exp.HavingMax)


def arguments(call: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions that a call is given and that are not constant, wherever they stand in it."""
    for child in call.iter_expressions():
        if isinstance(child, _TRANSPARENT) or child is _called(call):
            yield from arguments(child)
        elif child.find(exp.Column):
            yield child


def _called(call: exp.Expr) -> exp.Expr | None:
    return call.this if isinstance(call, (*_WRAPPERS, exp.Window)) else None


def plain_calls(
    context: Context, node: Node, found: Iterable[exp.Expr], key: str = "arg"
) -> tuple[Node, dict[str, Call]]:
    """The child with all arguments computed, and each call over them, by its text."""
    written = {text(call): call.copy() for call in found}
    slots = [item for call in written.values() for item in arguments(call)]
    if any(next(find_aggregates(item), None) is not None for item in slots):
        raise NotBound("an aggregate of an aggregate has no meaning")
    node, names = context.typer.extend(node, [slot.copy() for slot in slots], key)
    for slot, name in zip(slots, names, strict=True):
        slot.replace(ref(name))
    columns = context.typer.typed([_base(call) for call in written.values()], list(written.values()))
    return node, {told: Call(column, call) for (told, call), column in zip(written.items(), columns, strict=True)}


def _base(call: exp.Expr) -> str:
    function = function_of(call.this if isinstance(call, exp.Window) else call)
    return function.name if isinstance(function, exp.Anonymous) else function.sql_name().lower()


def empty_value(call: Call) -> exp.Expr:
    """What the aggregate gives over no rows."""
    function = function_of(call.expression)
    if isinstance(function, _ZERO):
        return cast(exp.Literal.number(0), call.column.type)
    if isinstance(function, _EMPTY_ARRAY):
        return cast(exp.Array(expressions=[]), call.column.type)
    if isinstance(function, exp.Anonymous) and "sketch" in function.name.lower():
        raise NotBound(f"what {function.name} gives over no rows is not known")
    return exp.Null()
