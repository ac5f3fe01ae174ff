"""Which rows are the same, and bags that add up."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.storage.bags import codes, consolidate, firsts
from tests.kernels import tools


@tools.patient
@given(st.data())
def test_codes_are_dense_by_first_appearance(data: st.DataObject) -> None:
    table = data.draw(tools.tables(data.draw(tools.kinds(tools.POOLS)), weights=None))
    seen: dict[Any, int] = {}
    expected = [seen.setdefault(row, len(seen)) for row in tools.rows(table)]
    found = codes(table, table.column_names)
    assert found.tolist() == expected
    assert found.dtype == np.int64
    assert firsts(found).tolist() == [expected.index(number) for number in range(len(seen))]


@pytest.mark.parametrize(("kind", "pool"), tools.POOLS, ids=lambda value: str(value)[:20])
def test_codes_of_every_type(kind: pa.DataType, pool: list[Any]) -> None:
    array = tools.column(kind, [*pool, None, *pool, None])
    seen: dict[Any, int] = {}
    expected = [seen.setdefault(tools.plain(value), len(seen)) for value in array.to_pylist()]
    assert codes(pa.table({"a": array}), ["a"]).tolist() == expected
    # A slice begins in the middle of its buffers.
    sliced = pa.table({"a": array.slice(1)})
    assert len(set(codes(sliced, ["a"]).tolist())) == len(set(expected[1:]))
    assert codes(pa.table({"a": array.slice(0, 0)}), ["a"]).tolist() == []


def test_codes_of_columns_whose_combinations_are_many() -> None:
    random = np.random.default_rng(1)
    wide = {f"c{number}": random.integers(-(2**62), 2**62, 1000) for number in range(5)}
    text = pa.array([str(number % 10) for number in range(1000)])
    table = pa.table({**wide, "s": text})
    twice = pa.concat_tables([table, table])
    assert codes(twice, twice.column_names).tolist() == [*range(1000), *range(1000)]
    same = pa.table({"a": np.zeros(1000, np.int64), "s": text, "d": pa.array(range(1000)).cast(pa.decimal128(38, 0))})
    assert codes(same, ["a", "s"]).tolist() == [number % 10 for number in range(1000)]
    assert codes(same, ["a", "s", "d"]).tolist() == list(range(1000))


def test_codes_without_columns() -> None:
    assert codes(pa.table({"a": [1, 2]}), []).tolist() == [0, 0]


@tools.patient
@given(st.data())
def test_consolidate(data: st.DataObject) -> None:
    table = data.draw(tools.tables(data.draw(tools.kinds(tools.POOLS))))
    by_hash = data.draw(st.booleans())
    table = tools.with_hash(table, table.column_names[:1], collide=data.draw(st.booleans()))
    names = [name for name in table.column_names if name != "__w"]
    found = consolidate(table, sorted_by_hash=by_hash)
    assert found.schema == table.schema
    listed = tools.rows(found, names)
    assert len(set(listed)) == len(listed)
    assert tools.counted(found, names) == tools.counted(table, names)
    assert 0 not in found.column("__w").to_pylist()
    if by_hash:
        hashes = found.column("__h").to_pylist()
        assert hashes == sorted(hashes)
    else:
        order = list(dict.fromkeys(tools.rows(table, names)))
        assert listed == [row for row in order if row in set(listed)]


MEASURES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "__n": (pa.int64(), [0, 1, -1, 2**62, -(2**62), 2**63 - 1]),
    "__s": (
        pa.decimal128(38, 2),
        [Decimal("0.00"), Decimal("1.25"), Decimal("-1.25"), Decimal("9" * 36), Decimal("-" + "9" * 36)],
    ),
}


@tools.patient
@given(st.data())
def test_several_measures_exact_or_refused(data: st.DataObject) -> None:
    lines = data.draw(
        st.lists(
            st.tuples(st.sampled_from("ab"), *(st.sampled_from(pool) for _kind, pool in MEASURES.values())), max_size=8
        )
    )
    columns: dict[str, Any] = {"k": pa.array([line[0] for line in lines], pa.string())}
    for place, (name, (kind, _pool)) in enumerate(MEASURES.items(), 1):
        columns[name] = pa.array([line[place] for line in lines], kind)
    # Python rounds sums of decimals, so count in cents.
    expected: dict[str, tuple[int, int]] = {}
    for key, number, amount in lines:
        n, s = expected.get(key, (0, 0))
        expected[key] = (n + number, s + tools.unscaled(amount, 2))
    fits = all(-(2**63) <= n < 2**63 and abs(s) < 10**38 for n, s in expected.values())
    if not fits:
        with pytest.raises(ArithmeticError):
            consolidate(pa.table(columns), ("__n", "__s"))
        return
    found = consolidate(pa.table(columns), ("__n", "__s")).to_pylist()
    assert {line["k"]: (line["__n"], tools.unscaled(line["__s"], 2)) for line in found} == {
        key: sums for key, sums in expected.items() if any(sums)
    }


def test_a_narrow_measure_keeps_its_type() -> None:
    table = pa.table({"k": ["a", "a"], "__w": pa.array([100, 100], pa.int8())})
    with pytest.raises(ArithmeticError):
        consolidate(table)
    cents = pa.table({"k": ["a", "a"], "__w": pa.array([Decimal("5.00"), Decimal("4.99")], pa.decimal128(3, 2))})
    assert consolidate(cents).to_pylist() == [{"k": "a", "__w": Decimal("9.99")}]
    with pytest.raises(ArithmeticError):
        consolidate(pa.concat_tables([cents, cents]))


def test_one_row_or_none() -> None:
    table = pa.table({"k": ["a"], "__w": [0]})
    assert consolidate(table).num_rows == 0
    assert consolidate(table.slice(0, 0)).schema == table.schema
    assert consolidate(pa.table({"__w": [1, 2, -1]})).to_pylist() == [{"__w": 2}]


def test_a_million_rows() -> None:
    random = np.random.default_rng(2)
    keys = random.integers(0, 1000, 1 << 20)
    weights = random.integers(-3, 4, 1 << 20)
    found = consolidate(pa.table({"k": keys, "s": pa.array(keys).cast(pa.string()), "__w": weights}))
    expected = Counter(dict(enumerate(np.bincount(keys, weights=weights).astype(int).tolist())))
    assert dict(zip(found.column("k").to_pylist(), found.column("__w").to_pylist(), strict=True)) == {
        key: weight for key, weight in expected.items() if weight
    }
