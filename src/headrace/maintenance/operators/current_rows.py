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
from headrace.maintenance.operators.base import Input, Kept, State, concat, hashes_of, quote
from headrace.storage.identity import codes

#: What an upsert log's rows have beside their columns. `__at` is the row's `__t`, which for changes is taken.
MARKS = (Column("__at", "BIGINT"), Column("__seq", "BIGINT"), Column("__op", "STRING"))


@dataclass(frozen=True)
class CurrentRows:
    """`row` are the object's columns, `key` its key."""

    row: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (Input(self.row + MARKS, self.key),)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.row, MARKS[0])

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
        (rows,) = changes
        names = [column.name for column in self.inputs[0].columns] + ["__h"]
        old = states["current"].lookup(hashes_of(rows)).select(names)
        new = rows.select(names)
        both = concat([old, new], names)
        is_new = np.arange(both.num_rows) >= old.num_rows
        key = codes(both, list(self.key))
        at, seq = both.column("__at").to_numpy(), both.column("__seq").to_numpy()
        order = np.lexsort((is_new, seq, at, key))
        key, at, is_new = key[order], at[order], is_new[order]
        # Of the rows of one key and time the last to come counts; of those before the current one, none does.
        last = np.append((key[1:] != key[:-1]) | (at[1:] != at[:-1]), True) if len(key) else np.empty(0, bool)
        floor = np.full(int(key.max(initial=-1)) + 1, -1)
        floor[key[~is_new]] = np.flatnonzero(~is_new)
        behind = np.arange(len(key)) < floor[key]
        # The current row itself stays in the sequence as what comes before, even if one of its own time replaces it.
        kept = np.flatnonzero((last & ~behind) | ~is_new)
        sequence = both.take(pa.array(order[kept]))
        return self._signed(sequence, key[kept], is_new[kept], names, states)

    def _signed(
        self, sequence: pa.Table, key: np.ndarray, is_new: np.ndarray, names: list[str], states: Mapping[str, Kept]
    ) -> pa.Table:
        there = pc.equal(sequence.column("__op"), "+").to_numpy(zero_copy_only=False)
        follows = np.append(False, key[1:] == key[:-1]) if len(key) else np.empty(0, bool)
        came = np.flatnonzero(is_new & there)
        replaced = np.flatnonzero(is_new & follows & np.roll(there, 1)) - 1
        times = sequence.column("__at").to_numpy()
        shown = [column.name for column in self.columns]
        plus = sequence.take(pa.array(came)).select(shown)
        plus = plus.append_column("__t", pa.array(times[came])).append_column("__w", _ones(len(came), 1))
        minus = sequence.take(pa.array(replaced)).select(shown)
        minus = minus.append_column("__t", pa.array(times[replaced + 1])).append_column("__w", _ones(len(replaced), -1))
        ends = np.append(key[1:] != key[:-1], True) if len(key) else np.empty(0, bool)
        # The last row of a key is its current one; where that is the old one, nothing changed.
        states["current"].add(sequence.take(pa.array(np.flatnonzero(ends & is_new))).select(names))
        return concat([minus, plus], [*shown, "__t", "__w"])


def _ones(count: int, weight: int) -> pa.Array:
    return pa.array(np.full(count, weight, dtype=np.int64))
