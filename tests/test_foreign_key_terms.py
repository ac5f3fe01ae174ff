"""Foreign keys leave out terms of a join's change that must be empty: nothing is looked up for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.maintenance.here import Here
from headrace.maintenance.operators.join import JoinOperator
from headrace.session import Session
from tests.conftest import rows
from tests.properties.harness import bag, fresh, hold

VIEW = "CREATE VIEW v AS SELECT c.seg, o.ok FROM customer c JOIN orders o ON c.ck = o.ck REFRESH POLICY INCREMENTAL"


@pytest.fixture
def home(session: Session) -> Session:
    session.sql("CREATE TABLE customer (ck BIGINT, seg STRING, PRIMARY KEY (ck))")
    return session


def _orders(session: Session, clause: str) -> None:
    session.sql(f"CREATE TABLE orders (ok BIGINT, ck BIGINT, PRIMARY KEY (ok){clause})")
    session.sql("INSERT INTO customer VALUES (1, 'a'), (2, 'b')")
    session.sql("INSERT INTO orders VALUES (10, 1), (11, 2), (12, NULL)")
    session.sql(VIEW)


def _idle_sides(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """The sides of each join that a refresh does not look at."""
    seen: list[frozenset[str]] = []
    original = Here.run

    def noting(self: Here, *args: Any, **kwargs: Any) -> Any:
        joins = [placed.operator for placed in self.program.operators if isinstance(placed.operator, JoinOperator)]
        seen.extend(join.idle for join in joins)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Here, "run", noting)
    session.refresh()
    return seen


FOREIGN_KEY = ", FOREIGN KEY (ck) REFERENCES customer (ck) ENFORCED"


def test_new_parents_are_not_searched_for(home: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _orders(home, FOREIGN_KEY)
    home.sql("INSERT INTO customer VALUES (3, 'c')")
    home.sql("INSERT INTO orders VALUES (13, 3)")
    idle = _idle_sides(home, monkeypatch)
    assert idle
    assert all(len(sides) == 1 for sides in idle)
    assert sorted(rows(home.sql("SELECT seg, ok FROM v"))) == [("a", 10), ("b", 11), ("c", 13)]


def test_updated_parents_are(home: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _orders(home, FOREIGN_KEY)
    home.sql("UPDATE customer SET seg = 'z' WHERE ck = 1")
    assert not any(_idle_sides(home, monkeypatch))
    assert sorted(rows(home.sql("SELECT seg, ok FROM v"))) == [("b", 11), ("z", 10)]


def test_without_a_trusted_foreign_key_they_are(home: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _orders(home, "")
    home.sql("INSERT INTO orders VALUES (13, 3)")
    home.refresh()
    home.sql("INSERT INTO customer VALUES (3, 'c')")
    assert not any(_idle_sides(home, monkeypatch))
    assert ("c", 13) in rows(home.sql("SELECT seg, ok FROM v"))


CHAIN = (
    "CREATE VIEW v AS SELECT c.seg, o.ok, i.n FROM customer c JOIN orders o ON c.ck = o.ck JOIN item i ON o.ok = i.ok "
    "REFRESH POLICY INCREMENTAL"
)


def _chain(session: Session) -> None:
    session.sql(f"CREATE TABLE orders (ok BIGINT, ck BIGINT, PRIMARY KEY (ok){FOREIGN_KEY})")
    session.sql(
        "CREATE TABLE item (n INT, ok BIGINT, PRIMARY KEY (n), FOREIGN KEY (ok) REFERENCES orders (ok) ENFORCED)"
    )
    session.sql("INSERT INTO customer VALUES (1, 'a'), (2, 'b')")
    session.sql("INSERT INTO orders VALUES (10, 1), (11, 2), (12, NULL)")
    session.sql("INSERT INTO item VALUES (1, 10), (2, 11), (3, 12), (4, NULL)")
    session.sql(CHAIN)


def test_what_is_joined_on_top_of_new_rows_is_not_searched_for_either(
    home: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    _chain(home)
    home.sql("INSERT INTO customer VALUES (3, 'c')")
    home.sql("INSERT INTO orders VALUES (13, 3), (14, 1)")
    home.sql("INSERT INTO item VALUES (5, 13), (6, 10), (7, 14)")
    idle = _idle_sides(home, monkeypatch)
    assert len(idle) == 2
    assert all(len(sides) == 1 for sides in idle)
    assert sorted(rows(home.sql("SELECT * FROM v"))) == [
        ("a", 10, 1), ("a", 10, 6), ("a", 14, 7), ("b", 11, 2), ("c", 13, 5),
    ]  # fmt: skip


def test_an_update_below_has_what_is_above_searched_for(home: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    _chain(home)
    home.sql("UPDATE customer SET seg = 'z' WHERE ck = 1")
    home.sql("INSERT INTO orders VALUES (13, 1)")
    home.sql("INSERT INTO item VALUES (5, 13)")
    assert not any(_idle_sides(home, monkeypatch))
    assert sorted(rows(home.sql("SELECT * FROM v"))) == [("b", 11, 2), ("z", 10, 1), ("z", 13, 5)]


def test_a_subquery_that_is_read_twice(home: Session) -> None:
    _chain(home)
    home.sql(
        "CREATE VIEW pairs AS WITH w AS (SELECT c.ck, c.seg, o.ok FROM customer c JOIN orders o ON c.ck = o.ck) "
        "SELECT a.seg, a.ok, b.ok AS other, i.n FROM w a JOIN w b ON a.ck = b.ck JOIN item i ON i.ok = b.ok "
        "REFRESH POLICY INCREMENTAL"
    )
    home.sql("INSERT INTO orders VALUES (13, 1), (14, 2)")
    home.sql("INSERT INTO item VALUES (5, 13), (6, 10)")
    home.refresh()
    assert sorted(rows(home.sql("SELECT * FROM pairs"))) == [
        ("a", 10, 10, 1), ("a", 10, 10, 6), ("a", 10, 13, 5), ("a", 13, 10, 1), ("a", 13, 10, 6), ("a", 13, 13, 5),
        ("b", 11, 11, 2), ("b", 14, 11, 2),
    ]  # fmt: skip


STATEMENTS = st.sampled_from(
    [
        "INSERT INTO customer VALUES ({n}, 's{n}')",
        "UPDATE customer SET seg = 's{n}' WHERE ck = {c}",
        "INSERT INTO orders VALUES ({n}, {c})",
        "INSERT INTO orders VALUES ({n}, NULL)",
        "UPDATE orders SET ck = {c} WHERE ok = {o}",
        "INSERT INTO item VALUES ({n}, {o})",
        "DELETE FROM item WHERE ok = {o}",
    ]
)
BATCHES = st.lists(st.lists(st.tuples(STATEMENTS, st.integers(0, 9)), max_size=4), min_size=1, max_size=3)


def chains_equal_their_query(engine: Engine, batches: list[list[tuple[str, int]]]) -> None:
    with fresh(engine) as home:
        session = home.session
        session.sql("CREATE TABLE customer (ck BIGINT, seg STRING, PRIMARY KEY (ck))")
        _chain(session)
        query = CHAIN.removeprefix("CREATE VIEW v AS ").removesuffix(" REFRESH POLICY INCREMENTAL")
        customers, orders, number = [1, 2], [10, 11, 12], 100
        for batch in batches:
            for text, pick in batch:
                number += 1
                session.sql(text.format(n=number, c=customers[pick % len(customers)], o=orders[pick % len(orders)]))
                if text.startswith("INSERT INTO customer"):
                    customers.append(number)
                elif text.startswith("INSERT INTO orders"):
                    orders.append(number)
            session.refresh()
            assert bag(session.sql("SELECT * FROM v")) == bag(session.sql(query))


def test_chains_equal_their_query(engine: Engine) -> None:
    hold(chains_equal_their_query, engine, BATCHES, 30)
