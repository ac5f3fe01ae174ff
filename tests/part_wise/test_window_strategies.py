"""Every strategy gives what brute force gives, part by part, on SQLite: many random streams, all aggregates."""

from __future__ import annotations

import pytest

from headrace.algebra.part_wise.windows.window_functions import window_functions
from tests.part_wise.brute_window import EXACT, LENGTH, MERGED, VALUES, Row, Rows, random_rows
from tests.part_wise.part_runner import PartRunner
from tests.part_wise.sqlite_store import SqliteStore
from tests.part_wise.window_cases import SHAPES, Case, described

FIRST, PARTS, SEEDS = 101, 36, range(2)
ALL = {"recompute", "distributive", "subtractable", "differential"}


#: SQLite counts no distinct pairs.
PORTABLE = [call for call in VALUES if call != "count(DISTINCT a, h)"]


def _sum(rows: Rows) -> int:
    return sum(row.a for row in rows if row.a is not None)


CASES = {
    "exact": (Case([*EXACT]), ALL),
    "values": (Case([*PORTABLE, "count(*)", "sum(a)"]), ALL),
    "merged": (Case([*MERGED]), {"recompute", "distributive"}),
    "all": (Case([*EXACT, *PORTABLE, *MERGED]), {"recompute", "distributive"}),
    "expressions": (
        Case(
            ["count(*)", "sum(a)", "avg(d)"],
            keys="upper(g) AS big, h + 1 AS next",
            key=lambda row: (None if row.g is None else row.g.upper(), row.h + 1),
            where="h = 0 OR a > 0",
            keep=lambda row: row.h == 0 or (row.a is not None and row.a > 0),
        ),
        ALL,
    ),
    # A sum of 0 and below is kept: presence is decided by count.
    "having": (
        Case(
            ["sum(a)", "count(a)"],
            having="c0 <= 0 AND count(*) > 1",
            pass_on=lambda rows: any(row.a is not None for row in rows) and _sum(rows) <= 0 and len(rows) > 1,
        ),
        ALL,
    ),
    "groups alone": (Case([]), ALL),
}
#: SQLite runs no user's text that has Spark's own spelling.
NOT_RECOMPUTED = ("exact", "values", "merged", "all")


#: Which shape a window has matters to what is subtracted; for the rest, one of each kind will do.
RUNS = [
    pytest.param(name, shape, id=f"{name}, {shape[0]} by {shape[1]}")
    for name in CASES
    for shape in (SHAPES if name in ("exact", "values", "having") else ((4, 1), (7, 2), (10, 4)))
]


@pytest.mark.parametrize(("name", "shape"), RUNS)
def test_strategies_agree_with_brute_force(name: str, shape: tuple[int, int]) -> None:
    case, wanted = CASES[name]
    functions = case.functions(*shape)
    assert set(functions) == wanted
    if name in NOT_RECOMPUTED:
        del functions["recompute"]
    for seed in SEEDS:
        rows = random_rows(seed, FIRST, PARTS)
        case.check(PartRunner(SqliteStore(), "S", rows, FIRST, PARTS), rows, functions, *shape)


@pytest.mark.parametrize("away", range(1, 12))
def test_a_group_that_returns_begins_anew(away: int) -> None:
    """A group leaves for fewer and for more parts than the window has, and its old sums are never subtracted."""
    case, window = Case(["count(*)", "sum(a)", "count(DISTINCT a)"]), 4
    lone = [Row(part, "lone", 0, part, None, None, None, None) for part in (FIRST, FIRST + away, FIRST + 2 * away + 1)]
    other = [Row(part, None, 0, 1, None, None, None, None) for part in range(FIRST, FIRST + PARTS, 3)]
    for shape in ((window, 1), (window, 3), (window, 2)):
        runner = PartRunner(SqliteStore(), "S", lone + other, FIRST, PARTS)
        functions = case.functions(*shape)
        del functions["recompute"]
        case.check(runner, lone + other, functions, *shape)


def test_sums_are_forgotten() -> None:
    """A helper of sums has a group for as long as a window may need it, and no longer."""
    rows = [Row(FIRST + number, f"once {number}", 0, 1, None, None, None, None) for number in range(PARTS)]
    store = SqliteStore()
    runner = PartRunner(store, "S", rows, FIRST, PARTS)
    helper, _ = Case(["sum(a)"]).functions(4, 1)["subtractable"]
    runner.run(helper)
    name = "v_subtractable_sums"
    assert [len(store.rows(name, part)) for part in runner.parts(name)] == [1, 2, 3] + [4] * (PARTS - 3)


def test_a_query_without_keys_has_a_row_for_an_empty_window() -> None:
    query = described("SELECT count(*) AS n, max(a) AS m, count(DISTINCT a) AS d FROM S [WINDOW 240 SECONDS]", LENGTH)
    runner = PartRunner(SqliteStore(), "S", [Row(FIRST, "x", 0, 5, None, None, None, None)], FIRST, 9)
    for strategy in ("recompute", "distributive"):
        for statement in window_functions(query, strategy, f"v_{strategy}"):
            runner.run(statement)
        found = [runner.store.rows(f"v_{strategy}", part) for part in runner.parts(f"v_{strategy}")]
        assert found == [[(1, 5, 1)]] + [[(0, None, 0)]] * 5
