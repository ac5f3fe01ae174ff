"""Which rows a changed number decides anew: all that a comparison with a scalar subquery has to be told of.

Where the rows of a side are only compared with, as an average is by ``WHERE balance > (SELECT avg(balance) ...)``, a
row of the other side stays where it was unless its comparison comes out otherwise. Between the old average and the new
one lie few rows; pairing all others with both would tell the same in a thousand times as many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column
from headrace.maintenance.kernels.scalars import NotHere, compiled
from headrace.storage.bags import codes, consolidate, take
from headrace.storage.identity import Bools

#: With more rows to compare with, pairing them all is as good.
_MOST = 8


@dataclass(frozen=True)
class Verdict:
    """The expressions that pairs of a join must pass before the columns of its right side, `told`, are seen no more."""

    predicates: tuple[Any, ...]
    kept: tuple[Column, ...]
    told: tuple[Column, ...]
    engine: str

    @property
    def can_be_given(self) -> bool:
        """Whether it can be told without asking the engine."""
        return _tests(self) is not None

    def disputed(self, rows: pa.Table, changes: pa.Table) -> pa.Table:
        """Of the left rows, those for which the right's changes make a difference, and perhaps more."""
        names = [column.name for column in self.told]
        tests = _tests(self)
        if tests is None or not rows.num_rows or not changes.num_rows:
            return rows
        values = take(changes, np.unique(codes(changes, names), return_index=True)[1])
        if values.num_rows > _MOST:
            return rows
        every, some = np.ones(rows.num_rows, dtype=np.bool_), np.zeros(rows.num_rows, dtype=np.bool_)
        try:
            for number in range(values.num_rows):
                pairs = rows.select([column.name for column in self.kept])
                for name in names:
                    pairs = pairs.append_column(name, pa.repeat(values.column(name)[number], rows.num_rows))
                passed = _all(tests, pairs)
                every &= passed
                some |= passed
        except NotHere:
            return rows
        # Whoever passes with each of them has as many pairs as before, if there are as many of them as before.
        same = consolidate(changes.select(["__t", "__w"])).num_rows == 0
        return take(rows, np.flatnonzero(some & ~every if same else some))


def _all(tests: Sequence[Callable[[pa.Table], pa.Array]], pairs: pa.Table) -> Bools:
    found = np.ones(pairs.num_rows, dtype=np.bool_)
    for test in tests:
        found &= np.asarray(pc.fill_null(test(pairs), False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return found


@lru_cache(maxsize=64)
def _tests(verdict: Verdict) -> tuple[Callable[[pa.Table], pa.Array], ...] | None:
    types = {column.name: column.type for column in (*verdict.kept, *verdict.told)}
    found = [compiled(predicate, types, "BOOLEAN", verdict.engine) for predicate in verdict.predicates]
    tests = [test for test in found if test is not None]
    return tuple(tests) if len(tests) == len(found) else None
