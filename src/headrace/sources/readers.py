"""One file to batches of rows, in order and in bounded memory.

Text files go through `parse_lines` in blocks of whole lines: a bad line is rejected and the rest is read. A Parquet
file has its own types: they are checked against the declared columns once, before the first row, and a file that does
not fit is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from headrace.errors import InputError
from headrace.sources.lines import (
    LineOptions,
    Rejected,
    ddl_type,
    header_names,
    is_header_line,
    parse_lines,
    shorten,
    too_long,
)

FileFormat = Literal["json", "csv", "parquet"]

_CHUNK_BYTES = 1 << 20
_BATCH_BYTES = 64 << 20
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class FileBatch:
    """Some rows of a file.

    `first_row` counts the rows of the file's earlier batches. `positions` (int64, ascending) tells where each row of
    `table` stands in the file, and `Rejected.position` where each other line or row does: the index from 0, counting
    every line of a text file (also an empty or header one) and every row of a Parquet file.
    """

    table: pa.Table
    positions: pa.Array
    rejected: list[Rejected]
    first_row: int


def read_batches(
    path: str,
    filesystem: pyarrow.fs.FileSystem,
    format: FileFormat,
    schema: pa.Schema,
    options: LineOptions | None = None,
    batch_rows: int = 131_072,
) -> Iterator[FileBatch]:
    """Read a file in order. A `.gz` text file (or another suffix Arrow knows) is decompressed as it is read.

    Raises
    ------
    InputError
        ``FILE_NOT_FOUND``, ``FILE_NOT_READABLE`` (no permission, or damaged), ``FILE_TYPE_MISMATCH``,
        ``FILE_VALUE_MISMATCH``, ``MISSING_COLUMN``, ``HEADER_MISMATCH``.
    """
    try:
        if format == "parquet":
            yield from _read_parquet(path, filesystem, schema, batch_rows)
        else:
            yield from _read_text(path, filesystem, format, schema, options or LineOptions(), batch_rows)
    except FileNotFoundError:
        hint = "Was it moved or removed after it was listed?"
        raise InputError("FILE_NOT_FOUND", f"{path} does not exist.", hint=hint) from None
    except (OSError, EOFError, pa.ArrowException) as error:
        hint = "Write files under another name (such as x.tmp) and rename them when they are complete."
        message = f"{path} cannot be read as {format}."
        raise InputError("FILE_NOT_READABLE", message, detail=str(error), hint=hint) from None


# --- Lines -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lines:
    """Whole lines that came together: line ends taken off, or the start of one line over the limit."""

    lines: list[bytes]
    size: int
    overlong: str | None = None


class LineFramer:
    """Cuts bytes that come in pieces into whole lines, holding back at most one line's worth.

    A line over the limit is thrown away as it streams by; its start and its length are kept for the rejection.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._head = min(max_line_bytes, _HEAD_BYTES)
        self._held = bytearray()
        self._dropped = 0

    @property
    def held_bytes(self) -> int:
        """The size of the unfinished line."""
        return len(self._held) + self._dropped

    def feed(self, data: bytes) -> list[Lines]:
        """The lines that these bytes complete."""
        out: list[Lines] = []
        if self._dropped:
            end = data.find(b"\n")
            self._dropped += len(data) if end < 0 else end
            if end < 0:
                return out
            out.append(self._end_overlong())
            data = data[end + 1 :]
        end = data.rfind(b"\n")
        if end >= 0:
            self._held += data[:end]
            whole = bytes(self._held)
            self._held.clear()
            out.append(Lines(whole.split(b"\n"), len(whole)))
        self._held += data[end + 1 :]
        if len(self._held) > self._limit:
            self._dropped = len(self._held) - self._head
            del self._held[self._head :]
        return out

    def finish(self) -> list[Lines]:
        """The last line, where the bytes ended without a line end."""
        if self._dropped:
            return [self._end_overlong()]
        last = bytes(self._held)
        self._held.clear()
        return [Lines([last], len(last))] if last else []

    def _end_overlong(self) -> Lines:
        reason = too_long(len(self._held) + self._dropped, self._limit)
        head = bytes(self._held)
        self._held.clear()
        self._dropped = 0
        return Lines([head], len(head), reason)


def _read_text(
    path: str,
    filesystem: pyarrow.fs.FileSystem,
    format: Literal["json", "csv"],
    schema: pa.Schema,
    options: LineOptions,
    batch_rows: int,
) -> Iterator[FileBatch]:
    first_row = first_line = 0
    for lines, rejected in _line_batches(path, filesystem, options.max_line_bytes, batch_rows):
        if first_line == 0 and lines:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            if format == "csv" and options.header and _is_header(path, lines[0], schema, options):
                lines[0] = b""  # an empty line is skipped, and the others keep their numbers
        parsed = parse_lines(lines, format, schema, options)
        bad = sorted([*parsed.rejected, *rejected], key=lambda found: found.position)
        bad = [replace(found, position=found.position + first_line) for found in bad]
        if parsed.table.num_rows or bad:
            yield FileBatch(parsed.table, pc.add(parsed.positions, first_line), bad, first_row)
        first_row += parsed.table.num_rows
        first_line += len(lines)


def _line_batches(
    path: str, filesystem: pyarrow.fs.FileSystem, limit: int, batch_rows: int
) -> Iterator[tuple[list[bytes], list[Rejected]]]:
    """Lists of at most `batch_rows` lines; one over the limit stands as an empty line and a rejection."""
    lines: list[bytes] = []
    rejected: list[Rejected] = []
    size = 0
    for found in _framed(path, filesystem, limit):
        if found.overlong is not None:
            rejected.append(Rejected(len(lines), shorten(found.lines[0]) + "…", found.overlong))
            lines.append(b"")
        else:
            lines += found.lines
        size += found.size
        while len(lines) >= batch_rows:
            early = [one for one in rejected if one.position < batch_rows]
            late = [replace(one, position=one.position - batch_rows) for one in rejected if one.position >= batch_rows]
            yield lines[:batch_rows], early
            lines, rejected, size = lines[batch_rows:], late, 0
        if size >= _BATCH_BYTES:
            yield lines, rejected
            lines, rejected, size = [], [], 0
    if lines:
        yield lines, rejected


def _framed(path: str, filesystem: pyarrow.fs.FileSystem, limit: int) -> Iterator[Lines]:
    framer = LineFramer(limit)
    with filesystem.open_input_stream(path, compression="detect") as stream:
        while data := stream.read(_CHUNK_BYTES):
            yield from framer.feed(data)
    yield from framer.finish()


def _is_header(path: str, line: bytes, schema: pa.Schema, options: LineOptions) -> bool:
    if is_header_line(line, schema, options):
        return True
    names = header_names(line, options)
    if sorted(names) == sorted(name.lower() for name in schema.names):
        # Every row would be read into the wrong columns, often without a fault.
        raise InputError(
            "HEADER_MISMATCH",
            f"{path} has its columns in the order {', '.join(names)}.",
            hint=f"Declare the columns in that order; they are declared as {', '.join(schema.names)}.",
        )
    return False


# --- Parquet ---------------------------------------------------------------------------------------------------------


def _read_parquet(
    path: str, filesystem: pyarrow.fs.FileSystem, schema: pa.Schema, batch_rows: int
) -> Iterator[FileBatch]:
    with filesystem.open_input_file(path) as handle:
        file = pq.ParquetFile(handle)
        names = _match_columns(path, file.schema_arrow, schema)
        wanted = [name for name in names if name is not None]
        first_row = seen = 0
        for batch in file.iter_batches(batch_size=batch_rows, columns=wanted):
            columns = [
                pa.nulls(batch.num_rows, column.type) if name is None else _cast(path, batch.column(name), column)
                for name, column in zip(names, schema, strict=True)
            ]
            table, positions, bad = _without_nulls(columns, schema, seen)
            seen += batch.num_rows
            if table.num_rows or bad:
                yield FileBatch(table, positions, bad, first_row)
            first_row += table.num_rows


def _match_columns(path: str, found: pa.Schema, schema: pa.Schema) -> list[str | None]:
    """The file's name of each declared column, or None where it has none."""
    by_name: dict[str, list[str]] = {}
    for name in found.names:
        by_name.setdefault(name.lower(), []).append(name)
    names: list[str | None] = []
    for column in schema:
        same = by_name.get(column.name.lower(), [])
        name = column.name if column.name in same else (same[0] if same else None)
        if name is None and not column.nullable:
            raise InputError(
                "MISSING_COLUMN",
                f"{path} has no column {column.name}, which is NOT NULL.",
                detail=f"Its columns are {', '.join(found.names)}.",
                hint="Rename the column in the file, or declare it without NOT NULL.",
            )
        if name is not None and not _fits(found.field(name).type, column.type):
            has, wants = ddl_type(found.field(name).type), ddl_type(column.type)
            raise InputError(
                "FILE_TYPE_MISMATCH",
                f"{path}: column {name} is {has} in the file and declared {wants}.",
                hint=f"Declare {column.name} {has}, or rewrite the file with {name} as {wants}.",
            )
        names.append(name)
    return names


def _fits(has: pa.DataType, wants: pa.DataType) -> bool:
    """Whether a value of one type means the same in the other; single values may still be out of range."""
    types = pa.types
    if types.is_dictionary(has):
        return _fits(has.value_type, wants)
    if has == wants or types.is_null(has):
        return True
    if types.is_integer(has):
        return types.is_integer(wants) or types.is_decimal(wants) or types.is_floating(wants)
    if types.is_floating(has):
        return types.is_floating(wants) and has.bit_width <= wants.bit_width
    if types.is_decimal(has):
        return types.is_decimal(wants)
    if types.is_temporal(has):
        return types.is_timestamp(wants) if types.is_timestamp(has) or types.is_date(has) else False
    if types.is_large_string(has) or types.is_string(has) or types.is_string_view(has):
        return types.is_string(wants) or types.is_binary(wants)
    if types.is_large_binary(has) or types.is_fixed_size_binary(has) or types.is_binary_view(has):
        return types.is_binary(wants)
    if types.is_map(has) or types.is_map(wants):
        return types.is_map(has) and types.is_map(wants) and all(map(_fits_inside, _parts(has), _parts(wants)))
    if types.is_list(has) or types.is_large_list(has):
        return types.is_list(wants) and _fits_inside(has.value_type, wants.value_type)
    if types.is_struct(has) and types.is_struct(wants) and has.num_fields == wants.num_fields:
        pairs = zip(has, wants, strict=True)
        return all(
            mine.name.lower() == theirs.name.lower() and _fits_inside(mine.type, theirs.type) for mine, theirs in pairs
        )
    return False


def _fits_inside(has: pa.DataType, wants: pa.DataType) -> bool:
    """As `_fits`, for a part of a nested type: there `_cast` cannot widen a decimal before Arrow rescales it."""
    return _fits(has, wants) and (has == wants or not pa.types.is_decimal(wants))


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.key_type, kind.item_type]


def _cast(path: str, values: Any, column: pa.Field) -> Any:
    if values.type == column.type:
        return values
    has, wants = ddl_type(values.type), ddl_type(column.type)
    try:
        if pa.types.is_decimal(column.type) and not pa.types.is_nested(values.type):
            # In 128 bits Arrow wraps around where the new scale is too wide; in 256 bits every value has room.
            values = values.cast(pa.decimal256(76, column.type.scale))
        # Nanoseconds are cut off, as in lines; every other loss is an error.
        return pc.cast(values, options=pc.CastOptions(column.type, allow_time_truncate=True))
    except pa.ArrowInvalid as error:
        raise InputError(
            "FILE_VALUE_MISMATCH",
            f"{path}: a value of column {column.name} ({has} in the file) does not fit {wants}.",
            detail=str(error),
            hint=f"Declare {column.name} {has}.",
        ) from None


def _without_nulls(columns: list[Any], schema: pa.Schema, first: int) -> tuple[pa.Table, pa.Array, list[Rejected]]:
    """The rows that keep NOT NULL with their places in the file, and the others."""
    loose = pa.schema([column.with_nullable(True) for column in schema])
    table = pa.Table.from_arrays(columns, schema=loose)
    broken = np.zeros(table.num_rows, dtype=bool)
    rejected: dict[int, Rejected] = {}
    for name, column in zip(schema.names, schema, strict=True):
        if column.nullable or not table[name].null_count:
            continue
        nulls = table[name].is_null().to_numpy()
        broken |= nulls
        for place in np.flatnonzero(nulls).tolist():
            row = shorten(str(table.slice(place, 1).to_pylist()[0]).encode("utf-8", "replace"))
            rejected.setdefault(place, Rejected(first + place, row, f"{name}: missing, and the column is NOT NULL"))
    if rejected:
        table = table.filter(pa.array(~broken))
    positions = pa.array(first + np.flatnonzero(~broken), pa.int64())
    return table.cast(schema), positions, [rejected[place] for place in sorted(rejected)]
