"""The small types both readers of lines share: options, results, and the reason why a line is not a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from headrace.errors import DefinitionError

Format = Literal["json", "csv", "auto"]
MAX_LINE_BYTES = 1 << 20
_SHOWN_BYTES = 4096
_SHOWN_VALUE = 60


@dataclass(frozen=True, kw_only=True)
class LineOptions:
    """How lines are written.

    Parameters
    ----------
    delimiter
        What stands between two CSV fields: one ASCII character.
    header
        Whether a CSV file or connection may start with the column names; that line is skipped (see `is_header_line`).
    null_value
        A spelling of NULL in CSV, besides the empty field.
    max_line_bytes
        A longer line is rejected without being read.
    """

    delimiter: str = ","
    header: bool = False
    null_value: str = ""
    max_line_bytes: int = MAX_LINE_BYTES

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n\0':
            raise DefinitionError(
                "BAD_OPTION",
                f"delimiter {self.delimiter!r} cannot separate fields.",
                hint="Give one ASCII character that is not a quote or a line end, such as ',' or ';' or a tab.",
            )
        if self.max_line_bytes < 1:
            raise DefinitionError("BAD_OPTION", f"max_line_bytes must be at least 1, not {self.max_line_bytes}.")


@dataclass(frozen=True)
class Rejected:
    """A line that is not a row: its index among the lines given, its start, and what is wrong with it."""

    position: int
    line: str
    reason: str


@dataclass(frozen=True)
class Parsed:
    """The rows of some lines, the index of the line each came from (ascending), and the lines that are no rows."""

    table: pa.Table
    positions: pa.Array
    rejected: list[Rejected]


class LineError(Exception):
    """Why a line is not a row: the reason, and the path to the value at fault."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def at(self, name: str) -> LineError:
        joint = "." if name and self.path and not self.path.startswith("[") else ""
        return LineError(self.reason, f"{name}{joint}{self.path}")


class Column(NamedTuple):
    """A column or a part of one, and how one value of it is read."""

    name: str
    nullable: bool
    read: Callable[[Any], object]


def read_value(column: Column, given: object) -> object:
    try:
        if given is not None:
            return column.read(given)
        if column.nullable:
            return None
        raise LineError("missing, and the column is NOT NULL")
    except LineError as fault:
        raise fault.at(column.name) from None


class Number(str):
    """A JSON number as written: its digits decide, not what a double makes of them."""


def show(value: object) -> str:
    if isinstance(value, Number):
        return str(value) if len(value) <= _SHOWN_VALUE else f"{value[:_SHOWN_VALUE]}…"
    if isinstance(value, str):
        return repr(value) if len(value) <= _SHOWN_VALUE else f"{value[:_SHOWN_VALUE]!r}…"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return "an object" if isinstance(value, dict) else "an array"


def wrong(name: str, value: object) -> LineError:
    return LineError(f"expected {name}, got {show(value)}")


def shorten(line: bytes) -> str:
    """The start of a line as text that can be stored and shown, whatever its bytes."""
    text = line[:_SHOWN_BYTES].decode("utf-8", "replace")
    return text + "…" if len(line) > _SHOWN_BYTES else text


def too_long(size: int | str, limit: int) -> str:
    """The reason for a line over the limit; `size` may be text where the whole line was never seen."""
    shown = f"{limit >> 20} MiB" if limit % (1 << 20) == 0 else f"{limit} bytes"
    return f"line of {size} bytes is over the limit of {shown}"
