"""Comparisons with a scalar subquery: a new number has only those rows told anew that it decides otherwise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import strategies as st

from headrace.algebra.nodes import Column
from headrace.engine import Engine
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.operators.verdict import Verdict
from headrace.session import Session
from tests.conftest import rows
from tests.properties.harness import bag, fresh, hold

ABOVE = "SELECT t.k, t.x FROM t WHERE t.x > (SELECT max(u.y) FROM u)"
KEPT, TOLD = (Column("k", "INT"), Column("x", "INT")), (Column("y", "INT"),)


def _verdict(text: str) -> Verdict:
    return Verdict((sqlglot.parse_one(text),), KEPT, TOLD, "spark")


def _rows(*values: int | None) -> pa.Table:
    kinds = pa.schema([("k", pa.int32()), ("x", pa.int32()), ("__w", pa.int64()), ("__h", pa.int64())])
    listed = [{"k": number, "x": value, "__w": 1, "__h": 0} for number, value in enumerate(values)]
    return pa.Table.from_pylist(listed, kinds)


def _changes(*changes: tuple[int | None, int, int]) -> pa.Table:
    kinds = pa.schema([("y", pa.int32()), ("__t", pa.int64()), ("__w", pa.int64()), ("__h", pa.int64())])
    return pa.Table.from_pylist([{"y": y, "__t": t, "__w": w, "__h": 0} for y, t, w in changes], kinds)


def test_only_rows_between_the_old_number_and_the_new_are_disputed() -> None:
    rows = _rows(1, 5, 7, 9, None)
    found = _verdict("x > y").disputed(rows, _changes((4, 0, -1), (8, 0, 1)))
    assert found.column("x").to_pylist() == [5, 7]


def test_a_number_where_none_was_decides_all_that_pass() -> None:
    found = _verdict("x > y").disputed(_rows(1, 5, 9), _changes((4, 0, 1)))
    assert found.column("x").to_pylist() == [5, 9]


def test_a_number_that_was_away_for_a_time_decides_them_too() -> None:
    found = _verdict("x > y").disputed(_rows(1, 5, 9), _changes((4, 0, -1), (4, 3, 1)))
    assert found.column("x").to_pylist() == [5, 9]


def test_null_decides_for_no_row() -> None:
    found = _verdict("x > y").disputed(_rows(1, 5), _changes((None, 0, -1), (4, 0, 1)))
    assert found.column("x").to_pylist() == [5]


def test_many_numbers_leave_all_rows() -> None:
    rows = _rows(1, 5)
    assert _verdict("x > y").disputed(rows, _changes(*((number, 0, 1) for number in range(9)))) is rows


def test_what_overflows_here_is_for_the_engine() -> None:
    rows = _rows(2**31 - 1)
    assert _verdict("x + y > 0").disputed(rows, _changes((1, 0, -1), (2, 0, 1))) is rows


@pytest.mark.parametrize(
    ("query", "judged"),
    [
        (ABOVE, True),
        ("SELECT t.k FROM t, (SELECT max(u.y) AS m FROM u) s WHERE t.x > s.m AND t.k < s.m", True),
        ("SELECT t.k, s.m FROM t, (SELECT max(u.y) AS m FROM u) s WHERE t.x > s.m", False),
        ("SELECT t.k FROM t, (SELECT max(u.y) AS m FROM u) s", False),
    ],
)
def test_which_joins_have_a_verdict(session: Session, query: str, judged: bool) -> None:
    session.sql("CREATE TABLE t (k INT, x INT)")
    session.sql("CREATE TABLE u (y INT)")
    session.sql(f"CREATE VIEW v AS {query} REFRESH POLICY INCREMENTAL")
    told = str(session.sql("EXPLAIN MAINTENANCE v"))
    assert ("decides anew" in told) is judged


def test_a_new_number_tells_no_more_rows_than_it_decides(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.sql("CREATE TABLE t (k INT, x INT)")
    session.sql("CREATE TABLE u (y INT)")
    session.sql("INSERT INTO t SELECT id, id FROM range(1000)")
    session.sql("INSERT INTO u VALUES (500)")
    session.sql(f"CREATE VIEW v AS {ABOVE} REFRESH POLICY INCREMENTAL")
    told: list[int] = []
    original = JoinOperator.delta

    def noting(self: JoinOperator, *args: Any) -> pa.Table:
        found = original(self, *args)
        told.append(found.num_rows)
        return found

    monkeypatch.setattr(JoinOperator, "delta", noting)
    session.sql("INSERT INTO u VALUES (503)")
    session.refresh()
    assert told == [6]  # 501, 502 and 503 lose their pair with 500; that with 503 takes nothing back
    assert len(rows(session.sql("SELECT * FROM v"))) == 496


VALUES = st.one_of(st.none(), st.integers(0, 6))
CHANGES = st.lists(st.tuples(st.sampled_from("tu"), st.booleans(), VALUES), max_size=5)
CASES = st.tuples(st.sampled_from(["max", "min", "sum", "avg"]), st.lists(CHANGES, min_size=1, max_size=4))


def comparisons_equal_their_query(engine: Engine, case: tuple[str, list[list[tuple[str, bool, int | None]]]]) -> None:
    function, batches = case
    query = f"SELECT t.x, t.k FROM t WHERE t.x >= (SELECT {function}(u.y) FROM u) AND t.k IS NOT NULL"
    with fresh(engine) as home:
        home.session.sql("CREATE TABLE t (k INT, x INT)")
        home.session.sql("CREATE TABLE u (y INT)")
        home.session.sql("INSERT INTO t VALUES (1, 1), (2, 3), (3, 3), (4, NULL), (NULL, 5)")
        home.session.sql(f"CREATE VIEW v AS {query} REFRESH POLICY INCREMENTAL")
        for batch in batches:
            for name, comes, value in batch:
                x = "NULL" if value is None else str(value)
                column = "x" if name == "t" else "y"
                if comes:
                    home.session.sql(f"INSERT INTO {name} VALUES ({'7, ' if name == 't' else ''}{x})")
                else:
                    home.session.sql(f"DELETE FROM {name} WHERE {column} <=> {x}")
            home.session.refresh()
            assert bag(home.session.sql("SELECT * FROM v")) == bag(home.session.sql(query))


def test_comparisons_equal_their_query(engine: Engine) -> None:
    hold(comparisons_equal_their_query, engine, CASES, 40)
