"""The hash of a key, as the engines compute it: Spark's `xxhash64`, of whole columns at a time.

States are filled by an engine and looked up here, so both must agree to the last bit (`operators.base.hash_sql` is the
same in SQL). What is not known to be the same on every engine is left to the engine (`can_hash`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.storage.identity import Ints, float_bits, nulls, plain, whole_numbers

Words = npt.NDArray[np.uint64]

#: Decimals of more digits are hashed as text: a long number cannot hold them, and engines differ about their bytes.
MOST_DIGITS = 18
#: Decimals with none but zeros in so many places are hashed as "0": whether these are written with an exponent depends
#: on the engine and its settings.
TINY_PLACES = 6
TINY = Decimal(1).scaleb(-TINY_PLACES)
_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def can_hash(kinds: Iterable[pa.DataType]) -> bool:
    """Whether a key of columns of these types can be hashed here."""
    return all(_is_int(kind) or _is_long(kind) or _is_text(kind) or _is_wide(kind) for kind in kinds)


def hashes(table: pa.Table, key: Sequence[str]) -> Ints:
    """The hash of each row's key; without a key, 0."""
    if not key or not table.num_rows:
        return np.zeros(table.num_rows, dtype=np.int64)
    found = np.full(table.num_rows, _SEED, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for name in key:
            column = plain(table.column(name))
            made = _of_column(column, found)
            # NULL leaves the hash as it is.
            found = np.where(nulls(column), found, made) if column.null_count else made
    return found.view(np.int64)


def _is_int(kind: pa.DataType) -> bool:
    small = types.is_integer(kind) and kind.bit_width <= 32 and types.is_signed_integer(kind)
    return bool(small or types.is_date32(kind) or types.is_boolean(kind) or types.is_float32(kind))


def _is_long(kind: pa.DataType) -> bool:
    whole = types.is_int64(kind) or (types.is_timestamp(kind) and kind.unit == "us")
    narrow = types.is_decimal128(kind) and kind.precision <= MOST_DIGITS
    return bool(whole or types.is_float64(kind) or narrow)


def _is_wide(kind: pa.DataType) -> bool:
    return bool(types.is_decimal128(kind) and kind.precision > MOST_DIGITS)


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _of_column(column: pa.Array, seed: Words) -> Words:
    if _is_text(column.type):
        return _of_text(column, seed)
    if _is_wide(column.type):
        return _of_text(_written(column), seed)
    # Zeros are one value, and so is what is no number, as in the engines' own joins and groups.
    values = whole_numbers(float_bits(column) if types.is_floating(column.type) else column)
    assert values is not None
    if _is_int(column.type):
        return _finished(_round_4(seed + _P5 + np.uint64(4), values.view(np.uint64) & np.uint64(0xFFFFFFFF)))
    return _finished(_round_8(seed + _P5 + np.uint64(8), values.view(np.uint64)))


def _written(column: pa.Array) -> pa.Array:
    """Decimals as text."""
    text = pc.cast(column, pa.large_string())
    if column.type.scale <= TINY_PLACES:
        return text
    return pc.if_else(pc.less(pc.abs(column), pa.scalar(TINY, column.type)), "0", text)


def _of_text(column: pa.Array, seed: Words) -> Words:
    """Texts of one length are hashed together: the steps a hash takes depend on the length alone."""
    column = column.cast(pa.large_binary())
    buffers = column.buffers()
    ends = np.frombuffer(buffers[1], dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(buffers[2], dtype=np.uint8) if buffers[2] is not None else np.empty(0, dtype=np.uint8)
    lengths = np.diff(ends)
    found = np.empty(len(column), dtype=np.uint64)
    order = np.argsort(lengths, kind="stable")
    kinds, starts = np.unique(lengths[order], return_index=True)
    for length, mine in zip(kinds, np.split(order, starts[1:]), strict=True):
        # A row of the matrix is a text.
        matrix = data[ends[mine][:, None] + np.arange(length)]
        found[mine] = _of_bytes(matrix, seed[mine])
    return found


def _of_bytes(matrix: npt.NDArray[np.uint8], seed: Words) -> Words:
    length = matrix.shape[1]
    at = 0
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
        while at <= length - 32:
            for number in range(4):
                lanes[number] = _mixed(lanes[number], _words(matrix, at + 8 * number, 8))
            at += 32
        found = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12) + _rotated(lanes[3], 18)
        for lane in lanes:
            found = (found ^ _mixed(np.zeros_like(seed), lane)) * _P1 + _P4
    else:
        found = seed + _P5
    found = found + np.uint64(length)
    while at <= length - 8:
        found = _round_8(found, _words(matrix, at, 8))
        at += 8
    if at <= length - 4:
        found = _round_4(found, _words(matrix, at, 4))
        at += 4
    for place in range(at, length):
        found = _rotated(found ^ (matrix[:, place].astype(np.uint64) * _P5), 11) * _P1
    return _finished(found)


def _words(matrix: npt.NDArray[np.uint8], at: int, width: int) -> Words:
    part = np.ascontiguousarray(matrix[:, at : at + width])
    return part.view(np.dtype(f"<u{width}")).reshape(-1).astype(np.uint64)


def _mixed(lane: Words, word: Words) -> Words:
    return _rotated(lane + word * _P2, 31) * _P1


def _round_8(found: Words, word: Words) -> Words:
    return _rotated(found ^ _mixed(np.zeros_like(found), word), 27) * _P1 + _P4


def _round_4(found: Words, word: Words) -> Words:
    return _rotated(found ^ (word * _P1), 23) * _P2 + _P3


def _rotated(values: Words, by: int) -> Words:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _finished(found: Words) -> Words:
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return found ^ (found >> np.uint64(32))
