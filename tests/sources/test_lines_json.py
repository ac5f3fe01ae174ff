"""JSON lines: what is a row, and the reason for what is not."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.sources.lines import parse_lines

SCHEMA = pa.schema([pa.field("Sensor", pa.string(), nullable=False), pa.field("Temperature", pa.int8())])


def reason(line: bytes, schema: pa.Schema = SCHEMA) -> str:
    parsed = parse_lines([line], "json", schema)
    assert parsed.table.num_rows == 0
    (rejected,) = parsed.rejected
    return rejected.reason


def one(kind: pa.DataType, text: str) -> object:
    parsed = parse_lines([f'{{"v":{text}}}'.encode()], "json", pa.schema([("v", kind)]))
    return parsed.rejected[0].reason if parsed.rejected else parsed.table["v"][0].as_py()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"Sensor":"s1"', "not JSON: Expecting ',' delimiter at character 15"),
        (b'{"Sensor":"s1"} x', "not JSON: Extra data at character 17"),
        (b'{"Sensor":"s1",}', "not JSON: Expecting property name enclosed in double quotes at character 16"),
        (b'{"Sensor":"s\t1"}', "not JSON: Invalid control character at character 13"),
        (b"hello", "not JSON: Expecting value at character 1"),
        (b"5", "expected a JSON object or array, got 5"),
        (b'"s1"', "expected a JSON object or array, got 's1'"),
        (b"null", "expected a JSON object or array, got null"),
        (b'["s1"]', "expected 2 values in the array, got 1"),
        (b'{"Sensor":"s1","Humidity":5}', "unknown field 'Humidity'; the fields are Sensor, Temperature"),
        (b'{"Temperature":5}', "Sensor: missing, and the column is NOT NULL"),
        (b'{"Sensor":null}', "Sensor: missing, and the column is NOT NULL"),
        (b'{"Sensor":"s1","Temperature":"abc"}', "Temperature: expected TINYINT, got 'abc'"),
        (b'{"Sensor":"s1","Temperature":300}', "Temperature: 300 is out of range for TINYINT (-128 to 127)"),
        (b'{"Sensor":"s1","Temperature":1.0}', "Temperature: expected TINYINT, got 1.0"),
        (b'{"Sensor":"s1","Temperature":true}', "Temperature: expected TINYINT, got true"),
        (b'{"Sensor":5}', "Sensor: expected STRING, got 5"),
        (b'{"Sensor":{"x":1}}', "Sensor: expected STRING, got an object"),
        (b'{"Sensor":"s1","SENSOR":"s2"}', "field Sensor is given twice"),
        (b'{"Sensor":"s1","Sensor":"s2"}', "field Sensor is given twice"),
        (b'{"Sensor":"\\ud800"}', "Sensor: half of a surrogate pair is not a character"),
        (b'{"Sensor":"\xff"}', "not UTF-8: byte 0xff at position 12"),
        (b"[" * 100_000, "not JSON we can read: nested too deeply"),
    ],
)
def test_malformed_lines_have_a_reason(line: bytes, expected: str) -> None:
    assert reason(line) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.bool_(), '"true"', "v: expected BOOLEAN, got 'true'"),
        (pa.float64(), '"1.5"', "v: expected DOUBLE, got '1.5'"),
        (pa.float64(), "1e400", "v: 1e400 is out of range for DOUBLE"),
        (pa.int32(), "NaN", "v: expected INT, got NaN"),
        (pa.decimal128(4, 2), "1.005", "v: 1.005 has too many digits for DECIMAL(4,2) (at most 2 after the point)"),
        (pa.date32(), "5", "v: expected DATE, got 5"),
        (pa.date32(), '"31.1.2015"', "v: expected DATE such as 2015-01-31, got '31.1.2015'"),
        (pa.timestamp("us", tz="UTC"), "true", "v: expected TIMESTAMP, got true"),
        (
            pa.timestamp("us", tz="UTC"),
            "253402300800",
            "v: 253402300800 is out of range for TIMESTAMP (years 1 to 9999)",
        ),
        (pa.list_(pa.int8()), "[1,[2]]", "v[1]: expected TINYINT, got an array"),
        (pa.list_(pa.struct([("x", pa.int8())])), '[{"x":1},{"y":2}]', "v[1]: unknown field 'y'; the fields are x"),
        (pa.map_(pa.string(), pa.int8()), '{"k":300}', "v.k: 300 is out of range for TINYINT (-128 to 127)"),
        (pa.map_(pa.string(), pa.int8()), "[]", "v: expected MAP<STRING, TINYINT>, got an array"),
    ],
)
def test_values_of_the_wrong_kind_have_a_reason(kind: pa.DataType, text: str, expected: str) -> None:
    assert one(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (pa.timestamp("us", tz="UTC"), "1420106400", datetime(2015, 1, 1, 10, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), "1420106400.25", datetime(2015, 1, 1, 10, 0, 0, 250000, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), '"2015-01-01 10:00"', datetime(2015, 1, 1, 10, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), '"2015-01-01T10:00:00.123456789Z"',
         datetime(2015, 1, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        (pa.decimal128(20, 3), "12345678901234567.125", Decimal("12345678901234567.125")),
        (pa.decimal128(20, 3), '"12345678901234567.125"', Decimal("12345678901234567.125")),
        (pa.float64(), '"Infinity"', math.inf),
        (pa.float64(), "-Infinity", -math.inf),
        (pa.float32(), "5", 5.0),
        (pa.string(), '"\\ud83d\\ude00"', "😀"),
        (pa.struct([("x", pa.int8()), ("y", pa.date32())]), '{"X":1}', {"x": 1, "y": None}),
        (pa.map_(pa.string(), pa.int8()), '{"k":1,"l":null}', [("k", 1), ("l", None)]),
    ],
)  # fmt: skip
def test_values(kind: pa.DataType, text: str, expected: object) -> None:
    assert one(kind, text) == expected


def test_nan_is_a_number_of_a_double() -> None:
    assert math.isnan(one(pa.float64(), "NaN"))  # type: ignore[arg-type]
    assert math.isnan(one(pa.float64(), '"NaN"'))  # type: ignore[arg-type]


def test_objects_by_name_and_arrays_by_position() -> None:
    lines = [b'{"TEMPERATURE":1,"sensor":"a"}', b'["b",2]', b'{"Sensor":"c"}', b"  ", b' {"sensor":"d"} ']
    parsed = parse_lines(lines, "json", SCHEMA)
    assert parsed.table["Sensor"].to_pylist() == ["a", "b", "c", "d"]
    assert parsed.table["Temperature"].to_pylist() == [1, 2, None, None]
    assert parsed.positions.to_pylist() == [0, 1, 2, 4]


def test_auto_reads_each_line_as_what_it_is() -> None:
    lines = [b"a,1", b'{"sensor":"b"}', b"c,3", b' ["d",4]', b"e"]
    parsed = parse_lines(lines, "auto", SCHEMA)
    assert parsed.table["Sensor"].to_pylist() == ["a", "b", "c", "d"]
    assert parsed.positions.to_pylist() == [0, 1, 2, 3]
    assert [(one.position, one.reason) for one in parsed.rejected] == [(4, "expected 2 fields, got 1")]


def test_arrow_arrays_are_taken_as_they_are() -> None:
    lines = pa.array(["x", '["b",2]', None, '["c",3]']).slice(1)
    parsed = parse_lines(lines, "json", SCHEMA)
    assert parsed.positions.to_pylist() == [0, 2]
