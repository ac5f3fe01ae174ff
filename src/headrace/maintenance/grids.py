"""The points at which a synchronized view may change (SyncSQL 3): multiples of a length, or those of a stream.

What happens between two points is released at the later one. REFRESH EVERY d has a point at each multiple of d. SYNC BY
y has a point at each time at which the relation y changes; a synchronization stream, whose rows are moments at which
they come themselves, is such a relation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

#: When something is released for which no point is known yet.
NOT_YET = 1 << 62


class Grid(Protocol):
    """The points of a view."""

    def floor(self, time: int) -> int | None:
        """The newest point up to `time`; None if there is none."""

    def ceilings(self, times: Times) -> Times:
        """The first point at or after each time; `NOT_YET` where none is known."""

    def before(self, point: int) -> int | None:
        """The point before `point`: later times are released at it or later. None if there is none."""


def ceiling(grid: Grid, time: int) -> int:
    """The first point at or after a time."""
    return int(grid.ceilings(np.array([time], dtype=np.int64))[0])


@dataclass(frozen=True)
class Multiples:
    """Every multiple of a length."""

    length: int

    def floor(self, time: int) -> int | None:
        return time // self.length * self.length

    def ceilings(self, times: Times) -> Times:
        found: Times = -(-times // self.length) * self.length
        return found

    def before(self, point: int) -> int | None:
        return point - self.length


@dataclass(frozen=True)
class Points:
    """Points that are known, in order; more may come after the last."""

    times: Times = field(repr=False)

    def floor(self, time: int) -> int | None:
        place = int(np.searchsorted(self.times, time, side="right"))
        return int(self.times[place - 1]) if place else None

    def ceilings(self, times: Times) -> Times:
        places = np.searchsorted(self.times, times, side="left")
        return np.append(self.times, NOT_YET)[places]

    def before(self, point: int) -> int | None:
        place = int(np.searchsorted(self.times, point, side="left"))
        return int(self.times[place - 1]) if place else None
