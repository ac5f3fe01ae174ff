"""Lines of JSON or CSV to rows of a schema, and a reason for every line that is not one.

Two paths, one meaning. The **fast path** gives a whole block to Arrow's reader. It may decline a block, and never
disagree with the slow path about one it accepts: where Arrow is laxer than we are (hex integers, text after a closing
quote, a decimal too wide for its type, two objects on a line), a check over the whole block makes it decline. The
**slow path** reads one line in Python and is the definition: what it accepts is a row, and what it refuses has a
reason. A declined block is cut in `_WAYS` parts until at most `_LEAF` lines are left, so a fault costs its neighbours
little.

What a value may look like:

- JSON: an object by column name (any case; an absent field is NULL) or an array by position. Numbers and booleans are
  not quoted, except that DECIMAL may be (it keeps its digits) and FLOAT / DOUBLE may be "NaN" or "Infinity".
- CSV: RFC 4180 quotes. An empty unquoted field, or one equal to `null_value`, is NULL; `""` is the empty string. Blanks
  around a value are part of a STRING and ignored elsewhere. ARRAY, STRUCT and MAP are JSON inside the field.
- TIMESTAMP: `2015-01-31`, `2015-01-31 10:00[:00[.123456]]`, with `T`, `/`, `Z` or an offset; or epoch seconds.
  No zone means UTC, and digits below a microsecond are cut off. BINARY is the text's UTF-8 bytes.

The file is longer than most of ours because both paths must be read side by side to be kept equal.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from headrace.errors import DefinitionError

Format = Literal["json", "csv", "auto"]

MAX_LINE_BYTES = 1 << 20
_SHOWN_BYTES = 4096
_SHOWN_VALUE = 60
_LEAF = 128  # a fast attempt costs about as much as a hundred lines read one by one
_WAYS = 8
_BLOCK_BYTES = 32 << 20  # a block is copied once to be joined; this bounds the copy

_BLANKS = " \t"
_BOM = "\ufeff".encode()
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NONFINITE = r"[+-]?(?:[nN][aA][nN]|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)"
_SECONDS = r"[+-]?[0-9]{1,15}(?:\.[0-9]{0,6})?"
_DATE = r"([0-9]{4})[-/](0[1-9]|1[0-2])[-/](0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,9}))?)?"
_ZONE = r" ?(?:Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)"
_TIMESTAMP = rf"{_DATE}(?:[ T]{_CLOCK}(?:{_ZONE})?)?"

_number = re.compile(_NUMBER)
_nonfinite = re.compile(_NONFINITE)
_integer = re.compile(r"([+-]?)0*([0-9]+)")
_date = re.compile(_DATE)
_timestamp = re.compile(_TIMESTAMP)

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_MICRO = -62_135_596_800_000_000  # 0001-01-01, Spark's and Python's first day
_LAST_MICRO = 253_402_300_799_999_999  # the end of 9999-12-31
_FIRST_DAY = 1 - _EPOCH
_WIDE = Context(prec=1000)
_TRUE = ("true", "t", "yes", "y", "1")
_FALSE = ("false", "f", "no", "n", "0")


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


def parse_lines(
    lines: pa.Array | Sequence[bytes], format: Format, schema: pa.Schema, options: LineOptions | None = None
) -> Parsed:
    """Turn lines, without their line ends, into rows of `schema`.

    Empty lines are skipped. Every other line becomes exactly one row or exactly one `Rejected`.

    Examples
    --------
    >>> schema = pa.schema([("Sensor", pa.string()), ("Temperature", pa.int32())])
    >>> parsed = parse_lines([b"s1,20", b"s2,abc"], "csv", schema)
    >>> parsed.table.to_pylist(), parsed.rejected[0].reason
    ([{'Sensor': 's1', 'Temperature': 20}], "Temperature: expected INT, got 'abc'")
    """
    options = options or LineOptions()
    check_schema(schema)
    given = lines.cast(pa.binary()) if isinstance(lines, pa.Array) else pa.array(lines, pa.binary())
    given = given.fill_null(b"") if given.null_count else given
    ends = pc.ends_with(given, b"\r")
    if _any(ends):
        given = pc.if_else(ends, pc.binary_slice(given, 0, -1), given)
    sizes = pc.binary_length(given).to_numpy()
    found = _Found(schema)
    for position in np.flatnonzero(sizes > options.max_line_bytes).tolist():
        found.reject(position, given[position].as_py(), too_long(int(sizes[position]), options.max_line_bytes))
    usable = np.flatnonzero((sizes > 0) & (sizes <= options.max_line_bytes))
    for name, chosen in _by_format(given, usable, format):
        parser: _Parser = _Json(schema, options) if name == "json" else _Csv(schema, options)
        block = given if len(chosen) == len(given) else given.take(pa.array(chosen))
        # Cut where the running size passes a multiple of the bound, so no block is much over it.
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes[chosen]) // _BLOCK_BYTES)) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(chosen)], strict=True):
            _parse_block(parser, block.slice(start, stop - start), chosen[start:stop], found)
    return found.parsed()


def too_long(size: int | str, limit: int) -> str:
    """The reason for a line over the limit; `size` may be text where the whole line was never seen."""
    shown = f"{limit >> 20} MiB" if limit % (1 << 20) == 0 else f"{limit} bytes"
    return f"line of {size} bytes is over the limit of {shown}"


def shorten(line: bytes) -> str:
    """The start of a line as text that can be stored and shown, whatever its bytes."""
    text = line[:_SHOWN_BYTES].decode("utf-8", "replace")
    return text + "…" if len(line) > _SHOWN_BYTES else text


def is_header_line(line: bytes, schema: pa.Schema, options: LineOptions) -> bool:
    """Whether a CSV line is the column names, in order; case and blanks around them do not count."""
    names = header_names(line, options)
    return names == [name.lower() for name in schema.names]


def header_names(line: bytes, options: LineOptions) -> list[str]:
    """The fields of a CSV line as lower-case names; empty if it is not a CSV line."""
    try:
        cells = _split_csv(line.removeprefix(_BOM).decode().rstrip("\r"), options.delimiter)
    except (UnicodeDecodeError, _LineError):
        return []
    return [text.strip(_BLANKS).lower() for text, _ in cells]


def ddl_type(kind: pa.DataType) -> str:
    """The Spark DDL name of an Arrow type, as users write it."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if pa.types.is_map(kind):
        return f"MAP<{ddl_type(kind.key_type)}, {ddl_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{ddl_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{part.name}: {ddl_type(part.type)}' for part in kind)}>"
    return _DDL.get(kind, str(kind).upper())


_DDL: dict[pa.DataType, str] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
}


@lru_cache(maxsize=256)
def check_schema(schema: pa.Schema) -> None:
    """Refuse columns that lines cannot fill, before any line is read."""
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DefinitionError("DUPLICATE_COLUMN", f"column {twice[0]} is declared twice (case does not count).")
    for column in schema:
        _check_type(column.name, column.type)


def _check_type(name: str, kind: pa.DataType) -> None:
    if pa.types.is_map(kind) and kind.key_type != pa.string():
        # JSON has no other keys.
        raise DefinitionError("UNSUPPORTED_TYPE", f"{name}: {ddl_type(kind)} is read from lines only with STRING keys.")
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            _check_type(name, kind.field(index).type)
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        return
    elif not pa.types.is_decimal128(kind) and (kind not in _DDL or kind in (pa.large_string(), pa.large_binary())):
        raise DefinitionError("UNSUPPORTED_TYPE", f"{name}: lines cannot be read as {kind}.")


# --- Blocks ----------------------------------------------------------------------------------------------------------


class _LineError(Exception):
    """Why a line is not a row: the reason, and the path to the value at fault."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def at(self, name: str) -> _LineError:
        joint = "." if name and self.path and not self.path.startswith("[") else ""
        return _LineError(self.reason, f"{name}{joint}{self.path}")


class _Column(NamedTuple):
    """A column or a part of one, and how one value of it is read."""

    name: str
    nullable: bool
    read: Callable[[Any], object]


def _value(column: _Column, given: object) -> object:
    try:
        if given is not None:
            return column.read(given)
        if column.nullable:
            return None
        raise _LineError("missing, and the column is NOT NULL")
    except _LineError as fault:
        raise fault.at(column.name) from None


class _Parser(Protocol):
    def fast(self, lines: pa.Array) -> pa.Table | None:
        """All lines as rows, or None where the slow path must look."""

    def slow(self, text: str) -> list[object] | None:
        """One line as values, None for a blank line; raises `_LineError`."""

    @property
    def has_fast(self) -> bool: ...


@dataclass
class _Found:
    """What has been read so far; pieces arrive in any order and `parsed` sorts them."""

    schema: pa.Schema
    tables: list[pa.Table] = field(default_factory=list)
    positions: list[Any] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    def reject(self, position: int, line: bytes, reason: str) -> None:
        shown = reason.encode("utf-8", "backslashreplace").decode()
        self.rejected.append(Rejected(position, shorten(line), shown))

    def parsed(self) -> Parsed:
        table = pa.concat_tables(self.tables) if self.tables else self.schema.empty_table()
        positions = np.concatenate(self.positions) if self.positions else np.empty(0, np.int64)
        if np.any(positions[1:] < positions[:-1]):  # only where JSON and CSV lines are mixed
            order = np.argsort(positions)
            positions, table = positions[order], table.take(pa.array(order))
        if len(self.tables) > 1:
            table = table.combine_chunks()
        return Parsed(table, pa.array(positions, pa.int64()), sorted(self.rejected, key=lambda found: found.position))


def _by_format(given: pa.Array, usable: Any, format: Format) -> list[tuple[str, Any]]:
    if format != "auto":
        return [(format, usable)]
    # A line that opens an object or an array is JSON: a CSV field that starts so must be quoted anyway.
    opens = pc.match_substring_regex(given, r"^[ \t]*[\[{]").to_numpy(zero_copy_only=False)[usable]
    return [("json", usable[opens]), ("csv", usable[~opens])]


def _parse_block(parser: _Parser, lines: pa.Array, positions: Any, found: _Found) -> None:
    if not len(lines):
        return
    table = _fast_or_none(parser, lines) if parser.has_fast else None
    if table is not None:
        found.tables.append(table)
        found.positions.append(positions)
    elif len(lines) <= _LEAF or not parser.has_fast:
        _parse_each(parser, lines, positions, found)
    else:
        step = -(-len(lines) // _WAYS)
        for start in range(0, len(lines), step):
            _parse_block(parser, lines.slice(start, step), positions[start : start + step], found)


def _fast_or_none(parser: _Parser, lines: pa.Array) -> pa.Table | None:
    try:
        return parser.fast(lines)
    except (pa.ArrowException, ValueError, _LineError):
        return None


def _parse_each(parser: _Parser, lines: pa.Array, positions: Any, found: _Found) -> None:
    rows, kept = [], []
    for position, line in zip(positions.tolist(), lines.to_pylist(), strict=True):
        try:
            row = parser.slow(_decode(line))
        except _LineError as fault:
            found.reject(position, line, str(fault))
            continue
        if row is not None:
            rows.append(row)
            kept.append(position)
    if rows:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, column.type) for values, column in zip(columns, found.schema, strict=True)]
        found.tables.append(pa.Table.from_arrays(arrays, schema=found.schema))
        found.positions.append(np.array(kept, np.int64))


def _decode(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise _LineError(f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start + 1}") from None


def _any(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())


def _all(mask: Any) -> bool:
    return bool(pc.all(mask).as_py())


def _joined(lines: pa.Array) -> pa.Buffer:
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(whole, b"\n")[0].as_buffer()


def _as_table(columns: list[Any], schema: pa.Schema, rows: int) -> pa.Table | None:
    """The table, unless rows are missing or a column breaks its own type or NOT NULL."""
    if any(len(values) != rows for values in columns):
        return None
    if any(values.null_count and not column.nullable for values, column in zip(columns, schema, strict=True)):
        return None
    table = pa.Table.from_arrays(columns, schema=schema)
    table.validate(full=True)  # Arrow's readers let a decimal exceed its precision
    return table


# --- CSV -------------------------------------------------------------------------------------------------------------


class _Csv:
    def __init__(self, schema: pa.Schema, options: LineOptions) -> None:
        self.schema = schema
        self.options = options
        self.has_fast = not any(pa.types.is_nested(column.type) for column in schema)
        self.columns = [_Column(column.name, column.nullable, _from_text(column.type)) for column in schema]
        self.nulls = ("", options.null_value)
        self.keeps_blanks = len(schema) == 1 and schema.field(0).type in (pa.string(), pa.binary())
        mark = rf"\x{{{ord(options.delimiter):x}}}"
        cell = rf'(?:"(?:[^"]|"")*"|[^"{mark}]*)'
        self.rfc4180 = rf"(?s)^{cell}(?:{mark}{cell})*$"

    def fast(self, lines: pa.Array) -> pa.Table | None:
        text = lines.cast(pa.string())  # refuses bytes that are not UTF-8
        if _any(pc.match_substring_regex(text, "[\r\n]")) or lines[0].as_py().startswith(_BOM):
            return None  # Arrow ends a row at a lone CR and drops a leading BOM; to us both are data
        if _any(pc.match_substring(text, '"')) and not _all(pc.match_substring_regex(text, self.rfc4180)):
            return None
        data = _joined(lines)
        native = {column.name: _csv_type(column.type) for column in self.schema}
        table = self._read(data, native)
        if self._needs_care(text, table):
            native = {name: _csv_careful_type(kind) for name, kind in native.items()}
            table = self._read(data, native)
        columns = [_finish(table[column.name].combine_chunks(), column.type) for column in self.schema]
        return _as_table(columns, self.schema, len(lines))

    def _read(self, data: pa.Buffer, types: dict[str, pa.DataType]) -> pa.Table:
        block = max(4 << 20, 2 * self.options.max_line_bytes)
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=self.schema.names, block_size=block, use_threads=data.size > block
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self.options.delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                null_values=list(self.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=[form for word in _TRUE for form in {word, word.upper(), word.capitalize()}],
                false_values=[form for word in _FALSE for form in {word, word.upper(), word.capitalize()}],
            ),
        )

    def _needs_care(self, text: pa.Array, table: pa.Table) -> bool:
        """Whether Arrow may have read a number that is none to us: 0x1F, nan(7), or 1e999 as infinity."""
        if any(pa.types.is_integer(column.type) for column in self.schema) and _any(
            pc.match_substring(text, "0x", ignore_case=True)
        ):
            return True
        floats = [table[column.name] for column in self.schema if pa.types.is_floating(column.type)]
        return any(not _all(pc.is_finite(values)) for values in floats)

    def slow(self, text: str) -> list[object] | None:
        cells = _split_csv(text, self.options.delimiter)
        if len(cells) == 1 and not text.strip(_BLANKS) and not self.keeps_blanks:
            return None
        if len(cells) != len(self.columns):
            raise _LineError(f"expected {len(self.columns)} fields, got {len(cells)}")
        return [
            _value(column, None if not quoted and cell in self.nulls else cell)
            for column, (cell, quoted) in zip(self.columns, cells, strict=True)
        ]


def _split_csv(text: str, delimiter: str) -> list[tuple[str, bool]]:
    """The fields of a line, and whether each was quoted."""
    cells: list[tuple[str, bool]] = []
    start = 0
    while True:
        number = len(cells) + 1
        if text.startswith('"', start):
            end = text.find('"', start + 1)
            while end >= 0 and text.startswith('"', end + 1):
                end = text.find('"', end + 2)
            if end < 0:
                raise _LineError(f"field {number}: unterminated quote (a field cannot span lines)")
            cells.append((text[start + 1 : end].replace('""', '"'), True))
            end += 1
            if end < len(text) and text[end] != delimiter:
                raise _LineError(f'field {number}: text after the closing quote (write a quote inside a field as "")')
        else:
            end = text.find(delimiter, start)
            end = len(text) if end < 0 else end
            cell = text[start:end]
            if '"' in cell:
                raise _LineError(f'field {number}: quote inside an unquoted field (quote it and write "" inside)')
            cells.append((cell, False))
        if end >= len(text):
            return cells
        start = end + 1


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow reads a column as: text for dates and times, whose grammar is wider here, and for decimals."""
    return pa.string() if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) else kind


def _csv_careful_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_integer(kind) or pa.types.is_floating(kind) else kind


def _finish(values: Any, kind: pa.DataType) -> Any:
    """Values as Arrow read them to values of the column's type; raises where the slow path must decide."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind):
        return _micros(values).cast(kind)
    if pa.types.is_date(kind):
        return _days(values)
    if pa.types.is_binary(kind):
        return values.cast(kind)
    text = pc.ascii_trim(values, _BLANKS)
    if pa.types.is_decimal(kind):
        # Arrow wraps around where a decimal is too wide (9.5e30 as DECIMAL(38,10)), so width is checked in the text.
        _require(text, rf"[+-]?[0-9]{{0,{kind.precision - kind.scale}}}(?:\.[0-9]{{0,{kind.scale}}})?")
        return text.cast(kind)
    if pa.types.is_integer(kind):
        _require(text, r"-?[0-9]+")
        return text.cast(kind)
    numbers = text.cast(kind)
    named = pc.match_substring_regex(text, f"^{_NONFINITE}$")
    if not _all(pc.or_(named, pc.is_finite(numbers))):
        raise pa.ArrowInvalid("not a number, or too large for its type")
    return numbers


# --- JSON ------------------------------------------------------------------------------------------------------------


class _Number(str):
    """A JSON number as written: its digits decide, not what a double makes of them."""


class _Json:
    def __init__(self, schema: pa.Schema, options: LineOptions) -> None:
        self.schema = schema
        self.options = options
        self.has_fast = all(_arrow_reads(column.type) for column in schema)
        self.columns = [_json_column(column) for column in schema]
        self.places = {column.name.lower(): place for place, column in enumerate(schema)}

    def fast(self, lines: pa.Array) -> pa.Table | None:
        text = lines.cast(pa.string())
        if not _all(pc.starts_with(text, "{")) or not _all(pc.ends_with(text, "}")):
            text = pc.ascii_trim(text, _BLANKS)
        # With the row count, this makes each line one object: no line can end inside an object that the next goes on
        # with, as a string cannot hold a line end and `}` `{` do not stand together in JSON.
        if not (_all(pc.starts_with(text, "{")) and _all(pc.ends_with(text, "}"))):
            return None
        if _any(pc.match_substring_regex(text, "[\r\n]")):
            return None
        if _any(pc.match_substring_regex(text, r"[:,\[][ \t]*-?(?:NaN|Inf)")):
            return None  # Arrow also reads Inf and -NaN
        types = self._types_like(lines[0].as_py())
        scales = [scale for _, kind in types for scale in _decimal_scales(kind)]
        if scales and _any(pc.match_substring_regex(text, _may_wrap(max(scales)))):
            return None
        data = _joined(lines)
        block = max(4 << 20, 2 * self.options.max_line_bytes)
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(block_size=block, use_threads=data.size > block),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(types), unexpected_field_behavior="error"
            ),
        )
        read = [table.column(place).combine_chunks() for place in range(len(types))]
        if any(values.type == pa.float32() and not _all(pc.is_finite(values)) for values in read):
            return None  # too large for a FLOAT
        columns = [_finish(values, column.type) for values, column in zip(read, self.schema, strict=True)]
        return _as_table(columns, self.schema, len(lines))

    def _types_like(self, first: bytes) -> list[tuple[str, pa.DataType]]:
        """How the first line spells each column and writes each time: one writer's lines look alike."""
        spelled, numeric = {}, set()
        loaded = _load(first.decode())
        for name, value in loaded.items() if isinstance(loaded, dict) else ():
            place = self.places.get(name.lower())
            if place is not None:
                spelled[place] = name
                if isinstance(value, _Number):
                    numeric.add(place)
        return [
            (spelled.get(place, column.name), _json_type(column.type, place in numeric))
            for place, column in enumerate(self.schema)
        ]

    def slow(self, text: str) -> list[object] | None:
        if not text.strip(" \t\r\n"):
            return None
        value = _load(text)
        if isinstance(value, dict):
            return _members(value, self.columns, self.places)
        if not isinstance(value, list):
            raise _LineError(f"expected a JSON object or array, got {_show(value)}")
        if len(value) != len(self.columns):
            raise _LineError(f"expected {len(self.columns)} values in the array, got {len(value)}")
        return [_value(column, item) for column, item in zip(self.columns, value, strict=True)]


def _json_column(column: pa.Field) -> _Column:
    return _Column(column.name, column.nullable, _from_json(column.type))


def _members(given: dict[str, object], columns: list[_Column], places: dict[str, int]) -> list[object]:
    """The values of an object in column order."""
    items: list[object] = [None] * len(columns)
    seen = set()
    for name, item in given.items():
        place = places.get(name.lower())
        if place is None:
            known = ", ".join(column.name for column in columns)
            raise _LineError(f"unknown field {_show(name)}; the fields are {known}")
        if place in seen:
            raise _LineError(f"field {columns[place].name} is given twice")
        seen.add(place)
        items[place] = item
    return [_value(column, item) for column, item in zip(columns, items, strict=True)]


def _load(text: str) -> object:
    try:
        return json.loads(
            text, parse_int=_Number, parse_float=_Number, parse_constant=_Number, object_pairs_hook=_no_twins
        )
    except json.JSONDecodeError as error:
        raise _LineError(f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except RecursionError:
        raise _LineError("not JSON we can read: nested too deeply") from None


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise _LineError(f"field {next(name for name in names if names.count(name) > 1)} is given twice")
    return members


def _arrow_reads(kind: pa.DataType, *, inside: bool = False) -> bool:
    """Whether Arrow's JSON reader gives what the slow path gives, with `_finish` after it for whole columns."""
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        parts = [kind.field(index) for index in range(kind.num_fields)]
        return all(part.nullable and _arrow_reads(part.type, inside=True) for part in parts)
    if pa.types.is_map(kind):
        return False
    finished = pa.types.is_temporal(kind) or kind in (pa.binary(), pa.float32())
    return not (inside and finished)


def _decimal_scales(kind: pa.DataType) -> list[int]:
    if pa.types.is_nested(kind):
        return [scale for index in range(kind.num_fields) for scale in _decimal_scales(kind.field(index).type)]
    return [kind.scale] if pa.types.is_decimal(kind) else []


def _may_wrap(scale: int) -> str:
    """Finds lines where Arrow might wrap a decimal around: an exponent, more digits than 38 with the scale, or digits
    hidden in escapes. It cannot be asked to read a JSON number as text."""
    exponent = r'[:,\[][ \t]*"?[ \t]*[+-]?[0-9.]+[eE][+-]?[0-9]+[ \t]*["},\]]'
    escape = r"\\u00(?:3[0-9]|[46]5|2[bBdDeE])"
    return rf"[0-9]{{{39 - scale}}}|{exponent}|{escape}"


def _json_type(kind: pa.DataType, numeric: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.decimal128(30, 6) if numeric else pa.string()
    return pa.string() if pa.types.is_temporal(kind) or pa.types.is_binary(kind) else kind


# --- Values, a column at a time (fast) -------------------------------------------------------------------------------


def _require(text: Any, pattern: str) -> None:
    if not _all(pc.match_substring_regex(text, f"^(?:{pattern})$")):
        raise pa.ArrowInvalid(f"not all of {pattern}")


def _days(values: Any) -> Any:
    text = pc.ascii_trim(values, _BLANKS)
    _require(text, _DATE)
    days = pc.replace_substring(text, "/", "-").cast(pa.date32())
    if _any(pc.less(days.cast(pa.int32()), _FIRST_DAY)):
        raise pa.ArrowInvalid("before 0001-01-01")
    return days


def _micros(values: Any) -> Any:
    """Microseconds since the epoch, from text or from seconds."""
    if pa.types.is_decimal(values.type):
        values.validate(full=True)
        micros = _micros_of_seconds(values)
    else:
        text = pc.ascii_trim(values, _BLANKS)
        if _all(pc.match_substring_regex(text, f"^(?:{_SECONDS})$")):
            micros = _micros_of_seconds(text.cast(pa.decimal128(30, 6)))
        else:
            _require(text, _TIMESTAMP)
            micros = _micros_of_text(text)
    if _any(pc.or_(pc.less(micros, _FIRST_MICRO), pc.greater(micros, _LAST_MICRO))):
        raise pa.ArrowInvalid("outside years 1 to 9999")
    return micros


def _micros_of_seconds(seconds: Any) -> Any:
    return pc.multiply(seconds, pa.scalar(Decimal(1_000_000), pa.decimal128(7, 0))).cast(pa.int64())


def _micros_of_text(text: Any) -> Any:
    text = pc.replace_substring(text, "/", "-")
    text = pc.if_else(pc.greater(pc.binary_length(text), 10), text, pc.binary_join_element_wise(text, "00:00", " "))
    if _any(pc.match_substring_regex(text, r"\.[0-9]{7}")):
        text = pc.replace_substring_regex(text, r"(\.[0-9]{6})[0-9]+", r"\1")
    zoned = pc.match_substring_regex(text, r":[0-9.]+ ?[Z+-]")
    if not _any(zoned):
        return text.cast(pa.timestamp("us")).cast(pa.int64())
    text = pc.replace_substring_regex(text, r"(:[0-9.]+) ([Z+-])", r"\1\2")
    text = pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", ""))
    return text.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())


# --- Values, one at a time (slow) ------------------------------------------------------------------------------------


def _show(value: object) -> str:
    if isinstance(value, _Number):
        return str(value) if len(value) <= _SHOWN_VALUE else f"{value[:_SHOWN_VALUE]}…"
    if isinstance(value, str):
        return repr(value) if len(value) <= _SHOWN_VALUE else f"{value[:_SHOWN_VALUE]!r}…"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return "an object" if isinstance(value, dict) else "an array"


def _wrong(name: str, value: object) -> _LineError:
    return _LineError(f"expected {name}, got {_show(value)}")


def _from_json(kind: pa.DataType) -> Callable[[Any], object]:
    """How a JSON value that is not null becomes a value `pa.array` takes for this type."""
    name = ddl_type(kind)
    convert: Callable[[Any], object]
    if pa.types.is_struct(kind):
        convert = _struct_reader([_json_column(part) for part in kind])
    elif pa.types.is_map(kind):
        convert = _map_reader(_json_column(kind.item_field))
    elif pa.types.is_list(kind):
        convert = _list_reader(_json_column(kind.value_field))
    elif pa.types.is_boolean(kind):
        convert = bool
    else:
        convert = _from_text(kind)
    wanted = _json_shapes(kind)
    named_only = pa.types.is_floating(kind)

    def read(given: Any) -> object:
        # By exact type: a number is a kind of str here, and is not one to a STRING.
        if type(given) not in wanted:
            raise _wrong(name, given)
        if named_only and type(given) is str and not _nonfinite.fullmatch(given):
            raise _wrong(name, given)
        return convert(given)

    return read


def _json_shapes(kind: pa.DataType) -> tuple[type, ...]:
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return (dict,)
    if pa.types.is_list(kind):
        return (list,)
    if pa.types.is_boolean(kind):
        return (bool,)
    if pa.types.is_integer(kind):
        return (_Number,)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_timestamp(kind):
        return (_Number, str)
    return (str,)


def _struct_reader(parts: list[_Column]) -> Callable[[Any], object]:
    names = [part.name for part in parts]
    places = {name.lower(): place for place, name in enumerate(names)}
    return lambda given: dict(zip(names, _members(given, parts, places), strict=True))


def _list_reader(part: _Column) -> Callable[[Any], object]:
    unnamed = part._replace(name="")

    def read(given: list[object]) -> object:
        done: list[object] = []
        try:
            done.extend(_value(unnamed, item) for item in given)
        except _LineError as fault:
            raise fault.at(f"[{len(done)}]") from None
        return done

    return read


def _map_reader(part: _Column) -> Callable[[Any], object]:
    return lambda given: [(_unicode(key), _value(part._replace(name=key), item)) for key, item in given.items()]


def _from_text(kind: pa.DataType) -> Callable[[str], object]:
    """How a CSV field, or a JSON number or string, becomes a value `pa.array` takes for this type."""
    name = ddl_type(kind)
    if kind == pa.string():
        return _unicode
    if kind == pa.binary():
        return lambda text: _unicode(text).encode()
    if pa.types.is_nested(kind):
        inner = _Column("", True, _from_json(kind))
        return lambda text: _value(inner, _load(text))
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
    word = text.strip(_BLANKS).lower()
    if word not in _TRUE and word not in _FALSE:
        raise _wrong("BOOLEAN (true or false)", text)
    return word in _TRUE


def _unicode(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _LineError("half of a surrogate pair is not a character") from None
    return str(text)


def _integer_of(text: str, top: int, name: str) -> int:
    match = _integer.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise _wrong(name, text)
    value = int(match[1] + match[2]) if len(match[2]) <= 20 else None
    if value is None or not -top <= value < top:
        raise _LineError(f"{_show(_Number(text))} is out of range for {name} ({-top} to {top - 1})")
    return value


def _float_of(text: str, kind: pa.DataType, name: str) -> float:
    text_only = text.strip(_BLANKS)
    if _nonfinite.fullmatch(text_only):
        return float(text_only)
    if not _number.fullmatch(text_only):
        raise _wrong(name, text)
    # A FLOAT is rounded once, from the digits; by way of a double it would be rounded twice.
    value = float(text_only) if kind == pa.float64() else pa.scalar(text_only).cast(kind).as_py()
    if math.isinf(value):
        raise _LineError(f"{_show(_Number(text))} is out of range for {name}")
    return float(value)


def _decimal_of(text: str, precision: int, scale: int, name: str) -> Decimal:
    value = _exact(text)
    if value is None:
        raise _wrong(name, text)
    if not value:
        return Decimal(0)
    _, digits, exponent = value.as_tuple()
    trailing = next(place for place, digit in enumerate(reversed(digits)) if digit)
    places = -int(exponent) - trailing
    if value.adjusted() >= precision - scale:
        whole = precision - scale
        raise _LineError(f"{_show(_Number(text))} has too many digits for {name} (at most {whole} before the point)")
    if places > scale:
        raise _LineError(f"{_show(_Number(text))} has too many digits for {name} (at most {scale} after the point)")
    return value.quantize(Decimal(1).scaleb(-scale), context=_WIDE)


def _exact(text: str) -> Decimal | None:
    text = text.strip(_BLANKS)
    if not _number.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent beyond any type's
        return Decimal("1e9999")


def _days_of(text: str) -> int:
    match = _date.fullmatch(text.strip(_BLANKS))
    try:
        if match is not None:
            return date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _EPOCH
    except ValueError:
        pass
    raise _LineError(f"expected DATE such as 2015-01-31, got {_show(text)}")


def _micros_at(text: str, name: str) -> int:
    micros = _micros_of_number(text) if _number.fullmatch(text.strip(_BLANKS)) else _micros_of_words(text)
    if micros is None:
        raise _LineError(f"expected {name} such as 2015-01-31 10:00:00, got {_show(text)}")
    if not _FIRST_MICRO <= micros <= _LAST_MICRO:
        raise _LineError(f"{_show(_Number(text))} is out of range for {name} (years 1 to 9999)")
    return micros


def _micros_of_number(text: str) -> int:
    seconds = _exact(text)
    if not seconds:
        return 0
    if seconds.adjusted() > 12:
        return _LAST_MICRO + 1
    if seconds.adjusted() < -6:  # nearer to zero than a microsecond
        return -1 if seconds < 0 else 0
    return math.floor(_WIDE.scaleb(seconds, 6))


def _micros_of_words(text: str) -> int | None:
    match = _timestamp.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    whole = (moment.toordinal() - _EPOCH) * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second
    offset = (int(zone_hour or 0) * 60 + int(zone_minute or 0)) * 60
    whole += offset if sign == "-" else -offset
    return whole * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))
