"""Aggregates of weighted rows, against lists."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.maintenance.kernels.grouping import aggregate
from tests.kernels import tools

NUMBERS = [pool for pool in tools.FLAT if pa.types.is_integer(pool[0]) or pa.types.is_decimal(pool[0])]


def groups(table: pa.Table, keys: list[str]) -> dict[Any, list[tuple[Any, int]]]:
    found: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
    columns = table.column("v0").to_pylist(), table.column("__w").to_pylist()
    for key, value, weight in zip(tools.rows(table, keys), *columns, strict=True):
        found[key].append((value, weight))
    return found


def drawn(data: st.DataObject, pools: list[Any], weights: tuple[int, int]) -> tuple[pa.Table, list[str]]:
    kinds = data.draw(st.lists(st.sampled_from(tools.POOLS), max_size=2))
    values = data.draw(tools.tables([data.draw(st.sampled_from(pools))], prefix="v", weights=weights))
    keys = []
    for number, (kind, pool) in enumerate(kinds):
        value = st.one_of(st.none(), st.sampled_from(pool)) if pool else st.none()
        listed = data.draw(st.lists(value, min_size=values.num_rows, max_size=values.num_rows))
        values = values.append_column(f"k{number}", tools.column(kind, listed))
        keys.append(f"k{number}")
    return values, keys


@tools.patient
@given(st.data())
def test_counts_and_sums(data: st.DataObject) -> None:
    table, keys = drawn(data, NUMBERS, (-2, 3))
    kind = table.schema.field("v0").type
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    expected = {}
    for key, listed in groups(table, keys).items():
        some = [(tools.unscaled(Decimal(value), scale), weight) for value, weight in listed if value is not None]
        total = sum(value * weight for value, weight in some) if some else None
        expected[key] = (sum(weight for _value, weight in listed), sum(weight for _value, weight in some), total)
    least, most = (1 - 10**38, 10**38 - 1) if scale else (-(2**63), 2**63 - 1)
    calls = [("n", "count_rows", None), ("c", "count", "v0"), ("s", "sum", "v0")]
    if any(total is not None and not least <= total <= most for *_, total in expected.values()):
        with pytest.raises(ArithmeticError):
            aggregate(table, keys, calls)
        return
    found = aggregate(table, keys, calls)
    assert found.schema.field("s").type == (pa.decimal128(38, scale) if scale else pa.int64())
    sums = [None if value is None else tools.unscaled(Decimal(value), scale) for value in found.column("s").to_pylist()]
    columns = zip(found.column("n").to_pylist(), found.column("c").to_pylist(), sums, strict=True)
    assert dict(zip(tools.rows(found, keys), columns, strict=True)) == expected


def in_order(value: Any) -> Any:
    """A key in Spark's order."""
    if isinstance(value, float):
        return (1, 0.0) if tools.plain(value) == "NaN" else (0, value)
    return value.encode() if isinstance(value, str) else value


@tools.patient
@given(st.data())
def test_least_and_greatest(data: st.DataObject) -> None:
    table, keys = drawn(data, tools.FLAT, (1, 3))
    found = aggregate(table, keys, [("least", "min", "v0"), ("greatest", "max", "v0")])
    expected = {}
    for key, listed in groups(table, keys).items():
        some = sorted((value for value, _weight in listed if value is not None), key=in_order)
        expected[key] = (tools.plain(some[0]), tools.plain(some[-1])) if some else (None, None)
    columns = tools.rows(found, ["least", "greatest"])
    assert dict(zip(tools.rows(found, keys), columns, strict=True)) == expected
    kind = table.schema.field("v0").type
    assert found.schema.field("least").type == kind


@tools.patient
@given(st.data())
def test_booleans(data: st.DataObject) -> None:
    table, keys = drawn(data, [(pa.bool_(), [True, False])], (1, 2))
    found = aggregate(table, keys, [("every", "bool_and", "v0"), ("any", "bool_or", "v0")])
    expected = {}
    for key, listed in groups(table, keys).items():
        some = [value for value, _weight in listed if value is not None]
        expected[key] = (all(some), any(some)) if some else (None, None)
    columns = zip(found.column("every").to_pylist(), found.column("any").to_pylist(), strict=True)
    assert dict(zip(tools.rows(found, keys), columns, strict=True)) == expected


def test_sums_at_the_edges() -> None:
    huge = pa.table({"v": [2**62, 2**62, -(2**62)], "__w": [1, 1, 1]})
    assert aggregate(huge, [], [("s", "sum", "v")]).to_pylist() == [{"s": 2**62}]
    heavy = pa.table({"v": [3, 1], "__w": [2**61, -(2**62)]})
    assert aggregate(heavy, [], [("s", "sum", "v")]).to_pylist() == [{"s": 3 * 2**61 - 2**62}]
    kind = pa.decimal128(38, 2)
    cents = pa.table({"v": pa.array([Decimal("0.01"), Decimal("-0.03")], kind), "__w": [2**62, 2**61]})
    assert aggregate(cents, [], [("s", "sum", "v")]).to_pylist() == [{"s": Decimal(2**62 - 3 * 2**61) / 100}]
    with pytest.raises(ArithmeticError):
        aggregate(pa.table({"v": [2**62], "__w": [2]}), [], [("s", "sum", "v")])
    with pytest.raises(TypeError):
        aggregate(pa.table({"v": [1.5], "__w": [2]}), [], [("s", "sum", "v")])
    assert aggregate(huge.slice(0, 0), [], [("s", "sum", "v")]).num_rows == 0
