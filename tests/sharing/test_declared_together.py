"""CREATE VIEWS: what views that are declared together have in common, at the finest of their synchronizations."""

from __future__ import annotations

import pytest

from headrace.session import Session
from tests.conftest import rows
from tests.sharing.test_shared_views import ALWAYS, declare_sales, needs
from tests.sync.test_synchronization_examples import declare_rooms, stream, ticking
from tests.sync.test_synchronized_views import names, refused

ROOMS = "SELECT RoomID, Temperature FROM RoomTempStr"


def common(session: Session) -> list[str]:
    return sorted(name for name in names(session) if name.endswith("__common"))


def test_a_common_view_contains_them_all(session: Session) -> None:
    declare_sales(session)
    of_a = "SELECT shop, sum(price) AS total FROM sales WHERE shop = 'a' GROUP BY shop"
    session.sql(
        f"""CREATE VIEWS (
          CREATE VIEW dear AS SELECT item FROM sales WHERE price > 200 AND shop IS NOT NULL {ALWAYS};
          CREATE VIEW of_a AS {of_a} {ALWAYS};
          CREATE VIEW towns AS SELECT town FROM shops;
        )"""
    )
    assert common(session) == ["dear__common"]
    assert needs(session, "dear") == needs(session, "of_a") == ["dear__common"]
    assert needs(session, "towns") == ["shops"]
    session.sql("INSERT INTO sales VALUES ('a', 7, 500.25); DELETE FROM sales WHERE item = 3")
    session.sql("REFRESH ALL")
    assert rows(session.table("dear")) == [(7,)]
    assert rows(session.table("of_a")) == rows(session.sql(of_a)) != []
    session.sql("DROP VIEW dear")
    assert common(session) == ["dear__common"]
    session.sql("DROP VIEW of_a")
    assert common(session) == []


@pytest.mark.parametrize(
    ("tails", "told"),
    [
        (("SYNC BY Sync4", "SYNC BY Sync2"), ", at the points of Sync2"),
        (("SYNC BY Sync2", "SYNC BY Sync3"), ", at the points of Sync2 or Sync3"),
        (("SYNC BY Sync2", ""), ""),
        (("REFRESH EVERY 4 SECONDS", "REFRESH EVERY 6 SECONDS"), ", every 2 SECONDS"),
    ],
)
def test_the_finest_synchronization_of_all(session: Session, tails: tuple[str, str], told: str) -> None:
    declare_rooms(session)
    ticking(session, 2, 3, 4)
    views = [f"CREATE STREAMED VIEW v{n} AS {ROOMS} WHERE Temperature > {n} {tail}" for n, tail in enumerate(tails)]
    together = "; ".join(f"{view} {ALWAYS}" for view in views)
    said = str(session.sql(f"EXPLAIN CREATE VIEWS ({together})"))
    assert said.startswith(f"v0, v1 would be read from what they have in common{told}: SELECT")
    assert common(session) == []
    session.sql(f"CREATE VIEWS ({together})")
    for n, view in enumerate(views):
        session.sql(view.replace(f"VIEW v{n}", f"VIEW own{n}") + " WITH (sharing = false)")
    assert common(session) == ["v0__common"]
    assert {name for n in (0, 1) for name in needs(session, f"v{n}")} >= {"v0__common"}
    session.sql("INSERT INTO TemperatureSource VALUES ('a', 1) AT 1, ('b', 5) AT 2, ('a', 7) AT 5, ('b', 0) AT 8")
    session.sql("ADVANCE CLOCK TO 12")
    session.sql("INSERT INTO TemperatureSource VALUES ('a', 0) AT 13, ('c', 2) AT 17")
    session.sql("ADVANCE CLOCK TO 24")
    for n in (0, 1):
        assert stream(session, f"v{n}") == stream(session, f"own{n}") != []
    session.sql("DROP VIEW v0; DROP VIEW v1")
    assert not [name for name in names(session) if "__common" in name or "__or__" in name]


def test_a_join_that_is_part_of_two_others(session: Session) -> None:
    """None of the views has it by itself: it is found as what both begin with."""
    declare_sales(session)
    session.sql("CREATE TABLE towns (town STRING, land STRING, PRIMARY KEY (town))")
    session.sql("CREATE TABLE items (item INT, kind STRING, PRIMARY KEY (item))")
    session.sql("INSERT INTO towns VALUES ('Ulm', 'BW'), ('Bonn', 'NW'); INSERT INTO items VALUES (2, 'x'), (3, 'y')")
    join = "FROM sales s JOIN shops p ON s.shop = p.name"
    asked = {
        "lands": f"SELECT land, sum(price) AS n {join} JOIN towns t ON t.town = p.town WHERE price > 5 GROUP BY land",
        "kinds": f"SELECT kind, p.town {join} JOIN items i ON i.item = s.item WHERE price > 100",
    }
    views = "; ".join(f"CREATE VIEW {name} AS {text} {ALWAYS}" for name, text in asked.items())
    session.sql(f"CREATE VIEWS ({views})")
    assert needs(session, "lands") == ["lands__common", "towns"]
    assert needs(session, "kinds") == ["items", "lands__common"]
    session.sql("INSERT INTO sales VALUES ('b', 9, 300); UPDATE shops SET town = 'Ulm' WHERE name = 'b'")
    session.sql("DELETE FROM sales WHERE item = 1")
    session.sql("REFRESH ALL")
    for name, text in asked.items():
        assert rows(session.table(name)) == rows(session.sql(text)) != []


def test_what_is_not_worth_it_is_made_apart(session: Session) -> None:
    declare_sales(session)
    views = "CREATE VIEW a AS SELECT item FROM sales; CREATE VIEW b AS SELECT shop FROM sales WHERE price > 5"
    assert str(session.sql(f"EXPLAIN CREATE VIEWS ({views})")) == "a, b would be made each by itself."
    made = str(session.sql(f"CREATE VIEWS ({views})"))
    assert made.splitlines() == ["Created view a: 4 rows, by recompute.", "Created view b: 3 rows, by recompute."]
    assert common(session) == []


def test_many_selections_of_a_large_table(session: Session) -> None:
    declare_sales(session, 60_000)
    asked = [f"SELECT item FROM sales WHERE price > {95 + n % 5} AND item % 7 = {n}" for n in range(6)]
    session.sql(f"CREATE VIEWS ({'; '.join(f'CREATE VIEW v{n} AS {one}' for n, one in enumerate(asked))})")
    assert {tuple(needs(session, f"v{n}")) for n in range(6)} == {("v0__common",)}
    session.sql("DELETE FROM sales WHERE item < 1000")
    session.refresh()
    for n, one in enumerate(asked):
        assert rows(session.table(f"v{n}")) == rows(session.sql(one))


def test_the_same_set_again_and_parts_of_it(session: Session) -> None:
    declare_sales(session)
    views = "; ".join(f"CREATE OR REPLACE VIEW {name} AS SELECT item FROM sales WHERE price > {n} {ALWAYS}"
                      for n, name in enumerate("abc"))  # fmt: skip
    session.sql(f"CREATE VIEWS ({views})")
    session.sql(f"CREATE VIEWS ({views})")
    session.sql("DROP VIEW a")
    session.sql(f"CREATE VIEWS ({views})")
    assert len(common(session)) == 1
    session.sql("INSERT INTO sales VALUES ('b', 12, 3)")
    session.refresh()
    for n, name in enumerate("abc"):
        assert rows(session.table(name)) == rows(session.sql(f"SELECT item FROM sales WHERE price > {n}"))
    session.sql("DROP VIEW a; DROP VIEW b; DROP VIEW c")
    assert common(session) == []


def test_bad_sets_of_views(session: Session) -> None:
    declare_sales(session)
    first = "CREATE VIEW a AS SELECT item FROM sales WITH (sharing = 'always')"
    twice = refused(session, f"CREATE VIEWS ({first}; {first})")
    assert twice.condition == "NAME_TAKEN"
    assert common(session) == ["a__common"], "the first is there and is read from it"
    session.sql("DROP VIEW a")
    assert common(session) == []
    assert refused(session, f"CREATE VIEWS ({first}; CREATE TABLE b (x INT))").condition == "UNEXPECTED_TOKEN"
    assert refused(session, f"CREATE VIEWS ({first} {first})").condition == "UNEXPECTED_TOKEN"
    assert refused(session, "CREATE VIEWS (CREATE VIEW c AS SELECT x FROM sales; CREATE VIEW d AS SELECT 1 FROM sales)")
    assert common(session) == []
