"""The aggregates of the ESL experiments as a user would write them by hand, in Python with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.maintenance.user_aggregates.plain import _hash

HASHES, WIDTH = 4, 64


class SlidingAverage:
    """The average of every window, from running sums."""

    def step_window(self, batch: Any, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(batch.column("x").to_numpy(zero_copy_only=False))])
        return (sums[last + 1] - sums[first]) / (last + 1 - first)


class FrequentItems:
    """Counting filters: a counter in each of some tables, added to by what comes and taken from by what leaves."""

    def __init__(self) -> None:
        self.counters = [[0] * WIDTH for _ in range(HASHES)]

    def iterate(self, item: int) -> int:
        least = None
        for number, table in enumerate(self.counters):
            place = abs(_hash(item, number)) % WIDTH
            table[place] += 1
            least = table[place] if least is None or table[place] < least else least
        return least or 0

    def expire(self, item: int) -> None:
        for number, table in enumerate(self.counters):
            table[abs(_hash(item, number)) % WIDTH] -= 1
