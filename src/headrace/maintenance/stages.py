"""What runs in a task: the operators of one level, over the buckets whose changes came to it.

A stage is an Arrow function over one partition of wide rows. It hands each operator its changes, bucket by bucket,
passes rows of other edges on, and writes the new runs of the states. The names of the files it wrote are rows too
(`__note`): only what is named in the job's result counts, so a task that died or ran twice leaves nothing that does.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column
from headrace.language.types import arrow_type
from headrace.maintenance.operators.base import Calendar, Operator, State
from headrace.maintenance.wide import MARKS, NOTE_EDGE, ROUTE
from headrace.storage.arrangements import Bucket, Run

_BATCH = 1 << 16
#: A page of a calendar with fewer rows is not worth a file of its own.
ROWS_A_PAGE = 8_192


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
class Held:
    """A state's place and the runs it has, bucket by bucket."""

    state: State
    id: int
    folder: str
    runs: Mapping[int, tuple[Run, ...]]


@dataclass(frozen=True)
class BucketChange:
    """What one bucket of a state became."""

    state: int
    bucket: int
    new: tuple[Run, ...]
    gone: tuple[str, ...]
    looked_at: int


def read_note(text: str) -> BucketChange:
    """What a task noted of a bucket."""
    note = json.loads(text)
    return BucketChange(**{**note, "new": tuple(Run(**run) for run in note["new"]), "gone": tuple(note["gone"])})


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


@dataclass
class KeptBucket:
    """A bucket of a state in a task; remembers which runs it wrote and replaced."""

    root: str
    version: int
    held: Held
    bucket: int
    looked_at: int = 0
    new: list[Run] = field(default_factory=list)
    gone: list[Run] = field(default_factory=list)

    @property
    def _runs(self) -> list[Run]:
        return [run for run in self.held.runs.get(self.bucket, ()) if run not in self.gone] + self.new

    def _open(self, runs: Sequence[Run] | None = None) -> Bucket:
        return bucket_of(self.root, self.held.state, self._runs if runs is None else runs)

    def lookup(self, hashes: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        found = self._open().lookup(hashes, columns)
        self.looked_at += found.num_rows
        return found

    def scan(self) -> pa.Table:
        found = self._open().scan()
        self.looked_at += found.num_rows
        return found

    def due(self, after: int, upto: int) -> pa.Table:
        runs = [run for run in self._runs if (run.oldest or 0) <= upto and (run.newest or 0) > after]
        found = self._open(runs).between(after, upto)
        self.looked_at += found.num_rows
        return found

    def add(self, rows: pa.Table, dead: int | None = None) -> None:
        schema = state_schema(self.held.state)
        calendar = self.held.state.calendar
        if calendar is None:
            self._append(rows.select(schema.names).cast(schema), self._runs)
            return
        if calendar.in_order:
            rows = rows.set_column(rows.column_names.index("__h"), "__h", rows.column(calendar.death))
        rows = rows.select(schema.names).cast(schema)
        if len(np.unique(rows.column(calendar.death).to_numpy() // calendar.width)) > 1:
            rows = self._with_loose(rows, calendar, dead)
        pages = rows.column(calendar.death).to_numpy() // calendar.width
        several = np.unique(pages)
        if len(several) * ROWS_A_PAGE > rows.num_rows and len(several) > 1:
            self._append(rows, (), calendar.death)
            return
        for page in several:
            runs = [run for run in self._runs if calendar.page(run.oldest, run.newest) == page]
            self._append(rows.filter(pa.array(pages == page)), runs, calendar.death)

    def _with_loose(self, rows: pa.Table, calendar: Calendar, dead: int | None) -> pa.Table:
        """The rows and those of the last runs of many pages, which they take the place of; what is dead is left out."""
        loose = [run for run in self._runs if calendar.page(run.oldest, run.newest) is None]
        merged, tables = self._open(loose).last(rows.num_rows)
        self._forget(merged)
        rows = pa.concat_tables([*tables, rows])
        return rows if dead is None else rows.filter(pc.greater(rows.column(calendar.death), dead))

    def _append(self, rows: pa.Table, runs: Sequence[Run], death: str = "") -> None:
        # Rows that die at different times are different rows.
        made = self._open(runs).append(rows, self._path, distinct=bool(death))
        self._forget(made.replaced)
        if made.new is None:
            return
        new = made.new
        if death:
            ends = pc.min_max(rows.column(death)).as_py()
            oldest = min([ends["min"], *(run.oldest for run in made.replaced if run.oldest is not None)])
            newest = max([ends["max"], *(run.newest for run in made.replaced if run.newest is not None)])
            new = replace(new, oldest=oldest, newest=newest)
        self.new.append(new)

    def replace(self, rows: pa.Table) -> None:
        self._forget([*self.held.runs.get(self.bucket, ()), *self.new])
        self.add(rows)

    def _forget(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if run in self.new:
                self.new.remove(run)
            elif run not in self.gone:
                self.gone.append(run)

    def _path(self) -> str:
        return f"{self.held.folder}/part={self.bucket}/v{self.version}/{uuid.uuid4().hex[:12]}.arrow"

    def change(self) -> BucketChange | None:
        """What this bucket became; None where it was not even looked at."""
        if not (self.new or self.gone or self.looked_at):
            return None
        gone = tuple(run.path for run in self.gone)
        return BucketChange(self.held.id, self.bucket, tuple(self.new), gone, self.looked_at)

    def note(self) -> str | None:
        """What this bucket became, for the driver to read."""
        change = self.change()
        return None if change is None else json.dumps({**vars(change), "new": [vars(run) for run in change.new]})


def state_schema(state: State) -> pa.Schema:
    """How a state's runs are stored: the row, the hash of its key, the measures."""
    fields = [(column.name, arrow_type(column.type)) for column in state.columns]
    measures = [(column.name, arrow_type(column.type)) for column in state.measures]
    return pa.schema([*fields, ("__h", pa.int64()), *measures])


def bucket_of(root: str, state: State, runs: Sequence[Run]) -> Bucket:
    """One bucket of a state, with these runs."""
    measures = tuple(column.name for column in state.measures)
    return Bucket(root, runs, state_schema(state), measures, unique=state.key if state.unique else ())


def wide_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.type)) for column in columns])


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, dtype=np.int32))
