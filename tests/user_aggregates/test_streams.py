"""What ESL says of streams made of others (2.2)."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError
from headrace.session import Session
from tests.conftest import tagged


@pytest.fixture
def streams(session: Session) -> Session:
    for name in ("a", "b"):
        session.sql(f"CREATE STREAM {name} (x INT, at TIMESTAMP) ORDER BY at")
    session.sql("CREATE TABLE t (x INT)")
    return session


@pytest.mark.parametrize("word", ["EXCEPT", "INTERSECT"])
def test_set_operations_that_are_not_monotonic(streams: Session, word: str) -> None:
    with pytest.raises(DefinitionError) as error:
        streams.sql(f"CREATE STREAM c AS SELECT x FROM a {word} SELECT x FROM b")
    assert error.value.condition == "NOT_MONOTONIC"
    # Of tables and windows, and for views, which may lose rows, they are allowed.
    streams.sql(f"CREATE VIEW v AS SELECT x FROM a {word} SELECT x FROM b")
    streams.sql(f"CREATE STREAM w AS SELECT x FROM a [ROWS 2] {word} SELECT x FROM t")


def test_union_eliminates_what_is_equal_with_its_time(streams: Session) -> None:
    streams.sql("CREATE STREAM u AS SELECT x, at FROM a UNION SELECT x, at FROM b")
    streams.feed("a", [(1, 1), (1, 2)])
    streams.feed("b", [(1, 2), (1, 3)])
    streams.refresh()
    assert [row[-1] for row in tagged(streams.changes("u"))] == [1, 2, 3]


def test_union_goes_by_times_that_are_not_shown(streams: Session) -> None:
    streams.sql("CREATE STREAM u AS SELECT x FROM a WHERE x > 0 UNION SELECT x + 0 FROM b")
    streams.feed("a", [(1, 1), (1, 1), (1, 2), (0, 2)])
    streams.feed("b", [(1, 2), (1, 3)])
    streams.refresh()
    # The same row at one time is one row; at another time it is another row.
    assert tagged(streams.changes("u")) == [("+", 1, 1), ("+", 1, 2), ("+", 1, 3)]


def test_a_silent_stream_holds_nobody_up(streams: Session) -> None:
    streams.sql("CREATE STREAM merged_rows AS SELECT x, at FROM a UNION ALL SELECT x, at FROM b")
    streams.sql("CREATE STREAM n AS SELECT x, count(*) OVER (ROWS UNBOUNDED PRECEDING) AS n FROM merged_rows")
    streams.feed("a", [(1, 1), (2, 5)])
    streams.refresh()
    assert [row[1:3] for row in tagged(streams.changes("n"))] == [(1, 1), (2, 2)]
    # What comes late from the other falls into its place: the results from there on are made again.
    streams.feed("b", [(3, 3), (4, 9)])
    streams.refresh()
    assert [row[1:] for row in tagged(streams.changes("n"))] == [(1, 1, 1), (3, 2, 3), (2, 3, 5), (4, 4, 9)]


def test_latent_times_are_given_where_they_are_needed(session: Session) -> None:
    session.sql("CREATE STREAM latent (x INT)")
    session.sql("CREATE STREAM s AS SELECT sum(x) OVER (RANGE 5 SECONDS PRECEDING) AS s FROM latent")
    session.feed("latent", [(1,)], at=10)
    session.feed("latent", [(2,)], at=14)
    session.feed("latent", [(4,)], at=16)
    session.refresh()
    assert tagged(session.changes("s")) == [("+", 1, 10), ("+", 3, 14), ("+", 6, 16)]


def test_a_stream_meets_a_table_and_other_windows(streams: Session) -> None:
    streams.sql("INSERT INTO t VALUES (1), (2)")
    streams.sql("CREATE STREAM j AS SELECT a.x, a.at FROM a JOIN t ON a.x = t.x")
    streams.sql("CREATE STREAM n AS SELECT x, count(*) OVER (PARTITION BY x ROWS UNBOUNDED PRECEDING) AS n FROM j")
    streams.sql("CREATE STREAM w AS SELECT a.x FROM a [RANGE 2 SECONDS] JOIN b [RANGE 2 SECONDS] ON a.x = b.x")
    streams.feed("a", [(1, 1), (3, 2), (1, 3), (2, 4)])
    streams.feed("b", [(1, 4), (2, 4)])
    streams.refresh()
    assert [row[1:] for row in tagged(streams.changes("n"))] == [(1, 1, 1), (1, 2, 3), (2, 1, 4)]
    assert {row[1] for row in tagged(streams.changes("w")) if row[0] == "+"} == {1, 2}
