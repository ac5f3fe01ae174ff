"""Windows on time kept with negative tuples, directly, and by their update patterns: the same view, the same CHANGES.

All three are held against the query itself and against a view that is computed as a whole, at every refresh: over
random streams, windows, slides and batchings, with rows late within slack, restarts, and a clock that moves on while
nothing arrives.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.runtime.home import query_of
from headrace.runtime.plans import Plan
from headrace.runtime.strategy import find_plan
from headrace.session import Session
from tests.properties.harness import Fresh, bag, changes, fresh, hold

TUPLES = ("negative", "direct", "auto")
#: {a} and {b} are windows of the streams s and r; u is a stream that is read without one.
QUERIES = {
    "rows": "SELECT k, v FROM s {a} WHERE v > 0",
    "distinct": "SELECT DISTINCT k FROM s {a}",
    "join": "SELECT s.k, s.v, r.v AS w FROM s {a}, r {b} WHERE s.k = r.k AND s.v <> r.v",
    "self_join": "SELECT x.k, x.v, y.v AS w FROM s {a} x JOIN s {b} y ON x.k = y.k",
    "group": "SELECT k, count(*) AS n, sum(v) AS t FROM s {a} GROUP BY k",
    "group_of_join": "SELECT s.k, max(s.v + r.v) AS m, count(*) AS n FROM s {a} JOIN r {b} ON s.k = r.k GROUP BY s.k",
    "distinct_of_join": "SELECT DISTINCT s.v FROM s {a} JOIN r {b} ON s.k = r.k",
    "join_of_distinct": "SELECT d.k, r.v FROM (SELECT DISTINCT k FROM s {a}) d JOIN r {b} ON d.k = r.k",
    "join_of_three": "SELECT x.k, x.v, y.v AS w FROM s {a} x JOIN r {b} y ON x.k = y.k JOIN u ON u.k = x.k",
    "join_with_stream": "SELECT s.k, s.v, u.v AS w FROM s {a} JOIN u ON s.k = u.k",
    "join_with_table": "SELECT s.k, s.v, c.n FROM s {a} JOIN r {b} ON s.k = r.k JOIN c ON c.k = s.k",
    "union": "SELECT k, v FROM s {a} UNION ALL SELECT k, v + 1 FROM r {b}",
    "union_of_join": "SELECT s.k, r.v FROM s {a} JOIN r {b} ON s.k = r.k UNION ALL SELECT k, n FROM c",
    "union_of_joins": "SELECT s.k, r.v FROM s {a} JOIN r {b} ON s.k = r.k"
    " UNION ALL SELECT u.k, s.v FROM s {a} JOIN u ON u.k = s.k",
    "shared_join": "WITH j AS (SELECT s.k, s.v, r.v AS w FROM s {a} JOIN r {b} ON s.k = r.k)"
    " SELECT x.k, x.w, y.v FROM j x JOIN j y ON x.v = y.w",
    "shared_and_told": "WITH j AS (SELECT s.k, s.v FROM s {a} JOIN r {b} ON s.k = r.k)"
    " SELECT x.k, x.v FROM j x WHERE x.v >= (SELECT max(y.v) FROM j y)",
    "negation": "SELECT k, v FROM s {a} x WHERE NOT EXISTS (SELECT 1 FROM r {b} y WHERE y.k = x.k)",
    "negation_of_join": "SELECT s.k, s.v FROM s {a} JOIN u ON u.k = s.k WHERE s.k NOT IN (SELECT k FROM r {b})",
    "semi": "SELECT k, v FROM s {a} x WHERE EXISTS (SELECT 1 FROM r {b} y WHERE y.k = x.k)",
    "left_join": "SELECT x.k, x.v, y.v AS w FROM s {a} x LEFT JOIN r {b} y ON x.k = y.k",
    "generator": "SELECT k, e FROM s {a} LATERAL VIEW explode(array(v, v + 1)) l AS e",
    "distinct_of_generator": "SELECT DISTINCT e FROM s {a} LATERAL VIEW explode(array(v, v + 1)) l AS e",
    "band": "SELECT s.k, s.v, r.v AS w FROM s {a} JOIN r {b} ON abs(s.v - r.v) <= 1",
    "band_in_time": "SELECT s.k, r.v FROM s {a} JOIN r {b} ON r.at - 2 < s.at AND s.at < r.at + 3",
    "band_with_table": "SELECT s.k, s.v, c.n FROM s {a} LEFT JOIN c ON s.v BETWEEN c.n - 1 AND c.n",
    "except": "SELECT k FROM s {a} EXCEPT SELECT k FROM r {b}",
}
END = 40


@dataclass(frozen=True)
class Case:
    """Two windows, steps in order (a row of a stream, a clock, a table's row), and after which of them to refresh.

    The views are made before the step number `made`.
    """

    query: str
    windows: tuple[str, str]
    slack: int
    steps: tuple[tuple[str, tuple[int | None, int, int] | int], ...]
    refreshed: frozenset[int]
    reopened: int
    every: int | None = None
    made: int = 0

    @property
    def text(self) -> str:
        return QUERIES[self.query].format(a=self.windows[0], b=self.windows[1])


windows = st.builds(
    lambda length, slide: f"[RANGE {length}]" if slide is None else f"[RANGE {length} SLIDE {slide}]",
    st.integers(1, 12),
    st.sampled_from([None, None, 3, 5]),
)


@st.composite
def cases(draw: st.DrawFn, queries: tuple[str, ...]) -> Case:
    slack = draw(st.sampled_from([0, 0, 4]))
    steps: list[tuple[str, tuple[int | None, int, int] | int]] = []
    time = 0
    for _ in range(draw(st.integers(3, 14))):
        time = min(END, time + draw(st.integers(0, 4)))
        kind = draw(st.sampled_from(["s", "s", "s", "r", "r", "u", "c", "clock"]))
        if kind == "clock":
            steps.append((kind, time))
        else:
            late = 0 if kind in ("u", "c") else draw(st.integers(0, slack))
            # Few keys, so that rows meet: a view without results proves nothing.
            row = (draw(st.sampled_from([1, 1, 1, 2, None])), draw(st.integers(0, 2)), max(1, time - late))
            steps.append((kind, row))
    steps.append(("clock", min(END, time) + draw(st.integers(0, 15))))
    return Case(
        draw(st.sampled_from(queries)),
        (draw(windows), draw(windows)),
        slack,
        tuple(steps),
        draw(st.frozensets(st.integers(0, len(steps)), max_size=5)) | {len(steps) - 1},
        draw(st.integers(0, len(steps))),
        draw(st.sampled_from([None, None, None, 5])),
        draw(st.sampled_from([0, 0, len(steps) // 2])),
    )


def declare(session: Session, case: Case) -> None:
    for name, slack in (("s", case.slack), ("r", case.slack), ("u", 0)):
        session.sql(
            f"CREATE STREAM {name} (k INT, v BIGINT, at TIMESTAMP) ORDER BY at SLACK {slack} SECONDS LATE MERGE"
        )
    session.sql("CREATE TABLE c (k INT, n BIGINT)")


def make_views(session: Session, case: Case) -> None:
    every = "" if case.every is None else f"REFRESH EVERY {case.every} SECONDS "
    session.sql(f"CREATE STREAMED VIEW whole AS {case.text} {every}REFRESH POLICY FULL")
    for kind in TUPLES:
        policy = f"{every}REFRESH POLICY INCREMENTAL WITH (tuples = '{kind}')"
        session.sql(f"CREATE STREAMED VIEW streamed_{kind} AS {case.text} {policy}")
        session.sql(f"CREATE COMPLETE VIEW complete_{kind} AS {case.text} {policy}")


def take(session: Session, kind: str, value: tuple[int | None, int, int] | int) -> None:
    if isinstance(value, int):
        clock = session._home.snapshot().info.clock
        if clock is None or value * 1_000_000 >= clock:
            session.advance(value)
    elif kind == "c":
        key = "NULL" if value[0] is None else value[0]
        session.sql(f"INSERT INTO c VALUES ({key}, {value[1]}) AT {value[2]}")
    else:
        session.feed(kind, [value])


def check(session: Session, case: Case) -> None:
    wanted, tuples = bag(session.table("whole")), Counter(changes(session, "whole"))
    for kind in TUPLES:
        for name in (f"streamed_{kind}", f"complete_{kind}"):
            assert bag(session.table(name)) == wanted, f"{name} of {case.text}"
        assert Counter(changes(session, f"streamed_{kind}")) == tuples, f"CHANGES(streamed_{kind}) of {case.text}"


def all_ways_give_the_same(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        play(home, case)


def play(home: Fresh, case: Case) -> None:
    declare(home.session, case)
    for number, (kind, value) in enumerate(case.steps):
        if number == case.made:
            make_views(home.session, case)
        take(home.session, kind, value)
        if number in case.refreshed and number >= case.made:
            home.session.refresh()
            check(home.session, case)
        if number == case.reopened:
            home.reopen()
    home.session.refresh()
    check(home.session, case)


@pytest.mark.slow
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_all_ways_give_the_same(sail_engine: Engine, query: str) -> None:
    hold(all_ways_give_the_same, sail_engine, cases((query,)), 3)


@pytest.mark.slow
def test_so_they_do_on_spark(spark_engine: Engine) -> None:
    hold(all_ways_give_the_same, spark_engine, cases(tuple(QUERIES)), 20)


# Which operators each way has


def operators(plan: Plan | str) -> list[str]:
    assert not isinstance(plan, str), plan
    return [type(placed.operator).__name__ for placed in plan.program.operators]


def test_what_each_way_is_made_of(sail_engine: Engine) -> None:
    wanted = {
        ("rows", "auto"): [],
        ("rows", "direct"): ["Expire"],
        ("join", "negative"): ["JoinOperator"],
        ("join", "direct"): ["DirectJoin", "Expire"],
        ("join", "auto"): ["DirectJoin", "Expire"],
        ("group", "auto"): ["AdditiveAggregate"],
        ("distinct", "auto"): ["DirectDistinct"],
        ("self_join", "auto"): ["ExpiringJoin"],
        ("self_join", "direct"): ["ExpiringJoin"],
        ("join_of_distinct", "auto"): ["DirectDistinct", "ExpiringJoin"],
        ("distinct", "direct"): ["Expire", "AdditiveAggregate"],
        ("group_of_join", "auto"): ["DirectJoin", "Expire", "GroupAggregate"],
        ("join_with_table", "auto"): ["ExpiringJoin", "JoinOperator"],
        ("join_with_stream", "auto"): ["ExpiringJoin"],
        ("negation", "auto"): ["JoinOperator"],
        ("generator", "auto"): [],
        ("generator", "direct"): ["Expire"],
        ("band", "negative"): ["JoinOperator"],
        ("band", "auto"): ["DirectJoin", "Expire"],
    }
    with fresh(sail_engine) as home:
        declare(home.session, Case("rows", ("[RANGE 5]", "[RANGE 3]"), 0, (), frozenset(), 0))
        found = {}
        for query, kind in wanted:
            text = QUERIES[query].format(a="[RANGE 5]", b="[RANGE 3]")
            name = f"{query}_{kind}"
            home.session.sql(f"CREATE VIEW {name} AS {text} REFRESH POLICY INCREMENTAL WITH (tuples = '{kind}')")
            snapshot = home.session._home.snapshot()
            view = snapshot.find(name)
            found[query, kind] = operators(find_plan(home.session._home, snapshot, view, query_of(view)))
        assert found == wanted


@pytest.mark.parametrize("query", sorted(QUERIES))
def test_every_query_has_results_that_come_and_go(sail_engine: Engine, query: str) -> None:
    """A case by hand for each query, so that none is only ever tried over nothing."""
    rows: list[tuple[str, tuple[int | None, int, int] | int]] = []
    for time in range(1, 13):
        rows += [("s", (time % 3, time % 3, time)), ("u", (time % 2, time % 4, time))]
        rows += [("r", (time % 3, time // 2 % 2, time))] if time % 2 else [("c", (time % 3, time, time))]
    case = Case(query, ("[RANGE 5]", "[RANGE 3]"), 0, (*rows, ("clock", 14), ("clock", 30)), frozenset({9, 20, 36}), 21)
    with fresh(sail_engine) as home:
        play(home, case)
        found = Counter(row[0] for row in changes(home.session, "streamed_auto"))
        assert found["+"] > 2, found
        assert found["-"] + found["u"] > 0, found


def test_a_row_at_the_birth_of_a_view_on_a_grid(sail_engine: Engine) -> None:
    """The birth is a point of its own, beside those of the grid."""
    steps = (("r", (1, 2, 5)), ("r", (2, 2, 1)), ("clock", 8))
    case = Case("union", ("[RANGE 8 SLIDE 3]", "[RANGE 12]"), 4, steps, frozenset({0, 1, 2}), 9, every=5, made=1)
    all_ways_give_the_same(sail_engine, case)


def test_both_forms_of_query_4_and_the_cheaper_one(sail_engine: Engine) -> None:
    text = (
        "SELECT s.k, s.v, r.v AS w FROM s [RANGE 10] JOIN r [RANGE 10] ON s.k = r.k WHERE r.v > 0 AND NOT EXISTS"
        " (SELECT 1 FROM u [RANGE 4] WHERE u.k = s.k)"
    )
    with fresh(sail_engine) as home:
        session = home.session
        for name in ("s", "r", "u"):
            session.sql(f"CREATE STREAM {name} (k INT, v BIGINT, at TIMESTAMP) ORDER BY at")
            session.feed(name, [(number % 4, number % 3, number) for number in range(1, 12)])
        plans = {}
        for rewriting in ("pull up", "push down", "auto"):
            name = rewriting.replace(" ", "_")
            session.sql(
                f"CREATE STREAMED VIEW {name} AS {text} REFRESH POLICY INCREMENTAL WITH (rewriting = '{rewriting}')"
            )
            view = session._home.snapshot().find(name)
            plan = find_plan(session._home, session._home.snapshot(), view, query_of(view))
            assert isinstance(plan, Plan)
            plans[name] = plan
        assert operators(plans["pull_up"]) == ["ExpiringJoin", "JoinOperator"]
        assert operators(plans["push_down"]) == ["JoinOperator", "JoinOperator"]
        assert plans["pull_up"].rewriting == "negation is pulled up, as asked"
        assert plans["auto"].rewriting.startswith("negation is p")
        for start in (12, 18, 24):
            for name in ("s", "r", "u"):
                session.feed(name, [(number % 5, number % 3, number) for number in range(start, start + 5)])
            session.refresh()
            for name in plans:
                assert bag(session.table(name)) == bag(session.sql(text)), name
                assert Counter(changes(session, name)) == Counter(changes(session, "pull_up"))
