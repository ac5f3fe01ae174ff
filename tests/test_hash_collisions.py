"""Keys that hash alike are still told apart: states are found by hash, and every row found must be compared by its key.

The hash is part of the SQL that routes rows, so it can be replaced here for all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.algebra.nodes import Column
from headrace.engine import Engine
from headrace.maintenance.operators.base import hash_sql
from headrace.session import Session
from headrace.session import connect as connect_home
from tests.conftest import rows

HashSql = Callable[[Sequence[str], Sequence[Column]], str]


def all_alike(_key: Sequence[str], _columns: Sequence[Column]) -> str:
    return "CAST(42 AS BIGINT)"


def two_kinds(key: Sequence[str], columns: Sequence[Column]) -> str:
    """Some keys alike and some not, of either sign."""
    return f"(pmod({hash_sql(key, columns)}, 2) - 1)" if key else hash_sql(key, columns)


QUERIES = {
    "joined": "SELECT a.k, a.g, b.v FROM a JOIN b ON a.g = b.k",
    "padded": "SELECT a.k, a.g, b.k AS bk, b.v FROM a FULL JOIN b ON a.g = b.k AND a.v <= b.v",
    "having": "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g)",
    "lacking": "SELECT * FROM a WHERE g NOT IN (SELECT b.v FROM b WHERE b.v IS NOT NULL)",
    "summed": "SELECT g, count(*) AS n, sum(v) AS s FROM a GROUP BY g",
    "least": "SELECT g, min(v) AS low, max(v) AS high, count(DISTINCT v) AS d FROM a GROUP BY g",
    "finished": "SELECT g, stddev(v) AS s FROM a GROUP BY g",
    "once": "SELECT DISTINCT g, v FROM s",
    "less": "SELECT g, v FROM a EXCEPT SELECT g, v FROM b",
    "less_often": "SELECT g, v FROM s EXCEPT ALL SELECT g, v FROM b",
    "common": "SELECT g, v FROM a INTERSECT ALL SELECT g, v FROM s",
    "ranked": "SELECT k, row_number() OVER (PARTITION BY g ORDER BY v, k) AS r FROM a",
    "both": "SELECT a.g, sum(b.v) AS s FROM a LEFT JOIN b ON a.g = b.k GROUP BY a.g",
    "lately": "SELECT DISTINCT x.g, y.v FROM s [RANGE 1 HOUR] x JOIN s [RANGE 2 HOURS] y ON x.g = y.g",
}


@pytest.fixture
def home(sail_engine: Engine, tmp_path: Path) -> Iterator[Session]:
    with connect_home(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark) as session:
        session.sql(
            "CREATE TABLE a (k INT PRIMARY KEY, g INT, v INT); CREATE TABLE b (k INT PRIMARY KEY, g INT, v INT);"
            "CREATE STREAM s (g INT, v INT);"
            "INSERT INTO a VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, NULL, 5), (5, 3, NULL);"
            "INSERT INTO b VALUES (1, 1, 1), (2, 9, 1), (3, NULL, 2); INSERT INTO s VALUES (1, 1), (1, 1), (2, 1)"
        )
        yield session


#: The modules that put the hash into SQL.
HASHING = ("runtime.current", "maintenance.wide", "maintenance.building", "maintenance.operators.direct_distinct")
CHANGES = (
    "INSERT INTO a VALUES (6, 2, 7), (7, 4, NULL); INSERT INTO s VALUES (1, 2), (2, 1), (NULL, 5)",
    "UPDATE a SET g = 3, v = 0 WHERE k = 2; DELETE FROM b WHERE k = 1; INSERT INTO b VALUES (4, 2, 7)",
    "DELETE FROM a WHERE g = 2; UPDATE b SET v = NULL WHERE k = 2; INSERT INTO s VALUES (3, 3)",
)


@pytest.mark.parametrize("rows_here", [0, 1_000_000])
@pytest.mark.parametrize("hashed", [all_alike, two_kinds])
def test_views_over_keys_that_hash_alike(
    home: Session, hashed: HashSql, rows_here: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in HASHING:
        monkeypatch.setattr(f"headrace.{module}.hash_sql", hashed)
    # What cannot be hashed here is hashed by the engine.
    for module in ("here", "filling"):
        monkeypatch.setattr(f"headrace.maintenance.{module}.can_hash", lambda _kinds: False)
    home.sql(f"ALTER HOME SET (rows_here = {rows_here})")
    for name, query in QUERIES.items():
        home.sql(f"CREATE VIEW v_{name} AS {query} REFRESH POLICY INCREMENTAL")
    for change in CHANGES:
        home.sql(change)
        done = home.refresh().views
        assert [(record.strategy, record.reason) for record in done if record.strategy != "differential"] == []
        for name, query in QUERIES.items():
            assert rows(home.table(f"v_{name}")) == rows(home.sql(query)), (name, change)
    # Some states have a key without columns, whose hash is 0, and calendars have the time of death in its place.
    kept = [pa.ipc.open_file(path).read_all().column("__h").to_pylist() for path in tmp_path.rglob("*.arrow")]
    alike = {42} if hashed is all_alike else {-1, 0}
    assert sum(len(found) > 1 and set(found) <= alike for found in kept) > len(QUERIES)
