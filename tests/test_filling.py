"""Making the states of a view: rows as they come are taken from files, and the engine is asked for the rest."""

from __future__ import annotations

import pytest

from headrace.engine import Engine
from headrace.maintenance import building
from headrace.session import Session
from tests.properties.differential_changes import check_strategy, check_view
from tests.properties.harness import fresh

QUERIES = {
    # Of a keyed table, a keyed stream with deletes, and a stream without a key: filtered and projected on the way.
    "plain": "SELECT t.k, t.g, s.v + 1 AS v FROM t JOIN s ON t.g = s.g WHERE t.k > 2 AND s.v IS NOT NULL",
    "keyed": "SELECT r.k, r.v, t.g FROM r LEFT JOIN t ON r.k = t.k",
    "semi": "SELECT k, g FROM t WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.v = t.k)",
    "both": "SELECT a.k, b.v FROM t a JOIN (SELECT k, v FROM s UNION ALL SELECT k, v FROM r) b ON a.k = b.k",
    # What only an engine computes here, and sums.
    "asked": "SELECT t.k, s.v FROM t JOIN s ON soundex(t.g) = soundex(s.g)",
    "sums": "SELECT a.k, count(*) AS n FROM t a JOIN s ON a.g = s.g JOIN r ON r.k = s.k GROUP BY a.k",
    "top": "SELECT t.g, count(*) AS n, sum(s.v) AS v FROM t JOIN s ON t.g = s.g GROUP BY t.g"
    " ORDER BY v NULLS FIRST, n, g LIMIT 2",
    "over": "SELECT x.g, x.v, r.k FROM (SELECT g, sum(v) AS v, count(v) AS n FROM s GROUP BY g) x JOIN r ON x.n = r.k",
    # Above joins of every kind, whose states are there already; with rows that are equal, and keys that are NULL.
    "inner": "SELECT a.k, s.v, r.v AS w FROM t a JOIN (SELECT g, v FROM s) s ON a.g = s.g JOIN r ON r.k = s.v",
    "left": "SELECT x.g, x.v, r.k FROM (SELECT s.g, s.v, t.k FROM s LEFT JOIN t ON s.g = t.g) x JOIN r ON x.k <=> r.v",
    "full": "SELECT x.a, r.k FROM (SELECT t.g AS a, s.v FROM s FULL JOIN t ON s.g = t.g) x LEFT JOIN r ON x.v = r.v",
    "kept": "SELECT x.k, r.v FROM (SELECT k, g FROM s WHERE g IN (SELECT g FROM t)) x JOIN r ON x.k = r.k",
    "gone": "SELECT x.k, r.v FROM (SELECT k, g FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.g = s.g)) x"
    " JOIN r ON x.k = r.k WHERE x.k < 4",
}
#: How many states the engine has to be asked for.
ASKED = {"asked": 2, "top": 2, "over": 1}


def _declare(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, g STRING);"
        "CREATE STREAM s (k INT, g STRING, v BIGINT, at BIGINT) ORDER BY at;"
        "REGISTER SOURCE r_in (op STRING, k INT, v BIGINT, at BIGINT) FROM MEMORY;"
        "CREATE STREAM r OVER r_in KEY (k) ORDER BY at LATE MERGE WITH (op = 'op');"
        "INSERT INTO t SELECT id, CASE WHEN id % 7 = 0 THEN NULL ELSE CAST(id % 4 AS STRING) END FROM range(20);"
        "UPDATE t SET g = '9' WHERE k IN (3, 4); DELETE FROM t WHERE k = 5"
    )
    session.feed("s", [(n % 6, str(n % 5) if n % 3 else None, n if n % 4 else None, n) for n in range(40)])
    session.feed("r_in", [("+", n % 9, n % 8, n) for n in range(30)] + [("-", 2, None, 30), ("-", 7, None, 31)])
    session.refresh()


@pytest.mark.parametrize("name", QUERIES)
def test_states_of_rows_as_they_come_take_no_job(
    sail_engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    ask = building.Building._fill_here

    def counted(self: building.Building, *given: object) -> object:
        asked.append(given)
        return ask(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "SMALL", 0)
    monkeypatch.setattr(building.Building, "_fill_here", counted)
    with fresh(sail_engine) as home:
        session = home.session
        _declare(session)
        session.sql(f"CREATE VIEW {name} AS {QUERIES[name]} REFRESH POLICY INCREMENTAL")
        assert len(asked) == ASKED.get(name, 0)
        check_view(session, name, QUERIES[name])
        session.sql("UPDATE t SET g = '2' WHERE k > 14; DELETE FROM t WHERE k IN (1, 8); INSERT INTO t VALUES (5, '1')")
        session.feed("s", [(3, "2", 5, 50), (5, "1", None, 51)])
        session.feed("r_in", [("+", 2, 3, 50), ("-", 4, None, 51), ("+", 5, 6, 52)])
        session.refresh()
        check_view(session, name, QUERIES[name])
        assert check_strategy(session, name) == "differential"
