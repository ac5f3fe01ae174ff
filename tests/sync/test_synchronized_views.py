"""Synchronized views: what they tell of themselves, what is refused, what goes with them, and late points."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.session import Session
from tests.conftest import rows
from tests.sync.test_synchronization_examples import declare_rooms, stream, ticking

HOT = "CREATE STREAMED VIEW Hot AS SELECT RoomID, Temperature FROM RoomTempStr SYNC Sync2 WHERE Temperature > 80"


def refused(session: Session, text: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        session.sql(text)
    return raised.value


def names(session: Session) -> set[str]:
    return {item.name for item in session._home.snapshot().objects()}


def test_regulators_are_shared_and_go_with_their_last_reader(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2)
    session.sql(HOT)
    session.sql("CREATE VIEW Cold AS SELECT RoomID FROM RoomTempStr SYNC Sync2 WHERE Temperature < 10")
    assert len([name for name in names(session) if "__sync__" in name]) == 1
    assert refused(session, "DROP VIEW Sync2").condition == "STILL_NEEDED"
    session.sql("DROP VIEW Hot")
    assert "RoomTempStr__sync__Sync2" in names(session)
    session.sql("DROP VIEW Cold")
    assert "RoomTempStr__sync__Sync2" not in names(session)
    session.sql("DROP VIEW Sync2")


def test_explain_tells_by_what_a_view_is_synchronized(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2)
    assert "Hot" not in names(session)
    told = session.sql(f"EXPLAIN {HOT}")
    assert "RoomTempStr" in str(told)
    assert not [name for name in names(session) if "__sync__" in name], "to ask makes nothing"
    session.sql(HOT)
    assert "It reads RoomTempStr SYNC Sync2: SELECT RoomID, Temperature FROM RoomTempStr SYNC Sync2" in session.explain(
        "Hot"
    )
    session.sql("CREATE STREAMED VIEW Whole AS SELECT * FROM RoomTempStr SYNC BY Sync2")
    assert "It is due at the points of Sync2." in session.explain("Whole")
    session.sql("CREATE STREAMED VIEW Same AS SELECT * FROM RoomTempStr REFRESH ON Sync2")
    assert "It is due at the points of Sync2." in session.explain("Same")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("CREATE VIEW V AS SELECT * FROM TempStr SYNC BY RoomTempStr", "NOT_A_SYNCHRONIZATION"),
        ("CREATE VIEW V AS SELECT * FROM TempStr SYNC BY newest", "NOT_A_SYNCHRONIZATION"),
        ("CREATE VIEW V AS SELECT * FROM TempStr SYNC nothing", "UNKNOWN_OBJECT"),
        ("SELECT * FROM TempStr SYNC RoomTempStr", "NOT_A_SYNCHRONIZATION"),
        ("CREATE VIEW V AS SELECT * FROM TempStr SYNC BY Sync2 REFRESH EVERY 5 SECONDS", "TWO_SYNCHRONIZATIONS"),
        ("CREATE VIEW V AS SELECT * FROM TempStr SYNC Sync2 [ROWS 5]", "SYNC_AND_MORE"),
        ("SELECT * FROM TempStr SYNC Sync2 SYNC Sync2", "DUPLICATE_CLAUSE"),
        ("CREATE STREAM clockStr (a INT)", "NAME_RESERVED"),
        (
            "CREATE VIEW V AS INITIALIZE V[i] AS SELECT * FROM P SYNC Sync2 UPDATE V[j] AS SELECT * FROM P[j] "
            "PARTITION LENGTH 60",
            "SYNC_IN_PART",
        ),
    ],
)
def test_what_cannot_be_synchronized_is_refused(session: Session, text: str, condition: str) -> None:
    declare_rooms(session)
    ticking(session, 2)
    session.sql("CREATE VIEW newest AS SELECT max(Timepoint) AS at FROM Sync2")
    session.sql("CREATE STREAM P (ts TIMESTAMP, v INT) ORDER BY ts PARTITION LENGTH 60")
    before = names(session)
    assert refused(session, text).condition == condition
    assert names(session) == before


def test_a_stream_over_a_views_changes(session: Session) -> None:
    declare_rooms(session)
    session.sql("CREATE STREAMED VIEW Hot AS SELECT RoomID, Temperature FROM RoomTempStr WHERE Temperature > 80")
    session.sql("CREATE STREAM HotStr OVER Hot KEY RoomID")
    session.sql("CREATE STREAMED VIEW Hotter AS SELECT RoomID FROM R(HotStr) H WHERE Temperature > 100")
    session.sql("INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',90) AT 2, ('a',85) AT 3, ('b',70) AT 4")
    session.refresh()
    assert stream(session, "HotStr") == stream(session, "Hot")
    assert stream(session, "HotStr") == [("+", "a", 105, 1), ("+", "b", 90, 2), ("u", "a", 85, 3), ("-", "b", None, 4)]
    assert stream(session, "Hotter") == [("+", "a", 1), ("-", "a", 3)]
    assert refused(session, "CREATE STREAM x OVER Hot KEY Temperature").condition == "MISPLACED_CLAUSE"


def test_the_clock_stream_does_not_go_on_for_ever(session: Session) -> None:
    session.sql("ADVANCE CLOCK TO 0")
    ticking(session, 2)
    assert refused(session, "ADVANCE CLOCK TO 2000000000").condition == "CLOCK_TOO_FAR"
    session.sql("ADVANCE CLOCK TO 4")
    assert stream(session, "Sync2") == [("+", 0, 0), ("+", 2, 2), ("+", 4, 4)]


def test_points_that_come_late_release_what_they_would_have(session: Session) -> None:
    session.sql("CREATE STREAM Events (ts TIMESTAMP, v INT) ORDER BY ts LATE MERGE")
    session.sql("CREATE STREAM Marks (ts TIMESTAMP) ORDER BY ts LATE MERGE")
    session.sql("CREATE STREAMED VIEW Seen AS SELECT v FROM Events SYNC BY Marks")
    session.sql("INSERT INTO Events VALUES (1, 10), (4, 40), (7, 70)")
    session.sql("INSERT INTO Marks VALUES (8)")
    session.refresh()
    assert stream(session, "Seen") == [("+", 10, 8), ("+", 40, 8), ("+", 70, 8)]
    session.sql("INSERT INTO Marks VALUES (5)")
    session.refresh()
    assert stream(session, "Seen") == [("+", 10, 5), ("+", 40, 5), ("+", 70, 8)]
    session.sql("INSERT INTO Events VALUES (2, 20), (9, 90)")
    session.refresh()
    assert stream(session, "Seen") == [("+", 10, 5), ("+", 20, 5), ("+", 40, 5), ("+", 70, 8)]
    assert rows(session.sql("SELECT count(*) FROM Seen AS OF 6")) == [(3,)]


def test_synchronized_by_arrivals_and_by_the_state_of_another_view(session: Session) -> None:
    """A relation ticks whenever it changes: with every row of another stream, or while a view shows something."""
    declare_rooms(session)
    session.sql("REGISTER SOURCE gate (car STRING) FROM MEMORY; CREATE STREAM cars OVER gate KEY NULL")
    session.sql("ADVANCE CLOCK TO 0")
    session.sql("CREATE STREAMED VIEW Arrivals AS SELECT TS FROM cars")
    session.sql("CREATE STREAMED VIEW Total AS SELECT count(*) AS n FROM RoomTempStr WHERE Temperature > 80")
    session.sql("CREATE STREAMED VIEW Crowded AS SELECT C.Timepoint FROM clockStr C, Total T WHERE T.n >= 2")
    for name, by in (("AtGate", "Arrivals"), ("WhenCrowded", "Crowded")):
        session.sql(f"CREATE STREAMED VIEW {name} AS SELECT RoomID, Temperature FROM RoomTempStr SYNC BY {by}")
    session.sql("INSERT INTO TemperatureSource VALUES ('a', 90) AT 1, ('b', 85) AT 4, ('a', 95) AT 5, ('b', 20) AT 7")
    session.sql("INSERT INTO TemperatureSource VALUES ('a', 99) AT 9")
    session.sql("INSERT INTO gate VALUES ('x') AT 3, ('y') AT 8")
    session.sql("ADVANCE CLOCK TO 10")
    assert stream(session, "AtGate") == [("+", "a", 90, 3), ("u", "a", 95, 8), ("+", "b", 20, 8)]
    assert stream(session, "WhenCrowded") == [
        ("+", "a", 90, 4),
        ("+", "b", 85, 4),
        ("u", "a", 95, 5),
        ("u", "b", 20, 7),
    ]
