"""Parts, RETAIN and roll-up are about storage: within what is retained they change no result."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.properties.harness import SECOND, Bag, bag, changes, fresh, hold
from tests.properties.scenarios import POLICIES, Scenario, scenarios
from tests.properties.test_views import play

LONG = " PARTITION LENGTH 3 RETAIN 1000"
NAMES = ("s", "t", "u")


def upkeep_changes_nothing(engine: Engine, scenario: Scenario) -> None:
    """The same with temporal parts, a long RETAIN and eager roll-up as with none of them."""
    tidy = replace(
        scenario,
        stream=scenario.stream + LONG,
        tables=LONG,
        home="ALTER HOME SET (rollup_parts = 2, keep_snapshots = 1, keep_seconds = 0)",
        views=tuple(replace(view, policy=view.policy + LONG) for view in scenario.views),
    )
    plain = replace(scenario, home="")
    names = [*NAMES, *(view.name for view in scenario.views)]
    found = []
    for played in (plain, tidy):
        with fresh(engine) as home:
            play(home, played)
            found.append({name: _told(home.session, name) for name in names})
    assert found[0] == found[1]


def _told(session: Session, name: str) -> tuple[Bag, Bag, Bag]:
    born = session._home.snapshot().find(name).option("born") or 0
    past = bag(session.table(name, as_of=max(6.0, born / SECOND)))
    return bag(session.table(name)), past, Counter(changes(session, name))


@pytest.mark.slow
def test_upkeep_changes_nothing(engine: Engine) -> None:
    hold(upkeep_changes_nothing, engine, scenarios(policies=POLICIES), 10)


@dataclass(frozen=True)
class RetainCase:
    retain: int
    length: int | None
    times: tuple[int, ...]
    batch: int


RETAIN_CASES = st.builds(
    RetainCase,
    st.integers(1, 8),
    st.sampled_from([None, 1, 3]),
    st.lists(st.integers(0, 20), max_size=10).map(tuple),
    st.integers(1, 4),
)


def retain_forgets_what_is_older(engine: Engine, case: RetainCase) -> None:
    """A stream shows its rows back to RETAIN before the newest, rounded down to a whole part, in any batching."""
    newest = max(case.times, default=0)
    edge = newest - case.retain if case.length is None else (newest - case.retain) // case.length * case.length
    wanted = Counter((time,) for time in case.times if time >= edge)
    with fresh(engine) as home:
        parts = "" if case.length is None else f" PARTITION LENGTH {case.length}"
        home.session.sql(f"CREATE STREAM s (at BIGINT) KEY NULL ORDER BY at LATE MERGE{parts} RETAIN {case.retain}")
        home.session.sql(
            "CREATE VIEW copied AS SELECT * FROM s; CREATE STREAMED VIEW counted AS SELECT count(*) FROM s"
        )
        for start in range(0, len(case.times), case.batch):
            home.session.feed("s", [(time,) for time in case.times[start : start + case.batch]])
            home.session.refresh()
        assert bag(home.session.table("s")) == wanted
        assert bag(home.session.table("copied")) == wanted
        assert bag(home.session.table("counted")) == Counter([(wanted.total(),)])


def test_retain_forgets_what_is_older(engine: Engine) -> None:
    hold(retain_forgets_what_is_older, engine, RETAIN_CASES, 10)
