"""INSERT, UPDATE, DELETE and MERGE, and what they refuse."""

from __future__ import annotations

import pytest

from headrace import HeadraceError
from headrace.session import Session
from tests.conftest import rows, tagged


@pytest.fixture
def devices(session: Session) -> Session:
    session.sql("CREATE TABLE devices (id INT NOT NULL, name STRING, site STRING, PRIMARY KEY (id))")
    session.sql("INSERT INTO devices VALUES (1, 'r1', 'north'), (2, 'r2', 'south') AT 1")
    return session


def test_keyed_table_has_updates(devices: Session) -> None:
    devices.sql("UPDATE devices SET name = upper(name) WHERE id = 1 AT 2")
    devices.sql("DELETE FROM devices AS d WHERE d.site = 'south' AT 3")
    devices.sql("INSERT INTO devices (id, site) VALUES (3, 'west') AT 4")
    assert rows(devices.table("devices")) == [(1, "R1", "north"), (3, None, "west")]
    assert tagged(devices.changes("devices")) == [
        ("+", 1, "r1", "north", 1),
        ("+", 2, "r2", "south", 1),
        ("u", 1, "R1", "north", 2),
        ("-", 2, None, None, 3),
        ("+", 3, None, "west", 4),
    ]


def test_update_that_changes_nothing_is_no_change(devices: Session) -> None:
    devices.sql("UPDATE devices SET name = 'r1' WHERE id = 1 AT 2")
    assert len(rows(devices.changes("devices"))) == 2


def test_update_of_a_key_moves_the_row(devices: Session) -> None:
    devices.sql("UPDATE devices SET id = 7 WHERE id = 1 AT 2")
    assert rows(devices.table("devices")) == [(2, "r2", "south"), (7, "r1", "north")]
    assert tagged(devices.changes("devices", since=1)) == [("-", 1, None, None, 2), ("+", 7, "r1", "north", 2)]


def test_table_without_key_is_a_bag(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT, b STRING)")
    session.sql("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL), (CAST('3' AS INT) + 1, concat('y', 'z')) AT 1")
    session.sql("UPDATE t SET b = 'w' WHERE b IS NULL AT 2")
    assert rows(session.table("t")) == [(1, "x"), (1, "x"), (2, "w"), (4, "yz")]
    session.sql("DELETE FROM t WHERE a IN (SELECT a FROM t WHERE b = 'x') AT 3")
    assert rows(session.table("t")) == [(2, "w"), (4, "yz")]
    assert tagged(session.changes("t", since=2)) == [("-", 1, "x", 3), ("-", 1, "x", 3)]


def test_insert_from_a_query_and_create_table_as(devices: Session) -> None:
    devices.sql("CREATE TABLE sites AS SELECT site, count(*) AS n FROM devices GROUP BY site")
    devices.sql("INSERT INTO sites SELECT 'east', 0 AT 5")
    assert rows(devices.table("sites")) == [("east", 0), ("north", 1), ("south", 1)]


def test_merge_every_clause(devices: Session) -> None:
    devices.sql("CREATE TABLE news (id INT, name STRING, gone BOOLEAN)")
    devices.sql("INSERT INTO news VALUES (1, 'new', false), (2, NULL, true), (9, 'nine', false)")
    devices.sql("INSERT INTO devices VALUES (5, 'r5', 'attic') AT 2")
    done = devices.sql(
        "MERGE INTO devices AS d USING news AS n ON d.id = n.id"
        " WHEN MATCHED AND n.gone THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET name = n.name"
        " WHEN NOT MATCHED THEN INSERT (id, name, site) VALUES (n.id, n.name, 'new')"
        " WHEN NOT MATCHED BY SOURCE AND d.site = 'attic' THEN UPDATE SET site = 'cellar'"
        " AT 3"
    )
    assert done.message == "Merged 4 rows into devices."
    assert rows(devices.table("devices")) == [(1, "new", "north"), (5, "r5", "cellar"), (9, "nine", "new")]
    assert sorted(row[0] for row in tagged(devices.changes("devices", since=2))) == ["+", "-", "u", "u"]


def test_merge_with_stars(devices: Session) -> None:
    devices.sql(
        "MERGE INTO devices USING (SELECT 2 AS id, 'x' AS name, 's' AS site UNION ALL SELECT 3, 'y', 't') AS n"
        " ON devices.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(devices.table("devices")) == [(1, "r1", "north"), (2, "x", "s"), (3, "y", "t")]


def test_keyed_stream_can_be_deleted_from(session: Session) -> None:
    session.sql("CREATE STREAM s (k STRING, v INT) KEY (k)")
    session.sql("INSERT INTO s VALUES ('a', 1) AT 1, ('b', 2) AT 2, ('a', 3) AT 3")
    session.sql("DELETE FROM s WHERE k = 'a' AT 4")
    assert tagged(session.changes("s")) == [("+", "a", 1, 1), ("+", "b", 2, 2), ("u", "a", 3, 3), ("-", "a", None, 4)]


@pytest.mark.parametrize(
    ("statement", "condition", "words"),
    [
        ("INSERT INTO devices VALUES (1, 'again', 'x')", "DUPLICATE_KEY", "one row with id = 1"),
        ("INSERT INTO devices VALUES (7, 'a', 'x'), (7, 'b', 'y')", "DUPLICATE_KEY", "one row with id = 7"),
        ("INSERT INTO devices VALUES (NULL, 'a', 'x')", "NULL_VALUE", "id is NOT NULL"),
        ("INSERT INTO devices VALUES (3, 'a')", "WRONG_ROW_LENGTH", "Row 1 has 2 values; 3 columns"),
        ("INSERT INTO devices VALUES ('three', 'a', 'x')", "BAD_VALUE", "Row 1, column id: 'three' is not a INT"),
        ("INSERT INTO devices (id, nme) VALUES (3, 'a')", "UNKNOWN_COLUMN", "no column nme"),
        ("INSERT INTO device VALUES (3, 'a', 'x')", "UNKNOWN_OBJECT", "Did you mean devices?"),
        ("INSERT INTO devices SELECT 1", "WRONG_ROW_LENGTH", "gives 1 columns; devices takes 3"),
        ("UPDATE devices SET nme = 'x'", "UNKNOWN_COLUMN", "no column nme"),
        ("UPDATE devices SET id = 9", "DUPLICATE_KEY", "one row with id = 9"),
        (
            "MERGE INTO devices USING (SELECT 1 AS id UNION ALL SELECT 1) AS n ON devices.id = n.id"
            " WHEN MATCHED THEN DELETE",
            "MERGE_AMBIGUOUS",
            "matched by several rows",
        ),
    ],
)
def test_bad_changes_change_nothing(devices: Session, statement: str, condition: str, words: str) -> None:
    before = rows(devices.table("devices")), devices.sql("SHOW SNAPSHOTS").rows[-1]
    with pytest.raises(HeadraceError) as raised:
        devices.sql(statement)
    assert raised.value.condition == condition
    assert words in str(raised.value)
    assert (rows(devices.table("devices")), devices.sql("SHOW SNAPSHOTS").rows[-1]) == before


def test_streams_and_views_are_not_changed_by_hand(session: Session) -> None:
    session.sql("CREATE STREAM s (a INT)")
    session.sql("CREATE VIEW v AS SELECT a FROM s")
    for statement, words in (
        ("DELETE FROM s", "it only grows"),
        ("UPDATE v SET a = 1", "follows from its query"),
        ("INSERT INTO v VALUES (1)", "v is a view"),
    ):
        with pytest.raises(HeadraceError, match=words):
            session.sql(statement)
