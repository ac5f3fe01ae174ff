"""Views and queries that are read from views that contain them: when, how, and what happens when those go."""

from __future__ import annotations

import pytest

from headrace.session import Session
from tests.conftest import Connect, rows
from tests.sync.test_synchronization_examples import HOT_ROOMS, declare_rooms, stream, ticking
from tests.sync.test_synchronized_views import names, refused

ALWAYS = "WITH (sharing = 'always')"


def needs(session: Session, view: str) -> list[str]:
    snapshot = session._home.snapshot()
    return sorted(item.name for item in snapshot.needs(snapshot.find(view)))


def declare_sales(session: Session, count: int = 0) -> None:
    session.sql("CREATE TABLE sales (shop STRING, item INT, price DECIMAL(8, 2), PRIMARY KEY (item))")
    session.sql("CREATE TABLE shops (name STRING, town STRING, PRIMARY KEY (name))")
    session.sql("INSERT INTO shops VALUES ('a', 'Ulm'), ('b', 'Bonn')")
    session.sql("INSERT INTO sales VALUES ('a', 1, 5.00), ('b', 2, 150.00), ('a', 3, 250.50), (NULL, 4, 900.00)")
    if count:
        session.feed("sales", [("ab"[n % 2], 10 + n, n % 100) for n in range(count)])
        session.refresh()


def test_examples_4_and_19_a_query_is_read_from_a_view(session: Session) -> None:
    """Q4 is contained in HotRooms1, in its data and in its points, and is read from it: Figure 5."""
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    made = session.sql(
        "create STREAMED view Q4 As select RoomID, Temperature from R[Sync4](RoomTempStr) R "
        f"where R.Temperature > 100 {ALWAYS}"
    )
    assert str(made).endswith("It is read from HotRooms1.")
    assert needs(session, "Q4") == ["HotRooms1__sync__Sync4"]
    session.sql(
        "INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',110) AT 3, ('c',97) AT 4, ('d',75) AT 5, "
        "('a',75) AT 7"
    )
    session.sql("ADVANCE CLOCK TO 8")
    assert stream(session, "Q4") == [("+", "a", 105, 4), ("+", "b", 110, 4), ("-", "a", None, 8)]


def test_views_without_synchronization(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW dear AS SELECT shop, item, price FROM sales WHERE price > 100")
    session.sql("CREATE VIEW dearer AS SELECT item FROM sales WHERE price >= 200 AND shop IS NOT NULL " + ALWAYS)
    assert needs(session, "dearer") == ["dear"]
    assert rows(session.table("dearer")) == [(3,)]
    session.sql("UPDATE sales SET price = 300 WHERE item = 2; DELETE FROM sales WHERE item = 3")
    session.sql("REFRESH ALL")
    assert rows(session.table("dearer")) == [(2,)]
    told = session.explain("dearer")
    assert "It reads sales: SELECT item FROM sales WHERE price >= 200 AND" in told
    assert "It is read from views that contain it: SELECT item FROM dear WHERE" in told
    assert "It is read from views that contain it" in str(session.sql("EXPLAIN SHARING dearer"))


def test_aggregates_are_rolled_up_in_their_own_types(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW by_two AS SELECT shop, item % 2 AS odd, sum(price) AS total, count(*) AS n "
                "FROM sales GROUP BY shop, item % 2")  # fmt: skip
    session.sql(
        f"CREATE VIEW by_shop AS SELECT shop, sum(price) AS total, count(*) AS n FROM sales GROUP BY shop {ALWAYS}"
    )
    session.sql("CREATE VIEW own AS SELECT shop, sum(price) AS total, count(*) AS n FROM sales GROUP BY shop "
                "WITH (sharing = false)")  # fmt: skip
    session.sql(f"CREATE VIEW whole AS SELECT count(*) AS n, max(price) AS most FROM sales {ALWAYS}")
    assert (needs(session, "by_shop"), needs(session, "own"), needs(session, "whole")) == (
        ["by_two"],
        ["sales"],
        ["sales"],
    )
    session.sql("DELETE FROM sales WHERE shop = 'b'; INSERT INTO sales VALUES ('a', 7, 1.25)")
    session.sql("REFRESH ALL")
    assert session.table("by_shop").schema == session.table("own").schema
    assert rows(session.table("by_shop")) == rows(session.table("own")) != []


def test_a_join_reads_a_view_for_one_of_its_sides(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW dear AS SELECT shop, item, price FROM sales WHERE price > 100")
    text = "SELECT s.item, town FROM sales s JOIN shops ON s.shop = name WHERE s.price > 200"
    session.sql(f"CREATE VIEW towns AS {text} {ALWAYS}")
    assert needs(session, "towns") == ["dear", "shops"]
    assert rows(session.table("towns")) == [(3, "Ulm")]
    session.sql("INSERT INTO shops VALUES ('c', 'Kiel'); INSERT INTO sales VALUES ('c', 9, 500)")
    session.sql("REFRESH ALL")
    assert rows(session.table("towns")) == [(3, "Ulm"), (9, "Kiel")]


def test_the_other_side_of_a_join_is_synchronized_too(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    join = (
        "SELECT A.RoomID AS RoomID, B.Temperature AS t FROM RoomTempStr SYNC Sync4 A, TempStr SYNC Sync4 B "
        "WHERE A.RoomID = B.RoomID AND A.Temperature > 90"
    )
    session.sql(f"CREATE STREAMED VIEW Pairs AS {join} {ALWAYS}")
    session.sql(f"CREATE STREAMED VIEW Own AS {join}")
    assert needs(session, "Pairs") == ["HotRooms1__sync__Sync4", "TempStr__sync__Sync4"]
    session.sql("INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',110) AT 3, ('a',75) AT 6, ('a',95) AT 9")
    session.sql("ADVANCE CLOCK TO 12")
    assert stream(session, "Pairs") == stream(session, "Own") != []


def test_a_part_of_a_query_is_read_from_a_view(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW totals AS SELECT shop, sum(price) AS total FROM sales GROUP BY shop")
    text = (
        "SELECT town, total FROM shops LEFT JOIN (SELECT shop, sum(price) AS total FROM sales GROUP BY shop) t "
        "ON t.shop = name UNION ALL SELECT shop, price FROM sales WHERE item = 4"
    )
    session.sql(f"CREATE VIEW towns AS {text} {ALWAYS}")
    assert needs(session, "towns") == ["sales", "shops", "totals"]
    session.sql("INSERT INTO sales VALUES ('b', 9, 0.50)")
    session.sql("REFRESH ALL")
    assert rows(session.table("towns")) == rows(session.sql(text))


def test_what_is_chosen_follows_the_work(connect: Connect) -> None:
    session = connect()
    declare_sales(session, 120_000)
    session.sql("CREATE VIEW dear AS SELECT shop, item, price FROM sales WHERE price > 90")
    session.sql("CREATE VIEW dearer AS SELECT shop, item, price FROM sales WHERE price > 95")
    asked = "SELECT item FROM sales WHERE price > 97"
    told = str(session.sql(f"EXPLAIN CREATE VIEW dearest AS {asked}"))
    assert told.startswith(
        "It would be read from dearer (4,803 rows instead of 120,004): SELECT item FROM dearer WHERE"
    )
    session.sql(f"CREATE VIEW dearest AS {asked}")
    session.sql(f"CREATE VIEW own AS {asked} WITH (sharing = false)")
    session.sql("CREATE VIEW few AS SELECT name FROM shops WHERE town = 'Ulm'")
    session.sql("CREATE VIEW fewer AS SELECT name FROM shops WHERE town = 'Ulm' AND name = 'a'")
    assert (needs(session, "dearest"), needs(session, "own"), needs(session, "fewer")) == (
        ["dearer"],
        ["sales"],
        ["shops"],
    )
    session.sql("INSERT INTO sales VALUES ('a', 5, 99), ('a', 6, 96)")
    session.refresh()
    assert rows(session.table("dearest")) == rows(session.table("own"))


def test_a_query_is_answered_from_a_view_that_is_fresh(session: Session) -> None:
    declare_sales(session, 120_000)
    session.sql("CREATE VIEW totals AS SELECT shop, price, count(*) AS n FROM sales GROUP BY shop, price")
    asked = "SELECT shop, count(*) AS sold FROM sales GROUP BY shop ORDER BY shop LIMIT 2"
    read = "It would be read from totals"
    assert read in str(session.sql(f"EXPLAIN {asked}"))
    assert rows(session.sql(asked)) == [("a", 60_002), (None, 1)]
    session.sql("INSERT INTO sales VALUES ('a', 5, 99)")
    assert read not in str(session.sql(f"EXPLAIN {asked}")), "the view does not show it yet"
    assert rows(session.sql(asked)) == [("a", 60_003), (None, 1)]
    session.refresh()
    assert read in str(session.sql(f"EXPLAIN {asked}"))
    assert rows(session.sql(asked)) == [("a", 60_003), (None, 1)]
    session.sql("ALTER HOME SET (sharing = false)")
    assert read not in str(session.sql(f"EXPLAIN {asked}"))
    assert refused(session, "ALTER HOME SET (sharing = 'often')").condition == "BAD_OPTION"


def test_dropping_what_a_view_is_read_from_keeps_it_right(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    text = "SELECT RoomID, Temperature FROM RoomTempStr SYNC Sync4 WHERE Temperature > 100"
    session.sql(f"CREATE STREAMED VIEW Q4 AS {text} {ALWAYS}")
    session.sql(f"CREATE STREAMED VIEW Own AS {text} WITH (sharing = 'never')")
    session.sql("INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',110) AT 3, ('a',75) AT 7")
    session.sql("ADVANCE CLOCK TO 9")
    session.sql("DROP VIEW HotRooms1")
    assert "HotRooms1__sync__Sync4" not in names(session)
    assert needs(session, "Q4") == needs(session, "Own")
    session.sql("INSERT INTO TemperatureSource VALUES ('a',115) AT 10, ('b',10) AT 13")
    session.sql("ADVANCE CLOCK TO 17")
    assert stream(session, "Q4") == stream(session, "Own")
    assert [row[-1] for row in stream(session, "Q4")] == [4, 4, 8, 12, 16]


def test_a_view_that_is_replaced_or_fails_does_not_take_others_along(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW dear AS SELECT shop, item, price, 100 / (item - 8) AS odd FROM sales WHERE price > 100")
    session.sql("CREATE VIEW dearer AS SELECT item FROM sales WHERE price > 200 " + ALWAYS)
    assert needs(session, "dearer") == ["dear"]
    session.sql("CREATE OR REPLACE VIEW dear AS SELECT shop, item, price, 1 AS odd FROM sales WHERE price > 100")
    assert needs(session, "dearer") == ["sales"]
    session.sql("INSERT INTO sales VALUES ('a', 9, 500)")
    session.sql("REFRESH ALL")
    assert rows(session.table("dearer")) == [(3,), (4,), (9,)]
    session.sql("CREATE OR REPLACE VIEW dearer AS SELECT item FROM sales WHERE price > 200 " + ALWAYS)
    assert needs(session, "dearer") == ["dear"]
    session.sql("ALTER VIEW dearer SET (sharing = false)")
    assert needs(session, "dearer") == ["sales"]
    session.sql("ALTER VIEW dearer SET (sharing = 'always')")
    assert needs(session, "dearer") == ["dear"]
    session.sql("DELETE FROM sales WHERE item = 9")
    session.sql("REFRESH ALL")
    assert rows(session.table("dearer")) == [(3,), (4,)]


def test_a_failing_view_is_left_behind_by_those_that_share_it(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW dear AS SELECT shop, item, price, 100 / (item - 8) AS odd FROM sales WHERE price > 100")
    session.sql("CREATE VIEW dearer AS SELECT item FROM sales WHERE price > 200 " + ALWAYS)
    session.sql("INSERT INTO sales VALUES ('a', 8, 500)")
    from headrace.runtime.refreshing import refresh

    told: list[str] = []
    refresh(session._home, session._listeners, None, lambda view, _error: told.append(view.name))
    if told:  # an engine without ANSI answers NULL
        assert told == ["dear"]
        assert needs(session, "dearer") == ["sales"]
    assert rows(session.table("dearer")) == [(3,), (4,), (8,)]


def test_streams_that_have_only_some_points_in_common(session: Session) -> None:
    """A join whose inputs are synchronized by two streams agrees with a view at once at the points of both."""
    declare_rooms(session)
    ticking(session, 2, 3)
    join = "SELECT A.RoomID AS RoomID, B.Temperature AS Temperature FROM {} A, {} B WHERE A.RoomID = B.RoomID"
    session.sql(f"CREATE STREAMED VIEW Pairs AS {join.format('RoomTempStr', 'TempStr')}")
    mixed = join.format("RoomTempStr SYNC Sync2", "TempStr SYNC Sync3")
    session.sql(f"CREATE STREAMED VIEW Mixed AS {mixed} {ALWAYS}")
    session.sql(f"CREATE STREAMED VIEW Own AS {mixed}")
    assert needs(session, "Mixed") == ["Pairs__sync__Sync2__and__Sync3"]
    session.sql("INSERT INTO TemperatureSource VALUES ('a',105) AT 1, ('b',110) AT 3, ('a',75) AT 7, ('c',1) AT 11")
    session.sql("ADVANCE CLOCK TO 13")
    for point in (6, 12):
        shown = [rows(session.table(name, as_of=point)) for name in ("Mixed", "Own", "Pairs")]
        assert shown[0] == shown[1] == shown[2] != []
    session.sql("DROP VIEW Mixed")
    assert not [name for name in names(session) if "__and__" in name or name.startswith("Pairs__")]


@pytest.mark.parametrize(
    "tail",
    [
        "REFRESH AFTER 10 ROWS",
        "PARTITION LENGTH 10",
        "WITH (strategy = 'differential')",
        "WITH (sharing = 'never')",
        "",
    ],
)
def test_who_is_never_read_from_others(session: Session, tail: str) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW dear AS SELECT shop, item, price FROM sales WHERE price > 100")
    session.sql("CREATE VIEW on_demand AS SELECT shop, item, price FROM sales REFRESH ON DEMAND")
    session.sql(f"CREATE VIEW dearer AS SELECT item FROM sales WHERE price > 200 {tail}")
    assert needs(session, "dearer") == ["sales"]
    assert refused(session, "CREATE VIEW x AS SELECT 1 AS a WITH (sharing = 'maybe')").condition == "BAD_OPTION"


def test_what_is_shared_counts_for_what_is_still_needed(session: Session) -> None:
    """A view that is read from another still needs what its text names."""
    declare_rooms(session)
    ticking(session, 2, 4)
    session.sql(HOT_ROOMS)
    hotter = "SELECT RoomID FROM RoomTempStr SYNC Sync4 WHERE Temperature > 100"
    session.sql(f"CREATE STREAMED VIEW Q4 AS {hotter} {ALWAYS}")
    assert "Q4" in refused(session, "DROP VIEW Sync4").message
    assert "Q4" in refused(session, "DROP STREAM RoomTempStr").message
    assert str(session.sql("DROP STREAM RoomTempStr CASCADE")).count("Q4") == 1
    assert names(session) & {"Q4", "HotRooms1", "HotRooms1__sync__Sync4"} == set()


def test_names_of_with_and_of_columns_are_not_taken_for_others(session: Session) -> None:
    declare_sales(session)
    session.sql(
        "CREATE VIEW dear AS SELECT item, price FROM sales WHERE price > 100; ALTER HOME SET (sharing = 'always')"
    )
    text = "WITH dear AS (SELECT 1 AS item) SELECT item FROM dear UNION ALL SELECT item FROM sales WHERE price > 200"
    assert rows(session.sql(text)) == [(1,), (3,), (4,)]
    session.sql("CREATE VIEW turned (price, item) AS SELECT item, price FROM sales WITH (sharing = 'never')")
    session.sql(
        "CREATE VIEW items AS SELECT item FROM sales; CREATE VIEW prices AS SELECT item FROM turned WHERE price = 3"
    )
    assert [str(row[0]) for row in rows(session.table("prices"))] == ["250.50"]
    assert rows(session.sql("SELECT count(*), sum(item) FROM sales")) == [(4, 10)]
    assert session.sql("SELECT count(*) FROM sales").columns == session.sql("SELECT count(*) FROM shops").columns


def test_sharing_makes_no_circle(session: Session) -> None:
    declare_sales(session)
    session.sql("CREATE VIEW dear AS SELECT item, price FROM sales WHERE price > 100")
    session.sql(
        "CREATE VIEW copy AS SELECT * FROM dear; CREATE VIEW same AS SELECT item, price FROM sales WHERE price > 100"
    )
    for name in ("dear", "same", "copy"):
        session.sql(f"ALTER VIEW {name} SET (sharing = 'always')")
    session.sql("INSERT INTO sales VALUES ('a', 8, 500)")
    session.refresh()
    assert rows(session.table("copy")) == rows(session.table("same")) == rows(session.table("dear"))
    assert len(rows(session.table("dear"))) == 4


def test_a_view_that_reads_something_else_begins_anew(session: Session) -> None:
    """Whatever the one has seen and the other has not: nothing is counted twice, and nothing is lost."""
    declare_rooms(session)
    session.sql("ADVANCE CLOCK TO 0")
    tail = "REFRESH EVERY 4 SECONDS REFRESH POLICY INCREMENTAL"
    session.sql("CREATE STREAMED VIEW Fine AS SELECT RoomID, Temperature FROM TempStr REFRESH POLICY INCREMENTAL")
    session.sql(f"CREATE STREAMED VIEW Hot AS SELECT RoomID FROM TempStr WHERE Temperature > 80 {tail} {ALWAYS}")
    session.sql(f"CREATE STREAMED VIEW Own AS SELECT RoomID FROM TempStr WHERE Temperature > 80 {tail}")
    assert needs(session, "Hot") == ["Fine"]
    session.sql("INSERT INTO TemperatureSource VALUES ('a', 90) AT 3, ('b', 95) AT 8, ('c', 99) AT 9")
    session.sql("ADVANCE CLOCK TO 9")
    session.sql("DROP VIEW Fine")
    session.sql("ADVANCE CLOCK TO 16")
    assert stream(session, "Hot") == stream(session, "Own")
    assert [row[-1] for row in stream(session, "Hot")] == [4, 8, 12]
    session.sql("CREATE VIEW dear AS SELECT RoomID, Temperature FROM RoomTempStr REFRESH POLICY INCREMENTAL")
    session.sql(
        "CREATE VIEW dearer AS SELECT RoomID FROM RoomTempStr WHERE Temperature > 95 REFRESH POLICY INCREMENTAL"
    )
    session.sql("INSERT INTO TemperatureSource VALUES ('d', 100) AT 17")
    session.sql("REFRESH VIEW dearer; ALTER VIEW dearer SET (sharing = 'always')")
    session.sql("REFRESH ALL")
    assert rows(session.table("dearer")) == [("c",), ("d",)]


def test_synchronization_is_not_taken_for_more_than_it_is(session: Session) -> None:
    declare_rooms(session)
    ticking(session, 2, 3)
    session.sql("CREATE STREAMED VIEW Fours AS SELECT RoomID FROM RoomTempStr REFRESH EVERY 4 SECONDS")
    session.sql("CREATE STREAMED VIEW Late AS SELECT Timepoint FROM clockStr SYNC BY Sync3")
    session.sql(
        f"CREATE STREAMED VIEW Both AS SELECT RoomID FROM RoomTempStr REFRESH EVERY 4 SECONDS OR ON Sync3 {ALWAYS}"
    )
    session.sql("CREATE STREAMED VIEW AtLate AS SELECT RoomID, Temperature FROM RoomTempStr SYNC BY Late")
    session.sql(f"CREATE STREAMED VIEW AtTwo AS SELECT Temperature FROM RoomTempStr SYNC BY Sync2 {ALWAYS}")
    assert needs(session, "Both") == ["RoomTempStr", "Sync3"]
    assert needs(session, "AtTwo") == ["RoomTempStr", "Sync2"]
