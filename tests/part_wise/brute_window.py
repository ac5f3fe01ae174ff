"""Window aggregates by brute force: rows in Python, every window looked at from scratch.

`AGGREGATES` has each aggregate twice, as SQL and as a function of the rows of one group.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

LENGTH = 60
COLUMNS = (
    ("g", "STRING"),
    ("h", "INT"),
    ("a", "INT"),
    ("b", "BIGINT"),
    ("d", "DECIMAL(8,2)"),
    ("f", "DOUBLE"),
    ("flag", "BOOLEAN"),
)


@dataclass(frozen=True)
class Row:
    """A row of the source and the part it lies in."""

    part: int
    g: str | None
    h: int
    a: int | None
    b: int | None
    d: Decimal | None
    f: float | None
    flag: bool | None

    def values(self) -> tuple[Any, ...]:
        return (self.g, self.h, self.a, self.b, self.d, self.f, self.flag)


Rows = Sequence[Row]


def _present(rows: Rows, column: str) -> list[Any]:
    return [value for row in rows if (value := getattr(row, column)) is not None]


def _sum(values: Sequence[Any]) -> Any:
    return sum(values[1:], values[0]) if values else None


def _mean(values: Sequence[Any]) -> float | None:
    return float(Fraction(sum(map(Fraction, values))) / len(values)) if values else None


def _decimal_mean(values: Sequence[Decimal]) -> Decimal | None:
    if not values:
        return None
    return (sum(values, Decimal()) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def _variance(values: Sequence[Any], less: int) -> float | None:
    if len(values) <= less:
        return None
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction()) / len(exact)
    return float(sum(((value - mean) ** 2 for value in exact), Fraction()) / (len(exact) - less))


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def percentile(values: Sequence[Any], fraction: float) -> float | None:
    """Linear between the two nearest values, as Spark's exact percentile."""
    if not values:
        return None
    ordered = sorted(map(float, values))
    place = fraction * (len(ordered) - 1)
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _folded(values: Sequence[int], fold: Callable[[int, int], int]) -> int | None:
    if not values:
        return None
    found = values[0]
    for value in values[1:]:
        found = fold(found, value)
    return found


#: Aggregates that can be subtracted, in all forms.
EXACT: dict[str, Callable[[Rows], Any]] = {
    "count(*)": len,
    "count(a)": lambda rows: len(_present(rows, "a")),
    "count(a, b)": lambda rows: sum(row.a is not None and row.b is not None for row in rows),
    "count_if(a > 2)": lambda rows: sum(value > 2 for value in _present(rows, "a")),
    "count(*) FILTER (WHERE flag)": lambda rows: sum(row.flag is True for row in rows),
    "sum(a)": lambda rows: _sum(_present(rows, "a")),
    "sum(b)": lambda rows: _sum(_present(rows, "b")),
    "sum(d)": lambda rows: _sum(_present(rows, "d")),
    "sum(a) FILTER (WHERE flag)": lambda rows: _sum(_present([row for row in rows if row.flag], "a")),
    "avg(a)": lambda rows: _mean(_present(rows, "a")),
    "avg(b)": lambda rows: _mean(_present(rows, "b")),
    "avg(d)": lambda rows: _decimal_mean(_present(rows, "d")),
    "var_pop(a)": lambda rows: _variance(_present(rows, "a"), 0),
    "variance(d)": lambda rows: _variance(_present(rows, "d"), 1),
    "stddev_pop(d)": lambda rows: _root(_variance(_present(rows, "d"), 0)),
    "stddev(a)": lambda rows: _root(_variance(_present(rows, "a"), 1)),
    "count(*) + sum(a) * 2": lambda rows: _plus(len(rows), _sum(_present(rows, "a"))),
}
#: Aggregates that need each value with its number.
VALUES: dict[str, Callable[[Rows], Any]] = {
    "count(DISTINCT a)": lambda rows: len(set(_present(rows, "a"))),
    "count(DISTINCT a) FILTER (WHERE flag)": lambda rows: len(set(_present([row for row in rows if row.flag], "a"))),
    "count(DISTINCT a, h)": lambda rows: len({(row.a, row.h) for row in rows if row.a is not None}),
    "sum(DISTINCT a)": lambda rows: _sum(sorted(set(_present(rows, "a")))),
    "median(a)": lambda rows: percentile(_present(rows, "a"), 0.5),
    "percentile(f, 0.25)": lambda rows: percentile(_present(rows, "f"), 0.25),
    "percentile_cont(0.9) WITHIN GROUP (ORDER BY a)": lambda rows: percentile(_present(rows, "a"), 0.9),
}
#: Aggregates that merge but cannot be subtracted.
MERGED: dict[str, Callable[[Rows], Any]] = {
    "min(a)": lambda rows: min(_present(rows, "a"), default=None),
    "max(d)": lambda rows: max(_present(rows, "d"), default=None),
    "max(a) - min(a)": lambda rows: _minus(max(_present(rows, "a"), default=None), min(_present(rows, "a"), default=0)),
    "sum(f)": lambda rows: _sum(_present(rows, "f")),
    "avg(f)": lambda rows: _mean(_present(rows, "f")),
    "stddev_samp(f)": lambda rows: _root(_variance(_present(rows, "f"), 1)),
    "var_pop(b)": lambda rows: _variance(_present(rows, "b"), 0),
    "bool_and(flag)": lambda rows: all(_present(rows, "flag")) if _present(rows, "flag") else None,
    "some(flag)": lambda rows: any(_present(rows, "flag")) if _present(rows, "flag") else None,
    "any(flag)": lambda rows: any(_present(rows, "flag")) if _present(rows, "flag") else None,
    "bit_and(a)": lambda rows: _folded(_present(rows, "a"), int.__and__),
    "bit_or(a)": lambda rows: _folded(_present(rows, "a"), int.__or__),
    "bit_xor(a)": lambda rows: _folded(_present(rows, "a"), int.__xor__),
}
AGGREGATES = {**EXACT, **VALUES, **MERGED}


def _plus(count: int, total: int | None) -> int | None:
    return None if total is None else count + total * 2


def _minus(most: int | None, least: int) -> int | None:
    return None if most is None else most - least


def window_of(rows: Iterable[Row], part: int, window: int, slide: int) -> list[Row]:
    """The rows that a part of the view is about: those of the `window` seconds before the part's end."""
    end = (part + 1) * slide
    return [row for row in rows if end - window <= row.part * LENGTH < end]


def expected(
    rows: Iterable[Row],
    part: int,
    window: int,
    slide: int,
    key: Callable[[Row], tuple[Any, ...]],
    calls: Sequence[str],
    having: Callable[[Rows], bool] = lambda rows: True,
) -> list[tuple[Any, ...]]:
    """The view's rows in a part: keys, then the aggregates."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in window_of(rows, part, window, slide):
        groups.setdefault(key(row), []).append(row)
    return [
        (*found, *(AGGREGATES[call](members) for call in calls)) for found, members in groups.items() if having(members)
    ]


def random_rows(seed: int, first: int, parts: int) -> list[Row]:
    """Groups that are always there, that come and go, that are seldom; empty parts; NULLs; sums that come to 0."""
    draw = random.Random(seed)
    chances = {"steady": 0.9, "often": 0.5, None: 0.3, "seldom": 0.12, "rare": 0.06}
    found = []
    for part in range(first, first + parts):
        if draw.random() < 0.1:
            continue
        for group, chance in chances.items():
            while draw.random() < chance:
                chance *= 0.6
                found.append(_random_row(draw, part, group))
    return found


def _random_row(draw: random.Random, part: int, group: str | None) -> Row:
    def perhaps(value: Any) -> Any:
        return None if draw.random() < 0.25 else value

    return Row(
        part,
        group,
        draw.randrange(2),
        perhaps(draw.randrange(-4, 5)),
        perhaps(draw.choice((-1, 1)) * draw.randrange(10**6)),
        perhaps(Decimal(draw.randrange(-999, 999)) / 4),  # exact as a float too
        perhaps(draw.randrange(-40, 40) / 8),
        perhaps(draw.random() < 0.5),
    )


def alike(found: Iterable[tuple[Any, ...]], wanted: Iterable[tuple[Any, ...]]) -> bool:
    """Whether both are the same rows in any order, floats to within rounding."""
    # Keys stand first and are exact, so the order of rows does not hang on rounding.
    left, right = sorted(found, key=repr), sorted(wanted, key=repr)
    return len(left) == len(right) and all(map(_same_row, left, right))


def _same_row(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return len(left) == len(right) and all(map(_same, left, right))


def _same(found: Any, wanted: Any) -> bool:
    if found is None or wanted is None or isinstance(wanted, str) or not isinstance(found, float):
        return bool(found == wanted)
    # SQLite has no decimals: there they are floats that nobody rounds.
    return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-6 if isinstance(wanted, Decimal) else 1e-9)
