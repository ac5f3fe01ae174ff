"""A join of rows that carry their death, whose results somebody has to be told of when they die: both in one place.

It is a `DirectJoin` and an `Expire` one after the other. Where nothing has to be evaluated between the two they share a
stage, and the pairs need not be moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headrace.algebra.deaths import DEATH
from headrace.algebra.nodes import Column
from headrace.maintenance.operators.base import Clock, Input, Kept, State
from headrace.maintenance.operators.direct_join import DirectJoin
from headrace.maintenance.operators.expire import Expire


@dataclass(frozen=True)
class ExpiringJoin:
    """`picked` are the columns of a pair that a result has, in its order."""

    join: DirectJoin
    expire: Expire
    picked: tuple[str, ...]
    clock: Clock | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.join.inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.expire.columns

    @property
    def states(self) -> tuple[State, ...]:
        return (*self.join.states, *self.expire.states)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        pairs = replace(self.join, clock=self.clock).delta(changes, states)
        zeros = pa.array(np.zeros(pairs.num_rows, dtype=np.int64))
        arrays = [pairs.column(name) for name in (*self.picked, DEATH.name, "__t", "__w")]
        names = [*self.expire.read.names, "__t", "__w"]
        rows = pa.Table.from_arrays([*arrays, zeros], names=[*names, "__h"])
        return replace(self.expire, clock=self.clock).delta([rows], states)
