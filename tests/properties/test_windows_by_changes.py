"""Windows, Now, versions and what only grows, by their changes: they equal the query, and FULL at every time.

Each case has one query under three views: a complete and a streamed one that follow changes, and a streamed one that is
always computed as a whole. Rows come in and out of order, the clock moves alone, and the process starts anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.errors import HeadraceError
from headrace.runtime.plans import Plan
from headrace.runtime.strategy import find_plan
from headrace.session import Session
from tests.properties.harness import bag, changes, fresh, hold

QUERIES = {
    "now": "SELECT k, v FROM s WHERE Now - 5 < at AND at <= Now",
    "now_closed": "SELECT k, v FROM s WHERE at BETWEEN Now - 5 AND Now",
    "now_delayed": "SELECT k, count(*) AS n, sum(v) AS t FROM s WHERE Now - at >= 4 GROUP BY k",
    "now_or": "SELECT k, v FROM s WHERE v = 1 OR at > Now - INTERVAL 2 SECONDS",
    "now_other": "SELECT k, v FROM s WHERE due > Now AND v > 0",
    "now_equal": "SELECT k, v FROM s WHERE due = Now",
    "now_slide": "SELECT k, v FROM s [RANGE 6 SLIDE 4] WHERE due > Now",
    "now_join": "SELECT s.k, s.v, r.v AS w FROM s JOIN r [RANGE 4] ON s.k = r.k AND s.at > Now - 6",
    "now_twice": "SELECT a.k FROM s a JOIN s b ON a.k = b.k WHERE a.at > Now - 3 AND b.at <= Now - 3",
    "now_keyed": "SELECT k, v FROM u WHERE at > Now - 5",
    "now_table": "SELECT k, count(*) AS n FROM d WHERE due > Now GROUP BY k",
    "keyed_range": "SELECT k, v FROM u [RANGE 5]",
    "keyed_slide": "SELECT k, v FROM u [RANGE 5 SLIDE 3]",
    "range": "SELECT k, v FROM s [RANGE 5 SLIDE 3]",
    "rows": "SELECT k, v FROM s [ROWS 3]",
    "rows_slide": "SELECT k, sum(v) AS t FROM s [ROWS 3 SLIDE 2] GROUP BY k",
    "rows_unbounded": "SELECT k, v FROM s [ROWS UNBOUNDED SLIDE 3]",
    "partition_rows": "SELECT v FROM s [PARTITION BY k ROWS 2] WHERE v > 0",
    "partition_slide": "SELECT k, v FROM s [PARTITION BY k ROWS 2 SLIDE 2]",
    "rows_join": "SELECT s.k, s.v, r.v AS w FROM s [ROWS 2] JOIN r ON s.k = r.k",
    "version": "SELECT s.k, s.v, p.price FROM s JOIN p ON s.k = p.k",
    "version_left": "SELECT s.k, s.v, p.price FROM s LEFT JOIN p ON s.k = p.k",
    "version_exists": "SELECT k, v FROM s WHERE EXISTS (SELECT * FROM p WHERE p.k = s.k AND p.price > 1)",
    "version_keyed": "SELECT p.price, count(*) AS n FROM u JOIN p ON u.k = p.k GROUP BY p.price",
    "version_window": "SELECT s.k, s.v, p.price FROM s [RANGE 5] JOIN p ON s.k = p.k",
    "internal": "SELECT k, v FROM s [RANGE 5 INTERNAL]",
    "internal_join": "SELECT s.k, s.v, r.v AS w FROM s [RANGE 5 INTERNAL], r [RANGE 3 INTERNAL] WHERE s.k = r.k",
    "internal_sum": "SELECT sum(v) AS t FROM s [RANGE 5 INTERNAL]",
    "internal_rows": "SELECT k, sum(v) AS t FROM s [ROWS 3 INTERNAL] GROUP BY k",
    "internal_version": "SELECT s.v, p.price FROM s [RANGE 4 INTERNAL] JOIN p ON s.k = p.k",
    "parts": "SELECT k, PART_TIMESTAMP AS part, v FROM g WHERE PART_TIMESTAMP > 0",
    "subquery": "SELECT k, count(*) AS n FROM (SELECT k, v + 1 AS w FROM s WHERE v > 0) [RANGE 5] GROUP BY k",
    "union": "SELECT k, v FROM (SELECT k, v FROM s UNION ALL SELECT k, v FROM r WHERE v < 2) [RANGE 5 SLIDE 3]",
    "retain": "SELECT k, v FROM h",
    "retain_parts": "SELECT k, count(*) AS n FROM hp GROUP BY k",
    "retain_join": "SELECT h.k, h.v, r.v AS w FROM h JOIN r ON h.k = r.k",
    "retain_now": "SELECT k, v FROM h WHERE due > Now",
    "retain_window": "SELECT k, v FROM h [RANGE 4]",
    "retain_long_window": "SELECT k, v FROM hp [RANGE 9]",
}

MODES = ("data", "manual", "slack")


@dataclass(frozen=True)
class Step:
    """Something that happens: a row of a stream, a price, or the clock; or a refresh, or a new start."""

    what: str
    key: int = 0
    value: int = 0
    time: int = 0
    due: int | None = None


@dataclass(frozen=True)
class Case:
    kind: str
    mode: str
    steps: tuple[Step, ...]


@st.composite
def cases(draw: st.DrawFn, kinds: tuple[str, ...]) -> Case:
    steps = []
    now = 1
    for _ in range(draw(st.integers(3, 10))):
        now += draw(st.sampled_from([0, 0, 1, 2, 4]))
        what = draw(st.sampled_from(["s", "s", "s", "r", "p", "drop", "clock", "refresh", "refresh", "start"]))
        time = max(1, now - draw(st.sampled_from([0, 0, 0, 0, 3])))
        due = draw(st.one_of(st.none(), st.integers(now - 2, now + 9)))
        key, value = draw(st.sampled_from([1, 2])), draw(st.integers(0, 2))
        steps.append(Step(what, key, value, now if what in ("p", "drop", "clock") else time, due))
    return Case(draw(st.sampled_from(kinds)), draw(st.sampled_from(MODES)), tuple(steps))


def declare(session: Session, case: Case) -> None:
    if case.mode == "manual":
        session.sql("ALTER CLOCK SET manual")
    tail = "ORDER BY at SLACK 2 SECONDS LATE MERGE" if case.mode == "slack" else "ORDER BY at LATE MERGE"
    for name in ("s", "r"):
        session.sql(f"CREATE STREAM {name} (k INT, v BIGINT, at TIMESTAMP, due TIMESTAMP) {tail}")
    session.sql(f"CREATE STREAM u (k INT, v BIGINT, at TIMESTAMP, due TIMESTAMP) KEY (k) {tail}")
    session.sql(f"CREATE STREAM h (k INT, v BIGINT, at TIMESTAMP, due TIMESTAMP) {tail} RETAIN 5")
    session.sql(f"CREATE STREAM hp (k INT, v BIGINT, at TIMESTAMP, due TIMESTAMP) {tail} PARTITION LENGTH 2 RETAIN 5")
    session.sql(f"CREATE STREAM g (k INT, v BIGINT, at TIMESTAMP, due TIMESTAMP) {tail} PARTITION LENGTH 2")
    session.sql("CREATE NON RETROACTIVE TABLE p (k INT PRIMARY KEY, price INT)")
    session.sql("CREATE TABLE d (k INT, due TIMESTAMP)")
    query = QUERIES[case.kind]
    session.sql(f"CREATE VIEW w AS {query} REFRESH POLICY INCREMENTAL")
    session.sql(f"CREATE STREAMED VIEW x AS {query} REFRESH POLICY INCREMENTAL")
    session.sql(f"CREATE STREAMED VIEW f AS {query} REFRESH POLICY FULL")


def happen(session: Session, case: Case, step: Step) -> None:
    read = QUERIES[case.kind]
    if step.what in ("s", "r"):
        row = (step.key, step.value, step.time, step.due)
        names = {"s": ("s", "u", "h", "hp", "g"), "r": ("r",)}[step.what]
        for name in names:
            if f" {name} " in f"{read} ":
                session.feed(name, [row])
        if step.what == "s" and " d " in read:
            due = "NULL" if step.due is None else f"timestamp_micros({step.due * 1_000_000})"
            session.sql(f"INSERT INTO d SELECT {step.key}, {due} AT {step.time}")
    elif step.what == "p" and " p" in read:
        known = session.sql(f"SELECT * FROM p WHERE k = {step.key}").toArrow().num_rows
        if known:
            session.sql(f"UPDATE p SET price = {step.value} WHERE k = {step.key} AT {step.time}")
        else:
            session.sql(f"INSERT INTO p VALUES ({step.key}, {step.value}) AT {step.time}")
    elif step.what == "drop" and " p" in read:
        session.sql(f"DELETE FROM p WHERE k = {step.key} AT {step.time}")
    elif step.what == "clock":
        session.advance(step.time)


def play(engine: Engine, case: Case, *, eager: bool) -> tuple[Counter[tuple[object, ...]], bool]:
    """All that happens, with a comparison where a refresh is told; the streamed view's changes, and if one followed.

    With `eager`, there is a refresh after everything that happens.
    """
    with fresh(engine) as home:
        declare(home.session, case)
        followed = False
        for number, step in enumerate((*case.steps, Step("clock", time=40), Step("refresh"))):
            try:
                happen(home.session, case, step)
            except HeadraceError as error:
                # A key that waits for the clock, or a clock that would go back: nothing happened, in every batching.
                if error.condition not in ("DUPLICATE_KEY", "CLOCK_GOES_BACK", "PRIMARY_KEY"):
                    raise
            if step.what == "start" and not eager:
                home.reopen()
            if step.what == "refresh" or eager:
                home.session.refresh()
            if step.what == "refresh":
                wanted = bag(home.session.sql(QUERIES[case.kind]))
                found = {name: bag(home.session.table(name)) for name in ("w", "x", "f")}
                if "retain" in case.kind:
                    # A row that waits may make others forgotten between the points of a streamed view.
                    wanted, found["w"] = found["f"], found["f"] if found["w"] == wanted else found["w"]
                for name, rows in found.items():
                    assert rows == wanted, f"{name} after step {number}: {step}"
                followed |= _strategy(home.session, "w") == "differential"
        tuples = Counter(changes(home.session, "x"))
        assert tuples == Counter(changes(home.session, "f")), "CHANGES by changes, and as a whole"
        return tuples, followed


def _strategy(session: Session, name: str) -> str:
    snapshot = session._home.snapshot()
    last = snapshot.last_refresh(snapshot.find(name))
    return "" if last is None else last.strategy


def changes_give_the_query(engine: Engine, case: Case) -> None:
    tuples, _ = play(engine, case, eager=False)
    if "retain" not in case.kind:
        assert play(engine, case, eager=True)[0] == tuples, "CHANGES depend on the batching"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(QUERIES))
def test_changes_give_what_the_query_gives(sail_engine: Engine, kind: str) -> None:
    hold(changes_give_the_query, sail_engine, cases((kind,)), 3)


def test_every_query_here_has_a_plan(sail_engine: Engine) -> None:
    with fresh(sail_engine) as home:
        declare(home.session, Case("range", "data", ()))
        for kind, query in QUERIES.items():
            home.session.sql(f"CREATE VIEW v_{kind} AS {query}")
            snapshot = home.session._home.snapshot()
            view = snapshot.find(f"v_{kind}")
            found = find_plan(home.session._home, snapshot, view, home.session._home.relations(snapshot).query_of(view))
            assert isinstance(found, Plan), f"{kind}: {found}"


STORY = (
    Step("s", 1, 1, 3, 8),
    Step("p", 1, 1, 3),
    Step("r", 1, 2, 4, 5),
    Step("refresh"),
    Step("s", 1, 2, 5, 6),
    Step("s", 2, 1, 5, 20),
    Step("p", 1, 2, 6),
    Step("refresh"),
    Step("s", 1, 0, 7, 9),
    Step("start"),
    Step("clock", time=9),
    Step("refresh"),
    Step("s", 2, 2, 14, 16),
    Step("refresh"),
)

STORIES = ("now", "now_other", "rows_slide", "version", "internal_sum", "keyed_slide", "retain", "retain_parts")


@pytest.mark.parametrize("kind", STORIES)
@pytest.mark.parametrize("mode", ["data", "manual"])
def test_a_story_in_order_is_followed_by_its_changes(sail_engine: Engine, kind: str, mode: str) -> None:
    case = Case(kind, mode, STORY)
    tuples, followed = play(sail_engine, case, eager=False)
    assert followed
    # What RETAIN shows at a time depends on what had come when it was asked.
    assert "retain" in kind or play(sail_engine, case, eager=True)[0] == tuples
