"""What one part of a window view costs by each strategy, in rows of work, and which strategy costs least.

All strategies give the same rows, so sizes alone decide: how many rows a part of the source has, and how many groups.
A helper's *entry* is a group, or a group and a value where the query needs values (COUNT(DISTINCT x), percentiles).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# The unit is the reading of one row from storage. All weights are first guesses, to be calibrated by the benchmark.
READ_ROW = 1.0
#: A row through a hash aggregation, with its share of the shuffle.
AGGREGATE_ROW = 2.0
WRITE_ROW = 4.0
#: Planning, starting and committing one more job: as much as reading so many rows.
JOB = 500_000.0
#: Costs within this factor are alike: then the strategy wins that is named earlier, and carries less from part to part.
NEAR = 1.05


@dataclass(frozen=True)
class WindowShape:
    """How many parts of the source, and how many panes, a window and a slide have."""

    parts_in_window: int
    parts_a_slide: int
    panes_in_window: int
    panes_a_slide: int

    @classmethod
    def of(cls, window: int, slide: int, pane: int, length: int) -> WindowShape:
        """From lengths in seconds: of the window, the slide, a pane and a part of the source."""
        return cls(window // length, slide // length, window // pane, slide // pane)


@dataclass(frozen=True)
class WindowSizes:
    """Measured or guessed: rows in a part of the source; groups in a pane, in a window and in a helper that keeps sums.

    The values are entries, where they are more than groups. A helper of sums forgets a group after a window without
    rows, so it has at most the groups of two windows: without a measure, as many as one window has.
    """

    rows_a_part: float
    groups_a_pane: float
    groups_in_window: float
    groups_alive: float | None = None
    values_a_pane: float | None = None
    values_in_window: float | None = None
    values_alive: float | None = None

    @property
    def entries_a_pane(self) -> float:
        return self.groups_a_pane if self.values_a_pane is None else self.values_a_pane

    @property
    def entries_in_window(self) -> float:
        return self.groups_in_window if self.values_in_window is None else self.values_in_window

    @property
    def entries_alive(self) -> float:
        if self.values_alive is not None:
            return self.values_alive
        return self.entries_in_window if self.groups_alive is None else max(self.groups_alive, self.entries_in_window)


@dataclass(frozen=True)
class WindowCost:
    """The work of one part of the view, its helper's parts included."""

    strategy: str
    read: float
    aggregated: float
    written: float
    jobs: int

    @property
    def total(self) -> float:
        rows = self.read * READ_ROW + self.aggregated * AGGREGATE_ROW + self.written * WRITE_ROW
        return rows + self.jobs * JOB


def window_costs(sizes: WindowSizes, shape: WindowShape, strategies: Sequence[str]) -> list[WindowCost]:
    """The cost of each of the named strategies, in the order in which they are named."""
    known = {
        "recompute": _recompute,
        "distributive": _distributive,
        "subtractable": _subtractable,
        "differential": _differential,
    }
    return [known[strategy](sizes, shape) for strategy in strategies]


def _recompute(sizes: WindowSizes, shape: WindowShape) -> WindowCost:
    rows = shape.parts_in_window * sizes.rows_a_part
    return WindowCost("recompute", rows, rows, sizes.groups_in_window, 1)


def _distributive(sizes: WindowSizes, shape: WindowShape) -> WindowCost:
    """New rows become panes once; every window merges all its panes."""
    rows = shape.parts_a_slide * sizes.rows_a_part
    made = shape.panes_a_slide * sizes.entries_a_pane
    merged = shape.panes_in_window * sizes.entries_a_pane
    read = rows + merged
    return WindowCost("distributive", read, read, made + sizes.groups_in_window, shape.panes_a_slide + 1)


def _subtractable(sizes: WindowSizes, shape: WindowShape) -> WindowCost:
    """Each pane carries all sums on; a window reads two parts of them, however long it is."""
    rows = shape.parts_a_slide * sizes.rows_a_part
    carried = shape.panes_a_slide * sizes.entries_alive
    read = rows + carried + 2 * sizes.entries_alive
    return WindowCost("subtractable", read, read, carried + sizes.groups_in_window, shape.panes_a_slide + 1)


def _differential(sizes: WindowSizes, shape: WindowShape) -> WindowCost:
    """Rows are read as they enter and as they leave; the view is read off the helper."""
    rows = 2 * shape.parts_a_slide * sizes.rows_a_part
    aggregated = rows + sizes.entries_in_window
    # Where entries are groups, the view is a projection of them; else they are aggregated once more.
    again = sizes.entries_in_window if sizes.values_in_window is not None else 0.0
    return WindowCost(
        "differential",
        aggregated + sizes.entries_in_window,
        aggregated + again,
        sizes.entries_in_window + sizes.groups_in_window,
        2,
    )


def choose(costs: Sequence[WindowCost]) -> WindowCost:
    """The cheapest; of those that cost about the same, the one that is named first."""
    least = min(cost.total for cost in costs)
    return next(cost for cost in costs if cost.total <= NEAR * least)


def window_words(costs: Sequence[WindowCost], reasons: Mapping[str, str | None] | None = None) -> list[str]:
    """For EXPLAIN: the winner, the others from cheap to dear, and of the strategies that cannot be used, why not."""
    best = choose(costs)
    lines = [f"The {best.strategy} strategy costs least: for each part {_work(best)}."]
    others = sorted((cost for cost in costs if cost is not best), key=lambda cost: cost.total)
    lines += [f"The {cost.strategy} strategy would cost {_against(cost, best)}: {_work(cost)}." for cost in others]
    unfit = {strategy: reason for strategy, reason in (reasons or {}).items() if reason is not None}
    return lines + [f"The {strategy} strategy cannot be used. {reason}" for strategy, reason in unfit.items()]


def _against(cost: WindowCost, best: WindowCost) -> str:
    times = cost.total / best.total
    return "about the same" if times < NEAR else f"{times:.1f} times as much"


def _work(cost: WindowCost) -> str:
    jobs = f"{cost.jobs} job" + ("" if cost.jobs == 1 else "s")
    return f"it reads {cost.read:,.0f} rows and writes {cost.written:,.0f} in {jobs}"
