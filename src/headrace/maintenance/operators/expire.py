"""From rows that carry their death to signed rows: +1 at the birth, -1 at the death once the clock has passed it.

This stands where the first operator needs to be told what goes. What is alive is kept in a calendar: the rows that fall
due are a slice of the pages the clock passes, and a page is dropped as a whole. Without a calendar all rows are looked
at each time, which is the thesis' DIRECT approach, kept to be measured against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.deaths import DEATH, NEVER
from headrace.algebra.nodes import Column
from headrace.maintenance.operators.base import Calendar, Clock, Input, Kept, State, bag, concat, negated
from headrace.storage.bags import integers


@dataclass(frozen=True)
class Expire:
    """`read` has the rows' columns and their death; `width` is that of a calendar's page, 0 for none."""

    read: Input
    width: int
    clock: Clock | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.read.columns[:-1]

    @property
    def states(self) -> tuple[State, ...]:
        calendar = Calendar(self.width, in_order=True) if self.width else None
        purpose = "the rows that are alive, by " + ("their death" if calendar else "nothing: all are looked at")
        kept = bag("alive", 0, self.read, self.read.key, purpose)
        content = f"{kept.content} WHERE {DEATH.name} < {NEVER}"
        return (State("alive", 0, kept.columns, kept.key, content, purpose=purpose, calendar=calendar),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (rows,) = changes
        assert self.clock is not None
        names = [*self.read.names, "__h", "__w"]
        alive = states["alive"]
        if self.width:
            gone = alive.due(self.clock.before, self.clock.now).select(names)
        else:
            held = alive.scan()
            gone = held.filter(pc.less_equal(held.column(DEATH.name), self.clock.now)).select(names)
        deaths = integers(rows, DEATH.name)
        lasting = rows.filter(pa.array((deaths > self.clock.now) & (deaths < NEVER))).select(names)
        # A calendar's pages are dropped when they have passed; a heap has to be told which rows are gone.
        alive.add(lasting if self.width else concat([lasting, negated(gone)], names), self.clock.now)
        short = rows.filter(pa.array(deaths <= self.clock.now))
        if not self.clock.timed:
            lasting = rows.filter(pa.array(deaths > self.clock.now))
            return self._signed([(lasting, None, 1), (gone, None, -1)])
        return self._signed([(rows, "__t", 1), (short, DEATH.name, -1), (gone, DEATH.name, -1)])

    def _signed(self, pieces: Sequence[tuple[pa.Table, str | None, int]]) -> pa.Table:
        """Rows at the time in a column, or at none, with a sign."""
        names = [column.name for column in self.columns]
        found = []
        for rows, time, sign in pieces:
            times = np.zeros(rows.num_rows, dtype=np.int64) if time is None else integers(rows, time)
            weights = pa.array(integers(rows, "__w") * sign)
            arrays = [*rows.select(names).columns, pa.array(times), weights]
            found.append(pa.Table.from_arrays(arrays, names=[*names, "__t", "__w"]))
        return concat(found, [*names, "__t", "__w"])
