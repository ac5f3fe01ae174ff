"""JSON lines: a block of objects by Arrow's reader (fast), or one object or array in Python (slow)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.sources.column_values import all_true, any_true, as_table, finish, joined
from headrace.sources.json_values import json_column, load, members
from headrace.sources.likely import likely_json
from headrace.sources.line_types import LineError, LineOptions, Number, read_value, show
from headrace.sources.spellings import BLANKS


class JsonLines:
    def __init__(self, schema: pa.Schema, options: LineOptions) -> None:
        self.schema = schema
        self.options = options
        self.has_fast = all(_arrow_reads(column.type) for column in schema)
        self.columns = [json_column(column) for column in schema]
        self.places = {column.name.lower(): place for place, column in enumerate(schema)}

    def fast(self, lines: pa.Array) -> pa.Table | None:
        text = lines.cast(pa.string())
        if not all_true(pc.starts_with(text, "{")) or not all_true(pc.ends_with(text, "}")):
            text = pc.ascii_trim(text, BLANKS)
        # With the row count, this makes each line one object: no line can end inside an object that the next goes on
        # with, as a string cannot hold a line end and `}` `{` do not stand together in JSON.
        if not (all_true(pc.starts_with(text, "{")) and all_true(pc.ends_with(text, "}"))):
            return None
        if any_true(pc.match_substring_regex(text, "[\r\n]")):
            return None
        if any_true(pc.match_substring_regex(text, r"[:,\[][ \t]*-?(?:NaN|Inf)")):
            return None  # Arrow also reads Inf and -NaN
        types = self._types_like(lines[0].as_py())
        scales = [scale for _, kind in types for scale in _decimal_scales(kind)]
        if scales and any_true(pc.match_substring_regex(text, _may_wrap(max(scales)))):
            return None
        data = joined(lines)
        block = max(4 << 20, 2 * self.options.max_line_bytes)
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(block_size=block, use_threads=data.size > block),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(types), unexpected_field_behavior="error"
            ),
        )
        read = [table.column(place).combine_chunks() for place in range(len(types))]
        if any(values.type == pa.float32() and not all_true(pc.is_finite(values)) for values in read):
            return None  # too large for a FLOAT
        columns = [finish(values, column.type) for values, column in zip(read, self.schema, strict=True)]
        return as_table(columns, self.schema, len(lines))

    @property
    def likely(self) -> tuple[str, ...]:
        return likely_json(self.schema, exponents=not any(_decimal_scales(column.type) for column in self.schema))

    def _types_like(self, first: bytes) -> list[tuple[str, pa.DataType]]:
        """How the first line spells each column and writes each time: one writer's lines look alike."""
        spelled, numeric = {}, set()
        loaded = load(first.decode())
        for name, value in loaded.items() if isinstance(loaded, dict) else ():
            place = self.places.get(name.lower())
            if place is not None:
                spelled[place] = name
                if isinstance(value, Number):
                    numeric.add(place)
        return [
            (spelled.get(place, column.name), _json_type(column.type, place in numeric))
            for place, column in enumerate(self.schema)
        ]

    def slow(self, text: str) -> list[object] | None:
        if not text.strip(" \t\r\n"):
            return None
        value = load(text)
        if isinstance(value, dict):
            return members(value, self.columns, self.places)
        if not isinstance(value, list):
            raise LineError(f"expected a JSON object or array, got {show(value)}")
        if len(value) != len(self.columns):
            raise LineError(f"expected {len(self.columns)} values in the array, got {len(value)}")
        return [read_value(column, item) for column, item in zip(self.columns, value, strict=True)]


def _arrow_reads(kind: pa.DataType, *, inside: bool = False) -> bool:
    """Whether Arrow's JSON reader gives what the slow path gives, with `finish` after it for whole columns."""
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
