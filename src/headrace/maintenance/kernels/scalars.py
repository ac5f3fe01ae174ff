"""Filters and projections evaluated here, for few rows: asking the engine costs a job, whatever the rows.

What can be evaluated at all is for `algebra.scalars` to say, which reads and types expressions as Spark does. Arrow
then computes the same values. Where the data make that unsure (an overflow, above all), `NotHere` is raised, and the
engine is to be asked after all: it alone knows whether a branch that overflows is ever taken.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from decimal import Context
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column, Filter, Node, Project
from headrace.algebra.scalars import Term, term_of
from headrace.language.types import arrow_type
from headrace.maintenance.kernels.tables import TIME
from headrace.storage.bags import WEIGHT

#: Gives an array, or a scalar where no row matters.
_Run = Callable[[pa.Table], Any]

#: How many digits Arrow wants for an integer.
_ROOM = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}

#: A decimal's digits, and those that decimal256 has room for.
_MOST, _MOST_BETWEEN = 38, 76
_EXACT = Context(prec=_MOST_BETWEEN)

_EPOCH = datetime.date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = ((day - _EPOCH).days for day in (datetime.date.min, datetime.date.max))


class NotHere(Exception):
    """These rows are for the engine, though others may not be."""


def compiled(
    expression: Any, types: Mapping[str, str], result: str, engine: str | None = None
) -> Callable[[pa.Table], pa.Array] | None:
    """A function that evaluates `expression` cast to the SQL type `result` over tables whose columns have the SQL types
    `types`; None where only the engine can. The function may raise `NotHere`.

    `engine` is the engine's kind, "spark" or "sail": without it (or with any other) no decimals are divided or rounded.
    """
    term = term_of(expression, types, result, engine)
    if term is None:
        return None
    run, kind = _run_of(term), arrow_type(result)

    def evaluate(table: pa.Table) -> pa.Array:
        try:
            found = run(table)
            return pa.repeat(found, table.num_rows) if isinstance(found, pa.Scalar) else found.cast(kind)
        except pa.ArrowException as error:
            raise NotHere(str(error)) from error

    return evaluate


def through(
    steps: Sequence[Node], start: Sequence[Column], engine: str | None = None
) -> Callable[[pa.Table], pa.Table] | None:
    """A function that takes signed rows (columns of `start`, `__t` and `__w`) through filters and projections.

    None where some step is for the engine, of the kind `engine`. The function may raise `NotHere`.
    """
    columns, made = tuple(start), []
    for step in steps:
        types = {column.name: column.type for column in columns}
        one = (
            filtering(step, types, engine)
            if isinstance(step, Filter)
            else projecting(step, types, engine, (TIME, WEIGHT))
        )
        if one is None:
            return None
        made.append(one)
        columns = step.columns if isinstance(step, Project) else columns
    shown = [*(column.name for column in start), TIME, WEIGHT]

    def run(table: pa.Table) -> pa.Table:
        table = table.select(shown)
        for one in made:
            table = one(table)
        return table

    return run


def filtering(step: Filter, types: Mapping[str, str], engine: str | None) -> Callable[[pa.Table], pa.Table] | None:
    """A function that keeps the rows a filter keeps; None where that is for the engine."""
    test = compiled(step.predicate, types, "BOOLEAN", engine)
    return None if test is None else lambda table: table.filter(test(table))


def projecting(
    step: Node, types: Mapping[str, str], engine: str | None, kept: Sequence[str] = ()
) -> Callable[[pa.Table], pa.Table] | None:
    """A function that computes a projection, with the columns `kept` beside; None where that is for the engine."""
    if not isinstance(step, Project):
        return None
    items: list[Callable[[pa.Table], Any]] = []
    for column, item in zip(step.columns, step.items, strict=True):
        evaluate = _passed(item, column.type, types) or compiled(item, types, column.type, engine)
        if evaluate is None:
            return None
        items.append(evaluate)
    names = [*step.names, *kept]

    def run(table: pa.Table) -> pa.Table:
        arrays = [*(item(table) for item in items), *(table.column(name) for name in kept)]
        return pa.Table.from_arrays(arrays, names=names)

    return run


def _passed(item: Any, kind: str, types: Mapping[str, str]) -> Callable[[pa.Table], pa.ChunkedArray] | None:
    """A column that is only passed on stays as it is, whatever its type."""
    name = item.name
    return (lambda table: table.column(name)) if item.key == "column" and types.get(name) == kind else None


# --- Terms ------------------------------------------------------------------------------------------------------------


def _run_of(term: Term) -> _Run:
    if term.operation == "column":
        name, kind = term.value, term.type
        return lambda table: _column(table, name, kind)
    if term.operation == "value":
        scalar = pa.scalar(term.value, term.type)
        return lambda _table: scalar
    evaluate = _OPERATIONS[term.operation]
    runs = [_run_of(operand) for operand in term.operands]
    return lambda table: evaluate(term, *(run(table) for run in runs))


def _column(table: pa.Table, name: str, kind: pa.DataType) -> Any:
    column = table.column(name)
    column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    # Engines and files also spell types otherwise: large strings, dictionaries.
    return _as(column, kind)


def _cast(term: Term, operand: Any) -> Any:
    return _as(operand, term.type)


def _as(operand: Any, kind: pa.DataType) -> Any:
    """The same values in another type (decimals rounded), or an error of Arrow's where one does not fit."""
    if operand.type == kind:
        return operand
    if not pa.types.is_decimal(kind) or not (pa.types.is_decimal(operand.type) or operand.type in _ROOM):
        return operand.cast(kind)
    # Arrow wants room for every integer there could be, and multiplies decimals without a look at what overflows.
    digits = _whole_digits(operand.type)
    if pa.types.is_decimal(operand.type) and operand.type.scale > kind.scale:
        return _rounded(operand.cast(pa.decimal256(operand.type.precision + 1, operand.type.scale)), kind)
    if digits > kind.precision - kind.scale:
        operand = operand.cast(pa.decimal256(digits + kind.scale, kind.scale))
    return operand.cast(kind)


def _whole_digits(kind: pa.DataType) -> int:
    return kind.precision - kind.scale if pa.types.is_decimal(kind) else _ROOM[kind]


def _arithmetic(term: Term, left: Any, right: Any) -> Any:
    compute = {"add": pc.add_checked, "subtract": pc.subtract_checked, "multiply": pc.multiply_checked}[term.operation]
    if pa.types.is_integer(term.type):
        return compute(left, right)
    if term.type.precision < 38:
        return compute(left, right).cast(term.type)
    # The product may have more digits than are there in the end; only the digits that are there must fit.
    wide = [side.cast(pa.decimal256(side.type.precision, side.type.scale)) for side in (left, right)]
    return compute(*wide).cast(term.type)


def _rounded(operand: Any, kind: pa.DataType, mode: str = "half_towards_infinity") -> Any:
    return pc.round(operand, kind.scale, round_mode=mode).cast(kind)


def _divide(term: Term, left: Any, right: Any) -> Any:
    """Arrow divides integers, and drops what remains: with one digit more than are wanted, that can still be rounded.

    Arrow itself chooses how many digits there are after the point, by the types: these are made to fit the values.
    """
    # Whether NULL can be divided by zero, not all engines agree.
    if _any(pc.equal(right, pa.scalar(0, right.type))):
        raise NotHere("a division by zero")
    scale, other_scale = left.type.scale, right.type.scale
    most, other_most = _largest(left), _largest(right)
    digits, other_digits = (
        max(len(str(largest)), side.type.scale) for largest, side in ((most, left), (other_most, right))
    )
    if term.value == "towards_zero":
        # Sail has no more than 128 bits for the dividend.
        unsure = most * 10 ** (term.type.scale - scale + other_scale) >= 1 << 127
    else:
        # Some releases of Spark round twice, to 38 digits first. With a small divisor, no quotient is so near a half
        # that this shows.
        unsure = other_most * 10 ** max(0, scale - other_scale - term.type.scale) >= 10 ** (_MOST - term.type.scale)
    wanted = max(scale, term.type.scale + other_scale - other_digits)
    precision = digits - scale + wanted
    if unsure or precision + other_digits >= _MOST_BETWEEN:
        raise NotHere("a division of too many digits")
    wide = left.cast(pa.decimal256(precision, wanted)), right.cast(pa.decimal256(other_digits, other_scale))
    return _rounded(pc.divide_checked(*wide), term.type, term.value)


def _largest(operand: Any) -> int:
    """The largest of the values without their signs and points."""
    ends = [operand] if isinstance(operand, pa.Scalar) else pc.min_max(operand).values()
    values = [end.as_py() for end in ends]
    return max((abs(int(value.scaleb(operand.type.scale, _EXACT))) for value in values if value is not None), default=0)


def _compare(term: Term, left: Any, right: Any) -> Any:
    return pc.call_function(term.operation, [left, right])


def _same(_term: Term, left: Any, right: Any) -> Any:
    """Equal, or both NULL; never NULL itself."""
    return pc.or_(pc.and_(pc.is_null(left), pc.is_null(right)), pc.coalesce(pc.equal(left, right), False))


def _in(term: Term, operand: Any) -> Any:
    values = [value for value in term.value if value is not None]
    found = pc.is_in(operand, value_set=pa.array(values, operand.type))
    # NULL is unknown in every list, and so is a value that may be the NULL in the list.
    unknown = pc.is_null(operand)
    if len(values) < len(term.value):
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _if(_term: Term, test: Any, value: Any, other: Any) -> Any:
    return pc.if_else(pc.coalesce(test, False), value, other)


def _part_of_date(term: Term, operand: Any) -> Any:
    _check_days(operand)
    return pc.call_function(term.operation, [operand]).cast(term.type)


def _add_days(term: Term, operand: Any, days: Any) -> Any:
    found = pc.add_checked(operand.cast(pa.int32()), days).cast(term.type)
    _check_days(found)
    return found


def _add_micros(term: Term, operand: Any) -> Any:
    return pc.add_checked(operand.cast(pa.int64()), term.value).cast(term.type)


def _check_days(operand: Any) -> None:
    """Calendars end somewhere, and not everywhere on the same day."""
    days = operand.cast(pa.int32())
    outside = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    if _any(outside):
        raise NotHere("a date outside the years 1 to 9999")


def _any(test: Any) -> bool:
    return bool((test if isinstance(test, pa.Scalar) else pc.any(test)).as_py())


_OPERATIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _compare),
    "same": _same,
    "not_same": lambda term, left, right: pc.invert(_same(term, left, right)),
    "and": lambda _term, left, right: pc.and_kleene(left, right),
    "or": lambda _term, left, right: pc.or_kleene(left, right),
    "not": lambda _term, operand: pc.invert(operand),
    "is_null": lambda _term, operand: pc.is_null(operand),
    "in": _in,
    "like": lambda term, operand: pc.match_like(operand, term.value),
    "cast": _cast,
    **dict.fromkeys(("add", "subtract", "multiply"), _arithmetic),
    "divide": _divide,
    "negate": lambda _term, operand: pc.negate_checked(operand),
    "if": _if,
    "null_if": lambda term, test, value: _if(term, test, pa.scalar(None, term.type), value),
    "coalesce": lambda _term, *operands: pc.coalesce(*operands),
    "substring": lambda term, operand: pc.utf8_slice_codeunits(operand, start=term.value[0], stop=term.value[1]),
    **dict.fromkeys(("year", "month", "day"), _part_of_date),
    "add_days": _add_days,
    "add_micros": _add_micros,
}
