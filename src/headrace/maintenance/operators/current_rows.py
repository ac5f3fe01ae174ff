"""The current row of each key: turns an upsert log's rows into signed changes.

A key's row is replaced by a newer one and ends with a delete. What it was before is only known here, so this is kept
once for a table or stream and serves all views. A row that comes after a newer one of its key changes nothing that is
current; for that, deletes are remembered too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column
from headrace.maintenance.operators.base import Input, Kept, State, concat, quote
from headrace.storage.bags import in_groups, take

#: What an upsert log's rows have beside their columns. `__at` is the row's `__t`, which for changes is taken.
MARKS = (Column("__at", "BIGINT"), Column("__seq", "BIGINT"), Column("__op", "STRING"))


@dataclass(frozen=True)
class CurrentRows:
    """`row` are the object's columns, `key` its key, and `shown` the columns that somebody reads: all unless told."""

    row: tuple[Column, ...]
    key: tuple[str, ...]
    shown: tuple[Column, ...] | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(self.row + MARKS, self.key),)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*(self.row if self.shown is None else self.shown), MARKS[0])

    @property
    def states(self) -> tuple[State, ...]:
        """A fresh one holds the newest row of each key of the log."""
        stored = ", ".join(quote(column.name) for column in self.inputs[0].columns)
        keys = ", ".join(quote(name) for name in self.key)
        newest = f"row_number() OVER (PARTITION BY {keys} ORDER BY __at DESC, __seq DESC) AS __rank"
        content = f"SELECT {stored} FROM (SELECT *, {newest} FROM input_) WHERE __rank = 1"
        purpose = "the current row of each key"
        return (State("current", 0, self.inputs[0].columns, self.key, content, (), purpose, unique=True),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (new,) = changes
        told = list(dict.fromkeys([*self.key, *(column.name for column in (*self.columns, *MARKS)), "__h"]))
        old = states["current"].newest(new, told)
        both = concat([old, new], told)
        is_new = np.arange(both.num_rows) >= old.num_rows
        at, seq = both.column("__at").to_numpy(), both.column("__seq").to_numpy()
        order, key = in_groups(both, self.key, (is_new, seq, at))
        at, is_new = at[order], is_new[order]
        # Of the rows of one key and time the last to come counts; of those before the current one, none does.
        last = np.append((key[1:] != key[:-1]) | (at[1:] != at[:-1]), True) if len(key) else np.empty(0, bool)
        floor = np.full(int(key.max(initial=-1)) + 1, -1)
        floor[key[~is_new]] = np.flatnonzero(~is_new)
        behind = np.arange(len(key)) < floor[key]
        # The current row itself stays in the sequence as what comes before, even if one of its own time replaces it.
        kept = np.flatnonzero((last & ~behind) | ~is_new)
        order, key, is_new = order[kept], key[kept], is_new[kept]
        ends = np.append(key[1:] != key[:-1], True) if len(key) else np.empty(0, bool)
        # The last row of a key is its current one; where that is the old one, nothing changed.
        states["current"].add(take(new, order[ends & is_new] - old.num_rows))
        return self._signed(both, order, key, is_new)

    def _signed(self, rows: pa.Table, order: np.ndarray, key: np.ndarray, is_new: np.ndarray) -> pa.Table:
        """What came and what it replaced, from the sequence of each key's rows."""
        there = pc.equal(rows.column("__op"), "+").to_numpy(zero_copy_only=False)[order]
        times = rows.column("__at").to_numpy()[order]
        follows = np.append(False, key[1:] == key[:-1]) if len(key) else np.empty(0, bool)
        came = np.flatnonzero(is_new & there)
        replaced = np.flatnonzero(is_new & follows & np.roll(there, 1)) - 1
        signed = take(rows.select([column.name for column in self.columns]), order[np.append(replaced, came)])
        moments = np.append(times[replaced + 1], times[came])
        weights = np.append(np.full(len(replaced), -1), np.full(len(came), 1))
        return signed.append_column("__t", pa.array(moments)).append_column("__w", pa.array(weights))
