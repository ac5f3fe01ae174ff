"""Views against their own queries: at every refresh, at every time, for every batching, and after a restart."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from headrace.engine import Engine
from headrace.session import Session
from tests.properties.harness import SECOND, Bag, Fresh, Row, bag, changes, fresh, hold, integrate
from tests.properties.scenarios import POLICIES, Scenario, Step, View, scenarios


def declare(home: Fresh, scenario: Scenario) -> None:
    home.session.sql(scenario.stream)
    home.session.sql(f"CREATE TABLE t (k INT PRIMARY KEY, g STRING, w INT){scenario.tables}")
    home.session.sql(f"CREATE TABLE u (k INT, x STRING){scenario.tables}")
    if scenario.home:
        home.session.sql(scenario.home)


def take(session: Session, step: Step) -> None:
    if step.sql:
        session.sql(step.sql)
    else:
        session.feed("s", step.rows)


def play(home: Fresh, scenario: Scenario) -> None:
    """Let everything happen; at each refresh the eager views must equal their queries."""
    declare(home, scenario)
    for number in range(len(scenario.steps) + 1):
        if number == scenario.created_after:
            for view in scenario.views:
                home.session.sql(view.create())
        if number < len(scenario.steps):
            take(home.session, scenario.steps[number])
        if number in scenario.refreshed:
            home.session.refresh()
            for view in scenario.views:
                if view.eager and number >= scenario.created_after:
                    assert bag(home.session.table(view.name)) == bag(home.session.sql(view.text())), view.name
        if number in scenario.reopened:
            home.reopen()
    for view in scenario.views:
        home.session.sql(f"REFRESH VIEW {view.name}")


def check_over_time(session: Session, scenario: Scenario, view: View, tuples: list[Row]) -> None:
    """The relation, the integrated changes and the query over the inputs AS OF a time are one."""
    item = session._home.snapshot().find(view.name)
    last = session._home.snapshot().last_refresh(item)
    key = None if item.key is None else tuple(item.names.index(name) for name in item.key)
    born = item.option("born")
    point = None if last is None or last.point is None else last.point / SECOND
    found = sorted({row[-1] for row in tuples})
    times = {3.0, 7.0, 13.0, *found[:2], *found[-2:], *([] if born is None else [born / SECOND])}
    for time in sorted(times):
        if born is not None and time < born / SECOND:
            continue
        seen = time if point is None else min(time, point)
        if view.every is not None:
            seen = max(seen // view.every * view.every, -1.0 if born is None else born / SECOND)
        wanted = bag(session.sql(view.text(max(seen, 0.0))))
        assert bag(session.table(view.name, as_of=time)) == wanted, f"{view.name} AS OF {time}"
        assert integrate(tuples, time, key) == wanted, f"CHANGES({view.name}) up to {time}: {tuples}"


def a_view_equals_its_query(engine: Engine, scenario: Scenario) -> None:
    found: list[dict[str, Bag]] = []
    for played in (scenario, replace(scenario, refreshed=frozenset(), reopened=frozenset(), home="")):
        with fresh(engine) as home:
            play(home, played)
            tuples = {view.name: changes(home.session, view.name) for view in scenario.views}
            found.append({name: Counter(of) for name, of in tuples.items()})
            if not found[1:]:
                for view in scenario.views:
                    check_over_time(home.session, scenario, view, tuples[view.name])
    assert found[0] == found[1], "CHANGES depend on the batching"


@pytest.mark.slow
def test_a_view_equals_its_query_at_every_point_in_every_batching(engine: Engine) -> None:
    hold(a_view_equals_its_query, engine, scenarios(), 20)


@pytest.mark.slow
def test_views_over_views_with_refresh_policies_equal_their_queries(engine: Engine) -> None:
    hold(a_view_equals_its_query, engine, scenarios(policies=POLICIES, depths=(1, 2, 2, 3)), 15)
