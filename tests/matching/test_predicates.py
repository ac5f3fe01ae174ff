"""Whether a predicate follows from another: known cases, and none that some row denies."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from headrace.algebra.matching.predicates import Kind, implies


def kind(column: str) -> Kind | None:
    kinds: dict[str, Kind] = {"x": "number", "y": "number", "f": "float", "s": "text"}
    return kinds.get(column.lower())


def follows(given_: str, wanted: str) -> bool:
    found = [parse_one(one, dialect="spark") if one else None for one in (given_, wanted)]
    return implies(found[0], found[1], kind)


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("x > 100", "x > 80"),
        ("x > 80", "x >= 80"),
        ("80 < x", "x > 80"),
        ("x = 5", "x BETWEEN 1 AND 10"),
        ("x IN (1, 2)", "x IN (1, 2, 3)"),
        ("x IN (1, 2) AND y > 0", "y >= 0"),
        ("x > 1 OR x < -1", "x <> 0"),
        ("NOT (x <= 80 OR y IS NULL)", "x > 80"),
        ("x > 3", "x IS NOT NULL"),
        ("x > 3", "x < 5 OR x >= 5"),
        ("x > 3 AND x < 2", "y = 7"),
        ("s = 'a'", "s IN ('a', 'b')"),
        ("s = 'a'", "s <> 'b'"),
        ("s NOT IN ('a', 'b')", "s <> 'a'"),
        ("f > 2", "f > 1"),
        ("length(s) > 3 AND x = 1", "length(s) > 3"),
        ("x = 1", ""),
        ("a.x > 5", "a.x > 4"),
    ],
)
def test_what_follows(given_: str, wanted: str) -> None:
    assert follows(given_, wanted)


@pytest.mark.parametrize(
    ("given_", "wanted"),
    [
        ("x > 80", "x > 100"),
        ("", "x > 0"),
        ("x >= 80", "x > 80"),
        ("x > 1 OR y > 1", "x > 1"),
        ("y > 1", "x IS NOT NULL"),
        ("f >= 0.10000000000000000001", "f > 0.1"),
        ("s > 'b'", "s > 'a'"),
        ("x NOT IN (1, 2)", "x = 3"),
        ("a.x > 5", "b.x > 4"),
        ("x < 5", "x < 5 AND y < 5"),
        ("x IS NULL", "x <> 3"),
    ],
)
def test_what_does_not_follow(given_: str, wanted: str) -> None:
    assert not follows(given_, wanted)


NUMBER = st.integers(-2, 3)
ATOM = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from("xy"), st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), NUMBER),
    st.builds("{} {} {}".format, NUMBER, st.sampled_from(["<", ">", "="]), st.sampled_from("xy")),
    st.builds("{} {}BETWEEN {} AND {}".format, st.sampled_from("xy"), st.sampled_from(["", "NOT "]), NUMBER, NUMBER),
    st.builds("{} {}IN ({}, {})".format, st.sampled_from("xy"), st.sampled_from(["", "NOT "]), NUMBER, NUMBER),
    st.builds("{} IS {}NULL".format, st.sampled_from("xys"), st.sampled_from(["", "NOT "])),
    st.builds("s {} '{}'".format, st.sampled_from(["=", "<>"]), st.sampled_from("abc")),
)
PREDICATE = st.recursive(
    ATOM,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)
ROWS: list[tuple[Any, ...]] = [
    (x, y, s) for x in (None, -3, -2, -1, 0, 1, 2, 3, 4) for y in (None, -3, 0, 2, 4) for s in (None, "a", "b", "d")
]


def chosen(predicate: str) -> set[int]:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (n INT, x INT, y INT, s TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [(n, *row) for n, row in enumerate(ROWS)])
        return {row[0] for row in database.execute(f"SELECT n FROM t WHERE {predicate}")}


@given(PREDICATE, PREDICATE)
def test_nothing_follows_that_some_row_denies(given_: str, wanted: str) -> None:
    if follows(given_, wanted):
        assert chosen(given_) <= chosen(wanted)


@given(PREDICATE, PREDICATE)
def test_what_is_narrowed_follows(one: str, other: str) -> None:
    assert follows(f"{one} AND {other}", one)
    assert follows(one, f"{one} OR {other}")
