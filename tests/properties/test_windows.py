"""Windows of every kind against an evaluation in plain Python, at every time and in every batching.

All times are whole seconds, so looking at each whole and half second misses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.properties.harness import SECOND, Bag, bag, changes, fresh, hold, integrate

#: k, v, at: rows of the streams s and r in the order of their arrival.
Event = tuple[int, int, int]
Events = Sequence[Event]
END = 24


def known(events: Events, time: float) -> list[Event]:
    """What has happened up to a time, by time and arrival."""
    return sorted((event for event in events if event[2] <= time), key=lambda event: event[2])


def in_range(events: Events, time: float, length: float, slide: float = 0) -> list[Event]:
    edge = time // slide * slide if slide else time
    return [event for event in known(events, edge) if event[2] > edge - length]


def newest(events: Events, time: float, count: int, slide: int = 1) -> list[Event]:
    rows = known(events, time)
    last = len(rows) // slide * slide
    return rows[max(0, last - count) : last]


def newest_of_each(events: Events, time: float, count: int, slide: int = 1) -> list[Event]:
    keys = {event[0] for event in events}
    return [row for key in keys for row in newest([e for e in events if e[0] == key], time, count, slide)]


def latest(events: Events, time: float) -> list[Event]:
    return list({event[0]: event for event in known(events, time)}.values())


def pairs(left: Iterable[Event], right: Iterable[Event]) -> Bag:
    return Counter((a[0], a[1], b[1]) for a in left for b in right if a[0] == b[0])


def counts(rows: Iterable[Event]) -> Bag:
    groups: dict[int, list[int]] = {}
    for k, v, _ in rows:
        groups.setdefault(k, []).append(v)
    return Counter((k, len(values), sum(values)) for k, values in groups.items())


def plain(rows: Iterable[Event]) -> Bag:
    return Counter((k, v) for k, v, _ in rows)


def total(rows: Sequence[Event]) -> int | None:
    return sum(row[1] for row in rows) if rows else None


def appended(content: Callable[[float], list[Event]], time: float) -> list[tuple[float, int | None]]:
    """Sums over an INTERNAL window: one each time its content becomes another."""
    found: list[tuple[float, int | None]] = []
    before: list[Event] = []
    for step in range(int(time * 2) + 1):
        now = content(step / 2)
        if now != before:
            found.append((step / 2, total(now)))
        before = now
    return found


@dataclass(frozen=True)
class Kind:
    """A view's query, and what it shows at a time when s and r have received some rows."""

    query: str
    shows: Callable[[Events, Events, float], Bag]
    keyed: bool = False


KINDS = {
    "range": Kind("SELECT k, v FROM s [RANGE 5]", lambda s, r, t: plain(in_range(s, t, 5))),
    "range_slide": Kind("SELECT k, v FROM s [RANGE 5 SLIDE 3]", lambda s, r, t: plain(in_range(s, t, 5, 3))),
    "tumble": Kind(
        "SELECT k, count(*) AS n, sum(v) AS t FROM s [WINDOW 4 SECONDS SLIDE 4 SECONDS] GROUP BY k",
        lambda s, r, t: counts(in_range(s, t, 4, 4)),
    ),
    "range_unbounded": Kind("SELECT k, v FROM s [RANGE UNBOUNDED]", lambda s, r, t: plain(known(s, t))),
    "group": Kind(
        "SELECT k, count(*) AS n, sum(v) AS t FROM s [RANGE 5] GROUP BY k", lambda s, r, t: counts(in_range(s, t, 5))
    ),
    "distinct": Kind(
        "SELECT DISTINCT k, v FROM s [RANGE 5]", lambda s, r, t: Counter(set(plain(in_range(s, t, 5))))
    ),
    "rows": Kind("SELECT k, v FROM s [ROWS 3]", lambda s, r, t: plain(newest(s, t, 3))),
    "rows_slide": Kind("SELECT k, v FROM s [ROWS 3 SLIDE 2]", lambda s, r, t: plain(newest(s, t, 3, 2))),
    "partition_rows": Kind(
        "SELECT k, v FROM s [PARTITION BY k ROWS 2]", lambda s, r, t: plain(newest_of_each(s, t, 2))
    ),
    "partition_rows_slide": Kind(
        "SELECT k, v FROM s [PARTITION BY k ROWS 2 SLIDE 2]", lambda s, r, t: plain(newest_of_each(s, t, 2, 2))
    ),
    "join": Kind(
        "SELECT s.k, s.v, r.v AS w FROM s [RANGE 5], r [RANGE 3] WHERE s.k = r.k",
        lambda s, r, t: pairs(in_range(s, t, 5), in_range(r, t, 3)),
    ),
    "join_mixed": Kind(
        "SELECT s.k, s.v, r.v AS w FROM s [ROWS 2] JOIN r ON s.k = r.k",
        lambda s, r, t: pairs(newest(s, t, 2), known(r, t)),
    ),
    "negation": Kind(
        "SELECT k, v FROM s [RANGE 6] a WHERE NOT EXISTS (SELECT * FROM r [RANGE 3] b WHERE b.k = a.k)",
        lambda s, r, t: plain(e for e in in_range(s, t, 6) if e[0] not in {o[0] for o in in_range(r, t, 3)}),
    ),
    "keyed_range": Kind(
        "SELECT k, v FROM u [RANGE 5]", lambda s, r, t: plain(e for e in latest(s, t) if e[2] > t - 5), keyed=True
    ),
    "keyed_rows": Kind(
        "SELECT k, v FROM u [ROWS 2]",
        lambda s, r, t: plain(sorted(latest(s, t), key=lambda e: (e[2], -s[::-1].index(e)))[-2:]),
        keyed=True,
    ),
    "now": Kind(
        "SELECT k, v FROM s WHERE Now - 5 < at AND at <= Now", lambda s, r, t: plain(in_range(s, t, 5))
    ),
    "now_closed": Kind(
        "SELECT k, v FROM s WHERE at BETWEEN Now - 5 AND Now", lambda s, r, t: plain(in_range(s, t, 5.25))
    ),
    "now_delayed": Kind(
        "SELECT k, count(*) AS n, sum(v) AS t FROM s WHERE Now - at >= 4 GROUP BY k",
        lambda s, r, t: counts(known(s, t - 4)),
    ),
    "now_or": Kind(
        "SELECT k, v FROM s WHERE v = 1 OR at > Now - INTERVAL 2 SECONDS",
        lambda s, r, t: plain(e for e in known(s, t) if e[1] == 1 or e[2] > t - 2),
    ),
    "internal": Kind("SELECT k, v FROM s [RANGE 5 INTERNAL]", lambda s, r, t: plain(known(s, t))),
    "internal_join": Kind(
        "SELECT s.k, s.v, r.v AS w FROM s [RANGE 5 INTERNAL], r [RANGE 3 INTERNAL] WHERE s.k = r.k",
        lambda s, r, t: Counter(
            (a[0], a[1], b[1])
            for a in known(s, t)
            for b in known(r, t)
            if a[0] == b[0] and a[2] > b[2] - 5 and b[2] > a[2] - 3
        ),
    ),
    "internal_and_external_join": Kind(
        "SELECT s.k, s.v, r.v AS w FROM s [RANGE 5 INTERNAL], r [RANGE 3] WHERE s.k = r.k",
        lambda s, r, t: Counter(
            (a[0], a[1], b[1])
            for a in known(s, t)
            for b in in_range(r, t, 3)
            if a[0] == b[0] and a[2] > b[2] - 5 and b[2] > a[2] - 3
        ),
    ),
    "internal_sum": Kind(
        "SELECT sum(v) AS t FROM s [RANGE 5 INTERNAL]",
        lambda s, r, t: Counter((value,) for _, value in appended(lambda p: in_range(s, p, 5), t)),
    ),
    "internal_rows_sum": Kind(
        "SELECT sum(v) AS t FROM s [ROWS 3 INTERNAL]",
        lambda s, r, t: Counter((value,) for _, value in appended(lambda p: newest(s, p, 3), t)),
    ),
    "subquery_rows": Kind(
        "SELECT sum(c) AS t FROM (SELECT sum(v) AS c FROM s [RANGE 3 SLIDE 3 INTERNAL]) [ROWS 2]",
        lambda s, r, t: Counter([(_last_two(appended(lambda p: in_range(s, p, 3, 3), t)),)]),
    ),
    "subquery_range": Kind(
        "SELECT count(*) AS n FROM (SELECT s.k FROM s, r WHERE s.k = r.k) [RANGE 4]",
        lambda s, r, t: Counter(
            [(sum(t - 4 < max(a[2], b[2]) <= t for a in s for b in r if a[0] == b[0]),)]
        ),
    ),
}  # fmt: skip


def _last_two(values: list[tuple[float, int | None]]) -> int | None:
    kept = [value for _, value in values[-2:] if value is not None]
    return sum(kept) if kept else None


@dataclass(frozen=True)
class WindowCase:
    """What happens in which order: rows of s or r, or the clock moved; and after which steps views are refreshed."""

    kind: str
    output: str
    steps: tuple[tuple[str, Event | int], ...]
    refreshed: frozenset[int]


@st.composite
def window_cases(draw: st.DrawFn, kinds: tuple[str, ...]) -> WindowCase:
    times = st.integers(1, END - 6)
    rows = st.tuples(st.sampled_from([1, 2]), st.integers(0, 3), times)
    step = st.one_of(
        st.tuples(st.just("s"), rows),
        st.tuples(st.just("s"), rows),
        st.tuples(st.just("r"), rows),
        st.tuples(st.just("clock"), times),
    )
    steps = draw(st.lists(step, max_size=9))
    # Mostly in order: then windows move on step by step, and late rows fall into windows that have been.
    if draw(st.booleans()):
        steps = sorted(steps, key=lambda item: item[1] if isinstance(item[1], int) else item[1][2])
    return WindowCase(
        draw(st.sampled_from(kinds)),
        draw(st.sampled_from(["STREAMED", "COMPLETE"])),
        (*steps, ("clock", draw(st.integers(END - 6, END)))),
        draw(st.frozensets(st.integers(0, len(steps)))),
    )


def declare(session: Session, case: WindowCase) -> None:
    for name in ("s", "r"):
        session.sql(f"CREATE STREAM {name} (k INT, v BIGINT, at TIMESTAMP) ORDER BY at LATE MERGE")
    session.sql("CREATE STREAM u (k INT, v BIGINT, at TIMESTAMP) KEY (k) ORDER BY at LATE MERGE")
    session.sql(f"CREATE {case.output} VIEW w AS {KINDS[case.kind].query}")


def play(session: Session, case: WindowCase) -> tuple[list[Event], list[Event], float]:
    """Let everything happen, comparing at each refresh; all rows, and where the clock ends."""
    declare(session, case)
    received: dict[str, list[Event]] = {"s": [], "r": []}
    clock = 0.0
    kind = KINDS[case.kind]
    for number, (what, value) in enumerate(case.steps):
        if isinstance(value, int):
            if value < clock:
                continue
            session.advance(value)
            clock = max(clock, value)
        else:
            session.feed(what, [value])
            if what == "s" and kind.keyed:
                session.feed("u", [value])
            received[what].append(value)
            clock = max(clock, value[2])
        if number in case.refreshed:
            session.refresh()
            found = bag(session.table("w"))
            assert found == kind.shows(received["s"], received["r"], clock), f"after step {number}, at {clock}"
            assert found == bag(session.sql(kind.query)), "SELECT says otherwise than the view"
    session.refresh()
    return received["s"], received["r"], clock


def a_window_shows_what_it_should(engine: Engine, case: WindowCase) -> None:
    kind = KINDS[case.kind]
    with fresh(engine) as home:
        s, r, clock = play(home.session, case)
        item = home.session._home.snapshot().find("w")
        key = None if item.key is None else tuple(item.names.index(name) for name in item.key)
        tuples = changes(home.session, "w")
        born = (item.option("born") or 0) / SECOND
        for step in range(int(born * 2), int(clock * 2) + 1):
            wanted = kind.shows(s, r, step / 2)
            assert integrate(tuples, step / 2, key) == wanted, f"CHANGES up to {step / 2}: {tuples}"
        for time in (3, 7.5, clock):
            if born <= time <= clock:
                assert bag(home.session.table("w", as_of=time)) == kind.shows(s, r, time), f"AS OF {time}"
    with fresh(engine) as home:
        play(home.session, replace(case, refreshed=frozenset(range(len(case.steps)))))
        assert Counter(changes(home.session, "w")) == Counter(tuples), "CHANGES depend on the batching"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_window_shows_what_it_should_at_every_time_in_every_batching(sail_engine: Engine, kind: str) -> None:
    hold(a_window_shows_what_it_should, sail_engine, window_cases((kind,)), 4)


def test_a_late_version_that_was_over_before_it_came(sail_engine: Engine) -> None:
    """It changes nothing that is there now, and yet the past."""
    steps = (("s", (2, 0, 10)), ("clock", 18), ("s", (2, 1, 7)), ("s", (2, 0, 18)), ("clock", 21))
    a_window_shows_what_it_should(sail_engine, WindowCase("keyed_range", "STREAMED", steps, frozenset({1, 2, 3})))


@pytest.mark.slow
def test_windows_on_spark(spark_engine: Engine) -> None:
    hold(a_window_shows_what_it_should, spark_engine, window_cases(tuple(KINDS)), 20)
