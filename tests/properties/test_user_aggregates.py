"""Aggregates over a stream, followed row by row: the view is the query, and CHANGES is that of one batch.

Over random rows, windows, slides, batchings and clocks, with rows late within slack and rows merged late, restarts,
and changes followed here and in tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.properties.harness import Fresh, bag, changes, fresh, hold

AGGREGATES = """
CREATE AGGREGATE last_two(x INT) : (now INT, before INT) {
  TABLE seen(kept INT);
  INITIALIZE: { INSERT INTO seen VALUES (x); INSERT INTO RETURN VALUES (x, NULL); }
  ITERATE: { INSERT INTO RETURN SELECT x, kept FROM seen; UPDATE seen SET kept = x; } };
CREATE AGGREGATE total(x INT) : BIGINT {
  TABLE state(s BIGINT);
  INITIALIZE: { INSERT INTO state VALUES (coalesce(x, 0)); }
  ITERATE: { UPDATE state SET s = s + coalesce(x, 0); }
  TERMINATE: { INSERT INTO RETURN SELECT s FROM state; } };
CREATE WINDOW AGGREGATE alarm(tag STRING, x INT) : STRING {
  TABLE inwindow(wtag STRING, wx INT);
  INITIALIZE: ITERATE: {
    DELETE FROM inwindow WHERE x > 2 AND wx <= 2;
    INSERT INTO RETURN VALUES (tag || '+') WHERE x > 2; }
  EXPIRE: { INSERT INTO RETURN VALUES (tag || '-') WHERE NOT EXISTS (SELECT wx FROM inwindow WHERE wx > 2); } };
"""
QUERIES = (
    "SELECT k, v, sum(v) OVER (PARTITION BY k {w}) AS a FROM s",
    "SELECT k, max(v) OVER ({w}) + 1 AS m, count(v) OVER ({w}) AS n FROM s WHERE v <> 3 OR v IS NULL",
    "SELECT k, total(v) OVER (PARTITION BY k {w}) AS a FROM s",
    "SELECT last_two(v) FROM s",
    "SELECT k, last_two(v) FROM s GROUP BY k HAVING k <> 'a'",
    "SELECT k, v, alarm(k, v) OVER ({w}) AS told FROM s",
    "SELECT k, avg(v) OVER (PARTITION BY k {w}) AS a, total(v) OVER ({w}) AS t FROM s",
)


@dataclass(frozen=True)
class Case:
    """Rows (seconds, key, value) or clocks (seconds alone), and after which of them to refresh or to reopen."""

    query: str
    streamed: bool
    late: str
    steps: tuple[tuple[int, str | None, int | None] | int, ...]
    refreshed: frozenset[int]
    reopened: int
    made: int


def _window(kind: str, length: int | None, tail: str) -> str:
    unit = " SECONDS" if kind == "RANGE" else ""
    bound = "UNBOUNDED" if length is None else f"{length}{unit}"
    if tail == "ACTIVE":
        return f"RANGE {length or 3} SECONDS PRECEDING ACTIVE EXPIRATION"
    return f"{kind} {bound} PRECEDING" + (f" SLIDE {tail}{unit}" if tail else "")


windows = st.builds(
    _window,
    st.sampled_from(["ROWS", "RANGE"]),
    st.sampled_from([None, 1, 2, 3, 5]),
    st.sampled_from(["", "", "1", "2", "3", "7", "ACTIVE"]),
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    time = 0
    steps: list[tuple[int, str | None, int | None] | int] = []
    late = draw(st.sampled_from(["drop", "drop", "merge"]))
    for _ in range(draw(st.integers(1, 14))):
        time += draw(st.sampled_from([0, 0, 1, 1, 2, 6]))
        if draw(st.integers(0, 9)) == 0:
            steps.append(time)
            continue
        back = draw(st.sampled_from([0, 0, 0, 4])) if late == "merge" else 0
        steps.append(
            (max(0, time - back), draw(st.sampled_from(["a", "b", None])), draw(st.sampled_from([None, 1, 2, 3, 4])))
        )
    count = len(steps)
    return Case(
        draw(st.sampled_from(QUERIES)).format(w=draw(windows)),
        draw(st.booleans()),
        late,
        tuple(steps),
        draw(st.frozensets(st.integers(0, count))),
        draw(st.integers(0, count)),
        draw(st.integers(0, count)),
    )


def _make(session: Session, case: Case) -> None:
    kind = "STREAM" if case.streamed else "VIEW"
    session.sql(f"CREATE {kind} v AS {case.query}")


def _declare(session: Session, case: Case) -> None:
    session.sql("ALTER HOME SET (clock = 'manual')")
    session.sql(f"CREATE STREAM s(k STRING, v INT, at TIMESTAMP) ORDER BY at WITH (late = '{case.late}'); {AGGREGATES}")


def _step(session: Session, step: tuple[int, str | None, int | None] | int, now: int) -> int:
    """A row, or the clock moved on; a row does not come before its time."""
    time = step if isinstance(step, int) else max(step[0], now)
    if time > now:
        session.advance(time)
    if not isinstance(step, int):
        session.feed("s", [(step[1], step[2], step[0])])
    return max(time, now)


def _is_the_query(session: Session, case: Case) -> None:
    assert bag(session.table("v")) == bag(session.sql(case.query))


def followed(engine: Engine, case: Case) -> None:
    with fresh(engine) as home, fresh(engine) as other:
        for one in (home, other):
            _declare(one.session, case)
        _course(home, case)
        _at_once(other, case)
        assert bag(home.session.table("v")) == bag(other.session.table("v"))
        if case.streamed:
            assert sorted(map(repr, changes(home.session, "v"))) == sorted(map(repr, changes(other.session, "v")))


def _course(home: Fresh, case: Case) -> None:
    now = 0
    for number, step in enumerate(case.steps):
        if number == case.made:
            _make(home.session, case)
        now = _step(home.session, step, now)
        if number == case.reopened:
            home.reopen()
        if number in case.refreshed:
            home.session.refresh()
            if number >= case.made:
                _is_the_query(home.session, case)
    if case.made >= len(case.steps):
        _make(home.session, case)
    home.session.refresh()
    _is_the_query(home.session, case)


def _at_once(home: Fresh, case: Case) -> None:
    """The same rows, with the view refreshed once: what came before it was made still comes before."""
    now = 0
    for step in case.steps[: case.made]:
        now = _step(home.session, step, now)
    _make(home.session, case)
    for step in case.steps[case.made :]:
        now = _step(home.session, step, now)
    home.session.refresh()


@pytest.mark.parametrize("kind", ["sail", "spark"])
def test_followed_row_by_row(kind: str, request: pytest.FixtureRequest) -> None:
    hold(followed, request.getfixturevalue(f"{kind}_engine"), cases(), 60)
