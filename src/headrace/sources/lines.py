"""Lines of JSON or CSV to rows of a schema, and a reason for every line that is not one.

Two paths, one meaning. The **fast path** gives a whole block to Arrow's reader. It may decline a block, and never
disagree with the slow path about one it accepts: where Arrow is laxer than we are (hex integers, text after a closing
quote, a decimal too wide for its type, two objects on a line), a check over the whole block makes it decline. The
**slow path** reads one line in Python and is the definition: what it accepts is a row, and what it refuses has a
reason. Of a declined block the lines that look odd (`likely`) are read slowly and the others offered again; where
that does not help it is cut in `_WAYS` parts until at most `_LEAF` lines are left. So a fault costs its neighbours
little.

What a value may look like:

- JSON: an object by column name (any case; an absent field is NULL) or an array by position. Numbers and booleans are
  not quoted, except that DECIMAL may be (it keeps its digits) and FLOAT / DOUBLE may be "NaN" or "Infinity".
- CSV: RFC 4180 quotes. An empty unquoted field, or one equal to `null_value`, is NULL; `""` is the empty string. Blanks
  around a value are part of a STRING and ignored elsewhere. ARRAY, STRUCT and MAP are JSON inside the field.
- TIMESTAMP: `2015-01-31`, `2015-01-31 10:00[:00[.123456]]`, with `T`, `/`, `Z` or an offset; or epoch seconds.
  No zone means UTC, and digits below a microsecond are cut off. BINARY is the text's UTF-8 bytes.

The fast path is `csv_lines` / `json_lines` with `column_values`; the slow path the same two with `values` /
`json_values`. `spellings` holds the patterns both build on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.sources.column_types import check_schema, ddl_type
from headrace.sources.column_values import any_true
from headrace.sources.csv_lines import CsvLines, header_names, is_header_line
from headrace.sources.json_lines import JsonLines
from headrace.sources.line_types import (
    MAX_LINE_BYTES,
    Format,
    LineError,
    LineOptions,
    Parsed,
    Rejected,
    shorten,
    too_long,
)

__all__ = [
    "MAX_LINE_BYTES",
    "Format",
    "LineOptions",
    "Parsed",
    "Rejected",
    "check_schema",
    "ddl_type",
    "header_names",
    "is_header_line",
    "parse_lines",
    "shorten",
    "too_long",
]

_LEAF = 128  # a fast attempt costs about as much as a hundred lines read one by one
_WAYS = 8
_BLOCK_BYTES = 32 << 20  # a block is copied once to be joined; this bounds the copy


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
    if any_true(ends):
        given = pc.if_else(ends, pc.binary_slice(given, 0, -1), given)
    sizes = pc.binary_length(given).to_numpy()
    found = _Found(schema)
    for position in np.flatnonzero(sizes > options.max_line_bytes).tolist():
        found.reject(position, given[position].as_py(), too_long(int(sizes[position]), options.max_line_bytes))
    usable = np.flatnonzero((sizes > 0) & (sizes <= options.max_line_bytes))
    for name, chosen in _by_format(given, usable, format):
        parser: _Parser = JsonLines(schema, options) if name == "json" else CsvLines(schema, options)
        block = given if len(chosen) == len(given) else given.take(pa.array(chosen))
        # Cut where the running size passes a multiple of the bound, so no block is much over it.
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes[chosen]) // _BLOCK_BYTES)) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(chosen)], strict=True):
            _parse_block(parser, block.slice(start, stop - start), chosen[start:stop], found)
    return found.parsed()


class _Parser(Protocol):
    def fast(self, lines: pa.Array) -> pa.Table | None:
        """All lines as rows, or None where the slow path must look."""

    def slow(self, text: str) -> list[object] | None:
        """One line as values, None for a blank line; raises `LineError`."""

    @property
    def has_fast(self) -> bool: ...

    @property
    def likely(self) -> tuple[str, ...]:
        """Patterns that a line the fast path takes probably matches, all of them."""


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
        if np.any(positions[1:] < positions[:-1]):  # JSON and CSV lines were mixed, or odd lines set apart
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
    if _parse_at_once(parser, lines, positions, found):
        return
    odd = _odd_lines(parser, lines)
    if odd.any():
        _parse_each(parser, lines.filter(pa.array(odd)), positions[odd], found)
        lines, positions = lines.filter(pa.array(~odd)), positions[~odd]
        if _parse_at_once(parser, lines, positions, found):
            return
    _parse_parts(parser, lines, positions, found)


def _parse_at_once(parser: _Parser, lines: pa.Array, positions: Any, found: _Found) -> bool:
    """Whether the lines are done with: the fast path took them all, or they are too few to look for the odd ones."""
    table = _fast_or_none(parser, lines) if parser.has_fast and len(lines) else None
    if table is not None:
        found.tables.append(table)
        found.positions.append(positions)
        return True
    if len(lines) <= _LEAF or not parser.has_fast:
        _parse_each(parser, lines, positions, found)
        return True
    return False


def _parse_parts(parser: _Parser, lines: pa.Array, positions: Any, found: _Found) -> None:
    step = -(-len(lines) // _WAYS)
    for start in range(0, len(lines), step):
        part, places = lines.slice(start, step), positions[start : start + step]
        if not _parse_at_once(parser, part, places, found):
            _parse_parts(parser, part, places, found)


def _odd_lines(parser: _Parser, lines: pa.Array) -> Any:
    """A mask of the lines that the fast path probably stumbled over; none where they are too many for a guess."""
    odd = np.zeros(len(lines), bool)
    try:
        for pattern in parser.likely:
            odd |= ~pc.match_substring_regex(lines, pattern).to_numpy(zero_copy_only=False)
    except pa.ArrowException:  # a pattern too large for RE2
        return np.zeros(len(lines), bool)
    return odd if odd.sum() <= len(lines) // 2 else np.zeros(len(lines), bool)


def _fast_or_none(parser: _Parser, lines: pa.Array) -> pa.Table | None:
    try:
        return parser.fast(lines)
    except (pa.ArrowException, ValueError, LineError):
        return None


def _parse_each(parser: _Parser, lines: pa.Array, positions: Any, found: _Found) -> None:
    rows, kept = [], []
    for position, line in zip(positions.tolist(), lines.to_pylist(), strict=True):
        try:
            row = parser.slow(_decode(line))
        except LineError as fault:
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
        raise LineError(f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start + 1}") from None
