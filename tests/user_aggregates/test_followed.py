"""Views over aggregates: each row is looked at once, and of what groups keep only what is needed."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError
from headrace.session import Session
from tests.conftest import Connect, rows

SUMS = "SELECT k, sum(v) OVER (PARTITION BY k ROWS 2 PRECEDING) AS s FROM s"


@pytest.fixture
def followed(session: Session) -> Session:
    session.sql("CREATE STREAM s (k INT, v INT, at TIMESTAMP) ORDER BY at WITH (late = 'merge')")
    session.sql(f"CREATE VIEW v AS {SUMS}")
    session.feed("s", [(key, key, 1) for key in range(100)])
    session.refresh()
    return session


def last_refresh(session: Session, name: str = "v") -> tuple[str, str]:
    (found,) = [item for item in session.status() if item.name == name]
    return str(found.strategy), str(found.reason)


def test_groups_without_new_rows_are_not_loaded(followed: Session) -> None:
    followed.feed("s", [(7, 1, 2), (7, 2, 3), (8, 1, 4)])
    done = followed.refresh()
    assert last_refresh(followed) == ("differential", "3 new rows, 2 groups of state looked at")
    assert [(record.rows_in, record.rows_out, record.jobs) for record in done.views] == [(3, 3, 0)]
    assert rows(followed.table("v")) == rows(followed.sql(SUMS))


def test_rows_that_come_late_have_all_of_it_made_again(followed: Session) -> None:
    followed.feed("s", [(7, 1, 5)])
    followed.refresh()
    followed.feed("s", [(7, 10, 2)])
    followed.refresh()
    strategy, reason = last_refresh(followed)
    assert strategy == "recompute"
    assert reason.startswith("rows of s came late, for 2 s")
    assert rows(followed.table("v")) == rows(followed.sql(SUMS))
    followed.feed("s", [(7, 1, 6)])
    followed.refresh()
    assert last_refresh(followed)[0] == "differential"


def test_what_groups_keep_is_there_after_a_restart(connect: Connect) -> None:
    session = connect()
    session.sql("CREATE STREAM s (k INT, v INT, at TIMESTAMP) ORDER BY at")
    session.sql(f"CREATE VIEW v AS {SUMS}")
    session.feed("s", [(1, 1, 1), (1, 2, 2)])
    session.refresh()
    session.close()
    again = connect()
    again.feed("s", [(1, 4, 3), (1, 8, 4)])
    again.refresh()
    assert last_refresh(again)[0] == "differential"
    assert sorted(rows(again.table("v"))) == [(1, 1), (1, 3), (1, 7), (1, 14)]


def test_views_that_may_only_be_followed(session: Session) -> None:
    session.sql("CREATE STREAM s (k INT, v INT, at TIMESTAMP) ORDER BY at")
    session.sql(f"CREATE VIEW v AS {SUMS} REFRESH POLICY INCREMENTAL STRICT")
    session.sql("CREATE TABLE t (k INT, v INT)")
    with pytest.raises(DefinitionError) as error:
        session.sql(
            "CREATE VIEW w AS SELECT sum(v) OVER (ORDER BY k ROWS 1 PRECEDING SLIDE 2) AS s FROM t"
            " REFRESH POLICY INCREMENTAL STRICT"
        )
    assert error.value.condition == "NOT_INCREMENTAL"
    assert "t" in error.value.message


def test_explain_tells_how_calls_are_computed(followed: Session) -> None:
    told = str(followed.sql("EXPLAIN v"))
    assert "Each new row of s is looked at once, in the order of the stream:" in told
    assert "- sum(v) OVER (PARTITION BY k ROWS 2 PRECEDING): its window version expires the rows that leave" in told
    assert "Each group by k keeps state (2 columns), inwindow (1 column)." in told
    assert "compiled to machine code" in told
    assert "def run(starts, times" in str(followed.sql("EXPLAIN MAINTENANCE v"))
    text = "EXPLAIN CREATE VIEW w AS SELECT max(name) OVER (ROWS 1 PRECEDING) AS m FROM n"
    followed.sql("CREATE STREAM n (name STRING)")
    assert "compiled to Python, not to machine code, because x is text" in str(followed.sql(text))


def test_describe_tells_whether_it_is_machine_code(session: Session) -> None:
    for name, kind in (("fast", "BIGINT"), ("slow", "STRING")):
        session.sql(f"CREATE AGGREGATE {name}(x {kind}) : {kind} {{ ITERATE: {{ INSERT INTO RETURN VALUES (x); }} }}")
    assert ("", "", "compiled to machine code") in session.sql("DESCRIBE fast").rows
    assert ("", "", "compiled to Python, because x is text; slow is text") in session.sql("DESCRIBE slow").rows


def test_explain_of_an_aggregate_shows_what_it_was_compiled_to(session: Session) -> None:
    session.sql("CREATE AGGREGATE fast(x BIGINT) : BIGINT { ITERATE: { INSERT INTO RETURN VALUES (x); } }")
    told = str(session.sql("EXPLAIN fast"))
    assert told.startswith("The base version of fast takes (x BIGINT).\nIt is compiled to machine code, from:")
    assert "def run(starts, times" in told


def test_an_aggregate_for_windows_alone_beside_a_column(session: Session) -> None:
    session.sql("CREATE STREAM s (k INT, v INT, at TIMESTAMP) ORDER BY at")
    session.sql(
        "CREATE WINDOW AGGREGATE w(x INT) : INT { TABLE inwindow(wx INT); ITERATE: { INSERT INTO RETURN VALUES (x); } }"
    )
    with pytest.raises(DefinitionError) as error:
        session.sql("SELECT k, w(v) FROM s")
    assert error.value.condition == "WINDOW_AGGREGATE"
