"""Files of a home, on any file system pyarrow knows: where they lie, how they are written, listed and deleted.

`<home>/<object>/part=<n>/v<version>/<token>.parquet`. A file never changes once the catalog names it, and a file the
catalog does not name does not exist for any reader, so a crash leaves at most orphans.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.errors import StorageError
from headrace.storage import faults

_ROWS_A_GROUP = 1 << 18
#: So many files are worth reading side by side.
_MANY = 8
_STAGE = "__incoming"
#: How the name of a file ends while it is being written. A writer that is killed leaves it so.
UNFINISHED = ".unfinished"
#: Between the path of a file and the number of a piece of it: a part may be no more than that.
PIECE = "#"


@dataclass(frozen=True)
class Written:
    """A file just written: its path below the home, rows and bytes."""

    path: str
    rows: int
    bytes: int


def file_of(name: str) -> str:
    """The path of the file in which a part lies, which may be only a piece of it."""
    return name.partition(PIECE)[0]


class Files:
    """The files below one home."""

    def __init__(self, home: str) -> None:
        #: Is told of every table that is written as a file, for whoever will want to read it soon.
        self.on_write: Callable[[str, pa.Table], None] = lambda _path, _table: None
        self._deleting: Thread | None = None
        self.home = home.rstrip("/") if "://" in home else os.path.abspath(os.path.expanduser(home))
        try:
            self._fs, self._root = _file_system(self.home)
            self._fs.create_dir(self._root, recursive=True)
        except (OSError, pa.ArrowInvalid) as error:
            raise StorageError(
                "HOME_UNUSABLE",
                f"The home {home!r} cannot be used: {error}.",
                hint="Give a folder you may write to, or a URI such as s3://bucket/folder.",
            ) from error

    @property
    def local(self) -> bool:
        return isinstance(self._fs, fs.LocalFileSystem)

    @property
    def folder(self) -> str:
        """The home as its own file system names it."""
        return str(self._root)

    @contextlib.contextmanager
    def stage(self) -> Iterator[str]:
        """A folder for files on their way in, for Spark to write to. A crash leaves it to the next writer."""
        name = f"{_STAGE}/{uuid.uuid4().hex}"
        try:
            yield f"{self.home}/{name}"
        finally:
            self._delete_folder(name)

    def delete_staged(self) -> None:
        self._delete_folder(_STAGE)

    def _delete_folder(self, name: str) -> None:
        if self._fs.get_file_info(f"{self._root}/{name}").type == fs.FileType.Directory:
            self._fs.delete_dir(f"{self._root}/{name}")

    def spark_path(self, path: str) -> str:
        """The path of a file as Spark wants it."""
        return f"{self.home}/{path}"

    def new_folder(self, object_name: str, part: int, version: int) -> str:
        """The folder, below the home, for new files of one part."""
        return f"{self.object_folder(object_name)}/part={part}/v{version}"

    def object_folder(self, object_name: str) -> str:
        """The folder, below the home, of all of an object's files."""
        return _safe(object_name)

    def write(self, folder: str, table: pa.Table) -> Written:
        """Write a small table as one Parquet file, durably, and say where."""
        path = f"{folder}/{uuid.uuid4().hex[:12]}.parquet"
        faults.reach(f"before write {path}")
        self._fs.create_dir(f"{self._root}/{folder}", recursive=True)
        with self._fs.open_output_stream(f"{self._root}/{path}") as sink:
            pq.write_table(table, sink, row_group_size=_ROWS_A_GROUP, compression="zstd", compression_level=1)
            size = sink.tell()
        self.sync(path)
        faults.reach(f"after write {path}")
        self.on_write(path, table)
        return Written(path, table.num_rows, size)

    def open(self, folder: str, schema: pa.Schema) -> OpenFile:
        """Begin a Parquet file that is written piece by piece."""
        path = f"{folder}/{uuid.uuid4().hex[:12]}.parquet"
        faults.reach(f"before write {path}")
        self._fs.create_dir(f"{self._root}/{folder}", recursive=True)
        return OpenFile(self, path, self._fs.open_output_stream(f"{self._root}/{path}"), schema)

    def sync(self, path: str) -> None:
        """See a file safely onto the disk, where the file system lets us."""
        if self.local:
            _sync(f"{self._root}/{path}")

    def found(self, folder: str) -> list[Written]:
        """The Parquet files a Spark writer left in `folder`, with the rows their footers state."""
        selector = fs.FileSelector(f"{self._root}/{folder}", recursive=True, allow_not_found=True)
        entries = []
        for info in self._fs.get_file_info(selector):
            if info.type == fs.FileType.File and info.base_name.endswith(".parquet"):
                rows = pq.read_metadata(info.path, filesystem=self._fs).num_rows
                entries.append(Written(self._relative(info.path), rows, info.size))
        return sorted(entries, key=lambda written: written.path)

    def read(self, paths: list[str], columns: list[str] | None = None) -> pa.Table:
        """The rows of a few files, in order."""
        # ParquetFile opens one file; read_table would look for a whole data set around it.
        if len(paths) < _MANY:
            tables = [self._open(path).read(columns=columns) for path in paths]
        else:
            with ThreadPoolExecutor() as threads:
                tables = list(
                    threads.map(lambda path: self._open(path).read(columns=columns, use_threads=False), paths)
                )
        # Engines say of some columns that they have no NULLs, and we do not.
        return pa.concat_tables(tables, promote_options="default")

    def _open(self, path: str) -> pq.ParquetFile:
        return pq.ParquetFile(f"{self._root}/{path}", filesystem=self._fs)

    def range_of(self, path: str, column: str) -> tuple[int | None, int | None]:
        """Least and greatest value of an integer column, from the file's footer."""
        footer = pq.read_metadata(f"{self._root}/{path}", filesystem=self._fs)
        index = footer.schema.names.index(column)
        lows, highs = [], []
        for group in range(footer.num_row_groups):
            statistics = footer.row_group(group).column(index).statistics
            if statistics is not None and statistics.has_min_max:
                lows.append(statistics.min)
                highs.append(statistics.max)
        return (min(lows), max(highs)) if lows else (None, None)

    def all(self) -> list[str]:
        """Every data file below the home."""
        selector = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        return [
            self._relative(info.path)
            for info in self._fs.get_file_info(selector)
            if info.type == fs.FileType.File and "/part=" in self._relative(info.path)
        ]

    def delete_beside(self, paths: list[str]) -> None:
        """Delete files in a thread of their own: a file system takes a second for some gigabytes.

        For what nobody names any more. If the process ends first, the next writer finds them to be orphans.
        """
        self.settle()
        self._deleting = Thread(target=self.delete, args=(paths,), name="headrace-delete")
        self._deleting.start()

    def settle(self) -> None:
        """Wait for what is being deleted."""
        if self._deleting is not None:
            self._deleting.join()
            self._deleting = None

    def delete(self, paths: list[str]) -> None:
        """Delete files, and the folders this leaves empty."""
        folders = set()
        for path in paths:
            faults.reach(f"before delete {path}")
            with contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(f"{self._root}/{path}")
            faults.reach(f"after delete {path}")
            folders.add(path.rsplit("/", 1)[0])
        for folder in sorted(folders):
            self._delete_if_empty(folder)

    def _delete_if_empty(self, folder: str) -> None:
        while folder:
            inside = self._fs.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
            if any(info.type == fs.FileType.Directory or not _goes_along(info.base_name) for info in inside):
                return
            if self._fs.get_file_info(f"{self._root}/{folder}").type == fs.FileType.Directory:
                with contextlib.suppress(FileNotFoundError):  # another may have come first
                    self._fs.delete_dir(f"{self._root}/{folder}")
            folder = folder.rpartition("/")[0]

    def _relative(self, path: str) -> str:
        return path[len(self._root.rstrip("/")) + 1 :]


class OpenFile:
    """A Parquet file being written."""

    def __init__(self, files: Files, path: str, sink: pa.NativeFile, schema: pa.Schema) -> None:
        self._files = files
        self._path = path
        self._sink = sink
        self._writer = pq.ParquetWriter(sink, schema, compression="zstd", compression_level=1)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=_ROWS_A_GROUP)

    def close(self, rows: int) -> Written:
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._files.sync(self._path)
        faults.reach(f"after write {self._path}")
        return Written(self._path, rows, size)


def _goes_along(name: str) -> bool:
    """Whether a file goes when all others of its folder are gone: Spark's notes beside its output, and leftovers.

    A folder belongs to one commit, and files of states, which alone are written so, are only deleted when that has been
    made or given up: nobody who could still finish one there is waited for.
    """
    return name.startswith("_") or name.endswith((".crc", UNFINISHED))


def _safe(name: str) -> str:
    return re.sub(r"[^a-z0-9_]", lambda found: f"%{ord(found.group()):x}", name.lower())


def _file_system(home: str) -> tuple[fs.FileSystem, str]:
    if "://" not in home:
        return fs.LocalFileSystem(), home
    # Spark says s3a where pyarrow says s3.
    system, root = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", home))
    return system, root


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
