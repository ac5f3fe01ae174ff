"""A whole session on each catalog: streams, a table, views, files, restarts and time travel give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.engine import Engine
from headrace.errors import StorageError
from headrace.session import Session, connect
from tests.conftest import rows

Open = Callable[[], Session]


@pytest.fixture
def open_session(sail_engine: Engine, url: str, tmp_path: Path) -> Iterator[Open]:
    """A function that opens the test's home on the catalog in turn."""
    opened: list[Session] = []

    def open_one() -> Session:
        opened.append(connect(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark, catalog=url))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


def declare(session: Session, incoming: Path) -> None:
    incoming.mkdir()
    session.sql(f"REGISTER SOURCE orders_in (id INT, room STRING, at INT) FROM FILES '{incoming}/*.csv' FORMAT csv")
    session.sql("CREATE STREAM orders OVER orders_in KEY NULL ORDER BY at")
    session.sql("CREATE STREAM temps (room STRING, degrees INT, at INT) KEY (room) ORDER BY at")
    session.sql("CREATE TABLE names (room STRING PRIMARY KEY, name STRING)")
    session.sql("CREATE STREAMED VIEW hot AS SELECT room, degrees FROM temps WHERE degrees > 80")
    session.sql("CREATE VIEW named AS SELECT n.name, h.degrees FROM hot h JOIN names n ON h.room = n.room")
    session.sql("CREATE VIEW per_room AS SELECT room, count(*) AS n FROM orders GROUP BY room")


def keep_little(session: Session) -> None:
    session.sql("ALTER HOME SET (keep_snapshots = 1); ALTER HOME SET (keep_seconds = 0)")


def test_a_session_survives_restarts(open_session: Open, tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    first = open_session()
    declare(first, incoming)
    first.sql("INSERT INTO names VALUES ('a', 'attic'), ('b', 'bath') AT 1")
    first.feed("temps", [("a", 100, 1), ("b", 70, 2)])
    (incoming / "1.csv").write_text("1,a,1\n2,b,2\n")
    first.refresh()
    early = first._home.snapshot().id
    first.close()

    second = open_session()
    assert rows(second.table("named")) == [("attic", 100)]
    assert rows(second.table("per_room")) == [("a", 1), ("b", 1)]
    second.feed("temps", [("b", 90, 5), ("a", 60, 6)])
    (incoming / "2.csv").write_text("3,b,7\n")
    second.sql("UPDATE names SET name = 'bathroom' WHERE room = 'b'")
    second.refresh()
    second.refresh()
    second.close()

    third = open_session()
    assert rows(third.table("named")) == [("bathroom", 90)]
    assert rows(third.table("orders")) == rows(third.sql("SELECT * FROM orders"))
    assert [row[0] for row in rows(third.table("orders"))] == [1, 2, 3]
    assert rows(third.table("per_room")) == [("a", 1), ("b", 2)]
    assert [(row[0], row[1]) for row in rows(third.changes("hot"))] == [("+", "a"), ("+", "b"), ("-", "a")]
    assert rows(third.sql(f"SELECT * FROM named AS OF SNAPSHOT {early}")) == [("attic", 100)]
    assert rows(third.sql(f"SELECT * FROM per_room AS OF SNAPSHOT {early}")) == [("a", 1), ("b", 1)]


def test_every_kept_snapshot_can_be_read(open_session: Open) -> None:
    session = open_session()
    session.sql("CREATE STREAM s (v INT, at INT) ORDER BY at")
    session.sql("CREATE VIEW total AS SELECT count(*) AS n, sum(v) AS v FROM s")
    expected = {}
    for step in range(1, 6):
        session.feed("s", [(step, step)])
        number = session.refresh().snapshot
        expected[number] = [(step, step * (step + 1) // 2)]
    found = {number: rows(session.sql(f"SELECT * FROM total AS OF SNAPSHOT {number}")) for number in expected}
    assert found == expected
    keep_little(session)
    session.feed("s", [(9, 9)])
    session.refresh()
    with pytest.raises(StorageError) as error:
        session.sql(f"SELECT * FROM total AS OF SNAPSHOT {min(expected)}")
    assert error.value.condition == "SNAPSHOT_GONE"


def test_roll_up_and_retention_leave_the_answers_alone(open_session: Open) -> None:
    session = open_session()
    keep_little(session)
    session.sql("ALTER HOME SET (rollup_parts = 2)")
    session.sql("CREATE STREAM s (v INT, at INT) ORDER BY at")
    session.sql("CREATE STREAM kept (v INT, at INT) ORDER BY at PARTITION LENGTH 2 RETAIN 4 SECONDS")
    session.sql("CREATE STREAMED VIEW total AS SELECT count(*) AS n FROM s")
    session.sql("CREATE VIEW lazy AS SELECT count(*) AS n FROM s REFRESH ON DEMAND")
    for step in range(12):
        session.feed("s", [(step, step)])
        session.feed("kept", [(step, step)])
        session.refresh()
    home = session._home
    snapshot = home.snapshot()
    assert len(snapshot.parts(snapshot.find("s"))) <= 3
    # At 11, rows from 6 on are shown, and rows from 2 on are kept for AS OF 6.
    kept = snapshot.parts(snapshot.find("kept"))
    assert {part.first: part.oldest for part in kept} == {n: 2_000_000 * n for n in (1, 3, 4, 5)}
    assert set(home.files.all()) == home.catalog.named_files()
    assert rows(session.table("total")) == [(12,)]
    assert rows(session.table("lazy")) == [(0,)]
    assert [row[0] for row in rows(session.table("kept"))] == [10, 11, 6, 7, 8, 9]
    session.refresh("lazy")
    assert rows(session.table("lazy")) == [(12,)]
    assert [row[2].timestamp() for row in rows(session.changes("total"))][:1]
