"""Views over band joins, held against their queries: any band, any kind of join, any changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.runtime.home import query_of
from headrace.runtime.plan_text import way_of_placed
from headrace.runtime.plans import Plan
from headrace.runtime.strategy import find_plan
from headrace.session import Session
from tests.properties.differential_changes import batches, check_strategy, check_view, last_refresh
from tests.properties.harness import bag, fresh, hold
from tests.properties.test_differential import Case, play

#: Relations of `differential_changes` and a column of each, of types whose distance can be counted.
PAIRS = (
    ("t", "k", "u", "k"), ("t", "d", "u", "d"), ("s", "v", "r", "v"), ("t", "k", "s", "v"), ("u", "d", "r", "v"),
    ("t", "day", "t", "day"), ("s", "k", "s", "v"),
)  # fmt: skip
SPELLINGS = (
    "x.{a} BETWEEN y.{b} + {low} AND y.{b} + {high}",
    "x.{a} > y.{b} + {low} AND x.{a} < y.{b} + {high}",
    "y.{b} + {low} <= x.{a} AND y.{b} > x.{a} - {high}",
)
DIFFERENCES = ("x.{a} - y.{b} BETWEEN {low} AND {high}", "abs(x.{a} - y.{b}) <= {high}", "abs(y.{b} - x.{a}) < {high}")


@st.composite
def bands(draw: st.DrawFn) -> str:
    one, a, other, b = draw(st.sampled_from(PAIRS))
    days = a == "day"
    # A BIGINT beside a decimal has too many digits to count, so it is joined by pairs; that must be right as well.
    offsets = st.integers(-3, 4) if days or draw(st.booleans()) else st.sampled_from(["-1.5", "-0.25", "0.5", "1.75"])
    condition = draw(st.sampled_from(SPELLINGS if days else SPELLINGS + DIFFERENCES))
    condition = condition.format(a=a, b=b, low=f"({draw(offsets)})", high=f"({draw(offsets)})")
    more = draw(st.sampled_from(["", "", " AND x.g <> 'a'", " AND (y.k > 1 OR x.k IS NULL)"]))
    kind = draw(st.sampled_from(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]))
    shown = "x.k, x.g" if kind in ("SEMI JOIN", "ANTI JOIN") else f"x.k, x.g, y.k AS yk, y.{b} AS yb"
    text = f"SELECT {shown} FROM {one} x {kind} {other} y ON {condition}{more}"
    return f"SELECT g, count(*) AS n FROM ({text}) GROUP BY g" if draw(st.integers(0, 4)) == 0 else text


@st.composite
def cases(draw: st.DrawFn, views: int = 4, most: int = 3) -> Case:
    before = tuple(change for batch in draw(batches(1, 2)) for change in batch)
    return Case(tuple(draw(bands()) for _ in range(views)), before, draw(batches(2, most)))


def a_view_over_a_band_join_equals_its_query(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        play(home, case)


@pytest.mark.slow
def test_a_view_over_a_band_join_equals_its_query(sail_engine: Engine) -> None:
    hold(a_view_over_a_band_join_equals_its_query, sail_engine, cases(), 8)


@pytest.mark.slow
def test_so_it_does_on_spark(spark_engine: Engine) -> None:
    hold(a_view_over_a_band_join_equals_its_query, spark_engine, cases(views=2, most=2), 10)


# How it is maintained, and what that costs

SIZE = 1_000
DECLARED = """
CREATE TABLE a (k INT PRIMARY KEY, x BIGINT, at TIMESTAMP);
CREATE TABLE b (k INT PRIMARY KEY, x INT, at TIMESTAMP);
"""
QUERIES = {
    "numbers": "SELECT a.k, b.k AS bk FROM a JOIN b ON a.x BETWEEN b.x - 5 AND b.x + 5",
    "times": "SELECT a.k, b.k AS bk FROM a JOIN b ON b.at - 5 < a.at AND a.at < b.at + 5",
    "left_": "SELECT a.k, b.k AS bk FROM a LEFT JOIN b ON abs(a.x - b.x) < 5",
    "none": "SELECT a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.x - b.x BETWEEN 1 AND 3)",
}


@pytest.fixture(scope="module")
def session(sail_engine: Engine) -> Iterator[Session]:
    with fresh(sail_engine) as home:
        home.session.sql(DECLARED)
        for name in ("a", "b"):
            rows = f"SELECT CAST(id AS INT), CAST(id * 4 AS INT), timestamp_micros(id * 3000000) FROM range({SIZE})"
            home.session.sql(f"INSERT INTO {name} {rows}")
        for name, query in QUERIES.items():
            home.session.sql(f"CREATE VIEW {name} AS {query} REFRESH POLICY INCREMENTAL STRICT")
        yield home.session


def planned(session: Session, name: str) -> Plan:
    snapshot = session._home.snapshot()
    view = snapshot.find(name)
    plan = find_plan(session._home, snapshot, view, query_of(view))
    assert isinstance(plan, Plan)
    return plan


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_has_no_join_by_pairs(session: Session, name: str) -> None:
    plan = planned(session, name)
    ways = {way.name for placed in plan.program.operators if (way := way_of_placed(placed)) is not None}
    assert "band join by cells" in ways
    assert not any(placed.after is not None for placed in plan.program.operators)


def test_a_refresh_looks_at_few_rows(session: Session) -> None:
    changes = (
        "INSERT INTO a VALUES (-1, 402, TIMESTAMP '1970-01-01 00:01:40')",
        "UPDATE b SET x = x + 1, at = at + INTERVAL 1 SECOND WHERE k = 500",
        "DELETE FROM a WHERE k = 3",
        "INSERT INTO b VALUES (-1, NULL, NULL), (-2, 401, TIMESTAMP '1970-01-01 00:01:41')",
    )
    for change in changes:
        session.sql(change)
        session.refresh()
        for name, query in QUERIES.items():
            check_view(session, name, query)
            assert check_strategy(session, name) == "differential"
            told = re.search(r"([\d,]+) rows? of state looked at", last_refresh(session, name).reason)
            assert told is not None
            assert int(told[1].replace(",", "")) < 40


def test_explain_speaks_of_cells(session: Session) -> None:
    told = str(session.sql("EXPLAIN numbers").message)
    assert "band join of a.x and b.x by cells of width 10  [STR, key (a.k, b.k)]" in told
    assert "compute the cell of a.x" in told
    assert "copies for the cells around b.x" in told
    assert "by cells of width 10 seconds" in str(session.sql("EXPLAIN times").message)
    steps = str(session.sql("EXPLAIN MAINTENANCE numbers").message)
    assert "the engine computes the cell of a.x; they go to stage 1 by cell" in steps
    assert "the engine generates copies for the cells around b.x; they go to stage 1 by cell" in steps


def test_the_limits_of_bigint(sail_engine: Engine) -> None:
    least, most = -(2**63), 2**63 - 1
    with fresh(sail_engine) as home:
        session = home.session
        session.sql("CREATE TABLE low (x BIGINT); CREATE TABLE high (x BIGINT)")
        views = {
            "lows": "SELECT a.x, b.x AS y FROM low a JOIN low b ON a.x BETWEEN b.x AND b.x + 3",
            "highs": "SELECT a.x, b.x AS y FROM high a JOIN high b ON a.x BETWEEN b.x - 3 AND b.x",
        }
        for name, query in views.items():
            session.sql(f"CREATE VIEW {name} AS {query} REFRESH POLICY INCREMENTAL STRICT")
        for step in ((0, 1), (3, 4), (0, 10)):
            session.feed("low", [(least + far,) for far in step])
            session.feed("high", [(most - far,) for far in step])
            session.refresh()
            for name, query in views.items():
                check_view(session, name, query)
        fars = (0, 0, 1, 3, 4, 10)
        wanted = Counter((most - far, most - near) for near in fars for far in fars if 0 <= far - near <= 3)
        assert bag(session.table("highs")) == wanted
