"""Aggregates as classes in Python, each the equal of one in SQL that a test has beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Average:
    """Tells at the end."""

    def initialize(self, x: float | None) -> None:
        self.total, self.count = 0.0, 0
        self.iterate(x)

    def iterate(self, x: float | None) -> None:
        if x is not None:
            self.total += x
            self.count += 1

    def terminate(self) -> Any:
        return self.total / self.count if self.count else (None,)


class Total:
    """Tells after every row; iterate alone serves for the first row too."""

    def __init__(self) -> None:
        self.total = 0.0

    def iterate(self, x: float) -> float:
        self.total += x
        return self.total


class SlidingTotal(Total):
    """The window version, by what leaves."""

    def expire(self, x: float) -> float:
        self.total -= x
        return self.total


class WindowTotal:
    """The window version, by what is in the window."""

    needs_window = True

    def iterate(self, x: float) -> float:
        assert self.inwindow[-1] == (x,)
        assert self.inwindow[0] == next(iter(self.inwindow)) == self.inwindow[:1][0]
        return float(sum(row[0] for row in self.inwindow))

    inwindow: Any


class Largest:
    """The window version with a state of its own that is no plain attribute."""

    __slots__ = ("_best",)

    def __init__(self) -> None:
        self._best: deque[float] = deque()

    def __getstate__(self) -> list[float]:
        return list(self._best)

    def __setstate__(self, state: list[float]) -> None:
        self._best = deque(state)

    def iterate(self, x: float) -> float:
        while self._best and self._best[-1] < x:
            self._best.pop()
        self._best.append(x)
        return self._best[0]

    def expire(self, x: float) -> None:
        if self._best[0] == x:
            self._best.popleft()


class TotalByBatch:
    """As Total, in batches."""

    def __init__(self) -> None:
        self.total = 0.0

    def step(self, batch: pa.RecordBatch) -> pa.Array:
        sums = self.total + np.cumsum(batch.column("x").to_numpy())
        self.total = float(sums[-1])
        return pa.array(sums)


class AverageByBatch:
    """As Average, in batches: nothing but the state until the end."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def step(self, batch: pa.RecordBatch) -> None:
        self.total += pc.sum(batch.column("x")).as_py() or 0.0
        self.count += len(batch) - batch.column("x").null_count

    def terminate(self) -> Any:
        return self.total / self.count if self.count else (None,)


class SlidingAverage:
    """Averages of windows by cumulative sums."""

    def step_window(self, batch: pa.RecordBatch, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(batch.column("x").to_numpy())])
        return (sums[last + 1] - sums[first]) / (last + 1 - first)


class Moments:
    """Several columns, in batches."""

    def step(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        x = batch.column("x")
        return pa.record_batch([x, pc.multiply(x, x)], names=["one", "two"])


class Kinds:
    """Gives back what it is given, checked to be what Python has for it."""

    kinds: ClassVar = (datetime, Decimal, str, bytes, timedelta, bool)

    def iterate(self, *given: Any) -> tuple[Any, ...]:
        for value, kind in zip(given, self.kinds, strict=True):
            assert value is None or isinstance(value, kind)
        assert given[0] is None or given[0].utcoffset() == timedelta(0)
        return given


class Twice:
    """Several rows for each, by a generator; nothing for numbers below zero."""

    def iterate(self, x: float) -> Iterator[Any]:
        if x >= 0:
            yield x, "once"
            yield x, "twice"


class Pair:
    """Several rows for each, as a list."""

    def iterate(self, x: float) -> list[Any]:
        return [x, None]


class Failing:
    """Fails in one of its methods."""

    def iterate(self, x: float) -> Any:
        self.seen = getattr(self, "seen", 0) + 1
        if x == 13:
            raise ValueError("unlucky")
        return "text" if x == 14 else (1, 2) if x == 15 else self.seen


class FailingBatch:
    """Gives one result too few."""

    def step(self, batch: pa.RecordBatch) -> pa.Array:
        return batch.column("x").slice(1)


class Unkept:
    """Has a state that cannot be pickled."""

    def iterate(self, x: float) -> float:
        self.how = lambda: x
        return x


class NoMethods:
    """Nothing of an aggregate."""


class WrongArguments:
    def iterate(self) -> None:
        """It takes too few."""


class NeedsArguments:
    def __init__(self, size: int) -> None:
        self.size = size

    def iterate(self, x: float) -> float:
        return x + self.size


class BothEnds:
    """Terminates and expires, which no version does."""

    def iterate(self, x: float) -> float:
        return x

    def expire(self, x: float) -> None:
        """Nothing."""

    def terminate(self) -> None:
        """Nothing."""


NOT_A_CLASS = 1
