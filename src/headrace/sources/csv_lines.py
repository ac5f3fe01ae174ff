"""CSV lines: a block by Arrow's reader (fast), or a line by RFC 4180 in Python (slow)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.sources.column_values import all_true, any_true, as_table, finish, joined
from headrace.sources.json_values import json_in_text
from headrace.sources.likely import likely_csv
from headrace.sources.line_types import Column, LineError, LineOptions, read_value
from headrace.sources.spellings import BLANKS, BOM, FALSE, TRUE
from headrace.sources.values import from_text


class CsvLines:
    def __init__(self, schema: pa.Schema, options: LineOptions) -> None:
        self.schema = schema
        self.options = options
        self.has_fast = not any(pa.types.is_nested(column.type) for column in schema)
        self.columns = [_csv_column(column) for column in schema]
        self.nulls = ("", options.null_value)
        self.keeps_blanks = len(schema) == 1 and schema.field(0).type in (pa.string(), pa.binary())
        mark = rf"\x{{{ord(options.delimiter):x}}}"
        cell = rf'(?:"(?:[^"]|"")*"|[^"{mark}]*)'
        self.rfc4180 = rf"(?s)^{cell}(?:{mark}{cell})*$"

    def fast(self, lines: pa.Array) -> pa.Table | None:
        text = lines.cast(pa.string())  # refuses bytes that are not UTF-8
        if any_true(pc.match_substring_regex(text, "[\r\n]")) or lines[0].as_py().startswith(BOM):
            return None  # Arrow ends a row at a lone CR and drops a leading BOM; to us both are data
        if any_true(pc.match_substring(text, '"')) and not all_true(pc.match_substring_regex(text, self.rfc4180)):
            return None
        data = joined(lines)
        native = {column.name: _csv_type(column.type) for column in self.schema}
        table = self._read(data, native)
        if self._needs_care(text, table):
            native = {name: _csv_careful_type(kind) for name, kind in native.items()}
            table = self._read(data, native)
        columns = [finish(table[column.name].combine_chunks(), column.type) for column in self.schema]
        return as_table(columns, self.schema, len(lines))

    @property
    def likely(self) -> tuple[str, ...]:
        return likely_csv(self.schema, self.options.delimiter, self.options.null_value)

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
                true_values=[form for word in TRUE for form in {word, word.upper(), word.capitalize()}],
                false_values=[form for word in FALSE for form in {word, word.upper(), word.capitalize()}],
            ),
        )

    def _needs_care(self, text: pa.Array, table: pa.Table) -> bool:
        """Whether Arrow may have read a number that is none to us: 0x1F, nan(7), or 1e999 as infinity."""
        if any(pa.types.is_integer(column.type) for column in self.schema) and any_true(
            pc.match_substring(text, "0x", ignore_case=True)
        ):
            return True
        floats = [table[column.name] for column in self.schema if pa.types.is_floating(column.type)]
        return any(not all_true(pc.is_finite(values)) for values in floats)

    def slow(self, text: str) -> list[object] | None:
        cells = split_csv(text, self.options.delimiter)
        if len(cells) == 1 and not text.strip(BLANKS) and not self.keeps_blanks:
            return None
        if len(cells) != len(self.columns):
            raise LineError(f"expected {len(self.columns)} fields, got {len(cells)}")
        return [
            read_value(column, None if not quoted and cell in self.nulls else cell)
            for column, (cell, quoted) in zip(self.columns, cells, strict=True)
        ]


def _csv_column(column: pa.Field) -> Column:
    read = json_in_text(column.type) if pa.types.is_nested(column.type) else from_text(column.type)
    return Column(column.name, column.nullable, read)


def split_csv(text: str, delimiter: str) -> list[tuple[str, bool]]:
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
                raise LineError(f"field {number}: unterminated quote (a field cannot span lines)")
            cells.append((text[start + 1 : end].replace('""', '"'), True))
            end += 1
            if end < len(text) and text[end] != delimiter:
                raise LineError(f'field {number}: text after the closing quote (write a quote inside a field as "")')
        else:
            end = text.find(delimiter, start)
            end = len(text) if end < 0 else end
            cell = text[start:end]
            if '"' in cell:
                raise LineError(f'field {number}: quote inside an unquoted field (quote it and write "" inside)')
            cells.append((cell, False))
        if end >= len(text):
            return cells
        start = end + 1


def is_header_line(line: bytes, schema: pa.Schema, options: LineOptions) -> bool:
    """Whether a CSV line is the column names, in order; case and blanks around them do not count."""
    names = header_names(line, options)
    return names == [name.lower() for name in schema.names]


def header_names(line: bytes, options: LineOptions) -> list[str]:
    """The fields of a CSV line as lower-case names; empty if it is not a CSV line."""
    try:
        cells = split_csv(line.removeprefix(BOM).decode().rstrip("\r"), options.delimiter)
    except (UnicodeDecodeError, LineError):
        return []
    return [text.strip(BLANKS).lower() for text, _ in cells]


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow reads a column as: text for dates and times, whose grammar is wider here, and for decimals."""
    return pa.string() if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) else kind


def _csv_careful_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_integer(kind) or pa.types.is_floating(kind) else kind
