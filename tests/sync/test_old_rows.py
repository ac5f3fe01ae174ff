"""Tagged tuples with the rows that were there before: CHANGES(v, OLD)."""

from __future__ import annotations

from typing import Any

from headrace.session import Session
from tests.conftest import ordered
from tests.sync.test_synchronized_views import refused

CHANGES = "INSERT INTO rooms VALUES ('a', 90) AT 1, ('b', 85) AT 2, ('a', 95) AT 3, ('b', 10) AT 5, ('b', 88) AT 6"


def told(frame: Any) -> list[tuple[Any, ...]]:
    """Tuples with their times in seconds."""
    at = [name.lower() for name in frame.columns].index("ts")
    return sorted(((*row[:at], row[at].timestamp(), *row[at + 1 :]) for row in ordered(frame)), key=lambda row: row[at])


def declare(session: Session) -> None:
    session.sql("REGISTER SOURCE rooms (room STRING, degrees INT) FROM MEMORY; CREATE STREAM keyed OVER rooms KEY room")
    session.sql("CREATE STREAM plain OVER rooms KEY NULL")
    for kind, name in (("STREAMED ", "hot"), ("", "warm")):
        session.sql(f"CREATE {kind}VIEW {name} AS SELECT room, degrees FROM keyed WHERE degrees > 80")
    session.sql("CREATE STREAMED VIEW recent AS SELECT degrees FROM plain [RANGE 2 SECONDS]")
    session.sql(CHANGES)
    session.sql("REFRESH ALL")


def test_what_was_there_before(session: Session) -> None:
    declare(session)
    expected = [
        ("+", "a", 90, 1, None, None), ("+", "b", 85, 2, None, None), ("u", "a", 95, 3, "a", 90),
        ("-", "b", None, 5, "b", 85), ("+", "b", 88, 6, None, None),
    ]  # fmt: skip
    for view in ("hot", "warm"):
        asked = f"SELECT op, room, degrees, ts, old_room, old_degrees FROM CHANGES({view}, OLD)"
        assert told(session.sql(asked)) == expected
        assert told(session.changes(view, old=True)) == expected
        assert told(session.changes(view, since=3, old=True)) == expected[3:]
    assert told(session.sql("SELECT * FROM CHANGES(keyed, OLD)"))[3:] == [
        ("u", "b", 10, 5, "b", 85), ("u", "b", 88, 6, "b", 10),
    ]  # fmt: skip


def test_what_has_no_key_names_the_whole_row(session: Session) -> None:
    declare(session)
    found = told(session.sql("SELECT op, degrees, ts, old_degrees FROM CHANGES(recent, OLD)"))
    assert ("-", 90, 3, 90) in found
    assert all((row[0] == "-") == (row[3] is not None) for row in found)


def test_names_that_are_taken_and_words_that_are_not_meant(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT, x INT, old_x INT, PRIMARY KEY (k))")
    session.sql("INSERT INTO t VALUES (1, 2, 3) AT 1; UPDATE t SET x = 5 WHERE k = 1 AT 2")
    found = session.sql("SELECT * FROM CHANGES(t, OLD)")
    assert found.columns == ["op", "k", "x", "old_x", "ts", "old_k", "__old_x", "old_old_x"]
    assert [row[6] for row in told(found)] == [None, 2]
    assert "Expected OLD" in refused(session, "SELECT * FROM CHANGES(t, NEW)").message
