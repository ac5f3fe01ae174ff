"""A result that only grows: every row with the time of its birth, from which the result at any time follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.engine import Engine
from headrace.language import Window
from headrace.maintenance.windows import since


@dataclass(frozen=True)
class Grown:
    """`table` has the result's columns under plain names, then `__t`, then the times that `outlived` windows go by."""

    fields: tuple[tuple[str, str], ...]
    table: pa.Table
    outlived: tuple[tuple[str, Window], ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.fields]

    def upto(self, time: int) -> pa.Table:
        """The rows born up to `time` that no external window has taken along."""
        born = self.table.filter(pc.less_equal(self.table.column("__t"), time))
        for column, window in self.outlived:
            gone = since(window, time)
            if gone is not None:
                born = born.filter(pc.greater(born.column(column), gone))
        return born

    def at(self, engine: Engine, time: int) -> Any:
        """The result at `time`."""
        rows = self.upto(time)
        return engine.frame(rows.select(rows.column_names[: len(self.fields)])).toDF(*self.names)

    def with_times(self, engine: Engine, time: int, after: int | None) -> Any:
        """The result at `time` beside each row's birth as `__t`, without rows born up to `after`."""
        rows = self.upto(time)
        if after is not None:
            rows = rows.filter(pc.greater(rows.column("__t"), after))
        kept = [*rows.column_names[: len(self.fields)], "__t"]
        return engine.frame(rows.select(kept)).toDF(*self.names, "__t")
