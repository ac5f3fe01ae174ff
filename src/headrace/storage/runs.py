"""Runs: immutable Arrow IPC files of rows sorted by `__h`, memory-mapped, wherever they lie.

A run is written once, under another name until it is whole. A run that lies elsewhere than on this machine is copied
to a local folder on first use, and can be kept there for good, since it never changes. A process keeps the last runs it
used open.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import tempfile
import threading
import time
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from headrace.storage.bags import HASH, Ints
from headrace.storage.files import PIECE, UNFINISHED, file_of

#: Names how runs lie in files, and by which hash. States of another layout are made anew.
LAYOUT = "pieces of one batch, wide decimals by their text"
#: Rows of a record batch: small enough that a column of text keeps 32-bit offsets.
ROWS_A_BATCH = 1 << 20
#: Files a process keeps in its memory's map, of which a system lets it have 65,530.
_MOST_OPEN = 8_192
#: After so many that were opened, those deleted since are let go: they still take room on the disk.
_SWEPT_EVERY = 128
#: A copy that has not grown for so many seconds is nobody's any more.
_GIVEN_UP = 3600
#: In the metadata of a file whose runs are pieces: where each of them ends.
_ENDS = b"ends"
#: Hashes of more rows than this are worth guessing where one of them stands.
_LARGE = 1 << 16
#: So many files are synced at a time.
_SYNCING = 16


@dataclass(frozen=True)
class Run:
    """Rows of an arrangement: their file's path below the root, rows and bytes, and whether none takes another back.

    A small run may be a piece of a file, with those of other buckets beside it: its path ends in the piece's number.
    Where rows carry their death, no row of the run dies before `oldest` or after `newest`.
    """

    path: str
    rows: int
    bytes: int
    inserts_only: bool
    oldest: int | None = None
    newest: int | None = None


class OpenRun:
    """A run mapped into memory: the batches of a file, or a piece of its only one. Only what is asked for is read."""

    def __init__(self, schema: pa.Schema, whole: Sequence[pa.RecordBatch], piece: slice | None = None) -> None:
        self.schema = schema
        self._whole = whole
        self._start = 0 if piece is None else piece.start
        self.batches = whole if piece is None else [whole[0].slice(piece.start, piece.stop - piece.start)]

    @cached_property
    def hashes(self) -> list[Ints]:
        """The hashes of each batch, where they lie in the file."""
        return [batch.column(HASH).to_numpy() for batch in self.batches]

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """The least and the greatest hash of each batch."""
        return (
            np.array([found[0] for found in self.hashes], dtype=np.int64),
            np.array([found[-1] for found in self.hashes], dtype=np.int64),
        )

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, self.schema)

    def between(self, after: int, upto: int) -> list[pa.RecordBatch]:
        """The rows with a hash above `after` and up to `upto`: slices, nothing else is read."""
        found = []
        for batch, hashes in zip(self.batches, self.hashes, strict=True):
            first, last = np.searchsorted(hashes, [after, upto], "right")
            if first < last:
                found.append(batch.slice(int(first), int(last - first)))
        return found

    def find(self, wanted: Ints) -> list[Found]:
        """Where the rows with one of the hashes stand, which are sorted and distinct."""
        if not len(wanted) or not self.batches:
            return []
        least, greatest = self.ends
        begins = np.searchsorted(wanted, least, "left")
        stops = np.searchsorted(wanted, greatest, "right")
        found = []
        for number in np.flatnonzero(begins < stops).tolist():
            hashes = self.hashes[number]
            where = _places(hashes, wanted[begins[number] : stops[number]])
            if len(where):
                found.append(Found(self._whole[number], where + self._start, hashes[where]))
        return found


@dataclass(frozen=True, eq=False)
class Found:
    """Some rows of a batch, by their places, and their hashes."""

    batch: pa.RecordBatch
    where: Ints
    hashes: Ints


def taken(found: Iterable[Found], columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
    """The rows that were found; only some columns if that is asked.

    Those of one batch are taken together: a call costs more than the few rows of a small run do.
    """
    by_batch: dict[int, list[Found]] = defaultdict(list)
    for one in found:
        by_batch[id(one.batch)].append(one)
    return [_taken(some[0].batch, [one.where for one in some], columns) for some in by_batch.values()]


def _taken(batch: pa.RecordBatch, places: Sequence[Ints], columns: Sequence[str] | None) -> pa.RecordBatch:
    where = places[0] if len(places) == 1 else np.concatenate(places)
    return (batch if columns is None else batch.select(list(columns))).take(pa.array(where))


def _places(hashes: Ints, wanted: Ints) -> Ints:
    """Where one of the wanted hashes stands; both are sorted, and the shorter one is searched for in the longer."""
    if len(wanted) > len(hashes):
        near = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        return np.flatnonzero(wanted[near] == hashes)
    first = search(hashes, wanted)
    # A hash has one or a few rows, so most are settled by looking at one place.
    wanted, first = _only(hashes[np.minimum(first, len(hashes) - 1)] == wanted, wanted, first)
    if not len(first):
        return first
    if not (hashes[np.minimum(first + 1, len(hashes) - 1)] == wanted).any():
        return first
    count = np.searchsorted(hashes, wanted, "right") - first
    starts = np.cumsum(count) - count
    return np.repeat(first - starts, count) + np.arange(int(count.sum()))


def search(hashes: Ints, wanted: Ints) -> Ints:
    """As `np.searchsorted` from the left, for hashes of keys: these lie about where their value says.

    Halving a span of a few thousand rows around that place touches a page or two; halving all rows touches as many
    places as it has steps. Where hashes are something else, such as times, all rows are halved.
    """
    rows = len(hashes)
    if rows < _LARGE:
        return np.searchsorted(hashes, wanted, "left")
    low, high = float(hashes[0]), float(hashes[-1])
    if low == high:
        return np.searchsorted(hashes, wanted, "left")
    # A place is off by about half the square root of the rows.
    reach = 1 << int(2 * np.sqrt(rows)).bit_length()
    guessed = ((wanted.astype(np.float64) - low) * ((rows - 1) / (high - low))).astype(np.int64)
    # The last row known to have a lesser hash, or the one before all.
    place = np.clip(guessed - reach, -1, rows - 1)
    span = 2 * reach
    while span > 1:
        span //= 2
        ahead = np.minimum(place + span, rows - 1)
        place = np.where(hashes[ahead] < wanted, ahead, place)
    first = place + 1
    astray = (place >= 0) & (hashes[place] >= wanted)
    astray |= (first < rows) & (hashes[np.minimum(first, rows - 1)] < wanted)
    if astray.any():
        first[astray] = np.searchsorted(hashes, wanted[astray], "left")
    return first


def _only(mask: np.ndarray[tuple[int], np.dtype[np.bool_]], *arrays: Ints) -> tuple[Ints, ...]:
    return tuple(array[mask] for array in arrays)


class RunFiles:
    """The runs below one root: a local folder, or a URI that pyarrow knows."""

    def __init__(self, root: str, cache: str | None = None) -> None:
        self.root = root.rstrip("/") or "/"
        self._remote: fs.FileSystem | None = None
        self._folder = self.root
        if "://" in root:
            system, self._folder = _file_system(self.root)
            self._remote = None if isinstance(system, fs.LocalFileSystem) else system
        self._cache = cache or _cache_folder()

    def open(self, run: Run) -> OpenRun:
        opened = _opened(self._local(run))
        _path, _mark, piece = run.path.partition(PIECE)
        return opened.piece(int(piece)) if piece else opened.whole

    def write(self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, inserts_only: bool) -> Run:
        """Write sorted rows as a new run, durably."""
        rows, size = self._write(path, schema, batches)
        return Run(path, sum(rows), size, inserts_only)

    def write_pieces(self, path: str, table: pa.Table, rows: Sequence[int], *, inserts_only: bool) -> list[Run]:
        """Write several runs as one batch of one file, durably: a file and a batch cost more than a few rows do.

        `rows` are those of each run; the table has them below one another.
        """
        (batch,) = table.to_batches()
        ends = [int(end) for end in np.cumsum(rows)]
        _rows, size = self._write(path, table.schema.with_metadata({_ENDS: json.dumps(ends)}), [batch])
        return [
            Run(f"{path}{PIECE}{number}", count, size * count // ends[-1], inserts_only)
            for number, count in enumerate(rows)
        ]

    def _write(self, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[list[int], int]:
        """The rows of each batch, and the bytes of the file."""
        rows = []
        with self._begin(f"{self._folder}/{path}") as sink:
            with pa.ipc.new_file(sink, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows.append(batch.num_rows)
            return rows, sink.tell()

    @contextlib.contextmanager
    def _begin(self, target: str) -> Iterator[pa.NativeFile]:
        if self._remote is not None:
            # An object store shows an object only when it is whole.
            self._remote.create_dir(os.path.dirname(target), recursive=True)
            with self._remote.open_output_stream(target) as sink:
                yield sink
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with _whole_or_nothing(target) as unfinished, pa.OSFile(unfinished, "wb") as sink:
            yield sink

    def _local(self, run: Run) -> str:
        """The path of a run on this machine, which may mean to copy it first."""
        path = file_of(run.path)
        if self._remote is None:
            return f"{self._folder}/{path}"
        name = hashlib.sha256(f"{self.root}/{path}".encode()).hexdigest()
        local = os.path.join(self._cache, name[:2], f"{name}.arrow")
        if not os.path.exists(local) or (path == run.path and os.path.getsize(local) != run.bytes):
            os.makedirs(self._cache, mode=0o700, exist_ok=True)
            _clear_unfinished(self._cache)
            os.makedirs(os.path.dirname(local), exist_ok=True)
            with _whole_or_nothing(local) as unfinished:
                fs.copy_files(
                    f"{self._folder}/{path}",
                    unfinished,
                    source_filesystem=self._remote,
                    destination_filesystem=fs.LocalFileSystem(),
                )
        return local


@cache
def _cache_folder() -> str:
    return os.path.join(tempfile.gettempdir(), f"headrace-runs-{os.getuid()}")


def _file_system(root: str) -> tuple[fs.FileSystem, str]:
    # Spark says s3a where pyarrow says s3.
    system, folder = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", root))
    return system, folder


@contextlib.contextmanager
def _whole_or_nothing(target: str) -> Iterator[str]:
    """A name to write a file under, which becomes the target when it is whole and on the disk."""
    unfinished = f"{target}.{uuid.uuid4().hex[:12]}{UNFINISHED}"
    later = _together.get()
    try:
        yield unfinished
        if later is None:
            _sync(unfinished)
        os.replace(unfinished, target)
        if later is None:
            _sync(os.path.dirname(target))
        else:
            later.append(target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)
        raise


#: The files that were written and wait to be brought to the disk together.
_together: ContextVar[list[str] | None] = ContextVar("_together", default=None)


@contextlib.contextmanager
def written_together() -> Iterator[None]:
    """Bring what is written inside to the disk at the end, all at once: a disk syncs many files in the time of a few.

    For whoever names the files to others only afterwards.
    """
    written: list[str] = []
    before = _together.set(written)
    try:
        yield
    finally:
        _together.reset(before)
    if not written:
        return
    with ThreadPoolExecutor(min(len(written), _SYNCING)) as threads:
        # Files first: a name must not be there for good before what it names is.
        list(threads.map(_sync, written))
        list(threads.map(_sync, sorted({os.path.dirname(path) for path in written})))


@cache
def _clear_unfinished(folder: str) -> None:
    """Remove, once a process, the copies that killed processes left. Other processes may be copying right now."""
    for path in Path(folder).rglob(f"*{UNFINISHED}"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - _GIVEN_UP:
                path.unlink()


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _OpenFile:
    """A file of one run or of several."""

    def __init__(self, path: str) -> None:
        # What is mapped stays when the file is closed, and takes no handle.
        with pa.memory_map(path) as file:
            self._reader = pa.ipc.open_file(file.read_buffer())
        self._pieces: dict[int, OpenRun] = {}

    @cached_property
    def _batches(self) -> list[pa.RecordBatch]:
        return [self._reader.get_batch(number) for number in range(self._reader.num_record_batches)]

    @cached_property
    def _ends(self) -> list[int]:
        """Where each of the runs ends that are pieces of the file."""
        found: list[int] = json.loads(self._reader.schema.metadata[_ENDS])
        return found

    @cached_property
    def whole(self) -> OpenRun:
        return OpenRun(self._reader.schema, self._batches)

    def piece(self, number: int) -> OpenRun:
        if number not in self._pieces:
            start = self._ends[number - 1] if number else 0
            self._pieces[number] = OpenRun(self._reader.schema, self._batches, slice(start, self._ends[number]))
        return self._pieces[number]


_open: OrderedDict[tuple[str, int, int], _OpenFile] = OrderedDict()
_lock = threading.Lock()
_count = itertools.count(1)


def _opened(path: str) -> _OpenFile:
    """A file from the cache, or opened. One that was replaced under its name is another file."""
    found = os.stat(path)
    key = (path, found.st_ino, found.st_mtime_ns)
    with _lock:
        if key in _open:
            _open.move_to_end(key)
            return _open[key]
    opened = _OpenFile(path)
    with _lock:
        _open[key] = opened
        if next(_count) % _SWEPT_EVERY == 0:
            for gone in [key for key in _open if not os.path.exists(key[0])]:
                del _open[gone]
        while len(_open) > _MOST_OPEN:
            _open.popitem(last=False)
    return opened
