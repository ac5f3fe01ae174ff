"""Queries told from views that contain them: the paper's example, other shapes, and random pairs held against data."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.algebra.matching.compensation import compensation
from headrace.algebra.matching.predicates import Kind
from headrace.language import CreateView, Query, parse_one
from tests.matching.test_predicates import PREDICATE


def query(text: str) -> Query:
    statement = parse_one(f"CREATE VIEW q AS {text}")
    assert isinstance(statement, CreateView)
    return statement.query


#: The columns of the relations that the examples read.
SCHEMA = {
    "t": ("x", "y", "z", "f"), "u": ("z", "w"), "a": ("x", "y"), "b": ("x",), "RoomTempStr": ("RoomID", "Temperature"),
}  # fmt: skip


def kind(column: str) -> Kind | None:
    if column.lower() == "f":
        return "float"
    return "text" if column.lower() in ("s", "roomid") else "number"


def told(text: str, view: str, *columns: str) -> str | None:
    found = compensation(query(text), query(view), "v", columns, kind, SCHEMA.get)
    return None if found is None else found.sql()


def test_example_19_hot_rooms() -> None:
    assert (
        told(
            "SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 100",
            "SELECT RoomID, Temperature FROM R(RoomTempStr) H WHERE H.Temperature > 80",
            "RoomID", "Temperature",
        )
        == "SELECT RoomID, Temperature FROM v WHERE Temperature > 100"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "view", "columns", "expected"),
    [
        ("SELECT x FROM t", "SELECT x, y FROM t", ("x", "y"), "SELECT x FROM v"),
        ("SELECT x + 1 AS z FROM t WHERE y = 2", "SELECT x AS a, y AS b FROM t", ("a", "b"),
         "SELECT a + 1 AS z FROM v WHERE b = 2"),
        ("SELECT DISTINCT x FROM t", "SELECT x FROM t", ("x",), "SELECT DISTINCT x FROM v"),
        ("SELECT x, count(*) AS n FROM t WHERE y > 1 GROUP BY x HAVING count(*) > 2", "SELECT x, y FROM t WHERE y > 0",
         ("x", "y"), "SELECT x, COUNT(*) AS n FROM v WHERE y > 1 GROUP BY x HAVING COUNT(*) > 2"),
        ("SELECT x, sum(z) AS z, count(*) AS n FROM t WHERE x > 1 GROUP BY x",
         "SELECT x, y, sum(z) AS total, count(*) AS n FROM t GROUP BY x, y", ("x", "y", "total", "n"),
         "SELECT x, SUM(total) AS z, SUM(n) AS n FROM v WHERE x > 1 GROUP BY x"),
        ("SELECT y, min(z) AS low FROM t WHERE y = 3 GROUP BY y", "SELECT y, min(z) AS least FROM t GROUP BY y",
         ("y", "least"), "SELECT y, least AS low FROM v WHERE y = 3"),
        ("SELECT a.x FROM a JOIN b ON a.x = b.x WHERE a.y > 5", "SELECT a.x, a.y FROM a JOIN b ON a.x = b.x",
         ("x", "y"), "SELECT x FROM v WHERE y > 5"),
        ("SELECT count(*) AS n FROM t", "SELECT x, count(*) AS n FROM t GROUP BY x", ("x", "n"),
         "SELECT COALESCE(SUM(n), 0) AS n FROM v"),
        ("SELECT x FROM t ORDER BY x LIMIT 5", "SELECT x FROM t", ("x",), "SELECT x FROM v ORDER BY x LIMIT 5"),
        ("SELECT x, count(*), sum(y) FROM t GROUP BY x", "SELECT x, y FROM t", ("x", "y"),
         "SELECT x, COUNT(*) AS column_1, SUM(y) AS column_2 FROM v GROUP BY x"),
        ("SELECT x, sum(y * 2 - z) AS n FROM t GROUP BY x", "SELECT x, f, sum(y * 2 - z) AS m FROM t GROUP BY x, f",
         ("x", "f", "m"), "SELECT x, SUM(m) AS n FROM v GROUP BY x"),
        ("SELECT DISTINCT x FROM t WHERE x > 2", "SELECT DISTINCT x, y FROM t", ("x", "y"),
         "SELECT x FROM v WHERE x > 2 GROUP BY x"),
        ("SELECT x, max(y) AS y, count(DISTINCT y) AS n FROM t GROUP BY x", "SELECT DISTINCT x, y FROM t", ("x", "y"),
         "SELECT x, MAX(y) AS y, COUNT(DISTINCT y) AS n FROM v GROUP BY x"),
        ("SELECT x, avg(f) AS f FROM t GROUP BY x HAVING count(*) > 3", "SELECT x, avg(f) AS a, count(*) AS n FROM t "
         "GROUP BY x", ("x", "a", "n"), "SELECT x, a AS f FROM v WHERE n > 3"),
        ("SELECT x, sum(y) AS y FROM t GROUP BY x HAVING count(*) > 3",
         "SELECT x, z, sum(y) AS y, count(1) AS n FROM t GROUP BY x, z", ("x", "z", "y", "n"),
         "SELECT x, SUM(y) AS y FROM v GROUP BY x HAVING SUM(n) > 3"),
        ("SELECT x FROM t GROUP BY x HAVING count(*) > 3 AND max(y) < 9",
         "SELECT x, max(y) AS y FROM t GROUP BY x HAVING count(*) > 3", ("x", "y"), "SELECT x FROM v WHERE y < 9"),
        ("SELECT x FROM (SELECT x, y FROM t WHERE y > 5) s WHERE x = 1", "SELECT x, y FROM t WHERE y > 4", ("x", "y"),
         "SELECT x FROM v WHERE y > 5 AND x = 1"),
        ("SELECT * FROM t WHERE x = 1", "SELECT * FROM t", ("x", "y", "z", "f"),
         "SELECT x, y, z, f FROM v WHERE x = 1"),
        ("SELECT s.x, u.w FROM t s JOIN u ON s.x = u.z WHERE s.y > 1 AND w < 3", "SELECT x, y FROM t WHERE y > 0",
         ("x", "y"), "SELECT v.x, u.w FROM v CROSS JOIN u AS `u` WHERE v.x = u.z AND v.y > 1 AND u.w < 3"),
        ("SELECT b.x FROM t a, t b WHERE a.x = b.y AND a.z > 1", "SELECT c.x, c.y FROM t c", ("x", "y"),
         "SELECT v.x FROM v CROSS JOIN t AS `a` WHERE a.x = v.y AND a.z > 1"),
        ("SELECT x FROM t LEFT JOIN u ON t.x = u.z WHERE w > 2", "SELECT x, w FROM t LEFT JOIN u ON t.x = u.z",
         ("x", "w"), "SELECT x FROM v WHERE w > 2"),
    ],
)  # fmt: skip
def test_what_a_view_tells(text: str, view: str, columns: tuple[str, ...], expected: str) -> None:
    assert told(text, view, *columns) == expected


@pytest.mark.parametrize(
    ("text", "view", "columns"),
    [
        ("SELECT x FROM t", "SELECT x FROM t WHERE x > 1", ("x",)),
        ("SELECT x FROM t WHERE y > 1", "SELECT x FROM t", ("x",)),
        ("SELECT x FROM t", "SELECT x FROM u", ("x",)),
        ("SELECT x FROM t", "SELECT DISTINCT x FROM t", ("x",)),
        ("SELECT x, avg(z) AS z FROM t GROUP BY x", "SELECT x, y, avg(z) AS z FROM t GROUP BY x, y", ("x", "y", "z")),
        ("SELECT x, sum(z) AS z FROM t WHERE z > 0 GROUP BY x", "SELECT x, sum(z) AS z FROM t GROUP BY x", ("x", "z")),
        ("SELECT x, count(DISTINCT z) AS n FROM t GROUP BY x",
         "SELECT x, y, count(DISTINCT z) AS n FROM t GROUP BY x, y", ("x", "y", "n")),
        ("SELECT x, count(*) AS n FROM t GROUP BY x", "SELECT DISTINCT x FROM t", ("x",)),
        ("SELECT count(*) AS n FROM t", "SELECT DISTINCT x FROM t", ("x",)),
        ("SELECT x FROM t ORDER BY y", "SELECT x, y FROM t", ("x", "y")),
        ("SELECT x, sum(f) AS f FROM t GROUP BY x", "SELECT x, y, sum(f) AS f FROM t GROUP BY x, y", ("x", "y", "f")),
        ("SELECT x FROM t WHERE rand() < z", "SELECT x FROM t WHERE x > Now", ("x",)),
        ("SELECT a.x FROM t a, t b WHERE a.x < b.y", "SELECT a.x, b.y FROM t a, t b WHERE a.y < b.x", ("x", "y")),
        ("SELECT x FROM t LEFT JOIN u ON t.x = u.z", "SELECT x FROM t JOIN u ON t.x = u.z", ("x",)),
        ("SELECT count(*) AS n FROM t", "SELECT mean(x) AS m FROM t", ("m",)),
        ("SELECT x, try_sum(y) AS m FROM t GROUP BY x", "SELECT DISTINCT x, y FROM t", ("x", "y")),
        ("SELECT x, sum(z) AS z FROM t GROUP BY x ORDER BY count(*) LIMIT 1",
         "SELECT x, y, sum(z) AS z FROM t GROUP BY x, y", ("x", "y", "z")),
        ("SELECT s.x, s_t.z FROM (SELECT x FROM t) s JOIN u s_t ON s.x = s_t.z", "SELECT x, z FROM t", ("x", "z")),
        ("SELECT t.x FROM t JOIN u USING (z)", "SELECT * FROM t JOIN u USING (z)", ("z", "x", "y", "f", "w")),
        ("SELECT * FROM t JOIN u USING (z)", "SELECT * FROM t JOIN u USING (z)", ("z", "x", "y", "f", "w")),
        ("SELECT x FROM t WHERE x >= 10000000000000000000000000000001",
         "SELECT x FROM t WHERE x >= 10000000000000000000000000000002", ("x",)),
        ("SELECT count(*) AS n FROM t WHERE 1 = 0", "SELECT count(*) AS n FROM t", ("n",)),
        ("SELECT count(1, x) AS n FROM t", "SELECT count(*) AS n FROM t", ("n",)),
        ("SELECT 5 AS five, x, count(*) AS n FROM t GROUP BY 1, 2", "SELECT x, y FROM t", ("x", "y")),
        ("SELECT x, sum(y) AS y FROM t GROUP BY x HAVING y > 3", "SELECT x, y AS b FROM t", ("x", "b")),
        ("SELECT x, sum(y / 3) AS n FROM t GROUP BY x", "SELECT x, z, sum(y / 3) AS n FROM t GROUP BY x, z",
         ("x", "z", "n")),
        ("SELECT stack(2, x, y) FROM t", "SELECT x, y FROM t", ("x", "y")),
        ("SELECT x FROM t", "SELECT x FROM t LIMIT 5", ("x",)),
        ("SELECT x, count(*) AS n FROM t GROUP BY x", "SELECT x, count(*) AS n FROM t GROUP BY x HAVING count(*) > 1",
         ("x", "n")),
    ],
)  # fmt: skip
def test_what_a_view_does_not_tell(text: str, view: str, columns: tuple[str, ...]) -> None:
    assert told(text, view, *columns) is None


ITEMS = ("x", "y", "s")
CALLS = ("count(*)", "sum(t.y)", "min(t.x)", "max(t.y)", "count(t.s)", "count(DISTINCT t.x)")
#: What can be read: one relation, a part of it, two of them, and the same one twice.
FROM = (
    "t",
    "t",
    "(SELECT x, y, s FROM t WHERE y > 0) AS t",
    "t JOIN u ON t.x = u.z",
    "t, u",
    "t JOIN t AS o ON t.x = o.y",
)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """A SELECT over t, and the names of its columns."""
    from_ = draw(st.sampled_from(FROM))
    predicate = PREDICATE.map(lambda text: re.sub(r"\b([xys])\b", r"t.\1", text))
    where = draw(st.one_of(st.just(""), st.builds(" WHERE {}".format, predicate)))
    shown = draw(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3, unique=True))
    listed = ", ".join(f"t.{one}" for one in shown)
    form = draw(st.sampled_from(["rows", "rows", "distinct", "groups", "groups", "one group"]))
    if form in ("rows", "distinct"):
        return f"SELECT {'DISTINCT ' if form == 'distinct' else ''}{listed} FROM {from_}{where}", tuple(shown)
    least = 1 if form == "one group" else 0
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=least, max_size=3, unique=True))
    named = [f"{call} AS c{CALLS.index(call)}" for call in calls]
    names = tuple(f"c{CALLS.index(call)}" for call in calls)
    if form == "one group":
        return f"SELECT {', '.join(named)} FROM {from_}{where}", names
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1"]))
    text = f"SELECT {', '.join([listed, *named])} FROM {from_}{where} GROUP BY {listed}{having}"
    return text, (*shown, *names)


VALUE = st.one_of(st.none(), st.integers(-2, 3))
ROWS = st.lists(st.tuples(VALUE, VALUE, st.sampled_from([None, "a", "b"])), max_size=8)
COLUMNS = {"t": ("x", "y", "s"), "u": ("z", "w")}


#: Rows on either side of every constant that predicates have, and at it: what separates any two of them.
EDGES = (None, *range(-3, 5))
GRID = [(x, y, s) for x in EDGES for y in EDGES for s in (None, "a", "d")]


@settings(max_examples=400)
@given(blocks(), blocks(), ROWS)
def test_a_compensated_query_gives_the_same_rows(
    asked: tuple[str, tuple[str, ...]], view: tuple[str, tuple[str, ...]], rows: list[tuple[Any, ...]]
) -> None:
    found = compensation(query(asked[0]), query(view[0]), "v", view[1], kind, COLUMNS.get)
    assume(found is not None)
    assert found is not None
    for data in (rows, GRID):
        expected, answered = results(data, view[0], [asked[0], found.sql()])
        assert answered == expected, found.sql()


def results(rows: list[tuple[Any, ...]], view: str, queries: list[str]) -> list[Counter[tuple[Any, ...]]]:
    """What queries give over t, u and the view v."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (x INT, y INT, s TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        database.execute("CREATE TABLE u AS SELECT y AS z, x AS w FROM t WHERE s = 'a'")
        database.execute(f"CREATE TABLE v AS {view}")
        return [Counter(database.execute(text).fetchall()) for text in queries]


@settings(max_examples=200)
@given(blocks())
def test_every_query_is_told_from_itself(asked: tuple[str, tuple[str, ...]]) -> None:
    assert compensation(query(asked[0]), query(asked[0]), "v", asked[1], kind, COLUMNS.get) is not None
