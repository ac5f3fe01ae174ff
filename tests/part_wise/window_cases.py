"""Window views for tests: shapes of windows, and queries with what they should give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.algebra.part_wise.windows.window_functions import possible_strategies, window_functions
from headrace.algebra.part_wise.windows.window_query import WindowQuery, WindowSource, window_query
from headrace.language import CreateView, parse_one
from tests.part_wise.brute_window import COLUMNS, LENGTH, Row, Rows, alike, expected
from tests.part_wise.part_runner import PartRunner

SOURCE = WindowSource("S", COLUMNS, LENGTH)
#: Window and slide in parts of the source: slides of one part and of several, windows that are no multiple of them.
SHAPES = ((4, 1), (2, 1), (6, 2), (7, 2), (5, 3), (10, 4), (9, 3))


def described(select: str, slide: int, source: WindowSource = SOURCE) -> WindowQuery:
    """The description of a query; `slide` in seconds."""
    view = parse_one(f"CREATE VIEW v AS {select} PARTITION LENGTH {slide}")
    assert isinstance(view, CreateView)
    return window_query(view.query, slide, source)


@dataclass(frozen=True)
class Case:
    """A query with keys and calls, and the same as Python functions."""

    calls: Sequence[str]
    keys: str = "g"
    key: Callable[[Row], tuple[Any, ...]] = lambda row: (row.g,)
    where: str = ""
    keep: Callable[[Row], bool] = lambda row: True
    having: str = ""
    pass_on: Callable[[Rows], bool] = lambda rows: True

    def query(self, window: int, slide: int) -> WindowQuery:
        items = ", ".join([self.keys, *(f"{call} AS c{number}" for number, call in enumerate(self.calls))])
        where, having = f"WHERE {self.where}" if self.where else "", f"HAVING {self.having}" if self.having else ""
        group = ", ".join(map(str, range(1, self.keys.count(", ") + 2)))
        return described(
            f"SELECT {items} FROM S [WINDOW {window * LENGTH} SECONDS] {where} GROUP BY {group} {having}",
            slide * LENGTH,
        )

    def functions(self, window: int, slide: int) -> dict[str, list[str]]:
        """The statements of every strategy that can be used; the view is called v_ and the strategy."""
        query = self.query(window, slide)
        possible = [strategy for strategy, reason in possible_strategies(query).items() if reason is None]
        return {strategy: window_functions(query, strategy, f"v_{strategy}") for strategy in possible}

    def check(
        self, runner: PartRunner, rows: Sequence[Row], functions: Mapping[str, list[str]], window: int, slide: int
    ) -> None:
        """Run the statements and compare each part of each view with brute force."""
        kept = [row for row in rows if self.keep(row)]
        wanted: dict[int, list[tuple[Any, ...]]] = {}
        for strategy, statements in functions.items():
            view = f"v_{strategy}"
            for statement in statements:
                runner.run(statement)
            assert len(runner.parts(view)) >= (len(runner.parts("S")) - 2 * window) // slide - 1, strategy
            for part in runner.parts(view):
                if part not in wanted:
                    wanted[part] = expected(
                        kept, part, window * LENGTH, slide * LENGTH, self.key, self.calls, self.pass_on
                    )
                found = runner.store.rows(view, part)
                assert alike(found, wanted[part]), (strategy, part, found, wanted[part])
