"""Files of every format to batches, and files that cannot be read."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import LocalFileSystem

from headrace.errors import InputError
from headrace.sources.lines import LineOptions
from headrace.sources.readers import FileBatch, FileFormat, LineFramer, read_batches

SCHEMA = pa.schema([("Sensor", pa.string()), ("Temperature", pa.int32())])


def read(
    path: Path,
    format: FileFormat,
    schema: pa.Schema = SCHEMA,
    options: LineOptions | None = None,
    batch_rows: int = 131_072,
) -> list[FileBatch]:
    batches = list(read_batches(str(path), LocalFileSystem(), format, schema, options, batch_rows))
    assert all(batch.table.schema == schema for batch in batches)
    return batches


def condition(path: Path, format: FileFormat, schema: pa.Schema = SCHEMA, options: LineOptions | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(path, format, schema, options)
    assert path.name in caught.value.message
    return caught.value.condition


def rows(batches: list[FileBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.table.to_pylist()]


def test_csv_in_batches_counts_rows_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("\ufeffsensor,temperature\r\na,1\r\nb,x\r\n\r\nc,3\r\nd,4".encode())
    batches = read(path, "csv", options=LineOptions(header=True), batch_rows=2)
    assert [row["Sensor"] for row in rows(batches)] == ["a", "c", "d"]
    assert [batch.first_row for batch in batches] == [0, 1, 1]
    assert [batch.positions.to_pylist() for batch in batches] == [[1], [], [4, 5]]
    assert [(one.position, one.line) for batch in batches for one in batch.rejected] == [(2, "b,x")]


def test_without_the_header_option_the_header_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"sensor,temperature\na,1\n")
    (batch,) = read(path, "csv")
    assert batch.rejected[0].reason == "Temperature: expected INT, got 'temperature'"


def test_a_header_in_another_order_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"temperature,sensor\n1,a\n")
    assert condition(path, "csv", options=LineOptions(header=True)) == "HEADER_MISMATCH"


def test_json_gzip(tmp_path: Path) -> None:
    path = tmp_path / "in.json.gz"
    path.write_bytes(gzip.compress(b'{"sensor":"a","temperature":1}\n["b",2]\n{"sensor":'))
    (batch,) = read(path, "json")
    assert rows([batch]) == [{"Sensor": "a", "Temperature": 1}, {"Sensor": "b", "Temperature": 2}]
    assert batch.positions.equals(pa.array([0, 1], pa.int64()))
    assert [one.position for one in batch.rejected] == [2]


@pytest.mark.parametrize("content", [b"not gzip at all", gzip.compress(b"a,1\n" * 1000)[:-20]])
def test_a_damaged_gzip_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.csv.gz"
    path.write_bytes(content)
    assert condition(path, "csv") == "FILE_NOT_READABLE"


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_missing_file(tmp_path: Path, format: FileFormat) -> None:
    assert condition(tmp_path / "gone", format) == "FILE_NOT_FOUND"


@pytest.mark.parametrize("format", ["csv", "json"])
def test_an_empty_file_has_no_batches(tmp_path: Path, format: FileFormat) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"")
    assert read(path, format) == []


def test_an_endless_line_is_rejected_and_the_rest_read(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,1\n" + b"x" * 5_000_000 + b"\nb,2\n" + b"y" * 3_000_000)
    (batch,) = read(path, "csv")
    assert [row["Sensor"] for row in rows([batch])] == ["a", "b"]
    assert [(one.position, one.reason) for one in batch.rejected] == [
        (1, "line of 5000000 bytes is over the limit of 1 MiB"),
        (3, "line of 3000000 bytes is over the limit of 1 MiB"),
    ]
    assert all(len(one.line) <= 4097 for one in batch.rejected)


@given(content=st.binary(max_size=200).map(lambda raw: raw.replace(b"a", b"\n")), cut=st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_framing_does_not_depend_on_how_bytes_come(content: bytes, cut: int) -> None:
    framer = LineFramer(8)
    pieces = [content[start : start + cut] for start in range(0, len(content), cut)]
    found = [block for piece in pieces for block in framer.feed(piece)] + framer.finish()
    lines = [line for block in found for line in block.lines]
    expected = content.split(b"\n")
    expected = expected if expected[-1] else expected[:-1]
    assert len(lines) == len(expected)
    for block in found:
        assert block.overlong is None or "over the limit of 8 bytes" in block.overlong
    # A line at most at the limit is whole; a longer one is whole, or its start with the reason.
    assert all(
        got == want if len(want) <= 8 else want.startswith(got) for got, want in zip(lines, expected, strict=True)
    )


def test_a_framer_holds_at_most_a_line() -> None:
    framer = LineFramer(100_000)
    for _ in range(1000):
        assert framer.feed(b"x" * 1000) == []
        assert len(framer._held) <= 101_000
    assert framer.held_bytes == 1_000_000
    (block,) = framer.finish()
    assert block.overlong == "line of 1000000 bytes is over the limit of 100000 bytes"


def test_parquet_columns_by_name_in_any_case_and_order(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table({"more": [1, 2, 3], "TEMPERATURE": pa.array([1, 2, 3], pa.int64()), "sensor": ["a", "b", None]})
    pq.write_table(table, path)
    batches = read(path, "parquet", batch_rows=2)
    assert [row["Temperature"] for row in rows(batches)] == [1, 2, 3]
    assert [batch.first_row for batch in batches] == [0, 2]
    assert [batch.positions.to_pylist() for batch in batches] == [[0, 1], [2]]


def test_parquet_missing_column_is_null(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"sensor": ["a"]}), path)
    assert rows(read(path, "parquet")) == [{"Sensor": "a", "Temperature": None}]
    pq.write_table(pa.table({"other": ["a", "b"]}), path)
    assert rows(read(path, "parquet")) == [{"Sensor": None, "Temperature": None}] * 2
    strict = pa.schema([pa.field("Sensor", pa.string()), pa.field("Temperature", pa.int32(), nullable=False)])
    assert condition(path, "parquet", strict) == "MISSING_COLUMN"


def test_parquet_nulls_in_a_not_null_column_are_rejected_rows(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"sensor": ["a", "b", "c"], "temperature": [1, None, 3]}), path)
    strict = pa.schema([pa.field("Sensor", pa.string()), pa.field("Temperature", pa.int32(), nullable=False)])
    batches = read(path, "parquet", strict, batch_rows=2)
    assert [row["Sensor"] for row in rows(batches)] == ["a", "c"]
    assert [one.position for batch in batches for one in batch.rejected] == [1]
    assert [batch.first_row for batch in batches] == [0, 1]
    assert [batch.positions.to_pylist() for batch in batches] == [[0], [2]]


def test_parquet_types_that_mean_the_same_are_cast(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    moment = datetime(2015, 1, 1, 10, tzinfo=UTC)
    table = pa.table(
        {
            "t": pa.array([moment.timestamp() * 1e9 + 1], pa.timestamp("ns")),
            "d": pa.array([5], pa.int64()),
            "s": pa.array(["x"]).dictionary_encode(),
            "l": pa.array([[1]], pa.list_(pa.int64())),
            "v": pa.array(["y"], pa.string_view()),
        }
    )
    pq.write_table(table, path)
    schema = pa.schema(
        [
            ("T", pa.timestamp("us", tz="UTC")), ("D", pa.decimal128(20, 2)), ("S", pa.string()),
            ("L", pa.list_(pa.int32())), ("V", pa.string()),
        ]
    )  # fmt: skip
    (row,) = rows(read(path, "parquet", schema))
    assert row["T"] == moment
    assert (str(row["D"]), row["S"], row["L"], row["V"]) == ("5.00", "x", [1], "y")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(["1"]), pa.int32()),
        (pa.array([1.5]), pa.int32()),
        (pa.array([1.5]), pa.float32()),
        (pa.array([1]), pa.string()),
        (pa.array([True]), pa.int8()),
        (pa.array([[1]]), pa.int8()),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())])),
        (pa.array([1]), pa.timestamp("us")),
        (pa.array([[1]]), pa.list_(pa.decimal128(38, 10))),
    ],
)
def test_parquet_types_that_do_not_fit(tmp_path: Path, values: pa.Array, kind: pa.DataType) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"v": values}), path)
    with pytest.raises(InputError) as caught:
        read(path, "parquet", pa.schema([("v", kind)]))
    assert caught.value.condition == "FILE_TYPE_MISMATCH"
    assert "column v is" in caught.value.message
    assert caught.value.hint is not None


def test_parquet_value_out_of_range(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"sensor": ["a"], "temperature": [1 << 40]}), path)
    assert condition(path, "parquet") == "FILE_VALUE_MISMATCH"


@pytest.mark.parametrize("number", [82322754209686007618221202226118, 90617356260820555541930143387888, 10**28])
def test_parquet_decimals_do_not_wrap_around(tmp_path: Path, number: int) -> None:
    """Arrow's own cast makes 161949774642721633485428808.1252892672 of the second one."""
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"v": pa.array([Decimal(number)], pa.decimal128(38, 0))}), path)
    assert condition(path, "parquet", pa.schema([("v", pa.decimal128(38, 10))])) == "FILE_VALUE_MISMATCH"


def test_parquet_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"sensor": ["a"] * 1000}), path)
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:-10], whole[: len(whole) // 2], b"PAR1" + b"\0" * 100 + b"PAR1"):
        path.write_bytes(content)
        assert condition(path, "parquet") == "FILE_NOT_READABLE"
