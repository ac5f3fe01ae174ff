"""Views that follow their changes, held against their queries: any query, any changes, any batching, any restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.properties.differential_changes import (
    DECLARED,
    Change,
    batches,
    check_no_orphans,
    check_strategy,
    check_view,
    in_batch,
    in_time,
    lose_states,
)
from tests.properties.differential_queries import queries
from tests.properties.harness import Bag, Fresh, changes, fresh, hold
from tests.properties.scenarios import SAIL_GAPS, Scenario, scenarios
from tests.properties.test_views import a_view_equals_its_query
from tests.properties.values import cuts

TIDY = "ALTER HOME SET (rollup_parts = 2, keep_snapshots = 1, keep_seconds = 0)"
#: Hundreds of cases take minutes, and more where other tests run beside them.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Case:
    """Some queries, changes before they are made views of, and batches of changes after."""

    queries: tuple[str, ...]
    before: tuple[Change, ...]
    batches: tuple[tuple[Change, ...], ...]
    home: str = ""


@st.composite
def cases(draw: st.DrawFn, views: int = 4, most: int = 3) -> Case:
    return Case(
        tuple(draw(queries()) for _ in range(views)),
        tuple(change for batch in draw(batches(1, 2)) for change in batch),
        draw(batches(2, most)),
        draw(st.sampled_from(["", "", TIDY])),
    )


def make_views(session: Session, texts: Iterable[str], output: str = "", *policies: str) -> dict[str, str]:
    """A view of each query that the engine can run at all, for each policy; what each is called, and its query."""
    made = {}
    for number, text in enumerate(texts):
        if in_batch(session, text) is not None:
            for policy in policies or ("INCREMENTAL",):
                name = f"{policy.lower()}_{number}"
                session.sql(f"CREATE {output} VIEW {name} AS {text} REFRESH POLICY {policy}")
                made[name] = text
    return made


def play(
    home: Fresh, case: Case, between: Callable[[Fresh, int], None] = lambda home, number: None, *reasons: str
) -> dict[str, str]:
    """Let everything happen, refreshing after each batch; every view must equal its query each time."""
    home.session.sql(f"{DECLARED}{case.home}")
    for change in case.before:
        change.take(home.session)
    views = make_views(home.session, case.queries)
    for number, batch in enumerate(case.batches):
        for change in batch:
            change.take(home.session)
        home.session.refresh()
        for name, text in views.items():
            check_view(home.session, name, text)
            check_strategy(home.session, name, *reasons)
        between(home, number)
    return views


def a_view_that_follows_its_changes_equals_its_query(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        play(home, case)


def test_a_view_that_follows_its_changes_equals_its_query(sail_engine: Engine) -> None:
    hold(a_view_that_follows_its_changes_equals_its_query, sail_engine, cases(), 200)


def test_so_it_does_on_spark(spark_engine: Engine) -> None:
    hold(a_view_that_follows_its_changes_equals_its_query, spark_engine, cases(views=2, most=2), 40)


# Streamed views: the same tagged tuples in any batching, and as if every point were computed as a whole


@dataclass(frozen=True)
class TimedCase:
    """Some queries, changes in the order of time, where they are cut into refreshes, and when the views are made."""

    queries: tuple[str, ...]
    changes: tuple[Change, ...]
    cuts: tuple[int, ...]
    made_after: int


@st.composite
def timed_cases(draw: st.DrawFn, views: int = 2, most: int = 8) -> TimedCase:
    happens = draw(in_time(most))
    return TimedCase(
        tuple(draw(queries(most=3)) for _ in range(views)),
        happens,
        tuple(cuts(draw, len(happens), 4)),
        draw(st.sampled_from([0, 0, len(happens) // 2])),
    )


def in_one_batching(engine: Engine, case: TimedCase, cuts: tuple[int, ...]) -> dict[str, Bag]:
    """The tagged tuples of each query's view; those of a view that follows its changes and of one that does not."""
    with fresh(engine) as home:
        session = home.session
        session.sql(DECLARED)
        views: dict[str, str] = {}
        for number in range(len(case.changes) + 1):
            if number == case.made_after:
                views = make_views(session, case.queries, "STREAMED", "INCREMENTAL", "FULL")
            if number in cuts or number == len(case.changes):
                session.refresh()
                for name, text in views.items():
                    check_view(session, name, text)
                    if name.startswith("incremental"):
                        check_strategy(session, name)
            if number < len(case.changes):
                case.changes[number].take(session)
        return {name: Counter(changes(session, name)) for name in views}


def batching_does_not_show_in_a_stream_of_changes(engine: Engine, case: TimedCase) -> None:
    found = [in_one_batching(engine, case, cuts) for cuts in (case.cuts, ())]
    assert found[0] == found[1], "CHANGES depend on the batching"
    for name, tuples in found[0].items():
        assert tuples == found[0][name.replace("incremental", "full")], f"{name} differs from what was computed whole"


def test_batching_does_not_show_in_a_stream_of_changes(sail_engine: Engine) -> None:
    hold(batching_does_not_show_in_a_stream_of_changes, sail_engine, timed_cases(), 200)


FOLLOWING = tuple(f"{trigger} REFRESH POLICY INCREMENTAL" for trigger in ("", "", " REFRESH EVERY 3 SECONDS"))


def late_rows_slack_and_grids_do_not_show_either(engine: Engine, scenario: Scenario) -> None:
    a_view_equals_its_query(engine, replace(scenario, refreshed=frozenset(range(len(scenario.steps) + 1))))


def test_late_rows_slack_and_grids_do_not_show_either(sail_engine: Engine) -> None:
    found = scenarios(left_out=SAIL_GAPS, policies=FOLLOWING, depths=(1, 2))
    hold(late_rows_slack_and_grids_do_not_show_either, sail_engine, found, 6)


# Restarts, and states that are lost


def a_restart_changes_nothing(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        play(home, case, lambda home, _number: home.reopen())


def lost_states_are_made_again(engine: Engine, case: Case) -> None:
    def between(home: Fresh, number: int) -> None:
        if number % 2 == 0:
            lose_states(home.session)

    with fresh(engine) as home:
        play(home, case, between, "what it keeps to follow changes was not there")
        home.session.refresh()
        check_no_orphans(home.session)


def test_a_restart_changes_nothing(sail_engine: Engine) -> None:
    hold(a_restart_changes_nothing, sail_engine, cases(views=3), 200)


def test_lost_states_are_made_again(sail_engine: Engine) -> None:
    hold(lost_states_are_made_again, sail_engine, cases(views=3), 10)


# Views over views

LOWER = "SELECT g, k, count(*) AS n, sum(v) AS v FROM s GROUP BY g, k"
MIDDLE = (
    "SELECT t.k, t.g, l.n, l.v FROM t JOIN {0} l ON t.k = l.k",
    "SELECT l.k, l.g, l.n + 1 AS n, l.v FROM {0} l WHERE l.n > 1 OR EXISTS (SELECT 1 FROM t WHERE t.k = l.k)",
    "SELECT k, g, max(n) AS n, min(v) AS v FROM {0} GROUP BY k, g",
)
UPPER = (
    "SELECT g, count(*) AS n, sum(n) AS m FROM {0} GROUP BY g",
    "SELECT a.k, b.g, a.n FROM {0} a JOIN {1} b ON a.k <=> b.k",
    "SELECT k, n FROM {0} EXCEPT SELECT k, n FROM {1}",
    "SELECT k, g, n, row_number() OVER (PARTITION BY g ORDER BY n, k, v) AS r FROM {0}",
)
OUTPUTS = st.sampled_from(["STREAMED", "COMPLETE", ""])
POLICIES = st.sampled_from(["INCREMENTAL", "INCREMENTAL", "FULL", "AUTO"])


@dataclass(frozen=True)
class Tower:
    """Three storeys of views: each with its text, output and policy."""

    views: tuple[tuple[str, str, str], ...]
    changes: tuple[Change, ...]
    refreshed: frozenset[int]


@st.composite
def towers(draw: st.DrawFn) -> Tower:
    texts = (LOWER, draw(st.sampled_from(MIDDLE)).format("low"), draw(st.sampled_from(UPPER)).format("middle", "low"))
    happens = draw(in_time(9))
    return Tower(
        tuple((text, draw(OUTPUTS), draw(POLICIES)) for text in texts),
        happens,
        draw(st.frozensets(st.integers(1, len(happens)), min_size=1)),
    )


def views_over_views_equal_their_queries(engine: Engine, tower: Tower) -> None:
    with fresh(engine) as home:
        session = home.session
        session.sql(DECLARED)
        views = dict(zip(("low", "middle", "high"), tower.views, strict=True))
        for name, (text, output, policy) in views.items():
            session.sql(f"CREATE {output} VIEW {name} AS {text} REFRESH POLICY {policy}")
        for number, change in enumerate(tower.changes, 1):
            change.take(session)
            if number in tower.refreshed:
                session.refresh()
                for name, (text, _output, policy) in views.items():
                    check_view(session, name, text)
                    if policy == "INCREMENTAL":
                        check_strategy(session, name)
        for name in reversed(views):
            _check_replaced(session, name, views[name][0])


def _check_replaced(session: Session, name: str, text: str) -> None:
    """A view that is replaced by another, and then dropped, takes its states with it."""
    session.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM ({text}) q WHERE n > 1 REFRESH POLICY INCREMENTAL")
    check_view(session, name, f"SELECT * FROM ({text}) q WHERE n > 1")
    session.sql(f"DROP VIEW {name}")
    check_no_orphans(session)


def test_views_over_views_equal_their_queries(sail_engine: Engine) -> None:
    hold(views_over_views_equal_their_queries, sail_engine, towers(), 20)
