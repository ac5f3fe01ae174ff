"""The types a column of lines may have, and their names in Spark DDL."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from headrace.errors import DefinitionError


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
