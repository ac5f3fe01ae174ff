"""When views are refreshed, in what order, at what cost, and that it is all or nothing."""

from __future__ import annotations

import pytest

from headrace import HeadraceError
from headrace.session import Session
from tests.conftest import Connect, rows, tagged


@pytest.fixture
def numbers(session: Session) -> Session:
    session.sql("CREATE STREAM s (k INT, v INT, ts TIMESTAMP) ORDER BY ts")
    return session


def test_reading_never_refreshes(numbers: Session) -> None:
    numbers.sql("CREATE VIEW n AS SELECT count(*) AS n FROM s")
    numbers.feed("s", [(1, 1, 1)])
    assert rows(numbers.table("n")) == [(0,)]
    numbers.sql("REFRESH")
    assert rows(numbers.table("n")) == [(1,)]


def test_refresh_one_view_and_what_it_reads(numbers: Session) -> None:
    numbers.sql("CREATE VIEW a AS SELECT k, sum(v) AS v FROM s GROUP BY k")
    numbers.sql("CREATE VIEW b AS SELECT sum(v) AS v FROM a")
    numbers.sql("CREATE VIEW other AS SELECT count(*) AS n FROM s")
    numbers.feed("s", [(1, 5, 1), (2, 7, 2)])
    numbers.sql("REFRESH VIEW b")
    assert rows(numbers.table("b")) == [(12,)]
    assert rows(numbers.table("other")) == [(0,)]
    numbers.sql("REFRESH MATERIALIZED VIEW other")
    assert rows(numbers.table("other")) == [(2,)]


def test_nothing_due_is_nothing_done(numbers: Session) -> None:
    numbers.sql("CREATE VIEW a AS SELECT k FROM s")
    numbers.feed("s", [(1, 1, 1)])
    assert len(numbers.refresh().views) == 1
    before = numbers.sql("SHOW SNAPSHOTS").rows
    assert numbers.refresh().views == []
    assert numbers.sql("SHOW SNAPSHOTS").rows == before


def test_one_refresh_is_at_most_one_job_a_view(numbers: Session) -> None:
    numbers.sql("CREATE VIEW a AS SELECT k, v FROM s WHERE v > 0")
    numbers.sql("CREATE VIEW b AS SELECT k, sum(v) AS v FROM s GROUP BY k")
    numbers.sql("CREATE STREAMED VIEW c AS SELECT k, max(v) AS v FROM s GROUP BY k")
    numbers.feed("s", [(n % 3, n, n) for n in range(10)])
    done = numbers.refresh()
    # The first needs no state, and so no job. Ten points of the streamed view fit into one too.
    assert [record.jobs for record in done.views] == [0, 1, 1]
    assert [record.rows_in for record in done.views] == [10, 10, 10]


def test_every(numbers: Session) -> None:
    numbers.sql("CREATE STREAMED VIEW n AS SELECT count(*) AS n FROM s REFRESH EVERY 10 SECONDS")
    numbers.sql("CREATE VIEW c AS SELECT count(*) AS n FROM s REFRESH EVERY 10 SECONDS")
    numbers.feed("s", [(1, 1, 3), (1, 1, 4), (1, 1, 12), (1, 1, 19)])
    numbers.refresh()
    assert rows(numbers.table("n")) == [(2,)]
    assert rows(numbers.table("c")) == [(2,)]
    numbers.feed("s", [(1, 1, 27)])
    numbers.refresh()
    numbers.sql("ADVANCE CLOCK TO 45")
    for name in ("n", "c"):
        assert rows(numbers.table(name)) == [(5,)]
        assert tagged(numbers.changes(name)) == [("+", 0, 0), ("u", 2, 10), ("u", 4, 20), ("u", 5, 30)]


def test_after_rows_and_on_demand(numbers: Session) -> None:
    numbers.sql("CREATE VIEW a AS SELECT count(*) AS n FROM s REFRESH AFTER 3 ROWS")
    numbers.sql("CREATE VIEW d AS SELECT count(*) AS n FROM s REFRESH ON DEMAND")
    numbers.sql("CREATE VIEW either AS SELECT count(*) AS n FROM s REFRESH AFTER 100 ROWS OR EVERY 10 SECONDS")
    for time in (1, 2):
        numbers.feed("s", [(1, 1, time)])
        numbers.refresh()
    assert rows(numbers.table("a")) == [(0,)]
    numbers.feed("s", [(1, 1, 13)])
    numbers.refresh()
    assert rows(numbers.table("a")) == [(3,)]
    assert rows(numbers.table("d")) == [(0,)]
    assert rows(numbers.table("either")) == [(2,)]
    numbers.sql("REFRESH VIEW d")
    assert rows(numbers.table("d")) == [(3,)]


def test_a_view_made_later_starts_with_what_is_there(numbers: Session) -> None:
    numbers.feed("s", [(1, 1, 1), (2, 2, 2)])
    for output in ("STREAMED", "COMPLETE"):
        numbers.sql(f"CREATE {output} VIEW {output}_view AS SELECT k, v FROM s")
    numbers.feed("s", [(3, 3, 3)])
    numbers.refresh()
    for output in ("STREAMED", "COMPLETE"):
        assert tagged(numbers.changes(f"{output}_view")) == [("+", 1, 1, 2), ("+", 2, 2, 2), ("+", 3, 3, 3)]


def test_a_stream_that_lags_behind_another(numbers: Session) -> None:
    """A row of one stream, older than what the other had when the view was refreshed, finds its place in time."""
    numbers.sql("CREATE STREAM r (k INT, w INT, ts TIMESTAMP) ORDER BY ts")
    numbers.sql("CREATE STREAMED VIEW j AS SELECT s.k, s.v, r.w FROM s JOIN r ON s.k = r.k")
    numbers.feed("s", [(1, 10, 100)])
    numbers.refresh()
    numbers.feed("r", [(1, 20, 60), (1, 21, 120)])
    numbers.refresh()
    assert tagged(numbers.changes("j")) == [("+", 1, 10, 20, 100), ("+", 1, 10, 21, 120)]


def test_a_failing_view_fails_the_refresh_and_changes_nothing(numbers: Session) -> None:
    numbers.sql("CREATE VIEW fine AS SELECT count(*) AS n FROM s")
    numbers.sql("CREATE VIEW bad AS SELECT CAST(if(v = 0, 'x', '1') AS INT) AS q FROM s")
    numbers.feed("s", [(1, 0, 1)])
    before = numbers.sql("SHOW SNAPSHOTS").rows
    with pytest.raises(HeadraceError, match="The view bad could not be refreshed"):
        numbers.refresh()
    assert numbers.sql("SHOW SNAPSHOTS").rows == before
    assert rows(numbers.table("fine")) == [(0,)]


def test_views_go_on_after_a_restart(connect: Connect) -> None:
    session = connect()
    session.sql("CREATE STREAM s (k INT, v INT, ts TIMESTAMP) ORDER BY ts")
    session.sql("CREATE STREAMED VIEW m AS SELECT k, max(v) AS v FROM s GROUP BY k")
    session.feed("s", [(1, 1, 1)])
    session.refresh()
    session.feed("s", [(1, 5, 2)])
    session.close()
    again = connect()
    again.feed("s", [(1, 3, 3)])
    again.refresh()
    assert tagged(again.changes("m")) == [("+", 1, 1, 1), ("u", 1, 5, 2)]


def test_any_spark_sql_query(numbers: Session) -> None:
    numbers.sql("CREATE TABLE d (k INT, name STRING)")
    numbers.sql("INSERT INTO d VALUES (1, 'one'), (2, 'two')")
    queries = [
        "WITH big AS (SELECT * FROM s WHERE v > 1) SELECT k, count(*) AS n FROM big GROUP BY k HAVING count(*) > 0",
        "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, ts) AS r FROM s",
        "SELECT DISTINCT k FROM s UNION SELECT k FROM d",
        "SELECT k FROM d EXCEPT SELECT k FROM s",
        "SELECT d.name, coalesce(sum(s.v), 0) AS v FROM d LEFT JOIN s USING (k) GROUP BY d.name",
        "SELECT k, (SELECT max(v) FROM s AS t WHERE t.k = d.k) AS m FROM d",
        "SELECT name FROM d WHERE k NOT IN (SELECT k FROM s WHERE k IS NOT NULL)",
        "SELECT k, explode(array(v, v + 1)) AS e FROM s",
        "SELECT k, v FROM s ORDER BY v DESC, ts LIMIT 2",
        "SELECT CASE WHEN v > 2 THEN 'hi' ELSE '{lo}' END AS c, count(*) AS n FROM s GROUP BY 1",
        "SELECT k, sum(v) AS v FROM s GROUP BY ROLLUP (k)",
    ]
    for number, query in enumerate(queries):
        numbers.sql(f"CREATE VIEW q{number} AS {query}")
    numbers.feed("s", [(1, 1, 1), (1, 3, 2), (3, 2, 3), (None, 4, 4)])
    numbers.sql("DELETE FROM d WHERE k = 2")
    numbers.refresh()
    for number, query in enumerate(queries):
        assert rows(numbers.table(f"q{number}")) == rows(numbers.sql(query)), query


def test_as_of_before_a_view_was_made(numbers: Session) -> None:
    numbers.feed("s", [(1, 1, 1), (2, 2, 2)])
    for output in ("STREAMED", "COMPLETE"):
        numbers.sql(f"CREATE {output} VIEW {output}_view AS SELECT k, v FROM s")
        assert rows(numbers.table(f"{output}_view", as_of=1)) == [(1, 1)]
