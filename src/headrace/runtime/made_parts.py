"""What a refresh of a view that is made part by part did, and that in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Made:
    """What a refresh did: parts made for the first time, made again, and those of them that became different.

    `skipped` are runs of new parts of which it was known without a query that they are empty.
    """

    new: list[int] = field(default_factory=list)
    skipped: list[tuple[int, int]] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    rows_in: int = 0
    rows_out: int = 0

    def words(self) -> str:
        told = [f"made {_parts(self.new, self.skipped)}"] if self.new or self.skipped else []
        if self.again:
            became = [part for part in self.again if part in set(self.changed)]
            told.append(f"made {_parts(self.again)} again, of which {_parts(became) if became else 'none'} changed")
        return "; ".join(told) or "all it needs is awaited"


def _parts(numbers: list[int], more: Sequence[tuple[int, int]] = ()) -> str:
    """Part numbers in words, runs of them by their ends; `more` are such runs."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted([*((number, number) for number in numbers), *more]):
        if runs and first == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    told = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    one = len(runs) == 1 and runs[0][0] == runs[0][1]
    return ("part " if one else "parts ") + (told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}")
