"""Rows as tables, JSON lines and CSV: what stands on standard output, and how each type is written."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from headrace.cli import app

EVERY_TYPE = """
    SELECT 1 AS i, CAST(1.50 AS DECIMAL(10,2)) AS d, CAST('NaN' AS DOUBLE) AS nan, CAST('-Infinity' AS DOUBLE) AS inf,
    0.5D AS f, true AS b,
    'x' AS s, X'00ff' AS bytes, DATE'2020-02-29' AS day, TIMESTAMP'2020-01-01 00:00:00.5' AS t,
    TIMESTAMP_NTZ'2020-01-01 00:00:00' AS n, INTERVAL 90 SECONDS AS span, array(1, NULL) AS a, struct(1 AS x) AS st,
    map('k', 1) AS m, map(1, 2) AS im, NULL AS z
"""


def sql(tmp_path: Path, text: str, *more: str) -> Result:
    result = CliRunner().invoke(app, ["sql", "--home", str(tmp_path / "home"), "--engine", "sail", "-e", text, *more])
    assert result.exit_code == 0, result.output
    return result


def test_json_is_one_line_a_query_and_nothing_else(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a; SHOW TABLES"
    )
    result = sql(tmp_path, script, "--format", "json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {"columns": ["a"], "rows": [[1], [2]]}
    assert second["rows"] == [["t", "table", "a", "a INT"]]
    assert "Created table t." in result.stderr


def test_every_type_as_json(tmp_path: Path) -> None:
    answer = json.loads(sql(tmp_path, EVERY_TYPE, "--format", "json").stdout)
    assert dict(zip(answer["columns"], answer["rows"][0], strict=True)) == {
        "i": 1, "d": "1.50", "nan": "NaN", "inf": "-Infinity", "f": 0.5, "b": True, "s": "x", "bytes": "AP8=",
        "day": "2020-02-29", "t": "2020-01-01T00:00:00.500000Z", "n": "2020-01-01T00:00:00", "span": "PT90S",
        "a": [1, None], "st": {"x": 1}, "m": {"k": 1}, "im": [[1, 2]], "z": None,
    }  # fmt: skip


def test_columns_of_one_name_are_all_there(tmp_path: Path) -> None:
    assert json.loads(sql(tmp_path, "SELECT 1 AS a, 2 AS a", "--format", "json").stdout) == {
        "columns": ["a", "a"],
        "rows": [[1, 2]],
    }


def test_csv_tells_null_from_an_empty_string(tmp_path: Path) -> None:
    text = "SELECT NULL AS n, '' AS e, 'a,b' AS c, 'say \"hi\"' AS q, array(1) AS a, true AS b; SELECT 1 AS x"
    result = sql(tmp_path, text, "--format", "csv")
    assert result.stdout == 'n,e,c,q,a,b\n,"","a,b","say ""hi""",[1],true\n\nx\n1\n'


def test_a_table_is_cut_at_200_rows_and_json_is_not(tmp_path: Path) -> None:
    text = "SELECT id FROM range(300) ORDER BY id"
    table = sql(tmp_path, text).stdout
    assert "the first 200 rows" in table
    assert " 199 \n" in table
    assert " 200 \n" not in table
    assert len(json.loads(sql(tmp_path, text, "--format", "json").stdout)["rows"]) == 300


def test_a_wide_table_is_not_cut_where_there_is_no_terminal(tmp_path: Path) -> None:
    wide = "w" * 500
    assert wide in sql(tmp_path, f"SELECT '{wide}' AS w, '[bold]x[/bold]' AS markup").stdout


def test_messages_and_listings_in_a_table(tmp_path: Path) -> None:
    result = sql(tmp_path, "CREATE TABLE t (a INT PRIMARY KEY); DESCRIBE t; EXPLAIN t; SELECT * FROM t")
    for expected in ("Created table t.", "column", "t is a table with the key (a).", "0 rows"):
        assert expected in result.stdout
