"""Windows of ROWS: the newest rows of a stream, or of each value of some columns, are all that is kept.

Rows stand in the order of their time and number of arrival. The row number r of that order comes into
`[ROWS n SLIDE m]` with the row whose number is the next multiple of m at or after r, and goes with the one that is so
for r + n: only arrivals move such a window. Rows that come too late for their place push the others on; at one time
alone, since whoever follows every time makes its log again then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.algebra.nodes import Column
from headrace.maintenance.operators.base import Input, Kept, State, concat, hashes_of, quote
from headrace.storage.bags import codes, consolidate

_RANK = Column("__rank", "BIGINT")


@dataclass(frozen=True)
class NewestRows:
    """`time` and `number` are the columns rows are ordered by; the input's key is what they are partitioned by."""

    read: Input
    time: str
    number: str
    length: int | None
    slide: int | None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.read.columns

    @property
    def _kept(self) -> int:
        """So many of the newest rows can still come in, or are in and can go. One is kept in any case, for its rank."""
        return max(1, (self.length or 0) + (self.slide or 1) - 1)

    @property
    def states(self) -> tuple[State, ...]:
        shown = ", ".join(quote(name) for name in self.read.names)
        by = ", ".join(quote(name) for name in self.read.key)
        partition = f"PARTITION BY {by}" if by else ""
        order = f"{quote(self.time)}, {quote(self.number)}"
        ranked = (
            f"SELECT *, CAST(row_number() OVER ({partition} ORDER BY {order}) AS BIGINT) AS __rank,"
            f" count(*) OVER ({partition}) AS __count FROM input_"
        )
        kept = f"SELECT {shown}, __rank, CAST(1 AS BIGINT) AS __w"
        content = f"{kept} FROM ({ranked}) WHERE __rank > __count - {self._kept}"
        columns = (*self.read.columns, _RANK)
        return (State("newest", 0, columns, self.read.key, content, purpose="the newest rows, with their numbers"),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (rows,) = changes
        names = [*self.read.names, "__h"]
        kept = states["newest"].lookup(hashes_of(rows))
        both = concat([rows.select(names), kept.select(names)], names)
        group = codes(both, self.read.key) if self.read.key else np.zeros(both.num_rows, dtype=np.int64)
        is_new = np.arange(both.num_rows) < rows.num_rows
        ranks = np.concatenate([np.zeros(rows.num_rows, np.int64), kept.column("__rank").to_numpy()])
        moments = np.concatenate([rows.column("__t").to_numpy(), np.zeros(kept.num_rows, np.int64)])
        # A hash may be that of other groups too, which did not change.
        mine = np.flatnonzero(np.isin(group, group[is_new]))
        keys = (both.column(self.number).to_numpy()[mine], both.column(self.time).to_numpy()[mine], group[mine])
        order = mine[np.lexsort(keys)]
        found = _Ordered(group[order], is_new[order], ranks[order], moments[order])
        self._keep(both.take(pa.array(order)), found, states)
        where, times, signs = self._events(found)
        given = both.take(pa.array(order[where])).select(self.read.names)
        return given.append_column("__t", pa.array(times)).append_column("__w", pa.array(signs))

    def _events(self, rows: _Ordered) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows come in or go out, when, and with which sign."""
        late = rows.is_late
        pieces = []
        for sign, distance in ((1, 0), (-1, self.length)):
            if distance is not None:
                by = rows.numbered(self._multiple(rows.rank + distance))
                there = np.flatnonzero((by >= 0) & ~late)
                there = there[rows.is_new[by[there]]]
                pieces.append((there, rows.moment[by[there]], np.full(len(there), sign, np.int64)))
        was, is_ = self._shown(rows.before, rows.total_before) & ~rows.is_new, self._shown(rows.rank, rows.total)
        for sign, chosen in ((1, is_ & ~was & late), (-1, was & ~is_ & late)):
            there = np.flatnonzero(chosen)
            pieces.append((there, rows.newest_moment[there], np.full(len(there), sign, np.int64)))
        return tuple(np.concatenate([piece[n] for piece in pieces]) for n in range(3))  # type: ignore[return-value]

    def _multiple(self, ranks: np.ndarray) -> np.ndarray:
        slide = self.slide or 1
        return -(-ranks // slide) * slide

    def _shown(self, ranks: np.ndarray, totals: np.ndarray) -> np.ndarray:
        last = totals - totals % (self.slide or 1)
        return (ranks <= last) if self.length is None else (ranks <= last) & (ranks > last - self.length)

    def _keep(self, table: pa.Table, rows: _Ordered, states: Mapping[str, Kept]) -> None:
        names = [*self.read.names, "__h", "__rank", "__w"]
        stay, old = np.flatnonzero(rows.rank > rows.total - self._kept), np.flatnonzero(~rows.is_new)
        pieces = []
        for where, ranks, weight in ((stay, rows.rank, 1), (old, rows.before, -1)):
            piece = table.take(pa.array(where)).append_column("__rank", pa.array(ranks[where]))
            pieces.append(piece.append_column("__w", pa.array(np.full(len(where), weight, np.int64))))
        states["newest"].add(consolidate(concat(pieces, names)))


class _Ordered:
    """Rows of some groups in order. `before` is a row's number so far, 0 for new ones, `rank` what it is now."""

    def __init__(self, group: np.ndarray, is_new: np.ndarray, before: np.ndarray, moment: np.ndarray) -> None:
        self.is_new, self.before, self.moment = is_new, before, moment
        place = np.arange(len(group))
        self._starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else place
        sizes = np.diff(np.append(self._starts, len(group)))
        self._start = np.repeat(self._starts, sizes)
        self._end = self._start + np.repeat(sizes, sizes)
        self.total_before = self._whole(np.maximum, before)
        # Rows before the oldest that is kept have numbers too.
        self._dropped = self.total_before - self._whole(np.add, (~is_new).astype(np.int64))
        self.rank = self._dropped + place - self._start + 1
        self.total = self._dropped + self._end - self._start
        self.newest_moment = self._whole(np.maximum, np.where(is_new, moment, np.iinfo(np.int64).min))
        first_new = self._whole(np.minimum, np.where(is_new, place, len(place)))
        last_old = self._whole(np.maximum, np.where(is_new, -1, place))
        self.is_late = last_old > first_new

    def _whole(self, function: np.ufunc, values: np.ndarray) -> np.ndarray:
        """A value for each row's group."""
        if not len(values):
            return values
        return np.repeat(function.reduceat(values, self._starts), np.diff(np.append(self._starts, len(values))))

    def numbered(self, ranks: np.ndarray) -> np.ndarray:
        """Where, in its own group, the row of each number stands; -1 if it is not among these rows."""
        place = ranks - self._dropped - 1 + self._start
        return np.where((place >= self._start) & (place < self._end), place, -1)
