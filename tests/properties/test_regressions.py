"""Counterexamples that the properties (or thinking about them) have found, each as small as it gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from headrace.engine import Engine
from headrace.errors import HeadraceError
from headrace.session import Session
from tests.properties.harness import bag, changes, fresh, integrate, listing


@pytest.fixture
def session(sail_engine: Engine) -> Iterator[Session]:
    """One engine is enough: none of these was about it."""
    with fresh(sail_engine) as home:
        yield home.session


STREAM = "CREATE STREAM s (k INT, at BIGINT) KEY NULL ORDER BY at LATE MERGE"


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
@pytest.mark.parametrize("below", ["STREAMED", "COMPLETE"])
def test_a_view_follows_a_view_that_is_refreshed_on_demand(session: Session, below: str, output: str) -> None:
    """It stayed empty: the times it had already passed below the view were not looked at again."""
    session.sql(STREAM)
    session.sql(f"CREATE {below} VIEW v1 AS SELECT k FROM s REFRESH ON DEMAND")
    session.sql(f"CREATE {output} VIEW v2 AS SELECT k FROM v1")
    session.feed("s", [(1, 3), (2, 6)])
    session.refresh()
    assert changes(session, "v2") == []
    session.refresh("v1")
    session.refresh()
    assert changes(session, "v2") == [("+", 1, 3.0), ("+", 2, 6.0)]
    assert bag(session.table("v2")) == Counter([(1,), (2,)])


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_a_view_on_a_grid_changes_on_it_alone(session: Session, output: str) -> None:
    """A COMPLETE view showed AS OF a time off its grid what it only had at the next point, also to views over it."""
    session.sql(STREAM)
    session.sql(f"CREATE {output} VIEW v1 AS SELECT k FROM s REFRESH EVERY 5")
    session.sql("CREATE STREAMED VIEW v2 AS SELECT k FROM v1; CREATE COMPLETE VIEW v3 AS SELECT k FROM v1")
    session.feed("s", [(1, 3), (2, 6), (3, 7), (4, 11)])
    session.refresh()
    for name in ("v1", "v2", "v3"):
        assert Counter(changes(session, name)) == Counter([("+", 1, 5.0), ("+", 2, 10.0), ("+", 3, 10.0)])
        assert [bag(session.table(name, as_of=time)).total() for time in (3, 5, 7, 10)] == [0, 1, 1, 3]


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_a_view_on_a_grid_is_born_with_what_is_there(session: Session, output: str) -> None:
    """A COMPLETE one left out what came after the last point of the grid, and its CHANGES were empty."""
    session.sql(STREAM)
    session.feed("s", [(1, 3), (2, 17)])
    session.sql(f"CREATE {output} VIEW v AS SELECT k FROM s REFRESH EVERY 5")
    born = Counter([("+", 1, 17.0), ("+", 2, 17.0)])
    assert bag(session.table("v")) == Counter([(1,), (2,)])
    assert Counter(changes(session, "v")) == born
    session.feed("s", [(3, 19), (4, 16), (5, 21)])
    session.refresh()
    assert Counter(changes(session, "v")) == born + Counter([("+", 4, 17.0), ("+", 3, 20.0)])
    assert [bag(session.table("v", as_of=time)).total() for time in (17, 19, 20, 21)] == [3, 3, 4, 4]


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_what_a_late_row_takes_back_is_taken_back_in_views_over_views(session: Session, output: str) -> None:
    """The view below lost its only row and wrote nothing in its place, so the one above it saw no change."""
    session.sql(STREAM)
    session.sql("CREATE TABLE gone (k INT)")
    session.sql("CREATE STREAMED VIEW v1 AS SELECT k FROM s LEFT ANTI JOIN gone ON s.k = gone.k")
    session.sql(f"CREATE {output} VIEW v2 AS SELECT k FROM v1; CREATE STREAMED VIEW v3 AS SELECT count(*) AS n FROM v2")
    session.feed("s", [(1, 10)])
    session.refresh()
    session.sql("INSERT INTO gone VALUES (1) AT 5")
    session.refresh()
    assert [changes(session, name) for name in ("v1", "v2")] == [[], []]
    assert bag(session.table("v2")) == Counter()
    assert changes(session, "v3") == [("+", 0, 0.0)]


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_the_past_of_a_view_is_as_it_was_refreshed(session: Session, output: str) -> None:
    """A COMPLETE view showed in its past a row that it did not have yet."""
    session.sql(STREAM)
    session.sql(f"CREATE {output} VIEW v AS SELECT k FROM s REFRESH ON DEMAND")
    session.feed("s", [(1, 3), (2, 6)])
    session.refresh("v")
    session.feed("s", [(9, 4)])
    assert bag(session.table("v", as_of=5)) == Counter([(1,)])
    session.refresh("v")
    assert bag(session.table("v", as_of=5)) == Counter([(1,), (9,)])


def test_a_view_over_an_empty_stream_with_slack_is_born_at_the_epoch(session: Session) -> None:
    """It was born a microsecond before."""
    session.sql("CREATE STREAM s (k INT, at BIGINT) KEY NULL ORDER BY at SLACK 3")
    session.sql("CREATE STREAMED VIEW v AS SELECT count(*) AS n FROM s")
    assert changes(session, "v") == [("+", 0, 0.0)]


@pytest.mark.parametrize("policy", ["", " REFRESH EVERY 4"])
def test_a_view_made_anew_from_its_birth_keeps_what_it_was_born_with(session: Session, policy: str) -> None:
    """A row from before its birth took the birth's own rows back, and no input has that time to make them again."""
    session.sql(STREAM)
    session.sql(f"CREATE STREAMED VIEW v AS SELECT count(*) AS n FROM s WHERE k > 1{policy}")
    session.feed("s", [(1, -5)])
    session.refresh("v")
    assert changes(session, "v") == [("+", 0, 0.0)]
    session.feed("s", [(2, 9)])
    session.refresh("v")
    assert changes(session, "v") == [("+", 0, 0.0)] + ([] if policy else [("u", 1, 9.0)])


def test_a_view_catches_up_with_a_stream_that_forgets(session: Session) -> None:
    """The refresh failed: it passes through times whose rows are forgotten at its end."""
    session.sql("CREATE STREAM s (k INT, at BIGINT) KEY NULL ORDER BY at RETAIN 10")
    session.sql("CREATE STREAMED VIEW v AS SELECT k FROM s; CREATE COMPLETE VIEW w AS SELECT k FROM s")
    session.feed("s", [(1, 1), (2, 5), (3, 12), (4, 20)])
    session.refresh()
    wanted = Counter([("+", 1, 1.0), ("+", 2, 5.0), ("-", 1, 12.0), ("+", 3, 12.0), ("-", 2, 20.0), ("+", 4, 20.0)])
    assert Counter(changes(session, "v")) == wanted
    assert Counter(changes(session, "w")) == wanted


@pytest.mark.parametrize("key", ["", " PRIMARY KEY"])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t AT 5",
        "UPDATE t SET v = 2 AT 5",
        "MERGE INTO t USING (SELECT 1 AS k) n ON t.k = n.k WHEN MATCHED THEN DELETE AT 5",
        "MERGE INTO t USING (SELECT 1 AS k) n ON t.k = n.k WHEN MATCHED THEN UPDATE SET v = 2 AT 5",
    ],
)
def test_a_row_cannot_change_before_it_is_there(session: Session, key: str, statement: str) -> None:
    """Without a key its weight fell below zero, with one nothing happened and the statement said it had."""
    session.sql(f"CREATE TABLE t (k INT{key}, v INT); INSERT INTO t VALUES (1, 1) AT 10")
    with pytest.raises(HeadraceError) as caught:
        session.sql(statement)
    assert caught.value.condition == "NOT_THERE_YET"
    assert changes(session, "t") == [("+", 1, 1, 10.0)]


def test_the_key_of_a_full_join(session: Session) -> None:
    session.sql("CREATE TABLE a (k INT PRIMARY KEY, v INT); CREATE TABLE b (k INT PRIMARY KEY, w INT)")
    session.sql("CREATE STREAMED VIEW v AS SELECT a.k, b.k AS bk, v, w FROM a FULL JOIN b ON a.k = b.k")
    session.sql("INSERT INTO a VALUES (NULL, 1) AT 1; INSERT INTO b VALUES (NULL, 2) AT 2; DELETE FROM a AT 3")
    session.refresh()
    item = session._home.snapshot().find("v")
    key = None if item.key is None else tuple(item.names.index(name) for name in item.key)
    assert integrate(changes(session, "v"), 3, key) == Counter([(None, None, None, 2)])


def test_as_of_before_the_epoch(session: Session) -> None:
    session.sql(STREAM)
    assert listing(session.sql("SELECT * FROM s AS OF -3")) == []


def test_a_star_over_a_semi_join_with_a_non_retroactive_table(session: Session) -> None:
    session.sql(STREAM)
    session.sql("CREATE NON RETROACTIVE TABLE p (k INT PRIMARY KEY)")
    session.sql("INSERT INTO p VALUES (1) AT 1")
    session.feed("s", [(1, 2)])
    assert listing(session.sql("SELECT * FROM s LEFT SEMI JOIN p ON s.k = p.k")) == [(1, 2)]


@pytest.mark.parametrize("condition", ["EXISTS (SELECT 1 FROM p WHERE p.k = s.k)", "k IN (SELECT k FROM p)"])
def test_a_subquery_meets_the_version_at_arrival(session: Session, condition: str) -> None:
    session.sql(STREAM)
    session.sql("CREATE NON RETROACTIVE TABLE p (k INT PRIMARY KEY)")
    session.sql("INSERT INTO p VALUES (1) AT 1")
    session.feed("s", [(1, 2)])
    session.sql("DELETE FROM p AT 4")
    assert listing(session.sql(f"SELECT k FROM s WHERE {condition}")) == [(1,)]


def test_what_is_retained_can_be_read_as_of_any_time_that_is(session: Session) -> None:
    """Twelve is within the last ten seconds, and at twelve the row of five was."""
    session.sql("CREATE STREAM s (k INT, at BIGINT) KEY NULL ORDER BY at RETAIN 10")
    for row in [(2, 5), (3, 12), (4, 20)]:
        session.feed("s", [row])
        session.refresh()
    assert bag(session.table("s", as_of=12)) == Counter([(2, 5), (3, 12)])


def test_retain_on_a_view_does_not_depend_on_the_batching(session: Session) -> None:
    session.sql(STREAM)
    session.sql("CREATE STREAMED VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k RETAIN 10")
    for row in [(1, 1), (2, 100), (3, 101)]:
        session.feed("s", [row])
        session.refresh()
    assert [row[:3] for row in changes(session, "v") if row[-1] > 100] == [("+", 3, 1)]


@pytest.mark.parametrize("output", ["STREAMED", "COMPLETE"])
def test_rows_from_before_a_views_birth_are_told_at_its_birth(session: Session, output: str) -> None:
    """A count has a row over nothing, so it is born by the clock. Then an older row came, and CHANGES were empty."""
    session.sql(STREAM)
    session.sql("CREATE TABLE u (k INT); INSERT INTO u VALUES (0) AT 13")
    session.sql(f"CREATE {output} VIEW v AS SELECT count(*) AS n FROM s REFRESH ON DEMAND")
    session.feed("s", [(2, 0)])
    session.refresh("v")
    assert changes(session, "v") == [("+", 1, 13.0)]
