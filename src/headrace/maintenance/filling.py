"""Filling a state in this process, from rows that come in pieces: for homes that lie on this machine.

However many the rows are, no more of them are in memory than some pieces and a bucket or two: the pieces are cut by
bucket into files on the way, and each bucket is then sorted and written as one run.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.language.types import arrow_type
from headrace.maintenance.deltas import within
from headrace.maintenance.kept import BucketChange, Held, KeptBucket, state_schema
from headrace.maintenance.operators.base import State
from headrace.storage.bags import ascending, integers, take
from headrace.storage.hashing import can_hash, hashes
from headrace.storage.records import Field

#: Rows of a piece: large enough that cutting it by bucket leaves more than crumbs.
_ROWS_A_PIECE = 1 << 20
_THREADS = os.cpu_count() or 2

#: Gives some rows when it is called, which may be in any thread.
Piece = Callable[[], pa.Table]


def can_fill(state: State) -> bool:
    """Whether a state's rows can be read from files here, and the hash of its key be told."""
    types = {column.name: arrow_type(column.type) for column in state.columns}
    if not all(_is_filed(kind) for kind in types.values()):
        return False
    return _hashed(state) is not None or can_hash(types[name] for name in state.key)


def _is_filed(kind: pa.DataType) -> bool:
    """Whether files have a type as it is; of others engines differ, or have none."""
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind))


def fill(
    held: Held,
    root: str,
    version: int,
    buckets: int,
    pieces: Iterable[Piece],
    folder: str,
    newest: Sequence[str] = (),
) -> list[BucketChange]:
    """Write a fresh state; `pieces` have its columns and measures, `folder` is for files on the way.

    `newest`: of several rows of one key, the greatest by these columns is kept, in a unique state. What a piece raises
    is raised, before the state has any files.
    """
    with ExitStack() as stack, ThreadPoolExecutor(_THREADS) as threads:
        cut = _Cut(Path(folder) / uuid.uuid4().hex, stack)
        coming: deque[Future[None]] = deque()
        for piece in pieces:
            coming.append(threads.submit(_cut, cut, held.state, piece, buckets))
            if len(coming) > _THREADS:
                coming.popleft().result()
        for done in coming:
            done.result()
    with ThreadPoolExecutor(_THREADS) as threads:
        changes = list(threads.map(lambda bucket: _filled(held, root, version, bucket, cut, newest), sorted(cut.paths)))
    return [change for change in changes if change is not None]


def parquet_pieces(
    paths: Iterable[str], schema: pa.Schema, made: Callable[[pa.Table], pa.Table] = lambda rows: rows
) -> Iterator[Piece]:
    """What is made of the rows of Parquet files, some at a time."""
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(_ROWS_A_PIECE, columns=schema.names):
            yield partial(_read, batch, schema, made)


def log_pieces(
    paths: Iterable[str],
    fields: Iterable[Field],
    upto: int | None,
    made: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> Iterator[Piece]:
    """What is made of the rows of a log up to a time; `fields` are the columns that are read, `__t` among them."""
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
    return parquet_pieces(paths, schema, lambda rows: made(within(rows, None, upto)))


def _read(batch: pa.RecordBatch, schema: pa.Schema, made: Callable[[pa.Table], pa.Table]) -> pa.Table:
    return made(pa.Table.from_batches([batch]).select(schema.names).cast(schema))


@dataclass
class _Cut:
    """A file for the rows of each bucket."""

    folder: Path
    stack: ExitStack
    paths: dict[int, Path] = field(default_factory=dict)
    _open: dict[int, pa.RecordBatchFileWriter] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, bucket: int, rows: pa.Table) -> None:
        with self._lock:
            if bucket not in self._open:
                self.folder.mkdir(parents=True, exist_ok=True)
                self.paths[bucket] = self.folder / f"{bucket}.arrow"
                self._open[bucket] = self.stack.enter_context(pa.ipc.new_file(str(self.paths[bucket]), rows.schema))
            self._open[bucket].write_table(rows)

    def read(self, bucket: int) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(self.paths[bucket]))).read_all()


def _hashed(state: State) -> str | None:
    """The column that is the hash already."""
    return (state.calendar.hashed or None) if state.calendar is not None else None


def _cut(cut: _Cut, state: State, piece: Piece, buckets: int) -> None:
    rows = piece()
    if not rows.num_rows:
        return
    hashed = _hashed(state)
    found = hashes(rows, state.key) if hashed is None else integers(rows, hashed)
    rows = rows.append_column("__h", pa.array(found)).select(state_schema(state).names).cast(state_schema(state))
    if not state.key:
        cut.write(0, rows)
        return
    places = (found % buckets).astype(np.uint16)
    order = np.argsort(places, kind="stable")
    rows = take(rows, order)
    ends = np.searchsorted(places[order], np.arange(buckets + 1))
    for bucket in np.flatnonzero(np.diff(ends)):
        cut.write(int(bucket), rows.slice(int(ends[bucket]), int(ends[bucket + 1] - ends[bucket])))


def _filled(held: Held, root: str, version: int, bucket: int, cut: _Cut, newest: Sequence[str]) -> BucketChange | None:
    rows = cut.read(bucket)
    if newest and not ascending(columns := [integers(rows, name) for name in newest]):
        rows = take(rows, np.lexsort(tuple(reversed(columns))))
    kept = KeptBucket(root, version, held, bucket)
    kept.add(rows)
    cut.paths[bucket].unlink()
    return kept.change()
