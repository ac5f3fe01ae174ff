"""Writing rows into an object's log: cut by temporal part, small ones through Arrow, large ones by the engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.engine import Engine
from headrace.storage import faults
from headrace.storage.files import Written
from headrace.storage.records import Object
from headrace.storage.transactions import NewPart, Transaction

MICROS = 1_000_000

#: Up to this many rows a result comes to the driver and is written there; more is written by the engine's tasks.
SMALL = 200_000

#: Small parts that are written together fill files of so many rows.
TOGETHER = 50_000


def part_of(time: int, length: int | None) -> int:
    """The subscript of the temporal part a time falls into: Unix time divided by the length, rounded down."""
    return 0 if length is None else time // (length * MICROS)


def write_table(
    transaction: Transaction,
    item: Object,
    table: pa.Table,
    *,
    inserts_only: bool,
    arrived_in: int | None = None,
    together: bool = False,
) -> int:
    """Write rows of a log (with `__t`, unless it is a state) and add them to the transaction. Returns their number.

    Each temporal part has a file of its own; `together`, small ones that follow each other share one.
    """
    if table.num_rows == 0:
        return 0
    if "__t" not in table.column_names:
        _add(transaction, item, (0, 0), table, None, inserts_only, arrived_in)
        return int(table.num_rows)
    times = table.column("__t").to_numpy()
    if item.partition_length is None:
        _add(transaction, item, (0, 0), table, times, inserts_only, arrived_in)
        return int(table.num_rows)
    subscripts = times // (item.partition_length * MICROS)
    if (subscripts[1:] < subscripts[:-1]).any():
        order = np.argsort(subscripts, kind="stable")
        table, times, subscripts = table.take(pa.array(order)), times[order], subscripts[order]
    starts = np.flatnonzero(np.diff(subscripts, prepend=subscripts[0] - 1))
    for start, end in _runs(starts, len(times), TOGETHER if together else 1):
        parts = (int(subscripts[start]), int(subscripts[end - 1]))
        _add(transaction, item, parts, table.slice(start, end - start), times[start:end], inserts_only, arrived_in)
    return int(table.num_rows)


def _runs(starts: npt.NDArray[np.int64], rows: int, least: int) -> Iterator[tuple[int, int]]:
    """Where files begin and end, each of whole parts and, but for the last, of so many rows at least."""
    begin = 0
    for end in (*(int(start) for start in starts[1:]), rows):
        if end - begin >= least or end == rows:
            yield begin, end
            begin = end


def write_frame(transaction: Transaction, item: Object, frame: Any, engine: Engine, *, inserts_only: bool) -> int:
    """Let the engine write a large result, then take its files into the transaction. Returns the number of rows."""
    # A folder of its own: what a failed attempt at the same commit left behind must not be taken for ours.
    folder = f"{transaction.files.new_folder(item.name, 0, transaction.version)}/{uuid.uuid4().hex[:12]}"
    faults.reach(f"before write {folder}")
    engine.write(frame, transaction.files.spark_path(folder))
    faults.reach(f"after write {folder}")
    written = transaction.files.found(folder)
    timed = item.log != "state"
    for file in written:
        transaction.files.sync(file.path)
        add_file(transaction, item, file, timed=timed, inserts_only=inserts_only)
    return sum(file.rows for file in written)


def add_file(transaction: Transaction, item: Object, file: Written, *, timed: bool, inserts_only: bool) -> None:
    """Take one written file into the transaction as a part, its times read from its footer."""
    if file.rows == 0:
        return
    oldest, newest = transaction.files.range_of(file.path, "__t") if timed else (None, None)
    transaction.add_part(
        NewPart(
            item.id,
            part_of(oldest or 0, item.partition_length),
            part_of(newest or 0, item.partition_length),
            (file,),
            oldest,
            newest,
            inserts_only,
        )
    )


def _add(
    transaction: Transaction,
    item: Object,
    parts: tuple[int, int],
    table: pa.Table,
    times: Any,
    inserts_only: bool,
    arrived_in: int | None,
) -> None:
    written = transaction.files.write(transaction.files.new_folder(item.name, parts[0], transaction.version), table)
    oldest, newest = (None, None) if times is None else (int(times.min()), int(times.max()))
    transaction.add_part(NewPart(item.id, *parts, (written,), oldest, newest, inserts_only, None, arrived_in))
