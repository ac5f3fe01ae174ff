"""Rows at a steady rate, for load: row k of a source comes k/n seconds after its start.

Every value follows from k alone, so a restart goes on with exactly the rows that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.language.types import arrow_type
from headrace.storage.records import Field
from headrace.storage.writer import MICROS


def rows_due(start: int, done: int, now: int, per_second: float) -> int:
    """How many further rows should have come by `now`."""
    return max(0, int((now - start) * per_second / MICROS) - done)


def make_rows(
    columns: Sequence[Field], start: int, first: int, count: int, per_second: float
) -> tuple[pa.Table, pa.Array]:
    """Rows `first` to `first + count`, and their times of arrival."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    times = start + (numbers * MICROS / per_second).astype(np.int64)
    made = [_values(field, position, numbers, times) for position, field in enumerate(columns)]
    return pa.table(made, names=[field.name for field in columns]), pa.array(times)


def _values(field: Field, position: int, numbers: np.ndarray, times: np.ndarray) -> pa.Array:
    wanted = arrow_type(field.type)
    if pa.types.is_timestamp(wanted):
        return pa.array(times).cast(pa.timestamp("us")).cast(wanted)
    if pa.types.is_date(wanted):
        return pa.array(times).cast(pa.timestamp("us")).cast(wanted, safe=False)
    # The first column counts; the others look random but are fixed by the row's number and the column's place.
    mixed = numbers if position == 0 else _mixed(numbers, position)
    if pa.types.is_integer(wanted):
        limit = min(1 << (wanted.bit_width - 1), 1 << 62)
        return pa.array(mixed % limit).cast(wanted)
    if pa.types.is_floating(wanted):
        return pa.array((mixed % 1_000_000) / 1_000_000).cast(wanted)
    if pa.types.is_boolean(wanted):
        return pa.array(mixed % 2 == 0)
    if pa.types.is_decimal(wanted):
        digits = 10 ** min(wanted.precision - wanted.scale, 4)
        return pa.array(mixed % digits).cast(wanted)
    if pa.types.is_string(wanted):
        return pa.array([f"{field.name}-{value % 1000}" for value in mixed])
    return pa.nulls(len(numbers), wanted)


def _mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Splitmix64: a number to a number that looks random."""
    with np.errstate(over="ignore"):
        value = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((value ^ (value >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)
