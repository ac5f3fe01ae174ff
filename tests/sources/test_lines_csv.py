"""CSV lines: what is a row, and the reason for what is not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.errors import DefinitionError
from headrace.sources.lines import LineOptions, is_header_line, parse_lines

SCHEMA = pa.schema([("Sensor", pa.string()), ("Temperature", pa.int32())])


def one(kind: pa.DataType, text: str, options: LineOptions | None = None, *, nullable: bool = True) -> object:
    schema = pa.schema([pa.field("v", kind, nullable=nullable), pa.field("end", pa.int8())])
    parsed = parse_lines([f"{text},1".encode()], "csv", schema, options)
    return parsed.rejected[0].reason if parsed.rejected else parsed.table["v"][0].as_py()


def reason(line: bytes, schema: pa.Schema = SCHEMA) -> str:
    parsed = parse_lines([line], "csv", schema)
    assert parsed.table.num_rows == 0
    (rejected,) = parsed.rejected
    assert rejected.position == 0
    return rejected.reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"s1,abc", "Temperature: expected INT, got 'abc'"),
        (b"s1,1.5", "Temperature: expected INT, got '1.5'"),
        (b"s1,0x1F", "Temperature: expected INT, got '0x1F'"),
        (b"s1,2147483648", "Temperature: 2147483648 is out of range for INT (-2147483648 to 2147483647)"),
        (b's1,""', "Temperature: expected INT, got ''"),
        (b"s1", "expected 2 fields, got 1"),
        (b"s1,1,2", "expected 2 fields, got 3"),
        (b's1,"1', "field 2: unterminated quote (a field cannot span lines)"),
        (b'"s"1,1', 'field 1: text after the closing quote (write a quote inside a field as "")'),
        (b's"1,1', 'field 1: quote inside an unquoted field (quote it and write "" inside)'),
        (b"s\xff1,1", "not UTF-8: byte 0xff at position 2"),
        (b"\x00\x01\x02", "expected 2 fields, got 1"),
        (b"s1,NaN", "Temperature: expected INT, got 'NaN'"),
        (b"s1," + b"9" * 5000, f"Temperature: {'9' * 60}… is out of range for INT (-2147483648 to 2147483647)"),
    ],
)
def test_malformed_lines_have_a_reason(line: bytes, expected: str) -> None:
    assert reason(line) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.int8(), "300", "v: 300 is out of range for TINYINT (-128 to 127)"),
        (pa.bool_(), "maybe", "v: expected BOOLEAN (true or false), got 'maybe'"),
        (pa.date32(), "2015-02-30", "v: expected DATE such as 2015-01-31, got '2015-02-30'"),
        (pa.timestamp("us", tz="UTC"), "noon", "v: expected TIMESTAMP such as 2015-01-31 10:00:00, got 'noon'"),
        (pa.timestamp("us"), "1e15", "v: 1e15 is out of range for TIMESTAMP_NTZ (years 1 to 9999)"),
        (pa.decimal128(4, 2), "1.005", "v: 1.005 has too many digits for DECIMAL(4,2) (at most 2 after the point)"),
        (pa.decimal128(4, 2), "123.4", "v: 123.4 has too many digits for DECIMAL(4,2) (at most 2 before the point)"),
        (pa.decimal128(4, 2), "1e99999999999999999999",
         "v: 1e99999999999999999999 has too many digits for DECIMAL(4,2) (at most 2 before the point)"),
        (pa.float64(), "1e400", "v: 1e400 is out of range for DOUBLE"),
        (pa.float32(), "1e39", "v: 1e39 is out of range for FLOAT"),
        (pa.float64(), "nan(7)", "v: expected DOUBLE, got 'nan(7)'"),
        (pa.list_(pa.int32()), '"[1,""x""]"', "v[1]: expected INT, got 'x'"),
        (pa.struct([("x", pa.int8())]), '"{""x"":300}"', "v.x: 300 is out of range for TINYINT (-128 to 127)"),
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind_have_a_reason(kind: pa.DataType, text: str, expected: str) -> None:
    assert one(kind, text) == expected


def test_a_missing_value_of_a_not_null_column() -> None:
    assert one(pa.int32(), "", nullable=False) == "v: missing, and the column is NOT NULL"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.int32(), " 5", 5),
        (pa.int32(), "+5", 5),
        (pa.int32(), "", None),
        (pa.string(), "", None),
        (pa.string(), '""', ""),
        (pa.string(), '"a,""b"""', 'a,"b"'),
        (pa.string(), " x ", " x "),
        (pa.bool_(), "YES", True),
        (pa.bool_(), "0", False),
        (pa.date32(), "2015/01/31", date(2015, 1, 31)),
        (pa.timestamp("us", tz="UTC"), "2015/01/01 10:00", datetime(2015, 1, 1, 10, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), "2015-01-01T10:00:00+02:00", datetime(2015, 1, 1, 8, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), "1420106400.5", datetime(2015, 1, 1, 10, 0, 0, 500000, tzinfo=UTC)),
        (pa.timestamp("us"), "2015-01-01 10:00Z", datetime(2015, 1, 1, 10)),
        (pa.decimal128(38, 10), "1234567890123456789012345678.0123456789",
         Decimal("1234567890123456789012345678.0123456789")),
        (pa.float64(), "-inf", float("-inf")),
        (pa.binary(), "é", "é".encode()),
        (pa.list_(pa.int32()), '"[1,null]"', [1, None]),
        (pa.map_(pa.string(), pa.date32()), '"{""k"":""2015-01-31""}"', [("k", date(2015, 1, 31))]),
    ],
)  # fmt: skip
def test_values(kind: pa.DataType, text: str, expected: object) -> None:
    assert one(kind, text) == expected


def test_empty_lines_are_skipped_and_positions_kept() -> None:
    parsed = parse_lines([b"", b"a,1\r", b"\r", b"  ", b"b,2"], "csv", SCHEMA)
    assert parsed.table.to_pylist() == [{"Sensor": "a", "Temperature": 1}, {"Sensor": "b", "Temperature": 2}]
    assert parsed.positions.to_pylist() == [1, 4]
    assert parsed.rejected == []


def test_no_lines() -> None:
    parsed = parse_lines([], "csv", SCHEMA)
    assert parsed.table.schema == SCHEMA
    assert len(parsed.positions) == 0


def test_a_line_over_the_limit() -> None:
    parsed = parse_lines([b"a,1", b"x" * 1_048_577, b"b,2"], "csv", SCHEMA)
    assert parsed.table.num_rows == 2
    (rejected,) = parsed.rejected
    assert rejected.reason == "line of 1048577 bytes is over the limit of 1 MiB"
    assert len(rejected.line) == 4097


def test_options() -> None:
    options = LineOptions(delimiter="\t", null_value="NA")
    parsed = parse_lines([b"a b\t1", b"NA\tNA", b'"NA"\t', b"\t"], "csv", SCHEMA, options)
    assert parsed.table["Sensor"].to_pylist() == ["a b", None, "NA", None]
    assert parsed.table["Temperature"].to_pylist() == [1, None, None, None]
    assert parsed.rejected == []


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "é"])
def test_a_delimiter_that_cannot_be(delimiter: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        LineOptions(delimiter=delimiter)
    assert caught.value.condition == "BAD_OPTION"


def test_header_line() -> None:
    options = LineOptions(header=True)
    assert is_header_line(b'sensor, "Temperature"\r', SCHEMA, options) is False  # a quote after a blank is no quote
    assert is_header_line(b'sensor,"Temperature"\r', SCHEMA, options)
    assert is_header_line("\ufeffSensor, temperature".encode(), SCHEMA, options)
    assert not is_header_line(b"Temperature,Sensor", SCHEMA, options)
    assert not is_header_line(b'"Sensor', SCHEMA, options)


@pytest.mark.parametrize(
    ("schema", "condition"),
    [
        (pa.schema([("a", pa.int8()), ("A", pa.int8())]), "DUPLICATE_COLUMN"),
        (pa.schema([("a", pa.uint8())]), "UNSUPPORTED_TYPE"),
        (pa.schema([("a", pa.map_(pa.int8(), pa.int8()))]), "UNSUPPORTED_TYPE"),
        (pa.schema([("a", pa.list_(pa.timestamp("ns")))]), "UNSUPPORTED_TYPE"),
    ],
)
def test_columns_that_lines_cannot_fill(schema: pa.Schema, condition: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_lines([], "csv", schema)
    assert caught.value.condition == condition
