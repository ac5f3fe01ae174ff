"""ORDER BY with LIMIT: a buffer of the first rows is kept beside all the others.

A change behind the buffer's last row only goes to the others. When deletes leave the buffer with too few rows, it is
filled again from them: the buffer holds more than the limit, so that takes many deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column, Order
from headrace.maintenance.kernels.ordering import sort_codes, top
from headrace.maintenance.kernels.versions import Versions, difference, versions
from headrace.maintenance.operators.base import Input, Kept, State, bag, concat, quote
from headrace.storage.bags import codes, consolidate

_EVERYTHING = 1 << 62


@dataclass(frozen=True)
class TopOperator:
    """All rows fall into one bucket: the first of all can only be told where all are."""

    read: Input
    order: tuple[Order, ...]
    limit: int | None
    offset: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.read.columns

    @property
    def _buffered(self) -> int:
        """How many rows the buffer holds after it was filled."""
        return _EVERYTHING if self.limit is None else 2 * (self.limit + self.offset) + 64

    @property
    def states(self) -> tuple[State, ...]:
        shown = ", ".join(quote(name) for name in self.read.names)
        ordered = f"SELECT {shown} FROM input_"
        if self.limit is not None:
            ordered += f" ORDER BY {self._order_sql()} LIMIT {self._buffered}"
        first = f"SELECT {shown}, CAST(1 AS BIGINT) AS __w FROM ({ordered})"
        buffer = State("buffer", 0, self.read.columns, (), first, purpose="the first rows")
        # The others are everything, less the buffer: so a fresh one takes two looks at the input.
        rest = bag("others", 0, self.read, (), "all the other rows, for when the buffer runs short")
        taken = f"{rest.content} UNION ALL SELECT {shown}, CAST(-1 AS BIGINT) AS __w FROM ({ordered})"
        return (buffer, State("others", 0, self.read.columns, (), taken, purpose=rest.purpose))

    def _order_sql(self) -> str:
        items = []
        for name, descending, nulls_first in self._whole_order:
            items.append(f"{quote(name)} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}")
        return ", ".join(items)

    def _ties(self) -> list[str]:
        told = {item.column for item in self.order}
        return [name for name in self.read.names if name not in told]

    @property
    def _whole_order(self) -> list[tuple[str, bool, bool]]:
        """The order of rows with ties broken, as `top` does it."""
        return [*self._order, *((name, False, True) for name in self._ties())]

    @property
    def _order(self) -> list[tuple[str, bool, bool]]:
        return [(item.column, item.descending, item.nulls_first) for item in self.order]

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (rows,) = changes
        names = [*self.read.names, "__h", "__w"]
        buffer = states["buffer"].scan().select(names)
        near, far = self._split(buffer, rows)
        seen = versions(buffer, near, [])
        if self._short(buffer, seen):
            others = states["others"].scan().select(names)
            buffer = consolidate(concat([buffer, others], names))
            states["others"].replace(others.slice(0, 0))
            near, far = rows, rows.slice(0, 0)
            seen = versions(buffer, near, [])
        limit = _EVERYTHING if self.limit is None else self.limit
        found = difference(top(seen.rows, self._order, limit, self.offset), seen.spans)
        if near.num_rows:
            self._keep(consolidate(concat([buffer, near], names)), states)
        states["others"].add(far.select(names))
        return found.select([*self.read.names, "__t", "__w"])

    def _split(self, buffer: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Changes up to the buffer's last row, and those behind it."""
        if self.limit is None:
            # The buffer is everything there is.
            return rows, rows.slice(0, 0)
        if buffer.num_rows == 0:
            return rows.slice(0, 0), rows
        names = self.read.names
        both = concat([buffer, rows], names)
        place = np.empty(both.num_rows, dtype=np.int64)
        place[sort_codes(both, self._whole_order)] = np.arange(both.num_rows)
        same = codes(both, names)
        last = int(np.argmax(place[: buffer.num_rows]))
        near = (place[buffer.num_rows :] <= place[last]) | (same[buffer.num_rows :] == same[last])
        return rows.filter(pa.array(near)), rows.filter(pa.array(~near))

    def _short(self, buffer: pa.Table, seen: Versions) -> bool:
        """Whether the buffer has fewer rows than are wanted, now or in some version, while there may be others."""
        if self.limit is None:
            return False
        wanted = self.limit + self.offset
        if not seen.spans.num_rows:
            return int(pc.sum(buffer.column("__w")).as_py() or 0) < wanted
        sums = seen.rows.group_by("__version").aggregate([("__w", "sum")])
        enough = pc.greater_equal(sums.column("__w_sum"), wanted)
        # A version without any rows has no sum.
        return int(pc.sum(enough).as_py() or 0) < seen.spans.num_rows

    def _keep(self, after: pa.Table, states: Mapping[str, Kept]) -> None:
        """Keep the first rows as the buffer; when it has grown too long, the last of them join the others."""
        ordered = after.take(pa.array(sort_codes(after, self._whole_order)))
        counts = np.cumsum(ordered.column("__w").to_numpy())
        cut = ordered.num_rows
        if counts.size and counts[-1] > 2 * self._buffered:
            cut = max(int(np.searchsorted(counts, self._buffered, "right")), 1)
        states["buffer"].replace(ordered.slice(0, cut))
        states["others"].add(ordered.slice(cut))
