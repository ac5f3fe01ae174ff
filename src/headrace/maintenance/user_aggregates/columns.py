"""Columns of Arrow as programs take them, arrays or lists with NULLs beside, and back."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.user_aggregates.values import NATIVE, Kind, kind_of
from headrace.language.types import arrow_type

_FILL: dict[Kind, Any] = {"text": "", "bytes": b"", "decimal": Decimal(0)}


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def values_of(column: pa.ChunkedArray | pa.Array, type_: str, *, native: bool) -> tuple[Any, Any]:
    """Values, with something harmless where they are NULL, and which are."""
    array = one_array(column)
    kind = kind_of(type_)
    nulls = np.zeros(len(array), dtype=np.bool_)
    if array.null_count:
        nulls = pc.is_null(array).to_numpy(zero_copy_only=False)
    if kind not in NATIVE:
        filled = array.fill_null(_FILL[kind]) if kind in _FILL and array.null_count else array
        return filled.to_pylist(), nulls.tolist()
    numbers = _numbers(array, kind)
    return (numbers, nulls) if native else (numbers.tolist(), nulls.tolist())


def _numbers(array: pa.Array, kind: Kind) -> np.ndarray:
    if kind == "bool":
        return array.fill_null(False).to_numpy(zero_copy_only=False) if array.null_count else _plain(array)
    if kind == "float":
        array = array.cast(pa.float64())
    elif kind == "date":
        array = array.cast(pa.int32()).cast(pa.int64())
    else:
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return _plain(array)


def _plain(array: pa.Array) -> np.ndarray:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False))


def column_of(values: Any, nulls: Any, count: int, type_: str) -> pa.Array:
    """The first `count` values as a column of the type."""
    kind = kind_of(type_)
    mask = np.asarray(nulls[:count], dtype=np.bool_)
    target = arrow_type(type_)
    if kind not in NATIVE:
        given = list(values[:count])
        return pa.array([None if gone else value for value, gone in zip(given, mask, strict=True)], target)
    numbers: np.ndarray = np.asarray(values[:count], dtype={"float": np.float64, "bool": np.bool_}.get(kind, np.int64))
    array = pa.array(numbers, mask=mask if mask.any() else None)
    if kind == "date":
        array = array.cast(pa.int32())
    return array.cast(target)


def list_column(offsets: Sequence[int] | np.ndarray, values: pa.Array) -> pa.Array:
    """A list for each group."""
    return pa.ListArray.from_arrays(pa.array(np.asarray(offsets, dtype=np.int32)), values)


def flattened(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Where each group's list begins and ends, and all that is in the lists."""
    array = one_array(column)
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets, array.flatten()
