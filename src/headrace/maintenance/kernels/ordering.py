"""Spark's order of rows: NaN is the greatest number, text goes by bytes, NULLs where they are told to go.

Every column becomes whole numbers in the same order, so that sorting is NumPy's alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.maintenance.kernels.tables import VERSION, heads, labels
from headrace.storage.bags import WEIGHT, Ints, integers, take
from headrace.storage.identity import list_parts, nulls, plain, whole_numbers

#: A column, whether it descends, and whether its NULLs come first.
Ordered = tuple[str, bool, bool]


def sort_codes(table: pa.Table, order: Sequence[Ordered]) -> Ints:
    """The positions of the rows in order; rows that are equal keep theirs."""
    keys: list[Ints] = []
    for name, descending, nulls_first in order:
        keys += _keys(plain(table.column(name)), descending, nulls_first)
    return _sorted(keys, table.num_rows)


def top(rows: pa.Table, order: Sequence[Ordered], limit: int | None, offset: int = 0) -> pa.Table:
    """The rows from number `offset`, at most `limit`, of each `__version`, where a row counts `__w` times.

    Ties are broken by all other columns, ascending and NULLs first, so the answer is the same on every run.
    """
    told = {name for name, _descending, _first in order} | {VERSION, WEIGHT}
    ties = [(name, False, True) for name in rows.column_names if name not in told]
    where = sort_codes(rows, [(VERSION, False, True), *order, *ties])
    weights = integers(rows, WEIGHT)[where]
    starts = heads(integers(rows, VERSION)[where])
    total = np.cumsum(weights)
    of_version = labels(starts, len(where))
    after = total - (total[starts] - weights[starts])[of_version]
    stop = (1 << 63) - 1 if limit is None else min(offset + limit, (1 << 63) - 1)
    shown = np.minimum(after, stop) - np.maximum(after - weights, offset)
    some = shown > 0
    found = take(rows, where[some])
    return found.set_column(found.column_names.index(WEIGHT), WEIGHT, pa.array(shown[some]))


def floats_in_order(array: pa.Array) -> Ints:
    """Floats as whole numbers in the same order, with one zero and one NaN, which is the greatest."""
    wide = array.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    # The bits of negative numbers ascend with their size.
    return np.where(bits < 0, bits ^ ((1 << 63) - 1), bits)


def floats_back(ordered: Ints, kind: pa.DataType) -> pa.Array:
    """The floats that `floats_in_order` was given."""
    bits = np.where(ordered < 0, ordered ^ ((1 << 63) - 1), ordered)
    return pa.array(bits.view(np.float64)).cast(kind, safe=False)


def _keys(array: pa.Array, descending: bool, nulls_first: bool) -> list[Ints]:
    """What to sort by: where NULLs go, if there are any, and the values."""
    if array.null_count == len(array):
        return []
    missing = nulls(array)
    values = np.where(missing, 0, _values(array))
    if descending:
        values = ~values
        values[missing] = 0
    if not array.null_count:
        return [values]
    return [(missing != nulls_first).astype(np.int64), values]


def _values(array: pa.Array) -> Ints:
    """Whole numbers in the order of the values; anything for NULL."""
    kind = array.type
    if types.is_dictionary(kind):
        return _values(array.cast(kind.value_type))
    if types.is_floating(kind):
        return floats_in_order(array)
    if types.is_struct(kind):
        return _ranks([key for field in array.flatten() for key in _keys(field, False, True)], len(array))
    if types.is_nested(kind):
        return _values(_spelled(array))
    values = whole_numbers(array)
    return _values_by_dictionary(array) if values is None else values


def _values_by_dictionary(array: pa.Array) -> Ints:
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[encoded.indices.fill_null(0).to_numpy()]


def _spelled(array: pa.Array) -> pa.Array:
    """Lists as bytes in the same order: the ranks of their elements, one after another, NULLs first.

    Maps have no order in SQL; here they go by their sorted entries, for the sake of ties.
    """
    elements, lengths = list_parts(array)
    ranks = _ranks(_keys(elements, False, True), len(elements))
    if types.is_map(array.type):
        ranks = ranks[np.lexsort((ranks, np.repeat(np.arange(len(array)), lengths)))]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths) * 8])
    return pa.Array.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(ends), pa.py_buffer(ranks.astype(">i8"))]
    )


def _ranks(keys: list[Ints], rows: int) -> Ints:
    """Dense numbers in the order of the keys."""
    if not keys or not rows:
        return np.zeros(rows, dtype=np.int64)
    order = _sorted(keys, rows)
    ranks = np.empty(rows, dtype=np.int64)
    ranks[order] = labels(heads(*(key[order] for key in keys)), rows)
    return ranks


def _sorted(keys: list[Ints], rows: int) -> Ints:
    """Positions in the order of the keys, the first of which counts most."""
    packed: list[Ints] = []
    room = 1
    for key in keys if rows else ():
        low, high = int(key.min()), int(key.max())
        width = high - low + 1
        # Keys that fit into one number together are sorted together.
        if packed and room * width < 1 << 62:
            packed[-1] = packed[-1] * width + (key - low)
            room *= width
        else:
            fits = width < 1 << 62
            packed.append(key - low if fits else key)
            room = width
    if not packed:
        return np.arange(rows)
    return np.argsort(packed[0], kind="stable") if len(packed) == 1 else np.lexsort(packed[::-1])
