"""What programs of aggregates are written in terms of, over Python's lists and numbers: for values of every kind.

`native.py` has the same for machine code. Both must agree on every function.
"""

from __future__ import annotations

import hashlib
import math
import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

_MOST = 2**63
_MASK = 2**64 - 1
_ZERO = Decimal(0)
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
_REAL = re.compile(
    r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*|\s*[+-]?(inf|infinity|nan)\s*", re.IGNORECASE
)


def _fit(array: list[Any], place: int) -> list[Any]:
    if place >= len(array):
        array.append(None)
    return array


def _ints(_room: int) -> list[Any]:
    return []


_floats = _bools = _objects = _ints


def _sized(_array: list[Any], count: int) -> list[Any]:
    """An array with a place for each of so many: a new list has none before something is put at its end."""
    return [None] * count


def _zeros(count: int) -> list[int]:
    return [0] * count


def _range(count: int) -> list[int]:
    return list(range(count))


def _loaded(_array: list[Any], source: list[Any], first: int, count: int) -> list[Any]:
    return source[first : first + count]


def _saved(to: list[Any], at: int, array: list[Any], first: int, last: int) -> list[Any]:
    to[at:] = array[first:last]
    return to


def _shift(array: list[Any], first: int, last: int) -> None:
    array[: last - first] = array[first:last]


def _checked(value: int) -> int:
    if not -_MOST <= value < _MOST:
        raise OverflowError
    return value


def _add(one: int, two: int) -> int:
    return _checked(one + two)


def _subtract(one: int, two: int) -> int:
    return _checked(one - two)


def _multiply(one: int, two: int) -> int:
    return _checked(one * two)


def _divide(one: Any, two: Any) -> Any:
    return two if two == 0 else one / two


def _modulo(one: Any, two: Any) -> Any:
    if two == 0:
        return two
    if isinstance(one, float):
        return math.nan if math.isinf(one) else math.fmod(one, two)
    rest = abs(one) % abs(two)
    return -rest if one < 0 else rest


def _whole_divide(one: Any, two: Any) -> int:
    if two == 0:
        return 0
    whole = _truncated(abs(one) // abs(two))
    return whole if (one < 0) == (two < 0) else -whole


def _bounded(value: int, most: int) -> int:
    if not -most <= value < most:
        raise OverflowError
    return value


def _truncated(value: Any) -> int:
    if value != value or value in (math.inf, -math.inf):
        raise OverflowError
    return _checked(int(value))


def _single(value: Any) -> float:
    return float(np.float32(value))


def _scaled(value: Any, precision: int, scale: int) -> Decimal:
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    found = exact.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    if found.adjusted() >= precision - scale and found:
        raise OverflowError
    return found


def _exact(text: str) -> Decimal:
    return Decimal(text)


def _decimal(value: int) -> Decimal:
    return Decimal(value)


def _seconds(value: Any) -> int:
    return math.floor(value * 1_000_000 + (0 if isinstance(value, int) else 0.5))


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _log(value: float) -> float:
    return math.log(value) if value > 0 else 0.0


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else 0.0


def _log10(value: float) -> float:
    return math.log10(value) if value > 0 else 0.0


def _power(one: float, two: float) -> float:
    try:
        found = one**two
    except OverflowError:
        return math.inf
    except ZeroDivisionError:
        return math.inf
    return math.nan if isinstance(found, complex) else found


def _floor(value: Any) -> int:
    return _truncated(value if value != value or math.isinf(value) else math.floor(value))


def _ceil(value: Any) -> int:
    return _truncated(value if value != value or math.isinf(value) else math.ceil(value))


def _round(value: Any, places: int) -> Any:
    """Half away from zero, as Spark rounds."""
    if isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    scale = 10.0**places
    if isinstance(value, int):
        return value if places >= 0 else int(math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value))
    if value != value or math.isinf(value):
        return value
    return math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value)


def _round_whole(value: int, places: int) -> int:
    if places >= 0:
        return value
    scale = 10**-places
    whole = (abs(value) + scale // 2) // scale * scale
    return _checked(-whole if value < 0 else whole)


def _above(one: float, two: float) -> bool:
    return one > two or (one != one and two == two)


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None


def _whole_of(text: str) -> int:
    return _checked(int(text)) if _is_whole(text) else 0


def _is_real(text: str) -> bool:
    return _REAL.fullmatch(text) is not None


def _real_of(text: str) -> float:
    return float(text) if _is_real(text) else 0.0


def _hash(value: int, seed: int) -> int:
    """Steele, Lea and Flood's SplitMix64 of the value and the seed."""
    mixed = (int(value) + (int(seed) + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    mixed ^= mixed >> 31
    return mixed - 2**64 if mixed >= _MOST else mixed


def _hash_text(value: str | bytes, seed: int) -> int:
    raw = value.encode() if isinstance(value, str) else value
    return _hash(int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little"), seed)


def _substring(text: str, start: int, length: int | None = None) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if length is None else first + max(0, length)
    return text[max(0, first) : max(0, last)]


def _as_text(value: Any, kind: str) -> str:
    if kind == "bool":
        return "true" if value else "false"
    if kind == "time":
        return str(np.datetime64(value, "us")).replace("T", " ").removesuffix(".000000")
    if kind == "date":
        return str(np.datetime64(value, "D"))
    return str(value)
