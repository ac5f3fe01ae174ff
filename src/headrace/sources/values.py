"""One value from text: the slow path's readers, and so the definition of what each type may look like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal

import pyarrow as pa

from headrace.sources.column_types import ddl_type
from headrace.sources.line_types import LineError, Number, show, wrong
from headrace.sources.spellings import (
    BLANKS,
    DATE,
    EPOCH,
    FALSE,
    FIRST_MICRO,
    LAST_MICRO,
    NONFINITE,
    NUMBER,
    TIMESTAMP,
    TRUE,
)

_WIDE = Context(prec=1000)
_number = re.compile(NUMBER)
nonfinite = re.compile(NONFINITE)
_integer = re.compile(r"([+-]?)0*([0-9]+)")
_date = re.compile(DATE)
_timestamp = re.compile(TIMESTAMP)


def from_text(kind: pa.DataType) -> Callable[[str], object]:
    """How a CSV field, or a JSON number or string, becomes a value `pa.array` takes for this simple type."""
    name = ddl_type(kind)
    if kind == pa.string():
        return unicode
    if kind == pa.binary():
        return lambda text: unicode(text).encode()
    if pa.types.is_boolean(kind):
        return _boolean_of
    if pa.types.is_integer(kind):
        top = 1 << (kind.bit_width - 1)
        return lambda text: _integer_of(text, top, name)
    if pa.types.is_floating(kind):
        return lambda text: _float_of(text, kind, name)
    if pa.types.is_decimal(kind):
        return lambda text: _decimal_of(text, kind.precision, kind.scale, name)
    return _days_of if pa.types.is_date(kind) else lambda text: _micros_at(text, name)


def _boolean_of(text: str) -> bool:
    word = text.strip(BLANKS).lower()
    if word not in TRUE and word not in FALSE:
        raise wrong("BOOLEAN (true or false)", text)
    return word in TRUE


def unicode(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise LineError("half of a surrogate pair is not a character") from None
    return str(text)


def _integer_of(text: str, top: int, name: str) -> int:
    match = _integer.fullmatch(text.strip(BLANKS))
    if match is None:
        raise wrong(name, text)
    value = int(match[1] + match[2]) if len(match[2]) <= 20 else None
    if value is None or not -top <= value < top:
        raise LineError(f"{show(Number(text))} is out of range for {name} ({-top} to {top - 1})")
    return value


def _float_of(text: str, kind: pa.DataType, name: str) -> float:
    text_only = text.strip(BLANKS)
    if nonfinite.fullmatch(text_only):
        return float(text_only)
    if not _number.fullmatch(text_only):
        raise wrong(name, text)
    # A FLOAT is rounded once, from the digits; by way of a double it would be rounded twice.
    value = float(text_only) if kind == pa.float64() else pa.scalar(text_only).cast(kind).as_py()
    if math.isinf(value):
        raise LineError(f"{show(Number(text))} is out of range for {name}")
    return float(value)


def _decimal_of(text: str, precision: int, scale: int, name: str) -> Decimal:
    value = _exact(text)
    if value is None:
        raise wrong(name, text)
    if not value:
        return Decimal(0)
    _, digits, exponent = value.as_tuple()
    trailing = next(place for place, digit in enumerate(reversed(digits)) if digit)
    places = -int(exponent) - trailing
    if value.adjusted() >= precision - scale:
        whole = precision - scale
        raise LineError(f"{show(Number(text))} has too many digits for {name} (at most {whole} before the point)")
    if places > scale:
        raise LineError(f"{show(Number(text))} has too many digits for {name} (at most {scale} after the point)")
    return value.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _exact(text: str) -> Decimal | None:
    text = text.strip(BLANKS)
    if not _number.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent beyond any type's
        return Decimal("1e9999")


def _days_of(text: str) -> int:
    match = _date.fullmatch(text.strip(BLANKS))
    try:
        if match is not None:
            return date(int(match[1]), int(match[2]), int(match[3])).toordinal() - EPOCH
    except ValueError:
        pass
    raise LineError(f"expected DATE such as 2015-01-31, got {show(text)}")


def _micros_at(text: str, name: str) -> int:
    micros = _micros_of_number(text) if _number.fullmatch(text.strip(BLANKS)) else _micros_of_words(text)
    if micros is None:
        raise LineError(f"expected {name} such as 2015-01-31 10:00:00, got {show(text)}")
    if not FIRST_MICRO <= micros <= LAST_MICRO:
        raise LineError(f"{show(Number(text))} is out of range for {name} (years 1 to 9999)")
    return micros


def _micros_of_number(text: str) -> int:
    seconds = _exact(text)
    if not seconds:
        return 0
    if seconds.adjusted() > 12:
        return LAST_MICRO + 1
    if seconds.adjusted() < -6:  # nearer to zero than a microsecond
        return -1 if seconds < 0 else 0
    return math.floor(_WIDE.scaleb(seconds, 6))


def _micros_of_words(text: str) -> int | None:
    match = _timestamp.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    whole = (moment.toordinal() - EPOCH) * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    offset = (int(zone_hour or 0) * 60 + int(zone_minute or 0)) * 60
    whole += offset if sign == "-" else -offset
    return whole * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))
