"""Whole columns from text: what the fast path does after Arrow's reader, and the checks that make it decline.

Everything here either gives what `values` gives for each value, or raises `pa.ArrowInvalid`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.sources.spellings import BLANKS, DATE, FIRST_DAY, FIRST_MICRO, LAST_MICRO, NONFINITE, SECONDS, TIMESTAMP


def any_true(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())


def all_true(mask: Any) -> bool:
    return bool(pc.all(mask).as_py())


def joined(lines: pa.Array) -> pa.Buffer:
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(whole, b"\n")[0].as_buffer()


def as_table(columns: list[Any], schema: pa.Schema, rows: int) -> pa.Table | None:
    """The table, unless rows are missing or a column breaks its own type or NOT NULL."""
    if any(len(values) != rows for values in columns):
        return None
    if any(values.null_count and not column.nullable for values, column in zip(columns, schema, strict=True)):
        return None
    table = pa.Table.from_arrays(columns, schema=schema)
    table.validate(full=True)  # Arrow's readers let a decimal exceed its precision
    return table


def finish(values: Any, kind: pa.DataType) -> Any:
    """Values as Arrow read them to values of the column's type; raises where the slow path must decide."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind):
        return _micros(values).cast(kind)
    if pa.types.is_date(kind):
        return _days(values)
    if pa.types.is_binary(kind):
        return values.cast(kind)
    text = pc.ascii_trim(values, BLANKS)
    if pa.types.is_decimal(kind):
        # Arrow wraps around where a decimal is too wide (9.5e30 as DECIMAL(38,10)), so width is checked in the text.
        _require(text, rf"[+-]?[0-9]{{0,{kind.precision - kind.scale}}}(?:\.[0-9]{{0,{kind.scale}}})?")
        return text.cast(kind)
    if pa.types.is_integer(kind):
        _require(text, r"-?[0-9]+")
        return text.cast(kind)
    numbers = text.cast(kind)
    named = pc.match_substring_regex(text, f"^{NONFINITE}$")
    if not all_true(pc.or_(named, pc.is_finite(numbers))):
        raise pa.ArrowInvalid("not a number, or too large for its type")
    return numbers


def _require(text: Any, pattern: str) -> None:
    if not all_true(pc.match_substring_regex(text, f"^(?:{pattern})$")):
        raise pa.ArrowInvalid(f"not all of {pattern}")


def _days(values: Any) -> Any:
    text = pc.ascii_trim(values, BLANKS)
    _require(text, DATE)
    days = pc.replace_substring(text, "/", "-").cast(pa.date32())
    if any_true(pc.less(days.cast(pa.int32()), FIRST_DAY)):
        raise pa.ArrowInvalid("before 0001-01-01")
    return days


def _micros(values: Any) -> Any:
    """Microseconds since the epoch, from text or from seconds."""
    if pa.types.is_decimal(values.type):
        values.validate(full=True)
        micros = _micros_of_seconds(values)
    else:
        text = pc.ascii_trim(values, BLANKS)
        if all_true(pc.match_substring_regex(text, f"^(?:{SECONDS})$")):
            micros = _micros_of_seconds(text.cast(pa.decimal128(30, 6)))
        else:
            _require(text, TIMESTAMP)
            micros = _micros_of_text(text)
    if any_true(pc.or_(pc.less(micros, FIRST_MICRO), pc.greater(micros, LAST_MICRO))):
        raise pa.ArrowInvalid("outside years 1 to 9999")
    return micros


def _micros_of_seconds(seconds: Any) -> Any:
    return pc.multiply(seconds, pa.scalar(Decimal(1_000_000), pa.decimal128(7, 0))).cast(pa.int64())


def _micros_of_text(text: Any) -> Any:
    text = pc.replace_substring(text, "/", "-")
    text = pc.if_else(pc.greater(pc.binary_length(text), 10), text, pc.binary_join_element_wise(text, "00:00", " "))
    if any_true(pc.match_substring_regex(text, r"\.[0-9]{7}")):
        text = pc.replace_substring_regex(text, r"(\.[0-9]{6})[0-9]+", r"\1")
    zoned = pc.match_substring_regex(text, r":[0-9.]+ ?[Z+-]")
    if not any_true(zoned):
        return text.cast(pa.timestamp("us")).cast(pa.int64())
    text = pc.replace_substring_regex(text, r"(:[0-9.]+) ([Z+-])", r"\1\2")
    text = pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", ""))
    return text.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
