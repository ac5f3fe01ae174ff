"""Columns called like something of ours: names of frames, states and kernels. They work, or are refused by name.

Names that begin with two underscores are refused for columns (`test_definitions.py`); inside a query they may stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine import Engine, _named, apart
from headrace.session import Session
from headrace.session import connect as connect_home
from tests.conftest import rows

NAMES = (
    "relation_0_", "relation_1_", "state_0_", "changes_", "input_", "rows_", "result_0_", "spans_0_", "log_rows",
    "t1_k", "left_old_", "right_old_", "count_", "n", "after_tax", "before_tax", "target_rows", "merge_source",
)  # fmt: skip
ALL = ", ".join(NAMES)
OURS = (
    "relation_0_ AS __w, state_0_ AS __t, n AS __h, rows_ AS __e, changes_ AS __b, changes_ AS __exp, n AS __note,"
    " n AS __n, n AS __seq"
)
FIELDS = "named_struct('relation_0_', relation_0_, 'rows_', rows_, 'left_old_', left_old_, 'changes_', xs)"

QUERIES = {
    "whole": "SELECT * FROM a WHERE relation_0_ + state_0_ > 0",
    "grouped": f"SELECT {ALL}, count(*) AS c FROM a GROUP BY {ALL}",
    "summed": f"SELECT relation_0_, {', '.join(f'sum({n}) AS {n}' for n in NAMES[1:])} FROM a GROUP BY relation_0_",
    "least": f"SELECT relation_0_, {', '.join(f'min({n}) AS {n}' for n in NAMES[1:])} FROM a GROUP BY relation_0_",
    "finished": "SELECT relation_0_, stddev(state_0_) AS changes_ FROM a GROUP BY relation_0_",
    "once": f"SELECT DISTINCT {ALL} FROM s",
    "joined": "SELECT a.*, b.relation_0_ AS x, b.state_0_ AS y FROM a JOIN b ON a.relation_0_ = b.relation_0_",
    "padded": "SELECT a.changes_, k, b.relation_0_ FROM a FULL JOIN b ON a.state_0_ = b.relation_0_ AND a.n <= b.n",
    "lacking": "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.relation_0_ = a.n AND b.rows_ < a.rows_)",
    "less": f"SELECT {ALL} FROM a EXCEPT SELECT {ALL} FROM b",
    "common": f"SELECT {ALL} FROM a INTERSECT ALL SELECT {ALL} FROM s",
    "top": f"SELECT {ALL} FROM a ORDER BY relation_0_, state_0_ LIMIT 2",
    "ranked": "SELECT k, row_number() OVER (PARTITION BY relation_0_ ORDER BY changes_, k) AS rank_ FROM a",
    "spread": "SELECT k, changes_, x AS state_0_ FROM a LATERAL VIEW explode(xs) input_ AS x",
    "windowed": "SELECT relation_0_, count(*) AS count_ FROM s [RANGE 1 HOUR] GROUP BY relation_0_",
    "newest": f"SELECT {ALL} FROM s [ROWS 2]",
    "named": "WITH relation_0_ AS (SELECT relation_0_, k FROM a) SELECT relation_0_.k, state_0_.n FROM relation_0_"
    " JOIN b state_0_ ON relation_0_.relation_0_ = state_0_.relation_0_",
    "within": "SELECT k, sum(__w) AS w, max(__t) AS t, min(__h + __e + __b + __exp + __note + __n + __seq) AS h"
    f" FROM (SELECT k, {OURS} FROM a) GROUP BY k",
    "matched": f"SELECT x.__w + y.__w AS w, x.__h AS h FROM (SELECT {OURS} FROM a) x JOIN (SELECT {OURS} FROM b) y"
    " ON x.__w = y.__w AND x.__h <= y.__h",
    "fields": f"SELECT f.relation_0_ AS q, sum(f.rows_) AS rows_ FROM (SELECT {FIELDS} AS f FROM a) GROUP BY q",
    "loose": f"SELECT f.rows_, b.state_0_ FROM (SELECT {FIELDS} AS f FROM a) JOIN b ON f.rows_ < b.rows_ + f.left_old_",
    "taken_apart": f"SELECT e FROM (SELECT {FIELDS} AS f FROM a) LATERAL VIEW explode(f.changes_) g AS e",
}  # fmt: skip


@pytest.fixture
def home(sail_engine: Engine, tmp_path: Path) -> Iterator[Session]:
    with connect_home(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark) as session:
        ints = ", ".join(f"{name} INT" for name in NAMES[1:])
        session.sql(
            f"CREATE TABLE a (k INT PRIMARY KEY, relation_0_ INT, {ints}, xs ARRAY<INT>);"
            f"CREATE TABLE b (relation_0_ INT PRIMARY KEY, {ints}); CREATE STREAM s (relation_0_ INT, {ints})"
        )
        for key in range(3):
            insert(session, key)
        yield session


def insert(session: Session, key: int) -> None:
    values = ", ".join(str(key % 2 + number % 2) for number in range(1, len(NAMES)))
    session.sql(
        f"INSERT INTO a VALUES ({key}, {key % 2}, {values}, array({key}, 7));"
        f"INSERT INTO b VALUES ({key}, {values}); INSERT INTO s VALUES ({key % 2}, {values})"
    )


def test_views_over_columns_called_like_ours(home: Session) -> None:
    for name, query in QUERIES.items():
        home.sql(f"CREATE VIEW v_{name} AS {query} REFRESH POLICY INCREMENTAL")
    changes = (
        "UPDATE a SET state_0_ = state_0_ + 1, changes_ = rows_ + 7 WHERE relation_0_ = 1 AND target_rows >= 0",
        "DELETE FROM a WHERE relation_0_ = 0 AND target_rows = 0; DELETE FROM b WHERE relation_0_ = 2",
        "MERGE INTO b USING (SELECT 1 AS relation_0_, 5 AS merge_source) m ON b.relation_0_ = m.relation_0_"
        " WHEN MATCHED THEN UPDATE SET rows_ = b.rows_ + m.merge_source, n = b.merge_source",
    )
    for step, change in enumerate(changes):
        home.sql(change)
        insert(home, 10 + step)
        done = home.refresh().views
        assert [(record.strategy, record.reason) for record in done if record.strategy != "differential"] == []
        assert len(done) == len(QUERIES) or step > 0
        for name, query in QUERIES.items():
            assert rows(home.table(f"v_{name}")) == rows(home.sql(query)), name


def test_names_of_frames_are_put_where_relations_stand() -> None:
    assert _named("SELECT a.x_, `x_`, 'x_' FROM x_ JOIN xx_", ["x_"]) == "SELECT a.x_, `x_`, 'x_' FROM {x_} JOIN xx_"
    assert apart("relation_", "SELECT a FROM t") == "relation_"
    assert apart("relation_", "SELECT relation_0_", "relation__1") == "relation___"
