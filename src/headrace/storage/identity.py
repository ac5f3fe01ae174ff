"""Which rows of a table are the same row.

Two rows are the same when every column is: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, and a map equals a map
with the same entries in another order. Every row gets a dense number; the same rows get the same number, counted by
first appearance. Nothing here loops over rows in Python, nested types included.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Codes are combined by multiplication as long as the product stays below this.
_ROOM = 1 << 62
_ODD = np.int64(-7046029254386353131)


def codes(table: pa.Table, columns: Sequence[str]) -> Ints:
    """A number for every row, equal where the rows are equal on `columns`, dense and by first appearance."""
    cheap = [table.column(name) for name in columns if is_cheap(table.schema.field(name).type)]
    dear = [table.column(name) for name in columns if not is_cheap(table.schema.field(name).type)]
    ids, count = _all(cheap, table.num_rows)
    if not dear or count == table.num_rows:
        return ids
    # Only rows that are still alike need to be told apart by what is dear to compare.
    alike = np.bincount(ids, minlength=count)[ids] > 1
    if alike.all():
        rest, kinds = _all(dear, table.num_rows)
    else:
        where = pa.array(np.flatnonzero(alike))
        found, kinds = _all([column.combine_chunks().take(where) for column in dear], len(where))
        rest = np.zeros(table.num_rows, dtype=np.int64)
        rest[alike] = found
    return _dense(ids * max(kinds, 1) + rest, count * max(kinds, 1))[0]


def nulls(column: pa.ChunkedArray | pa.Array) -> Bools:
    """Where a column is NULL."""
    if column.null_count == 0:
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(
        column.is_null().to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.is_null().to_numpy()
    )


def whole_numbers(array: pa.Array) -> Ints | None:
    """The values of a column of whole numbers, dates, times, booleans or short decimals as int64, with 0 for NULL.

    A decimal is its unscaled number. Nothing is given for other types, and for decimals that need more than 64 bits.
    """
    if _is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    elif types.is_boolean(array.type):
        array = array.cast(pa.int8())
    kind = array.type
    if not (types.is_decimal128(kind) or types.is_integer(kind)) or types.is_uint64(kind):
        return None
    array = zero_for_null(array)
    if types.is_decimal128(kind):
        low, high = decimal_words(array)
        return low if np.array_equal(high, low >> 63) else None
    return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def zero_for_null(array: pa.Array) -> pa.Array:
    """A column of numbers with 0 where it is NULL."""
    return array.fill_null(pa.scalar(Decimal(0), array.type) if types.is_decimal(array.type) else 0)


def decimal_words(array: pa.Array) -> tuple[Ints, Ints]:
    """The low and the high 64 bits of a decimal128 column, whatever stands in for NULL."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    words = np.frombuffer(buffer, dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    return words[0::2].copy(), words[1::2].copy()


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def list_parts(array: pa.Array) -> tuple[pa.Array, Ints]:
    """The elements of a column of lists or maps below one another, and how many each has; NULL has none."""
    kind = array.type
    if types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, nullable=False), pa.field("value", kind.item_type)])
        array = array.cast(pa.list_(entry))
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    return pc.list_flatten(array), lengths.astype(np.int64)


def _is_temporal(kind: pa.DataType) -> bool:
    return bool(types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind))


def is_cheap(kind: pa.DataType) -> bool:
    """Whether rows are told apart by a column of this type without hashing bytes."""
    fixed = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind)
    return bool(fixed or _is_temporal(kind))


def _all(columns: Sequence[pa.ChunkedArray | pa.Array], rows: int) -> tuple[Ints, int]:
    """Dense numbers of the rows by all of some columns, and how many there are."""
    ids, room = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        found, kinds = _encode(column)
        if kinds <= 1:
            continue
        if kinds == rows:
            return _dense(found, kinds)
        if room * kinds > _ROOM:
            ids, room = _dense(ids, room)
            if room == rows:
                return ids, room
        ids, room = (ids * kinds + found, room * kinds) if room > 1 else (found, kinds)
    return _dense(ids, room)


def _dense(ids: Ints, room: int) -> tuple[Ints, int]:
    """Codes below `room` numbered again by first appearance, and how many there are."""
    rows = len(ids)
    if not rows:
        return ids, 0
    if room > 4 * rows + 1024:
        # Combined codes lie in patterns that Arrow's hash table is slow on; shuffled by an odd factor they do not.
        mixed = ids * _ODD
        mixed ^= mixed >> 32
        encoded = pa.array(mixed).dictionary_encode()
        return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
    # Few codes: a table of where each is first seen is quicker than hashing.
    first = np.full(room, rows, dtype=np.int64)
    first[ids[::-1]] = np.arange(rows - 1, -1, -1)
    leader = np.zeros(rows, dtype=np.bool_)
    leader[first[first < rows]] = True
    rank = np.cumsum(leader) - 1
    return rank[first[ids]], int(rank[-1]) + 1


def _encode(column: pa.ChunkedArray | pa.Array) -> tuple[Ints, int]:
    """Codes of one column, and how many there are or a bound of it that is not the number of rows."""
    kind = column.type
    if types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64), 1
    if types.is_dictionary(kind):
        return _encode(column.cast(kind.value_type))
    if types.is_nested(kind):
        return _encode_nested(plain(column))
    if types.is_floating(kind):
        column = float_bits(plain(column))
    else:
        near = _encode_range(column)
        if near is not None:
            return near
    return _encode_by_hash(column)


def _encode_by_hash(column: pa.ChunkedArray | pa.Array) -> tuple[Ints, int]:
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    encoded = column.dictionary_encode(null_encoding="encode")
    if not encoded.num_chunks:
        return np.zeros(0, dtype=np.int64), 0
    found = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return found.astype(np.int64), len(encoded.chunk(encoded.num_chunks - 1).dictionary)


def _encode_range(column: pa.ChunkedArray | pa.Array) -> tuple[Ints, int] | None:
    """Whole numbers that lie close together are their own codes."""
    kind = column.type
    if not (types.is_decimal128(kind) or (is_cheap(kind) and not types.is_floating(kind))):
        return None
    array = plain(column)
    values = whole_numbers(array)
    if values is None:
        return None
    if not len(values):
        return values, 0
    low, high = int(values.min()), int(values.max())
    if high - low >= 4 * len(values) + 1024:
        return _encode_by_hash(pa.array(values, mask=nulls(array)) if array.null_count else pa.array(values))
    found = values - low + 1
    found[nulls(array)] = 0
    # A bound is never the number of rows, so that where they are equal all rows are known to differ.
    return found, max(high - low + 2, len(values) + 1)


def float_bits(array: pa.Array) -> pa.Array:
    """Floats as whole numbers of their bits, with one zero and one NaN."""
    if types.is_float16(array.type):
        array = array.cast(pa.float32())
    values = array.to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int32 if values.dtype == np.float32 else np.int64)
    return pa.array(bits, mask=nulls(array)) if array.null_count else pa.array(bits)


def _encode_nested(array: pa.Array) -> tuple[Ints, int]:
    """Lists are told apart by the codes of their elements, structs by those of their fields."""
    kind = array.type
    missing = nulls(array)
    if types.is_struct(kind):
        found, kinds = _all([pa.array(missing), *array.flatten()], len(array))
        return found, kinds
    elements, lengths = list_parts(array)
    parts = _all([elements], len(elements))[0]
    if types.is_map(kind):
        owner = np.repeat(np.arange(len(array)), lengths)
        parts = parts[np.lexsort((parts, owner))]
    ends = np.cumsum(lengths) * parts.itemsize
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    spelled = pa.Array.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(parts))]
    )
    found, kinds = _encode_by_hash(spelled)
    # An empty list and NULL are spelled alike.
    found[missing] = kinds
    return found, max(kinds, len(array)) + 1
