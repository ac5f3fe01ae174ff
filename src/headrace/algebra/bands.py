"""Conditions that hold two columns within constant distances of each other: ``low <= a - b <= high``.

Every comparison is taken apart into ``a - b`` and a constant, counted in whole units of the type: numbers by the
smaller of the two scales, days, or microseconds. So strict bounds become the next unit, and all of it is exact. FLOAT
and DOUBLE have no such unit: what is added to them is rounded, and a pair at the edge could be lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from headrace.algebra.expressions import conjuncts, unparen
from headrace.language import format_duration

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_TIMES = ("timestamp", "timestamp_ntz")
#: Whatever has no more digits can be counted in a BIGINT.
_MOST_DIGITS = 18
#: Bounds further away leave no room to count in a BIGINT.
_FAR = 1 << 61

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_LENGTHS = {
    "microsecond": 1, "millisecond": 1_000, "second": _SECOND, "minute": 60 * _SECOND, "hour": 3_600 * _SECOND,
    "day": _DAY, "week": 7 * _DAY,
}  # fmt: skip

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """What distances of two columns are counted in; `scale` is that of the numbers."""

    kind: Literal["number", "day", "time"]
    scale: int = 0

    def words(self, count: int) -> str:
        """So many of them, as a user would say it."""
        if self.kind == "time":
            return format_duration(count).lower()
        if self.kind == "day":
            return "1 day" if count == 1 else f"{count} days"
        whole, rest = divmod(count, 10**self.scale)
        return f"{whole}.{rest:0{self.scale}}".rstrip("0") if rest else str(whole)


@dataclass(frozen=True)
class Band:
    """``low <= left - right <= high``, in units; nothing is in it where `low` is greater."""

    left: str
    right: str
    low: int
    high: int
    unit: Unit


@dataclass(frozen=True)
class _Sum:
    """Columns with their factors, a plain number, and a length of time in microseconds."""

    factors: Mapping[str, int]
    number: Fraction = Fraction(0)
    micros: Fraction = Fraction(0)

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        names = {**self.factors, **other.factors}
        factors = {name: self.factors.get(name, 0) + sign * other.factors.get(name, 0) for name in names}
        kept = {name: factor for name, factor in factors.items() if factor}
        return _Sum(kept, self.number + sign * other.number, self.micros + sign * other.micros)

    def times(self, factor: Fraction) -> _Sum:
        return _Sum({}, self.number * factor, self.micros * factor)


def band_of(condition: exp.Expr | None, left: Mapping[str, str], right: Mapping[str, str]) -> Band | None:
    """The first pair of a left and a right column that `condition` bounds on both sides; the types are given by name.

    The condition may say more: a band is what a pair must be in, not all that it must be.
    """
    types = {name: kind.lower() for name, kind in (*left.items(), *right.items())}
    bounds: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for part in conjuncts(condition):
        for one, comparison, other in _comparisons(part):
            found = _bound(one, comparison, other, types, left)
            if found is None:
                continue
            pair, low, high = found
            lows, highs = bounds.setdefault(pair, ([], []))
            lows += [] if low is None else [low]
            highs += [] if high is None else [high]
    for (mine, theirs), (lows, highs) in bounds.items():
        unit = _unit(types[mine], types[theirs])
        if unit is not None and lows and highs and max(map(abs, (*lows, *highs))) < _FAR:
            return Band(mine, theirs, max(lows), min(highs), unit)
    return None


def _comparisons(part: exp.Expr) -> Iterator[tuple[exp.Expr, type[exp.Expr], exp.Expr]]:
    """The comparisons that a condition is made of; none where it is something else."""
    part = unparen(part)
    if isinstance(part, exp.Between):
        if not part.args.get("symmetric"):
            yield part.this, exp.GTE, part.args["low"]
            yield part.this, exp.LTE, part.args["high"]
    elif type(part) in _FLIPPED:
        one, comparison, other = unparen(part.this), type(part), unparen(part.expression)
        if isinstance(other, exp.Abs):
            one, comparison, other = other, _FLIPPED[comparison], one
        if not isinstance(one, exp.Abs):
            yield one, comparison, other
        elif comparison in (exp.LT, exp.LTE):
            yield one.this, comparison, other
            yield one.this, _FLIPPED[comparison], exp.Neg(this=exp.Paren(this=other.copy()))


def _bound(
    one: exp.Expr, comparison: type[exp.Expr], other: exp.Expr, types: Mapping[str, str], left: Mapping[str, str]
) -> tuple[tuple[str, str], int | None, int | None] | None:
    """What a comparison says of a left column less a right one: the pair, the least and the greatest distance."""
    first, second = _sum(one, types), _sum(other, types)
    if first is None or second is None:
        return None
    whole = first.plus(second, -1)
    if sorted(whole.factors.values()) != [-1, 1]:
        return None
    plus, minus = sorted(whole.factors, key=lambda name: -whole.factors[name])
    if (plus in left) == (minus in left):
        return None
    unit = _unit(types[plus], types[minus])
    constant = None if unit is None else _counted(whole, unit, types)
    if constant is None:
        return None
    distance, pair = -constant, (plus, minus)
    if minus in left:
        distance, comparison, pair = constant, _FLIPPED[comparison], (minus, plus)
    low = high = None
    if comparison in (exp.GTE, exp.EQ):
        low = math.ceil(distance)
    if comparison is exp.GT:
        low = math.floor(distance) + 1
    if comparison in (exp.LTE, exp.EQ):
        high = math.floor(distance)
    if comparison is exp.LT:
        high = math.ceil(distance) - 1
    return pair, low, high


def _unit(one: str, other: str) -> Unit | None:
    """What the distance of columns of two types is counted in; None where a BIGINT cannot count both."""
    if one == other == "date":
        return Unit("day")
    if one == other and one in _TIMES:
        return Unit("time")
    sizes = [_size(one), _size(other)]
    scale = max((size[1] for size in sizes if size is not None), default=0)
    for kind, size in zip((one, other), sizes, strict=True):
        if size is None or (size[0] - size[1] + scale > _MOST_DIGITS and not (kind == "bigint" and scale == 0)):
            return None
    return Unit("number", scale)


def _size(kind: str) -> tuple[int, int] | None:
    """Digits and scale of an exact number."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return None if found is None else (int(found[1]), int(found[2]))


def _counted(whole: _Sum, unit: Unit, types: Mapping[str, str]) -> Fraction | None:
    """The constant of a sum in units; None where it has no business there."""
    if unit.kind == "time":
        return whole.micros if whole.number == 0 and whole.micros.denominator == 1 else None
    if unit.kind == "day":
        days = whole.number + whole.micros / _DAY
        # Hours beside a date make it a time, which not every engine does in the same way.
        return days if days.denominator == 1 else None
    # A BIGINT beside a fraction may be computed as a DOUBLE.
    longs = any(types[name] == "bigint" for name in whole.factors)
    return None if whole.micros or (longs and whole.number.denominator > 1) else whole.number * 10**unit.scale


def _sum(node: exp.Expr, types: Mapping[str, str]) -> _Sum | None:
    """A sum of columns and constants; None for anything else."""
    match node:
        case exp.Paren():
            return _sum(node.this, types)
        case exp.Column():
            return _Sum({node.name: 1}) if node.name in types else None
        case exp.Neg():
            below = _sum(node.this, types)
            return None if below is None else _Sum({}).plus(below, -1)
        case exp.Add() | exp.Sub():
            return _added(_sum(node.this, types), _sum(node.expression, types), 1 if isinstance(node, exp.Add) else -1)
        case exp.Mul():
            return _multiplied(_sum(node.this, types), _sum(node.expression, types))
        case exp.Literal() | exp.Cast():
            value = _number(node)
            return None if value is None else _Sum({}, value)
        case exp.Interval():
            return _length(node)
        case exp.TsOrDsAdd() | exp.TimestampAdd():
            return _moved(node, types)
        case exp.DateDiff() if _unit_name(node) in ("", "day"):
            one, other = _sum(_date(node.this), types), _sum(_date(node.expression), types)
            # Of times, the days between their dates are counted: that is no difference of the times.
            return _added(one, other, -1) if _of_dates(one, types) and _of_dates(other, types) else None
    return None


def _added(one: _Sum | None, other: _Sum | None, sign: int) -> _Sum | None:
    return None if one is None or other is None else one.plus(other, sign)


def _multiplied(one: _Sum | None, other: _Sum | None) -> _Sum | None:
    """A constant times a number, in either order."""
    if one is None or other is None or one.factors or other.factors or (one.micros and other.micros):
        return None
    return one.times(other.number) if one.micros else other.times(one.number)


def _number(node: exp.Expr) -> Fraction | None:
    """An exact number; one with an exponent is a DOUBLE."""
    if isinstance(node, exp.Cast):  # 5L and 1.5BD come as casts too
        inner = node.this
        value = _digits(inner.name) if isinstance(inner, exp.Literal) else None
        size = _size(node.to.sql(dialect="spark").lower().replace(", ", ","))
        return value if value is not None and size is not None and (value * 10 ** size[1]).denominator == 1 else None
    return None if node.is_string else _digits(node.name)


def _digits(text: str) -> Fraction | None:
    fits = re.fullmatch(r"-?\d*\.?\d+", text) is not None and len(text) <= _MOST_DIGITS
    return Fraction(text) if fits else None


def _length(node: exp.Interval) -> _Sum | None:
    size = _LENGTHS.get(_unit_name(node))
    count = _digits(node.this.name) if isinstance(node.this, exp.Literal) else None
    return None if size is None or count is None else _Sum({}, micros=count * size)


def _moved(node: exp.TsOrDsAdd | exp.TimestampAdd, types: Mapping[str, str]) -> _Sum | None:
    """date_add, date_sub and timestampadd of a constant."""
    base, by, size = _sum(_date(node.this), types), _sum(node.expression, types), _LENGTHS.get(_unit_name(node))
    if base is None or by is None or size is None or by.factors or by.micros:
        return None
    if isinstance(node, exp.TsOrDsAdd) and not _of_dates(base, types):
        return None  # a time would be cut to its date
    return base.plus(_Sum({}, micros=by.number * size))


def _of_dates(found: _Sum | None, types: Mapping[str, str]) -> bool:
    return found is not None and bool(found.factors) and all(types[name] == "date" for name in found.factors)


def _date(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.TsOrDsToDate) else node


def _unit_name(node: exp.Expr) -> str:
    unit = node.args.get("unit")
    return unit.name.lower().removesuffix("s") if isinstance(unit, exp.Var) else ""
