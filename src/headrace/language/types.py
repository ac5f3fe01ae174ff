"""Column types: DDL text, its one normal spelling, and Arrow."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from headrace.errors import DefinitionError

# First the normal spelling, then what else is accepted for it.
_SIMPLE: dict[str, str] = {}
for _normal, _others in (
    ("BOOLEAN", "bool"),
    ("TINYINT", "byte"),
    ("SMALLINT", "short int2"),
    ("INT", "integer int4"),
    ("BIGINT", "long int8"),
    ("FLOAT", "real float4"),
    ("DOUBLE", "float8"),
    ("STRING", "text char varchar character"),
    ("BINARY", "bytea"),
    ("DATE", ""),
    ("TIMESTAMP", "timestamp_ltz timestamptz"),
    ("TIMESTAMP_NTZ", ""),
):
    for _word in (_normal, *_others.upper().split()):
        _SIMPLE[_word] = _normal

_ARROW = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"), "TIMESTAMP_NTZ": pa.timestamp("us"),
    "INTERVAL DAY TO SECOND": pa.duration("us"),
}  # fmt: skip

KNOWN_TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, "
    "TIMESTAMP_NTZ, INTERVAL DAY TO SECOND, ARRAY<t>, MAP<k,v>, STRUCT<name: t, ...>"
)

_WORDS = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|`(?:[^`]|``)+`|\d+|[<>(),:])")


def unknown_type(text: str) -> DefinitionError:
    return DefinitionError("UNKNOWN_TYPE", f"'{text}' is not a type.", detail=f"Known types: {KNOWN_TYPES}.")


class _Reader:
    """A small recursive reader of type text; also tells whether text is a type at all."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[str] = []
        self.at = 0
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            found = _WORDS.match(stripped, position)
            if not found:
                raise unknown_type(text)
            self.words.append(found.group(1))
            position = found.end()

    def peek(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self) -> str:
        word = self.peek()
        self.at += 1
        return word

    def expect(self, word: str) -> None:
        if self.take().upper() != word:
            raise unknown_type(self.text)

    def whole(self) -> str:
        found = self.type()
        if self.at != len(self.words):
            raise unknown_type(self.text)
        return found

    def number(self) -> int:
        word = self.take()
        if not word.isdigit():
            raise unknown_type(self.text)
        return int(word)

    def type(self) -> str:
        word = self.take().upper()
        if word == "DOUBLE" and self.peek().upper() == "PRECISION":
            self.take()
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            return self.decimal()
        if word == "ARRAY":
            self.expect("<")
            item = self.type()
            self.expect(">")
            return f"ARRAY<{item}>"
        if word == "MAP":
            self.expect("<")
            key = self.type()
            self.expect(",")
            value = self.type()
            self.expect(">")
            return f"MAP<{key}, {value}>"
        if word == "STRUCT":
            return self.struct()
        if word == "INTERVAL":
            return self.interval()
        normal = _SIMPLE.get(word)
        if normal is None:
            raise unknown_type(self.text)
        if self.peek() == "(" and word in ("CHAR", "VARCHAR", "CHARACTER"):
            self.take()
            self.number()
            self.expect(")")
        return normal

    def decimal(self) -> str:
        precision, scale = 10, 0
        if self.peek() == "(":
            self.take()
            precision = self.number()
            if self.peek() == ",":
                self.take()
                scale = self.number()
            self.expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            raise unknown_type(self.text)
        return f"DECIMAL({precision},{scale})"

    def struct(self) -> str:
        self.expect("<")
        fields: list[str] = []
        while self.peek() not in (">", ""):
            name = self.take()
            if not re.match(r"[A-Za-z_`]", name):
                raise unknown_type(self.text)
            if self.peek() == ":":
                self.take()
            fields.append(f"{name}: {self.type()}")
            if self.peek() == ",":
                self.take()
        self.expect(">")
        return f"STRUCT<{', '.join(fields)}>"

    def interval(self) -> str:
        # All day-time intervals are one type for us: Arrow knows no narrower duration.
        units = ("DAY", "HOUR", "MINUTE", "SECOND")
        if self.peek().upper() not in units:
            raise unknown_type(self.text)
        self.take()
        if self.peek().upper() == "TO":
            self.take()
            if self.take().upper() not in units:
                raise unknown_type(self.text)
        return "INTERVAL DAY TO SECOND"


def normalise_type(ddl: str) -> str:
    """The one spelling of a type: ``char(10)`` is STRING, ``real`` is FLOAT, ``decimal`` is DECIMAL(10,0).

    Examples
    --------
    >>> normalise_type("array<varchar(3)>")
    'ARRAY<STRING>'
    """
    return _Reader(ddl).whole()


def is_type(text: str) -> bool:
    """Whether the text is a type we know."""
    try:
        normalise_type(text)
    except DefinitionError:
        return False
    return True


@lru_cache(maxsize=4096)
def arrow_type(ddl: str) -> pa.DataType:
    """The Arrow type that holds a column of this DDL type."""
    return _to_arrow(_Reader(normalise_type(ddl)))


def _to_arrow(reader: _Reader) -> pa.DataType:
    """Read a normalised type; every spelling has been settled before."""
    word = reader.take()
    if word == "DECIMAL":
        reader.take()
        precision = reader.number()
        reader.take()
        scale = reader.number()
        reader.take()
        return pa.decimal128(precision, scale)
    if word == "ARRAY":
        reader.take()
        item = _to_arrow(reader)
        reader.take()
        return pa.list_(item)
    if word == "MAP":
        reader.take()
        key = _to_arrow(reader)
        reader.take()
        value = _to_arrow(reader)
        reader.take()
        return pa.map_(key, value)
    if word == "STRUCT":
        reader.take()
        fields = []
        while reader.peek() != ">":
            name = reader.take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            reader.take()
            fields.append(pa.field(name, _to_arrow(reader)))
            if reader.peek() == ",":
                reader.take()
        reader.take()
        return pa.struct(fields)
    if word == "INTERVAL":
        reader.at += 3
        return _ARROW["INTERVAL DAY TO SECOND"]
    return _ARROW[word]


_FROM_ARROW = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
    # Unsigned types go to the next wider signed one, so that every value fits.
    pa.uint8(): "SMALLINT", pa.uint16(): "INT", pa.uint32(): "BIGINT", pa.uint64(): "DECIMAL(20,0)",
    pa.float16(): "FLOAT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE",
    pa.string(): "STRING", pa.large_string(): "STRING", pa.string_view(): "STRING",
    pa.binary(): "BINARY", pa.large_binary(): "BINARY", pa.binary_view(): "BINARY",
    pa.date32(): "DATE", pa.date64(): "DATE",
}  # fmt: skip


def ddl_type(data_type: pa.DataType) -> str:
    """The DDL type that holds an Arrow column: the inverse of `arrow_type`, and more forgiving."""
    if data_type in _FROM_ARROW:
        return _FROM_ARROW[data_type]
    kinds = pa.types
    if kinds.is_timestamp(data_type):
        return "TIMESTAMP" if data_type.tz else "TIMESTAMP_NTZ"
    if kinds.is_duration(data_type):
        return "INTERVAL DAY TO SECOND"
    if kinds.is_decimal(data_type) and data_type.precision <= 38:
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if kinds.is_dictionary(data_type):
        return ddl_type(data_type.value_type)
    if kinds.is_fixed_size_binary(data_type):
        return "BINARY"
    if kinds.is_list(data_type) or kinds.is_large_list(data_type) or kinds.is_fixed_size_list(data_type):
        return f"ARRAY<{ddl_type(data_type.value_type)}>"
    if kinds.is_map(data_type):
        return f"MAP<{ddl_type(data_type.key_type)}, {ddl_type(data_type.item_type)}>"
    if kinds.is_struct(data_type):
        fields = (f"{_field_name(field.name)}: {ddl_type(field.type)}" for field in data_type)
        return f"STRUCT<{', '.join(fields)}>"
    raise unknown_type(str(data_type))


def _field_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"
