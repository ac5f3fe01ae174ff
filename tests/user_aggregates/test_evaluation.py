"""Queries that call aggregates, computed as a whole at a time."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError
from headrace.session import Session
from tests.conftest import ordered, rows, tagged

STATE = """TABLE state(s DOUBLE);
  INITIALIZE: {{ INSERT INTO state VALUES (x); {tell} }} ITERATE: {{ UPDATE state SET s = s + x; {tell} }}"""
TOTAL = (
    f"CREATE AGGREGATE total(x DOUBLE) : DOUBLE {{ {STATE.format(tell='')}"
    " TERMINATE: { INSERT INTO RETURN SELECT s FROM state; } }"
)
RUNNING = (
    f"CREATE AGGREGATE running(x DOUBLE) : DOUBLE {{ {STATE.format(tell='INSERT INTO RETURN SELECT s FROM state;')} }}"
)
TWO = (
    f"CREATE AGGREGATE two(x DOUBLE) : (a DOUBLE, b DOUBLE) {{ {STATE.format(tell='')}"
    " TERMINATE: { INSERT INTO RETURN SELECT s, s + 1 FROM state; } }"
)


@pytest.fixture
def bids(session: Session) -> Session:
    session.sql("CREATE STREAM Bid (item INT, price INT, at TIMESTAMP) ORDER BY at")
    session.sql("CREATE TABLE Item (item INT, name STRING, weight INT)")
    session.sql("INSERT INTO Item VALUES (1, 'a', 30), (2, 'b', 20), (3, 'c', 10)")
    for text in (TOTAL, RUNNING, TWO):
        session.sql(text)
    # Two at one time stand as they came.
    session.feed("Bid", [(1, 10, 1), (2, 20, 2), (1, 5, 2), (1, 1, 4), (2, 2, 9)])
    return session


def test_base_call_over_a_table(bids: Session) -> None:
    assert rows(bids.sql("SELECT total(weight) FROM Item")) == [(60.0,)]
    assert bids.sql("SELECT total(weight) FROM Item").columns == ["total"]
    grouped = bids.sql(
        "SELECT item % 2 AS odd, total(weight) AS w FROM Item GROUP BY odd HAVING w > 20 ORDER BY w DESC"
    )
    assert ordered(grouped) == [(1, 40.0)]
    assert rows(bids.sql("SELECT two(weight), two(weight).b + 1 AS c FROM Item")) == [(60.0, 61.0, 62.0)]


def test_non_blocking_call_over_a_stream(bids: Session) -> None:
    assert rows(bids.sql("SELECT running(price) AS p FROM Bid")) == [(10.0,), (30.0,), (35.0,), (36.0,), (38.0,)]
    assert rows(bids.sql("SELECT item, running(price) AS p FROM Bid WHERE price > 1 GROUP BY item")) == [
        (1, 10.0), (1, 15.0), (2, 20.0), (2, 22.0),
    ]  # fmt: skip


def test_blocking_call_over_a_stream(bids: Session) -> None:
    for text in ("SELECT total(price) FROM Bid", "SELECT total(p) FROM (SELECT price AS p FROM Bid) AS b"):
        with pytest.raises(DefinitionError) as error:
            bids.sql(text)
        assert error.value.condition == "BLOCKING_AGGREGATE"
    assert rows(bids.sql("SELECT total(price) FROM Bid [RANGE 6 SECONDS]")) == [(3.0,)]


def test_windows_over_a_stream(bids: Session) -> None:
    answer = bids.sql("SELECT item, price, sum(price) OVER (PARTITION BY item ROWS 1 PRECEDING) AS s FROM Bid")
    assert rows(answer) == [(1, 1, 6.0), (1, 10, 10.0), (1, 5, 15.0), (2, 2, 22.0), (2, 20, 20.0)]
    example_5 = "SELECT *, total(price) OVER (PARTITION BY item RANGE UNBOUNDED PRECEDING) AS s FROM Bid QUALIFY s > 20"
    assert [row[-1] for row in rows(bids.sql(example_5))] == [22.0]
    assert rows(bids.sql("SELECT total(price) OVER (ORDER BY at RANGE 2 PRECEDING) FROM Bid")) == [
        (10.0,), (2.0,), (26.0,), (30.0,), (35.0,),
    ]  # fmt: skip
    assert rows(bids.sql("SELECT count(*) OVER (ROWS 9 PRECEDING SLIDE 2) FROM Bid")) == [(2.0,), (4.0,)]


def test_a_stream_has_one_order(bids: Session) -> None:
    with pytest.raises(DefinitionError) as error:
        bids.sql("SELECT total(price) OVER (ORDER BY price ROWS 2 PRECEDING) FROM Bid")
    assert error.value.condition == "ORDER_OF_STREAM"


def test_windows_over_a_table(bids: Session) -> None:
    answer = bids.sql("SELECT name, total(weight) OVER (ORDER BY weight ROWS 1 PRECEDING) AS s FROM Item")
    assert rows(answer) == [("a", 50.0), ("b", 30.0), ("c", 10.0)]
    answer = bids.sql("SELECT name, total(weight) OVER (ORDER BY weight RANGE 10 PRECEDING) AS s FROM Item")
    assert rows(answer) == [("a", 50.0), ("b", 30.0), ("c", 10.0)]
    with pytest.raises(DefinitionError) as error:
        bids.sql("SELECT name, total(weight) OVER (RANGE 10 PRECEDING) AS s FROM Item")
    assert error.value.condition == "NO_ARRIVAL_TIMES"


def test_a_stream_joined_with_a_table_keeps_its_order(bids: Session) -> None:
    answer = bids.sql(
        "SELECT name, total(price) OVER (RANGE 2 PRECEDING) AS s FROM Bid b JOIN Item i ON b.item = i.item"
    )
    assert rows(answer) == [("a", 10.0), ("a", 26.0), ("a", 35.0), ("b", 2.0), ("b", 30.0)]


def test_blocks_anywhere_in_a_query(bids: Session) -> None:
    assert rows(
        bids.sql("WITH c AS (SELECT item, running(price) AS p FROM Bid GROUP BY item) SELECT max(p) FROM c")
    ) == [(22.0,)]
    assert rows(bids.sql("SELECT name FROM Item WHERE weight >= (SELECT total(weight) / 3 FROM Item)")) == [
        ("a",), ("b",),
    ]  # fmt: skip
    nested = "SELECT total(s) FROM (SELECT item, total(weight) AS s FROM Item GROUP BY item) AS g"
    assert rows(bids.sql(nested)) == [(60.0,)]
    union = "SELECT 'all' AS what, total(weight) AS s FROM Item UNION ALL SELECT name, weight FROM Item WHERE item = 1"
    assert rows(bids.sql(union)) == [("a", 30.0), ("all", 60.0)]


def test_views_and_streams_follow(bids: Session) -> None:
    bids.sql("CREATE VIEW weights AS SELECT item, total(weight) AS w FROM Item GROUP BY item")
    bids.sql("CREATE STREAM sums AS SELECT item, sum(price) OVER (PARTITION BY item ROWS 1 PRECEDING) AS s FROM Bid")
    bids.sql("CREATE VIEW best AS SELECT item, max(s) AS s FROM sums GROUP BY item")
    bids.feed("Bid", [(1, 100, 10), (3, 7, 11)])
    bids.sql("INSERT INTO Item VALUES (3, 'd', 5)")
    bids.refresh()
    assert rows(bids.table("weights")) == [(1, 30.0), (2, 20.0), (3, 15.0)]
    expected = [(1, 10.0), (1, 101.0), (1, 15.0), (1, 6.0), (2, 20.0), (2, 22.0), (3, 7.0)]
    assert rows(bids.table("sums")) == expected
    assert rows(bids.table("best")) == [(1, 101.0), (2, 22.0), (3, 7.0)]
    assert tagged(bids.changes("sums"))[-2:] == [("+", 1, 101.0, 10), ("+", 3, 7.0, 11)]
    assert "order" in str(bids.sql("EXPLAIN sums"))
    assert "order" in str(bids.sql("EXPLAIN SELECT running(price) FROM Bid"))
    for text in (
        "DROP AGGREGATE total",
        "CREATE OR REPLACE AGGREGATE total(x INT) : INT { INITIALIZE: { INSERT INTO RETURN VALUES (x); } }",
    ):
        with pytest.raises(DefinitionError) as error:
            bids.sql(text)
        assert error.value.condition == "STILL_NEEDED"
        assert "weights" in error.value.message
    with pytest.raises(DefinitionError) as error:
        bids.sql("CREATE AGGREGATE sum(x INT) : INT { INITIALIZE: { INSERT INTO RETURN VALUES (x); } }")
    assert error.value.condition == "STILL_NEEDED"


def test_a_derived_stream_is_read_in_the_order_of_its_times(bids: Session) -> None:
    bids.sql("CREATE STREAM late (item INT, price INT, at TIMESTAMP) ORDER BY at")
    bids.sql("CREATE STREAM temp AS SELECT item, sum(price) OVER (PARTITION BY item ROWS 0 PRECEDING) AS s FROM late")
    bids.sql("CREATE STREAM pairs AS SELECT item, sum(s) OVER (PARTITION BY item ROWS 1 PRECEDING) AS s FROM temp")
    bids.feed("late", [(1, 9, 10), (2, 5, 11), (1, 3, 12)])
    bids.refresh()
    bids.feed("late", [(1, 1, 13)])
    bids.refresh()
    assert tagged(bids.changes("pairs")) == [
        ("+", 1, 9.0, 10), ("+", 2, 5.0, 11), ("+", 1, 12.0, 12), ("+", 1, 4.0, 13),
    ]  # fmt: skip


def test_rows_leave_by_the_clock(bids: Session) -> None:
    bids.sql("ALTER CLOCK SET manual")
    bids.sql("CREATE STREAM tag (x INT, at TIMESTAMP) ORDER BY at")
    bids.sql("CREATE STREAM left AS SELECT sum(x) OVER (RANGE 10 PRECEDING ACTIVE EXPIRATION) AS s FROM tag")
    bids.sql("ADVANCE CLOCK TO 100")
    bids.feed("tag", [(1, 100), (2, 104)])
    bids.sql("ADVANCE CLOCK TO 105")
    assert tagged(bids.changes("left")) == [("+", 1.0, 100), ("+", 3.0, 104)]
    # Nothing arrives, and yet it goes on.
    bids.sql("ADVANCE CLOCK TO 112")
    assert tagged(bids.changes("left")) == [("+", 1.0, 100), ("+", 3.0, 104), ("+", 2.0, 110)]
    bids.sql("ADVANCE CLOCK TO 120")
    assert tagged(bids.changes("left"))[3:] == [("+", None, 114)]  # of nothing there is no sum


def test_at_an_earlier_time(bids: Session) -> None:
    assert rows(bids.sql("SELECT running(price) AS p FROM Bid AS OF 2")) == [(10.0,), (30.0,), (35.0,)]


def test_what_is_not_known(bids: Session) -> None:
    with pytest.raises(DefinitionError) as error:
        bids.sql("SELECT total(price) OVER (ROWS 2 PRECEDING), row_number() OVER (ROWS 2 PRECEDING) FROM Bid")
    assert error.value.condition == "UNKNOWN_AGGREGATE"
