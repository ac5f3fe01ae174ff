"""Sums of whole numbers and decimals that are exact or fail, never wrapped and never rounded.

A column is split into limbs of 32 bits, each kept in an int64: a limb can be added two thousand million times before
it overflows, so sums and running sums are plain NumPy. Where the values are small enough to prove that no sum can
overflow, which is nearly always, there is one limb, the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from headrace.storage.identity import Ints, decimal_words, plain, whole_numbers, zero_for_null

_LOW = 0xFFFFFFFF
_TOP = 1 << 63
#: Limbs are int64, or Python's own numbers where even limbs could overflow.
Limb = npt.NDArray[Any]


@dataclass(frozen=True)
class Exact:
    """Numbers, each the sum of its limbs, where limb i counts 2 to the power 32 i."""

    limbs: tuple[Limb, ...]

    @staticmethod
    def of(column: pa.ChunkedArray | pa.Array, terms: int) -> Exact:
        """The numbers of a column, NULL as 0, for sums of at most `terms` of them (counting multiplicity)."""
        array = plain(column)
        kind = array.type
        if types.is_decimal(kind) and not types.is_decimal128(kind):
            array = array.cast(pa.decimal128(38, kind.scale))
        elif not (types.is_decimal(kind) or types.is_integer(kind)):
            raise TypeError(f"Sums of {kind} are not exact.")
        values = whole_numbers(array)
        if values is not None and _bound(values) * max(terms, 1) < _TOP:
            return Exact((values,))
        if max(terms, 1) * (_LOW + 1) >= _TOP:
            return Exact((_python_numbers(array),))
        if values is not None:
            return Exact((values & _LOW, values >> 32))
        if types.is_uint64(kind):
            array = array.cast(pa.decimal128(20, 0))
        low, high = decimal_words(zero_for_null(array))
        return Exact((low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32))

    def take(self, where: Ints) -> Exact:
        return self._each(lambda limb: limb[where])

    def times(self, weights: Ints) -> Exact:
        """Each number multiplied; `terms` must have counted the weights."""
        return self._each(lambda limb: limb * (weights.astype(object) if limb.dtype == object else weights))

    def sums(self, ids: Ints, count: int) -> Exact:
        """The sum of the numbers of each id below `count`."""

        def added(limb: Limb) -> Limb:
            total = np.zeros(count, dtype=limb.dtype)
            np.add.at(total, ids, limb)
            return total

        return self._each(added)

    def running(self, starts: Ints, segments: Ints) -> Exact:
        """Running sums that begin anew at each of `starts`; `segments` says which one a position lies in."""

        def added(limb: Limb) -> Limb:
            total = np.cumsum(limb)
            return total - (total[starts] - limb[starts])[segments]

        return self._each(added)

    def plus(self, other: Exact) -> Exact:
        """Sums by position. Both must come from the same column, so that their limbs are alike."""
        return Exact(tuple(mine + theirs for mine, theirs in zip(self.limbs, other.limbs, strict=True)))

    def minus(self, other: Exact) -> Exact:
        """Differences by position, of numbers of the same column."""
        return Exact(tuple(mine - theirs for mine, theirs in zip(self.limbs, other.limbs, strict=True)))

    def arrow(self, kind: pa.DataType) -> pa.Array:
        """The numbers as a column; ArithmeticError where one does not fit the type."""
        if types.is_decimal128(kind):
            return _decimals(*self._words(), kind)
        if not types.is_integer(kind):
            raise TypeError(f"Sums of {kind} are not exact.")
        low, high = self._words()
        _check(bool(np.array_equal(high, low >> 63)), kind)
        if kind != pa.int64() and len(low):
            info = np.iinfo(kind.to_pandas_dtype())
            _check(bool(low.min() >= info.min and low.max() <= info.max), kind)
        return pa.array(low).cast(kind)

    def _each(self, function: Callable[[Limb], Limb]) -> Exact:
        return Exact(tuple(function(limb) for limb in self.limbs))

    def _words(self) -> tuple[Ints, Ints]:
        """Low and high 64 bits of each number; ArithmeticError beyond 128."""
        if self.limbs[0].dtype == object:
            _check(all(-(1 << 127) <= value < 1 << 127 for value in self.limbs[0]), "128 bits")
            low = [value & (2 * _TOP - 1) for value in self.limbs[0]]
            high = [value >> 64 for value in self.limbs[0]]
            return np.array(low, dtype=np.uint64).view(np.int64), np.array(high, dtype=np.int64)
        if len(self.limbs) == 1:
            return self.limbs[0], self.limbs[0] >> 63
        carry = np.zeros(len(self.limbs[0]), dtype=np.int64)
        digits = []
        for limb in self.limbs:
            total = limb + carry
            digits.append(total & _LOW)
            carry = total >> 32
        # Beyond the last limb the carry is the sign, or what overflowed.
        while len(digits) < 4:
            digits.append(carry & _LOW)
            carry = carry >> 32
        _check(bool(np.array_equal(carry, -(digits[3] >> 31))), "128 bits")
        return digits[0] | (digits[1] << 32), digits[2] | (digits[3] << 32)


def _bound(values: Ints) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0


def _python_numbers(array: pa.Array) -> Limb:
    scale = array.type.scale if types.is_decimal(array.type) else 0
    out = np.empty(len(array), dtype=object)
    for place, value in enumerate(array.to_pylist()):
        out[place] = 0 if value is None else int(value) if not scale else _unscaled(value, scale)
    return out


def _unscaled(value: Any, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)) or "0") * 10 ** (exponent + scale)
    return -number if sign else number


def _decimals(low: Ints, high: Ints, kind: pa.DataType) -> pa.Array:
    most = 10**kind.precision - 1
    negative = high < 0
    # The magnitude of a negative number: flip the bits and add one.
    size_low = np.where(negative, ~low + 1, low).view(np.uint64)
    size_high = np.where(negative, ~high + (low == 0), high)
    most_low, most_high = np.uint64(most & (2 * _TOP - 1)), most >> 64
    over = (size_high > most_high) | ((size_high == most_high) & (size_low > most_low)) | (size_high < 0)
    _check(not over.any(), kind)
    words = np.empty(2 * len(low), dtype=np.int64)
    words[0::2], words[1::2] = low, high
    return pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(words)])


def _check(fits: bool, kind: object) -> None:
    if not fits:
        raise ArithmeticError(f"A sum does not fit {kind}.")
