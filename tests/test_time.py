"""AS OF, snapshots, parts, the clock, late rows and retention."""

from __future__ import annotations

import pytest

from headrace import HeadraceError
from headrace.session import Session
from tests.conftest import Connect, rows, tagged


@pytest.fixture
def losses(session: Session) -> Session:
    session.sql("CREATE STREAM m (src STRING, loss INT, ts TIMESTAMP) ORDER BY ts PARTITION LENGTH 60")
    session.feed("m", [("a", 6, 0), ("b", 12, 30), ("a", 15, 60), ("b", 24, 150)])
    return session


def test_as_of_a_time(losses: Session) -> None:
    assert [row[1] for row in rows(losses.sql("SELECT * FROM m AS OF 60"))] == [15, 6, 12]
    assert rows(losses.sql("SELECT count(*) FROM m AS OF '1970-01-01 00:00:30' AS old")) == [(2,)]
    assert rows(
        losses.sql("SELECT old.n, now.n FROM (SELECT count(*) n FROM m AS OF 0) old, (SELECT count(*) n FROM m) now")
    ) == [(1, 4)]


def test_as_of_any_earlier_snapshot(losses: Session) -> None:
    losses.sql("CREATE VIEW totals AS SELECT src, sum(loss) AS total FROM m GROUP BY src")
    seen = {}
    for step in range(5):
        number = losses.sql("SHOW SNAPSHOTS").rows[-1][0]
        seen[number] = rows(losses.table("m")), rows(losses.table("totals"))
        losses.feed("m", [("a", step, 200 + step)])
        losses.refresh()
    for number, (stream, view) in seen.items():
        assert rows(losses.sql(f"SELECT * FROM m AS OF SNAPSHOT {number}")) == stream
        assert rows(losses.sql(f"SELECT * FROM totals AS OF SNAPSHOT {number}")) == view
    with pytest.raises(HeadraceError) as raised:
        losses.sql("SELECT * FROM m AS OF SNAPSHOT 9999")
    assert raised.value.condition == "SNAPSHOT_GONE"


def test_as_of_a_view_that_keeps_only_its_state(losses: Session) -> None:
    losses.sql("CREATE VIEW n AS SELECT count(*) AS n FROM m")
    losses.sql("CREATE VIEW twice AS SELECT n * 2 AS n FROM n")
    losses.feed("m", [("c", 1, 160), ("c", 1, 170)])
    losses.refresh()
    assert [rows(losses.table("twice", as_of=time)) for time in (150, 160, 165, 170)] == [
        [(8,)],
        [(10,)],
        [(10,)],
        [(12,)],
    ]


def test_part_timestamp(losses: Session) -> None:
    assert rows(losses.sql('SELECT * FROM m WHERE PART_TIMESTAMP = "1970/01/01 0:01"'))[0][:2] == ("a", 15)
    assert [row[0] for row in rows(losses.sql("SELECT m.loss FROM m WHERE m.PART_TIMESTAMP < 60"))] == [12, 6]
    assert losses.sql("SELECT * FROM m WHERE PART_TIMESTAMP = 0").columns == ["src", "loss", "ts"]


def test_part_timestamp_needs_parts(session: Session) -> None:
    session.sql("CREATE STREAM s (a INT)")
    with pytest.raises(HeadraceError) as raised:
        session.sql("SELECT * FROM s WHERE PART_TIMESTAMP = 0")
    assert raised.value.condition == "NO_PARTS"
    assert "PARTITION LENGTH" in str(raised.value)


def test_show_parts_tells_when_each_was_updated(losses: Session) -> None:
    before = {row[0]: row[6] for row in losses.sql("SHOW PARTS FROM m").rows}
    assert sorted(before) == [0, 1, 2]
    losses.feed("m", [("a", 1, 170)])
    after = losses.sql("SHOW PARTS FROM m").rows
    assert {row[6] for row in after if row[0] in (0, 1)} == {before[0], before[1]}
    assert max(row[6] for row in after if row[0] == 2) > before[2]


def test_within_slack_rows_wait_and_are_put_in_order(session: Session) -> None:
    session.sql("CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) KEY (k) ORDER BY ts SLACK 10 SECONDS")
    session.sql("CREATE STREAMED VIEW v AS SELECT k, v FROM s")
    session.feed("s", [("a", 1, 100), ("a", 2, 95)])
    session.refresh()
    assert rows(session.table("s")) == []
    session.feed("s", [("b", 3, 107)])
    session.refresh()
    assert tagged(session.changes("v")) == [("+", "a", 2, 95)]
    session.sql("ADVANCE CLOCK TO 120")
    assert tagged(session.changes("v")) == [("+", "a", 2, 95), ("u", "a", 1, 100), ("+", "b", 3, 107)]


@pytest.mark.parametrize(
    ("policy", "kept", "late", "dropped"), [("DIVERT", 2, 1, 0), ("DROP", 2, 1, 1), ("MERGE", 3, 1, 0)]
)
def test_beyond_slack(session: Session, policy: str, kept: int, late: int, dropped: int) -> None:
    session.sql(f"CREATE STREAM s (v INT, ts TIMESTAMP) ORDER BY ts SLACK 5 SECONDS LATE {policy}")
    session.sql("CREATE STREAMED VIEW total AS SELECT sum(v) AS s, count(*) AS n FROM s")
    session.feed("s", [(1, 100), (2, 120)])
    session.sql("ADVANCE CLOCK TO 120")
    assert rows(session.table("total")) == [(3, 2)]
    session.feed("s", [(4, 110)])
    session.refresh()
    assert len(rows(session.table("s"))) == kept
    status = {item.name: item for item in session.status()}["s"]
    assert (status.late, status.dropped) == (late, dropped)
    if policy == "DIVERT":
        assert [row[0] for row in rows(session.table("s__late"))] == [4]
    if policy == "MERGE":
        assert rows(session.table("total")) == [(7, 3)]
        assert [(row[1], row[3]) for row in tagged(session.changes("total"))] == [
            (None, 0),
            (1, 100),
            (5, 110),
            (7, 120),
        ]


def test_manual_clock(session: Session) -> None:
    session.sql("ALTER CLOCK SET manual")
    session.sql("CREATE STREAM s (v INT, ts TIMESTAMP) ORDER BY ts")
    session.sql("CREATE STREAMED VIEW n AS SELECT count(*) AS n FROM s")
    session.feed("s", [(1, 5), (2, 3), (3, 9)])
    session.refresh()
    assert rows(session.table("n")) == [(0,)]
    session.advance(5)
    assert rows(session.table("n")) == [(2,)]
    session.sql("ADVANCE CLOCK TO 9")
    assert tagged(session.changes("n")) == [("+", 0, 0), ("u", 1, 3), ("u", 2, 5), ("u", 3, 9)]
    with pytest.raises(HeadraceError) as raised:
        session.advance(8)
    assert raised.value.condition == "CLOCK_BACKWARDS"
    assert session.sql("SHOW CLOCK").rows == [("manual", "1970-01-01T00:00:09Z")]


def test_internal_times_follow_the_manual_clock(session: Session) -> None:
    session.sql("ALTER CLOCK SET manual; REGISTER SOURCE r (v INT) FROM MEMORY; CREATE STREAM s OVER r KEY NULL")
    session.advance(7)
    session.sql("INSERT INTO r VALUES (1)")
    assert tagged(session.changes("s")) == [("+", 1, 7)]


def test_wall_clock(session: Session) -> None:
    session.sql("ALTER HOME SET (clock = 'wall')")
    session.sql("CREATE STREAM s (v INT, ts TIMESTAMP) ORDER BY ts")
    session.feed("s", [(1, 5), (2, "2199-01-01")])
    assert [row[0] for row in rows(session.table("s"))] == [1]


def test_retain_forgets_whole_parts(session: Session) -> None:
    session.sql("CREATE STREAM s (v INT, ts TIMESTAMP) ORDER BY ts PARTITION LENGTH 10 RETAIN 20 SECONDS")
    session.sql("CREATE VIEW n AS SELECT count(*) AS n FROM s")
    session.feed("s", [(1, 1), (2, 11), (3, 21)])
    session.refresh()
    assert rows(session.table("n")) == [(3,)]
    session.feed("s", [(4, 35)])
    session.refresh()
    assert [row[0] for row in rows(session.table("s"))] == [2, 3, 4]
    assert rows(session.table("n")) == [(3,)]
    session.feed("s", [(5, 60)])
    session.refresh()
    # The files go when no time that can be asked for sees their rows: 5 is past 60 - 2 * 20, 35 is not.
    assert min(row[0] for row in session.sql("SHOW PARTS FROM s").rows) == 2
    with pytest.raises(HeadraceError) as raised:
        session.sql("SELECT * FROM s AS OF 5")
    assert raised.value.condition == "TIME_FORGOTTEN"


def test_roll_up_changes_nothing_a_reader_sees(connect: Connect) -> None:
    session = connect()
    session.sql("ALTER HOME SET (rollup_parts = 3)")
    session.sql("CREATE STREAM s (k INT, v INT, ts TIMESTAMP) KEY (k) ORDER BY ts")
    session.sql("CREATE STREAMED VIEW v AS SELECT k, v FROM s WHERE v > 2")
    for step in range(12):
        session.feed("s", [(step % 3, step, step + 1)])
        session.refresh()
    assert len(session.sql("SHOW PARTS FROM s").rows) <= 4
    whole = connect(session._home.files.home + "-whole")
    whole.sql("CREATE STREAM s (k INT, v INT, ts TIMESTAMP) KEY (k) ORDER BY ts")
    whole.sql("CREATE STREAMED VIEW v AS SELECT k, v FROM s WHERE v > 2")
    whole.feed("s", [(step % 3, step, step + 1) for step in range(12)])
    whole.refresh()
    for name in ("s", "v"):
        assert tagged(session.changes(name)) == tagged(whole.changes(name))
        assert rows(session.table(name)) == rows(whole.table(name))


def test_retain_on_tables_and_views_forgets_only_history(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT, v INT, PRIMARY KEY (k)) RETAIN 10 SECONDS")
    session.sql("CREATE STREAM s (k INT, ts TIMESTAMP) ORDER BY ts LATE MERGE")
    session.sql("CREATE STREAMED VIEW n AS SELECT k, count(*) AS n FROM s GROUP BY k RETAIN 10 SECONDS")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2) AT 1")
    for time in range(2, 60, 2):
        session.sql(f"UPDATE t SET v = {time} WHERE k = 1 AT {time}")
        session.feed("s", [(time % 3, time)])
        session.refresh()
    assert rows(session.table("t")) == [(1, 58), (2, 2)]
    assert rows(session.table("n")) == rows(session.sql("SELECT k, count(*) AS n FROM s GROUP BY k"))
    assert len(session.sql("SHOW PARTS FROM t").rows) < 20
    with pytest.raises(HeadraceError) as raised:
        session.sql("SELECT * FROM t AS OF 20")
    assert raised.value.condition == "TIME_FORGOTTEN"
    session.feed("s", [(7, 5)])
    session.refresh()
    assert rows(session.table("n")) == rows(session.sql("SELECT k, count(*) AS n FROM s GROUP BY k"))
    assert rows(session.table("n", as_of=50)) == rows(session.sql("SELECT k, count(*) AS n FROM s AS OF 50 GROUP BY k"))
