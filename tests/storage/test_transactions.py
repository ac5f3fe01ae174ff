"""One transaction over all objects: nothing before the commit, everything after it, and no commit without the lease."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from headrace.errors import StorageError
from headrace.storage import housekeeping, schema
from headrace.storage.catalog import Catalog
from headrace.storage.files import Written
from headrace.storage.lease import Lease
from headrace.storage.transactions import NewPart, Transaction
from headrace.storage.writer import part_of, write_frame, write_table
from tests.storage.conftest import Store, an_object, log_rows
from tests.storage.test_catalog import a_refresh


def test_nothing_is_visible_before_the_commit(store: Store, open_catalog: Callable[[], Catalog]) -> None:
    reader = open_catalog()
    item = store.create("a")
    transaction = store.begin("two things")
    other = transaction.create(an_object("b"))
    write_table(transaction, item, log_rows(1), inserts_only=True)
    write_table(transaction, other, log_rows(2, 3), inserts_only=True)
    before = reader.latest()
    assert ([entry.name for entry in before.objects()], before.parts(item)) == (["a"], ())
    committed = transaction.commit()
    after = reader.latest()
    assert (after.id, after.info.reason) == (committed.id, "two things")
    assert (store.times(item, after), store.times(other, after)) == ([1], [2, 3])
    assert before.parts(item) == ()


def test_a_transaction_reads_what_it_did_itself(store: Store) -> None:
    item = store.create("a")
    store.add(item, 1)
    transaction = store.begin()
    transaction.remove_parts(transaction.base.parts(item))
    write_table(transaction, item, log_rows(5, 7), inserts_only=False)
    (part,) = transaction.parts(item)
    assert (part.oldest, part.newest, part.rows, part.inserts_only) == (5, 7, 2, False)
    assert (part.version, part.arrived_in) == (transaction.version, transaction.version)
    transaction.record(a_refresh(item.id, transaction.version, 7))
    assert transaction.refresh_of(item) is not None


def test_empty_until_something_is_to_be_written(store: Store) -> None:
    item = store.create("a")
    assert store.begin().empty
    changes: list[Callable[[Transaction], object]] = [
        lambda t: t.create(an_object("b")),
        lambda t: t.alter(item),
        lambda t: t.end(item),
        lambda t: t.set_offset(item, 1),
        lambda t: t.land_file(item, "x"),
        lambda t: t.record(a_refresh(item.id, t.version, 1)),
        lambda t: t.set_home_options({}),
        lambda t: setattr(t, "clock", 5),
        lambda t: setattr(t, "advanced_to", 5),
        lambda t: write_table(t, item, log_rows(1), inserts_only=True),
    ]
    for change in changes:
        transaction = store.begin()
        change(transaction)
        assert not transaction.empty
    transaction = store.begin()
    write_table(transaction, item, log_rows(), inserts_only=True)
    assert transaction.empty


def test_reset_takes_back_what_came_after_the_mark(store: Store) -> None:
    item = store.create("a")
    store.add(item, 1)
    transaction = store.begin()
    write_table(transaction, item, log_rows(2), inserts_only=True)
    mark = transaction.mark()
    transaction.remove_parts(transaction.base.parts(item))
    write_table(transaction, item, log_rows(3), inserts_only=True)
    transaction.record(a_refresh(item.id, transaction.version, 3))
    transaction.reset(mark)
    assert store.times(item, transaction.commit()) == [1, 2]
    assert store.catalog.refreshes() == []


def test_a_failing_commit_changes_nothing(store: Store) -> None:
    item = store.create("a")
    before = store.catalog.latest()
    transaction = store.begin()
    write_table(transaction, item, log_rows(1), inserts_only=True)
    transaction.set_offset(item, 1)
    transaction.add_part(NewPart(999_999, 0, 0, (Written("x", 1, 1),), None, None, True))  # of no object
    with pytest.raises(sa.exc.IntegrityError):
        transaction.commit()
    assert store.catalog.latest() is before
    assert (before.parts(item), store.catalog.latest().offset(item)) == ((), None)
    assert housekeeping.remove_orphans(store.catalog, store.files) == 1
    assert store.files.all() == []


def test_a_commit_on_a_stale_base_is_refused(store: Store) -> None:
    stale = store.begin()
    stale.create(an_object("late"))
    store.create("early")
    with pytest.raises(StorageError) as error:
        stale.commit()
    assert error.value.condition == "SNAPSHOT_MOVED"
    assert [item.name for item in store.catalog.latest().objects()] == ["early"]


def test_a_writer_that_lost_its_lease_cannot_commit(store: Store, open_catalog: Callable[[], Catalog]) -> None:
    """Fencing: the lease is checked inside the commit, whatever the writer believes."""
    item = store.create("a")
    transaction = store.begin()
    write_table(transaction, item, log_rows(1), inserts_only=True)
    with store.catalog.engine.begin() as connection:
        connection.execute(sa.update(schema.leases).values(renewed_at=0))
    other = Lease(open_catalog())
    with pytest.raises(StorageError) as error:
        transaction.commit()
    assert error.value.condition == "LEASE_LOST"
    assert store.catalog.latest().parts(item) == ()
    other.release()


def test_last_updated_moves_only_where_rows_were_added(store: Store) -> None:
    length = 10
    item = store.create("a", partition_length=length)
    other = store.create("b")
    store.add(other, 1)
    first = store.add(item, 1, 2, 10_000_001)
    times = {part.first: part.changed_at for part in first.parts(item)}
    assert set(times) == {0, 1}
    again = store.add(item, 20_000_000, 10_000_005)
    by_part: dict[int, list[int]] = {}
    for part in again.parts(item):
        by_part.setdefault(part.first, []).append(part.changed_at)
    assert by_part[0] == [times[0]]
    assert min(by_part[1]) == times[1] < max(by_part[1])
    assert by_part[2] == [max(by_part[1])]
    assert again.parts(other) == first.parts(other)


def test_rows_go_to_the_part_of_their_time(store: Store) -> None:
    item = store.create("a", partition_length=60)
    snapshot = store.add(item, -1, 0, 59_999_999, 60_000_000)
    found = [(part.first, part.last, part.oldest, part.newest, part.rows) for part in snapshot.parts(item)]
    assert found == [(-1, -1, -1, -1, 1), (0, 0, 0, 59_999_999, 2), (1, 1, 60_000_000, 60_000_000, 1)]
    assert [part_of(time, 60) for time in (-1, 0, 60_000_000)] == [-1, 0, 1]
    assert part_of(12345, None) == 0
    assert [path.split("/")[:2] for path in sorted(store.paths(item))] == [["a", f"part={n}"] for n in (-1, 0, 1)]


def test_very_many_parts_can_end_in_one_commit(store: Store) -> None:
    """More than any database takes as the list of one IN."""
    item = store.create("a")
    (part,) = store.add(item, 1).parts(item)
    transaction = store.begin()
    transaction.remove_parts([replace(part, id=number) for number in range(66_000)])
    assert part.id < 66_000
    assert transaction.commit().parts(item) == ()


class _Engine:
    """Writes a frame (here an Arrow table) as an engine's two tasks would."""

    def write(self, frame: pa.Table, path: str) -> None:
        import os

        os.makedirs(path, exist_ok=True)
        half = frame.num_rows // 2
        for number, piece in enumerate((frame.slice(0, half), frame.slice(half))):
            pq.write_table(piece, f"{path}/part-{number:05d}-{os.urandom(4).hex()}.parquet")
        open(f"{path}/_SUCCESS", "w").close()


def test_large_results_are_taken_from_the_engines_files(store: Store) -> None:
    item = store.create("a")
    engine: Any = _Engine()
    transaction = store.begin()
    assert write_frame(transaction, item, log_rows(3, 1, 9, 4), engine, inserts_only=True) == 4
    snapshot = transaction.commit()
    assert store.times(item, snapshot) == [1, 3, 4, 9]
    assert [(part.oldest, part.newest) for part in snapshot.parts(item)] in ([(1, 3), (4, 9)], [(4, 9), (1, 3)])


def test_files_of_a_failed_attempt_are_not_taken_for_the_next(store: Store) -> None:
    """Both attempts would make the same commit, so they must not share a folder."""
    item = store.create("a")
    engine: Any = _Engine()
    write_frame(store.begin(), item, log_rows(1, 2), engine, inserts_only=True)  # never committed
    transaction = store.begin()
    write_table(transaction, item, log_rows(7), inserts_only=True)
    assert write_frame(transaction, item, log_rows(3, 4), engine, inserts_only=True) == 2
    assert store.times(item, transaction.commit()) == [3, 4, 7]
