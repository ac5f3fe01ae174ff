"""Patterns of lines that the fast path probably takes, to set the others apart when it has declined a block.

A guess, never a judgement: a line that does not match is read by the slow path, which may well accept it, and one that
matches is still offered to the fast path, which may still decline it (2015-02-30, a field given twice). So a pattern
that is too wide or too narrow costs time and changes no result.

Patterns are matched against bytes, so that one line that is not UTF-8 does not keep the others from being looked at.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.sources.spellings import BLANKS, DATE, FALSE, NONFINITE, SECONDS, TIMESTAMP, TRUE

_GAP = f"[{BLANKS}]*"
_BEYOND_ASCII = r"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
_EXPONENT = "(?:[eE][+-]?[0-9]{1,2})?"
_FRACTION = rf"(?:\.[0-9]+)?{_EXPONENT}"
_JSON_TEXT = rf'"(?:[^"\\\x00-\x1f\x80-\xff]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{{4}}|{_BEYOND_ASCII})*"'


def likely_csv(schema: pa.Schema, delimiter: str, null_value: str) -> tuple[str, ...]:
    """A pattern of a good CSV line for a schema without nested types."""
    mark = _literal(delimiter)
    cells = (_csv_cell(column, mark, _literal(null_value)) for column in schema)
    return (f"^{mark.join(cells)}$",)


def likely_json(schema: pa.Schema, *, exponents: bool) -> tuple[str, ...]:
    """Patterns that a good JSON object matches: one for the whole, and one for each field that must be there.

    `exponents` tells whether a number may have one; beside a DECIMAL the fast path declines them all.
    """
    whole = _json_object(list(schema))
    whole = whole if exponents else whole.replace(_EXPONENT, "")
    needed = (f'"{_name(column.name)}"{_GAP}:' for column in schema if not column.nullable)
    return (f"^{_GAP}{whole}{_GAP}$", *needed)


def _csv_cell(column: pa.Field, mark: str, null: str) -> str:
    if column.type in (pa.string(), pa.binary()):
        bare = rf'(?:[^"{mark}\r\n\x80-\xff]|{_BEYOND_ASCII})'
        return rf'(?:{bare}{"*" if column.nullable else "+"}|"(?:[^"\r\n\x80-\xff]|""|{_BEYOND_ASCII})*")'
    value = f"{_GAP}(?:{_csv_value(column.type)}){_GAP}"
    nulls = f"||{null}" if column.nullable else ""
    return f'(?:{value}|"{value}"{nulls})'


def _csv_value(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return f"(?i:{'|'.join(TRUE + FALSE)})"
    if pa.types.is_integer(kind):
        return f"-?0*{_up_to((1 << (kind.bit_width - 1)) - 1)}"
    if pa.types.is_floating(kind):
        return rf"[+-]?(?:[0-9]+{_FRACTION}|{NONFINITE})"
    if pa.types.is_decimal(kind):
        return rf"[+-]?[0-9]{{0,{kind.precision - kind.scale}}}(?:\.[0-9]{{0,{kind.scale}}})?"
    return DATE if pa.types.is_date(kind) else f"{TIMESTAMP}|{SECONDS}"


def _json_object(columns: list[pa.Field]) -> str:
    members = "|".join(f'"{_name(column.name)}"{_GAP}:{_GAP}{_json_value(column)}' for column in columns)
    # Commas are not counted: saying "between two members" would double the pattern at each level of nesting.
    return rf"\{{{_GAP}(?:(?:{members}){_GAP},?{_GAP})*\}}"


def _json_value(column: pa.Field) -> str:
    value = _json_bare(column.type)
    return f"(?:{value}|null)" if column.nullable else f"(?:{value})"


def _json_bare(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return _json_object(list(kind))
    if pa.types.is_list(kind):
        return rf"\[{_GAP}(?:{_json_value(kind.value_field)}{_GAP},?{_GAP})*\]"
    if pa.types.is_boolean(kind):
        return "true|false"
    if pa.types.is_integer(kind):
        return f"-?{_up_to((1 << (kind.bit_width - 1)) - 1)}"
    if pa.types.is_floating(kind):
        return f"-?[0-9]+{_FRACTION}"
    if pa.types.is_decimal(kind):
        number = rf"-?[0-9]{{1,{max(1, kind.precision - kind.scale)}}}(?:\.[0-9]{{1,{max(1, kind.scale)}}})?"
        return f'{number}|"{number}"'
    if pa.types.is_temporal(kind):
        quoted = DATE if pa.types.is_date(kind) else f"{TIMESTAMP}|{SECONDS}"
        bare = "" if pa.types.is_date(kind) else f"|{SECONDS}"
        return f'"{_GAP}(?:{quoted}){_GAP}"{bare}'
    return _JSON_TEXT


def _up_to(top: int) -> str:
    """Digits of a number from 0 to `top`, without leading zeros where it has as many digits."""
    digits = str(top)
    shorter = [f"[0-9]{{1,{len(digits) - 1}}}"]
    less = [
        f"{digits[:place]}[0-{int(digit) - 1}]" + (f"[0-9]{{{left}}}" if left else "")
        for place, digit in enumerate(digits)
        if digit != "0"
        for left in [len(digits) - place - 1]
    ]
    return f"(?:{'|'.join([*shorter, *less, digits])})"


def _name(name: str) -> str:
    """A column's name in any case."""
    return f"(?i:{_literal(name)})"


def _literal(text: str) -> str:
    return "".join(rf"\x{{{byte:02x}}}" for byte in text.encode())
