"""EXCEPT and INTERSECT, ALL and DISTINCT: by how often each side has a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from headrace.algebra.nodes import Column
from headrace.maintenance.kernels.running import set_operation
from headrace.maintenance.operators.base import Input, Kept, State, concat, hashes_of, quote

_SIDES = (Column("__l", "BIGINT"), Column("__r", "BIGINT"))


@dataclass(frozen=True)
class SetOperator:
    """Both inputs have the same columns by name; the key is the whole row."""

    kind: Literal["except", "intersect"]
    all: bool
    read: Input

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read, self.read)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.read.columns

    @property
    def states(self) -> tuple[State, ...]:
        """One state of two measures, filled from either side: equal rows add up when it is read."""
        keys = ", ".join(quote(name) for name in self.read.names)
        left = f"SELECT {keys}, count(*) AS __l, CAST(0 AS BIGINT) AS __r FROM input_ GROUP BY {keys}"
        right = f"SELECT {keys}, CAST(0 AS BIGINT) AS __l, count(*) AS __r FROM input_ GROUP BY {keys}"
        purpose = "how often each side has each row"
        return (
            State("counts", 0, self.read.columns, self.read.key, left, _SIDES, purpose),
            State("counts", 1, self.read.columns, self.read.key, right, _SIDES, purpose),
        )

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        moved = concat([_side(changes[0], "__l", "__r"), _side(changes[1], "__r", "__l")], _names(self.read))
        old = states["counts"].lookup(hashes_of(moved))
        states["counts"].add(moved.drop_columns(["__t"]))
        found = set_operation(self.kind, self.all, old, moved, self.read.names)
        return found.select([*self.read.names, "__t", "__w"])


def _names(read: Input) -> list[str]:
    return [*read.names, "__h", "__t", "__l", "__r"]


def _side(changes: pa.Table, mine: str, other: str) -> pa.Table:
    changes = changes.rename_columns([mine if name == "__w" else name for name in changes.column_names])
    return changes.append_column(other, pa.array(np.zeros(changes.num_rows, dtype=np.int64)))
