"""Landing files: each is read in order, turned into log rows and written as one file of the stream's log.

A few small files are landed by this process; many or large ones by the engine's tasks, all at once. A task names its
output by a random token and returns the name; only returned names are committed, so a retried or killed task leaves
nothing that counts.

A file is one unit of arrival: it is judged late or not against the files before it. Tasks do not know those, so each
file is landed as if it were in time and its range of times compared afterwards; one that turns out late is done again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.errors import InputError
from headrace.language.types import arrow_type
from headrace.runtime.arrival import Before, land
from headrace.runtime.home import Home
from headrace.runtime.landing import Reject, arrival_time, before, note, reject
from headrace.sources.globs import FileEntry, list_files
from headrace.sources.lines import LineOptions
from headrace.sources.readers import read_batches
from headrace.storage import faults
from headrace.storage.files import Files, Written
from headrace.storage.records import Object
from headrace.storage.transactions import NewPart, Transaction
from headrace.storage.writer import part_of

#: Above this many bytes the engine's tasks do the work.
LARGE = 32 << 20

_REPORT = "number int, report string, late binary"


@dataclass(frozen=True)
class Job:
    """What a task needs to land one file."""

    home: str
    folder: str
    path: str
    format: str
    columns: tuple[tuple[str, str], ...]
    line_options: dict[str, Any]
    stream: Object
    before: Before
    arrived: int


@dataclass(frozen=True)
class Report:
    """What became of one file."""

    written: Written | None
    oldest: int | None
    newest: int | None
    deletes: bool
    rejects: list[Reject]
    late: pa.Table


def land_new_files(home: Home, transaction: Transaction, source: Object, stream: Object) -> tuple[int, bool]:
    """Land the files a stream has not taken from its source yet, up to a batch.

    Returns the number of rows, and whether files are left.
    """
    entries, left = _batch(home, transaction, source, stream)
    return land_files(home, transaction, source, stream, entries, source.option("format", "parquet")), left


def land_files(
    home: Home,
    transaction: Transaction,
    source: Object,
    stream: Object,
    entries: Sequence[FileEntry],
    format: str,
    *,
    remember: bool = True,
    together: bool = False,
) -> int:
    """Land the given files, in order.

    `remember` notes their names so that they are not taken again; `together` says that they are one unit of arrival.
    """
    jobs = [_job(home, transaction, source, stream, entry, format, number) for number, entry in enumerate(entries)]
    if len(jobs) > 1 and sum(entry.size for entry in entries) > LARGE:
        reports: list[Report | None] = list(_land_on_engine(home, jobs))
    else:
        reports = [None for _ in jobs]
    total = 0
    first = before(transaction, stream, home.clock_mode)
    for entry, job, report in zip(entries, jobs, reports, strict=True):
        known = before(transaction, stream, home.clock_mode)
        if together:
            known = replace(known, newest=first.newest)
        if report is None or _has_late(stream, report, known):
            if report is not None and report.written is not None:
                transaction.files.delete([report.written.path])
            report = land_file(replace(job, before=known))
        if remember:
            transaction.land_file(stream, entry.path)
        total += _take(transaction, source, stream, entry, report)
    return total


def _batch(home: Home, transaction: Transaction, source: Object, stream: Object) -> tuple[list[FileEntry], bool]:
    landed = transaction.base.landed_files(stream)
    limit = int(source.option("max_rows_per_batch") or stream.option("max_rows_per_batch") or 0)
    limit = limit or int(home.option("max_rows_per_batch"))
    chosen: list[FileEntry] = []
    rows = 0
    for entry in list_files(source.option("glob")):
        if entry.path in landed:
            continue
        rows += _rows(entry, source.option("format", "parquet"))
        if chosen and rows > limit:
            return chosen, True
        chosen.append(entry)
    return chosen, False


def _rows(entry: FileEntry, format: str) -> int:
    """About how many rows a file has: the footer's word for Parquet, a guess by size for text."""
    if format == "parquet":
        try:
            return int(pq.read_metadata(entry.path).num_rows)
        except (OSError, pa.ArrowException):
            return 0
    return entry.size // 64


def _job(
    home: Home,
    transaction: Transaction,
    source: Object,
    stream: Object,
    entry: FileEntry,
    format: str,
    number: int,
) -> Job:
    known = before(transaction, stream, home.clock_mode)
    return Job(
        home.files.home,
        transaction.files.new_folder(stream.name, 0, transaction.version),
        entry.path,
        format,
        tuple((field.name, field.type) for field in source.columns),
        {
            name: source.option(name)
            for name in ("delimiter", "header", "null_value")
            if source.option(name) is not None
        },
        stream,
        # Every file is a unit of its own, in the order of the files.
        replace(known, unit=known.unit + number),
        arrival_time(transaction, home.clock_mode),
    )


def land_file(job: Job) -> Report:
    """Read one file, write its log rows as one Parquet file, and say what became of it.

    A file that cannot be read, or does not fit the declared columns, is rejected as a whole.
    """
    files = Files(job.home)
    sink = _Sink(files, job.folder)
    try:
        return _read_and_write(job, sink)
    except InputError as error:
        written = sink.close()
        if written is not None:
            files.delete([written.path])
        reason = " ".join(text for text in (error.message, error.detail) if text)
        return Report(None, None, None, False, [Reject("", reason, job.path)], pa.table({}))


def _read_and_write(job: Job, sink: _Sink) -> Report:
    system, path = fs.FileSystem.from_uri(job.path) if "://" in job.path else (fs.LocalFileSystem(), job.path)
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in job.columns])
    times: list[int] = []
    late: list[pa.Table] = []
    rejects: list[Reject] = []
    deletes = False
    for batch in read_batches(path, system, job.format, schema, LineOptions(**job.line_options)):  # type: ignore[arg-type]
        rejects += [Reject(item.line, item.reason, f"{job.path}:{item.position + 1}") for item in batch.rejected]
        arrived = pa.repeat(pa.scalar(job.arrived, pa.int64()), batch.table.num_rows)
        landed = land(job.stream, batch.table, arrived, job.before, together=True, first_row=batch.first_row)
        rejects += [
            Reject(
                str(batch.table.slice(row, 1).to_pylist()[0]), reason, f"{job.path}:{batch.positions[row].as_py() + 1}"
            )
            for row, reason in landed.faults
        ]
        late.append(landed.late)
        deletes |= landed.deletes
        if landed.rows.num_rows:
            column = landed.rows.column("__t").to_numpy()
            times += [int(column.min()), int(column.max())]
            sink.write(landed.rows)
    return Report(
        sink.close(),
        min(times, default=None),
        max(times, default=None),
        deletes,
        rejects,
        pa.concat_tables(late) if late else pa.table({}),
    )


class _Sink:
    """A Parquet file that comes to be with its first rows."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._open: Any = None
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        if self._open is None:
            self._open = self._files.open(self._folder, table.schema)
        self._open.write(table)
        self._rows += table.num_rows

    def close(self) -> Written | None:
        return None if self._open is None else self._open.close(self._rows)


def _has_late(stream: Object, report: Report, known: Before) -> bool:
    if stream.time_kind != "external" or report.oldest is None or not known.ordered:
        return False
    return known.newest is not None and report.oldest < known.newest - int(stream.option("slack") or 0)


def _take(transaction: Transaction, source: Object, stream: Object, entry: FileEntry, report: Report) -> int:
    """Take a landed file into the transaction."""
    faults.reach(f"landed {entry.path}")
    reject(transaction, source, report.rejects)
    progress = transaction.progress(stream)
    in_time = report.newest
    if progress.newest is not None:
        in_time = progress.newest if in_time is None else max(in_time, progress.newest)
    note(transaction, stream, in_time, report.late)
    if report.written is None:
        return 0
    length = stream.partition_length
    transaction.add_part(
        NewPart(
            stream.id,
            part_of(report.oldest or 0, length),
            part_of(report.newest or 0, length),
            (report.written,),
            report.oldest,
            report.newest,
            inserts_only=not report.deletes,
        )
    )
    return report.written.rows


def _land_on_engine(home: Home, jobs: Sequence[Job]) -> Iterator[Report]:
    """Let the engine's tasks land the files, one task a file."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                yield _reported(number, land_file(jobs[number]))

    numbers = home.engine.frame(pa.table({"number": pa.array(range(len(jobs)), pa.int32())}))
    spread = numbers.repartition(len(jobs), "number")
    answer = home.engine.arrow(spread.mapInArrow(task, _REPORT)).sort_by("number")
    if answer.num_rows != len(jobs):
        raise InputError("FILES_LOST", "The engine's tasks did not report on every file; nothing was taken in.")
    for row in answer.to_pylist():
        yield _unpacked(row)


def _reported(number: int, report: Report) -> pa.RecordBatch:
    facts = {
        "written": None if report.written is None else asdict(report.written),
        "oldest": report.oldest,
        "newest": report.newest,
        "deletes": report.deletes,
        "rejects": [asdict(item) for item in report.rejects],
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, report.late.schema) as writer:
        writer.write_table(report.late)
    columns = [pa.array([number], pa.int32()), pa.array([json.dumps(facts)]), pa.array([sink.getvalue().to_pybytes()])]
    return pa.record_batch(columns, names=["number", "report", "late"])


def _unpacked(row: dict[str, Any]) -> Report:
    facts = json.loads(row["report"])
    return Report(
        None if facts["written"] is None else Written(**facts["written"]),
        facts["oldest"],
        facts["newest"],
        facts["deletes"],
        [Reject(**item) for item in facts["rejects"]],
        pa.ipc.open_stream(row["late"]).read_all(),
    )
