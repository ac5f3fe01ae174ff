"""SyncSQL, sections 2.2, 3, 4.2 and 6: the examples of windows and synchronization, tuple by tuple."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from headrace.session import Session
from tests.conftest import rows, tagged

SYNC = "create STREAMED view Sync{n} As select C.Timepoint from R(clockStr) C where C.Timepoint mod {n} = 0"
#: The stream of Example 2.
S = "INSERT INTO S_in VALUES ('a','+') AT 1, ('b','+') AT 3, ('a','-') AT 4, ('c','+') AT 5"
HOT_ROOMS = (
    "create STREAMED view HotRooms1 As select RoomID, Temperature from R[Sync2](RoomTempStr) R where R.Temperature > 80"
)


def seconds(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


def stream(session: Session, name: str) -> list[tuple[Any, ...]]:
    """A view's tagged tuples, all times in seconds."""
    return in_order(tuple(map(seconds, row)) for row in tagged(session.changes(name)))


def in_order(found: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Tuples by time; those of one time have no order."""
    return sorted(found, key=lambda row: (row[-1], str(row[1])))


def declare_s(session: Session) -> None:
    session.sql("REGISTER SOURCE S_in (string Attr1, string op) FROM MEMORY")
    session.sql("CREATE STREAM S OVER S_in KEY Attr1 WITH (op = 'op')")


def declare_rooms(session: Session) -> None:
    session.sql("REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) FROM MEMORY")
    session.sql("CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    session.sql("CREATE STREAM TempStr OVER TemperatureSource KEY NULL")


def ticking(session: Session, *numbers: int) -> None:
    for number in numbers:
        session.sql(SYNC.format(n=number))


def cars(session: Session) -> None:
    session.sql("REGISTER SOURCE road (string CarID, string CarType) FROM MEMORY; CREATE STREAM S OVER road KEY NULL")


CARS = "INSERT INTO road VALUES ('x','car') AT 1, ('y','bus') AT 2, ('z','car') AT 4"
#: FiveUnitsWindow over these cars: each is there for five units, from its own on.
IN_WINDOW = [
    ("+", "x", "car", 1, 1), ("+", "y", "bus", 2, 2), ("+", "z", "car", 4, 4), ("-", "x", "car", 1, 6),
    ("-", "y", "bus", 2, 7),
]  # fmt: skip


def test_example_5_window_as_a_predicate(session: Session) -> None:
    cars(session)
    session.sql("create STREAMED view FiveUnitsWindow as select * from R(S) R where Now - 5 < R.TS <= Now")
    session.sql(CARS)
    session.sql("ADVANCE CLOCK TO 7")
    assert stream(session, "FiveUnitsWindow") == IN_WINDOW


def test_example_6_count_over_the_window(session: Session) -> None:
    """Q4's answer is a stream of updates; the printed query shows no CarType, which its key is."""
    cars(session)
    session.sql("create STREAMED view FiveUnitsWindow as select * from R(S) R where Now - 5 < R.TS <= Now")
    session.sql(
        "create STREAMED view CarCount as select CarType, COUNT(*) as n from R(FiveUnitsWindow) F group by CarType"
    )
    session.sql(CARS)
    session.sql("ADVANCE CLOCK TO 7")
    assert stream(session, "CarCount") == [
        ("+", "car", 1, 1), ("+", "bus", 1, 2), ("u", "car", 2, 4), ("u", "car", 1, 6), ("-", "bus", None, 7),
    ]  # fmt: skip


def test_example_7_synchronized_relation(session: Session) -> None:
    declare_s(session)
    ticking(session, 2)
    session.sql("create STREAMED view Synchronized as select Attr1 from R[Sync2](S) R")
    session.sql(S)
    session.sql("ADVANCE CLOCK TO 6")
    found = {at: [row[0] for row in rows(session.table("Synchronized", as_of=at))] for at in range(1, 7)}
    assert found == {1: [], 2: ["a"], 3: ["a"], 4: ["b"], 5: ["b"], 6: ["b", "c"]}
    once = rows(session.sql("select Attr1 from R[Sync2](S) R"))
    assert once == [("b",), ("c",)], "a query that is asked once sees the same"


def test_examples_8_and_9_composition(session: Session) -> None:
    """Figure 5: HotRooms1 is synchronized by Sync2, and Q4 over it by Sync4."""
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    session.sql(
        "create STREAMED view Q4 As select RoomID, Temperature from R[Sync4](HotRooms1) R where R.Temperature > 100"
    )
    session.sql(
        "INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',110) AT 3, ('c',97) AT 4, ('d',75) AT 5, "
        "('a',75) AT 7"
    )
    session.sql("ADVANCE CLOCK TO 8")
    assert stream(session, "HotRooms1") == [
        ("+", "a", 105, 2), ("+", "b", 110, 4), ("+", "c", 97, 4), ("-", "a", None, 8),
    ]  # fmt: skip
    assert stream(session, "Q4") == [("+", "a", 105, 4), ("+", "b", 110, 4), ("-", "a", None, 8)]


def test_example_10_every_two_time_points(session: Session) -> None:
    session.sql("ADVANCE CLOCK TO 0")
    ticking(session, 2)
    session.sql("ADVANCE CLOCK TO 3")
    session.sql("ADVANCE CLOCK TO 6")
    assert stream(session, "Sync2") == [("+", 0, 0), ("+", 2, 2), ("+", 4, 4), ("+", 6, 6)]


def test_example_11_union_of_synchronization_streams(session: Session) -> None:
    session.sql("ADVANCE CLOCK TO 0")
    ticking(session, 2, 5)
    session.sql("create STREAMED view UnionSyncStr as select DISTINCT(Timepoint) from R(Sync2) S2 UNION R(Sync5) S5")
    session.sql(
        "create STREAMED view BothSyncStr as "
        "select Timepoint from R(Sync2) S2 INTERSECT select Timepoint from R(Sync5) S5"
    )
    session.sql("ADVANCE CLOCK TO 10")
    assert stream(session, "UnionSyncStr") == [("+", at, at) for at in (0, 2, 4, 5, 6, 8, 10)]
    assert stream(session, "BothSyncStr") == [("+", 0, 0), ("+", 10, 10)]


def test_example_12_event_based(session: Session) -> None:
    declare_rooms(session)
    session.sql("create STREAMED view HotSync as select R.TS from R(TempStr) R where R.Temperature > 120")
    session.sql(
        "create STREAMED view Q5 as select RoomID, Temperature from R[HotSync](RoomTempStr) R where R.Temperature > 100"
    )
    session.sql(
        "INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',110) AT 2, ('c',130) AT 3, ('b',90) AT 4, "
        "('a',121) AT 6, ('d',140) AT 7"
    )
    session.refresh()
    assert stream(session, "HotSync") == [("+", 3, 3), ("+", 6, 6), ("+", 7, 7)]
    assert stream(session, "Q5") == [
        ("+", "a", 105, 3), ("+", "b", 110, 3), ("+", "c", 130, 3), ("u", "a", 121, 6), ("-", "b", None, 6),
        ("+", "d", 140, 7),
    ]  # fmt: skip


def test_example_13_now_as_a_view(session: Session) -> None:
    session.sql("ADVANCE CLOCK TO 0")
    cars(session)
    session.sql("create STREAMED view NowView as select 1 as KEY, MAX(T.Timepoint) as currTime from R(clockStr) T")
    session.sql(
        "create STREAMED view FiveUnitsWindow as select R.* from R(S) R, R(NowView) N "
        "where N.currTime - 5 < R.TS <= N.currTime"
    )
    session.sql(CARS)
    session.sql("ADVANCE CLOCK TO 7")
    assert [(op, key, at) for op, key, _time, at in stream(session, "NowView")][:1] == [("+", 1, 0)]
    assert [row[2:] for row in stream(session, "NowView")] == [(at, at) for at in range(8)]
    assert stream(session, "FiveUnitsWindow") == IN_WINDOW


def test_example_14_range_and_slide(session: Session) -> None:
    session.sql("ADVANCE CLOCK TO 0")
    cars(session)
    ticking(session, 2)
    session.sql("create STREAMED view TwoUnitsSlide as select 1 as KEY, MAX(T.Timepoint) as currTime from R(Sync2) T")
    session.sql(
        "create STREAMED view RangeFiveSlideTwo as select R.* from R[Sync2](S) R, R(TwoUnitsSlide) N "
        "where N.currTime - 5 < R.TS <= N.currTime"
    )
    session.sql(CARS)
    session.sql("ADVANCE CLOCK TO 9")
    assert stream(session, "RangeFiveSlideTwo") == [
        ("+", "x", "car", 1, 2), ("+", "y", "bus", 2, 2), ("+", "z", "car", 4, 4), ("-", "x", "car", 1, 6),
        ("-", "y", "bus", 2, 8),
    ]  # fmt: skip


REGULATED = [("+", "a", 1, 2), ("+", "b", 3, 4), ("-", "a", None, 4), ("+", "c", 5, 6)]


def test_example_15_relation_to_stream(session: Session) -> None:
    """Figure 6: the time of arrival is a column of what comes out; a delete tells the key alone."""
    declare_s(session)
    ticking(session, 2)
    session.sql("create STREAMED view S_out as select * from R[Sync2](S) R")
    session.sql(S)
    session.sql("ADVANCE CLOCK TO 6")
    assert stream(session, "S_out") == in_order(REGULATED)


def test_example_16_join_of_synchronized_relations(session: Session) -> None:
    """Figure 7: the join changes at 2, 3, 4 and 6, and shows all of both streams only at 6."""
    for number in (2, 3):
        session.sql(f"REGISTER SOURCE in{number} (string ID, int v) FROM MEMORY")
        session.sql(f"CREATE STREAM S{number} OVER in{number} KEY NULL")
    session.sql("ADVANCE CLOCK TO 0")
    ticking(session, 2, 3)
    query = "* from R[Sync2](S2) R2, R[Sync3](S3) R3 where R2.ID = R3.ID"
    named = query.replace("*", "R2.ID as ID, R2.v as v, R3.v as w")
    session.sql(f"create STREAMED view Joined as select {named}")
    session.sql("INSERT INTO in2 VALUES ('a', 1) AT 1, ('b', 2) AT 3, ('c', 3) AT 5")
    session.sql("INSERT INTO in3 VALUES ('a', 10) AT 1, ('b', 20) AT 3, ('c', 30) AT 6")
    session.sql("ADVANCE CLOCK TO 6")
    expected = [("+", "a", 1, 10, 3), ("+", "b", 2, 20, 4), ("+", "c", 3, 30, 6)]
    assert stream(session, "Joined") == expected
    assert [tuple(map(seconds, row)) for row in tagged(session.sql(f"select STREAMED {named}"))] == expected
    points = [(seconds(at), kind) for at, kind in rows(session.sql("SELECT * FROM SYNC_POINTS(Joined) ORDER BY point"))]
    assert points == [(0, "full"), (2, "partial"), (3, "partial"), (4, "partial"), (6, "full")]


def test_example_17_coarser_from_finer(session: Session) -> None:
    """Figure 8, Theorem 1 and Corollary 1: what Sync4 shows of S, it shows of S by Sync2."""
    declare_s(session)
    ticking(session, 2, 4)
    session.sql("create STREAMED view By2 as select Attr1 from R[Sync2](S) R")
    session.sql("create STREAMED view By4 as select Attr1 from R[Sync4](S) R")
    session.sql("create STREAMED view By4of2 as select Attr1 from R[Sync4](By2) R")
    session.sql(S)
    session.sql("ADVANCE CLOCK TO 8")
    assert stream(session, "By4") == stream(session, "By4of2") == [("+", "b", 4), ("+", "c", 8)]
    for at in (4, 8):
        assert rows(session.table("By2", as_of=at)) == rows(session.table("By4", as_of=at))


def test_example_20_regulator(session: Session) -> None:
    """Figure 9: a view that is synchronized as a whole does the same as its input's regulator."""
    declare_s(session)
    ticking(session, 2)
    session.sql("create STREAMED view Regulated as select * from R(S) R SYNC BY Sync2")
    session.sql(S)
    session.sql("ADVANCE CLOCK TO 6")
    assert stream(session, "Regulated") == in_order(REGULATED)
