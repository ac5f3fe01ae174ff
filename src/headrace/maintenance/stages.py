"""What runs in a task: the operators of one level, over the buckets whose changes came to it.

A stage is an Arrow function over one partition of wide rows. It hands each operator its changes, bucket by bucket,
passes rows of other edges on, and writes the new runs of the states. The names of the files it wrote are rows too
(`__note`): only what is named in the job's result counts, so a task that died or ran twice leaves nothing that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.algebra.nodes import Column
from headrace.language.types import arrow_type
from headrace.maintenance.kept import Held, KeptBucket
from headrace.maintenance.operators.base import Operator
from headrace.maintenance.wide import MARKS, NOTE_EDGE, ROUTE

_BATCH = 1 << 16


@dataclass(frozen=True)
class Slot:
    """An edge as a task needs it: which input of which operator it feeds."""

    edge: int
    slot: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Exit:
    """An edge that an operator's output leaves by."""

    edge: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Work:
    """One operator of a level."""

    number: int
    operator: Operator
    slots: tuple[Slot, ...]
    exits: tuple[Exit, ...]
    states: Mapping[str, Held]


@dataclass(frozen=True)
class Stage:
    """The function of one level. `columns` are the wide columns it gives."""

    root: str
    version: int
    buckets: int
    work: tuple[Work, ...]
    reads: tuple[Column, ...]
    columns: tuple[Column, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = wide_schema((*MARKS, *self.reads, *ROUTE))
        came = [batch for batch in batches if batch.num_rows]
        if not came:
            return
        rows = pa.Table.from_batches(came).cast(schema).combine_chunks()
        places = rows.column("__b").to_numpy()
        passed = rows.filter(pa.array(places < 0))
        if passed.num_rows:
            yield from self._wide(passed)
        for place in np.unique(places[places >= 0]):
            mine = rows.filter(pa.array(places == place))
            yield from self._bucket(int(place) // self.buckets, int(place) % self.buckets, mine)

    def _bucket(self, number: int, bucket: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        work = next(item for item in self.work if item.number == number)
        edges = rows.column("__e").to_numpy()
        changes = []
        for slot, read in enumerate(work.operator.inputs):
            schema = wide_schema((*read.columns, *MARKS[1:3], ROUTE[0]))
            chosen = [entry.edge for entry in work.slots if entry.slot == slot]
            # An input that cannot change this time has no columns among the rows.
            mine = (
                rows.filter(pa.array(np.isin(edges, chosen))).select(schema.names) if chosen else schema.empty_table()
            )
            changes.append(mine)
        opened = {name: KeptBucket(self.root, self.version, held, bucket) for name, held in work.states.items()}
        found = work.operator.delta(changes, opened)
        for leaving in work.exits:
            yield from self._wide(found.append_column("__e", _constant(leaving.edge, found.num_rows)))
        notes = [kept.note() for kept in opened.values()]
        yield from self._notes([note for note in notes if note is not None])

    def _wide(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows of some edge with all of the stage's columns, NULL where the edge has none."""
        arrays = []
        schema = wide_schema((*MARKS, *self.columns))
        for item in schema:
            known = item.name in rows.column_names
            arrays.append(rows.column(item.name).cast(item.type) if known else pa.nulls(rows.num_rows, item.type))
        yield from pa.Table.from_arrays(arrays, schema=schema).combine_chunks().to_batches(max_chunksize=_BATCH)

    def _notes(self, notes: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if notes:
            yield from self._wide(
                pa.table({"__e": _constant(NOTE_EDGE, len(notes)), "__note": pa.array(notes, pa.string())})
            )


def wide_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, dtype=np.int32))
