"""Sizes decide which strategy makes a window view."""

from __future__ import annotations

import pytest

from headrace.planner.window_costs import WindowShape, WindowSizes, choose, window_costs, window_words

ALL = ("recompute", "distributive", "subtractable", "differential")


def chosen(sizes: WindowSizes, window: int, slide: int = 1, strategies: tuple[str, ...] = ALL) -> str:
    return choose(window_costs(sizes, WindowShape.of(window, slide, slide, 1), strategies)).strategy


MANY_GROUPS = WindowSizes(rows_a_part=1e7, groups_a_pane=1e6, groups_in_window=1e6)
FEW_GROUPS = WindowSizes(rows_a_part=1e7, groups_a_pane=100, groups_in_window=100)
SMALL = WindowSizes(rows_a_part=1000, groups_a_pane=10, groups_in_window=10)


@pytest.mark.parametrize(
    ("sizes", "window", "winner"),
    [
        (SMALL, 4, "recompute"),  # one more job costs more than all the rows
        (FEW_GROUPS, 10, "distributive"),  # nothing beside the rows, so the one that carries nothing on
        (MANY_GROUPS, 100, "subtractable"),  # a hundred panes of a million groups against three parts of them
        (WindowSizes(1e6, 9e5, 2e6), 100, "differential"),  # more groups in the window than rows that move
    ],
)
def test_the_cheapest_is_chosen(sizes: WindowSizes, window: int, winner: str) -> None:
    assert chosen(sizes, window) == winner


def test_only_what_is_possible_is_weighed() -> None:
    assert chosen(MANY_GROUPS, 100, strategies=("recompute", "distributive")) == "distributive"


def test_costs_are_flat_in_the_window_where_the_paper_says_so() -> None:
    def cost(strategy: str, window: int) -> float:
        (found,) = window_costs(MANY_GROUPS, WindowShape.of(window, 1, 1, 1), (strategy,))
        return found.total

    assert cost("subtractable", 100) == cost("subtractable", 5)
    assert cost("differential", 100) == cost("differential", 5)
    assert cost("recompute", 100) > 15 * cost("recompute", 5)
    assert cost("distributive", 5) < cost("distributive", 100) < cost("recompute", 100)


def test_rows_of_each_strategy() -> None:
    shape = WindowShape.of(window=600, slide=120, pane=60, length=60)
    assert shape == WindowShape(parts_in_window=10, parts_a_slide=2, panes_in_window=10, panes_a_slide=2)
    sizes = WindowSizes(rows_a_part=100, groups_a_pane=7, groups_in_window=20, groups_alive=30)
    found = {cost.strategy: (cost.read, cost.written, cost.jobs) for cost in window_costs(sizes, shape, ALL)}
    assert found == {
        "recompute": (1000, 20, 1),
        "distributive": (270, 34, 3),
        "subtractable": (320, 80, 3),
        "differential": (440, 40, 2),
    }


def test_values_count_where_they_are_kept() -> None:
    sizes = WindowSizes(1000, 10, 20, values_a_pane=500, values_in_window=3000, values_alive=4000)
    shape = WindowShape.of(10, 1, 1, 1)
    found = {cost.strategy: cost.read for cost in window_costs(sizes, shape, ALL)}
    assert found == {"recompute": 10_000, "distributive": 6000, "subtractable": 13_000, "differential": 8000}


def test_words_for_explain() -> None:
    shape = WindowShape.of(10, 1, 1, 1)
    costs = window_costs(FEW_GROUPS, shape, ("recompute", "distributive"))
    lines = window_words(costs, {"recompute": None, "subtractable": "MAX(a) cannot be subtracted."})
    assert lines == [
        "The distributive strategy costs least: for each part it reads 10,001,000 rows and writes 200 in 2 jobs.",
        "The recompute strategy would cost 9.7 times as much: it reads 100,000,000 rows and writes 100 in 1 job.",
        "The subtractable strategy cannot be used. MAX(a) cannot be subtracted.",
    ]
