"""A home opened by this process: its engine, files, catalog, and the one right to write.

The engine starts when the first query needs it, so that looking at the catalog costs nothing. The lease is taken at the
first write and kept until `close`; taking it removes what a crashed writer left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any

from headrace.engine import Engine, open_engine
from headrace.errors import DefinitionError, StorageError
from headrace.language import CreateStream, CreateView, CreateViewDelta, Query, parse_one
from headrace.maintenance.births import grown
from headrace.maintenance.logs import Logs
from headrace.maintenance.points import point_at, released_at
from headrace.maintenance.relations import Relations
from headrace.maintenance.sync_points import sync_points
from headrace.runtime.changes import tagged
from headrace.runtime.clock import MODES, clock_of, forgotten_before, horizon
from headrace.runtime.options import checked
from headrace.storage import housekeeping
from headrace.storage.catalog import Catalog, Snapshot, sqlite_url
from headrace.storage.files import Files
from headrace.storage.lease import Lease
from headrace.storage.records import Object, Part, RefreshRecord
from headrace.storage.transactions import Transaction

#: The home's settings and what they are when nothing was set.
DEFAULTS: dict[str, Any] = {
    "clock": "data",
    "keep_snapshots": 50,
    "keep_seconds": 60,
    "rollup_parts": 32,
    "max_rows_per_batch": 5_000_000,
    "rows_here": 3_000_000,
    "sharing": "auto",
}


class Home:
    """What a session works on."""

    def __init__(self, path: str, *, engine: str = "spark", spark: Any = None, catalog: str | None = None) -> None:
        self.files = Files(path)
        if catalog is None and not self.files.local:
            raise StorageError(
                "CATALOG_NEEDED",
                f"The home {path} is not on this machine, so its catalog cannot be a file in it.",
                hint="Give catalog='postgresql+psycopg://user:password@host/database'.",
            )
        self.catalog = Catalog(catalog or sqlite_url(self.files.folder))
        self.writing = threading.RLock()
        self._engine_spec = engine
        self._given_spark = spark
        self._lease: Lease | None = None
        self._starting = threading.Lock()
        self._engine: Engine | None = None
        #: The home's settings while a transaction is under way, which asks for them often.
        self._settings: Mapping[str, Any] | None = None
        #: How queries are maintained by their changes, worked out once a session; see `runtime.plans`.
        self.plans: dict[Any, Any] = {}

    @property
    def engine(self) -> Engine:
        with self._starting:  # a prompt warms the engine up in one thread while another may ask for it
            if self._engine is None:
                self._engine = open_engine(self._engine_spec, self._given_spark)
            return self._engine

    @cached_property
    def logs(self) -> Logs:
        return Logs(self.engine, self.files)

    def option(self, name: str) -> Any:
        settings = self._settings if self._settings is not None else self.catalog.options()
        return settings.get(name, DEFAULTS[name])

    @property
    def rows_here(self) -> int:
        """Changes of up to so many rows are followed in this process; none where the home lies elsewhere."""
        return int(self.option("rows_here")) if self.files.local else 0

    def fits_here(self, rows: int) -> bool:
        """Whether a change of so many rows is followed in this process."""
        return 0 < self.rows_here >= rows

    @property
    def clock_mode(self) -> str:
        return str(self.option("clock"))

    @contextmanager
    def transaction(self, reason: str) -> Iterator[Transaction]:
        """A transaction that commits when the block ends well and leaves nothing when it does not."""
        with self.writing:
            if self._lease is None:
                self._lease = self._first_lease()
            transaction = Transaction(self.catalog, self._lease, self.files, reason)
            self._settings = self.catalog.options()
            try:
                yield transaction
            except Exception:
                transaction.abandon()
                raise
            finally:
                self._settings = None
            # Not in the try: a commit whose answer was lost may have happened, and then its files are needed.
            if not transaction.empty:
                transaction.commit()

    def _first_lease(self) -> Lease:
        """Become the writer, and clear away what the last one may have left."""
        lease = Lease(self.catalog)
        try:
            housekeeping.remove_orphans(self.catalog, self.files)
            self.files.delete_staged()
        except BaseException:
            lease.release()
            raise
        return lease

    def snapshot(self) -> Snapshot:
        return self.catalog.latest()

    def relations(self, source: Snapshot | Transaction | None = None) -> Relations:
        """Relations as of a snapshot (the newest, when none is given), or as a transaction will leave them."""
        seen = _seen(source if source is not None else self.snapshot())
        mode = self.clock_mode

        # An earlier snapshot is read as it was: by the wall clock of its own time.
        now = None if isinstance(source, Transaction) or source is None else source.info.committed_at

        def reach(item: Object, parts: Sequence[Part]) -> int | None:
            return horizon(item, parts, mode, seen.advanced_to, now)

        return Relations(
            self.logs,
            seen,
            reach,
            forgotten_before,
            query_of,
            lambda number: self.relations(self.catalog.snapshot(number)),
            tagged,
            clock_of(mode, seen.clock, seen.advanced_to, now),
            grown,
            point_at,
            released_at,
            sync_points,
        )

    def set_options(self, transaction: Transaction, given: Mapping[str, Any]) -> None:
        """Check and set some of the home's settings."""
        checked = {name: self._checked_option(name, value) for name, value in given.items()}
        transaction.set_home_options({**self.catalog.options(), **checked})

    def _checked_option(self, name: str, value: Any) -> Any:
        if name not in DEFAULTS:
            raise DefinitionError(
                "UNKNOWN_OPTION", f"A home has no option {name}.", hint=f"It has: {', '.join(sorted(DEFAULTS))}."
            )
        if name == "clock":
            value = str(value).lower()
            if value not in MODES:
                raise DefinitionError(
                    "BAD_OPTION", f"clock = {value!r} is none of {', '.join(MODES)}.", hint="SET (clock = 'manual')"
                )
        elif name == "sharing":
            value = checked("view", {name: value}, "the home")[name]
        elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise DefinitionError("BAD_OPTION", f"{name} must be a whole number of 0 or more, not {value!r}.")
        return value

    def close(self) -> None:
        self.files.settle()
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        if self._engine is not None:
            self._engine.close()
        self.catalog.close()


class _Seen:
    """One face for a snapshot and for a transaction on top of one."""

    def __init__(self, base: Snapshot, transaction: Transaction | None) -> None:
        self._base = base
        self._transaction = transaction
        self.advanced_to = base.info.advanced_to if transaction is None else transaction.advanced_to
        self.clock = base.info.clock if transaction is None else transaction.clock

    def find(self, name: str, *kinds: str) -> Object:
        made = None if self._transaction is None else self._transaction.made(name)
        return made or self._base.find(name, *kinds)

    def objects(self, *kinds: str) -> list[Object]:
        return (self._base if self._transaction is None else self._transaction).objects(*kinds)

    def parts(self, item: Object) -> Sequence[Part]:
        return self._base.parts(item) if self._transaction is None else self._transaction.parts(item)

    def needs(self, item: Object) -> list[Object]:
        return self._base.needs(item) if self._transaction is None else self._transaction.needs(item)

    def last_refresh(self, item: Object) -> RefreshRecord | None:
        made = None if self._transaction is None else self._transaction.refresh_of(item)
        return made or self._base.last_refresh(item)


def _seen(source: Snapshot | Transaction) -> _Seen:
    return _Seen(source.base, source) if isinstance(source, Transaction) else _Seen(source, None)


@lru_cache(maxsize=512)
def _parsed(definition: str) -> Query:
    statement = parse_one(definition)
    if isinstance(statement, CreateViewDelta):
        return statement.update
    if not isinstance(statement, CreateView | CreateStream) or statement.query is None:
        raise DefinitionError("NOT_A_VIEW", "This object has no query.")
    return statement.query


@lru_cache(maxsize=512)
def _regulated(definition: str) -> Query:
    return _parsed(definition).through_regulators()


def written_query(view: Object) -> Query:
    """A view's query, from its stored text; of a view delta function that of UPDATE."""
    return _parsed(view.definition)


@lru_cache(maxsize=512)
def _names_columns(definition: str) -> bool:
    statement = parse_one(definition)
    return isinstance(statement, CreateView | CreateStream) and bool(statement.columns)


def renames_columns(view: Object) -> bool:
    """Whether a view's columns are called otherwise than its query calls them."""
    return _names_columns(view.definition)


def own_query(view: Object) -> Query:
    """A view's query as it is written, where what is synchronized is read from its regulator."""
    return _regulated(view.definition)


def query_of(view: Object) -> Query:
    """A view's query as it is run: its own, or one over views that contain it."""
    shared = view.option("shared")
    return own_query(view) if shared is None else _regulated(f"CREATE VIEW v AS {shared}")
