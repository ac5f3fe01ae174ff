"""Joins and groups of plain rows, against nested loops and against the kernels for changes."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.algebra.nodes import Equal, JoinKind
from headrace.maintenance.kernels.grouping import aggregate
from headrace.maintenance.kernels.near import near_groups
from headrace.maintenance.kernels.plain import group, join
from tests.kernels import tools
from tests.kernels.test_joining import equal

KINDS = [kind for kind in get_args(JoinKind) if kind != "right"]


def joined(kind: str, left: list[Any], right: list[Any], width: int, pairs: list[tuple[int, int]]) -> Counter[Any]:
    """What SQL makes of two lists of rows and the places of those that match."""
    partners, of_right = {i for i, _j in pairs}, {j for _i, j in pairs}
    lonely = [row for i, row in enumerate(left) if i not in partners]
    match kind:
        case "semi":
            return Counter(row for i, row in enumerate(left) if i in partners)
        case "anti":
            return Counter(lonely)
    found = Counter(left[i] + right[j] for i, j in pairs)
    if kind in ("left", "full"):
        found += Counter(row + (None,) * width for row in lonely)
    if kind == "full":
        found += Counter((None,) * width + row for j, row in enumerate(right) if j not in of_right)
    return found


@tools.patient
@given(st.data(), st.sampled_from(KINDS))
def test_joins(data: st.DataObject, kind: JoinKind) -> None:
    pools = data.draw(st.lists(st.sampled_from(tools.POOLS), min_size=1, max_size=2))
    safe = data.draw(st.sampled_from([[False] * len(pools), [True] * len(pools), [False, True][: len(pools)]]))
    left = data.draw(tools.tables(pools, prefix="l")).drop_columns(["__w"])
    right = data.draw(tools.tables(pools, prefix="r")).drop_columns(["__w"])
    on = [Equal(f"l{n}", f"r{n}", null_safe) for n, null_safe in enumerate(safe)]
    lefts, rights = tools.rows(left), tools.rows(right)
    pairs = [(i, j) for i, one in enumerate(lefts) for j, two in enumerate(rights) if equal(one, two, safe)]
    found = join(kind, left, right, on)
    assert found.column_names == left.column_names + ([] if kind in ("semi", "anti") else right.column_names)
    assert Counter(tools.rows(found)) == joined(kind, lefts, rights, len(pools), pairs)


@tools.patient
@given(st.data())
def test_groups_are_those_of_weighted_rows(data: st.DataObject) -> None:
    pools = data.draw(st.lists(st.sampled_from(tools.FLAT), min_size=2, max_size=3))
    table = data.draw(tools.tables(pools)).drop_columns(["__w"])
    *keys, value = table.column_names
    calls: list[tuple[str, str, str | None]] = [("n", "count_rows", None), ("c", "count", value)]
    kind = table.schema.field(value).type
    if pa.types.is_signed_integer(kind) or pa.types.is_decimal(kind):
        calls.append(("s", "sum", value))
    if pa.types.is_boolean(kind):
        calls += [("all", "bool_and", value), ("any", "bool_or", value)]
    elif not (pa.types.is_null(kind) or pa.types.is_dictionary(kind)):
        calls += [("least", "min", value), ("most", "max", value)]
    try:
        expected = aggregate(table, keys, calls)
    except ArithmeticError:
        return
    found = group(table, keys, calls)
    assert found.schema.types == expected.schema.types
    assert Counter(tools.rows(found)) == Counter(tools.rows(expected))


NEAR = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC")]


@tools.patient
@given(
    st.lists(st.tuples(st.sampled_from(NEAR), st.integers(-100, 100), st.integers(1, 12)), min_size=1, max_size=3),
    st.sampled_from(NEAR),
    st.sampled_from([1, 2**31 - 128, 2**44]),
    st.integers(0, 2**32),
)
def test_groups_of_keys_that_lie_close_together(
    keys: list[tuple[pa.DataType, int, int]], kind: pa.DataType, scale: int, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    rows = 2_000

    def column(kind: pa.DataType, values: np.ndarray) -> pa.Array:
        width = values.astype(f"i{kind.bit_width // 8}")
        return pa.array(width) if pa.types.is_integer(kind) else pa.array(width).view(kind)

    columns = [column(of, begin + draw.integers(0, span, rows)) for of, begin, span in keys]
    scale = min(scale, (1 << (kind.bit_width - 1)) // 128) if pa.types.is_integer(kind) else 1
    table = pa.table([*columns, column(kind, draw.integers(-100, 100, rows) * scale)], [*"abc"[: len(keys)], "v"])
    calls: list[tuple[str, str, str | None]] = [("n", "count_rows", None), ("c", "count", "v"), ("least", "min", "v")]
    calls += [("most", "max", "v"), *([("s", "sum", "v")] if pa.types.is_integer(kind) else [])]
    names = table.column_names[:-1]
    wanted = aggregate(table, names, calls)
    assert near_groups(table, names, [(None, "count_all")]) is not None
    found = group(table, names, calls)
    assert found.schema.types == wanted.schema.types
    assert Counter(tools.rows(found)) == Counter(tools.rows(wanted))


def test_keys_that_lie_far_apart_or_are_null_are_hashed() -> None:
    far = pa.table({"k": np.arange(2_000) * 1_000})
    null = pa.table({"k": [None, *range(1_999)]})
    for table in (far, null):
        assert near_groups(table, ["k"], [(None, "count_all")]) is None
        assert group(table, ["k"], [("n", "count_rows", None)]).num_rows == 2_000


def test_a_sum_that_may_overflow_is_added_exactly() -> None:
    table = pa.table({"k": [1, 1, 1], "v": [2**62, 2**62, -(2**62)]})
    assert group(table, ["k"], [("s", "sum", "v")]).to_pylist() == [{"k": 1, "s": 2**62}]


def test_names_that_arrow_would_give_to_results_do_no_harm() -> None:
    table = pa.table({"v_sum": [1, 2], "v": [3, 4], "count_all": [5, 5]})
    found = group(table, ["v_sum", "count_all"], [("v", "sum", "v"), ("n", "count_rows", None)])
    rows = sorted(found.to_pylist(), key=lambda row: int(row["v_sum"]))
    assert rows == [{"v_sum": 1, "count_all": 5, "v": 3, "n": 1}, {"v_sum": 2, "count_all": 5, "v": 4, "n": 1}]
