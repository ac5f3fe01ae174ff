"""Points and lengths of time: text and numbers to microseconds and back.

A number means seconds: since the epoch where a point is meant, a length where a length is meant. Without a zone, UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from headrace.errors import LanguageError

MICROS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS: dict[str, int] = {}
for _micros, _names in (
    (1, "microsecond microseconds us"),
    (1_000, "millisecond milliseconds ms"),
    (MICROS, "second seconds sec secs s"),
    (60 * MICROS, "minute minutes min mins"),
    (3600 * MICROS, "hour hours h hr hrs"),
    (86400 * MICROS, "day days d"),
    (7 * 86400 * MICROS, "week weeks"),
):
    for _name in _names.split():
        _UNITS[_name] = _micros

UNIT_NAMES = frozenset(_UNITS)

_POINT = re.compile(
    r"(?P<y>\d{4})[-/](?P<mo>\d{1,2})[-/](?P<d>\d{1,2})"
    r"(?:[T ]+(?P<h>\d{1,2})(?::(?P<mi>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<f>\d{1,9}))?)?)?)?"
    r"\s*(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_LENGTH = re.compile(
    r"\s*(?:INTERVAL\b\s*)?'?\s*(?P<n>[+-]?(?:\d+\.?\d*|\.\d+))\s*'?\s*(?P<unit>[A-Za-z]+)?\s*'?\s*", re.IGNORECASE
)


def is_unit(word: str) -> bool:
    """Whether a word names a unit of time, such as SECONDS or min."""
    return word.lower() in _UNITS


def parse_time(value: str | int | float | Decimal) -> int:
    """Microseconds since the epoch of a point in time.

    Examples
    --------
    >>> parse_time(3)
    3000000
    >>> parse_time("2015/01/01 0:00") == parse_time("2015-01-01T00:00:00Z") == parse_time(1420070400)
    True
    """
    if not isinstance(value, str):
        return _scaled(Decimal(str(value)), MICROS, str(value))
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return _scaled(Decimal(text), MICROS, value)
    found = _POINT.fullmatch(text)
    if not found:
        raise _bad_time(value)
    part = found.groupdict()
    try:
        point = datetime(
            int(part["y"]), int(part["mo"]), int(part["d"]),
            int(part["h"] or 0), int(part["mi"] or 0), int(part["s"] or 0),
            int((part["f"] or "0")[:6].ljust(6, "0")), tzinfo=UTC,
        )  # fmt: skip
    except ValueError:
        raise _bad_time(value) from None
    return (point - _EPOCH - _zone(part["zone"])) // timedelta(microseconds=1)


def _zone(text: str | None) -> timedelta:
    if text is None or text.upper() in ("Z", "UTC"):
        return timedelta()
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if text[0] == "-" else offset


def parse_duration(value: str | int | float | Decimal) -> int:
    """Microseconds of a length of time.

    Examples
    --------
    >>> parse_duration(10) == parse_duration("10 SECONDS") == parse_duration("INTERVAL '10' SECOND")
    True
    """
    if not isinstance(value, str):
        return _scaled(Decimal(str(value)), MICROS, str(value))
    found = _LENGTH.fullmatch(value)
    unit = _UNITS.get((found.group("unit") or "second").lower()) if found else None
    if found is None or unit is None:
        raise LanguageError(
            "BAD_DURATION",
            f"'{value}' is not a length of time.",
            hint="Write a number of seconds, or a number and a unit: 10, '10 SECONDS', 5 MINUTES, INTERVAL 7 DAYS.",
        )
    return _scaled(Decimal(found.group("n")), unit, value)


def _scaled(number: Decimal, unit: int, shown: str) -> int:
    try:
        micros = number * unit
        whole = int(micros.to_integral_value())
    except (InvalidOperation, ValueError, OverflowError):
        raise _bad_time(shown) from None
    if whole != micros:
        raise LanguageError("BAD_TIME", f"'{shown}' is finer than a microsecond.", hint="Round it to microseconds.")
    return whole


def _bad_time(shown: str) -> LanguageError:
    return LanguageError(
        "BAD_TIME",
        f"'{shown}' is not a point in time.",
        hint="Write seconds since 1970 (3, 1420070400.5) or a timestamp ('2015-01-01 10:00', '2015-01-01T10:00:00Z').",
    )


def format_time(micros: int) -> str:
    """ISO 8601 in UTC, with fractions only where there are any: ``2015-01-01T00:00:00Z``."""
    point = _EPOCH + timedelta(microseconds=micros)
    return point.strftime("%Y-%m-%dT%H:%M:%S") + (f".{point.microsecond:06d}" if point.microsecond else "") + "Z"


def format_seconds(micros: int) -> str:
    """Microseconds as a number of seconds, exact: ``3``, ``3.5``."""
    sign = "-" if micros < 0 else ""
    whole, rest = divmod(abs(micros), MICROS)
    return f"{sign}{whole}" + (f".{rest:06d}".rstrip("0") if rest else "")


def format_duration(micros: int) -> str:
    """A length as statements print it: ``10 SECONDS``."""
    return f"{format_seconds(micros)} SECONDS"
