"""States while operators run: a bucket of one, or several at once, and what became of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language.types import arrow_type
from headrace.maintenance.operators.base import Calendar, State
from headrace.storage.arrangements import Appended, Bucket, Run, append_together, lookup_together, newest_together
from headrace.storage.bags import distinct

#: A page of a calendar with fewer rows is not worth a file of its own.
ROWS_A_PAGE = 8_192


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


@dataclass
class KeptBucket:
    """A bucket of a state while an operator runs; remembers which runs it wrote and replaced."""

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

    def open(self, runs: Sequence[Run] | None = None) -> Bucket:
        """The bucket with the runs it has now, or with some of them."""
        return bucket_of(self.root, self.held.state, self._runs if runs is None else runs)

    def lookup(self, hashes: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        found = self.open().lookup(hashes, columns)
        self.looked_at += found.num_rows
        return found

    def newest(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        found = newest_together([(self.open(), distinct(keys.column("__h").to_numpy()))], keys, columns)
        self.looked_at += found.num_rows
        return found

    def scan(self, columns: Sequence[str] | None = None) -> pa.Table:
        found = self.open().scan(columns)
        self.looked_at += found.num_rows if columns is None else 0
        return found

    def due(self, after: int, upto: int) -> pa.Table:
        runs = [run for run in self._runs if (run.oldest or 0) <= upto and (run.newest or 0) > after]
        found = self.open(runs).between(after, upto)
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
        merged, tables = self.open(loose).last(rows.num_rows)
        self._forget(merged)
        rows = pa.concat_tables([*tables, rows])
        return rows if dead is None else rows.filter(pc.greater(rows.column(calendar.death), dead))

    def _append(self, rows: pa.Table, runs: Sequence[Run], death: str = "") -> None:
        # Rows that die at different times are different rows.
        made = self.open(runs).append(rows, self._path, distinct=bool(death))
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

    def take(self, made: Appended) -> None:
        """Take over what was appended to the bucket together with others."""
        self._forget(made.replaced)
        if made.new is not None:
            self.new.append(made.new)

    def changes(self) -> list[BucketChange]:
        change = self.change()
        return [] if change is None else [change]

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


class KeptBuckets:
    """Several buckets of a state, for an operator that runs over all of them at once. Calendars are cut by bucket.

    A kernel takes about as long for one bucket's few rows as for those of all buckets, and so does a file.
    """

    def __init__(self, root: str, version: int, held: Held, numbers: Sequence[int], of: int) -> None:
        """`of`: how many buckets the state has in all. A row's hash tells its bucket."""
        self._each = {number: KeptBucket(root, version, held, number) for number in numbers}
        self._held, self._version, self._of = held, version, of
        self._looked_at = 0

    def lookup(self, hashes: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        return self._looked(lookup_together(self._asked(hashes), columns))

    def newest(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        return self._looked(newest_together(self._asked(keys.column("__h").to_numpy()), keys, columns))

    def _asked(self, hashes: np.ndarray) -> list[tuple[Bucket, np.ndarray]]:
        """Each bucket with its hashes, sorted and distinct."""
        wanted = distinct(hashes)
        places = (wanted % self._of).astype(np.uint16)
        # A stable sort leaves those of each bucket sorted.
        wanted = wanted[np.argsort(places, kind="stable")]
        ends = np.cumsum(np.bincount(places, minlength=self._of))
        starts = np.append(0, ends)
        return [(kept.open(), wanted[starts[number] : ends[number]]) for number, kept in self._each.items()]

    def scan(self, columns: Sequence[str] | None = None) -> pa.Table:
        found = pa.concat_tables([kept.open().scan(columns) for kept in self._each.values()])
        return self._looked(found) if columns is None else found

    def _looked(self, found: pa.Table) -> pa.Table:
        self._looked_at += found.num_rows
        return found

    def due(self, after: int, upto: int) -> pa.Table:
        return pa.concat_tables([kept.due(after, upto) for kept in self._each.values()])

    def add(self, rows: pa.Table, dead: int | None = None) -> None:
        made = None
        if self._held.state.calendar is None:
            opened = {number: kept.open() for number, kept in self._each.items()}
            made = append_together(opened, self._of, rows, self._path)
        if made is not None:
            for number, appended in made.items():
                self._each[number].take(appended)
            return
        for kept, mine in self._cut(rows):
            if mine.num_rows:
                kept.add(mine, dead)

    def replace(self, rows: pa.Table) -> None:
        for kept, mine in self._cut(rows):
            kept.replace(mine)

    def _cut(self, rows: pa.Table) -> list[tuple[KeptBucket, pa.Table]]:
        """Each bucket with its rows."""
        places = rows.column("__h").to_numpy() % self._of
        return [(kept, rows.filter(pa.array(places == number))) for number, kept in self._each.items()]

    def _path(self) -> str:
        return f"{self._held.folder}/part=all/v{self._version}/{uuid.uuid4().hex[:12]}.arrow"

    def changes(self) -> list[BucketChange]:
        first = next(iter(self._each.values()))
        first.looked_at += self._looked_at
        self._looked_at = 0
        return [change for kept in self._each.values() for change in kept.changes()]


@lru_cache(maxsize=1_024)
def state_schema(state: State) -> pa.Schema:
    """How a state's runs are stored: the row, the hash of its key, the measures."""
    fields = [(column.name, arrow_type(column.type)) for column in state.columns]
    measures = [(column.name, arrow_type(column.type)) for column in state.measures]
    return pa.schema([*fields, ("__h", pa.int64()), *measures])


def bucket_of(root: str, state: State, runs: Sequence[Run]) -> Bucket:
    """One bucket of a state, with these runs."""
    measures = tuple(column.name for column in state.measures)
    return Bucket(root, runs, state_schema(state), measures, unique=state.key if state.unique else ())
