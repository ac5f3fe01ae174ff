"""The catalog: which objects there are and which files make them up, in SQLite or any database SQLAlchemy speaks.

Reading gives a `Snapshot`: everything as of one committed number. Writing goes through `transactions.Transaction`.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from headrace.errors import DefinitionError, StorageError
from headrace.storage import schema
from headrace.storage.files import file_of
from headrace.storage.records import Field, Object, Part, Progress, RefreshRecord, SnapshotInfo, dump, load

_WAL_ATTEMPTS = 200

KINDS = ("source", "stream", "table", "view")


def now_micros() -> int:
    """The wall clock in microseconds since the epoch."""
    return time.time_ns() // 1000


class Catalog:
    """A connection to the catalog of one home."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self.engine = _open(url)
            try:
                self._prepare()
            except BaseException:
                self.engine.dispose()
                raise
        except (sa.exc.SQLAlchemyError, ImportError, ValueError) as error:  # a port that is no number: ValueError
            raise StorageError(
                "CATALOG_UNUSABLE",
                f"The catalog {_without_password(url)} cannot be opened: {_first_line(error, url)}.",
                hint="Check the URL; PostgreSQL wants postgresql+psycopg://user:password@host/database "
                "and the extra headrace[postgres].",
            ) from error
        self._latest: Snapshot | None = None

    def close(self) -> None:
        self.engine.dispose()

    def _prepare(self) -> None:
        while (found := self._format()) is None:
            try:
                self._make_tables()
            except (sa.exc.IntegrityError, sa.exc.ProgrammingError):
                # Two processes may open a new home at once; PostgreSQL tells the second that the first was faster.
                if self._format() is None:
                    raise
        if found != schema.FORMAT:
            raise StorageError(
                "FORMAT_UNKNOWN",
                f"This home has catalog format {found}; this Headrace reads format {schema.FORMAT}.",
                hint="Open it with the version of Headrace that made it, or a newer one.",
            )

    def _format(self) -> int | None:
        """The format of the catalog; None when it is still to be made."""
        with self.engine.connect() as connection:
            if not sa.inspect(connection).has_table(schema.homes.name):
                return None
            return connection.execute(sa.select(schema.homes.c.format)).scalar()

    def _make_tables(self) -> None:
        with self.engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # Its driver would commit every CREATE on its own, and two processes would get into each other's way.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            schema.metadata.create_all(connection)
            if connection.execute(sa.select(schema.homes.c.format)).scalar() is None:
                _first(connection)

    def options(self) -> dict[str, Any]:
        """The home's own settings."""
        with self.engine.connect() as connection:
            return dict(load(connection.execute(sa.select(schema.homes.c.options)).scalar_one()))

    def latest_id(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(sa.select(sa.func.max(schema.snapshots.c.id))).scalar_one())

    def latest(self) -> Snapshot:
        """The newest committed state; the same object as long as nothing was committed."""
        while True:
            newest = self.latest_id()
            if self._latest is not None and self._latest.id == newest:
                return self._latest
            try:
                self._latest = Snapshot(self, newest, self._latest)
            except StorageError:
                # With few snapshots kept, a writer may commit the next and drop this one while it is read.
                if self.latest_id() == newest:
                    raise

    def snapshot(self, number: int) -> Snapshot:
        """An earlier state, as long as its files are kept."""
        newest = self.latest()
        if number == newest.id:
            return newest
        oldest = self.oldest_kept()
        if not oldest <= number <= newest.id:
            raise _gone(number, f"this home has snapshots {oldest} to {newest.id}")
        return Snapshot(self, number)

    def oldest_kept(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(sa.select(sa.func.min(schema.snapshots.c.id))).scalar_one())

    def snapshots(self) -> list[SnapshotInfo]:
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(schema.snapshots).order_by(schema.snapshots.c.id))
            return [SnapshotInfo(**row._mapping) for row in rows]

    def refreshes(self, object_id: int | None = None, limit: int = 100) -> list[RefreshRecord]:
        """The newest refresh records, newest first."""
        table = schema.refreshes
        query = sa.select(table).order_by(table.c.id.desc()).limit(limit)
        if object_id is not None:
            query = query.where(table.c.object_id == object_id)
        with self.engine.connect() as connection:
            return [_refresh(dict(row._mapping)) for row in connection.execute(query)]

    def named_files(self) -> set[str]:
        """Every file that some kept snapshot uses."""
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(schema.parts.c.files))
            return {file_of(path) for row in rows for path in load(row.files)}


class Snapshot:
    """Everything in the home as of one committed number. Immutable; one query a table.

    A home has many parts and refreshes, of which a commit adds few: with an earlier snapshot at hand, only these are
    read.
    """

    def __init__(self, catalog: Catalog, number: int, earlier: Snapshot | None = None) -> None:
        self.id = number
        self._catalog = catalog
        with catalog.engine.connect() as connection:
            self.by_id = _objects(connection, number)
            self._needs, self._dependents = _dependencies(connection, self.by_id)
            self._parts = _parts_since(connection, number, earlier) or _parts(connection, number)
            self._progress = {
                row.object_id: Progress(row.newest, row.next_unit, row.late_rows, row.dropped_rows, row.rejected_rows)
                for row in connection.execute(sa.select(schema.progress))
            }
            self._offsets = {row.stream_id: load(row.position) for row in connection.execute(sa.select(schema.offsets))}
            self._refreshes = _last_refreshes(connection, number, earlier)
            self._failures = {row.object_id: row.message for row in connection.execute(sa.select(schema.failures))}
            self.next_object_id = 1 + (connection.execute(sa.select(sa.func.max(schema.objects.c.id))).scalar() or 0)
            # Read last: a snapshot goes in the same transaction as its parts, so if it is still there, all above was.
            info = connection.execute(sa.select(schema.snapshots).where(schema.snapshots.c.id == number)).first()
        if info is None:
            raise _gone(number, "it was dropped by its writer just now")
        self.info = SnapshotInfo(**info._mapping)
        # States and aggregates are no relations: whoever wants them asks for their kind.
        self._by_name = {item.name.lower(): item for item in self.by_id.values() if item.kind in KINDS}

    @property
    def clock(self) -> int | None:
        return self.info.clock

    def objects(self, *kinds: str) -> list[Object]:
        """All objects of the given kinds (of any, when none is given), in the order of their making."""
        wanted = kinds or KINDS
        return [item for item in self.by_id.values() if item.kind in wanted]

    def get(self, name: str) -> Object | None:
        return self._by_name.get(name.lower())

    def find(self, name: str, *kinds: str) -> Object:
        """The object called `name`, or an error that names what was probably meant."""
        item = self.get(name)
        if item is None:
            own = {key: item.name for key, item in self._by_name.items() if not item.system}
            known = [own[key] for key in difflib.get_close_matches(name.lower(), own, n=3)] or list(own.values())
            raise DefinitionError(
                "UNKNOWN_OBJECT",
                f"There is no {' or '.join(kinds) or 'object'} called {name}.",
                hint=f"Did you mean {', '.join(known[:8])}?" if known else "Nothing is declared yet: CREATE something.",
            )
        if kinds and item.kind not in kinds:
            raise DefinitionError("WRONG_KIND", f"{item.name} is a {item.kind}, not a {' or a '.join(kinds)}.")
        return item

    def needs(self, item: Object) -> list[Object]:
        """What `item` reads, directly."""
        return [self.by_id[other] for other in self._needs[item.id] if other in self.by_id]

    def dependents(self, item: Object) -> list[Object]:
        """What reads `item`, directly."""
        return [self.by_id[other] for other in self._dependents[item.id] if other in self.by_id]

    @property
    def all_parts(self) -> Mapping[int, tuple[Part, ...]]:
        """The live parts of every object, by its id."""
        return self._parts

    def parts(self, item: Object) -> tuple[Part, ...]:
        """The live parts of an object's log, oldest first."""
        return self._parts.get(item.id, ())

    def progress(self, item: Object) -> Progress:
        return self._progress.get(item.id, Progress())

    def offset(self, item: Object) -> Any:
        """How far `item` has read its source, as the source's reader wrote it."""
        return self._offsets.get(item.id)

    def landed_files(self, item: Object) -> set[str]:
        """The files a stream has already taken from its source."""
        table = schema.landed_files
        with self._catalog.engine.connect() as connection:
            return set(connection.execute(sa.select(table.c.path).where(table.c.stream_id == item.id)).scalars())

    def failure(self, item: Object) -> str | None:
        """Why a view could not be refreshed the last time it was tried."""
        return self._failures.get(item.id)

    @property
    def last_refreshes(self) -> Mapping[int, RefreshRecord]:
        """The newest refresh of every view, by its id."""
        return self._refreshes

    def last_refresh(self, item: Object) -> RefreshRecord | None:
        return self._refreshes.get(item.id)


def sqlite_url(folder: str) -> str:
    """The catalog that lies in a home itself; any characters in the folder's name are only characters."""
    return sa.URL.create("sqlite", database=f"{folder}/catalog.db").render_as_string(hide_password=False)


def _open(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return sa.create_engine(url, pool_pre_ping=True)
    engine = sa.create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        _use_wal(cursor)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    return engine


def _use_wal(cursor: Any) -> None:
    """Switch a new file to WAL. Unlike all else, SQLite does not wait for others here but says at once it is locked."""
    for attempt in range(_WAL_ATTEMPTS):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if attempt == _WAL_ATTEMPTS - 1:
                raise
            time.sleep(0.05)


def _first(connection: Connection) -> None:
    connection.execute(
        sa.insert(schema.homes).values(id=1, format=schema.FORMAT, created_at=now_micros(), options=dump({}))
    )
    connection.execute(
        sa.insert(schema.snapshots).values(
            id=0, committed_at=now_micros(), reason="new home", clock=None, advanced_to=None
        )
    )


def _objects(connection: Connection, number: int) -> dict[int, Object]:
    table = schema.objects
    live = (table.c.created_in <= number) & (table.c.ended_in.is_(None) | (table.c.ended_in > number))
    rows = connection.execute(sa.select(table).where(live).order_by("id"))
    return {row.id: _object(dict(row._mapping)) for row in rows}


def _object(row: Mapping[str, Any]) -> Object:
    key = load(row["key"])
    return Object(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        log=row["log"],
        definition=row["definition"],
        columns=tuple(Field(**column) for column in load(row["columns"])),
        key=None if key is None else tuple(key),
        time_kind=row["time_kind"],
        time_column=row["time_column"],
        partition_length=row["partition_length"],
        options=load(row["options"]),
        system=row["system"],
        created_in=row["created_in"],
    )


def _dependencies(connection: Connection, live: Iterable[int]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    needs: dict[int, list[int]] = defaultdict(list)
    dependents: dict[int, list[int]] = defaultdict(list)
    present = set(live)
    for row in connection.execute(sa.select(schema.dependencies).order_by("object_id", "needs_id")):
        if row.object_id in present:
            needs[row.object_id].append(row.needs_id)
            dependents[row.needs_id].append(row.object_id)
    return needs, dependents


def _parts(connection: Connection, number: int) -> dict[int, tuple[Part, ...]]:
    table = schema.parts
    live = (table.c.added_in <= number) & (table.c.removed_in.is_(None) | (table.c.removed_in > number))
    found: dict[int, list[Part]] = defaultdict(list)
    for row in connection.execute(sa.select(table).where(live).order_by(table.c.first_part, table.c.id)):
        found[row.object_id].append(_part(row))
    return {object_id: tuple(parts) for object_id, parts in found.items()}


def _parts_since(connection: Connection, number: int, earlier: Snapshot | None) -> dict[int, tuple[Part, ...]] | None:
    """The live parts, told by those of an earlier snapshot; None where it is not known any more what went since."""
    if earlier is None or earlier.id > number:
        return None
    table = schema.parts
    # Not more in the condition: each half of it has an index.
    moved = (table.c.added_in > earlier.id) | (table.c.removed_in > earlier.id)
    came: dict[int, list[Part]] = defaultdict(list)
    gone: dict[int, set[int]] = defaultdict(set)
    for row in connection.execute(sa.select(table).where(moved)):
        if row.removed_in is not None and row.removed_in <= number:
            gone[row.object_id].add(row.id)
        elif earlier.id < row.added_in <= number:
            came[row.object_id].append(_part(row))
    # Read last: what went is told by rows that go with the last snapshot that had them.
    oldest = connection.execute(sa.select(sa.func.min(schema.snapshots.c.id))).scalar()
    if oldest is None or oldest > earlier.id:
        return None
    found = dict(earlier.all_parts)
    for object_id in {*came, *gone}:
        kept = [part for part in found.get(object_id, ()) if part.id not in gone[object_id]]
        found[object_id] = tuple(sorted([*kept, *came[object_id]], key=lambda part: (part.first, part.id)))
    return {object_id: parts for object_id, parts in found.items() if parts}


def _part(row: Any) -> Part:
    return Part(
        row.id,
        row.object_id,
        row.first_part,
        row.last_part,
        row.version,
        tuple(load(row.files)),
        row.rows,
        row.bytes,
        row.oldest,
        row.newest,
        row.inserts_only,
        row.changed_at,
        row.added_in,
        row.arrived_in,
    )


def _last_refreshes(connection: Connection, number: int, earlier: Snapshot | None) -> dict[int, RefreshRecord]:
    """The newest refresh of each view; those of an earlier snapshot, but where there have been others since."""
    table = schema.refreshes
    if earlier is not None and earlier.id <= number:
        since = sa.select(table).where(table.c.snapshot_id > earlier.id).order_by(table.c.id)
        rows = [row for row in connection.execute(since) if row.snapshot_id <= number]
        return {**earlier.last_refreshes, **{row.object_id: _refresh(dict(row._mapping)) for row in rows}}
    newest = (
        sa.select(sa.func.max(table.c.id).label("id")).where(table.c.snapshot_id <= number).group_by(table.c.object_id)
    )
    found = connection.execute(sa.select(table).where(table.c.id.in_(newest)))
    return {row.object_id: _refresh(dict(row._mapping)) for row in found}


def _refresh(row: Mapping[str, Any]) -> RefreshRecord:
    values = {name: value for name, value in row.items() if name != "id"}
    return RefreshRecord(**{**values, "reaches": load(values["reaches"])})


def _gone(number: int, why: str) -> StorageError:
    return StorageError(
        "SNAPSHOT_GONE",
        f"Snapshot {number} is not kept: {why}.",
        hint="SHOW SNAPSHOTS lists them; ALTER HOME SET (keep_snapshots = n) keeps more.",
    )


def _without_password(url: str) -> str:
    try:
        return sa.engine.make_url(url).render_as_string(hide_password=True)
    except (sa.exc.ArgumentError, ValueError):
        # Not a URL as it stands, but it may still hold a password: hide what lies between a colon and the last @.
        return re.sub(r":(?!//).*@", ":***@", url)


def _first_line(error: Exception, url: str) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return text.replace(url, _without_password(url))
