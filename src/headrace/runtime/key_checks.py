"""Looking keys up in stored logs, and the checks of enforced foreign keys that follow from it.

No engine is asked: of each file only the key columns are read, and the rest only of files that have a wanted key. So a
check is the same in the driver and in the tasks that land large files, and costs no job.

A foreign key is checked in time. A row that takes effect at `t` needs a row with its key that is there at `t` and from
then on; a row may be deleted at `t` only when nothing refers to it at `t` or later. So the foreign key holds at every
time that can be read, not only at the newest. A row with NULL in one of the columns refers to nothing (MATCH SIMPLE).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language import format_time
from headrace.language.types import arrow_type
from headrace.runtime.clock import forgotten_before
from headrace.storage.files import Files
from headrace.storage.records import Field, Object
from headrace.storage.transactions import Transaction

MISSING = "FOREIGN_KEY_MISSING"
STILL_REFERENCED = "STILL_REFERENCED"

Numbers = npt.NDArray[np.int64]

#: Since when a key is there that is not, and until when one is referred to that still is.
NEVER = FOREVER = int(np.iinfo(np.int64).max)
ALWAYS = int(np.iinfo(np.int64).min)


def can_look_up(fields: Sequence[Field]) -> bool:
    """Whether Arrow finds values of these columns as Spark compares them: not nested ones, nor floats."""
    kinds = [arrow_type(field.type) for field in fields]
    return not any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in kinds)


@dataclass(frozen=True)
class StoredLog:
    """An object's log as some transaction has it; small and plain, so that tasks can take it along."""

    name: str
    log: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    home: str
    paths: tuple[str, ...]
    kept_from: int | None  # rows of a stream before this are forgotten
    folded: bool  # RETAIN may have folded the history away, so that the first row known of a key is not its first

    def rows(self, columns: Sequence[str], wanted: pa.Table, others: Sequence[str]) -> tuple[pa.Table, Numbers]:
        """The stored rows whose `columns` are among `wanted` (distinct), with `others`, and which of `wanted` each is.

        The columns of `wanted` correspond by position.
        """
        files = Files(self.home)
        tables, numbers = [self._schema(others).empty_table()], [np.empty(0, np.int64)]
        for path in self._touched(files, columns, wanted):
            keys = self._read(files, path, columns)
            found = locate(keys, wanted)
            hit = found >= 0
            if hit.any():
                tables.append(self._read(files, path, others).filter(pa.array(hit)))
                numbers.append(found[hit])
        rows, which = pa.concat_tables(tables), np.concatenate(numbers)
        if self.kept_from is not None:
            kept = rows.column("__t").to_numpy() >= self.kept_from
            rows, which = rows.filter(pa.array(kept)), which[kept]
        return rows, which

    def _touched(self, files: Files, columns: Sequence[str], wanted: pa.Table) -> Iterator[str]:
        """The files that may have a wanted value, by the ranges their footers state."""
        if not wanted.num_rows:
            return
        ranges = {
            name: pc.min_max(column).as_py()
            for name, column in zip(columns, wanted.columns, strict=True)
            if pa.types.is_integer(column.type) and not column.null_count  # a footer's range leaves NULL out
        }
        for path in self.paths:
            for name, bounds in ranges.items():
                low, high = files.range_of(path, name)
                if low is not None and high is not None and (low > bounds["max"] or high < bounds["min"]):
                    break
            else:
                yield path

    def _read(self, files: Files, path: str, columns: Sequence[str]) -> pa.Table:
        schema = self._schema(columns)
        return files.read([path], schema.names).select(schema.names).cast(schema)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        types = {field.name: arrow_type(field.type) for field in self.fields}
        types |= {"__t": pa.int64(), "__seq": pa.int64(), "__op": pa.string(), "__w": pa.int64()}
        return pa.schema([(name, types[name]) for name in columns])


def stored_log(transaction: Transaction, item: Object) -> StoredLog:
    """The log of `item` as the transaction has it now, its own rows included."""
    parts = transaction.parts(item)
    return StoredLog(
        item.name,
        item.log,
        item.columns,
        item.key or (),
        transaction.files.home,
        tuple(path for part in parts for path in part.files),
        forgotten_before(item, parts, None) if item.forgets_rows else None,
        item.option("retain") is not None and not item.forgets_rows,
    )


def distinct(rows: pa.Table) -> pa.Table:
    """Each row once."""
    return rows.group_by(rows.column_names).aggregate([])


def locate(rows: pa.Table, wanted: pa.Table) -> Numbers:
    """For each row which row of `wanted` (distinct) it equals, column by column; -1 for none. NULL equals NULL.

    Keys group so; a foreign key's NULL, which refers to nothing, is left out of `wanted`.
    """
    if wanted.num_columns == 1:
        return _codes(rows.column(0), wanted.column(0).combine_chunks())
    row_codes, codes = np.zeros(rows.num_rows, np.int64), np.zeros(wanted.num_rows, np.int64)
    known = np.ones(rows.num_rows, dtype=bool)
    for column, given in zip(rows.columns, wanted.columns, strict=True):
        values = given.unique()
        row_code, code = _codes(column, values), _codes(given, values)
        known &= row_code >= 0
        # Numbered anew after each column, so that the product of many columns' numbers stays small.
        together = codes * (len(values) + 1) + code
        seen, codes = np.unique(together, return_inverse=True)
        row_codes = _positions(row_codes * (len(values) + 1) + row_code, seen)
        known &= row_codes >= 0
    order = np.argsort(codes, kind="stable")
    found = _positions(row_codes, codes[order])
    return np.where(known & (found >= 0), order[found] if len(order) else -1, -1).astype(np.int64)


def _codes(column: pa.ChunkedArray, values: pa.Array) -> Numbers:
    found = pc.index_in(column, value_set=values)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def _positions(numbers: Numbers, ordered: Numbers) -> Numbers:
    """Where each number stands in `ordered`; -1 where it does not."""
    if not len(ordered):
        return np.full(len(numbers), -1, np.int64)
    at = np.minimum(np.searchsorted(ordered, numbers), len(ordered) - 1)
    return np.where(ordered[at] == numbers, at, -1).astype(np.int64)


def present_since(log: StoredLog, wanted: pa.Table) -> Numbers:
    """Since when each key of `wanted` (distinct) is there without a break; `NEVER` where it is not there now."""
    since = np.full(wanted.num_rows, NEVER, np.int64)
    rows, which = log.rows(log.key, wanted, ["__t", "__seq", "__op"])
    if not rows.num_rows:
        return since
    which, times, there, _order = _in_time(rows, which)
    position = np.arange(len(which))
    first, last = np.full(len(since), len(which)), np.full(len(since), -1)
    np.minimum.at(first, which, position)
    np.maximum.at(last, which, position)
    start = first.copy()
    gone = ~there
    np.maximum.at(start, which[gone], position[gone] + 1)
    present = start <= last
    since[present] = times[start[present]]
    if log.folded:
        since[present & (start == first)] = ALWAYS
    return since


def _in_time(rows: pa.Table, which: Numbers) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_], Numbers]:
    """Upsert rows by key and time, of one time only the last: key, time, whether it is there, place in `rows`."""
    times, sequence = rows.column("__t").to_numpy(), rows.column("__seq").to_numpy()
    order = np.lexsort((sequence, times, which))
    which, times = which[order], times[order]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (which[1:] != which[:-1]) | (times[1:] != times[:-1])
    there = np.asarray(pc.equal(rows.column("__op"), "+").to_numpy(), dtype=bool)[order]
    return which[last], times[last], there[last], order[last]


def referred_until(log: StoredLog, columns: Sequence[str], wanted: pa.Table) -> Numbers:
    """Until when rows of `log` have each of `wanted` in `columns`: `FOREVER` if some do now, `ALWAYS` if none did."""
    until = np.full(wanted.num_rows, ALWAYS, np.int64)
    if log.log == "append":
        _rows, which = log.rows(columns, wanted, ["__t"])
        until[which] = FOREVER
    elif log.log == "signed":
        rows, which = log.rows(columns, wanted, ["__t", "__w"])
        np.maximum.at(until, which, rows.column("__t").to_numpy())
        weights = np.zeros(len(until), np.int64)
        np.add.at(weights, which, rows.column("__w").to_numpy())
        until[weights > 0] = FOREVER
    else:
        rows, _which = log.rows(columns, wanted, [*log.key, "__t"])
        if rows.num_rows:
            _upserts_until(log, columns, wanted, distinct(rows.select(list(log.key))), until)
    return until


def _upserts_until(log: StoredLog, columns: Sequence[str], wanted: pa.Table, keys: pa.Table, until: Numbers) -> None:
    """A version of a key lasts until its next one, whatever that refers to."""
    others = list(dict.fromkeys([*columns, "__t", "__seq", "__op"]))
    rows, which = log.rows(log.key, keys, others)
    which, times, there, order = _in_time(rows, which)
    ends = np.full(len(times), FOREVER, np.int64)
    same = which[1:] == which[:-1]
    ends[:-1][same] = times[1:][same]
    target = locate(rows.select(list(columns)), wanted)[order]
    refers = there & (target >= 0)
    np.maximum.at(until, target[refers], ends[refers])


@dataclass(frozen=True)
class Fault:
    """A row that a foreign key forbids: its position, the condition, and why."""

    row: int
    condition: str
    reason: str


@dataclass(frozen=True)
class RefersTo:
    """Rows' `columns` must be a key of `parent`; `referenced` are its key columns in that order."""

    columns: tuple[str, ...]
    parent: StoredLog
    referenced: tuple[str, ...]

    def faults(self, rows: pa.Table, times: Numbers, deletes: npt.NDArray[np.bool_]) -> list[Fault]:
        given = rows.select(list(self.columns))
        wanted = distinct(_without_nulls(given))
        # In the order of the parent's key, which the look-up goes by.
        ordered = wanted.select([self.columns[self.referenced.index(name)] for name in self.parent.key])
        number = locate(given, wanted)
        since = np.append(present_since(self.parent, ordered), ALWAYS)[number]  # a NULL, at -1, is always right
        wrong = np.flatnonzero((since > times) & ~deletes)
        return [Fault(int(row), MISSING, self._reason(given, int(row), int(since[row]), times)) for row in wrong]

    def _reason(self, given: pa.Table, row: int, since: int, times: Numbers) -> str:
        values = shown(self.referenced, given, row)
        if since == NEVER:
            return f"{self.parent.name} has no row with {values}"
        at = format_time(int(times[row]))
        return f"{self.parent.name} has a row with {values} only from {format_time(since)} on, and this one is of {at}"


@dataclass(frozen=True)
class ReferredBy:
    """Rows with the key `referenced` may go only when no row of `child` has it in `columns`.

    `own` is the log of the rows themselves once they are written, where the same statement may have put a key back.
    """

    referenced: tuple[str, ...]
    child: StoredLog
    columns: tuple[str, ...]
    own: StoredLog | None = None

    def faults(self, rows: pa.Table, times: Numbers, deletes: npt.NDArray[np.bool_]) -> list[Fault]:
        if not deletes.any():
            return []
        gone = np.flatnonzero(deletes)
        given = rows.select(list(self.referenced)).take(pa.array(gone))
        wanted = distinct(_without_nulls(given))
        number = locate(given, wanted)
        until = np.append(referred_until(self.child, self.columns, wanted), ALWAYS)[number]
        held = until > times[gone]
        if self.own is not None and held.any():
            held &= np.append(present_since(self.own, wanted.select(list(self.own.key))), NEVER)[number] > times[gone]
        return [
            Fault(int(gone[row]), STILL_REFERENCED, self._reason(given, int(row), int(until[row])))
            for row in np.flatnonzero(held)
        ]

    def _reason(self, given: pa.Table, row: int, until: int) -> str:
        values = shown(self.referenced, given, row)
        if until == FOREVER:
            return f"{self.child.name} has rows that refer to {values}"
        return f"{self.child.name} has rows that refer to {values} until {format_time(until)}"


Check = RefersTo | ReferredBy


def _without_nulls(rows: pa.Table) -> pa.Table:
    return rows.drop_null() if any(column.null_count for column in rows.columns) else rows


def shown(names: Sequence[str], rows: pa.Table, row: int) -> str:
    """The values of one row, for people."""
    values = (column[row].as_py() for column in rows.columns)
    return ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))
