"""One writer: who holds the lease, who may take it over, and what the others are told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from headrace.errors import StorageError
from headrace.storage import lease as leases
from headrace.storage import schema
from headrace.storage.catalog import Catalog, now_micros
from headrace.storage.lease import LIFETIME, Lease


def holder(catalog: Catalog) -> Any:
    with catalog.engine.connect() as connection:
        return connection.execute(sa.select(schema.leases)).first()


def change(catalog: Catalog, **values: Any) -> None:
    with catalog.engine.begin() as connection:
        connection.execute(sa.update(schema.leases).values(**values))


def test_a_second_writer_is_told_who_writes(lease: Lease, open_catalog: Callable[[], Catalog]) -> None:
    held = holder(open_catalog())
    assert held.pid == os.getpid()
    with pytest.raises(StorageError) as error:
        Lease(open_catalog())
    assert error.value.condition == "HOME_HAS_A_WRITER"
    assert f"process {held.pid} on {held.host}" in error.value.message
    assert "any number may read" in (error.value.detail or "")
    assert holder(open_catalog()).token == held.token


def test_released_it_is_free_at_once(catalog: Catalog, open_catalog: Callable[[], Catalog]) -> None:
    first = Lease(catalog)
    first.release()
    assert holder(catalog) is None
    second = Lease(open_catalog())
    first.release()  # again, and too late: it is not the first one's any more
    assert holder(catalog) is not None
    second.release()


def test_the_lease_of_a_dead_process_is_taken_over_at_once(lease: Lease, catalog: Catalog) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    change(catalog, pid=child.pid)
    taken = Lease(catalog)
    assert holder(catalog).pid == os.getpid()
    taken.release()


def test_the_lease_of_a_killed_child_nobody_waited_for_is_taken_over(lease: Lease, catalog: Catalog) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)"], stdout=-1)
    assert child.stdout is not None
    child.stdout.readline()
    change(catalog, pid=child.pid)
    with pytest.raises(StorageError, match=f"process {child.pid} on"):
        Lease(catalog)
    child.kill()
    # Wait until it is dead, but leave it a zombie.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    Lease(catalog).release()
    child.wait()
    child.stdout.close()


def test_a_live_process_of_somebody_else_keeps_its_lease(lease: Lease, catalog: Catalog) -> None:
    change(catalog, pid=1)
    with pytest.raises(StorageError) as error:
        Lease(catalog)
    assert error.value.condition == "HOME_HAS_A_WRITER"


def test_on_another_host_only_time_tells(lease: Lease, catalog: Catalog) -> None:
    change(catalog, host="elsewhere", pid=2**30)
    with pytest.raises(StorageError) as error:
        Lease(catalog)
    assert error.value.condition == "HOME_HAS_A_WRITER"
    assert "on elsewhere" in error.value.message
    change(catalog, renewed_at=now_micros() - int((LIFETIME + 1) * 1_000_000))
    taken = Lease(catalog)
    assert holder(catalog).host != "elsewhere"
    taken.release()


def test_confirming_renews_and_a_lost_lease_is_noticed(lease: Lease, catalog: Catalog) -> None:
    change(catalog, renewed_at=5)
    with catalog.engine.begin() as connection:
        lease.confirm(connection)
    assert holder(catalog).renewed_at > 5
    change(catalog, token="somebody else's")
    with pytest.raises(StorageError) as error, catalog.engine.begin() as connection:
        lease.confirm(connection)
    assert error.value.condition == "LEASE_LOST"


def test_the_heart_beats_while_the_lease_is_held(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LIFETIME", 0.03)
    confirmed = threading.Semaphore(0)
    confirm = Lease.confirm

    def counted(self: Lease, connection: sa.Connection) -> None:
        confirm(self, connection)
        confirmed.release()

    monkeypatch.setattr(Lease, "confirm", counted)
    held = Lease(catalog)
    started = holder(catalog).renewed_at
    for _beat in range(2):
        assert confirmed.acquire(timeout=60)
    assert holder(catalog).renewed_at > started
    held.release()
    assert not held._heart.is_alive()


def test_a_lost_lease_does_not_stop_the_heart_of_the_process(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LIFETIME", 0.03)
    refused = threading.Semaphore(0)
    confirm = Lease.confirm

    def counted(self: Lease, connection: sa.Connection) -> None:
        try:
            confirm(self, connection)
        except StorageError:
            refused.release()
            raise

    monkeypatch.setattr(Lease, "confirm", counted)
    held = Lease(catalog)
    change(catalog, token="somebody else's")
    assert refused.acquire(timeout=60)
    assert refused.acquire(timeout=60)
    held.release()
    assert holder(catalog).token == "somebody else's"


def test_of_many_that_take_over_at_once_one_gets_it(lease: Lease, open_catalog: Callable[[], Catalog]) -> None:
    catalogs = [open_catalog() for _ in range(6)]
    change(catalogs[0], renewed_at=0)
    ready = threading.Barrier(len(catalogs))
    got: list[Lease] = []
    told: list[str] = []

    def take(catalog: Catalog) -> None:
        ready.wait()
        try:
            got.append(Lease(catalog))
        except StorageError as error:
            told.append(error.condition)

    threads = [threading.Thread(target=take, args=(catalog,)) for catalog in catalogs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    assert len(told) == len(catalogs) - 1
    assert set(told) <= {"HOME_HAS_A_WRITER", "LEASE_LOST"}
    got[0].release()
