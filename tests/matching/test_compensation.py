"""Queries told from views that contain them: the paper's example, other shapes, and random pairs held against data."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.algebra.matching.compensation import compensation
from headrace.algebra.matching.predicates import Kind
from headrace.language import CreateView, Query, parse_one
from tests.matching.test_predicates import PREDICATE


def query(text: str) -> Query:
    statement = parse_one(f"CREATE VIEW q AS {text}")
    assert isinstance(statement, CreateView)
    return statement.query


def kind(column: str) -> Kind | None:
    return "text" if column.lower() in ("s", "roomid") else "number"


def told(text: str, view: str, *columns: str) -> str | None:
    found = compensation(query(text), query(view), "v", columns, kind)
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
        ("SELECT count(*) AS n FROM t", "SELECT x, count(*) AS n FROM t GROUP BY x", ("x", "n")),
        ("SELECT x FROM t LIMIT 5", "SELECT x FROM t", ("x",)),
        ("SELECT x FROM t", "SELECT x FROM t LIMIT 5", ("x",)),
        ("SELECT x, count(*) AS n FROM t GROUP BY x", "SELECT x, count(*) AS n FROM t GROUP BY x HAVING count(*) > 1",
         ("x", "n")),
    ],
)  # fmt: skip
def test_what_a_view_does_not_tell(text: str, view: str, columns: tuple[str, ...]) -> None:
    assert told(text, view, *columns) is None


ITEMS = ("x", "y", "s")
CALLS = ("count(*)", "sum(y)", "min(x)", "max(y)", "count(s)")


@st.composite
def blocks(draw: st.DrawFn) -> tuple[str, tuple[str, ...]]:
    """A SELECT over t, and the names of its columns."""
    where = draw(st.one_of(st.just(""), st.builds(" WHERE {}".format, PREDICATE)))
    shown = draw(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=3, unique=True))
    if draw(st.booleans()):
        return f"SELECT {', '.join(shown)} FROM t{where}", tuple(shown)
    calls = draw(st.lists(st.sampled_from(CALLS), max_size=3, unique=True))
    named = [f"{call} AS c{CALLS.index(call)}" for call in calls]
    text = f"SELECT {', '.join([*shown, *named])} FROM t{where} GROUP BY {', '.join(shown)}"
    return text, (*shown, *(f"c{CALLS.index(call)}" for call in calls))


ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-2, 3)), st.one_of(st.none(), st.integers(-2, 3)),
              st.sampled_from([None, "a", "b"])),
    max_size=8,
)  # fmt: skip


@given(blocks(), blocks(), ROWS)
def test_a_compensated_query_gives_the_same_rows(
    asked: tuple[str, tuple[str, ...]], view: tuple[str, tuple[str, ...]], rows: list[tuple[Any, ...]]
) -> None:
    found = compensation(query(asked[0]), query(view[0]), "v", view[1], kind)
    assume(found is not None)
    assert found is not None
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (x INT, y INT, s TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        database.execute(f"CREATE TABLE v AS {view[0]}")
        expected, answered = (Counter(database.execute(text).fetchall()) for text in (asked[0], found.sql()))
    assert answered == expected, found.sql()
