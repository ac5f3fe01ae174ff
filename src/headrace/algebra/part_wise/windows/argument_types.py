"""Types of the arguments of aggregates, as far as they can be told exactly, and those of sums over them.

A column's type is declared, and a cast tells its own. For anything else the source's `describe` is asked; where there
is none, plain arithmetic of integers is known here and the rest is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.expressions import text, unparen
from headrace.algebra.part_wise.windows.window_query import WindowSource
from headrace.errors import HeadraceError
from headrace.language import normalise_type, quote_name

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTIONS = ("FLOAT", "DOUBLE")
_MOST_DIGITS = 38


def type_of(expression: exp.Expr, source: WindowSource) -> str | None:
    """The type of an expression over the source's columns, in its normal spelling; None where it cannot be told."""
    told = _plain_type(unparen(expression), source)
    if told is None and source.describe is not None:
        given = ", ".join(f"CAST(NULL AS {type_}) AS {quote_name(name)}" for name, type_ in source.columns)
        try:
            (told,) = source.describe(f"SELECT {text(expression)} AS c FROM (SELECT {given})")
        except HeadraceError:
            return None
    return None if told is None else _normal(told)


def _normal(told: str) -> str | None:
    try:
        return normalise_type(told)
    except HeadraceError:  # a type that no column of ours can have, such as an interval of months
        return None


def _plain_type(item: exp.Expr, source: WindowSource) -> str | None:
    match item:
        case exp.Column() if not item.table:
            return next((type_ for name, type_ in source.columns if name.lower() == item.name.lower()), None)
        case exp.Cast():
            return item.to.sql(dialect="spark")
        case exp.Literal() if item.is_int and len(item.name) < 10:
            return "INT"
        case exp.Neg():
            return type_of(item.this, source)
        case exp.Add() | exp.Sub() | exp.Mul():
            sides = [type_of(side, source) for side in (item.this, item.expression)]
            known = [side for side in sides if side in INTEGERS]
            return max(known, key=INTEGERS.index) if len(known) == len(sides) else None
    return None


@dataclass(frozen=True)
class Digits:
    """The precision and scale of a DECIMAL."""

    precision: int
    scale: int


def decimal_digits(type_: str | None) -> Digits | None:
    """What stands in the brackets of a DECIMAL type; None for other types."""
    found = re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", type_ or "")
    return None if found is None else Digits(int(found[1]), int(found[2]))


def sum_type(type_: str) -> str | None:
    """The type of Spark's own SUM over the type; None where it has none that is known here."""
    if type_ in INTEGERS:
        return "BIGINT"
    digits = decimal_digits(type_)
    if digits is not None:
        return f"DECIMAL({min(_MOST_DIGITS, digits.precision + 10)},{digits.scale})"
    return "DOUBLE" if type_ in FRACTIONS else None
