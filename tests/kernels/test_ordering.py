"""Spark's order and the first rows of each version, against Python's sort."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.maintenance.kernels.ordering import sort_codes, top
from tests.kernels import tools

ORDERED = [pool for pool in tools.POOLS if not pa.types.is_map(pool[0])]


def compare(mine: Any, theirs: Any, descending: bool = False, nulls_first: bool = True) -> int:
    """Below zero when the first comes first, as Spark says."""
    if mine is None or theirs is None:
        if mine is None and theirs is None:
            return 0
        return -1 if (mine is None) == nulls_first else 1
    sign = -1 if descending else 1
    if isinstance(mine, dict):
        steps = (compare(mine[name], theirs[name]) for name in mine)
        return sign * next((step for step in steps if step), 0)
    if isinstance(mine, list):
        steps = (compare(a, b) for a, b in zip(mine, theirs, strict=False))
        return sign * next((step for step in steps if step), len(mine) - len(theirs))
    if isinstance(mine, float):
        mine, theirs = ((1, 0.0) if tools.plain(value) == "NaN" else (0, value) for value in (mine, theirs))
    if isinstance(mine, str):
        mine, theirs = mine.encode(), theirs.encode()
    return sign * ((mine > theirs) - (mine < theirs))


def python_order(table: pa.Table, order: list[tuple[str, bool, bool]]) -> list[int]:
    columns = [(table.column(name).to_pylist(), descending, first) for name, descending, first in order]

    def both(a: int, b: int) -> int:
        steps = (compare(values[a], values[b], descending, first) for values, descending, first in columns)
        return next((step for step in steps if step), 0)

    return sorted(range(table.num_rows), key=cmp_to_key(both))


@tools.patient
@given(st.data())
def test_sort_codes(data: st.DataObject) -> None:
    table = data.draw(tools.tables(data.draw(tools.kinds(ORDERED)), weights=None))
    order = [(name, data.draw(st.booleans()), data.draw(st.booleans())) for name in table.column_names]
    assert sort_codes(table, order).tolist() == python_order(table, order)


def test_every_type_in_order() -> None:
    for kind, pool in ORDERED:
        table = pa.table({"a": tools.column(kind, [*pool, None, *reversed(pool)])})
        for descending in (False, True):
            for first in (False, True):
                order = [("a", descending, first)]
                assert sort_codes(table, order).tolist() == python_order(table, order), kind


@tools.patient
@given(st.data())
def test_top(data: st.DataObject) -> None:
    table = data.draw(tools.tables(data.draw(tools.kinds(ORDERED)), weights=(1, 3)))
    names = [name for name in table.column_names if name != "__w"]
    versions = data.draw(st.lists(st.integers(0, 2), min_size=table.num_rows, max_size=table.num_rows))
    table = table.append_column("__version", pa.array(versions, pa.int64()))
    order = [(names[0], data.draw(st.booleans()), data.draw(st.booleans()))]
    limit, offset = data.draw(st.one_of(st.none(), st.integers(0, 5), st.just(1 << 62))), data.draw(st.integers(0, 3))
    all_rows: dict[int, list[Any]] = defaultdict(list)
    ties = [(name, False, True) for name in names[1:]]
    listed, weights = tools.rows(table, names), table.column("__w").to_pylist()
    for place in python_order(table, [*order, *ties]):
        all_rows[versions[place]] += [listed[place]] * weights[place]
    expected: Counter[tuple[Any, ...]] = Counter()
    for version, found in all_rows.items():
        expected.update((*row, version) for row in found[offset : None if limit is None else offset + limit])
    assert tools.counted(top(table, order, limit, offset), [*names, "__version"]) == expected


def test_maps_break_ties_without_failing() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table({"a": [1, 1], "m": pa.array([[("b", 1)], [("a", 2)]], kind), "__version": [0, 0], "__w": [1, 1]})
    assert top(table, [("a", False, True)], 1).column("m").to_pylist() == [[("a", 2)]]
