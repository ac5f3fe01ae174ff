"""Rows fed from Python into a source, stream or table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.errors import InputError
from headrace.language import parse_time
from headrace.maintenance.logs import quoted
from headrace.runtime.files import land_files
from headrace.runtime.home import Home
from headrace.runtime.mutations import input_fields, optional_names, put, streams_taking
from headrace.runtime.rows import to_table
from headrace.sources.globs import list_files
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction


def feed(home: Home, name: str, rows: Any, at: Any | Sequence[Any] | None = None) -> int:
    """Take rows in, in a transaction of their own. Returns their number."""
    with home.transaction(f"feed {name}") as transaction:
        target = transaction.base.find(name, "source", "stream", "table")
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
