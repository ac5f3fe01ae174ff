"""Running measures, DISTINCT by counting and the set operations, against counters stepped through time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.maintenance.kernels.running import indicator, running, set_operation
from tests.kernels import tools

Step = tuple[tuple[Any, ...], int]


def stepped(
    old: pa.Table, changes: pa.Table, keys: list[str], measures: list[str]
) -> dict[Step, tuple[list[int], list[int]]]:
    """For each key and time: the measures before and after."""
    state: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(measures))
    for row, *values in zip(tools.rows(old, keys), *(old.column(name).to_pylist() for name in measures), strict=True):
        state[row] = [mine + more for mine, more in zip(state[row], values, strict=True)]
    moves: dict[Step, list[int]] = defaultdict(lambda: [0] * len(measures))
    columns = [changes.column(name).to_pylist() for name in ("__t", *measures)]
    for row, time, *values in zip(tools.rows(changes, keys), *columns, strict=True):
        moves[row, time] = [mine + more for mine, more in zip(moves[row, time], values, strict=True)]
    found = {}
    for (row, time), values in sorted(moves.items(), key=lambda item: item[0][1]):
        before = state[row]
        state[row] = [mine + more for mine, more in zip(before, values, strict=True)]
        found[row, time] = (before, state[row])
    return found


def drawn(data: st.DataObject, measures: list[str], **options: Any) -> tuple[pa.Table, pa.Table, list[str]]:
    kinds = data.draw(st.lists(st.sampled_from(tools.POOLS), max_size=2))
    keys = [f"c{number}" for number in range(len(kinds))]
    collide = data.draw(st.booleans())
    old = data.draw(tools.tables(kinds, measures=measures, max_size=6, **options))
    changes = data.draw(tools.tables(kinds, measures=measures, times=True))
    return tools.with_hash(old, keys, collide=collide), tools.with_hash(changes, keys, collide=collide), keys


@tools.patient
@given(st.data())
def test_running(data: st.DataObject) -> None:
    old, changes, keys = drawn(data, ["__n", "__m"])
    found = running(old, changes, keys, ["__n", "__m"])
    assert found.column_names == [*keys, "__h", "__t", "__before___n", "__after___n", "__before___m", "__after___m"]
    listed = found.to_pylist()
    seen = {
        (row, line["__t"]): ([line["__before___n"], line["__before___m"]], [line["__after___n"], line["__after___m"]])
        for row, line in zip(tools.rows(found, keys), listed, strict=True)
    }
    assert len(seen) == len(listed)
    assert seen == stepped(old, changes, keys, ["__n", "__m"])


def test_running_sums_are_exact_or_refused() -> None:
    most = Decimal("9" * 38)
    kind = pa.decimal128(38, 0)
    old = pa.table({"k": ["a"], "s": pa.array([most], kind)})
    down = pa.table({"k": ["a", "a"], "__t": [2, 1], "s": pa.array([Decimal(1), most.copy_negate()], kind)})
    found = running(old, down, ["k"], ["s"])
    assert found.column("__before_s").to_pylist() == [most, Decimal(0)]
    assert found.column("__after_s").to_pylist() == [Decimal(0), Decimal(1)]
    assert found.schema.field("__after_s").type == kind
    up = pa.table({"k": ["a"], "__t": [1], "s": pa.array([Decimal(1)], kind)})
    with pytest.raises(ArithmeticError):
        running(old, up, ["k"], ["s"])
    numbers = pa.table({"k": ["a", "b"], "__n": [2**63 - 1, 5]})
    with pytest.raises(ArithmeticError):
        running(numbers, pa.table({"k": ["a"], "__t": [1], "__n": [1]}), ["k"], ["__n"])
    other = running(numbers, pa.table({"k": ["a", "b"], "__t": [1, 1], "__n": [-1, 1]}), ["k"], ["__n"])
    assert other.column("__after___n").to_pylist() == [2**63 - 2, 6]


@tools.patient
@given(st.data())
def test_indicator(data: st.DataObject) -> None:
    old, changes, keys = drawn(data, ["__w"], weights=(1, 2))
    found = indicator(old, changes, keys)
    assert found.column_names == [*keys, "__h", "__t", "__w"]
    expected: Counter[tuple[Any, ...]] = Counter()
    for (row, time), (before, after) in stepped(old, changes, keys, ["__w"]).items():
        expected[(*row, time)] = (after[0] > 0) - (before[0] > 0)
    assert tools.counted(found, [*keys, "__t"]) == tools.nonzero(expected)
    assert 0 not in found.column("__w").to_pylist()


RULES: dict[tuple[Any, bool], Callable[[int, int], int]] = {
    ("except", True): lambda left, right: max(left - right, 0),
    ("except", False): lambda left, right: int(left > 0 and right == 0),
    ("intersect", True): min,
    ("intersect", False): lambda left, right: int(left > 0 and right > 0),
}


@pytest.mark.parametrize(("kind", "every"), RULES)
@tools.patient
@given(st.data())
def test_set_operations(kind: Any, every: bool, data: st.DataObject) -> None:
    old, changes, keys = drawn(data, ["__l", "__r"], weights=(1, 2))
    rule = RULES[kind, every]
    expected: Counter[tuple[Any, ...]] = Counter()
    for (row, time), (before, after) in stepped(old, changes, keys, ["__l", "__r"]).items():
        counts = [[max(number, 0) for number in side] for side in (before, after)]
        expected[(*row, time)] = rule(*counts[1]) - rule(*counts[0])
    found = set_operation(kind, every, old, changes, keys)
    assert tools.counted(found, [*keys, "__t"]) == tools.nonzero(expected)
