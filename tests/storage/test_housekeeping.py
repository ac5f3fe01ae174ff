"""Keeping a home tidy never changes a row that somebody may still read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.errors import StorageError
from headrace.storage import housekeeping
from headrace.storage.catalog import Catalog, Snapshot
from headrace.storage.files import Files, Written
from headrace.storage.records import Object
from headrace.storage.transactions import NewPart
from headrace.storage.writer import write_table
from tests.storage.conftest import Store, log_rows

SECOND = 1_000_000


def roll_up(store: Store, item: Object, most: int = 1, read_in: tuple[int, ...] = ()) -> tuple[int, Snapshot]:
    transaction = store.begin("housekeeping")
    merged = housekeeping.roll_up(transaction, item, most, read_in)
    return merged, store.catalog.latest() if transaction.empty else transaction.commit()


def test_small_parts_become_one_and_no_row_changes(store: Store) -> None:
    item = store.create("a")
    for times in ((5, 9), (1,), (7, 3)):
        before = store.add(item, *times)
    merged, after = roll_up(store, item)
    assert merged == 3
    (part,) = after.parts(item)
    old = before.parts(item)
    assert (part.rows, part.oldest, part.newest) == (5, 1, 9)
    assert part.changed_at == max(other.changed_at for other in old)
    assert part.arrived_in == max(other.arrived_in for other in old) == before.id
    assert part.added_in == after.id
    table = store.files.read(list(part.files))
    assert table.column("__t").to_pylist() == [1, 3, 5, 7, 9]
    assert table.column("value").to_pylist() == [10, 30, 50, 70, 90]
    # The snapshot before still reads its own files.
    assert store.times(item, store.catalog.snapshot(before.id)) == [1, 3, 5, 7, 9]


def test_few_parts_are_left_alone(store: Store) -> None:
    item = store.create("a")
    for time in range(3):
        before = store.add(item, time)
    assert roll_up(store, item, most=3) == (0, before)


def sizes(snapshot: Snapshot, item: Object) -> list[int]:
    return sorted(part.rows for part in snapshot.parts(item))


def test_some_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no refresh has to wait for the roll-up of all; the oldest come first, and two in any case."""
    item = store.create("a")
    for time in range(6):
        store.add(item, time)
    monkeypatch.setattr(housekeeping, "WAITED", 0)
    monkeypatch.setattr(housekeeping, "ROWS_A_TIME", (3, 3))
    merged, after = roll_up(store, item, most=4)
    assert (merged, sizes(after, item)) == (3, [1, 1, 1, 3])
    monkeypatch.setattr(housekeeping, "ROWS_A_TIME", (1, 1))
    merged, after = roll_up(store, item, most=3)
    assert (merged, sizes(after, item)) == (2, [1, 1, 4])
    assert store.times(item, after) == list(range(6))


def test_as_many_times_what_came_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small refresh does not wait for files of large ones."""
    item = store.create("a")
    for time in range(12):
        store.add(item, time)
    monkeypatch.setattr(housekeeping, "ROWS_A_TIME", (1, 100))
    merged, after = roll_up(store, item, most=8)
    assert (merged, sizes(after, item)) == (8, [1, 1, 1, 1, 8])


def test_where_files_are_too_many_it_does_not_matter_how_little_came_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = store.create("a")
    for time in range(12):
        store.add(item, time)
    monkeypatch.setattr(housekeeping, "ROWS_A_TIME", (1, 100))
    monkeypatch.setattr(housekeeping, "WAITED", 8)
    merged, after = roll_up(store, item, most=2)
    assert (merged, sizes(after, item)) == (12, [12])


def test_few_of_many_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """To merge two files of many spares one, and the next refresh would have as many again."""
    item = store.create("a")
    monkeypatch.setattr(housekeeping, "ROWS_A_TIME", (3, 3))
    monkeypatch.setattr(housekeeping, "WAITED", 6)
    for time in range(10):
        store.add(item, time)
    assert roll_up(store, item, most=4)[0] == 0
    store.add(item, 10)
    assert roll_up(store, item, most=4)[0] == 3


def test_a_large_file_is_not_written_anew_for_a_small_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    item = store.create("a")
    monkeypatch.setattr(housekeeping, "FEW_ROWS", 0)
    store.add(item, *range(100))
    seen = []
    for time in range(100, 113):
        store.add(item, time)
        seen.append(sizes(roll_up(store, item, most=1)[1], item))
    assert seen[6:9] == [[1, 1, 1, 1, 1, 1, 1, 100], [8, 100], [1, 8, 100]]
    assert seen[-2:] == [[1, 1, 1, 1, 8, 100], [113]]


def test_a_file_goes_with_the_last_of_its_pieces(store: Store) -> None:
    item = store.create("a")
    first = store.add(item, 1)
    (path,) = first.parts(item)[0].files
    transaction = store.begin("pieces")
    transaction.remove_parts(first.parts(item))
    for piece in range(2):
        transaction.add_part(NewPart(item.id, 0, 0, (Written(f"{path}#{piece}", 1, 1),), None, None, True))
    both = transaction.commit()
    transaction = store.begin("one less")
    transaction.remove_parts(both.parts(item)[:1])
    left = transaction.commit()
    housekeeping.drop_old_snapshots(store.catalog, store.files, 1, 0)
    assert housekeeping.remove_orphans(store.catalog, store.files) == 0
    assert store.files.all() == [path]
    transaction = store.begin("none")
    transaction.remove_parts(left.parts(item))
    transaction.commit()
    housekeeping.drop_old_snapshots(store.catalog, store.files, 1, 0)
    assert store.files.all() == []


def test_large_files_are_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    item = store.create("a")
    for time in range(3):
        before = store.add(item, time)
    monkeypatch.setattr(housekeeping, "SMALL_FILE", 1)
    assert roll_up(store, item) == (0, before)


def test_what_came_and_went_in_a_view_adds_up(store: Store) -> None:
    view = store.create("v", kind="view", log="state")
    for values, weight in (([1, 2], 1), ([2], -1), ([3], 1)):
        transaction = store.begin()
        rows = pa.table({"value": values, "__w": pa.array([weight] * len(values), pa.int64())})
        write_table(transaction, view, rows, inserts_only=weight > 0)
        transaction.commit()
    merged, after = roll_up(store, view)
    (part,) = after.parts(view)
    assert (merged, part.inserts_only) == (3, True)
    assert sorted(store.files.read(list(part.files)).column("value").to_pylist()) == [1, 3]


def test_rows_of_one_time_keep_their_order(store: Store) -> None:
    item = store.create("a")
    for values in ([1, 2], [3], [4, 5]):
        transaction = store.begin()
        rows = log_rows(*[7 for _ in values])
        rows = rows.set_column(0, "value", [values]).set_column(2, "__seq", [values])
        write_table(transaction, item, rows, inserts_only=True)
        transaction.commit()
    _merged, after = roll_up(store, item)
    assert store.files.read(list(after.parts(item)[0].files)).column("value").to_pylist() == [1, 2, 3, 4, 5]


def test_parts_with_deletes_make_a_part_with_deletes(store: Store) -> None:
    item = store.create("a")
    store.add(item, 1)
    store.add(item, 2, inserts_only=False)
    _merged, after = roll_up(store, item)
    assert [part.inserts_only for part in after.parts(item)] == [False]


def test_what_a_view_has_read_is_not_merged_with_what_it_has_not(store: Store) -> None:
    item = store.create("a")
    numbers = [store.add(item, time).id for time in range(6)]
    merged, after = roll_up(store, item, read_in=(numbers[1], numbers[3], numbers[3], 0))
    assert merged == 6
    parts = after.parts(item)
    assert [part.arrived_in for part in parts] == [numbers[1], numbers[3], numbers[5]]
    assert [store.files.read(list(part.files)).column("__t").to_pylist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
    # For each reader the rows that are new are the ones that were new before.
    for read_in, new in ((numbers[1], 4), (numbers[3], 2), (0, 6)):
        assert sum(part.rows for part in parts if part.arrived_in > read_in) == new


def test_recent_temporal_parts_stay_apart_and_old_ones_are_rolled_up(store: Store) -> None:
    item = store.create("a", partition_length=1)
    for subscript in range(8):
        for offset in (0, 1):
            store.add(item, subscript * SECOND + offset)
    merged, after = roll_up(store, item, most=2)
    assert merged == 16
    spans = [(part.first, part.last, part.rows) for part in after.parts(item)]
    assert spans == [(0, 4, 10), (5, 5, 2), (6, 6, 2), (7, 7, 2)]


def test_old_temporal_parts_are_merged_with_their_like(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recent ones do not count: else the file of all old rows was written anew for every part that came."""
    monkeypatch.setattr(housekeeping, "WAITED", 0)
    monkeypatch.setattr(housekeeping, "ROWS_A_TIME", (8, 8))
    item = store.create("a", partition_length=1)
    merged = 0
    for subscript in range(60):
        store.add(item, subscript * SECOND)
        merged += roll_up(store, item, most=6)[0]
    after = store.catalog.latest()
    assert store.times(item, after) == [subscript * SECOND for subscript in range(60)]
    assert len(after.parts(item)) <= 6 + 1 + 6
    assert merged < 3 * 60, "a row is written about as often as its file has orders of size"


def test_rolled_up_files_have_about_a_files_worth_of_rows(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "ROWS_A_FILE", 4)
    item = store.create("a")
    for start in range(0, 10, 2):
        store.add(item, start, start + 1)
    _merged, after = roll_up(store, item)
    assert sorted(part.rows for part in after.parts(item)) == [2, 4, 4]
    assert store.times(item, after) == list(range(10))


def test_forgetting_drops_whole_parts_before_a_time(store: Store) -> None:
    item = store.create("a", partition_length=1)
    store.add(item, 0, SECOND, SECOND + 5, 2 * SECOND)
    transaction = store.begin()
    housekeeping.forget(transaction, item, None)
    housekeeping.forget(transaction, item, 0)
    assert transaction.empty
    housekeeping.forget(transaction, item, SECOND + 3)
    assert store.times(item, transaction.commit()) == [SECOND, SECOND + 5, 2 * SECOND]


def test_what_was_forgotten_is_not_rolled_up_again(store: Store) -> None:
    item = store.create("a")
    for time in (1, 2, 8, 9):
        store.add(item, time)
    transaction = store.begin()
    housekeeping.forget(transaction, item, 5)
    assert housekeeping.roll_up(transaction, item, 1, ()) == 2
    after = transaction.commit()
    assert len(after.parts(item)) == 1
    assert store.times(item, after) == [8, 9]


def test_old_snapshots_go_with_the_files_only_they_used(store: Store) -> None:
    item = store.create("a")
    for time in range(4):
        before = store.add(item, time)
    _merged, rolled = roll_up(store, item)
    last = store.add(item, 9)
    old, new = store.paths(item, before), store.paths(item, last)
    assert set(store.files.all()) == old | new == store.catalog.named_files()
    # The snapshot before the roll-up is still kept, and so are its files.
    assert housekeeping.drop_old_snapshots(store.catalog, store.files, keep=3, seconds=0) == 0
    assert store.times(item, store.catalog.snapshot(before.id)) == [0, 1, 2, 3]
    assert housekeeping.drop_old_snapshots(store.catalog, store.files, keep=2, seconds=0) == 4
    assert set(store.files.all()) == new == store.catalog.named_files()
    assert store.times(item, store.catalog.snapshot(rolled.id)) == [0, 1, 2, 3]
    assert [info.id for info in store.catalog.snapshots()] == [rolled.id, last.id]


def test_young_snapshots_are_kept_however_many(store: Store) -> None:
    item = store.create("a")
    for time in range(5):
        store.add(item, time)
    assert housekeeping.drop_old_snapshots(store.catalog, store.files, keep=1, seconds=3600) == 0
    assert len(store.catalog.snapshots()) == 7


def test_the_newest_snapshot_is_kept_whatever_is_asked(store: Store) -> None:
    item = store.create("a")
    last = store.add(item, 1)
    housekeeping.drop_old_snapshots(store.catalog, store.files, keep=0, seconds=0)
    assert [info.id for info in store.catalog.snapshots()] == [last.id]
    assert store.times(item, store.add(item, 2)) == [1, 2]


def test_a_dropped_object_leaves_with_the_last_snapshot_that_knew_it(store: Store) -> None:
    item = store.create("a")
    store.add(item, 1)
    transaction = store.begin()
    transaction.end(item)
    transaction.commit()
    assert len(store.files.all()) == 1
    store.create("b")
    housekeeping.drop_old_snapshots(store.catalog, store.files, keep=1, seconds=0)
    assert store.files.all() == []


def test_much_is_deleted_while_others_go_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "BYTES_BESIDE", 0)
    item = store.create("a")
    for time in range(3):
        store.add(item, time)
    transaction = store.begin()
    transaction.end(item)
    transaction.commit()
    store.create("b")
    housekeeping.drop_old_snapshots(store.catalog, store.files, keep=1, seconds=0)
    store.files.settle()
    assert store.files.all() == []


def test_orphans_are_removed_and_nothing_else(store: Store) -> None:
    item = store.create("a", partition_length=1)
    before = store.add(item, 1)
    transaction = store.begin("never committed")
    write_table(transaction, item, log_rows(2, 5 * SECOND), inserts_only=True)
    assert len(store.files.all()) == 3
    assert housekeeping.remove_orphans(store.catalog, store.files) == 2
    assert set(store.files.all()) == store.paths(item, before)
    assert housekeeping.remove_orphans(store.catalog, store.files) == 0
    assert store.times(item) == [1]


def test_unfinished_files_of_a_killed_writer_are_orphans(store: Store) -> None:
    item = store.create("a")
    before = store.add(item, 1)
    folder = Path(store.files.home) / store.files.new_folder("a", 3, before.id + 1)
    folder.mkdir(parents=True)
    (folder / "0123.arrow.4567.unfinished").write_bytes(b"half")
    assert housekeeping.remove_orphans(store.catalog, store.files) == 1
    assert not folder.parent.exists()
    assert store.times(item) == [1]


def test_unfinished_files_go_with_the_last_file_of_their_commit(store: Store) -> None:
    """A writer that lives long loses a task now and then: what that left goes when its commit is forgotten."""
    item = store.create("a")
    for time in range(3):
        store.add(item, time)
    old = [Path(store.files.home) / path for path in store.files.all()]
    for path in old:
        path.with_suffix(".4567.unfinished").write_bytes(b"half")
    _merged, now = roll_up(store, item)
    being_written = Path(store.files.home) / store.files.new_folder("a", 0, now.id + 1) / "89.arrow.ab.unfinished"
    being_written.parent.mkdir(parents=True)
    being_written.write_bytes(b"half")
    housekeeping.drop_old_snapshots(store.catalog, store.files, keep=1, seconds=0)
    assert {str(Path(store.files.home) / path) for path in store.files.all()} == {
        str(being_written), *(str(Path(store.files.home) / path) for path in store.paths(item, now))
    }  # fmt: skip


def test_files_of_another_catalog_are_not_orphans(
    store: Store, files: Files, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Opening a home with the wrong catalog must not cost its data."""
    item = store.create("a")
    store.add(item, 1)
    store.add(item, 2)
    wrong = Catalog(f"sqlite:///{tmp_path_factory.mktemp('wrong')}/catalog.db")
    before = files.all()
    with pytest.raises(StorageError) as error:
        housekeeping.remove_orphans(wrong, files)
    wrong.close()
    assert error.value.condition == "FILES_OF_ANOTHER_CATALOG"
    assert files.all() == before


def test_a_readers_snapshot_outlives_all_housekeeping_within_its_time(
    store: Store, open_catalog: Callable[[], Catalog]
) -> None:
    item = store.create("a")
    for time in range(4):
        store.add(item, time)
    reader = open_catalog().latest()
    roll_up(store, item)
    store.add(item, 4)
    housekeeping.drop_old_snapshots(store.catalog, store.files, keep=1, seconds=60)
    housekeeping.remove_orphans(store.catalog, store.files)
    assert store.times(item, reader) == [0, 1, 2, 3]
