"""Foreign keys leave out terms of a join's change that must be empty: nothing is looked up for them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.maintenance.here import Here
from headrace.maintenance.operators.join import JoinOperator
from headrace.session import Session
from tests.conftest import rows

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
