"""Joins and groups of plain rows, each of which counts once, by Arrow's own hash tables or without any (`near`).

The other kernels work on changes; these are for queries that are evaluated as a whole. Keys of types on whose equality
Arrow and Spark agree go Arrow's way, all others that of `matching` and `grouping`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.algebra.nodes import Equal, JoinKind
from headrace.maintenance.kernels.grouping import Call, aggregate
from headrace.maintenance.kernels.matching import match
from headrace.maintenance.kernels.near import Told, near_groups
from headrace.storage.bags import Ints, distinct

_LEFT, _RIGHT = "__left", "__right"
_ARROW_KINDS: dict[JoinKind, str] = {
    "inner": "inner",
    "left": "left outer",
    "full": "full outer",
    "semi": "left semi",
    "anti": "left anti",
}
_ARROW_CALLS = {"count": "count", "sum": "sum", "min": "min", "max": "max", "bool_and": "min", "bool_or": "max"}
_LARGEST = (1 << 63) - 1


def join(kind: JoinKind, left: pa.Table, right: pa.Table, equal: Sequence[Equal]) -> pa.Table:
    """The columns of both sides (of the left alone for semi and anti joins), whose names all differ."""
    of_left, of_right = _positions(kind, left, right, equal)
    taken = left.take(of_left)
    if kind in ("semi", "anti"):
        return taken
    other = right.take(of_right)
    return pa.Table.from_arrays([*taken.columns, *other.columns], names=[*left.column_names, *right.column_names])


def _positions(kind: JoinKind, left: pa.Table, right: pa.Table, equal: Sequence[Equal]) -> tuple[pa.Array, pa.Array]:
    """Which row of each side makes each row of the result; NULL where a side has none."""
    left_on, right_on = [pair.left for pair in equal], [pair.right for pair in equal]
    if equal and all(_as_arrow_joins(left, right, pair) for pair in equal):
        one, other = _numbered(left, left_on, _LEFT), _numbered(right, right_on, _RIGHT)
        keys = [f"{number}" for number in range(len(equal))]
        found = one.join(other, keys, join_type=_ARROW_KINDS[kind])
        names = [_LEFT] if kind in ("semi", "anti") else [_LEFT, _RIGHT]
        places = [found.column(name).combine_chunks() for name in names]
        return places[0], places[-1]
    pairs = match(left, right, left_on, right_on, [pair.null_safe for pair in equal])
    return _outer(kind, *pairs, left.num_rows, right.num_rows)


def _outer(kind: JoinKind, of_left: Ints, of_right: Ints, left_rows: int, right_rows: int) -> tuple[pa.Array, pa.Array]:
    """What a join of this kind makes of the pairs."""
    if kind == "inner":
        return pa.array(of_left), pa.array(of_right)
    lonely = np.setdiff1d(np.arange(left_rows), of_left)
    if kind in ("semi", "anti"):
        rows = pa.array(lonely if kind == "anti" else distinct(of_left))
        return rows, rows
    without = np.setdiff1d(np.arange(right_rows), of_right) if kind == "full" else np.empty(0, dtype=np.int64)
    lefts = [pa.array(of_left), pa.array(lonely), pa.nulls(len(without), pa.int64())]
    rights = [pa.array(of_right), pa.nulls(len(lonely), pa.int64()), pa.array(without)]
    return pa.concat_arrays(lefts), pa.concat_arrays(rights)


def _numbered(table: pa.Table, keys: Sequence[str], number: str) -> pa.Table:
    columns = [table.column(name) for name in keys]
    names = [f"{place}" for place in range(len(keys))]
    return pa.Table.from_arrays([*columns, pa.array(np.arange(table.num_rows))], names=[*names, number])


def _as_arrow_joins(left: pa.Table, right: pa.Table, pair: Equal) -> bool:
    """Whether Arrow pairs two columns as SQL does: it never pairs NULLs."""
    one, other = left.column(pair.left), right.column(pair.right)
    if pair.null_safe and one.null_count and other.null_count:
        return False
    return one.type == other.type and _is_plain(one.type)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether values are equal for Arrow just where they are for Spark: zeros and NaNs of floats are not."""
    return types.is_integer(kind) or types.is_date32(kind) or types.is_timestamp(kind) or types.is_string(kind)


def group(rows: pa.Table, keys: Sequence[str], calls: Sequence[Call]) -> pa.Table:
    """One row a group: its keys, then one column for each call, as in `grouping.aggregate`."""
    if not keys or not all(_is_plain(rows.schema.field(key).type) for key in keys):
        return aggregate(rows, keys, calls)
    if not all(_can_call(rows, function, argument) for _name, function, argument in calls):
        return aggregate(rows, keys, calls)
    same = {argument: _only_value(rows, argument) for _name, function, argument in calls if function in ("min", "max")}
    asked = [_asked(rows, call, same) for call in calls]
    told = list(dict.fromkeys(call for call in asked if call is not None))
    of_keys, found = near_groups(rows, keys, told) or _by_hash(rows, keys, told)
    columns = dict(zip(keys, of_keys, strict=True))
    for (name, _function, argument), call in zip(calls, asked, strict=True):
        columns[name] = pa.repeat(same[argument], len(of_keys[0])) if call is None else found[call]
    return pa.table(columns)


def _by_hash(rows: pa.Table, keys: Sequence[str], told: Sequence[Told]) -> tuple[list[Any], Mapping[Told, Any]]:
    """The keys of each group, and what is told of it, by Arrow's hash table."""
    # Names that no other column can have: Arrow makes up those of the results.
    arguments = list(dict.fromkeys(of for of, _function in told if of is not None))
    keyed, named = [f"key{number}" for number in range(len(keys))], {name: f"of{n}" for n, name in enumerate(arguments)}
    table = pa.Table.from_arrays([rows.column(name) for name in (*keys, *arguments)], names=[*keyed, *named.values()])
    found = table.group_by(keyed).aggregate([([] if of is None else named[of], name) for of, name in told])
    columns = {(of, name): found.column(name if of is None else f"{named[of]}_{name}") for of, name in told}
    return [found.column(name) for name in keyed], columns


def _asked(rows: pa.Table, call: Call, same: Mapping[str | None, pa.Scalar | None]) -> Told | None:
    """What Arrow is to compute for a call: the column and the function; None where the result is already known."""
    _name, function, argument = call
    if argument is None or (function == "count" and rows.column(argument).null_count == 0):
        return None, "count_all"
    return None if same.get(argument) is not None and function in ("min", "max") else (argument, _ARROW_CALLS[function])


def _only_value(rows: pa.Table, column: str | None) -> pa.Scalar | None:
    """The value that all rows have in a column, as they have the time of one part."""
    values = rows.column(column)
    if not rows.num_rows or values.null_count:
        return None
    ends = pc.min_max(values)
    return ends["min"] if ends["min"] == ends["max"] else None


def _can_call(rows: pa.Table, function: str, argument: str | None) -> bool:
    """Whether Arrow gives what SQL does: it does not notice when a sum overflows, nor order floats as Spark does."""
    if argument is None or function == "count":
        return True
    kind = rows.schema.field(argument).type
    if function == "sum":
        return types.is_signed_integer(kind) and _largest(rows.column(argument)) * rows.num_rows <= _LARGEST
    return types.is_boolean(kind) if function.startswith("bool") else _is_plain(kind)


def _largest(column: pa.ChunkedArray) -> int:
    if column.type.bit_width <= 32:
        return 1 << 31
    ends = pc.min_max(column).as_py()
    return max(abs(ends["min"] or 0), abs(ends["max"] or 0))
