"""Rows as people hold them (dicts, tuples, pandas, Arrow) into Arrow tables of declared columns.

A value that does not fit names its row and column, and nothing is taken in.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError, InputError
from headrace.language.times import parse_time
from headrace.language.types import arrow_type
from headrace.storage.records import Field


def to_table(rows: Any, fields: Sequence[Field], *, optional: Iterable[str] = ()) -> pa.Table:
    """An Arrow table with exactly the columns `fields`.

    Columns are matched by name without regard to case; sequences by position. A column in `optional` may be left out.
    """
    left_out = {name.lower() for name in optional}
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _from_arrow(rows, fields, left_out)
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        return _from_arrow(pa.Table.from_pandas(rows, preserve_index=False), fields, left_out)
    return _from_rows(list(rows), fields, left_out)


def _from_arrow(table: pa.Table, fields: Sequence[Field], left_out: set[str]) -> pa.Table:
    given = {name.lower(): index for index, name in enumerate(table.column_names)}
    _check_names(table.column_names, fields, left_out)
    columns = []
    for field in fields:
        wanted = arrow_type(field.type)
        if field.name.lower() not in given:
            columns.append(pa.nulls(table.num_rows, wanted))
            continue
        column = table.column(given[field.name.lower()])
        try:
            columns.append(_cast(column, wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            columns.append(_column(field, column.to_pylist()))
    return pa.table(columns, names=[field.name for field in fields])


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(column.type) and column.type.tz is None and wanted.tz:
        return column.cast(pa.timestamp("us")).cast(wanted)
    if pa.types.is_timestamp(wanted) and not pa.types.is_timestamp(column.type) and not pa.types.is_date(column.type):
        raise pa.ArrowInvalid("numbers and text are times by our own rules")
    return column.cast(wanted)


def _from_rows(rows: list[Any], fields: Sequence[Field], left_out: set[str]) -> pa.Table:
    values: list[list[Any]] = [[] for _ in fields]
    for number, row in enumerate(rows, 1):
        if hasattr(row, "asDict"):
            row = row.asDict()
        for target, value in zip(values, _aligned(row, number, fields, left_out), strict=True):
            target.append(value)
    columns = [_column(field, column) for field, column in zip(fields, values, strict=True)]
    return pa.table(columns, names=[field.name for field in fields])


def _aligned(row: Any, number: int, fields: Sequence[Field], left_out: set[str]) -> list[Any]:
    if isinstance(row, Mapping):
        _check_names(list(row), fields, left_out, number)
        given = {str(name).lower(): value for name, value in row.items()}
        return [given.get(field.name.lower()) for field in fields]
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        raise InputError(
            "BAD_ROW",
            f"Row {number} is {row!r}, which is neither a mapping nor a sequence of values.",
            hint=f"Give {{{', '.join(repr(field.name) + ': ...' for field in fields)}}} or a tuple in that order.",
        )
    found = list(row)
    if len(found) == len(fields):
        return found
    needed = [field for field in fields if field.name.lower() not in left_out]
    if len(found) == len(needed):
        values = iter(found)
        return [None if field.name.lower() in left_out else next(values) for field in fields]
    raise InputError(
        "WRONG_ROW_LENGTH",
        f"Row {number} has {len(found)} values; {len(fields)} columns are declared: "
        f"{', '.join(field.name for field in fields)}.",
    )


def _check_names(given: Sequence[Any], fields: Sequence[Field], left_out: set[str], number: int | None = None) -> None:
    known = {field.name.lower() for field in fields}
    where = "The rows have" if number is None else f"Row {number} has"
    unknown = [str(name) for name in given if str(name).lower() not in known]
    if unknown:
        raise InputError(
            "UNKNOWN_COLUMN",
            f"{where} a column {unknown[0]} that is not declared.",
            detail=f"Declared are: {', '.join(field.name for field in fields)}.",
        )
    if number is not None:
        return
    present = {str(name).lower() for name in given}
    missing = [f.name for f in fields if f.name.lower() not in present and f.name.lower() not in left_out]
    if missing:
        raise InputError(
            "MISSING_COLUMN",
            f"{where} no column {missing[0]}.",
            detail=f"Declared are: {', '.join(field.name for field in fields)}.",
        )


def _column(field: Field, values: list[Any]) -> pa.Array:
    wanted = arrow_type(field.type)
    converted = []
    for number, value in enumerate(values, 1):
        try:
            converted.append(_value(value, wanted))
        except (ValueError, TypeError, ArithmeticError, HeadraceError) as error:
            raise _misfit(field, number, value) from error
    try:
        return pa.array(converted, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        for number, value in enumerate(converted, 1):
            try:
                pa.array([value], wanted)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
                raise _misfit(field, number, values[number - 1]) from error
        raise


def _misfit(field: Field, number: int, value: Any) -> InputError:
    return InputError(
        "BAD_VALUE",
        f"Row {number}, column {field.name}: {value!r} is not a {field.type}.",
        detail="None of the rows was taken in.",
    )


def _value(value: Any, wanted: pa.DataType) -> Any:
    """One value on its way to `wanted`: exact, never rounded or cut silently."""
    if value is None:
        return None
    if pa.types.is_timestamp(wanted):
        return _timestamp(value, wanted)
    if pa.types.is_date(wanted) and isinstance(value, str):
        return date.fromisoformat(value.replace("/", "-"))
    if pa.types.is_decimal(wanted):
        if isinstance(value, float):
            value = repr(value)
        exact = decimal.Decimal(str(value))
        if exact.is_nan() or exact.is_infinite():
            raise ValueError("not a number")
        return exact.quantize(decimal.Decimal(1).scaleb(-wanted.scale), context=_exact(wanted.precision))
    if pa.types.is_floating(wanted) and not isinstance(value, bool):
        return float(value)
    if pa.types.is_integer(wanted):
        if isinstance(value, bool) or (not isinstance(value, str) and value != int(value)):
            raise TypeError("not a whole number")
        return int(value)
    if pa.types.is_boolean(wanted) and isinstance(value, str):
        return {"true": True, "false": False}[value.lower()] if value.lower() in ("true", "false") else _refuse()
    if pa.types.is_boolean(wanted) and not isinstance(value, bool):
        return _refuse()
    if pa.types.is_string(wanted) and not isinstance(value, str):
        return str(value) if isinstance(value, int | float | decimal.Decimal) else _refuse()
    return value


def _refuse() -> Any:
    raise TypeError("the value is of another kind")


def _exact(precision: int) -> decimal.Context:
    return decimal.Context(prec=precision, traps=[decimal.Inexact, decimal.InvalidOperation])


def _timestamp(value: Any, wanted: pa.DataType) -> Any:
    if isinstance(value, bool):
        return _refuse()
    if isinstance(value, str | int | float | decimal.Decimal):
        value = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=parse_time(value))
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if wanted.tz is None:
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return value if value.tzinfo else value.replace(tzinfo=UTC)
