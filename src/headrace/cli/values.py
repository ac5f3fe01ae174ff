"""One value of a result, as JSON and as text.

JSON has fewer types than SQL, so this is decided once, here: decimals are strings, because readers make floats of
numbers; NaN and the infinities are the strings ``NaN``, ``Infinity`` and ``-Infinity``, so that null always means NULL;
timestamps are ISO 8601 with Z, TIMESTAMP_NTZ without; dates are ISO; bytes are base64; intervals are ISO 8601
durations; structs are objects; maps are objects where their keys are strings, else lists of [key, value].
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]


def json_columns(table: pa.Table) -> list[list[Any]]:
    """The columns of a table, each as a list of values that `json.dumps` takes as they are."""
    return [_converted(column.to_pylist(), _converter(column.type)) for column in table.columns]


def json_value(value: Any) -> Any:
    """A Python value whose SQL type is not known."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, dict):
        return {str(key): json_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    return _scalar(value)


def text_of(value: Any) -> str:
    """A JSON value as a cell of CSV or of a table; NULL is for the caller to show."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _converted(values: Sequence[Any], convert: Convert | None) -> list[Any]:
    if convert is None:
        return list(values)
    return [None if value is None else convert(value) for value in values]


def _converter(kind: pa.DataType) -> Convert | None:
    """How values of an Arrow type become JSON; None: they are already."""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind) or _is_text(kind):
        return None
    if pa.types.is_floating(kind):
        return _float
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _converter(kind.value_type)
        return lambda values: _converted(values, inner)
    return _scalar


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _struct(kind: pa.DataType) -> Convert:
    inner = {kind.field(number).name: _converter(kind.field(number).type) for number in range(kind.num_fields)}
    return lambda value: {name: _converted([value[name]], convert)[0] for name, convert in inner.items()}


def _map(kind: pa.DataType) -> Convert:
    key, item = _converter(kind.key_type), _converter(kind.item_type)

    def pairs(value: Any) -> list[list[Any]]:
        return [[_converted([left], key)[0], _converted([right], item)[0]] for left, right in value]

    return (lambda value: dict(pairs(value))) if _is_text(kind.key_type) else pairs


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        zoned = value.tzinfo is not None
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if zoned else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def _duration(value: timedelta) -> str:
    """ISO 8601, in days and seconds: ``P1DT3600S``, ``PT-0.5S``."""
    micros = value // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    shown = f"{sign}{seconds}" + (f".{fraction:06d}".rstrip("0") if fraction else "")
    day_text = f"{sign}{days}D" if days else ""
    return f"P{day_text}" + (f"T{shown}S" if seconds or fraction or not days else "")
