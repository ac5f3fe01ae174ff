"""The types that Spark gives to sums and averages, told from the type of what is added up."""

from __future__ import annotations

import re

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_MOST = 38


def digits(type_: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type."""
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]), int(found[2])) if found else None


def decimal(precision: int, scale: int) -> str:
    """A decimal type, of no more digits than there can be."""
    return f"DECIMAL({min(precision, _MOST)},{min(scale, _MOST)})"


def sum_type(argument: str) -> str | None:
    """The type of SUM over a type; None if it has no sum."""
    return "BIGINT" if argument in _INTEGERS else total_type(argument)


def total_type(argument: str) -> str | None:
    """The type in which AVG adds up."""
    if (found := digits(argument)) is not None:
        return decimal(found[0] + 10, found[1])
    if argument.startswith("INTERVAL"):
        return argument
    return "DOUBLE" if argument in (*_INTEGERS, "FLOAT", "DOUBLE", "STRING") else None


def average(total: str, count: str, argument: str) -> str:
    """The text of the average of `count` values of a type that add up to `total`."""
    if (found := digits(argument)) is not None:
        # Spark divides by a DECIMAL(20,0), which decides how many digits there are before they are rounded.
        return f"CAST({total} / CAST(NULLIF({count}, 0) AS DECIMAL(20,0)) AS {decimal(found[0] + 4, found[1] + 4)})"
    return f"{total} / NULLIF({count}, 0)"


def added(before: str, value: str, argument: str, result: str) -> str:
    """The text of a running sum of type `result` and one more value."""
    of_result, of_value = digits(result), digits(argument)
    if of_result is None:
        return f"{before} + {value}"
    if of_result[0] == _MOST and of_value is not None:
        # Two numbers of 38 digits add up to 39, and Spark would drop a digit behind the point to make room.
        before = f"CAST({before} AS {decimal(_MOST - 1, of_result[1])})"
        value = f"CAST({value} AS {decimal(min(of_value[0], _MOST - 1), of_result[1])})"
    return f"CAST({before} + {value} AS {result})"
