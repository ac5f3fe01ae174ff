"""Every way of ESL's Figure 2, against windows looked at from anew, and in pieces against the whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.algebra.user_aggregates.builtins import builtin
from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import Form, Way, way_of
from headrace.maintenance.user_aggregates.blocks import Block
from tests.user_aggregates.oracle import actively, naive
from tests.user_aggregates.running import (
    Row,
    call_of,
    defined,
    pieces,
    range_over,
    rows_over,
    same,
    some_cuts,
    table_of,
    whole,
)

COLUMNS = {"g": "STRING", "x": "BIGINT"}
GAPS = st.sampled_from([0, 0, 1, 1, 2, 5])
VALUES = st.sampled_from([None, 1, 2, 3, 4, 5, 6])


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows (time, g, x) of two groups, several at one time and with silences."""
    time, found = 0, []
    for gap, group, value in draw(st.lists(st.tuples(GAPS, st.sampled_from("ab"), VALUES), max_size=25)):
        time += gap
        found.append((time, group, value))
    return found


LENGTHS = st.sampled_from([None, 1, 2, 3, 4, 6])
SLIDES = st.sampled_from([None, None, 1, 2, 3, 4, 6, 9])
FORMS = st.one_of(st.builds(rows_over, LENGTHS, SLIDES), st.builds(range_over, LENGTHS, SLIDES))
ACTIVE = st.builds(lambda length: range_over(length, active=True), st.sampled_from([1, 2, 3, 4, 6]))
LATER = st.sampled_from([0, 3, 20])


def _of(tell: Callable[[list[int]], Any]) -> Callable[[list[Row]], Any]:
    """An aggregate of what is not NULL; NULL where there is nothing."""

    def made(window: list[Row]) -> Any:
        values = [row[2] for row in window if row[2] is not None]
        return tell(values) if values else None

    return made


AGGREGATES: dict[str, Callable[[list[Row]], Any]] = {
    "sum": _of(sum),
    "max": _of(max),
    "min": _of(min),
    "avg": _of(lambda values: sum(values) / len(values)),
    "count": lambda window: sum(row[2] is not None for row in window),
    "first": lambda window: window[0][2],
    "last": lambda window: window[-1][2],
}


def versions_of(name: str, which: str = "both") -> Versions:
    found = builtin(name, ["BIGINT"])
    assert found is not None
    if which == "base":
        return Versions(name, base=found.base)
    return Versions(name, window=found.window) if which == "window" else found


def block_of(versions: Versions, form: Form) -> Block:
    return Block((call_of(versions, form, ["x"], ["g"]),), ("g", "x"), streaming=True)


def upto_of(rows: list[Row], later: int) -> int:
    return (rows[-1][0] if rows else 0) + later


# --- Windows looked at from anew -----------------------------------------------------------------------------------


@settings(max_examples=400)
@given(
    streams(), st.sampled_from(sorted(AGGREGATES)), FORMS, st.sampled_from(["both", "both", "base", "window"]), LATER
)
def test_a_call_tells_what_its_windows_hold(rows: list[Row], name: str, form: Form, which: str, later: int) -> None:
    upto = upto_of(rows, later)
    found = whole(block_of(versions_of(name, which), form), table_of(rows, COLUMNS), upto)
    same(found, naive(rows, form, lambda window: [(AGGREGATES[name](window),)], upto, group=1))


@pytest.mark.parametrize(
    ("form", "which", "way"),
    [
        (rows_over(None), "both", "cumulative"),
        (range_over(None, 3), "both", "cumulative"),
        (rows_over(3), "both", "window"),
        (range_over(3), "both", "window"),
        (rows_over(3), "base", "naive"),
        (rows_over(3, 2), "base", "naive"),
        (rows_over(2, 3), "both", "tumble"),
        (range_over(3, 3), "base", "tumble"),
        (rows_over(2, 3), "window", "window"),
        (rows_over(6, 4), "both", "panes"),
        (range_over(6, 4), "both", "panes"),
        (range_over(6, 4), "window", "window"),
        (range_over(6, active=True), "both", "active"),
    ],
)
def test_which_way_is_taken(form: Form, which: str, way: Way) -> None:
    assert way_of(versions_of("sum", which), form, streaming=True) == way
    # An average of averages is no average: it is not ALGEBRAIC, and has no panes.
    expected = "window" if way == "panes" else way
    assert way_of(versions_of("avg", which), form, streaming=True) == expected


# --- In pieces -----------------------------------------------------------------------------------------------------


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    calls = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        name = draw(st.sampled_from(sorted(AGGREGATES)))
        which = draw(st.sampled_from(["both", "both", "base", "window"]))
        form = draw(st.one_of(FORMS, FORMS, ACTIVE))
        partition = draw(st.sampled_from([("g",), ()]))
        calls.append(call_of(versions_of(name, which), form, ["x"], partition, [f"r{number}"]))
    return Block(tuple(calls), ("g", "x"), streaming=True)


@settings(max_examples=400)
@given(streams(), blocks(), LATER, st.integers(0, 1000))
def test_pieces_tell_what_the_whole_tells(rows: list[Row], block: Block, later: int, seed: int) -> None:
    table, upto = table_of(rows, COLUMNS), upto_of(rows, later)
    wanted = whole(block, table, upto)
    same(pieces(block, table, upto, some_cuts(len(rows), seed)), wanted)


@settings(max_examples=100)
@given(streams(), st.sampled_from(sorted(AGGREGATES)), FORMS, st.integers(0, 1000), st.sampled_from([1, 4]))
def test_a_clock_that_lags_changes_nothing(rows: list[Row], name: str, form: Form, seed: int, lag: int) -> None:
    block, table, upto = block_of(versions_of(name), form), table_of(rows, COLUMNS), upto_of(rows, 20)
    same(pieces(block, table, upto, some_cuts(len(rows), seed), lag=lag), whole(block, table, upto))


# --- Panes ---------------------------------------------------------------------------------------------------------


def plain_path(versions: Versions) -> Versions:
    """The same aggregate, not said to be ALGEBRAIC."""
    assert versions.base is not None
    assert versions.window is not None
    return Versions(versions.name, replace(versions.base, algebraic=False), replace(versions.window, algebraic=False))


PANES = st.tuples(st.sampled_from([rows_over, range_over]), st.integers(2, 12), st.integers(1, 11)).filter(
    lambda one: one[2] < one[1]
)


@settings(max_examples=200)
@given(streams(), st.sampled_from(["sum", "max", "min", "first", "last"]), PANES, LATER, st.integers(0, 1000))
def test_the_cascade_is_the_plain_path(rows: list[Row], name: str, panes: Any, later: int, seed: int) -> None:
    form, versions = panes[0](panes[1], panes[2]), versions_of(name)
    # A pane of one row would sum nothing up.
    assert form.length is not None
    assert form.slide is not None
    way = "panes" if math.gcd(form.length, form.slide) > 1 else "window"
    assert way_of(versions, form, streaming=True) == way
    assert way_of(plain_path(versions), form, streaming=True) == "window"
    table, upto = table_of(rows, COLUMNS), upto_of(rows, later)
    wanted = whole(block_of(plain_path(versions), form), table, upto)
    same(whole(block_of(versions, form), table, upto), wanted)
    same(pieces(block_of(versions, form), table, upto, some_cuts(len(rows), seed)), wanted)


def test_panes_are_as_long_as_the_greatest_common_divisor() -> None:
    """ESL Example 15: of a window of 50 rows that slides by 20, each 10 rows become one."""
    panes = defined(
        """CREATE ALGEBRAIC AGGREGATE parts(x BIGINT) : BIGINT {
        TABLE state(n BIGINT);
        INITIALIZE: { INSERT INTO state VALUES (x); } ITERATE: { UPDATE state SET n = n + x; }
        TERMINATE: { INSERT INTO RETURN SELECT n FROM state; } };
        CREATE ALGEBRAIC WINDOW AGGREGATE parts(x BIGINT) : BIGINT {
        TABLE inwindow(wx BIGINT);
        INITIALIZE: ITERATE: { INSERT INTO RETURN SELECT count(*) * 1000 + max(wx) FROM inwindow; } }"""
    )
    rows = [(number, "a", 1) for number in range(100)]
    found = whole(block_of(panes, rows_over(50, 20)), table_of(rows, COLUMNS), 0)
    # Two panes at the first yield, four at the second, then always five: each of ten ones.
    assert [row[2] for row in found] == [2010, 4010, 5010, 5010, 5010]


# --- Active expiration ---------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(streams(), st.sampled_from(["sum", "avg", "count"]), st.sampled_from([1, 2, 3, 6]), LATER, st.integers(0, 1000))
def test_rows_leave_by_the_clock(rows: list[Row], name: str, seconds: int, later: int, seed: int) -> None:
    tell = AGGREGATES[name]
    upto = upto_of(rows, later)
    block, table = block_of(versions_of(name), range_over(seconds, active=True)), table_of(rows, COLUMNS)
    wanted = actively(
        rows, seconds, lambda window: [(tell(window),)], lambda _row, left: [(tell(left),)], upto, group=1
    )
    same(whole(block, table, upto), wanted)
    same(pieces(block, table, upto, some_cuts(len(rows), seed)), wanted)


@settings(max_examples=100)
@given(streams(), st.sampled_from(["max", "sum"]), st.sampled_from([1, 3, 6]), LATER)
def test_without_a_window_version_each_row_that_leaves_is_told(
    rows: list[Row], name: str, seconds: int, later: int
) -> None:
    """The naive version asks the base version about what is left; of nothing it tells nothing."""
    tell, upto = AGGREGATES[name], upto_of(rows, later)
    block = block_of(versions_of(name, "base"), range_over(seconds, active=True))
    wanted = actively(
        rows, seconds, lambda window: [(tell(window),)],
        lambda _row, left: [(tell(left),)] if left else [], upto, group=1,
    )  # fmt: skip
    same(whole(block, table_of(rows, COLUMNS), upto), wanted)


LEFT = """CREATE WINDOW AGGREGATE left_over(x BIGINT) : (x BIGINT, others BIGINT, what STRING) {
    TABLE inwindow(wx BIGINT);
    INITIALIZE: ITERATE: { INSERT INTO RETURN SELECT x, count(*) - 1, 'came' FROM inwindow; }
    EXPIRE: { INSERT INTO RETURN SELECT x, count(*) - 1, 'left' FROM inwindow; } }"""


@settings(max_examples=100)
@given(streams(), st.sampled_from([1, 2, 5]), LATER, st.integers(0, 1000))
def test_a_row_is_in_the_window_while_it_leaves(rows: list[Row], seconds: int, later: int, seed: int) -> None:
    """In EXPIRE, inwindow has the row that leaves as its oldest; rows of one time leave as they came."""
    upto = upto_of(rows, later)
    block, table = block_of(defined(LEFT), range_over(seconds, active=True)), table_of(rows, COLUMNS)
    wanted = actively(
        rows, seconds, lambda window: [(window[-1][2], len(window) - 1, "came")],
        lambda row, left: [(row[2], len(left), "left")], upto, group=1,
    )  # fmt: skip
    same(whole(block, table, upto), wanted)
    same(pieces(block, table, upto, some_cuts(len(rows), seed)), wanted)


def test_nobody_is_told_of_expiry_without_active_expiration() -> None:
    block = block_of(defined(LEFT), range_over(2))
    rows = [(0, "a", 1), (9, "a", 2)]
    assert whole(block, table_of(rows, COLUMNS), 99) == [
        ("a", 1, 1, 0, "came", 0.0),
        ("a", 2, 2, 0, "came", 9.0),
    ]


def test_a_row_stays_as_long_as_the_range_says_and_leaves_before_what_comes_then() -> None:
    """RANGE 2 is inclusive by itself, as in SQL; with ACTIVE EXPIRATION a row is gone after 2 seconds."""
    rows = [(0, "a", 1), (2, "a", 2)]
    passive = whole(block_of(versions_of("sum"), range_over(2)), table_of(rows, COLUMNS), 2)
    assert [row[2] for row in passive] == [1, 3]
    active = whole(block_of(versions_of("sum"), range_over(2, active=True)), table_of(rows, COLUMNS), 2)
    assert active == [("a", 1, 1, 0.0), ("a", 1, None, 2.0), ("a", 2, 2, 2.0)]
