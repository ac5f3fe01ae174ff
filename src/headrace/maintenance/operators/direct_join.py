"""An inner join of rows that carry their death: a pair dies with the first of its two, and nothing is taken back.

Only arrivals come in. Each side is kept in a calendar by the deaths of its rows, so that dead ones are dropped in whole
files without being looked for; of a side that dies in the order of its births (WKS) only the last page is ever written,
which makes the calendar a queue. A row that is dead and still there meets nobody: a pair must live when it is born.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.deaths import DEATH, NEVER
from headrace.algebra.nodes import Column, Equal
from headrace.maintenance.kernels.joining import bilinear
from headrace.maintenance.operators.base import Calendar, Clock, Input, Kept, State, bag, hashes_of, negated

#: Where nobody asks when a pair is born, it is born before all times.
_ALWAYS = -NEVER


@dataclass(frozen=True)
class DirectJoin:
    """`widths` are those of each side's pages; 0 for a side whose rows never die. `scanned`: there are no pages."""

    left: Input
    right: Input
    equal: tuple[Equal, ...]
    widths: tuple[int, int]
    scanned: bool = False
    clock: Clock | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns[:-1], *self.right.columns[:-1], DEATH)

    @property
    def states(self) -> tuple[State, ...]:
        return (self._side("left", 0, self.left), self._side("right", 1, self.right))

    def _side(self, name: str, number: int, read: Input) -> State:
        width = 0 if self.scanned else self.widths[number]
        kept = bag(
            name, number, read, read.key, f"the {name} side by the join's key" + (", and by death" * bool(width))
        )
        return replace(kept, calendar=Calendar(width) if width else None)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        assert self.clock is not None
        left, right = changes if self.clock.timed else [_at_no_time(rows) for rows in changes]
        left_old, right_old = states["left"].lookup(hashes_of(right)), states["right"].lookup(hashes_of(left))
        null_safe = [pair.null_safe for pair in self.equal]
        pairs = bilinear(left, right, left_old, right_old, list(self.left.key), list(self.right.key), null_safe)
        for name, rows, width in zip(("left", "right"), changes, self.widths, strict=True):
            if rows.num_rows:
                states[name].add(rows.drop_columns(["__t"]), self.clock.now)
            if self.scanned and width:
                self._look_for_dead(states[name])
        return pairs.select([column.name for column in self.columns] + ["__t", "__w"])

    def _look_for_dead(self, kept: Kept) -> None:
        assert self.clock is not None
        rows = kept.scan()
        dead = rows.filter(pc.less_equal(rows.column(DEATH.name), self.clock.now))
        if dead.num_rows:
            kept.add(negated(dead))


def _at_no_time(rows: pa.Table) -> pa.Table:
    times = pa.array(np.full(rows.num_rows, _ALWAYS, dtype=np.int64))
    return rows.set_column(rows.column_names.index("__t"), "__t", times)
