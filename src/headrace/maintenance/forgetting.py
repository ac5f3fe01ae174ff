"""Rows that RETAIN lets go of, as changes of a stream.

A row is forgotten when the stream's newest time has left it so far behind, in whole parts where the stream has parts. A
view sees that at the first of its points from which on it is so. Rows that were let go of in storage since are found in
the snapshot that the view read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.maintenance.deltas import LogRows
from headrace.maintenance.logs import NEVER
from headrace.storage.records import Part


@dataclass(frozen=True)
class Forgetting:
    """What a stream forgets between two readings.

    `gone` is the time before which rows were forgotten then, `reached` the newest time that counts now. `points` are
    those of the view since, where each counts; otherwise all that goes goes at `now`.
    """

    retain: int
    part_length: int | None
    gone: int | None
    reached: int | None
    now: int
    points: tuple[int, ...] | None

    @property
    def edge(self) -> int:
        """Rows before this are forgotten now."""
        if self.reached is None:
            return -NEVER
        edge = self.reached - self.retain
        return edge if self.part_length is None else edge // self.part_length * self.part_length

    def deaths(self, times: np.ndarray) -> np.ndarray:
        """When rows of some times are forgotten; never, for those that still are not."""
        if self.points is None:
            return np.where(times < self.edge, self.now, NEVER)
        if self.part_length is None:
            from_ = times + self.retain + 1
        else:
            from_ = (times // self.part_length + 1) * self.part_length + self.retain
        points = np.array([*self.points, NEVER], dtype=np.int64)
        return np.where(times < self.edge, points[np.searchsorted(points, from_)], NEVER)

    def with_deaths(self, rows: pa.Table) -> pa.Table:
        return rows.append_column("__dead", pa.array(self.deaths(rows.column("__t").to_numpy())))

    def deaths_sql(self) -> str:
        """As `deaths`, where no single point counts."""
        return f"CASE WHEN __t < {self.edge} THEN {self.now} ELSE {NEVER} END"

    def older(self, parts: Sequence[Part], upto: int | None, *, all_rows: bool) -> LogRows:
        """The rows read before that are forgotten since; with `all_rows` those that go for other reasons too."""
        if upto is None:
            return LogRows((), (), None, None)
        last = upto if all_rows else min(upto, self.edge - 1)
        first = -NEVER if self.gone is None else self.gone
        found = [part for part in parts if (part.newest or 0) >= first and (part.oldest or 0) <= last]
        return LogRows((), tuple(found), first - 1, last)
