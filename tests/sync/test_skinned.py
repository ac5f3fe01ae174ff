"""Skinned forms (SyncSQL 5.1), as EXPLAIN SHARING tells them."""

from __future__ import annotations

from headrace.session import Session
from tests.sync.test_synchronization_examples import HOT_ROOMS, declare_rooms, ticking
from tests.sync.test_synchronized_views import refused


def sharing(session: Session, view: str) -> list[str]:
    return str(session.sql(f"EXPLAIN SHARING {view}")).splitlines()


def test_example_18_normal_form_of_a_join(session: Session) -> None:
    for number in (1, 2):
        session.sql(f"CREATE STREAM S{number} (ID INT, v INT)")
    ticking(session, 2, 3)
    session.sql("CREATE STREAMED VIEW Q AS SELECT R1.v FROM R[Sync2](S1) R1, R[Sync3](S2) R2 WHERE R1.ID = R2.ID")
    assert sharing(session, "Q") == [
        "Q in its skinned form:",
        "data: SELECT R1.v FROM S1 AS R1 CROSS JOIN S2 AS R2 WHERE R1.ID = R2.ID",
        "synchronization: the points of Sync2 and Sync3: every 6 seconds",
    ]


def test_views_are_put_in_and_their_synchronization_counts(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    session.sql("CREATE STREAMED VIEW Q4 AS SELECT RoomID FROM R[Sync4](HotRooms1) R WHERE Temperature > 100")
    assert sharing(session, "Q4")[1:] == [
        "data: SELECT RoomID FROM (SELECT RoomID, Temperature FROM RoomTempStr AS R WHERE R.Temperature > 80) AS R "
        "WHERE Temperature > 100",
        "synchronization: the points of Sync2 and Sync4: every 4 seconds",
    ]


def test_example_19_a_view_that_contains_another_is_told(session: Session) -> None:
    """Q4 is contained in HotRooms1, in its data and in its synchronization; and not the other way round."""
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    session.sql(
        "CREATE STREAMED VIEW Q4 AS SELECT RoomID, Temperature FROM R[Sync4](RoomTempStr) R WHERE Temperature > 100"
    )
    assert sharing(session, "Q4")[2:] == [
        "synchronization: the points of Sync4: every 4 seconds",
        "It could be read from HotRooms1 (0 rows instead of 0): "
        "SELECT RoomID, Temperature FROM HotRooms1 SYNC Sync4 WHERE Temperature > 100",
    ]
    assert len(sharing(session, "HotRooms1")) == 3


def test_synchronization_counts_for_containment(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql("CREATE STREAMED VIEW HotSync AS SELECT R.TS FROM R(TempStr) R WHERE R.Temperature > 120")
    for name, by in (("Fine", "SYNC BY Sync2"), ("Coarse", "SYNC BY Sync4"), ("At", "SYNC BY HotSync"), ("Always", "")):
        session.sql(f"CREATE STREAMED VIEW {name} AS SELECT RoomID FROM RoomTempStr {by}")
    assert sharing(session, "Fine")[2:] == [
        "synchronization: the points of Sync2: every 2 seconds",
        "Coarse has the data for it, but not surely at all of its points.",
        "At has the data for it, but not surely at all of its points.",
        "It could be read from Always (0 rows instead of 0): SELECT RoomID FROM Always",
    ]
    assert "It could be read from Fine (0 rows instead of 0): SELECT RoomID FROM Fine" in sharing(session, "Coarse")
    assert sharing(session, "Always")[2] == "synchronization: whenever something changes"
    assert refused(session, "EXPLAIN SHARING TempStr").condition == "NOT_A_VIEW"
