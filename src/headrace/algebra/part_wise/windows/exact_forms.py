"""Aggregates that can be subtracted without loss: counts, and sums over exact types.

What leaves a window is taken out of the sums that are kept, so these must never be rounded: FLOAT and DOUBLE are
refused. A sum says nothing about presence, so a count of the values stands beside each.
"""

from __future__ import annotations

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.windows.argument_types import INTEGERS, Digits, decimal_digits, sum_type, type_of
from headrace.algebra.part_wise.windows.averages import decimal_average
from headrace.algebra.part_wise.windows.calls import SPREADS, Call, NoForm
from headrace.algebra.part_wise.windows.layout import Form, Layout, Partial, Read, counted
from headrace.algebra.part_wise.windows.spreads import finished_spread

#: Sums of these stay BIGINT, which is fast: an INT would have to be at its largest in four thousand million rows.
_KEPT_AS_BIGINT = INTEGERS[:3]
#: A kept sum has ten digits more than its argument at least, as Spark's own SUM has.
_WIDEST_SUM = 28
#: Squares of more digits would leave no room for their sums in 38.
_WIDEST_SPREAD = 10


def exact_form(layout: Layout, call: Call) -> Form:
    """How the call's result comes from kept sums and counts; NoForm if it cannot be subtracted exactly."""
    if call.name in ("count", "count_if"):
        return _count(layout, call)
    if call.name not in ("sum", "avg", *SPREADS):
        raise NoForm(f"{call.shown} cannot be subtracted: what it was without the rows that left is not known")
    type_ = type_of(call.argument, layout.source)
    shown = text(call.argument)
    if type_ is None:
        raise NoForm(f"the type of {shown} in {call.shown} is not known: write CAST({shown} AS an exact type)")
    if type_ not in INTEGERS and decimal_digits(type_) is None:
        raise NoForm(f"{call.shown} is over {type_}, and only sums of integers and DECIMAL can be subtracted exactly")
    if call.name in SPREADS:
        return _spread(layout, call, type_)
    return _sum(layout, call, type_) if call.name == "sum" else _average(layout, call, type_)


def _count(layout: Layout, call: Call) -> Form:
    partial = counted(layout, call)
    return lambda read: read.merged(partial)


def _values(layout: Layout, call: Call) -> Partial:
    """The number of values that are not NULL."""
    return layout.partial(f"count_{text(call.argument)}", call.over("COUNT"))


def _sum(layout: Layout, call: Call, type_: str) -> Form:
    total, count = _kept_sum(layout, call, type_), _values(layout, call)
    if type_ in _KEPT_AS_BIGINT:
        return lambda read: f"CASE WHEN {read.merged(count)} > 0 THEN {read.merged(total)} END"
    return lambda read: f"CASE WHEN {read.merged(count)} > 0 THEN CAST({read.merged(total)} AS {sum_type(type_)}) END"


def _kept_sum(layout: Layout, call: Call, type_: str) -> Partial:
    """The sum in a type wide enough for all windows together; 0 stands for no values, which the count tells."""
    argument = text(call.argument)
    digits = decimal_digits(type_)
    if digits is not None and digits.precision > _WIDEST_SUM:
        raise NoForm(f"{call.shown} is over {type_}, and a sum that is kept has room for {_WIDEST_SUM} digits")
    kept = "BIGINT" if type_ in _KEPT_AS_BIGINT else f"DECIMAL(38,{digits.scale if digits else 0})"
    return layout.partial(f"sum_{argument}", f"CAST(COALESCE({call.over('SUM')}, 0) AS {kept})")


def _average(layout: Layout, call: Call, type_: str) -> Form:
    count = _values(layout, call)
    if type_ not in INTEGERS:
        average = decimal_average(type_, call.shown)
        exact = _kept_sum(layout, call, type_)
        return lambda read: average(read.merged(exact), read.merged(count))
    if type_ == "BIGINT":
        # A sum of BIGINT could overflow where its average does not.
        wide = call.over("SUM", f"CAST({text(call.argument)} AS DECIMAL(20,0))")
        total = layout.partial(f"sum_{text(call.argument)}", f"CAST(COALESCE({wide}, 0) AS DECIMAL(38,0))")
    else:
        total = _kept_sum(layout, call, type_)
    return lambda read: f"CAST({read.merged(total)} AS DOUBLE) / NULLIF({read.merged(count)}, 0)"


def _spread(layout: Layout, call: Call, type_: str) -> Form:
    """From n, the sum and the sum of squares of whole numbers; exact until the last division.

    A DECIMAL is counted in its smallest unit, so that all products are of scale 0 and Spark rounds none of them.
    """
    argument, digits = text(call.argument), decimal_digits(type_) or Digits(10, 0)
    if type_ == "BIGINT" or digits.precision > _WIDEST_SPREAD:
        raise NoForm(
            f"{call.shown} is over {type_}, and squares of more than {_WIDEST_SPREAD} digits have no exact sums: "
            f"write CAST({argument} AS INT) if that holds the values"
        )
    unit = 10**digits.scale
    units = f"CAST(({argument}) * {unit} AS DECIMAL(10,0))" if digits.scale else f"CAST({argument} AS DECIMAL(10,0))"
    count = _values(layout, call)
    total = _whole(layout, call, f"sum_units_{argument}", units)
    squares = _whole(layout, call, f"sum_squares_{argument}", f"{units} * {units}")

    def form(read: Read) -> str:
        n, first, second = read.merged(count), read.merged(total), read.merged(squares)
        # n times the sum of squared distances, as whole numbers.
        apart = f"CAST({n} * {second} - {first} * {first} AS DOUBLE)"
        scaled = f"{apart} / NULLIF({n}, 0)" + (f" / {float(unit**2)!r}D" if digits.scale else "")
        return finished_spread(call.name, scaled, n)

    return form


def _whole(layout: Layout, call: Call, base: str, argument: str) -> Partial:
    return layout.partial(base, f"CAST(COALESCE({call.over('SUM', argument)}, 0) AS DECIMAL(38,0))")
