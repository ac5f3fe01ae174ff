"""Windows and Now, by hand: what they show, when views follow, and what is refused."""

from __future__ import annotations

import time

import pytest

from headrace.errors import HeadraceError
from headrace.session import Session
from tests.conftest import rows, tagged


@pytest.fixture
def home(session: Session) -> Session:
    session.sql(
        """
        CREATE STREAM s (k INT, v INT, at TIMESTAMP) ORDER BY at;
        CREATE STREAM other (x INT, at TIMESTAMP) ORDER BY at;
        CREATE TABLE t (k INT PRIMARY KEY, name STRING);
        """
    )
    return session


def refused(session: Session, text: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        session.sql(text)
    return raised.value


def test_rows_die_when_another_stream_moves_the_clock(home: Session) -> None:
    home.sql(
        "CREATE STREAMED VIEW w AS SELECT k FROM s [RANGE 10]; CREATE VIEW n AS SELECT count(*) AS n FROM s [RANGE 10]"
    )
    home.feed("s", [(1, 1, 1), (2, 1, 5)])
    home.refresh()
    assert rows(home.table("n")) == [(2,)]
    home.feed("other", [(1, 12)])
    assert rows(home.sql("SELECT k FROM s [RANGE 10]")) == [(2,)], "a SELECT sees the clock at once"
    assert len(home.refresh().views) == 2
    assert rows(home.table("w")) == [(2,)]
    assert rows(home.table("n")) == [(1,)]
    home.feed("other", [(1, 13)])
    assert home.refresh().views == [], "nothing of these views dies between 12 and 13"
    assert len(home.advance(100).views) == 2
    assert tagged(home.changes("w")) == [("+", 1, 1.0), ("+", 2, 5.0), ("-", 1, 11.0), ("-", 2, 15.0)]


def test_views_over_views_with_windows(home: Session) -> None:
    home.sql(
        """
        CREATE VIEW recent AS SELECT k, v FROM s [RANGE 10];
        CREATE STREAMED VIEW total AS SELECT sum(v) AS total FROM recent;
        CREATE STREAM large AS SELECT k, v FROM s WHERE v > 1;
        CREATE STREAMED VIEW latest AS SELECT k, v FROM large [ROWS 1];
        CREATE STREAMED VIEW twice AS SELECT k FROM latest [RANGE 3];
        """
    )
    home.feed("s", [(1, 1, 1), (2, 2, 5), (3, 4, 6)])
    home.advance(30)
    assert tagged(home.changes("total"))[1:] == [
        ("u", 1, 1.0), ("u", 3, 5.0), ("u", 7, 6.0), ("u", 6, 11.0), ("u", 4, 15.0), ("u", None, 16.0),
    ]  # fmt: skip
    assert rows(home.table("latest")) == [(3, 4)]
    assert tagged(home.changes("twice"))[-1] == ("-", 3, 9.0)


def test_refresh_every_and_windows(home: Session) -> None:
    home.sql("CREATE STREAMED VIEW w AS SELECT k FROM s [RANGE 10] REFRESH EVERY 4 SECONDS")
    home.feed("s", [(1, 1, 1), (2, 1, 5)])
    home.refresh()
    home.advance(20)
    assert tagged(home.changes("w")) == [("+", 1, 4.0), ("+", 2, 8.0), ("-", 1, 12.0), ("-", 2, 16.0)]


def test_late_rows_fall_into_windows_that_have_been(session: Session) -> None:
    session.sql("CREATE STREAM s (k INT, at TIMESTAMP) ORDER BY at LATE MERGE")
    session.sql("CREATE STREAMED VIEW w AS SELECT k FROM s [RANGE 5]")
    session.feed("s", [(1, 1), (2, 20)])
    session.refresh()
    session.feed("s", [(3, 4)])
    session.refresh()
    assert tagged(session.changes("w")) == [
        ("+", 1, 1.0), ("+", 3, 4.0), ("-", 1, 6.0), ("-", 3, 9.0), ("+", 2, 20.0),
    ]  # fmt: skip


def test_slack_holds_rows_back_and_the_clock_too(home: Session) -> None:
    home.sql("CREATE STREAM slow (k INT, at TIMESTAMP) ORDER BY at SLACK 5")
    home.sql("CREATE STREAMED VIEW w AS SELECT k FROM slow [RANGE 10]")
    home.feed("slow", [(1, 10), (2, 20)])
    home.refresh()
    assert rows(home.table("w")) == [(1,)], "the clock is at 15"
    home.feed("other", [(1, 100)])
    home.refresh()
    assert rows(home.table("w")) == []
    home.feed("slow", [(3, 19), (4, 98)])
    home.refresh()
    assert tagged(home.changes("w")) == [
        ("+", 1, 10.0), ("+", 3, 19.0), ("-", 1, 20.0), ("+", 2, 20.0), ("-", 3, 29.0), ("-", 2, 30.0),
    ]  # fmt: skip
    home.advance(100)
    assert rows(home.table("w")) == [(4,)]


def test_the_wall_clock(home: Session) -> None:
    home.sql("ALTER CLOCK SET wall")
    home.sql("CREATE VIEW w AS SELECT k FROM s [RANGE 1 SECOND]")
    home.feed("s", [(1, 1, round(time.time(), 3))])
    home.refresh()
    assert rows(home.table("w")) == [(1,)]
    time.sleep(1.1)
    home.refresh()
    assert rows(home.table("w")) == []


def test_the_manual_clock(home: Session) -> None:
    home.sql("ALTER CLOCK SET manual; CREATE STREAMED VIEW w AS SELECT k FROM s [RANGE 5]")
    home.feed("s", [(1, 1, 3), (2, 1, 7)])
    home.advance(5)
    assert rows(home.table("w")) == [(1,)]
    home.advance(9)
    assert rows(home.table("w")) == [(2,)]


def test_now_by_the_clock_and_by_the_inputs(home: Session) -> None:
    home.sql("CREATE STREAMED VIEW stamped AS SELECT k, unix_micros(Now) AS now FROM s [ROWS 1]")
    home.feed("s", [(1, 1, 3), (2, 1, 7)])
    home.feed("other", [(1, 50)])
    home.refresh()
    assert rows(home.table("stamped")) == [(2, 7_000_000)], "a floating Now is that of the last change"
    assert [row[-1] for row in tagged(home.changes("stamped"))] == [3.0, 7.0, 7.0]
    assert rows(home.sql("SELECT unix_micros(Now) FROM s [ROWS 1]")) == [(50_000_000,)], "in a SELECT, the clock's"


def test_numbers_are_seconds_in_queries(home: Session) -> None:
    home.feed("s", [(1, 1, 3), (2, 1, 7)])
    assert rows(home.sql("SELECT k FROM s WHERE at > 3 AND at + 0.5 < 8")) == [(2,)]
    assert rows(home.sql("SELECT k FROM s WHERE at % 2 = 1 AND at IN (3, 4)")) == [(1,)]
    assert rows(home.sql("SELECT k FROM s WHERE Now - at < 4")) == [(2,)]
    assert rows(home.sql("SELECT k FROM s WHERE at + v * 2 <= 5")) == [(1,)]


def test_windows_and_as_of(home: Session) -> None:
    home.feed("s", [(1, 1, 3), (2, 1, 7)])
    snapshot = home._home.snapshot().id
    home.feed("s", [(3, 1, 20)])
    assert rows(home.sql("SELECT k FROM s AS OF 7 [RANGE 5]")) == [(1,), (2,)]
    assert rows(home.sql("SELECT k FROM s AS OF 8 [RANGE 5]")) == [(2,)]
    assert rows(home.sql(f"SELECT k FROM s AS OF SNAPSHOT {snapshot} [RANGE 1]")) == [(2,)]
    assert rows(home.sql("SELECT sum(v) FROM s AS OF 7 [ROWS 5 INTERNAL]")) == [(1,), (2,)]
    assert rows(home.sql(f"SELECT sum(v) FROM s AS OF SNAPSHOT {snapshot} [ROWS 5 INTERNAL]")) == [(1,), (2,)]


def test_streamed_select_over_a_window(home: Session) -> None:
    home.feed("s", [(1, 1, 3), (2, 1, 7)])
    home.sql("ADVANCE CLOCK TO 9")
    assert tagged(home.sql("SELECT STREAMED k FROM s [RANGE 5]")) == [("+", 1, 3.0), ("+", 2, 7.0), ("-", 1, 8.0)]


REFUSED = [
    ("SELECT * FROM t [RANGE 5]", "WINDOW_OVER_TABLE"),
    ("SELECT * FROM CHANGES(s) [ROWS 5]", "WINDOW_OVER_CHANGES"),
    ("SELECT * FROM v [ROWS 5]", "NO_ARRIVAL_TIMES"),
    ("SELECT * FROM d [ROWS 4 SLIDE 2]", "WINDOW_NEEDS_APPENDS"),
    ("SELECT * FROM s [PARTITION BY nope ROWS 5]", "UNKNOWN_COLUMN"),
    ("SELECT * FROM (SELECT n FROM v) [ROWS 1]", "WINDOW_OVER_DYING_RESULTS"),
    ("SELECT * FROM (SELECT k FROM s [ROWS 2]) [ROWS 1]", "WINDOW_OVER_DYING_RESULTS"),
    ("SELECT * FROM (SELECT count(*) FROM s) [ROWS 1]", "WINDOW_OVER_DYING_RESULTS"),
    ("SELECT * FROM (SELECT DISTINCT k FROM s) [ROWS 1]", "NEVER_DYING_RESULT"),
    ("SELECT count(*) FROM (SELECT k FROM (SELECT k FROM s) [ROWS 3]) [ROWS 1]", "NEVER_DYING_RESULT"),
    ("SELECT s.k FROM s [ROWS 2 INTERNAL], other [ROWS 2]", "MIXED_WINDOWS"),
    ("SELECT s.k FROM s AS OF 5 [ROWS 2 INTERNAL], other", "MIXED_WINDOWS"),
]


def test_what_is_refused(home: Session) -> None:
    home.sql("CREATE VIEW v AS SELECT count(*) AS n FROM s; CREATE STREAM d AS SELECT k FROM s")
    for text, condition in REFUSED:
        assert refused(home, text).condition == condition, text


def test_explain_names_the_window(home: Session) -> None:
    text = home.sql("EXPLAIN SELECT k FROM s [RANGE 5] WHERE Now - 3 < at").message
    assert "SELECT k FROM s [RANGE 5] WHERE Now - 3 < at" in text
