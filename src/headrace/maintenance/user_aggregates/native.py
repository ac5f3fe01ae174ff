"""What programs of aggregates are written in terms of, over arrays, for numba to make machine code of.

`plain.py` has the same over lists. Both must agree on every function.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_LEAST = -(2**63)


@njit(cache=True)
def _fit(array, place):  # type: ignore[no-untyped-def]
    if place < len(array):
        return array
    wider = np.empty(max(2 * len(array), place + 1), array.dtype)
    wider[: len(array)] = array
    return wider


@njit(cache=True)
def _ints(room):  # type: ignore[no-untyped-def]
    return np.empty(room, np.int64)


@njit(cache=True)
def _floats(room):  # type: ignore[no-untyped-def]
    return np.empty(room, np.float64)


@njit(cache=True)
def _bools(room):  # type: ignore[no-untyped-def]
    return np.zeros(room, np.bool_)


@njit(cache=True)
def _sized(array, _count):  # type: ignore[no-untyped-def]
    return array


@njit(cache=True)
def _zeros(count):  # type: ignore[no-untyped-def]
    return np.zeros(count, np.int64)


@njit(cache=True)
def _range(count):  # type: ignore[no-untyped-def]
    return np.arange(count)


@njit(cache=True)
def _loaded(array, source, first, count):  # type: ignore[no-untyped-def]
    if count > len(array):
        array = np.empty(2 * count, array.dtype)
    array[:count] = source[first : first + count]
    return array


@njit(cache=True)
def _saved(to, at, array, first, last):  # type: ignore[no-untyped-def]
    needed = at + last - first
    if needed > len(to):
        wider = np.empty(max(2 * len(to), needed), to.dtype)
        wider[:at] = to[:at]
        to = wider
    to[at:needed] = array[first:last]
    return to


@njit(cache=True)
def _shift(array, first, last):  # type: ignore[no-untyped-def]
    for place in range(first, last):
        array[place - first] = array[place]


@njit(cache=True)
def _add(one, two):  # type: ignore[no-untyped-def]
    found = np.int64(one) + np.int64(two)
    if ((one ^ found) & (two ^ found)) < 0:
        raise OverflowError
    return found


@njit(cache=True)
def _subtract(one, two):  # type: ignore[no-untyped-def]
    found = np.int64(one) - np.int64(two)
    if ((one ^ two) & (one ^ found)) < 0:
        raise OverflowError
    return found


@njit(cache=True)
def _multiply(one, two):  # type: ignore[no-untyped-def]
    one, two = np.int64(one), np.int64(two)
    found = one * two
    if (abs(one) | abs(two)) >> 31 != 0 and one != 0 and (found // one != two or (one == -1 and two == _LEAST)):
        raise OverflowError
    return found


@njit(cache=True)
def _divide(one, two):  # type: ignore[no-untyped-def]
    return two if two == 0 else one / two


@njit(cache=True)
def _modulo(one, two):  # type: ignore[no-untyped-def]
    if two == 0:
        return two
    rest = abs(one) % abs(two)
    return -rest if one < 0 else rest


@njit(cache=True)
def _whole_divide(one, two):  # type: ignore[no-untyped-def]
    if two == 0:
        return np.int64(0)
    whole = np.int64(abs(one) // abs(two))
    return whole if (one < 0) == (two < 0) else -whole


@njit(cache=True)
def _bounded(value, most):  # type: ignore[no-untyped-def]
    if value < -most or value >= most:
        raise OverflowError
    return value


@njit(cache=True)
def _truncated(value):  # type: ignore[no-untyped-def]
    if not (-9223372036854775808.0 <= value < 9223372036854775808.0):
        raise OverflowError
    return np.int64(value)


@njit(cache=True)
def _single(value):  # type: ignore[no-untyped-def]
    return np.float64(np.float32(value))


@njit(cache=True)
def _seconds(value):  # type: ignore[no-untyped-def]
    return np.int64(np.floor(value * 1_000_000 + 0.5))


@njit(cache=True)
def _sqrt(value):  # type: ignore[no-untyped-def]
    return math.sqrt(value) if value >= 0 else math.nan


@njit(cache=True)
def _exp(value):  # type: ignore[no-untyped-def]
    return math.inf if value > 709.782712893384 else math.exp(value)


@njit(cache=True)
def _log(value):  # type: ignore[no-untyped-def]
    return math.log(value) if value > 0 else 0.0


@njit(cache=True)
def _log2(value):  # type: ignore[no-untyped-def]
    return math.log2(value) if value > 0 else 0.0


@njit(cache=True)
def _log10(value):  # type: ignore[no-untyped-def]
    return math.log10(value) if value > 0 else 0.0


@njit(cache=True)
def _power(one, two):  # type: ignore[no-untyped-def]
    if one == 0.0 and two < 0:
        return math.inf
    return one**two


@njit(cache=True)
def _floor(value):  # type: ignore[no-untyped-def]
    return _truncated(np.floor(value))


@njit(cache=True)
def _ceil(value):  # type: ignore[no-untyped-def]
    return _truncated(np.ceil(value))


@njit(cache=True)
def _round_real(value, places):  # type: ignore[no-untyped-def]
    if value != value or math.isinf(value):
        return value
    scale = 10.0**places
    return math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value)


@njit(cache=True)
def _round(value, places):  # type: ignore[no-untyped-def]
    return _round_real(np.float64(value), places)


@njit(cache=True)
def _round_whole(value, places):  # type: ignore[no-untyped-def]
    if places >= 0:
        return np.int64(value)
    if places < -18:
        return np.int64(0)
    scale = np.int64(10) ** np.int64(-places)
    whole = _multiply(_add(abs(value), scale // 2) // scale, scale)
    return -whole if value < 0 else whole


@njit(cache=True)
def _above(one, two):  # type: ignore[no-untyped-def]
    return one > two or (one != one and two == two)


@njit(cache=True)
def _hash(value, seed):  # type: ignore[no-untyped-def]
    mixed = np.uint64(np.int64(value)) + np.uint64(np.int64(seed) + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(mixed ^ (mixed >> np.uint64(31)))
