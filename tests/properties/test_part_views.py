"""Pattern and window views over random streams, held against brute force in plain Python.

Rows come in any order and in any batches, several of a group in one part, with parts that nothing comes for. A part is
what all rows so far make of it: so rows that come late give the same parts as the same rows on time. Half of the
streams forget their old rows, which nothing may show, and the process ends and starts again between batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.conftest import rows
from tests.part_wise.brute_pattern import BrutePattern, Run, of, total
from tests.properties.harness import EPOCH, Fresh, fresh, hold

STREAM = "CREATE STREAM M (ts TIMESTAMP, k INT, v INT) ORDER BY ts LATE MERGE PARTITION LENGTH 60"
#: Strategies that make a part again though rows it was first made of are forgotten: what they need of them, they keep.
SURVIVE = ("distributive", "subtractable")
Arrival = tuple[int, int | None, int | None]
#: Minutes that a stream keeps; and where it does not keep all, by how many seconds rows may be late, and by how many a
#: batch may go on, so that no row is forgotten before it was seen.
KEPT, LATENESS, PROGRESS = 4, 150, 90


@dataclass(frozen=True)
class Looked:
    """A pattern as SQL and in Python."""

    text: str
    brute: BrutePattern
    shown: Callable[[Run], tuple[Any, ...]]


def _above(bound: int) -> Callable[[Any, Any], bool]:
    return lambda row, _last: row["v"] is not None and row["v"] > bound


def _rising(row: Any, last: Any) -> bool:
    return row["v"] is not None and last["v"] is not None and row["v"] > last["v"]


PATTERNS = {
    "runs": Looked(
        "SELECT k, count(*) AS n, sum(v) AS total, max(b.v) AS most FROM M PATTERN [a, b+] "
        "WHERE a.v > 1 AND b.v > 1 GROUP BY k",
        BrutePattern([_above(1), _above(1)], [None, _above(1)], ("k",)),
        lambda run: (run[0][1]["k"], len(run), total(of(run, "v")), max(of(run, "v", 2))),
    ),
    "rising": Looked(
        "SELECT k, first(a.v) AS first, last(c.v) AS last, avg(v) AS mean FROM M PATTERN [a, b, c] "
        "WHERE b.v > a.v AND c.v > b.v GROUP BY k",
        BrutePattern([lambda _row, _last: True, _rising, _rising], [None, None, None], ("k",)),
        lambda run: (
            run[0][1]["k"], of(run, "v")[0], of(run, "v")[-1], total(of(run, "v")) / 3.0,
        ),
    ),
    "bounded": Looked(
        "SELECT k, count(a) AS n, min(v) AS least FROM M PATTERN [a+, b] WITHIN 2 MINUTES "
        "WHERE a.v > 0 AND b.v <= 0 GROUP BY k",
        BrutePattern(
            [_above(0), lambda row, _last: row["v"] is not None and row["v"] <= 0],
            [_above(0), None],
            ("k",),
            timedelta(minutes=2),
        ),
        lambda run: (run[0][1]["k"], len(of(run, "v", 1)), min(of(run, "v"))),
    ),
}  # fmt: skip

#: Window and slide in parts; SUM can be subtracted, MAX cannot.
WINDOWS = {
    "sums": ("sum(v) AS total, count(*) AS n", 4, 1, ("recompute", "distributive", "subtractable", "differential")),
    "slides": ("sum(v) AS total, count(v) AS n", 3, 2, ("distributive", "subtractable", "differential")),
    "most": ("max(v) AS most, count(DISTINCT v) AS different", 3, 1, ("recompute", "distributive", "auto")),
}


@dataclass(frozen=True)
class Course:
    """Batches of rows; whether old rows are forgotten; and after which batches the process starts anew."""

    batches: list[list[Arrival]]
    forgets: bool
    restarts: frozenset[int]

    @property
    def stream(self) -> str:
        return STREAM + (f" RETAIN {KEPT} MINUTES" if self.forgets else "")


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """The first row at the very beginning; no two of a group at one time."""
    times = draw(st.lists(st.integers(1, 8 * 60 - 1), min_size=4, max_size=30, unique=True))
    group = st.one_of(st.integers(1, 3), st.integers(1, 3), st.none())
    value = st.one_of(st.integers(-1, 4), st.integers(-1, 4), st.none())
    found: list[Arrival] = [(0, 1, draw(value)), *((time, draw(group), draw(value)) for time in times)]
    if draw(st.booleans()):
        found[1:] = sorted(found[1:])
    forgets = draw(st.booleans())
    cuts = draw(st.sets(st.integers(1, len(found)), max_size=4))
    if forgets:
        found = _not_too_late(found)
        cuts = {cut for cut in cuts if cut < len(found)} | _progress(found)
    ends = sorted(cuts)
    batches = [found[start:end] for start, end in zip([0, *ends], [*ends, len(found)], strict=True) if start < end]
    return Course(batches, forgets, frozenset(draw(st.sets(st.integers(0, 4), max_size=2))))


def _not_too_late(rows: list[Arrival]) -> list[Arrival]:
    """The rows without those that come when they are forgotten already, or long after the ones before."""
    found: list[Arrival] = []
    newest = 0
    for row in rows:
        if newest - LATENESS <= row[0] <= newest + PROGRESS:
            found.append(row)
            newest = max(newest, row[0])
    return found


def _progress(rows: list[Arrival]) -> set[int]:
    """Where batches must be cut so that none goes on for too long."""
    found, since, newest = set(), 0, 0
    for number, (time, _k, _v) in enumerate(rows):
        newest = max(newest, time)
        if newest - since > PROGRESS:
            found.add(number)
            since = newest
    return found


def fed(home: Fresh, course: Course, after: Callable[[list[Arrival]], None]) -> None:
    seen: list[Arrival] = []
    for number, batch in enumerate(course.batches):
        home.session.feed("M", batch)
        home.session.refresh()
        if number in course.restarts:
            home.reopen()
        seen += batch
        after(seen)


def parts_of(session: Session, view: str) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows(session.sql(f"SELECT PART_TIMESTAMP AS at, * FROM {view}")):
        found.setdefault(int(row[0].timestamp()), []).append(row[1:])
    return found


def alike(left: dict[int, list[Any]], right: dict[int, list[Any]]) -> bool:
    def plain(found: dict[int, list[Any]]) -> dict[int, list[Any]]:
        return {time: sorted(map(_rounded, part), key=repr) for time, part in found.items() if part}

    return plain(left) == plain(right)


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


def pattern_views_equal_brute_force(engine: Engine, course: Course) -> None:
    with fresh(engine) as home:
        session = home.session
        session.sql(course.stream)
        for name, looked in PATTERNS.items():
            session.sql(f"CREATE VIEW {name} AS {looked.text}")

        def check(seen: list[Arrival]) -> None:
            newest = max(time for time, _k, _v in seen) // 60
            parts = [
                (
                    EPOCH + timedelta(minutes=number),
                    [
                        {"ts": EPOCH + timedelta(seconds=time), "k": k, "v": v}
                        for time, k, v in seen
                        if time // 60 == number
                    ],
                )
                for number in range(newest + 1)
            ]
            for name, looked in PATTERNS.items():
                wanted = {
                    60 * number: [looked.shown(run) for run in runs]
                    for number, runs in enumerate(looked.brute.accepting(parts))
                }
                found = parts_of(home.session, name)
                assert alike(found, wanted), (name, found, wanted)

        fed(home, course, check)


def window_views_equal_brute_force(engine: Engine, course: Course) -> None:
    windows = {
        name: (items, window, slide, tuple(way for way in ways if not course.forgets or way in SURVIVE))
        for name, (items, window, slide, ways) in WINDOWS.items()
    }
    with fresh(engine) as home:
        session = home.session
        session.sql(course.stream)
        for name, (items, window, slide, strategies) in windows.items():
            for strategy in strategies:
                session.sql(
                    f"CREATE VIEW {name}_{strategy} AS SELECT k, {items} FROM M [WINDOW {window} MINUTES] GROUP BY k "
                    f"PARTITION LENGTH {slide * 60} WITH (strategy = '{strategy}')"
                )

        def check(seen: list[Arrival]) -> None:
            newest = max(time for time, _k, _v in seen) // 60
            for name, (_items, window, slide, strategies) in windows.items():
                wanted = {
                    60 * slide * number: _aggregated(name, seen, (number + 1) * slide - window, (number + 1) * slide)
                    for number in range(newest + 1)
                    if (number + 1) * slide >= window and (number + 1) * slide - 1 <= newest
                }
                for strategy in strategies:
                    found = parts_of(home.session, f"{name}_{strategy}")
                    assert alike(found, wanted), (name, strategy, found, wanted)

        fed(home, course, check)


def _aggregated(name: str, seen: list[Arrival], first: int, end: int) -> list[tuple[Any, ...]]:
    groups: dict[int | None, list[int | None]] = {}
    for time, k, v in seen:
        if first <= time // 60 < end:
            groups.setdefault(k, []).append(v)
    found = []
    for k, values in groups.items():
        known = [value for value in values if value is not None]
        if name == "most":
            found.append((k, max(known, default=None), len(set(known))))
        else:
            found.append((k, total(known), len(values if name == "sums" else known)))
    return found


def test_pattern_views(engine: Engine) -> None:
    hold(pattern_views_equal_brute_force, engine, courses(), 30)


def test_window_views(engine: Engine) -> None:
    hold(window_views_equal_brute_force, engine, courses(), 30)
