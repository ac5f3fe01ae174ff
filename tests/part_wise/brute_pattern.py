"""Patterns by brute force: every group's rows from the beginning, one after the other, in plain Python.

It shares nothing with the translation: predicates are Python functions, and a run is the list of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Row = Mapping[str, Any]
#: The new row and the run's last row (None where the row begins a run); None is not true.
Predicate = Callable[[Row, Any], "bool | None"]
#: A run: the number of each row's variable, from 1, and the row.
Run = list[tuple[int, Row]]


@dataclass(frozen=True)
class BrutePattern:
    """`enter[p]` is asked of a row that enters variable p (from 0), `repeat[p]` of one that repeats it; None: no +."""

    enter: Sequence[Predicate]
    repeat: Sequence[Predicate | None]
    groups: Sequence[str] = ()
    within: timedelta | None = None
    keep: Callable[[Row], bool | None] = lambda row: True

    def accepting(self, parts: Iterable[tuple[datetime, Sequence[Row]]]) -> list[list[Run]]:
        """The accepting runs at the end of each part, which is its start and its rows, a group's at different `ts`."""
        runs: dict[tuple[Any, ...], Run] = {}
        found: list[list[Run]] = []
        for start, rows in parts:
            kept = [row for row in rows if self.keep(row)]
            for row in sorted(kept, key=lambda row: row["ts"]):
                key = tuple(row[name] for name in self.groups)
                run = self._after(runs.get(key, []), row)
                runs[key] = run
            for key, run in runs.items():
                if run and self.within is not None and start - run[0][1]["ts"] > self.within:
                    runs[key] = []
            found.append([run for run in runs.values() if run and run[-1][0] == len(self.enter)])
        return found

    def _after(self, run: Run, row: Row) -> Run:
        if run:
            state, last = run[-1]
            late = self.within is not None and row["ts"] - run[0][1]["ts"] > self.within
            again = self.repeat[state - 1]
            if not late and again is not None and again(row, last):
                return [*run, (state, row)]
            if not late and state < len(self.enter) and self.enter[state](row, last):
                return [*run, (state + 1, row)]
        return [(1, row)] if self.enter[0](row, None) else []


def of(run: Run, name: str, state: int | None = None) -> list[Any]:
    """A column's values in a run: of one variable's rows, or of all."""
    return [row[name] for number, row in run if state in (None, number)]


def known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def total(values: Iterable[Any]) -> Any:
    """SUM: NULL over nothing."""
    found = known(values)
    return sum(found[1:], start=found[0]) if found else None
