"""Matching keys, and the bilinear join, against nested loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.maintenance.kernels.joining import bilinear
from headrace.maintenance.kernels.matching import match
from headrace.maintenance.kernels.tables import NEVER
from tests.kernels import tools


def equal(left: tuple[Any, ...], right: tuple[Any, ...], null_safe: list[bool]) -> bool:
    pairs = zip(left, right, null_safe, strict=True)
    return all(mine == theirs and (mine is not None or safe) for mine, theirs, safe in pairs)


@tools.patient
@given(st.data())
def test_match(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(tools.POOLS), max_size=2))
    safe = data.draw(st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds)))
    left = data.draw(tools.tables(kinds, prefix="l"))
    right = data.draw(tools.tables(kinds, prefix="r"))
    lefts, rights = ([name for name in table.column_names if name != "__w"] for table in (left, right))
    if data.draw(st.booleans()):
        collide = data.draw(st.booleans())
        left, right = (tools.with_hash(left, lefts, collide=collide), tools.with_hash(right, rights, collide=collide))
    here, there = match(left, right, lefts, rights, safe)
    expected = [
        (i, j)
        for i, mine in enumerate(tools.rows(left, lefts))
        for j, theirs in enumerate(tools.rows(right, rights))
        if equal(mine, theirs, safe)
    ]
    assert list(zip(here.tolist(), there.tolist(), strict=True)) == expected


def test_match_of_types_that_differ() -> None:
    left, right = pa.table({"a": pa.array([1, 2], pa.int32())}), pa.table({"b": pa.array([2, 3], pa.int64())})
    here, there = match(left, right, ["a"], ["b"], [False])
    assert (here.tolist(), there.tolist()) == ([1], [0])


def side(data: st.DataObject, kinds: list[Any], prefix: str, collide: bool) -> tuple[pa.Table, pa.Table]:
    changes = data.draw(tools.tables(kinds, prefix=prefix, times=True, max_size=6))
    old = data.draw(tools.tables(kinds, prefix=prefix, weights=(1, 2), max_size=6))
    key = [f"{prefix}0"]
    return tools.with_hash(changes, key, collide=collide), tools.with_hash(old, key, collide=collide)


def dying(data: st.DataObject, table: pa.Table) -> pa.Table:
    times = data.draw(st.lists(st.sampled_from([5, 6, 9, NEVER]), min_size=table.num_rows, max_size=table.num_rows))
    return table.append_column("__exp", pa.array(times, pa.int64()))


@tools.patient
@given(st.data())
def test_bilinear(data: st.DataObject) -> None:
    kinds = [data.draw(st.sampled_from(tools.COMMON)), tools.POOLS[1]]
    collide, safe = data.draw(st.booleans()), data.draw(st.booleans())
    left, left_old = side(data, kinds, "l", collide)
    right, right_old = side(data, kinds, "r", collide)
    if data.draw(st.booleans()):
        left, left_old = dying(data, left), dying(data, left_old)
        if data.draw(st.booleans()):
            right, right_old = dying(data, right), dying(data, right_old)
    found = bilinear(left, right, left_old, right_old, ["l0"], ["r0"], [safe])
    with_death = "__exp" in left.column_names
    expected: Counter[tuple[Any, ...]] = Counter()
    for mine, theirs in ((left, right_old), (left_old, right), (left, right)):
        for a, row_a in zip(mine.to_pylist(), tools.rows(mine, ["l0", "l1"]), strict=True):
            for b, row_b in zip(theirs.to_pylist(), tools.rows(theirs, ["r0", "r1"]), strict=True):
                time = max(row["__t"] for row in (a, b) if "__t" in row)
                death = min(a.get("__exp", NEVER), b.get("__exp", NEVER))
                if equal(row_a[:1], row_b[:1], [safe]) and (death > time or not with_death):
                    expected[(*row_a, *row_b, time, *([death] if with_death else []))] += a["__w"] * b["__w"]
    names = ["l0", "l1", "r0", "r1", "__t", *(["__exp"] if with_death else [])]
    assert set(found.column_names) == {*names, "__w"}
    assert tools.counted(found, names) == tools.nonzero(expected)


def test_the_weight_of_a_pair_is_checked() -> None:
    change = pa.table({"a": [1], "__h": [0], "__t": [1], "__w": [2**40]})
    other = change.rename_columns(["b", "__h", "__t", "__w"])
    with pytest.raises(ArithmeticError):
        bilinear(
            change,
            other,
            change.slice(0, 0).drop_columns(["__t"]),
            other.slice(0, 0).drop_columns(["__t"]),
            ["a"],
            ["b"],
            [False],
        )
