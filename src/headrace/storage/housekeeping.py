"""Keeping a home tidy: orphans, snapshots past their time, rows past RETAIN, and many small files into few large ones.

Roll-up changes no row: the merged file covers the same temporal parts, keeps their last-updated time and does not make
any view due.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import log
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from headrace.errors import StorageError
from headrace.storage import faults, schema
from headrace.storage.bags import ascending, consolidate, integers
from headrace.storage.catalog import Catalog, now_micros
from headrace.storage.files import PIECE, Files, file_of
from headrace.storage.records import Object, Part, load
from headrace.storage.transactions import NewPart, Transaction
from headrace.storage.writer import part_of

#: Files up to this size are worth merging, into files of about this many rows.
SMALL_FILE = 8 << 20
REFRESHES_KEPT = 10_000
ROWS_A_FILE = 4_000_000
#: So many times the rows that came last are merged at a time, so that no refresh waits long for the files of others:
#: not fewer than the first of these, nor more than the second, which it is where files have waited too long.
ROWS_A_TIME = (50_000, 200_000)
_TIMES_THE_LAST = 8
#: For each so many rows of an object, there may be one more small file of it.
ROWS_ONE_MORE = 250_000
#: More bytes than this are deleted while others go on.
BYTES_BESIDE = 256 << 20
#: So many files of one order of size are merged into one of the next.
ALIKE = 8
#: With so many files more than allowed, those are merged too that cost much for each that goes.
WAITED = 2 * ALIKE
#: Files with fewer rows than this always cost little.
FEW_ROWS = 10_000


def remove_orphans(catalog: Catalog, files: Files) -> int:
    """Delete files that no kept snapshot names. Only the one writer may do this, before it writes."""
    named = catalog.named_files()
    orphans = [path for path in files.all() if path not in named]
    _check_own(catalog, orphans)
    files.delete(orphans)
    return len(orphans)


def _check_own(catalog: Catalog, orphans: Iterable[str]) -> None:
    """Refuse to delete what cannot be a leftover: files of commits this catalog has not come to.

    A file's path carries the number of the commit that was to name it, so what a crash leaves is at most one ahead.
    Files further ahead belong to another catalog, or to this one before it was set back.
    """
    next_commit = catalog.latest_id() + 1
    for path in orphans:
        version = re.search(r"/v(\d+)/", path)
        if version is not None and int(version.group(1)) > next_commit:
            raise StorageError(
                "FILES_OF_ANOTHER_CATALOG",
                f"This home has files its catalog does not know, such as {path}; the catalog is at snapshot "
                f"{next_commit - 1}.",
                detail="They were written with another catalog, or with this one before it was set back. "
                "Nothing was deleted.",
                hint="Open the home with the catalog it was made with, or use an empty folder.",
            )


def drop_old_snapshots(catalog: Catalog, files: Files, keep: int, seconds: int) -> int:
    """Forget snapshots beyond the last `keep` that are also older than `seconds`, and files only they used.

    The newest snapshot always stays.
    """
    snapshots, parts = schema.snapshots, schema.parts
    faults.reach("before dropping snapshots")
    with catalog.engine.begin() as connection:
        newest = connection.execute(sa.select(sa.func.max(snapshots.c.id))).scalar_one()
        edge = connection.execute(
            sa.select(sa.func.max(snapshots.c.id)).where(
                snapshots.c.id <= newest - max(1, keep), snapshots.c.committed_at < now_micros() - seconds * 1_000_000
            )
        ).scalar()
        if edge is None:
            return 0
        told = sa.select(parts.c.files, parts.c.bytes, parts.c.object_id, parts.c.added_in)
        dead = connection.execute(told.where(parts.c.removed_in <= edge + 1)).all()
        connection.execute(sa.delete(snapshots).where(snapshots.c.id <= edge))
        _drop_old_refreshes(connection)
        connection.execute(sa.delete(parts).where(parts.c.removed_in <= edge + 1))
        gone = _unnamed(connection, dead)
        faults.reach("inside dropping snapshots")
    faults.reach("after dropping snapshots")
    # Files go after the commit: a crash in between leaves orphans, never a named file that is missing.
    if sum(row.bytes for row in dead) > BYTES_BESIDE:
        files.delete_beside(gone)
    else:
        files.delete(gone)
    return len(dead)


def _unnamed(connection: Connection, dead: Sequence[Any]) -> list[str]:
    """The files of parts that are gone, without those of which another part still is a piece."""
    parts = schema.parts
    names = [name for row in dead for name in load(row.files)]
    gone = {file_of(name) for name in names}
    # All pieces of a file were added to one object by one commit.
    cut: dict[int, set[int]] = defaultdict(set)
    for row in dead:
        if PIECE in row.files:
            cut[row.added_in].add(row.object_id)
    for commit, objects in cut.items():
        beside = sa.select(parts.c.files).where(parts.c.added_in == commit, parts.c.object_id.in_(objects))
        gone -= {file_of(name) for row in connection.execute(beside) for name in load(row.files)}
    return sorted(gone)


def _drop_old_refreshes(connection: Connection) -> None:
    """Keep the newest refresh records, each view's last one, and all since the view that lags most was refreshed.

    A view learns from its inputs' records what has changed since it read them.
    """
    table, objects = schema.refreshes, schema.objects
    newest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0
    last = sa.select(sa.func.max(table.c.id)).group_by(table.c.object_id)
    live = sa.select(objects.c.id).where(objects.c.ended_in.is_(None))
    lagging = sa.select(sa.func.min(table.c.snapshot_id)).where(table.c.id.in_(last), table.c.object_id.in_(live))
    least = connection.execute(lagging).scalar() or 0
    connection.execute(
        sa.delete(table).where(
            table.c.id <= newest - REFRESHES_KEPT, table.c.id.not_in(last), table.c.snapshot_id <= least
        )
    )


def forget(transaction: Transaction, item: Object, before: int | None) -> None:
    """Drop the parts of an object that lie wholly before a time, and trim those that lie half before it."""
    if before is None:
        return
    timed = [part for part in transaction.base.parts(item) if part.newest is not None and part.oldest is not None]
    transaction.remove_parts([part for part in timed if part.newest < before])  # type: ignore[operator]
    for part in timed:
        if item.partition_length is not None and part.first == part.last:
            continue  # temporal parts go as a whole
        # Rolled-up parts are long: waiting for all of one to be too old would keep rows for ever.
        if part.newest >= before and 2 * (before - part.oldest) >= part.newest - part.oldest > 0:  # type: ignore[operator]
            _merge(transaction, item, [part], before)


def roll_up(transaction: Transaction, item: Object, most: int, read_in: Iterable[int]) -> int:
    """Merge an object's small files, some at a time, when they are too many. Returns how many were merged.

    `read_in` are the snapshots in which the views over it read it last. Rows on two sides of one are not merged, so
    that each view can still tell what is new to it.
    """
    kept = {part.id for part in transaction.parts(item)}  # without what `forget` took away in this transaction
    parts = [part for part in transaction.base.parts(item) if part.id in kept]
    small, allowed = mergeable(item, parts, most), allowed_files(parts, most)
    if len(small) <= allowed:
        return 0
    merged = rows = 0
    waited = len(small) > allowed + WAITED
    at_most = _rows_at_once(small, waited=waited)
    groups = _groups(small, sorted(set(read_in)), _recent(item, parts, most))
    found = [(group, _alike(group, at_most)) for group in groups]
    chosen = [some for group, some in found if len(some) > 1 and (waited or _is_worth_it(group, some))]
    for some in sorted(chosen, key=_rows_a_file_less):
        if merged and rows + _rows(some) > at_most:
            break
        _merge(transaction, item, some)
        merged += len(some)
        rows += _rows(some)
    return merged


def mergeable(item: Object, parts: Sequence[Part], most: int) -> list[Part]:
    """The small files of an object but for those of recent temporal parts, which stay apart: each has one."""
    small = [part for part in parts if part.bytes <= SMALL_FILE]
    recent = _recent(item, parts, most)
    if recent is None:
        return small
    files = Counter(part.first for part in small)
    return [part for part in small if part.first < recent or files[part.first] > 1]


def is_crowded(item: Object, parts: Sequence[Part], most: int) -> bool:
    """Whether an object has more small files than it may have."""
    allowed = allowed_files(parts, most)
    return len(parts) > allowed and len(mergeable(item, parts, most)) > allowed


def _is_worth_it(group: Sequence[Part], some: Sequence[Part]) -> bool:
    """Whether to merge some of a group now: not a few of many, nor what hardly grows by it."""
    return len(some) >= min(ALIKE, len(group)) and _grows(some)


def _grows(parts: Sequence[Part]) -> bool:
    """Whether the largest of some files becomes enough larger by all others to be written anew."""
    largest = max(part.rows for part in parts)
    return largest <= max(ALIKE * (_rows(parts) - largest), FEW_ROWS)


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)


def _rows_a_file_less(parts: Sequence[Part]) -> float:
    """How many rows are rewritten for every file that is spared."""
    return _rows(parts) / (len(parts) - 1)


def _rows_at_once(small: Sequence[Part], *, waited: bool) -> int:
    least, most = ROWS_A_TIME
    if waited:
        return most
    last = max(part.arrived_in for part in small)
    came = sum(part.rows for part in small if part.arrived_in == last)
    return min(most, max(least, _TIMES_THE_LAST * came))


def allowed_files(parts: Sequence[Part], most: int) -> int:
    """How many small files may stand beside each other: beside many rows they matter less to who reads them all."""
    return most + _rows(parts) // ROWS_ONE_MORE


def _alike(group: Sequence[Part], rows: int) -> Sequence[Part]:
    """Neighbours to be merged, of about so many rows: of one order of size, so that no row is merged often.

    The smallest come first. Where no eight are alike, those eight that have the fewest rows.
    """
    if len(group) <= ALIKE or (_rows(group) <= rows and _grows(group)):
        return _first(group, rows)
    runs: list[list[Part]] = []
    for part in group:
        if not runs or _order(runs[-1][0]) != _order(part):
            runs.append([])
        runs[-1].append(part)
    long = [run for run in runs if len(run) >= ALIKE]
    if long:
        return _first(min(long, key=lambda run: _order(run[0])), rows)
    windows = [group[start : start + ALIKE] for start in range(len(group) - ALIKE + 1)]
    return _first(min(windows, key=_rows), rows)


def _order(part: Part) -> int:
    return int(log(max(part.rows, 1), ALIKE))


def _first(group: Sequence[Part], rows: int) -> Sequence[Part]:
    """The first parts with no more than so many rows together, but two in any case."""
    sums = list(accumulate(part.rows for part in group))
    return group[: max(2, bisect_right(sums, rows))]


def _recent(item: Object, parts: Sequence[Part], most: int) -> int | None:
    """From this temporal part on, parts stay apart; older ones are rolled up into larger ones."""
    return None if item.partition_length is None else max((part.last for part in parts), default=0) - most


def _groups(parts: Sequence[Part], read_in: Sequence[int], recent: int | None) -> list[list[Part]]:
    """Neighbours in time that may be merged, each group about one file's worth of rows."""
    alike: dict[tuple[int, int | None], list[Part]] = defaultdict(list)
    for part in parts:
        apart = part.first if recent is not None and part.first >= recent else None
        alike[bisect_left(read_in, part.arrived_in), apart].append(part)
    groups: list[list[Part]] = []
    for same in alike.values():
        rows = ROWS_A_FILE
        for part in sorted(same, key=lambda part: (part.oldest or 0, part.id)):
            rows += part.rows
            if rows > ROWS_A_FILE:
                groups.append([])
                rows = part.rows
            groups[-1].append(part)
    return groups


def _merge(transaction: Transaction, item: Object, group: Sequence[Part], since: int | None = None) -> None:
    """One part of several, without rows before `since`."""
    table = transaction.files.read([path for part in group for path in part.files])
    if item.log == "state" or item.part_wise:
        # What came and went since adds up to nothing: a view's content is no longer than it has rows.
        table = consolidate(table.combine_chunks())
    if since is not None:
        table = table.filter(pc.greater_equal(table.column("__t"), since))
    order = [name for name in ("__t", "__seq") if name in table.column_names]
    if order and not ascending([integers(table, name) for name in order]):
        table = table.sort_by([(name, "ascending") for name in order])
    oldest = min((part.oldest for part in group if part.oldest is not None), default=None)
    first = min(part.first for part in group)
    if since is not None and oldest is not None:
        oldest = max(oldest, since)
        first = max(first, part_of(oldest, item.partition_length))
    written = transaction.files.write(
        transaction.files.new_folder(item.name, first, transaction.version), table.combine_chunks()
    )
    transaction.remove_parts(group)
    transaction.add_part(
        NewPart(
            item.id,
            first,
            max(part.last for part in group),
            (written,),
            oldest,
            max((part.newest for part in group if part.newest is not None), default=None),
            _inserts_only(item, group, table),
            changed_at=max(part.changed_at for part in group),
            arrived_in=max(part.arrived_in for part in group),
        )
    )


def _inserts_only(item: Object, group: Sequence[Part], table: pa.Table) -> bool:
    if item.log == "state" or item.part_wise:
        return bool(pc.all(pc.equal(table.column("__w"), 1)).as_py()) if table.num_rows else True
    return all(part.inserts_only for part in group)
