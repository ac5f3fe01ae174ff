"""The fast path may decline a line, and never disagree with the slow path about one it accepts.

With `_LEAF` at 1 every line is offered to the fast path alone as well as among its neighbours.
"""

from __future__ import annotations

import json
import re
import string
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.sources import lines as module
from headrace.sources.likely import _up_to
from headrace.sources.lines import Format, LineOptions, Parsed, parse_lines

SIMPLE = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.bool_(), pa.date32(),
    pa.timestamp("us", tz="UTC"), pa.timestamp("us"), pa.binary(), pa.decimal128(4, 2), pa.decimal128(38, 10),
    pa.decimal128(10, 0),
]  # fmt: skip
NESTED = [
    pa.list_(pa.int8()),
    pa.list_(pa.float32()),
    pa.list_(pa.field("element", pa.decimal128(4, 2), nullable=False)),
    pa.struct([("x", pa.int32()), ("Y", pa.string())]),
    pa.struct([("when", pa.timestamp("us", tz="UTC")), ("xs", pa.list_(pa.float64()))]),
    pa.map_(pa.string(), pa.int16()),
]
TEXTS = [
    "", " ", "5", " 5", "5\t", "-0", "+5", "007", "0x1F", "0X1f", "300", "-129", "127", "128", "32768", "2147483648",
    "9223372036854775807", "9223372036854775808", "1" * 40, "1.0", "1.5", ".5", "5.", "1e3", "1E-3", "1e400", "1e39",
    "-1e39", "1e-400", "0.1", "16777217", "1.17549429e-38", "123.4", "99.99", "1.005", "1.500", "100", "0e50", "1e2",
    "nan", "NaN", "-NaN", "nan(7)", "inf", "Inf", "-Infinity", "infinity", "1_0", "true", "TRUE", "False", "t", "yes",
    "NO", "0", "1", "tRuE", " true", "null", "NULL", "2015-01-01", "2015/01/31", "2015-02-30", "2016-02-29",
    "0000-01-01", "0001-01-01", "9999-12-31", "2015-1-1", "2015-01-01 10:00", "2015/01/01 10:00", "2015-01-01T10:00:59",
    "2015-01-01T10:00:00.1", "2015-01-01T10:00:00.123456", "2015-01-01T10:00:00.123456789Z", "2015-01-01 10:00 +02:00",
    "2015-01-01T10:00:00-0330", "2015-01-01T10:00:00+05", "2015-01-01T10", "2015-01-01Z", "2015-01-01T24:00",
    "2015-01-01T10:00:60", "0001-01-01T00:00+05:00", "9999-12-31T23:59:59.999999-01:00", "1420106400", "1420106400.5",
    "-1.0000001", "1e9", "253402300800", "-62135596800", "99999999999999999", "é", "😀", "a\x00b", "a\rb", "\ufeffa",
    "[1,2]", '{"x":1}', "[1,", "a'b", "\\N", "NA", "#",
]  # fmt: skip
JSONS = [
    "0", "-0", "-0.0", "1", "127", "128", "-129", "1.0", "1e2", "1E400", "1e39", "0.1", "123.4", "1.005", "1.50",
    "0e50", "NaN", "Inf", "-NaN", "-Infinity", "Infinity", "true", "false", "null", "01", "+1", "1.", ".5",
    "1420106400.25", "1420106400.1234567", "253402300800", "1e9", "1e-9", "-1e-9",
    '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\u0000"', '"a\tb"',
    "[]", "[1,null]", "[1,300]", "[1e39]", "[NaN]", "[[1]]", "{}", '{"x":1}', '{"X":1,"y":"s"}', '{"x":1,"x":2}',
    '{"z":1}', '{"when":"2015-01-01","xs":[1,2.5]}', '{"k":1,"K":null}', "[1.5,123.4]", "'a'", "", "{", "nul",
]  # fmt: skip

kinds = st.sampled_from(SIMPLE * 3 + NESTED)
texts = st.one_of(
    st.sampled_from(TEXTS), st.text(alphabet='"01x.e-+:/TZ ,;\ta\\\réN', max_size=6), st.integers().map(str),
    st.floats().map(str), st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.datetimes().map(str), st.datetimes().map(lambda moment: moment.isoformat() + "Z"), st.dates().map(str),
)  # fmt: skip


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    types = draw(st.lists(kinds, min_size=1, max_size=4))
    names = ["a", "Temp", "ts", "dD"]
    return pa.schema([pa.field(names[i], kind, nullable=draw(st.booleans())) for i, kind in enumerate(types)])


def spoil(draw: st.DrawFn, line: str) -> str:
    """Sometimes one character more, less or other."""
    if not line or draw(st.integers(0, 5)) != 0:
        return line
    place = draw(st.integers(0, len(line) - 1))
    return line[:place] + draw(st.sampled_from(["", '"', ",", "}", "{", "\r", " ", "\\", "0"])) + line[place + 1 :]


@st.composite
def csv_lines(draw: st.DrawFn, width: int) -> bytes:
    cells = []
    for _ in range(draw(st.sampled_from([width] * 8 + [width + 1, max(1, width - 1)]))):
        cell = draw(texts)
        if draw(st.booleans()) or (draw(st.booleans()) and any(mark in cell for mark in '",')):
            cell = '"' + cell.replace('"', '""') + '"'
        cells.append(cell)
    return spoil(draw, ",".join(cells)).encode()


@st.composite
def json_lines(draw: st.DrawFn, schema: pa.Schema) -> bytes:
    values = st.one_of(st.sampled_from(JSONS), texts.map(json.dumps), st.integers().map(str))
    if draw(st.integers(0, 9)) == 0:
        return ("[" + ",".join(draw(values) for _ in schema) + "]").encode()
    names = [draw(st.sampled_from([name, name, name, name.upper()])) for name in schema.names]
    if draw(st.integers(0, 9)) == 0:
        names.append(draw(st.sampled_from(["other", names[0], ""])))
    pad = draw(st.sampled_from(["", "", " "]))
    body = ",".join(f'{pad}"{name}":{pad}{draw(values)}' for name in names if draw(st.integers(0, 9)))
    return spoil(draw, f"{pad}{{{body}}}{pad}").encode()


def read_slowly(given_lines: list[bytes], format: Format, schema: pa.Schema, options: LineOptions) -> Parsed:
    with mock.patch.object(module, "_fast_or_none", return_value=None):
        return parse_lines(given_lines, format, schema, options)


def none_odd(_parser: object, lines: pa.Array) -> Any:
    """No line is set apart, so that each is offered to the fast path."""
    return np.zeros(len(lines), bool)


def assert_agree(given_lines: list[bytes], format: Format, schema: pa.Schema, options: LineOptions) -> None:
    slow = read_slowly(given_lines, format, schema, options)
    for leaf, odd_lines in ((1, none_odd), (1, module._odd_lines), (128, none_odd)):
        with (
            mock.patch.object(module, "_LEAF", leaf),
            mock.patch.object(module, "_WAYS", 2),
            mock.patch.object(module, "_odd_lines", odd_lines),
        ):
            fast = parse_lines(given_lines, format, schema, options)
        assert fast.positions.to_pylist() == slow.positions.to_pylist()
        assert fast.rejected == slow.rejected
        assert fast.table.schema.equals(schema)
        # By repr: NaN equals itself, and 0.0 is not -0.0.
        assert repr(fast.table.to_pylist()) == repr(slow.table.to_pylist())
    blank = b"" if format == "csv" else b" \t\r\n"
    told = {*slow.positions.to_pylist(), *(one.position for one in slow.rejected)}
    assert all(not given_lines[place].strip(blank or None) for place in set(range(len(given_lines))) - told)


@given(data=st.data(), schema=schemas(), null=st.sampled_from(["", "NULL", "NA", "\\N"]))
@settings(max_examples=300, deadline=None)
def test_csv_paths_agree(data: st.DataObject, schema: pa.Schema, null: str) -> None:
    block = data.draw(st.lists(csv_lines(len(schema)), max_size=8))
    assert_agree(block, "csv", schema, LineOptions(null_value=null))


@given(data=st.data(), schema=schemas())
@settings(max_examples=300, deadline=None)
def test_json_paths_agree(data: st.DataObject, schema: pa.Schema) -> None:
    block = data.draw(st.lists(json_lines(schema), max_size=8))
    assert_agree(block, "json", schema, LineOptions())


@given(data=st.data(), schema=schemas())
@settings(max_examples=100, deadline=None)
def test_mixed_lines_agree(data: st.DataObject, schema: pa.Schema) -> None:
    block = data.draw(
        st.lists(st.one_of(csv_lines(len(schema)), json_lines(schema), st.binary(max_size=8)), max_size=8)
    )
    assert_agree(block, "auto", schema, LineOptions())


@given(block=st.lists(st.binary(max_size=12), max_size=6))
@example(block=[b'"a', b'b"', b"a\rb"])
@settings(max_examples=200, deadline=None)
def test_any_bytes_agree(block: list[bytes]) -> None:
    schema = pa.schema([("a", pa.string())])
    for format in ("csv", "json", "auto"):
        assert_agree(block, format, schema, LineOptions())


@pytest.mark.parametrize("kind", SIMPLE + NESTED, ids=str)
def test_every_spelling_agrees_for_every_type(kind: pa.DataType) -> None:
    schema = pa.schema([("a", kind)])
    quoted = ['"' + text.replace('"', '""') + '"' for text in TEXTS]
    assert_agree([text.encode() for text in TEXTS + quoted], "csv", schema, LineOptions())
    values = JSONS + [json.dumps(text) for text in TEXTS] + [json.dumps(text, ensure_ascii=False) for text in TEXTS]
    assert_agree([f'{{"a":{value}}}'.encode() for value in values], "json", schema, LineOptions())


def test_counts_that_cancel_out_are_seen() -> None:
    """Two lines that are one object and one line that is two: as many rows as lines, and not the right ones."""
    schema = pa.schema([("a", pa.int32())])
    parsed = parse_lines([b'{"a":0}', b'{"a":', b"1}", b'{"a":2}{"a":3}'], "json", schema)
    assert parsed.table["a"].to_pylist() == [0]
    assert [one.position for one in parsed.rejected] == [1, 2, 3]
    parsed = parse_lines([b'"a', b'b"', b"c\rd"], "csv", pa.schema([("a", pa.string())]))
    assert parsed.table["a"].to_pylist() == ["c\rd"]


@pytest.mark.parametrize("line", [b"\ra", b"a\r\r", b"a\rb"])
def test_a_carriage_return_inside_a_line_is_data(line: bytes) -> None:
    schema = pa.schema([("a", pa.string())])
    assert_agree([b"x", line], "csv", schema, LineOptions())
    assert parse_lines([line], "csv", schema).table["a"].to_pylist() == [line.decode().removesuffix("\r")]


@pytest.mark.parametrize(
    "number",
    [
        "9.527906274739068e+30", "82322754209686007618221202226118", "90617356260820555541930143387888", "9" * 30,
        "1e29", "9e27", "1234567890123456789012345678.0123456789", "0.00000000001", "-" + "9" * 28, "1e5",
    ],
)  # fmt: skip
def test_decimals_that_arrow_wraps_around(number: str) -> None:
    """Hypothesis found the first: Arrow reads it as 952791023025510991910.4900792320."""
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in number)
    for kind in (pa.decimal128(38, 10), pa.decimal128(38, 38), pa.decimal128(38, 0), pa.timestamp("us", tz="UTC")):
        schema = pa.schema([("a", kind)])
        assert_agree([b"1", number.encode()], "csv", schema, LineOptions())
        for value in (number, f'"{number}"', f'" {number}"', f'"{escaped}"'):
            assert_agree([b'{"a":1}', f'{{"a":{value}}}'.encode()], "json", schema, LineOptions())
    nested = pa.schema([("a", pa.list_(pa.decimal128(38, 10)))])
    assert_agree([f'{{"a":[1, {number}]}}'.encode()], "json", nested, LineOptions())


@pytest.mark.parametrize("value", ["Inf", "-Inf", "-NaN"])
def test_names_of_numbers_that_json_lacks_are_seen_after_a_good_line(value: str) -> None:
    for kind in (pa.float32(), pa.float64(), pa.list_(pa.float64())):
        schema = pa.schema([("a", kind)])
        given_value = f"[{value}]" if pa.types.is_list(kind) else value
        assert_agree([b'{"a":null}', f'{{"a": {given_value}}}'.encode()], "json", schema, LineOptions())


def test_a_large_block_with_few_faults() -> None:
    schema = pa.schema([("name", pa.string()), ("n", pa.int32())])
    lines = [f"{string.ascii_lowercase[i % 26]},{i}".encode() for i in range(20_000)]
    lines[5_000], lines[19_999] = b"x,many", b"x"
    with mock.patch.object(module, "_parse_each", wraps=module._parse_each) as each:
        parsed = parse_lines(lines, "csv", schema)
    assert [one.position for one in parsed.rejected] == [5_000, 19_999]
    assert parsed.table["n"].to_pylist() == [i for i in range(20_000) if i not in (5_000, 19_999)]
    assert sum(len(call.args[1]) for call in each.call_args_list) <= 2 * module._LEAF


GOOD = [
    (pa.int8(), "-127", "-127"), (pa.int16(), "32767", "32767"), (pa.int32(), " 007", "7"), (pa.int64(), "0", "0"),
    (pa.float32(), "1.5e-3", "1.5"), (pa.float64(), "-Inf", "-0.25"), (pa.bool_(), "Yes", "true"),
    (pa.string(), "é 😀 '", '"é \\" \\u00e9"'), (pa.binary(), '"a,""b"', '"a,b"'), (pa.decimal128(4, 2), "-.5", "0.5"),
    (pa.date32(), '"2015/01/31"', '"2015-01-31"'), (pa.timestamp("us"), "2015-01-31T10:00:00.5Z", "1420106400.5"),
    (pa.timestamp("us", tz="UTC"), "2015-01-31", '"2015-01-31 10:00"'), (pa.decimal128(38, 10), "12", "12.0"),
]  # fmt: skip
FAULTS = {
    "csv": ["x", '"', "\\xff" + "," * 13, "1,2" + "," * 11, ",,9999999999" + "," * 11],
    "json": [
        "{",
        '{"c4":1e}',
        '{"other":1}',
        '{"c0":"1"}',
        '{"c7":"\\xff"}',
        '{"c1":32768}',
        '{"c10":"yesterday"}',
        "nul",
    ],
}


@pytest.mark.parametrize("format", ["csv", "json"])
def test_scattered_faults_are_set_apart_at_once(format: Format) -> None:
    """One line in a hundred is bad, so nearly every leaf has one; only those are read slowly."""
    schema = pa.schema([(f"c{place}", kind) for place, (kind, _, _) in enumerate(GOOD)])
    good = {
        "csv": [",".join(cell for _, cell, _ in GOOD), "," * (len(GOOD) - 1)],
        "json": ["{" + ", ".join(f'"c{place}": {value}' for place, (_, _, value) in enumerate(GOOD)) + "}", "{}"],
    }[format]
    lines = [good[i % 2].encode() for i in range(20_000)]
    bad = list(range(50, 20_000, 100))
    for i in bad:
        fault = FAULTS[format][i // 100 % len(FAULTS[format])]
        lines[i] = fault.encode().replace(b"\\xff", b"\xff")
    with mock.patch.object(module, "_parse_each", wraps=module._parse_each) as each:
        parsed = parse_lines(lines, format, schema)
    assert sum(len(call.args[1]) for call in each.call_args_list) == len(bad)
    assert [one.position for one in parsed.rejected] == bad
    assert parsed.positions.to_pylist() == [i for i in range(20_000) if i % 100 != 50]


def test_a_missing_field_that_is_not_null_is_set_apart() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32())])
    lines = [b'{"b":2}' if i % 100 == 7 else b'{"A": 1, "b":2}' for i in range(2_000)]
    with mock.patch.object(module, "_parse_each", wraps=module._parse_each) as each:
        parsed = parse_lines(lines, "json", schema)
    assert sum(len(call.args[1]) for call in each.call_args_list) == len(parsed.rejected) == 20


@pytest.mark.parametrize("top", [127, 32767, 2**31 - 1, 2**63 - 1])
def test_digits_up_to_a_number(top: int) -> None:
    pattern = re.compile(_up_to(top))
    near = [number for base in (0, 10, 99, 100, top, top // 10 * 10) for number in range(max(0, base - 11), base + 12)]
    assert [number for number in near if pattern.fullmatch(str(number))] == [number for number in near if number <= top]
