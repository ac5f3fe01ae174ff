"""SyncSQL, section 2: the paper's examples, tuple by tuple."""

from __future__ import annotations

from headrace.session import Session
from tests.conftest import rows, tagged

ONE = """
REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port{port}

RoomTempStr: CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID

TempStr: CREATE STREAM TempStr OVER TemperatureSource KEY NULL
"""


def declare_rooms(session: Session) -> None:
    session.sql("REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) FROM MEMORY")
    session.sql("CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID")
    session.sql("CREATE STREAM TempStr OVER TemperatureSource KEY NULL")


def test_example_1_as_printed(session: Session, free_port: int) -> None:
    session.sql(ONE.format(port=free_port))
    session.sql(
        "INSERT INTO TemperatureSource VALUES"
        " ('a',100) AT 1, ('b',75) AT 2, ('c',80) AT 3, ('a',95) AT 4, ('b',85) AT 5"
    )
    assert tagged(session.changes("RoomTempStr")) == [
        ("+", "a", 100, 1),
        ("+", "b", 75, 2),
        ("+", "c", 80, 3),
        ("u", "a", 95, 4),
        ("u", "b", 85, 5),
    ]
    assert [row[0] for row in tagged(session.changes("TempStr"))] == ["+"] * 5


def test_example_2_time_varying_relation(session: Session) -> None:
    session.sql("REGISTER SOURCE S_in (string Attr1, string op) FROM MEMORY")
    session.sql("CREATE STREAM S OVER S_in KEY Attr1 WITH (op = 'op')")
    session.sql("INSERT INTO S_in VALUES ('a','+') AT 1, ('b','+') AT 3, ('a','-') AT 4, ('c','+') AT 5")
    at = {time: [row[0] for row in rows(session.table("S", as_of=time))] for time in (0, 1, 2, 3, 4, 5)}
    assert at == {0: [], 1: ["a"], 2: ["a"], 3: ["a", "b"], 4: ["b"], 5: ["b", "c"]}
    assert tagged(session.changes("S")) == [("+", "a", 1), ("+", "b", 3), ("-", "a", 4), ("+", "c", 5)]


ROOMS = (
    "INSERT INTO TemperatureSource VALUES ('a',78) AT 1, ('a',105) AT 2, ('b',70) AT 3, ('c',95) AT 4, "
    "('a',76) AT 5, ('c',103) AT 6"
)


def test_example_3_streamed_query(session: Session) -> None:
    declare_rooms(session)
    session.sql(ROOMS)
    answer = session.sql("select STREAMED RoomID, Temperature from R(RoomTempStr) R where R.Temperature > 80")
    assert tagged(answer) == [("+", "a", 105, 2), ("+", "c", 95, 4), ("-", "a", None, 5), ("u", "c", 103, 6)]


def test_example_4_query_over_a_view(session: Session) -> None:
    declare_rooms(session)
    session.sql(
        "create STREAMED view HotRooms1 as select RoomID, Temperature from R(RoomTempStr) R where R.Temperature > 80"
    )
    session.sql("create STREAMED view Q4 as select RoomID, Temperature from R(HotRooms1) R where R.Temperature > 100")
    session.sql(ROOMS)
    session.refresh()
    assert tagged(session.changes("HotRooms1")) == [
        ("+", "a", 105, 2),
        ("+", "c", 95, 4),
        ("-", "a", None, 5),
        ("u", "c", 103, 6),
    ]
    assert tagged(session.changes("Q4")) == [("+", "a", 105, 2), ("-", "a", None, 5), ("+", "c", 103, 6)]


def test_parking_lot_q1_q2(session: Session) -> None:
    """The introduction: cars inside are a set difference, and their count by type is a view over that view."""
    session.sql("REGISTER SOURCE entered (car STRING, type STRING) FROM MEMORY; CREATE STREAM S1 OVER entered KEY NULL")
    session.sql("REGISTER SOURCE left_lot (car STRING) FROM MEMORY; CREATE STREAM S2 OVER left_lot KEY NULL")
    session.sql(
        "CREATE STREAMED VIEW inside AS"
        " SELECT car, type FROM S1 WHERE NOT EXISTS (SELECT 1 FROM S2 WHERE S2.car = S1.car)"
    )
    session.sql("CREATE STREAMED VIEW by_type AS SELECT type, count(*) AS cars FROM inside GROUP BY type")
    session.sql("INSERT INTO entered VALUES ('x','car') AT 1, ('y','bus') AT 2, ('z','car') AT 3")
    session.sql("INSERT INTO left_lot VALUES ('x') AT 4, ('y') AT 5")
    session.refresh()
    assert tagged(session.changes("inside")) == [
        ("+", "x", "car", 1),
        ("+", "y", "bus", 2),
        ("+", "z", "car", 3),
        ("-", "x", "car", 4),
        ("-", "y", "bus", 5),
    ]
    assert tagged(session.changes("by_type")) == [
        ("+", "car", 1, 1),
        ("+", "bus", 1, 2),
        ("u", "car", 2, 3),
        ("u", "car", 1, 4),
        ("-", "bus", None, 5),
    ]
