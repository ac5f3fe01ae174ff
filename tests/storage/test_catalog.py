"""The catalog: opening it, what each snapshot sees, and the errors it gives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from headrace.errors import DefinitionError, StorageError
from headrace.storage import catalog as catalogs
from headrace.storage import housekeeping, schema
from headrace.storage.catalog import Catalog, Snapshot
from headrace.storage.records import Field, Progress, RefreshRecord
from tests.storage.conftest import Store, an_object


def test_a_new_home_has_one_empty_snapshot(catalog: Catalog) -> None:
    snapshot = catalog.latest()
    assert (snapshot.id, snapshot.clock, snapshot.objects()) == (0, None, [])
    assert [info.reason for info in catalog.snapshots()] == ["new home"]
    assert catalog.named_files() == set()
    assert catalog.options() == {}


def test_sqlite_is_in_wal_mode_and_syncs_fully(tmp_path: Path) -> None:
    catalog = Catalog(f"sqlite:///{tmp_path}/catalog.db")
    with catalog.engine.connect() as connection:
        told = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    catalog.close()
    assert told == ["wal", 2]


def test_what_was_committed_is_there_when_opened_again(store: Store, open_catalog: Callable[[], Catalog]) -> None:
    made = store.create(
        "Rooms", kind="table", log="upsert", key=("value",), partition_length=60, options={"retain": 5, "x": [1]}
    )
    store.add(made, 1, 2)
    again = open_catalog().latest()
    assert again.find("ROOMS") == made
    assert again.find("rooms").columns == (Field("value", "BIGINT"),)
    assert again.parts(made) == store.catalog.latest().parts(made)


def test_the_same_snapshot_object_until_something_is_committed(store: Store) -> None:
    before = store.catalog.latest()
    assert store.catalog.latest() is before
    store.create("a")
    assert store.catalog.latest() is not before


def test_each_snapshot_sees_its_own_objects_and_parts(store: Store) -> None:
    first = store.create("a")
    one = store.add(first, 1)
    two = store.add(first, 2)
    transaction = store.begin()
    transaction.remove_parts(one.parts(first))
    transaction.create(an_object("b"))
    three = transaction.commit()
    transaction = store.begin()
    transaction.end(first)
    four = transaction.commit()

    def seen(snapshot: Snapshot) -> tuple[list[str], list[int]]:
        return [item.name for item in snapshot.objects()], store.times(first, snapshot)

    expected = {one.id: (["a"], [1]), two.id: (["a"], [1, 2]), three.id: (["a", "b"], [2]), four.id: (["b"], [])}
    assert {number: seen(store.catalog.snapshot(number)) for number in expected} == expected
    # A snapshot taken before goes on seeing what it saw.
    assert seen(one) == expected[one.id]


def test_a_dropped_name_can_be_used_again(store: Store) -> None:
    old = store.create("a")
    before = store.add(old, 1)
    transaction = store.begin()
    transaction.end(old)
    new = transaction.create(an_object("A"))
    after = transaction.commit()
    assert new.id != old.id
    assert after.find("a") == new
    assert (after.parts(old), after.parts(new)) == ((), ())
    assert store.catalog.snapshot(before.id).find("a") == old


def test_dependencies_in_both_directions(store: Store) -> None:
    base = store.create("base")
    other = store.create("other")
    view = store.create("view", base, other, base, kind="view")
    snapshot = store.catalog.latest()
    assert snapshot.needs(view) == [base, other]
    assert snapshot.dependents(base) == [view]
    transaction = store.begin()
    transaction.end(view)
    assert transaction.commit().dependents(base) == []


def test_altered_options_are_seen(store: Store) -> None:
    item = store.create("a")
    transaction = store.begin()
    transaction.alter(replace(item, options={"slack": 7}))
    assert transaction.commit().find("a").option("slack") == 7


def test_progress_offsets_landed_files_and_clock_come_with_the_commit(store: Store) -> None:
    stream = store.create("s")
    transaction = store.begin()
    transaction.set_progress(stream, Progress(newest=9, next_unit=3, late_rows=1, rejected_rows=2))
    transaction.set_offset(stream, {"batch": 4})
    transaction.land_file(stream, "/in/1.csv")
    transaction.clock = 9
    transaction.advanced_to = 8
    assert store.catalog.latest().progress(stream) == Progress()
    assert store.catalog.latest().landed_files(stream) == set()
    after = transaction.commit()
    assert after.progress(stream) == Progress(9, 3, 1, 0, 2)
    assert after.offset(stream) == {"batch": 4}
    assert after.landed_files(stream) == {"/in/1.csv"}
    assert (after.clock, after.info.advanced_to) == (9, 8)
    transaction = store.begin()
    transaction.set_progress(stream, Progress(newest=10))
    transaction.set_offset(stream, {"batch": 5})
    again = transaction.commit()
    assert (again.progress(stream).newest, again.offset(stream)) == (10, {"batch": 5})


def test_a_file_is_landed_once(store: Store) -> None:
    """The primary key is the last word: the same file twice fails the whole commit."""
    stream = store.create("s")
    for _attempt in range(2):
        transaction = store.begin()
        transaction.land_file(stream, "/in/1.csv")
        transaction.set_offset(stream, {"batch": transaction.version})
        if transaction.base.offset(stream) is None:
            transaction.commit()
        else:
            before = store.catalog.latest_id()
            with pytest.raises(sa.exc.IntegrityError):
                transaction.commit()
            assert (store.catalog.latest_id(), store.catalog.latest().offset(stream)) == (before, {"batch": before})


def test_the_last_refresh_of_each_snapshot(store: Store) -> None:
    view = store.create("v", kind="view", log="state")
    numbers = []
    for point in (10, 20):
        transaction = store.begin()
        transaction.record(a_refresh(view.id, transaction.version, point))
        numbers.append(transaction.commit().id)
    points = [made.point for made in store.catalog.refreshes(view.id)]
    assert points == [20, 10]
    assert [made.point for made in store.catalog.refreshes(limit=1)] == [20]
    for number, point in zip(numbers, (10, 20), strict=True):
        last = store.catalog.snapshot(number).last_refresh(view)
        assert last is not None
        assert (last.point, last.snapshot_id, last.reaches) == (point, number, {"1": point})


def a_refresh(object_id: int, version: int, point: int) -> RefreshRecord:
    return RefreshRecord(object_id, version, point, {"1": point}, 0, 0.1, 1, 1, 1, "recompute", "because")


def test_an_unknown_name_says_what_was_probably_meant(store: Store) -> None:
    store.create("temperatures")
    snapshot = store.catalog.latest()
    with pytest.raises(DefinitionError) as error:
        snapshot.find("temprature")
    assert error.value.condition == "UNKNOWN_OBJECT"
    assert "temperatures" in (error.value.hint or "")
    with pytest.raises(DefinitionError) as error:
        snapshot.find("temperatures", "view")
    assert error.value.condition == "WRONG_KIND"


@pytest.mark.parametrize("number", [-1, 99])
def test_a_snapshot_that_never_was(store: Store, number: int) -> None:
    with pytest.raises(StorageError) as error:
        store.catalog.snapshot(number)
    assert error.value.condition == "SNAPSHOT_GONE"


def test_a_dropped_snapshot_is_gone_and_the_others_named(store: Store) -> None:
    item = store.create("a")
    for time in range(4):
        store.add(item, time)
    housekeeping.drop_old_snapshots(store.catalog, store.files, keep=2, seconds=0)
    with pytest.raises(StorageError) as error:
        store.catalog.snapshot(2)
    assert error.value.condition == "SNAPSHOT_GONE"
    assert "4 to 5" in error.value.message


def test_a_snapshot_dropped_while_it_is_read_is_never_half_read(
    store: Store, open_catalog: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a reader's two queries the writer may commit and drop; the reader errs or reads on, never misses rows."""
    item = store.create("a")
    old = store.add(item, 1)
    reader = open_catalog()
    read_parts = catalogs._parts
    happened: list[int] = []

    def slowly(connection: sa.Connection, number: int) -> object:
        if not happened:
            happened.append(number)
            transaction = store.begin()
            transaction.remove_parts(old.parts(item))
            transaction.commit()
            housekeeping.drop_old_snapshots(store.catalog, store.files, keep=1, seconds=0)
        return read_parts(connection, number)

    monkeypatch.setattr(catalogs, "_parts", slowly)
    with pytest.raises(StorageError) as error:
        Snapshot(reader, old.id)
    assert error.value.condition == "SNAPSHOT_GONE"
    old = store.add(item, 2)
    happened.clear()
    assert reader.latest().id == store.catalog.latest_id()
    assert happened
    assert reader.latest().parts(item) == ()


def test_a_newer_format_is_refused(open_catalog: Callable[[], Catalog]) -> None:
    catalog = open_catalog()
    with catalog.engine.begin() as connection:
        connection.execute(sa.update(schema.homes).values(format=schema.FORMAT + 1))
    with pytest.raises(StorageError) as error:
        open_catalog()
    assert error.value.condition == "FORMAT_UNKNOWN"
    assert str(schema.FORMAT + 1) in error.value.message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://me:sesame@127.0.0.1:1/nothing",
        "postgresql+psycopg://me:sesame@127.0.0.1:port/nothing",
        "postgresql+nosuchdriver://me:sesame@127.0.0.1/nothing",
        "nosuchdatabase://me:sesame@127.0.0.1/nothing",
        "postgresql//me:sesame@127.0.0.1/nothing",
        "me:ses@me:sesame@host",
        "sqlite:////no/such/folder/catalog.db",
        "",
    ],
)
def test_a_catalog_that_cannot_be_opened(url: str) -> None:
    with pytest.raises(StorageError) as error:
        Catalog(url)
    assert error.value.condition == "CATALOG_UNUSABLE"
    assert "sesame" not in str(error.value)
    assert "postgresql+psycopg://" in (error.value.hint or "")


def test_many_may_open_a_new_home_at_once(url: str) -> None:
    ready = threading.Barrier(4)

    def open_one(_number: int) -> int:
        ready.wait()
        catalog = Catalog(url)
        found = catalog.latest_id()
        catalog.close()
        return found

    with ThreadPoolExecutor(ready.parties) as pool:
        assert list(pool.map(open_one, range(ready.parties))) == [0] * ready.parties
