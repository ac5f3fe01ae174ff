"""Storage without an engine: a catalog on SQLite and again on a real PostgreSQL server, and a home in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.storage.catalog import Catalog, Snapshot
from headrace.storage.files import Files
from headrace.storage.lease import Lease
from headrace.storage.records import Field, Object
from headrace.storage.transactions import Transaction
from headrace.storage.writer import write_table
from tests.storage import postgres


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    postgres.report_missed(terminalreporter)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A catalog nobody has used yet, on each database in turn."""
    return f"sqlite:///{tmp_path}/catalog.db" if request.param == "sqlite" else postgres.new_database()


@pytest.fixture
def open_catalog(url: str) -> Iterator[Callable[[], Catalog]]:
    """A function that opens the test's catalog, as another process would."""
    opened: list[Catalog] = []

    def open_one() -> Catalog:
        opened.append(Catalog(url))
        return opened[-1]

    yield open_one
    for catalog in opened:
        catalog.close()


@pytest.fixture
def catalog(open_catalog: Callable[[], Catalog]) -> Catalog:
    return open_catalog()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path / "home"))


@pytest.fixture
def lease(catalog: Catalog) -> Iterator[Lease]:
    held = Lease(catalog)
    yield held
    held.release()


class Store:
    """A home's storage, with the few steps tests are made of."""

    def __init__(self, catalog: Catalog, lease: Lease, files: Files) -> None:
        self.catalog = catalog
        self.lease = lease
        self.files = files

    def begin(self, reason: str = "test") -> Transaction:
        return Transaction(self.catalog, self.lease, self.files, reason)

    def create(self, name: str, *needs: Object, **facts: Any) -> Object:
        transaction = self.begin(f"create {name}")
        made = transaction.create(an_object(name, **facts), needs)
        transaction.commit()
        return made

    def add(self, item: Object, *times: int, inserts_only: bool = True) -> Snapshot:
        """Commit a row at each of the given times."""
        transaction = self.begin(f"add to {item.name}")
        write_table(transaction, item, log_rows(*times), inserts_only=inserts_only)
        return transaction.commit()

    def times(self, item: Object, snapshot: Snapshot | None = None) -> list[int]:
        """The times of all rows of an object, as its files have them."""
        parts = (snapshot or self.catalog.latest()).parts(item)
        paths = [path for part in parts for path in part.files]
        return sorted(self.files.read(paths).column("__t").to_pylist()) if paths else []

    def paths(self, item: Object, snapshot: Snapshot | None = None) -> set[str]:
        return {path for part in (snapshot or self.catalog.latest()).parts(item) for path in part.files}


@pytest.fixture
def store(catalog: Catalog, lease: Lease, files: Files) -> Store:
    return Store(catalog, lease, files)


def an_object(name: str, **facts: Any) -> Object:
    given = {"kind": "stream", "log": "append", "definition": f"-- {name}", "key": None, **facts}
    return Object(0, name, columns=(Field("value", "BIGINT"),), **given)


def log_rows(*times: int) -> pa.Table:
    """Rows of an append log, one at each time (in microseconds), numbered in the order given."""
    return pa.table(
        {
            "value": pa.array([time * 10 for time in times], pa.int64()),
            "__t": pa.array(times, pa.int64()),
            "__seq": pa.array(range(len(times)), pa.int64()),
        }
    )
