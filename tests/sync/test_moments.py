"""Sets of moments by their definitions: no containment is claimed wrongly, and the paper's cases are found."""

from __future__ import annotations

from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.algebra.synchronization.moments import (
    EVERY_SECOND,
    Both,
    Either,
    Moments,
    Seconds,
    Times,
    both,
    contains,
    either,
    moments_of,
    words,
)
from headrace.language import CreateView, parse_one


def every(length: int, remainder: int = 0) -> Seconds:
    return Seconds(length, frozenset({remainder}))


def view(text: str, **known: Times) -> Times:
    statement = parse_one(f"CREATE STREAMED VIEW y AS {text}")
    assert isinstance(statement, CreateView)
    return moments_of("y", statement.query, lambda name: known.get(name, EVERY_SECOND))


def test_what_views_tick_at() -> None:
    assert view("SELECT C.Timepoint FROM R(clockStr) C WHERE C.Timepoint mod 2 = 0") == every(2)
    assert view("SELECT Timepoint FROM a WHERE 1 = Timepoint mod 3", a=every(2)) == every(6, 4)
    assert view("SELECT Timepoint FROM a UNION SELECT Timepoint FROM b", a=every(4), b=every(2)) == Seconds(
        4, frozenset({0, 2})
    )
    assert view("SELECT Timepoint FROM a INTERSECT SELECT Timepoint FROM b", a=every(2), b=every(3)) == every(6)
    assert view("SELECT DISTINCT(Timepoint) FROM R(a) x UNION R(b) z", a=every(2), b=every(4)) == Seconds(
        4, frozenset({0, 2})
    )
    alarm = view("SELECT R.TS FROM R(TempStr) R WHERE R.Temperature > 120", TempStr=Moments("TempStr"))
    assert contains(Moments("TempStr"), alarm)
    assert not contains(alarm, Moments("TempStr"))
    assert view("SELECT max(Timepoint) AS at FROM a GROUP BY a", a=every(2)) == Moments("y")


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (every(2), every(4), True),
        (every(4), every(2), False),
        (every(2), every(4, 1), False),
        (EVERY_SECOND, every(7, 3), True),
        (every(2), both([every(4), Moments("a")]), True),
        (either([every(2), Moments("a")]), Moments("a"), True),
        (both([every(2), Moments("a")]), every(2), False),
        (Moments("a"), Moments("b"), False),
        (every(2), Moments("b", (every(6),)), True),
    ],
)
def test_containment(outer: Times, inner: Times, expected: bool) -> None:
    assert contains(outer, inner) is expected


SETS: st.SearchStrategy[Times] = st.recursive(
    st.one_of(
        st.builds(
            Seconds, st.just(4) | st.just(6) | st.just(2) | st.just(3), st.frozensets(st.integers(0, 1), max_size=2)
        ),
        st.sampled_from([Moments("a"), Moments("b"), Moments("c", (Moments("a"),)), Moments("d", (every(2),))]),
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda sets: st.sampled_from([either(sets), both(sets), Either(tuple(sets)), Both(tuple(sets))])
    ),
    max_leaves=6,
)
END = lcm(4, 6)


def evaluated(times: Times, events: dict[str, frozenset[int]]) -> frozenset[int]:
    """A set over a course of events."""
    match times:
        case Seconds():
            return frozenset(at for at in range(END) if at % times.length in times.remainders)
        case Moments():
            found = events[times.name]
            for one in times.within:
                found &= evaluated(one, events)
            return found
        case Either():
            return frozenset().union(*(evaluated(one, events) for one in times.sets))
        case Both():
            return frozenset(range(END)).intersection(*(evaluated(one, events) for one in times.sets))


@given(SETS, SETS, st.fixed_dictionaries({name: st.frozensets(st.integers(0, END - 1)) for name in "abcd"}))
def test_no_containment_is_claimed_that_some_course_of_events_denies(
    outer: Times, inner: Times, events: dict[str, frozenset[int]]
) -> None:
    if contains(outer, inner):
        assert evaluated(inner, events) <= evaluated(outer, events)


@given(st.lists(SETS, min_size=1, max_size=3), st.fixed_dictionaries(
    {name: st.frozensets(st.integers(0, END - 1)) for name in "abcd"}
))  # fmt: skip
def test_unions_and_intersections(sets: list[Times], events: dict[str, frozenset[int]]) -> None:
    found = [evaluated(one, events) for one in sets]
    assert evaluated(either(sets), events) == frozenset().union(*found)
    assert evaluated(both(sets), events) == found[0].intersection(*found)
    assert contains(either(sets), both(sets))


def test_words() -> None:
    assert words(every(2)) == "every 2 seconds"
    assert words(both([every(4, 1), Moments("alarms")])) == (
        "the seconds with remainder 1 of 4 where also the moments of alarms"
    )
