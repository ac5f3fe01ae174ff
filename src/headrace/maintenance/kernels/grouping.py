"""Aggregates of groups of weighted rows, on types where they are exact.

NULLs are ignored as in SQL. COUNT and SUM take weights of either sign, so they also aggregate changes; MIN, MAX and
their like are of bags, where every weight is above zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.maintenance.kernels.ordering import floats_back, floats_in_order, sort_codes
from headrace.maintenance.kernels.tables import heads
from headrace.storage.bags import WEIGHT, Ints, codes, firsts, integers, take
from headrace.storage.exact import Exact
from headrace.storage.identity import nulls, plain

#: The column to fill, the function, and the column it is of; none for count_rows.
Call = tuple[str, str, str | None]

_SIDE = {"min": "min", "max": "max", "bool_and": "min", "bool_or": "max"}


def aggregate(rows: pa.Table, group: Sequence[str], calls: Sequence[Call]) -> pa.Table:
    """One row a group, by first appearance: its columns, then one for each call. No rows make no groups.

    Functions are count_rows, count, sum, min, max, bool_and and bool_or. The sum of whole numbers is BIGINT and that of
    decimals has 38 digits; ArithmeticError where it does not fit.
    """
    ids = codes(rows, group)
    where = firsts(ids)
    weights = integers(rows, WEIGHT) if WEIGHT in rows.column_names else np.ones(rows.num_rows, dtype=np.int64)
    columns = dict(zip(group, take(rows.select(list(group)), where).columns, strict=True))
    for name, function, argument in calls:
        values = None if argument is None else plain(rows.column(argument))
        columns[name] = _call(function, values, weights, ids, len(where))
    return pa.table(columns)


def _call(function: str, values: pa.Array | None, weights: Ints, ids: Ints, count: int) -> pa.Array:
    if function == "count_rows":
        return _count(weights, ids, count)
    if values is None:
        raise ValueError(f"{function} needs a column.")
    if function == "count":
        there = np.flatnonzero(~nulls(values))
        return _count(weights[there], ids[there], count)
    if function == "sum":
        return _sum(values, weights, ids, count)
    if function in _SIDE:
        return _extreme(_SIDE[function], values, ids, count)
    raise ValueError(f"No such aggregate: {function}")


def _count(weights: Ints, ids: Ints, count: int) -> pa.Array:
    return Exact.of(pa.array(weights), len(weights)).sums(ids, count).arrow(pa.int64())


def _sum(values: pa.Array, weights: Ints, ids: Ints, count: int) -> pa.Array:
    kind = values.type
    if types.is_null(kind):
        return pa.nulls(count, pa.int64())
    out = pa.decimal128(38, kind.scale) if types.is_decimal(kind) else pa.int64()
    sums = Exact.of(values, _weight(weights)).times(weights).sums(ids, count).arrow(out)
    empty = np.bincount(ids[~nulls(values)], minlength=count) == 0
    return pc.if_else(pa.array(empty), pa.scalar(None, out), sums) if empty.any() else sums


def _weight(weights: Ints) -> int:
    """A bound of how many values are added, each as often as it weighs."""
    largest = max(abs(int(weights.min())), abs(int(weights.max()))) if len(weights) else 0
    bound = largest * len(weights)
    return int(np.abs(weights).sum()) if bound < 1 << 63 else bound


def _extreme(side: str, values: pa.Array, ids: Ints, count: int) -> pa.Array:
    kind = values.type
    if types.is_floating(kind):
        bits = pa.array(floats_in_order(values), mask=nulls(values))
        found = _extreme(side, bits, ids, count)
        back = floats_back(found.fill_null(0).to_numpy(zero_copy_only=False), kind)
        return pc.if_else(found.is_null(), pa.scalar(None, kind), back)
    try:
        table = pa.table({"id": ids, "value": values}).group_by("id", use_threads=False)
        found = table.aggregate([("value", side)])
    except pa.ArrowNotImplementedError:
        return _extreme_by_order(side, values, ids, count)
    # Ids are counted by first appearance, and so are Arrow's groups; the sort is for the day when they are not.
    return take(found, np.argsort(integers(found, "id"), kind="stable")).column(f"value_{side}").combine_chunks()


def _extreme_by_order(side: str, values: pa.Array, ids: Ints, count: int) -> pa.Array:
    there = np.flatnonzero(~nulls(values))
    table = pa.table({"id": ids[there], "value": values.take(pa.array(there))})
    order = sort_codes(table, [("id", False, True), ("value", side == "max", True)])
    first = order[heads(ids[there][order])] if len(order) else order
    place = np.zeros(count, dtype=np.int64)
    known = np.zeros(count, dtype=np.bool_)
    place[ids[there][first]], known[ids[there][first]] = there[first], True
    return values.take(pa.array(place, mask=~known))
