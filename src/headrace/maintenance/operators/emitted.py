"""What has been given out for each group: takes back exactly that when the group changes.

The engine need not give the same answer twice: a sum of floating-point numbers depends on the order of its rows, and
so do row numbers of ties. Were the old result worked out again to be taken back, the difference would stay behind for
ever. So results are kept as they were given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column
from headrace.maintenance.operators.base import Input, Kept, State, concat, hashes_of, negated, quote
from headrace.maintenance.operators.rows_of_groups import SPAN
from headrace.storage.bags import consolidate
from headrace.storage.identity import codes


@dataclass(frozen=True)
class EmittedOperator:
    """`row` are the results' columns, `keys` those of the group."""

    row: tuple[Column, ...]
    keys: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(self.row + SPAN, self.keys),)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.row

    @property
    def states(self) -> tuple[State, ...]:
        shown = ", ".join(quote(column.name) for column in self.row)
        content = f"SELECT {shown}, CAST(1 AS BIGINT) AS __w FROM input_"
        return (State("emitted", 0, self.row, self.keys, content, purpose="the results as they were given out"),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (results,) = changes
        names = [column.name for column in self.row]
        old = states["emitted"].lookup(hashes_of(results)).select([*names, "__h", "__w"])
        ended = self._ended(old, results)
        there = results.filter(results.column("__present"))
        came = _timed(there, "__since", 1, names)
        went = _timed(there.filter(pc.is_valid(there.column("__until"))), "__until", -1, names)
        lasting = there.filter(pc.is_null(there.column("__until")))
        kept = lasting.select([*names, "__h"]).append_column("__w", _ones(lasting.num_rows))
        states["emitted"].add(concat([kept, negated(ended.drop_columns(["__t"]))], [*names, "__h", "__w"]))
        gone = negated(ended).select([*names, "__t", "__w"])
        return consolidate(concat([gone, came, went], [*names, "__t", "__w"]))

    def _ended(self, old: pa.Table, results: pa.Table) -> pa.Table:
        """The old results of the groups that changed, each with the time at which the first new one begins."""
        both = concat([old, results], [*self.keys, "__h"])
        group = codes(both, list(self.keys)) if self.keys else np.zeros(both.num_rows, dtype=np.int64)
        first = np.full(int(group.max()) + 1 if len(group) else 0, np.iinfo(np.int64).max)
        np.minimum.at(first, group[old.num_rows :], results.column("__since").to_numpy())
        times = first[group[: old.num_rows]]
        touched = times < np.iinfo(np.int64).max
        # Another group may have the same hash: it is looked up too, and stays.
        return old.filter(pa.array(touched)).append_column("__t", pa.array(times[touched]))


def _timed(rows: pa.Table, time: str, weight: int, names: list[str]) -> pa.Table:
    found = rows.select(names).append_column("__t", rows.column(time).cast(pa.int64()))
    return found.append_column("__w", pa.array(np.full(rows.num_rows, weight, dtype=np.int64)))


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))
