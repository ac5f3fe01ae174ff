"""The aggregates that come with Headrace, each against its meaning in plain Python, row by row."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import Form, way_of
from headrace.language import parse
from headrace.maintenance.user_aggregates.blocks import Block, grouped, run_call
from headrace.maintenance.user_aggregates.plain import _hash
from headrace.runtime.aggregates import library
from tests.user_aggregates.oracle import Told, actively, naive
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

TEXTS = library()
NAMES = (
    "concat_text", "decay_online_avg", "ewma", "frequent_items", "gap_groups", "ones_in_window", "priority_sample",
    "sequence_alarm", "variance_parts", "window_max", "window_variance",
)  # fmt: skip

#: A program is compiled for each, which takes most of the time.
CASES = 40

SEEDS = st.integers(0, 1000)
LENGTHS = st.sampled_from([None, 1, 2, 3, 6])
WINDOWS = st.one_of(
    st.builds(rows_over, LENGTHS, st.sampled_from([None, None, 2, 3, 4])),
    st.builds(range_over, LENGTHS, st.sampled_from([None, None, 2, 3, 4])),
)
SECONDS = st.sampled_from([1, 2, 3, 6])


def streams(*values: st.SearchStrategy[Any], size: int = 25) -> st.SearchStrategy[list[Row]]:
    """Rows of a time, a group and such values."""
    gaps = st.sampled_from([0, 0, 1, 1, 2, 5])

    @st.composite
    def made(draw: st.DrawFn) -> list[Row]:
        time, found = 0, []
        for gap, *rest in draw(st.lists(st.tuples(gaps, st.sampled_from("ab"), *values), max_size=size)):
            time += gap
            found.append((time, *rest))
        return found

    return made()


@lru_cache
def versions_of(name: str) -> Versions:
    return defined(TEXTS[name])


def block_of(name: str, form: Form, arguments: dict[str, str], *, streaming: bool = True) -> Block:
    versions = versions_of(name)
    results = [f"r{number}" for number in range(len(versions.any.returns))]
    call = call_of(versions, form, list(arguments), ["g"], results)
    return Block((call,), ("g", *arguments), streaming=streaming)


def check(
    name: str, arguments: dict[str, str], rows: list[Row], form: Form, tell: Told, seed: int, close: float | None = None
) -> None:
    """A library's aggregate over windows: whole and in pieces, it tells what is told of each window looked at anew."""
    table = table_of(rows, {"g": "STRING", **arguments})
    upto = (rows[-1][0] if rows else 0) + seed % 7
    block = block_of(name, form, arguments)
    wanted = naive(rows, form, tell, upto, group=1)
    same(whole(block, table, upto), wanted, close=close)
    same(pieces(block, table, upto, some_cuts(len(rows), seed)), wanted, close=close)


def check_stream(
    name: str, arguments: dict[str, str], rows: list[Row], tell: Told, seed: int, close: float | None = None
) -> None:
    """The same of a call without a window, which tells of all rows so far."""
    table = table_of(rows, {"g": "STRING", **arguments})
    block = block_of(name, Form(), arguments)
    wanted = naive(rows, rows_over(None), tell, 0, group=1)
    same(whole(block, table, 0), wanted, close=close)
    same(pieces(block, table, 0, some_cuts(len(rows), seed)), wanted, close=close)


def check_active(
    name: str, arguments: dict[str, str], rows: list[Row], seconds: int, told: tuple[Told, Callable[..., list[Row]]],
    seed: int, close: float | None = None,
) -> None:  # fmt: skip
    table = table_of(rows, {"g": "STRING", **arguments})
    upto = (rows[-1][0] if rows else 0) + seed % 7
    block = block_of(name, range_over(seconds, active=True), arguments)
    wanted = actively(rows, seconds, told[0], told[1], upto, group=1)
    same(whole(block, table, upto), wanted, close=close)
    same(pieces(block, table, upto, some_cuts(len(rows), seed)), wanted, close=close)


# --- The files -----------------------------------------------------------------------------------------------------


def test_what_there_is() -> None:
    assert tuple(TEXTS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_file_says_what_it_does(name: str) -> None:
    head, _, _rest = TEXTS[name].partition("CREATE")
    assert all(line.startswith("--") for line in head.splitlines())
    versions = versions_of(name)
    assert versions.name == name
    first = head.splitlines()[0]
    parameters = ", ".join(column.name for column in versions.any.parameters)
    assert first.startswith(f"-- {name}({parameters}): ")
    assert first.endswith(".")
    for column in versions.any.parameters:
        assert f"\n-- {column.name} " in head
    assert "\n-- result " in head
    # The call it shows, and that both versions take the same and tell the same.
    example = " ".join(
        line.removeprefix("--").strip()
        for line in head.splitlines()
        if line.startswith("--   ") and not line.startswith("--    ")
    )
    assert name in example
    parse(example)
    if versions.base is not None and versions.window is not None:
        assert versions.base.parameters == versions.window.parameters
        assert versions.base.returns == versions.window.returns


# --- Averages ------------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(st.none(), st.integers(-40, 40).map(lambda number: number / 4))


def present(window: list[Row], at: int = 2) -> list[Any]:
    return [row[at] for row in window if row[at] is not None]


def decayed(window: list[Row]) -> list[Row]:
    total, count = 0.0, 0
    for value in present(window):
        total = 0.9 * total + 1.1 * value if count else value
        count += 1
    return [(total / count if count else None,)]


@settings(max_examples=CASES)
@given(streams(NUMBERS), WINDOWS, SEEDS)
def test_decay_online_avg(rows: list[Row], form: Form, seed: int) -> None:
    check("decay_online_avg", {"x": "DOUBLE"}, rows, form, decayed, seed)
    check_stream("decay_online_avg", {"x": "DOUBLE"}, rows, decayed, seed)


def smoothed(window: list[Row]) -> list[Row]:
    found = None
    for _time, _group, value, alpha in window:
        if value is not None:
            found = value if found is None else alpha * value + (1 - alpha) * found
    return [(found,)]


@settings(max_examples=CASES)
@given(streams(NUMBERS, st.sampled_from([0.2, 0.5, 1.0])), WINDOWS, SEEDS)
def test_ewma(rows: list[Row], form: Form, seed: int) -> None:
    arguments = {"x": "DOUBLE", "alpha": "DOUBLE"}
    check("ewma", arguments, rows, form, smoothed, seed)
    check_stream("ewma", arguments, rows, smoothed, seed)


# --- Extremes and spread -------------------------------------------------------------------------------------------


def largest(window: list[Row]) -> list[Row]:
    return [(max(present(window), default=None),)]


@settings(max_examples=CASES)
@given(streams(NUMBERS), WINDOWS, SEEDS)
def test_window_max(rows: list[Row], form: Form, seed: int) -> None:
    check("window_max", {"x": "DOUBLE"}, rows, form, largest, seed)


@settings(max_examples=CASES)
@given(streams(NUMBERS), SECONDS, SEEDS)
def test_window_max_tells_when_the_largest_leaves(rows: list[Row], seconds: int, seed: int) -> None:
    def leaves(row: Row, left: list[Row]) -> list[Row]:
        # One that a later row surpassed was deleted then, and leaves without a word.
        surpassed = row[2] is None or any(value >= row[2] for value in present(left))
        return [] if surpassed else largest(left)

    check_active("window_max", {"x": "DOUBLE"}, rows, seconds, (largest, leaves), seed)


def test_window_max_keeps_few_rows() -> None:
    block = block_of("window_max", rows_over(1000), {"x": "DOUBLE"})
    rows = [(number, "a", float(_hash(number, 1) % 100_000)) for number in range(1500)]
    table = table_of(rows, {"g": "STRING", "x": "DOUBLE"})
    (machine,) = block.machines(table.schema, ends=False, native=False)
    (call,) = block.calls
    ran = run_call(machine, call, table, grouped(table, ["g"]), None, 0)
    kept = [column for column in ran.states.column_names if column.endswith("_key")]
    assert len(kept) == 1
    # The expected number of a window of n is the n-th harmonic number, about 7.5.
    assert len(ran.states.column(kept[0])[0].as_py()) < 30


def spread(window: list[Row]) -> list[Row]:
    values = present(window)
    return [(statistics.variance(values) if len(values) > 1 else None,)]


@settings(max_examples=CASES)
@given(streams(NUMBERS), WINDOWS, SEEDS)
def test_window_variance(rows: list[Row], form: Form, seed: int) -> None:
    check("window_variance", {"x": "DOUBLE"}, rows, form, spread, seed, close=1e-9)


@settings(max_examples=CASES)
@given(streams(NUMBERS), SECONDS, SEEDS)
def test_window_variance_with_active_expiration(rows: list[Row], seconds: int, seed: int) -> None:
    check_active(
        "window_variance", {"x": "DOUBLE"}, rows, seconds, (spread, lambda _row, left: spread(left)), seed, close=1e-9
    )


def parts(window: list[Row]) -> list[Row]:
    values = present(window, 3)
    if not values:
        return [(0, None, 0.0)]
    mean = statistics.fmean(values)
    return [(len(values), mean, sum((value - mean) ** 2 for value in values))]


@settings(max_examples=CASES)
@given(streams(st.just(1), NUMBERS, st.just(0.0)), WINDOWS, SEEDS)
def test_variance_parts(rows: list[Row], form: Form, seed: int) -> None:
    arguments = {"n": "BIGINT", "mean": "DOUBLE", "m2": "DOUBLE"}
    check("variance_parts", arguments, rows, form, parts, seed, close=1e-9)


@settings(max_examples=CASES)
@given(streams(st.just(1), NUMBERS, st.just(0.0)), SECONDS, SEEDS)
def test_variance_parts_with_active_expiration(rows: list[Row], seconds: int, seed: int) -> None:
    arguments = {"n": "BIGINT", "mean": "DOUBLE", "m2": "DOUBLE"}
    check_active("variance_parts", arguments, rows, seconds, (parts, lambda _row, left: parts(left)), seed, close=1e-9)


def test_variance_parts_and_window_max_have_panes() -> None:
    for name in ("variance_parts", "window_max"):
        assert way_of(versions_of(name), rows_over(6, 4), streaming=True) == "panes"


# --- Text ----------------------------------------------------------------------------------------------------------


def joined(window: list[Row]) -> list[Row]:
    found, behind = None, ""
    for _time, _group, text, separator in window:
        if text is not None:
            found = text if found is None else found + behind + text
            behind = separator or ""
    return [(found,)]


WORDS = st.one_of(st.none(), st.text("aé€", max_size=3))
SEPARATORS = st.sampled_from([", ", "", "-", None])


@settings(max_examples=CASES)
@given(streams(WORDS, SEPARATORS), WINDOWS, SEEDS)
def test_concat_text(rows: list[Row], form: Form, seed: int) -> None:
    check("concat_text", {"x": "STRING", "separator": "STRING"}, rows, form, joined, seed)


@settings(max_examples=CASES)
@given(streams(WORDS, SEPARATORS), SECONDS, SEEDS)
def test_concat_text_with_active_expiration(rows: list[Row], seconds: int, seed: int) -> None:
    arguments = {"x": "STRING", "separator": "STRING"}
    check_active("concat_text", arguments, rows, seconds, (joined, lambda _row, left: joined(left)), seed)


# --- Samples -------------------------------------------------------------------------------------------------------


def sampled(window: list[Row]) -> list[Row]:
    size = window[-1][4]
    best = sorted(window, key=lambda row: _hash(row[3], 0), reverse=True)[:size]
    return [(place, row[2]) for place, row in enumerate(best, 1)]


def numbered(rows: Sequence[Row], size: int) -> list[Row]:
    """With an id for each row, and how many are to be chosen."""
    return [(*row, number * 7 + 1, size) for number, row in enumerate(rows)]


SAMPLE = {"value": "STRING", "id": "BIGINT", "k": "INT"}


@settings(max_examples=CASES)
@given(streams(st.sampled_from(["p", "q", None])), st.sampled_from([0, 1, 2, 4]), WINDOWS, SEEDS)
def test_priority_sample(rows: list[Row], size: int, form: Form, seed: int) -> None:
    check("priority_sample", SAMPLE, numbered(rows, size), form, sampled, seed)


@settings(max_examples=CASES)
@given(streams(st.sampled_from(["p", "q", None])), st.sampled_from([1, 2, 4]), SECONDS, SEEDS)
def test_priority_sample_with_active_expiration(rows: list[Row], size: int, seconds: int, seed: int) -> None:
    def leaves(row: Row, left: list[Row]) -> list[Row]:
        # One that as many later rows surpassed as are chosen was deleted then, and leaves without a word.
        surpassed = sum(_hash(one[3], 0) > _hash(row[3], 0) for one in left)
        return [] if surpassed >= size or not left else sampled(left)

    check_active("priority_sample", SAMPLE, numbered(rows, size), seconds, (sampled, leaves), seed)


def test_priority_sample_of_a_table_is_told_once() -> None:
    rows = numbered([(0, "a", word) for word in "stream"], 3)
    found = whole(
        block_of("priority_sample", Form(), SAMPLE, streaming=False), table_of(rows, {"g": "STRING", **SAMPLE}), 0
    )
    assert [row[4:6] for row in found] == sampled(rows)


def test_priority_sample_is_even_and_keeps_few_rows() -> None:
    """Each of the last 20 rows is in a sample of 5 as often as any other."""
    rows = numbered([(number, "a", str(number)) for number in range(1500)], 5)
    found = whole(block_of("priority_sample", rows_over(20), SAMPLE), table_of(rows, {"g": "STRING", **SAMPLE}), 0)
    ages = Counter((row[2] - 1) // 7 - int(row[5]) for row in found if row[-1] >= 20)
    assert set(ages) == set(range(20))
    expected = sum(ages.values()) / 20
    assert all(abs(count - expected) < 0.25 * expected for count in ages.values())


# --- Approximate counts --------------------------------------------------------------------------------------------


def filtered(window: list[Row]) -> list[Row]:
    """Counting filters, looked at from anew."""
    item, hashes, width = window[-1][2:5]
    if item is None:
        return [(None,)]

    def place(value: int, number: int) -> int:
        return abs(_hash(value, number)) % width

    counts = [sum(place(one, number) == place(item, number) for one in present(window)) for number in range(hashes)]
    return [(min(counts),)]


@settings(max_examples=CASES)
@given(streams(st.one_of(st.none(), st.integers(0, 9)), st.just(3), st.just(4)), SECONDS, SEEDS)
def test_frequent_items_with_active_expiration(rows: list[Row], seconds: int, seed: int) -> None:
    def leaves(row: Row, left: list[Row]) -> list[Row]:
        """Of the item that leaves, as if it came once more and did not count."""
        (found,) = filtered([*left, row])
        return [(None if found[0] is None else found[0] - 1,)]

    arguments = {"item": "BIGINT", "hashes": "INT", "width": "BIGINT"}
    check_active("frequent_items", arguments, rows, seconds, (filtered, leaves), seed)


@settings(max_examples=CASES)
@given(streams(st.one_of(st.none(), st.integers(0, 9)), st.just(3), st.just(4)), WINDOWS, SEEDS)
def test_frequent_items(rows: list[Row], form: Form, seed: int) -> None:
    arguments = {"item": "BIGINT", "hashes": "INT", "width": "BIGINT"}
    check("frequent_items", arguments, rows, form, filtered, seed)
    check_stream("frequent_items", arguments, rows, filtered, seed)


@settings(max_examples=CASES)
@given(streams(st.sampled_from("abcdefg"), st.just(4), st.just(64), size=40), st.integers(1, 20))
def test_frequent_items_never_tells_too_little(rows: list[Row], length: int) -> None:
    arguments = {"item": "STRING", "hashes": "INT", "width": "BIGINT"}
    found = whole(
        block_of("frequent_items", rows_over(length), arguments), table_of(rows, {"g": "STRING", **arguments}), 0
    )
    exact = naive(rows, rows_over(length), lambda w: [(sum(row[2] == w[-1][2] for row in w),)], 0, group=1)
    same(
        [
            (*row[:4], min(row[4], exact_row[4]), row[5])
            for row, exact_row in zip(_sorted(found), _sorted(exact), strict=True)
        ],
        exact,
    )
    # Seven items in four tables of 64: hardly any share all their counters.
    assert sum(row[4] for row in found) <= 1.1 * sum(row[4] for row in exact) + 1


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[-1], row[0]))


class Histogram:
    """The exponential histogram of Datar and others, as they tell it: buckets merge one size after another."""

    def __init__(self, length: int, error: float) -> None:
        self._length, self._most = length, math.ceil(0.5 / error) + 1
        self._buckets: list[tuple[int, int]] = []
        self._seen = 0

    def add(self, bit: int | None) -> float:
        self._seen += 1
        self._buckets = [one for one in self._buckets if one[1] > self._seen - self._length]
        if bit == 1:
            self._buckets.append((1, self._seen))
            size = 1
            while len(alike := [one for one in self._buckets if one[0] == size]) > self._most:
                first, second = sorted(alike, key=lambda one: one[1])[:2]
                self._buckets.remove(first)
                self._buckets[self._buckets.index(second)] = (2 * size, second[1])
                size *= 2
        sizes = [size for size, _newest in self._buckets]
        return sum(sizes) - (max(sizes) - 1) / 2 if sizes else 0.0


@settings(max_examples=CASES)
@given(
    st.lists(st.sampled_from([0, 1, 1, 1, None]), max_size=120), st.sampled_from([1, 5, 30, 80]),
    st.sampled_from([0.5, 0.25, 0.1]), SEEDS,
)  # fmt: skip
def test_ones_in_window(bits: list[int | None], length: int, error: float, seed: int) -> None:
    arguments = {"bit": "INT", "n": "BIGINT", "error": "DOUBLE"}
    rows = [(number, "a", bit, length, error) for number, bit in enumerate(bits)]
    block, table = block_of("ones_in_window", Form(), arguments), table_of(rows, {"g": "STRING", **arguments})
    found = whole(block, table, 0)
    same(pieces(block, table, 0, some_cuts(len(rows), seed)), found)
    histogram = Histogram(length, error)
    for number, row in enumerate(found):
        exact = sum(bit == 1 for bit in bits[max(0, number + 1 - length) : number + 1])
        assert row[4] == histogram.add(bits[number])
        assert abs(row[4] - exact) <= error * exact


def test_ones_in_window_keeps_few_buckets() -> None:
    arguments = {"bit": "INT", "n": "BIGINT", "error": "DOUBLE"}
    rows = [(number, "a", 1, 1000, 0.1) for number in range(3000)]
    block, table = block_of("ones_in_window", Form(), arguments), table_of(rows, {"g": "STRING", **arguments})
    (machine,) = block.machines(table.schema, ends=False, native=False)
    ran = run_call(machine, block.calls[0], table, grouped(table, ["g"]), None, 0)
    lists = [column[0].as_py() for column in ran.states.columns if str(column.type).startswith("list")]
    assert max(map(len, lists)) <= 6 * 10


# --- Sequences -----------------------------------------------------------------------------------------------------


def in_groups(window: list[Row]) -> list[Row]:
    number = 1
    for before, row in pairwise(window):
        number += row[0] - before[0] > row[4]
    return [(window[-1][2], number)]


@settings(max_examples=CASES)
@given(streams(st.sampled_from("pq"), st.just(None), st.sampled_from([1.0, 1.5, 2.0])), WINDOWS, SEEDS)
def test_gap_groups(rows: list[Row], form: Form, seed: int) -> None:
    arguments = {"tag": "STRING", "at": "TIMESTAMP", "gap": "DOUBLE"}
    timed = [(row[0], row[1], row[2], datetime.fromtimestamp(row[0], UTC), row[4]) for row in rows]
    check_stream("gap_groups", arguments, timed, in_groups, seed)
    check("gap_groups", arguments, timed, form, in_groups, seed)


@settings(max_examples=CASES)
@given(streams(st.sampled_from(["item", "item", "ap", "other"]), st.just("item"), st.just("ap")), SECONDS, SEEDS)
def test_sequence_alarm(rows: list[Row], seconds: int, seed: int) -> None:
    def leaves(row: Row, _left: list[Row]) -> list[Row]:
        """An item with no guard less than the window's length before it, nor after it."""
        own = [one for one in rows if one[1] == row[1]]
        place = next(number for number, one in enumerate(own) if one is row)
        guards = [
            one for number, one in enumerate(own)
            if one[2] == "ap" and abs(one[0] - row[0]) < seconds and number != place
        ]  # fmt: skip
        return [("item without ap",)] if row[2] == "item" and not guards else []

    arguments = {"kind": "STRING", "item": "STRING", "guard": "STRING"}
    check_active("sequence_alarm", arguments, rows, seconds, (lambda _window: [], leaves), seed)


# --- Machine code --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form", "arguments"),
    [
        ("window_variance", rows_over(7), {"x": "DOUBLE"}),
        ("frequent_items", range_over(9), {"item": "BIGINT", "hashes": "INT", "width": "BIGINT"}),
        ("ones_in_window", Form(), {"item": "INT", "n": "BIGINT", "error": "DOUBLE"}),
    ],
)
def test_machine_code_tells_the_same(name: str, form: Form, arguments: dict[str, str]) -> None:
    rest = {"window_variance": (), "frequent_items": (3, 5), "ones_in_window": (20, 0.2)}[name]
    modulus = 2 if name == "ones_in_window" else 13
    rows = [
        (number // 2, "ab"[number % 3 == 0], None if number % 17 == 0 else _hash(number, 3) % modulus, *rest)
        for number in range(200)
    ]
    table = table_of(rows, {"g": "STRING", **arguments})
    block = block_of(name, form, arguments)
    plain = pieces(block, table, 200, [50, 51, 120])
    same(pieces(block, table, 200, [50, 51, 120], native=True), plain, close=1e-12)
