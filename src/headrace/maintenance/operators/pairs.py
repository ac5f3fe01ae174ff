"""Pairs under any condition, and generators above other operators: the engine does the work, over what is kept here.

A join without an equality cannot be looked up by a key. Its sides are kept whole, and the engine joins the changes of
each with what the other has (see `after` in the program). A generator keeps nothing: its rows only have to be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.algebra.nodes import Column
from headrace.language.types import arrow_type
from headrace.maintenance.operators.base import Input, Kept, State, bag

#: Which side a row that is passed on comes from.
SIDE = Column("__side", "INT")


@dataclass(frozen=True)
class PairsOperator:
    """Keeps two sides, if there are two, and passes their changes on."""

    left: Input
    right: Input | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left,) if self.right is None else (self.left, self.right)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns if self.right is None else (*self.left.columns, *self.right.columns, SIDE)

    @property
    def states(self) -> tuple[State, ...]:
        if self.right is None:
            return ()
        return (
            bag("left", 0, self.left, (), "the left side, to be joined as a whole"),
            bag("right", 1, self.right, (), "the right side, to be joined as a whole"),
        )

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        if self.right is None:
            return changes[0].select([*self.left.names, "__t", "__w"])
        passed = []
        for side, (name, rows) in enumerate(zip(("left", "right"), changes, strict=True)):
            states[name].add(rows.drop_columns(["__t"]))
            passed.append(self._passed(rows, side))
        return pa.concat_tables(passed)

    def _passed(self, rows: pa.Table, side: int) -> pa.Table:
        found = {}
        for column in self.columns[:-1]:
            known = column.name in rows.column_names
            found[column.name] = rows.column(column.name) if known else pa.nulls(rows.num_rows, arrow_type(column.type))
        found[SIDE.name] = pa.array(np.full(rows.num_rows, side, dtype=np.int32))
        return pa.table({**found, "__t": rows.column("__t"), "__w": rows.column("__w")})
