"""The current rows of keyed tables: the columns that views read, once for all of them."""

from __future__ import annotations

import pytest

from headrace.engine import Engine
from headrace.runtime.deltas import Deltas
from headrace.session import Session
from tests.properties.differential_changes import check_view
from tests.properties.harness import fresh


def kept(session: Session) -> set[str]:
    """The columns of the current rows of the one table there is."""
    snapshot = session._home.snapshot()
    (state,) = [item for item in snapshot.objects("state") if item.option("state") == "current"]
    return {name.partition("_")[2] for name in state.names if not name.startswith("__")}


def declare(session: Session) -> None:
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT, b STRING, c DECIMAL(10,2))")
    session.sql("INSERT INTO t SELECT id, id % 5, CAST(id AS STRING), id FROM range(50)")


def test_no_more_columns_are_kept_than_views_read(sail_engine: Engine) -> None:
    with fresh(sail_engine) as home:
        session = home.session
        declare(session)
        session.sql("CREATE VIEW sums AS SELECT a, sum(c) AS c FROM t GROUP BY a REFRESH POLICY INCREMENTAL")
        assert kept(session) == {"k", "a", "c"}
        session.sql("CREATE VIEW counts AS SELECT a, count(*) AS n FROM t GROUP BY a REFRESH POLICY INCREMENTAL")
        assert kept(session) == {"k", "a", "c"}
        session.sql("UPDATE t SET b = 'nobody reads it' WHERE k = 1")
        (first, second) = session.refresh().views
        assert (first.rows_in, second.rows_in, first.strategy) == (0, 0, "differential")


def test_a_view_that_reads_more_columns(sail_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = {
        "now": "SELECT a, count(*) AS n FROM t GROUP BY a",
        "later": "SELECT a, sum(k) AS k FROM t GROUP BY a",
        "wide": "SELECT b, sum(c) AS c FROM t GROUP BY b",
    }
    with fresh(sail_engine) as home:
        session = home.session
        declare(session)
        session.sql(f"CREATE VIEW now AS {queries['now']} REFRESH POLICY INCREMENTAL")
        session.sql(f"CREATE VIEW later AS {queries['later']} REFRESH ON DEMAND REFRESH POLICY INCREMENTAL")
        monkeypatch.setattr(Deltas, "_from_log", None)
        session.sql("UPDATE t SET a = a + 1 WHERE k < 10")
        session.refresh()
        session.sql("DELETE FROM t WHERE k = 3")
        session.sql(f"CREATE VIEW wide AS {queries['wide']} REFRESH POLICY INCREMENTAL")
        assert kept(session) == {"k", "a", "b", "c"}
        session.sql("UPDATE t SET c = c + 1, a = 0 WHERE k > 40")
        session.refresh()
        session.sql("REFRESH VIEW later")
        for name, query in queries.items():
            check_view(session, name, query)
            assert {item.strategy for item in session.status() if item.name == name} == {"differential"}
        assert not [item for item in session._home.snapshot().objects("state") if item.option("state") == "left"]
