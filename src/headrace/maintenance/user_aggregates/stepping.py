"""One step of a block: the rows that are new, and of the groups they belong to what they keep.

What groups keep lies in an arrangement for each call, by the columns it is partitioned by. Only groups with new rows
are looked up, and those in which the clock brings something about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column as StateColumn
from headrace.language.types import arrow_type, ddl_type
from headrace.maintenance.kept import Held, KeptBucket
from headrace.maintenance.operators.base import State
from headrace.maintenance.user_aggregates.blocks import Block, Call, Groups, grouped, results, run_call
from headrace.maintenance.user_aggregates.machine import Machine, Ran
from headrace.storage.bags import codes, take
from headrace.storage.hashing import can_hash, hashes

#: The key of a call that is not partitioned.
ALONE = "__alone"


class Kept(Protocol):
    """What groups keep, while a step is taken."""

    def lookup(self, hashes: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table: ...

    def scan(self, columns: Sequence[str] | None = None) -> pa.Table: ...

    def add(self, rows: pa.Table, dead: int | None = None) -> None: ...


def state_of(call: Call, machine: Machine, schema: pa.Schema, number: int) -> State:
    """The arrangement of a call: a row for each group."""
    key = call.partition or (ALONE,)
    columns = [StateColumn(name, "BIGINT" if name == ALONE else ddl_type(schema.field(name).type)) for name in key]
    columns += [StateColumn(column.name, column.type) for column in machine.state_columns]
    purpose = f"what each group of {call.versions.name} keeps"
    return State(f"groups{number}", 0, tuple(columns), key, "", measures=(), purpose=purpose, unique=True)


def key_hashes(table: pa.Table, key: Sequence[str]) -> np.ndarray:
    """A hash of each row's key, whatever its types."""
    columns = {name: table.column(name) for name in key}
    for name, column in columns.items():
        if not can_hash([column.type]):
            columns[name] = pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.string())])
    return hashes(pa.table(columns), list(key))


def take_step(
    block: Block, machines: Sequence[Machine], rows: pa.Table, kept: Sequence[Kept], upto: int, after: int | None
) -> pa.Table:
    """The results that new rows bring, and the clock since `after`; what groups keep is put back.

    Rows stand in the order of the stream.
    """
    ran = [
        _one(call, machine, rows, state, upto, after)
        for call, machine, state in zip(block.calls, machines, kept, strict=True)
    ]
    return results(block, machines, ran)


def _one(call: Call, machine: Machine, rows: pa.Table, kept: Kept, upto: int, after: int | None) -> Ran:
    key = list(call.partition or (ALONE,))
    groups = grouped(rows, call.partition)
    keys = take(rows.select(list(call.partition)), groups.first) if call.partition else _alone(len(groups.first))
    hashed = key_hashes(keys, key)
    states = _of_groups(kept.lookup(hashed), keys, key)
    if machine.goes_by_clock and after is not None:
        due = _due(kept.scan([*key, "__h", "__due"]), keys, key, upto)
        quiet = _of_groups(kept.lookup(due.column("__h").to_numpy()), due.select(key), key)
        keys = pa.concat_tables([keys, quiet.select(key)])
        states = pa.concat_tables([states, quiet.select(states.column_names)])
        hashed = np.concatenate([hashed, quiet.column("__h").to_numpy()])
        more = np.full(quiet.num_rows, rows.num_rows, dtype=np.int64)
        groups = Groups(
            groups.order, np.concatenate([groups.starts if len(groups.starts) else [0], more]).astype(np.int64)
        )
    names = [column.name for column in machine.state_columns]
    ran = run_call(machine, call, rows, groups, states.select(names), upto)
    now = {name: keys.column(name) for name in key} | {name: ran.states.column(name) for name in names}
    now["__h"] = pa.chunked_array([pa.array(hashed)])
    kept.add(pa.table(now))
    return ran


def _alone(count: int) -> pa.Table:
    return pa.table({ALONE: pa.array(np.zeros(count, dtype=np.int64))})


def _of_groups(found: pa.Table, keys: pa.Table, key: list[str]) -> pa.Table:
    """What is kept of each group, in the order of the groups; NULL of those that are new."""
    if not found.num_rows:
        return pa.table([pa.nulls(keys.num_rows, field.type) for field in found.schema], schema=found.schema)
    ids = codes(pa.concat_tables([found.select(key), keys.cast(found.select(key).schema)]).combine_chunks(), key)
    place = np.full(int(ids.max()) + 1, -1, dtype=np.int64)
    place[ids[: found.num_rows]] = np.arange(found.num_rows)
    at = place[ids[found.num_rows :]]
    return found.take(pa.array(at, mask=at < 0))


def _due(all_: pa.Table, keys: pa.Table, key: list[str], upto: int) -> pa.Table:
    """The groups without new rows for which it is time: their keys. Nothing else of any group is read."""
    due = all_.filter(pc.less_equal(all_.column("__due"), upto))
    if not due.num_rows or not keys.num_rows:
        return due
    ids = codes(pa.concat_tables([due.select(key), keys.cast(due.select(key).schema)]).combine_chunks(), key)
    return due.filter(pa.array(~np.isin(ids[: due.num_rows], ids[due.num_rows :])))


# --- In tasks ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Steps of some buckets: all calls of the block are partitioned alike.

    A row it gives is a result, or in `__note` what became of a bucket's arrangement.
    """

    block: Block
    schema: pa.Schema
    given: pa.Schema
    root: str
    version: int
    held: tuple[Held, ...]
    upto: int
    after: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        came = [batch for batch in batches if batch.num_rows]
        if not came:
            return
        rows = pa.Table.from_batches(came).combine_chunks()
        places = rows.column("__b").to_numpy()
        machines = self.block.machines(self.schema, ends=False)
        for bucket in np.unique(places):
            mine = rows.filter(pa.array(places == bucket)).sort_by([("__t", "ascending"), ("__seq", "ascending")])
            # A row of nothing but its bucket has the clock looked at.
            mine = mine.filter(pc.is_valid(mine.column("__seq"))).select(self.schema.names).cast(self.schema)
            kept = [KeptBucket(self.root, self.version, held, int(bucket)) for held in self.held]
            found = take_step(self.block, machines, mine.combine_chunks(), kept, self.upto, self.after)
            yield from self._wide(found)
            notes = [note for note in (one.note() for one in kept) if note is not None]
            yield from self._wide(pa.table({"__note": pa.array(notes, pa.string())}))

    def _wide(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        known = rows.column_names
        arrays = [
            rows.column(one.name).cast(one.type) if one.name in known else pa.nulls(rows.num_rows, one.type)
            for one in self.given
        ]
        yield from pa.Table.from_arrays(arrays, schema=self.given).combine_chunks().to_batches(max_chunksize=1 << 16)


def given_schema(block: Block, machines: Sequence[Machine], schema: pa.Schema) -> pa.Schema:
    """The columns that tasks give: those of the results, and notes."""
    fields = [schema.field(name) for name in block.passed]
    for call, machine in zip(block.calls, machines, strict=True):
        fields += [
            pa.field(name, arrow_type(column.type)) for name, column in zip(call.results, machine.returns, strict=True)
        ]
    return pa.schema([*fields, pa.field("__t", pa.int64()), pa.field("__note", pa.string())])
