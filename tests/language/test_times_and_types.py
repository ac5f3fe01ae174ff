"""Times and types: text to numbers and Arrow, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DefinitionError, LanguageError
from headrace.language import (
    arrow_type,
    ddl_type,
    format_seconds,
    format_time,
    normalise_type,
    parse_duration,
    parse_time,
)

NEW_YEAR = 1420070400 * 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "2015/01/01 0:00",
        "2015-01-01",
        "2015-01-01 00:00:00",
        "2015-01-01T00:00:00Z",
        "2015-01-01T01:00:00+01:00",
        "2014-12-31 19:00:00-0500",
        "2015-01-01 00:00:00.000000 UTC",
        "1420070400",
        1420070400,
        1420070400.0,
    ],
)
def test_parse_time(text: str | float) -> None:
    assert parse_time(text) == NEW_YEAR


@pytest.mark.parametrize("text", ["noon", "2015-13-01", "2015-01-01 25:00", "", "10 SECONDS", "1.00000001"])
def test_bad_times(text: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_time(text)
    assert caught.value.condition == "BAD_TIME"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 SECONDS", 10),
        ("1 min", 60),
        ("INTERVAL '5' MINUTE", 300),
        ("INTERVAL 5 MINUTES", 300),
        (10, 10),
        ("7 days", 604800),
        ("INTERVAL '5 minutes'", 300),
        ("2", 2),
        ("1.5 hours", 5400),
        ("500 ms", 0.5),
    ],
)
def test_parse_duration(text: str | int, seconds: float) -> None:
    assert parse_duration(text) == seconds * 1_000_000


@given(st.integers(-(10**15), 10**16))
def test_times_print_and_parse(micros: int) -> None:
    assert parse_time(format_seconds(micros)) == micros
    if micros >= -62135596800_000000 // 10:
        assert parse_time(format_time(micros)) == micros


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("char(10)", "STRING"),
        ("varchar", "STRING"),
        ("real", "FLOAT"),
        ("integer", "INT"),
        ("long", "BIGINT"),
        ("decimal", "DECIMAL(10,0)"),
        ("numeric(5)", "DECIMAL(5,0)"),
        ("double precision", "DOUBLE"),
        ("map<string,array<int>>", "MAP<STRING, ARRAY<INT>>"),
        ("struct<a:int,`b c`:date>", "STRUCT<a: INT, `b c`: DATE>"),
        ("interval day to second", "INTERVAL DAY TO SECOND"),
        ("interval hour", "INTERVAL DAY TO SECOND"),
    ],
)
def test_normalise(text: str, normal: str) -> None:
    assert normalise_type(text) == normal


@pytest.mark.parametrize(
    "text", ["money", "array<", "array<int", "decimal(99)", "int int", "", "map<int>", "interval year"]
)
def test_unknown_types(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        normalise_type(text)
    assert caught.value.condition == "UNKNOWN_TYPE"
    assert "DECIMAL(p,s)" in (caught.value.detail or "")


@pytest.mark.parametrize(
    ("ddl", "arrow"),
    [
        ("BOOLEAN", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("BIGINT", pa.int64()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("STRING", pa.string()),
        ("BINARY", pa.binary()),
        ("DATE", pa.date32()),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("DECIMAL(10,2)", pa.decimal128(10, 2)),
        ("INTERVAL DAY TO SECOND", pa.duration("us")),
        ("ARRAY<INT>", pa.list_(pa.int32())),
        ("MAP<STRING, DOUBLE>", pa.map_(pa.string(), pa.float64())),
        ("STRUCT<a: INT, `b c`: ARRAY<DATE>>", pa.struct([("a", pa.int32()), ("b c", pa.list_(pa.date32()))])),
    ],
)
def test_arrow_and_back(ddl: str, arrow: pa.DataType) -> None:
    assert arrow_type(ddl) == arrow
    assert ddl_type(arrow) == ddl


@pytest.mark.parametrize(
    ("arrow", "ddl"),
    [
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int32(), pa.string()), "STRING"),
        (pa.uint8(), "SMALLINT"),
        (pa.uint16(), "INT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20,0)"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "TIMESTAMP"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
    ],
)
def test_wider_arrow_types(arrow: pa.DataType, ddl: str) -> None:
    assert ddl_type(arrow) == ddl


def test_arrow_type_without_a_column_type() -> None:
    with pytest.raises(DefinitionError):
        ddl_type(pa.null())
