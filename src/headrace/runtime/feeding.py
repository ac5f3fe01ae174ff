"""Rows fed from Python into a source, stream or table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import DefinitionError, InputError
from headrace.language import parse_time
from headrace.maintenance.logs import quoted
from headrace.runtime.arrival import deleting
from headrace.runtime.files import land_files
from headrace.runtime.home import Home
from headrace.runtime.mutations import (
    apply_operations,
    change_time,
    input_fields,
    optional_names,
    put,
    streams_taking,
)
from headrace.runtime.rows import to_table
from headrace.sources.globs import list_files
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction


def feed(home: Home, name: str, rows: Any, at: Any | Sequence[Any] | None = None, ops: Any = None) -> int:
    """Take rows in, in a transaction of their own. Returns their number."""
    with home.transaction(f"feed {name}") as transaction:
        target = transaction.base.find(name, "source", "stream", "table")
        if ops is not None:
            return _feed_operations(home, transaction, target, rows, at, ops)
        if hasattr(rows, "toArrow"):
            return _feed_frame(home, transaction, target, rows, at)
        fields = input_fields(target)
        table = to_table(rows, fields, optional=optional_names(target))
        return put(home, transaction, target, table, _times(at, table.num_rows), together=False)


def _times(at: Any | Sequence[Any] | None, count: int) -> list[int | None] | None:
    if at is None:
        return None
    if isinstance(at, list | tuple) or hasattr(at, "tolist"):
        given = list(at)
        if len(given) != count:
            raise InputError("WRONG_TIMES", f"{count} rows were given and {len(given)} times of arrival.")
        return [None if time is None else _micros(time) for time in given]
    return [_micros(at)] * count


def _feed_operations(home: Home, transaction: Transaction, table: Object, rows: Any, at: Any, ops: Any) -> int:
    """Upserts and deletes of a table with a key, straight into its log."""
    if table.kind != "table":
        raise DefinitionError(
            "WRONG_KIND",
            f"{table.name} is a {table.kind}; ops is for tables.",
            hint="A stream names the column that says what a row does when it is made: WITH (op = 'column').",
        )
    if table.key is None:
        raise DefinitionError(
            "OP_NEEDS_KEY",
            f"{table.name} has no key: which row would a '-' delete?",
            hint="Declare a PRIMARY KEY, or use INSERT and DELETE.",
        )
    if hasattr(rows, "toArrow"):
        rows = home.engine.arrow(rows)
    rows, ops = _split_operations(table, rows, ops)
    given = to_table(rows, table.columns)
    deletes = _deletes(ops, given.num_rows)
    now = change_time(home, transaction, None)
    if at is None or not (isinstance(at, list | tuple) or hasattr(at, "tolist")):
        times = pa.repeat(pa.scalar(now if at is None else _micros(at), pa.int64()), given.num_rows)
    else:
        times = pa.array([now if time is None else time for time in _times(at, given.num_rows) or ()], pa.int64())
    return apply_operations(home, transaction, table, given, deletes, times)


def _split_operations(table: Object, rows: Any, ops: Any) -> tuple[Any, Any]:
    """With the name of a column as `ops`: the rows without that column, and the column."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if not isinstance(ops, str) or not isinstance(rows, pa.Table):
        return rows, ops
    own = {name.lower() for name in table.names}
    found = [name for name in rows.column_names if name.lower() == ops.lower() and name.lower() not in own]
    return (rows.drop_columns(found), rows.column(found[0])) if found else (rows, ops)


def _deletes(ops: Any, count: int) -> pa.Array:
    """Which rows delete: by one operation for all of them, or one for each."""
    if isinstance(ops, str):
        given = pa.repeat(pa.scalar(ops), count)
    elif isinstance(ops, pa.Array | pa.ChunkedArray):
        given = ops
    else:
        try:
            given = pa.array(ops, pa.string())
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise InputError("BAD_OPERATION", f"ops is {ops!r:.60}, not texts such as '+', 'u' or '-'.") from error
    if len(given) != count:
        raise InputError("BAD_OPERATION", f"{count} rows were given and {len(given)} operations.")
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if not (pa.types.is_string(given.type) or pa.types.is_large_string(given.type) or pa.types.is_null(given.type)):
        raise InputError("BAD_OPERATION", f"ops is of type {given.type}, not texts such as '+', 'u' or '-'.")
    deletes, known = deleting(given)
    unknown = np.flatnonzero(~np.asarray(known.to_numpy(zero_copy_only=False), dtype=bool))
    if len(unknown):
        row = int(unknown[0])
        raise InputError(
            "BAD_OPERATION",
            f"Row {row + 1}: {given[row].as_py()!r} is no operation.",
            detail="None of the rows was taken in.",
            hint="Use '+' or 'u' for a row that is there from now on, and '-' for one that goes; or name the column of "
            "the rows that has them.",
        )
    return deletes


def _micros(time: Any) -> int:
    return parse_time(time.isoformat() if hasattr(time, "isoformat") else time)


def _feed_frame(home: Home, transaction: Transaction, target: Object, frame: Any, at: Any) -> int:
    """A DataFrame may be large and has no order: its rows arrive together, and tasks write them."""
    if target.kind == "table" or at is not None:
        table = to_table(home.engine.arrow(frame), target.columns)
        return put(home, transaction, target, table, _times(at, table.num_rows), together=True)
    fields = input_fields(target)
    known = {name.lower() for name in frame.columns}
    for field in fields:
        if field.name.lower() not in known and field.name not in optional_names(target):
            raise InputError(
                "MISSING_COLUMN",
                f"The DataFrame has no column {field.name}.",
                detail=f"It has: {', '.join(frame.columns)}.",
            )
    wanted = [
        f"CAST({quoted(field.name)} AS {field.type}) AS {quoted(field.name)}"
        for field in fields
        if field.name.lower() in known
    ]
    streams = streams_taking(transaction, target)
    source = target if target.kind == "source" else replace(target, columns=fields)
    with home.files.stage() as folder:
        with home.engine.translated():
            home.engine.write(frame.selectExpr(*wanted), folder)
        entries = list_files(f"{folder}/*.parquet")
        return max(
            land_files(home, transaction, source, stream, entries, "parquet", remember=False, together=True)
            for stream in streams
        )
