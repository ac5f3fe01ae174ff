"""Arrangements: relations kept by a key, in buckets that are each a few runs sorted by the key's hash.

A probe costs what its keys cost: binary search in each run, and only the rows found are read. A change is appended as a
run of its own, and every few runs of about the same size become one. So a bucket has a number of runs that grows with
the logarithm of its rows, and a row is rewritten once for each order of size that its run grows through: a small change
never rewrites a large run by itself. What has been taken back or replaced takes no more room than what is there.

Rows of several runs add up by their weights. Where a key has one row at a time, the newest run decides instead, and no
more than keys is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.storage.bags import (
    HASH,
    WEIGHT,
    Ints,
    codes,
    consolidate,
    differ,
    distinct,
    in_order,
    integers,
    newest,
    take,
)
from headrace.storage.runs import ROWS_A_BATCH, Found, Run, RunFiles, taken

__all__ = ["Appended", "Bucket", "Run", "append_together", "lookup_together", "newest_together"]

#: So many runs of about the same rows become one. More would have rows rewritten less often, and leave more runs to
#: look into.
ALIKE = 4
#: Text of more bytes than this in one column needs 64-bit offsets while it is merged.
_MOST_TEXT = 1 << 30
#: So many rows are looked at to tell whether many are equal.
_SAMPLE = 1 << 16


@dataclass(frozen=True)
class Appended:
    """What an append did: the run it wrote, if rows were left, and the runs that one replaces."""

    new: Run | None
    replaced: tuple[Run, ...]

    def runs(self, before: Sequence[Run]) -> tuple[Run, ...]:
        """The runs of the bucket, after it had those of `before`."""
        kept = tuple(run for run in before if run not in self.replaced)
        return kept if self.new is None else (*kept, self.new)


class Bucket:
    """One bucket of an arrangement, at one moment: its runs, oldest first, never change."""

    def __init__(
        self,
        root: str,
        runs: Sequence[Run],
        schema: pa.Schema,
        measures: tuple[str, ...] = (WEIGHT,),
        *,
        unique: tuple[str, ...] = (),
        cache: str | None = None,
    ) -> None:
        """`unique`: of the rows that are equal on these columns, only the one that came last is there."""
        self.runs = tuple(runs)
        self.schema = schema if schema.metadata is None else schema.remove_metadata()
        self.measures = measures
        self.unique = unique
        self.files = RunFiles(root, cache)

    def lookup(self, hashes: Ints, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows whose `__h` is among the hashes. With `unique`, no more than some columns may be asked for."""
        return lookup_together([(self, distinct(hashes))], columns)

    def find(self, wanted: Ints) -> list[tuple[Run, list[Found]]]:
        """The rows with one of the hashes, which are sorted and distinct, run by run as they stand there."""
        if not len(wanted):
            return []
        looked = [(run, self.files.open(run).find(wanted)) for run in self.runs]
        return [(run, found) for run, found in looked if found]

    def find_newest(self, wanted: Ints) -> list[Found]:
        """The rows with one of the hashes, which are sorted and distinct, each hash in the newest run that has it."""
        found: list[Found] = []
        for run in reversed(self.runs):
            if not len(wanted):
                break
            here = self.files.open(run).find(wanted)
            if here:
                found += here
                wanted = _without(wanted, np.concatenate([one.hashes for one in here]))
        return found

    def scan(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows. With `unique`, no more than some columns may be asked for, `__h` and the unique ones among them."""
        table = pa.concat_tables(self._tables(self.runs) or [self.schema.empty_table()])
        return self.put_together(table if columns is None else table.select(list(columns)), self.runs)

    def put_together(self, table: pa.Table, runs: Sequence[Run]) -> pa.Table:
        """Rows of some runs, which stand below one another, oldest first."""
        if len(runs) <= 1:
            return table  # a run is consolidated as it stands
        if self.unique:
            return take(table, newest(table, self.unique))
        # Inserts add up without being put together.
        return table if all(run.inserts_only for run in runs) else consolidate(table.combine_chunks(), self.measures)

    def between(self, after: int, upto: int) -> pa.Table:
        """All rows with a hash above `after` and up to `upto`: for arrangements whose hash is an order."""
        found = [batch for run in self.runs for batch in self.files.open(run).between(after, upto)]
        return pa.Table.from_batches(found, self.schema)

    def append(self, table: pa.Table, new_path: Callable[[], str], *, distinct: bool = False) -> Appended:
        """Add a change to the bucket: write one new run, which may replace the last ones.

        `new_path` names the file below the root. Columns that are not in the schema are left out. `distinct`: hardly
        any rows are equal, so that inserts are left as they are.
        """
        fresh, inserts = self.netted(table)
        if not fresh.num_rows:
            return Appended(None, ())
        merged = self.merged(fresh.num_rows)
        rows, order, inserts = self.joined(merged, fresh, inserts=inserts, distinct=distinct)
        if not len(order):
            return Appended(None, merged)
        batches = _sorted_batches(rows, order, self.schema)
        return Appended(self.files.write(new_path(), self.schema, batches, inserts_only=inserts), merged)

    def netted(self, table: pa.Table) -> tuple[pa.Table, bool]:
        """What is left of a change, in the schema, and whether no row takes another back.

        Only what is left decides which runs are small against it.
        """
        fresh = self._fitted(table)
        if self.unique:
            return fresh, False
        inserts = self._inserts_only(fresh)
        if not inserts:
            fresh = consolidate(fresh, self.measures)
            inserts = self._inserts_only(fresh)
        return fresh, inserts

    def joined(
        self, runs: Sequence[Run], fresh: pa.Table, *, inserts: bool, distinct: bool = False
    ) -> tuple[pa.Table, Ints, bool]:
        """The rows of some runs and of a change after them, the order in which they are to stand, and `inserts`."""
        rows = _in_one_piece(pa.concat_tables([*self._tables(runs), fresh]))
        if self.unique:
            return rows, newest(rows, self.unique), False
        inserts = inserts and all(run.inserts_only for run in runs)
        order = _by_hash(rows)
        if inserts and (distinct or self._mostly_distinct(rows, order)):
            pass
        elif runs or inserts:
            rows = consolidate(rows, self.measures)
            order, inserts = _by_hash(rows), self._inserts_only(rows)
        return rows, order, inserts

    def last(self, rows: int) -> tuple[tuple[Run, ...], list[pa.Table]]:
        """The last runs that are small against so many rows, and what is in them."""
        merged = self.merged(rows)
        return merged, self._tables(merged)

    def _mostly_distinct(self, rows: pa.Table, order: Ints) -> bool:
        """Whether inserts are better left as they are: many, and hardly any of them equal.

        Equal rows have equal hashes, so a piece of the rows in order of hash has as many copies as all have.
        """
        if rows.num_rows <= _SAMPLE:
            return False
        names = [name for name in self.schema.names if name not in self.measures]
        piece = codes(take(rows, order[:_SAMPLE]), names)
        return int(piece.max()) + 1 > 0.9 * _SAMPLE

    def merged(self, rows: int) -> tuple[Run, ...]:
        """The last runs that a change of so many rows becomes one with.

        Those are as many as are alike, or all, once there is as much beside the first run as in it.
        """
        first = len(self.runs)
        while True:
            start = first
            while start and _size(self.runs[start - 1].rows) <= _size(rows):
                start -= 1
            if first - start < ALIKE - 1:
                break
            rows += sum(run.rows for run in self.runs[start:first])
            first = start
        beside = rows + sum(run.rows for run in self.runs[1:first])
        return self.runs if self.runs and beside >= self.runs[0].rows else self.runs[first:]

    def _tables(self, runs: Sequence[Run]) -> list[pa.Table]:
        return [self.files.open(run).table() for run in runs]

    def _fitted(self, table: pa.Table) -> pa.Table:
        table = table.select(self.schema.names)
        return table if table.schema.equals(self.schema, check_metadata=True) else table.cast(self.schema)

    def _inserts_only(self, table: pa.Table) -> bool:
        """Whether rows can stand beside others of theirs. Other measures than weights are to be added up."""
        least = pc.min(table.column(WEIGHT)).as_py() if self.measures == (WEIGHT,) else None
        return least is not None and least > 0


# --- Several buckets at once ------------------------------------------------------------------------------------------


def lookup_together(wanted: Sequence[tuple[Bucket, Ints]], columns: Sequence[str] | None = None) -> pa.Table:
    """All rows of some buckets with one of the hashes of each, which are sorted and distinct."""
    bucket = wanted[0][0]
    looked = [one.find(hashes) for one, hashes in wanted]
    rows = [found for runs in looked for _run, some in runs for found in some]
    # Where the newest row counts, those of each bucket have to stay in the order of its runs.
    batches = [batch for one in rows for batch in taken([one], columns)] if bucket.unique else taken(rows, columns)
    # Only rows of the same bucket can be equal.
    return bucket.put_together(
        _table(bucket, batches, columns), [run for runs in looked if len(runs) > 1 for run, _found in runs]
    )


def newest_together(wanted: Sequence[tuple[Bucket, Ints]], keys: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of some unique buckets that have the keys of `keys`, and perhaps others that hash like them.

    As `lookup_together` for the hashes of those keys, but the runs before the newest that has a hash are not looked
    into. That is wrong only where keys of one hash are in several runs, so it is seen to that every key was met.
    """
    bucket = wanted[0][0]
    rows = [found for one, hashes in wanted for found in one.find_newest(hashes)]
    table = _table(bucket, taken(rows, columns), columns)
    return table if _has_keys(table, keys, bucket.unique) else lookup_together(wanted, columns)


def _table(bucket: Bucket, batches: Sequence[pa.RecordBatch], columns: Sequence[str] | None) -> pa.Table:
    schema = bucket.schema if columns is None else pa.schema([bucket.schema.field(name) for name in columns])
    # A file may say in its metadata where its pieces end.
    return pa.Table.from_batches([batch.replace_schema_metadata() for batch in batches], schema)


def _has_keys(table: pa.Table, keys: pa.Table, key: Sequence[str]) -> bool:
    """Whether every key whose hash is in a table is that of the one row there with this hash."""
    if not table.num_rows:
        return True
    hashes = integers(table, HASH)
    order = in_order(hashes)
    hashes = hashes[order]
    if (hashes[1:] == hashes[:-1]).any():
        return False
    asked = integers(keys, HASH)
    near = np.minimum(np.searchsorted(hashes, asked), len(hashes) - 1)
    met = np.flatnonzero(hashes[near] == asked)
    return not differ((keys, met), (table, order[near[met]]), key)


def _without(numbers: Ints, others: Ints) -> Ints:
    """The numbers that are not among others; both are sorted."""
    near = np.minimum(np.searchsorted(others, numbers), len(others) - 1)
    return numbers[others[near] != numbers]


def append_together(
    buckets: Mapping[int, Bucket], of: int, table: pa.Table, new_path: Callable[[], str]
) -> dict[int, Appended] | None:
    """Add a change to several of an arrangement's `of` buckets: one file with a run for each.

    None where that would be too much to have in memory at once: then each is to be appended to by itself.
    """
    some = next(iter(buckets.values()))
    fresh, inserts = some.netted(table)
    counts = np.bincount(integers(fresh, HASH) % of, minlength=of)
    changed = {number: bucket for number, bucket in buckets.items() if counts[number]}
    merged = {number: bucket.merged(int(counts[number])) for number, bucket in changed.items()}
    runs = [run for replaced in merged.values() for run in replaced]
    if fresh.num_rows + sum(run.rows for run in runs) > ROWS_A_BATCH:
        return None
    if not fresh.num_rows:
        return {}
    rows, order, inserts = some.joined(runs, fresh, inserts=inserts)
    places = integers(rows, HASH)[order] % of
    # Within a bucket rows stay in the order of their hash.
    order = order[np.argsort(places.astype(np.uint16), kind="stable")]
    table = take(rows, order).cast(some.schema).combine_chunks()
    left = np.bincount(places, minlength=of)
    filled = [number for number in changed if left[number]]
    sizes = [int(left[number]) for number in filled]
    written = some.files.write_pieces(new_path(), table, sizes, inserts_only=inserts) if filled else []
    new = dict(zip(filled, written, strict=True))
    return {number: Appended(new.get(number), replaced) for number, replaced in merged.items()}


def _size(rows: int) -> int:
    """The order of size of a run."""
    return (rows.bit_length() - 1) // (ALIKE.bit_length() - 1)


def _by_hash(table: pa.Table) -> Ints:
    return in_order(integers(table, HASH))


def _sorted_batches(table: pa.Table, order: Ints, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows in order, a batch at a time."""
    for start in range(0, len(order), ROWS_A_BATCH):
        part = take(table, order[start : start + ROWS_A_BATCH]).cast(schema).combine_chunks()
        yield from part.to_batches()


def _in_one_piece(table: pa.Table) -> pa.Table:
    """Every column in one chunk: with 64-bit offsets where text or bytes are too many for 32."""
    fields = []
    for field in table.schema:
        kind = field.type
        if table.column(field.name).nbytes > _MOST_TEXT:
            kind = pa.large_string() if types.is_string(kind) else pa.large_binary() if types.is_binary(kind) else kind
        fields.append(field.with_type(kind))
    wide = pa.schema(fields)
    table = table if wide.equals(table.schema) else table.cast(wide)
    return table if all(column.num_chunks == 1 for column in table.columns) else table.combine_chunks()
