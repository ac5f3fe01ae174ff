"""The manual clock: in one step or in many, the same changes; rows beyond it wait, rows behind it are late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.properties.harness import Bag, bag, changes, fresh, hold
from tests.properties.scenarios import BASE_QUERIES, View

QUERIES = ("filter", "group", "global", "having", "distinct", "window", "left_keys", "union_all", "scalar")
END = 13


@dataclass(frozen=True)
class ClockCase:
    """Rows and tuples of the tables with the step before which each arrives, and the clock's steps."""

    key: str
    view: View
    steps: tuple[int, ...]  # growing; the last is END
    rows: tuple[tuple[int, tuple[int | None, str | None, int | None, int]], ...]
    inserts: tuple[tuple[int, str], ...]


@st.composite
def clock_cases(draw: st.DrawFn) -> ClockCase:
    steps = (*sorted(draw(st.sets(st.integers(1, END - 1), max_size=4))), END)

    def early_enough(time: int) -> int:
        """A step before the clock passes `time`."""
        return draw(st.integers(0, sum(step <= time for step in steps)))

    rows = []
    for _ in range(draw(st.integers(0, 8))):
        time = draw(st.integers(1, 12))
        values = (draw(st.sampled_from([None, 1, 2])), draw(st.sampled_from([None, "a"])), draw(st.integers(0, 3)))
        rows.append((early_enough(time), (*values, time)))
    inserts = []
    for number in range(draw(st.integers(0, 3))):
        time = draw(st.integers(1, 12))
        table = draw(st.sampled_from(["t", "u"]))
        row = f"({number}, 'a', {number})" if table == "t" else f"({number % 2}, 'x')"
        inserts.append((early_enough(time), f"INSERT INTO {table} VALUES {row} AT {time}"))
    query = BASE_QUERIES[draw(st.sampled_from(QUERIES))]
    return ClockCase(
        draw(st.sampled_from(["KEY NULL", "KEY (k)"])),
        View("v1", query, draw(st.sampled_from(["STREAMED", "COMPLETE"]))),
        steps,
        tuple(sorted(rows, key=lambda row: row[0])),
        tuple(inserts),
    )


def relation(case: ClockCase, fed_before: int, clock: int) -> Bag:
    rows = sorted((row for step, row in case.rows if step <= fed_before and row[3] <= clock), key=lambda row: row[3])
    return Counter({row[0]: row for row in rows}.values() if case.key == "KEY (k)" else rows)


def declare(session: Session, case: ClockCase) -> None:
    session.sql("ALTER HOME SET (clock = 'manual')")
    session.sql(f"CREATE STREAM s (k INT, g STRING, v BIGINT, at BIGINT) {case.key} ORDER BY at")
    session.sql("CREATE TABLE t (k INT PRIMARY KEY, g STRING, w INT); CREATE TABLE u (k INT, x STRING)")
    session.sql(case.view.create())


def deliver(session: Session, case: ClockCase, step: int) -> None:
    session.feed("s", [row for before, row in case.rows if before == step])
    for before, text in case.inserts:
        if before == step:
            session.sql(text)


def the_clock_in_one_step_or_many(engine: Engine, case: ClockCase) -> None:
    with fresh(engine) as home:
        declare(home.session, case)
        clock = 0
        for number, step in enumerate(case.steps):
            deliver(home.session, case, number)
            home.session.refresh()
            assert bag(home.session.table("s")) == relation(case, number, clock), "rows beyond the clock wait"
            home.session.advance(step)
            clock = step
            assert bag(home.session.table("s")) == relation(case, number, clock)
            assert bag(home.session.table("v1")) == bag(home.session.sql(case.view.text()))
        many = {name: Counter(changes(home.session, name)) for name in ("s", "t", "u", "v1")}
        home.session.feed("s", [(1, "late", 0, 12), (1, "late", 0, 5)])
        home.session.refresh()
        assert bag(home.session.table("s__late")) == Counter([(1, "late", 0, 12), (1, "late", 0, 5)])
        assert Counter(changes(home.session, "v1")) == many["v1"]
    with fresh(engine) as home:
        declare(home.session, case)
        for number in range(len(case.steps)):
            deliver(home.session, case, number)
        assert changes(home.session, "s") == []
        home.session.advance(END)
        assert {name: Counter(changes(home.session, name)) for name in many} == many


@pytest.mark.slow
def test_the_clock_in_one_step_or_many(engine: Engine) -> None:
    hold(the_clock_in_one_step_or_many, engine, clock_cases(), 10)
