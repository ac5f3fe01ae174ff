"""The rows of the groups that changed, before and after: for what only the engine can evaluate.

Aggregates without a kernel and window functions are evaluated by the engine over these rows, each version of a group
apart, and the differences of the versions' results are the changes (see `after` in the program).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column
from headrace.maintenance.kernels.versions import explode_weights, versions
from headrace.maintenance.operators.base import Input, Kept, State, bag, beside, hashes_of

#: Since and until when a version of a group lasts (NULL: for ever), and whether a row is one at all or only says that
#: the version is empty.
SPAN = (Column("__since", "BIGINT"), Column("__until", "BIGINT"), Column("__present", "BOOLEAN"))
VERSION = (Column("__version", "BIGINT"), *SPAN)


@dataclass(frozen=True)
class RowsOfGroups:
    """Keeps the input by group."""

    read: Input
    keys: tuple[str, ...]
    purpose: str

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.read.columns + VERSION

    @property
    def states(self) -> tuple[State, ...]:
        return (bag("rows", 0, self.read, self.read.key, self.purpose),)

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (rows,) = changes
        old = states["rows"].lookup(hashes_of(rows))
        seen = versions(old, rows, list(self.keys))
        states["rows"].add(rows.drop_columns(["__t"]))
        # What the group was before needs no evaluation: it was given out, and is kept as it was.
        spans = seen.spans.filter(pc.is_valid(seen.spans.column("__since")))
        wanted = spans.column("__version").combine_chunks()
        full = explode_weights(seen.rows.filter(pc.is_in(seen.rows.column("__version"), value_set=wanted)))
        full = full.select([*self.read.names, "__version"])
        full = full.append_column("__present", pa.array(np.ones(full.num_rows, dtype=bool)))
        full = pa.concat_tables([full, self._empty_versions(full, spans)])
        full = beside(full, spans, ["__since", "__until"])
        zeros = pa.array(np.zeros(full.num_rows, dtype=np.int64))
        return full.append_column("__t", zeros).append_column("__w", zeros)

    def _empty_versions(self, full: pa.Table, spans: pa.Table) -> pa.Table:
        known = full.column("__version").combine_chunks()
        empty = spans.filter(pc.invert(pc.is_in(spans.column("__version"), value_set=known)))
        columns = {}
        for name in self.read.names:
            kind = full.schema.field(name).type
            columns[name] = empty.column(name).cast(kind) if name in self.keys else pa.nulls(empty.num_rows, kind)
        columns["__version"] = empty.column("__version")
        columns["__present"] = pa.array([False] * empty.num_rows, pa.bool_())
        return pa.table(columns).select(full.column_names)
