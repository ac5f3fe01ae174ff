"""Strategies for columns and values: few distinct ones, so that rows repeat, meet and follow one another."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

#: For each type, values with the edges of the type among them.
POOLS: dict[str, list[Any]] = {
    "INT": [0, 1, 2, -(2**31), 2**31 - 1],
    "BIGINT": [0, 1, -5, -(2**63), 2**63 - 1],
    "SMALLINT": [0, 7, -(2**15)],
    "STRING": ["", "a", "b", "A", "ä'\\n", "NULL", " "],
    "DOUBLE": [0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300],
    "DECIMAL(12,3)": [Decimal("0.000"), Decimal("1.500"), Decimal("-123456789.125")],
    "DATE": [date(1970, 1, 1), date(2024, 2, 29), date(1600, 1, 1)],
    "TIMESTAMP": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, 30, 0, 1, tzinfo=UTC)],
    "BOOLEAN": [True, False],
}


def values_of(kind: str) -> st.SearchStrategy[Any]:
    """A value of a type, or NULL."""
    return st.one_of(st.none(), st.sampled_from(POOLS[kind]))


def cuts(draw: st.DrawFn, length: int, most: int) -> list[int]:
    """Positions at which a sequence of `length` is cut; equal ones make an empty batch."""
    return sorted(draw(st.lists(st.integers(0, length), max_size=most)))
