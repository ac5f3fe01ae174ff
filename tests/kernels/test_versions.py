"""Versions of groups, and differences of what is computed from them, against bags stepped through time."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.maintenance.kernels.versions import difference, explode_weights, versions
from tests.kernels import tools

Bag = Counter[tuple[Any, ...]]


def drawn(data: st.DataObject) -> tuple[pa.Table, pa.Table, list[str], list[str]]:
    """Old rows, changes, the key's columns and all columns. The key is a part of the row, or nothing."""
    kinds = data.draw(tools.kinds(tools.POOLS))
    names = [f"c{number}" for number in range(len(kinds))]
    keys = names[: data.draw(st.integers(0, len(names)))]
    collide = data.draw(st.booleans())
    old = data.draw(tools.tables(kinds, weights=(1, 3), max_size=8))
    changes = data.draw(tools.tables(kinds, times=True, max_size=8))
    return tools.with_hash(old, keys, collide=collide), tools.with_hash(changes, keys, collide=collide), keys, names


def stepped(
    old: pa.Table, changes: pa.Table, keys: list[str], names: list[str]
) -> dict[Any, list[tuple[Any, Any, Bag]]]:
    """For each key that changes: since, until and the bag of each version."""
    start: dict[Any, Bag] = defaultdict(Counter)
    for key, row, weight in zip(
        tools.rows(old, keys), tools.rows(old, names), old.column("__w").to_pylist(), strict=True
    ):
        start[key][row] += weight
    moves: dict[Any, dict[int, Bag]] = defaultdict(lambda: defaultdict(Counter))
    columns = changes.column("__t").to_pylist(), changes.column("__w").to_pylist()
    for key, row, time, weight in zip(tools.rows(changes, keys), tools.rows(changes, names), *columns, strict=True):
        moves[key][time][row] += weight
    found = {}
    for key, steps in moves.items():
        times = sorted(steps)
        bag = Counter(start[key])
        listed: list[tuple[Any, Any, Bag]] = [(None, times[0], +bag)]
        for time, until in zip(times, [*times[1:], None], strict=True):
            for row, weight in steps[time].items():
                bag[row] += weight
            listed.append((time, until, +bag))
        found[key] = listed
    return found


@tools.patient
@given(st.data())
def test_versions(data: st.DataObject) -> None:
    old, changes, keys, names = drawn(data)
    found = versions(old, changes, keys)
    assert found.rows.column_names == [*names, "__version", "__w"]
    assert found.spans.column_names == ["__version", *keys, "__h", "__since", "__until"]
    bags: dict[int, Bag] = defaultdict(Counter)
    for *row, version, weight in tools.rows(found.rows):
        assert weight > 0
        assert tuple(row) not in bags[version]
        bags[version][tuple(row)] = weight
    lines: dict[Any, list[tuple[Any, Any, Bag]]] = defaultdict(list)
    numbers = found.spans.column("__version").to_pylist()
    assert len(set(numbers)) == len(numbers)
    assert set(bags) <= set(numbers)
    for key, line in zip(tools.rows(found.spans, keys), found.spans.to_pylist(), strict=True):
        lines[key].append((line["__since"], line["__until"], bags[line["__version"]]))
    assert dict(lines) == stepped(old, changes, keys, names)


@tools.patient
@given(st.data())
def test_differences_of_versions_are_the_changes(data: st.DataObject) -> None:
    """What the versions are themselves differs by the changes, as far as rows are not taken back too often."""
    old, changes, keys, names = drawn(data)
    found = versions(old, changes, keys)
    expected: Bag = Counter()
    for listed in stepped(old, changes, keys, names).values():
        for (_since, until, bag), (_start, _end, after) in pairwise(listed):
            for row in {*bag, *after}:
                expected[(*row, until)] += after[row] - bag[row]
    weighted = difference(found.rows, found.spans)
    assert tools.counted(weighted, [*names, "__t"]) == tools.nonzero(expected)
    assert weighted.num_rows == len(tools.nonzero(expected))
    each = difference(explode_weights(found.rows), found.spans)
    assert tools.counted(each, [*names, "__t"]) == tools.nonzero(expected)
    fewer = difference(found.rows, found.spans, drop=names[:1])
    assert fewer.column_names == [*names[1:], "__t", "__w"]


def test_rows_without_columns() -> None:
    """COUNT(*) needs no column of its input."""
    old = pa.table({"__h": [0], "__w": [2]})
    changes = pa.table({"__h": [0, 0], "__t": [1, 3], "__w": [1, -3]})
    found = versions(old, changes, [])
    assert found.rows.to_pylist() == [{"__version": 0, "__w": 2}, {"__version": 1, "__w": 3}]
    assert difference(found.rows, found.spans).to_pylist() == [{"__t": 1, "__w": 1}, {"__t": 3, "__w": -3}]


def test_a_result_of_an_unknown_version() -> None:
    found = versions(pa.table({"a": [1], "__w": [1]}), pa.table({"a": [1], "__t": [1], "__w": [1]}), ["a"])
    with pytest.raises(ValueError, match="version"):
        difference(pa.table({"__version": [7]}), found.spans)
