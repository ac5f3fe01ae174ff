"""A kernel in a few lines of Python, for tests of what is around it: every aggregate sums its first argument.

A base call tells the sum of its group at the end; over a stream, and with `running` in its name, after each row.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.algebra.user_aggregates.definition import Definition, Versions
from headrace.language import Column
from headrace.maintenance.user_aggregates.blocks import Block, Call


def builtin(name: str, types: Any) -> Versions | None:
    if name not in ("sum", "min", "count"):
        return None
    parameters = tuple(Column(f"x{number}", kind) for number, kind in enumerate(types))
    blocks = {"INITIALIZE": ("x",), "TERMINATE": ("x",)}
    return Versions(name, Definition(name, parameters, (Column(name, "DOUBLE"),), (), blocks))


def run_whole(block: Block, rows: pa.Table, upto: int | None) -> pa.Table:
    given = rows.to_pylist()
    if block.calls[0].form.kind == "base":
        found = _base(block, given)
    else:
        over = [_over(block, given, number) for number in range(len(given))]
        found = [row for row in over if row is not None]
        found += _expired(block, given, upto)
    fields = [rows.schema.field(name) for name in block.passed]
    fields += [pa.field(name, pa.float64()) for call in block.calls for name in call.results]
    return pa.Table.from_pylist(found, schema=pa.schema([*fields, pa.field("__t", pa.int64())]))


def _base(block: Block, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    found = []
    for row in given:
        group = groups.setdefault(tuple(row[name] for name in block.calls[0].partition), [])
        group.append(row)
        if "running" in block.calls[0].versions.name:
            found.append(_result(block, row, [group] * len(block.calls)))
    if "running" not in block.calls[0].versions.name:
        found = [_result(block, group[-1], [group] * len(block.calls)) for group in groups.values()]
    return found


def _over(block: Block, given: list[dict[str, Any]], number: int) -> dict[str, Any] | None:
    windows = []
    row = given[number]
    for call in block.calls:
        mine = [one for one in given[: number + 1] if all(one[name] == row[name] for name in call.partition)]
        if call.form.slide is not None and len(mine) % call.form.slide:
            return None
        windows.append(_window(call, mine, row["__t"]))
    return _result(block, row, windows)


def _expired(block: Block, given: list[dict[str, Any]], upto: int | None) -> list[dict[str, Any]]:
    """With ACTIVE EXPIRATION, the sum of what is left when a row has left."""
    found = []
    for number, row in enumerate(given):
        length = block.calls[0].form.length
        if block.calls[0].form.active and length is not None and upto is not None and row["__t"] + length <= upto:
            left = [one for one in given[number + 1 :] if one["__t"] <= row["__t"] + length]
            found.append(_result(block, {**row, "__t": row["__t"] + length}, [left] * len(block.calls)))
    return found


def _window(call: Call, mine: list[dict[str, Any]], now: int) -> list[dict[str, Any]]:
    if call.form.length is None:
        return mine
    if call.form.kind == "rows":
        return mine[-call.form.length :]
    return [one for one in mine if one["__t"] >= now - call.form.length]


def _result(block: Block, row: dict[str, Any], windows: list[list[dict[str, Any]]]) -> dict[str, Any]:
    made = {name: row[name] for name in block.passed} | {"__t": row["__t"]}
    for call, window in zip(block.calls, windows, strict=True):
        total = sum(float(one[call.arguments[0]]) if call.arguments else 1.0 for one in window)
        made |= {name: total + number for number, name in enumerate(call.results)}
    return made
