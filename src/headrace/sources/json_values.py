"""One value from JSON: objects, arrays and maps, and what JSON type each column type takes.

A number keeps its digits (`Number`) until the column's type decides what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.sources.column_types import ddl_type
from headrace.sources.line_types import Column, LineError, Number, read_value, show, wrong
from headrace.sources.values import from_text, nonfinite, unicode


def load(text: str) -> object:
    try:
        return json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_no_twins
        )
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except RecursionError:
        raise LineError("not JSON we can read: nested too deeply") from None


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise LineError(f"field {next(name for name in names if names.count(name) > 1)} is given twice")
    return members


def json_column(column: pa.Field) -> Column:
    return Column(column.name, column.nullable, from_json(column.type))


def members(given: dict[str, object], columns: list[Column], places: dict[str, int]) -> list[object]:
    """The values of an object in column order."""
    items: list[object] = [None] * len(columns)
    seen = set()
    for name, item in given.items():
        place = places.get(name.lower())
        if place is None:
            known = ", ".join(column.name for column in columns)
            raise LineError(f"unknown field {show(name)}; the fields are {known}")
        if place in seen:
            raise LineError(f"field {columns[place].name} is given twice")
        seen.add(place)
        items[place] = item
    return [read_value(column, item) for column, item in zip(columns, items, strict=True)]


def from_json(kind: pa.DataType) -> Callable[[Any], object]:
    """How a JSON value that is not null becomes a value `pa.array` takes for this type."""
    name = ddl_type(kind)
    convert: Callable[[Any], object]
    if pa.types.is_struct(kind):
        convert = _struct_reader([json_column(part) for part in kind])
    elif pa.types.is_map(kind):
        convert = _map_reader(json_column(kind.item_field))
    elif pa.types.is_list(kind):
        convert = _list_reader(json_column(kind.value_field))
    elif pa.types.is_boolean(kind):
        convert = bool
    else:
        convert = from_text(kind)
    wanted = _json_shapes(kind)
    named_only = pa.types.is_floating(kind)

    def read(given: Any) -> object:
        # By exact type: a number is a kind of str here, and is not one to a STRING.
        if type(given) not in wanted:
            raise wrong(name, given)
        if named_only and type(given) is str and not nonfinite.fullmatch(given):
            raise wrong(name, given)
        return convert(given)

    return read


def json_in_text(kind: pa.DataType) -> Callable[[str], object]:
    """How JSON inside a CSV field becomes a value of a nested type."""
    inner = Column("", True, from_json(kind))
    return lambda text: read_value(inner, load(text))


def _json_shapes(kind: pa.DataType) -> tuple[type, ...]:
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return (dict,)
    if pa.types.is_list(kind):
        return (list,)
    if pa.types.is_boolean(kind):
        return (bool,)
    if pa.types.is_integer(kind):
        return (Number,)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_timestamp(kind):
        return (Number, str)
    return (str,)


def _struct_reader(parts: list[Column]) -> Callable[[Any], object]:
    names = [part.name for part in parts]
    places = {name.lower(): place for place, name in enumerate(names)}
    return lambda given: dict(zip(names, members(given, parts, places), strict=True))


def _list_reader(part: Column) -> Callable[[Any], object]:
    unnamed = part._replace(name="")

    def read(given: list[object]) -> object:
        done: list[object] = []
        try:
            done.extend(read_value(unnamed, item) for item in given)
        except LineError as fault:
            raise fault.at(f"[{len(done)}]") from None
        return done

    return read


def _map_reader(part: Column) -> Callable[[Any], object]:
    return lambda given: [(unicode(key), read_value(part._replace(name=key), item)) for key, item in given.items()]
