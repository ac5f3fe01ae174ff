"""Filling a state in this process, from rows that come in pieces: for homes that lie on this machine.

However many the rows are, no more of them are in memory than a piece and a bucket or two: the pieces are cut by bucket
into files on the way, and each bucket is then sorted and written as one run.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.language.types import arrow_type
from headrace.maintenance.kept import BucketChange, Held, KeptBucket, state_schema
from headrace.maintenance.operators.base import State
from headrace.storage.bags import ascending, integers, take
from headrace.storage.hashing import can_hash, hashes

#: Rows of a piece: large enough that cutting it by bucket leaves more than crumbs.
_ROWS_A_PIECE = 1 << 20


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
    pieces: Iterable[pa.Table],
    folder: str,
    newest: Sequence[str] = (),
) -> list[BucketChange]:
    """Write a fresh state; `pieces` have its columns and measures, `folder` is for files on the way.

    `newest`: of several rows of one key, the greatest by these columns is kept, in a unique state.
    """
    with ExitStack() as stack:
        cut = _Cut(Path(folder) / uuid.uuid4().hex, stack)
        for piece in pieces:
            if piece.num_rows:
                _cut(cut, held.state, piece, buckets)
    with ThreadPoolExecutor(os.cpu_count() or 2) as threads:
        done = list(threads.map(lambda bucket: _filled(held, root, version, bucket, cut, newest), sorted(cut.paths)))
    return [change for change in done if change is not None]


def parquet_pieces(paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of Parquet files, some at a time."""
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(_ROWS_A_PIECE, columns=schema.names):
            yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)


@dataclass
class _Cut:
    """A file for the rows of each bucket."""

    folder: Path
    stack: ExitStack
    paths: dict[int, Path] = field(default_factory=dict)
    _open: dict[int, pa.RecordBatchFileWriter] = field(default_factory=dict)

    def write(self, bucket: int, rows: pa.Table) -> None:
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


def _cut(cut: _Cut, state: State, piece: pa.Table, buckets: int) -> None:
    hashed = _hashed(state)
    found = hashes(piece, state.key) if hashed is None else integers(piece, hashed)
    rows = piece.append_column("__h", pa.array(found)).select(state_schema(state).names).cast(state_schema(state))
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
