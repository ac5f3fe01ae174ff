"""One transaction over all objects: files are written first, then one catalog commit makes them visible together.

Until `commit` nothing that was done can be seen by anybody; if it never comes, the files are orphans and the next
writer removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from headrace.errors import StorageError
from headrace.storage import faults, schema
from headrace.storage.catalog import KINDS, Catalog, Snapshot, now_micros
from headrace.storage.files import Files, Written, file_of
from headrace.storage.lease import Lease
from headrace.storage.records import Object, Part, Progress, RefreshRecord, dump


@dataclass(frozen=True)
class NewPart:
    """Rows to be added to an object's log."""

    object_id: int
    first: int
    last: int
    files: tuple[Written, ...]
    oldest: int | None
    newest: int | None
    inserts_only: bool
    changed_at: int | None = None
    arrived_in: int | None = None

    @property
    def rows(self) -> int:
        return sum(written.rows for written in self.files)


class Transaction:
    """Changes collected against one base snapshot."""

    def __init__(self, catalog: Catalog, lease: Lease, files: Files, reason: str) -> None:
        self.base: Snapshot = catalog.latest()
        self.files = files
        self.reason = reason
        self.clock = self.base.info.clock
        self.advanced_to = self.base.info.advanced_to
        self._catalog = catalog
        self._lease = lease
        self._next_object_id = self.base.next_object_id
        self._objects: list[tuple[Object, tuple[int, ...]]] = []
        self._altered: list[Object] = []
        self._rewired: list[tuple[Object, tuple[int, ...]]] = []
        self._ended: list[int] = []
        self._added: list[NewPart] = []
        self._written: list[NewPart] = []
        self._removed: list[int] = []
        self._progress: dict[int, Progress] = {}
        self._offsets: dict[int, Any] = {}
        self._landed_files: list[tuple[int, str]] = []
        self._failures: dict[int, str] = {}
        self._refreshes: list[RefreshRecord] = []
        self._home_options: dict[str, Any] | None = None

    @property
    def version(self) -> int:
        """The number the commit will have; new files carry it in their path."""
        return self.base.id + 1

    @property
    def empty(self) -> bool:
        return not (
            self._objects
            or self._altered
            or self._rewired
            or self._ended
            or self._added
            or self._removed
            or self._progress
            or self._offsets
            or self._landed_files
            or self._failures
            or self._refreshes
            or self._home_options is not None
            or self.clock != self.base.info.clock
            or self.advanced_to != self.base.info.advanced_to
        )

    def create(self, item: Object, needs: Iterable[Object] = ()) -> Object:
        """Add an object; gives it its id."""
        made = replace(item, id=self._next_object_id, created_in=self.version)
        self._next_object_id += 1
        self._objects.append((made, tuple(dict.fromkeys(other.id for other in needs))))
        return made

    def alter(self, item: Object) -> None:
        self._altered.append(item)

    def rewire(self, item: Object, needs: Iterable[Object]) -> None:
        """Let an object read others than it did."""
        self._rewired.append((item, tuple(dict.fromkeys(other.id for other in needs))))

    def end(self, item: Object) -> None:
        """Drop an object; its parts and its states end with it."""
        self._ended.append(item.id)
        for state in self.objects("state"):
            if state.option("of") == item.id:
                self._ended.append(state.id)

    def objects(self, *kinds: str) -> list[Object]:
        """The objects of the given kinds as they will be after the commit."""
        altered = {item.id: item for item in self._altered}
        known = [*self.base.objects(*kinds), *(item for item, _needs in self._objects if item.kind in kinds)]
        return [altered.get(item.id, item) for item in known if item.id not in self._ended]

    def made(self, name: str) -> Object | None:
        """The object of that name that this transaction makes, if there is one."""
        found = [self.current(item) for item, _needs in self._objects if item.id not in self._ended]
        return next((item for item in found if item.name.lower() == name.lower()), None)

    def needs(self, item: Object) -> list[Object]:
        """What an object reads, directly; also one that this transaction makes."""
        wired = [*reversed(self._rewired), *self._objects]
        own = next((needs for made, needs in wired if made.id == item.id), None)
        if own is None:
            return [self.current(other) for other in self.base.needs(item)]
        known = {other.id: other for other in self.objects(*KINDS)}
        return [known[number] for number in own if number in known]

    def current(self, item: Object) -> Object:
        """The object as this transaction has altered it."""
        return next((altered for altered in reversed(self._altered) if altered.id == item.id), item)

    def add_part(self, part: NewPart) -> None:
        if part.files:
            self._added.append(part)
            self._written.append(part)

    def remove_parts(self, parts: Iterable[Part]) -> None:
        """Take parts away, those of this very transaction too."""
        own = set()
        for part in parts:
            if part.id:
                self._removed.append(part.id)
            else:
                own.add((part.object_id, part.files))
        if own:
            self._added = [new for new in self._added if (new.object_id, _paths(new)) not in own]

    def added(self, item: Object) -> list[NewPart]:
        """What this transaction itself adds to an object."""
        return [part for part in self._added if part.object_id == item.id]

    def parts(self, item: Object) -> list[Part]:
        """The parts of an object as they will be after the commit."""
        removed = set(self._removed)
        kept = [part for part in self.base.parts(item) if part.id not in removed]
        return kept + [self._as_part(part) for part in self.added(item)]

    def _as_part(self, part: NewPart) -> Part:
        return Part(
            0,
            part.object_id,
            part.first,
            part.last,
            self.version,
            _paths(part),
            part.rows,
            sum(written.bytes for written in part.files),
            part.oldest,
            part.newest,
            part.inserts_only,
            part.changed_at or 0,
            self.version,
            part.arrived_in if part.arrived_in is not None else self.version,
        )

    def progress(self, item: Object) -> Progress:
        return self._progress.get(item.id) or self.base.progress(item)

    def set_progress(self, item: Object, progress: Progress) -> None:
        self._progress[item.id] = progress

    def set_offset(self, stream: Object, position: Any) -> None:
        self._offsets[stream.id] = position

    def land_file(self, stream: Object, path: str) -> None:
        """Note that a source's file has been taken in."""
        self._landed_files.append((stream.id, path))

    def offset(self, stream: Object) -> Any:
        return self._offsets.get(stream.id, self.base.offset(stream))

    def record(self, refresh: RefreshRecord) -> None:
        self._refreshes.append(refresh)

    def note_failure(self, item: Object, message: str) -> None:
        """A view could not be refreshed and is left as it was. Its next refresh takes the note away."""
        if self.base.failure(item) != message:
            self._failures[item.id] = message

    def abandon(self) -> None:
        """Delete what was written in vain. Files that were being written are left to the next writer."""
        self.files.delete(sorted({file_of(written.path) for part in self._written for written in part.files}))

    def mark(self) -> tuple[int, ...]:
        """Where the transaction stands, for `reset`."""
        return tuple(len(kept) for kept in self._resettable)

    def reset(self, mark: tuple[int, ...]) -> None:
        """Take back the parts, states and refresh records added since `mark`; their files become orphans."""
        for kept, length in zip(self._resettable, mark, strict=True):
            del kept[length:]

    @property
    def _resettable(self) -> tuple[list[Any], ...]:
        return (
            self._added,
            self._removed,
            self._refreshes,
            self._objects,
            self._altered,
            self._rewired,
            self._ended,
        )

    def refresh_of(self, item: Object) -> RefreshRecord | None:
        """This transaction's own refresh of a view, if it made one."""
        return next((made for made in reversed(self._refreshes) if made.object_id == item.id), None)

    def set_home_options(self, options: Mapping[str, Any]) -> None:
        self._home_options = dict(options)

    def commit(self) -> Snapshot:
        """Make it all visible at once, or raise and change nothing."""
        faults.reach(f"before commit: {self.reason}")
        with self._catalog.engine.begin() as connection:
            self._lease.confirm(connection)
            newest = connection.execute(sa.select(sa.func.max(schema.snapshots.c.id))).scalar_one()
            if newest != self.base.id:
                raise StorageError("SNAPSHOT_MOVED", f"Snapshot {newest} was committed meanwhile; nothing was written.")
            self._write(connection, now_micros())
            faults.reach(f"inside commit: {self.reason}")
        faults.reach(f"after commit: {self.reason}")
        return self._catalog.latest()

    def _write(self, connection: Connection, now: int) -> None:
        connection.execute(
            sa.insert(schema.snapshots).values(
                id=self.version, committed_at=now, reason=self.reason, clock=self.clock, advanced_to=self.advanced_to
            )
        )
        self._write_objects(connection, now)
        self._write_parts(connection, now)
        for object_id, progress in self._progress.items():
            _put(connection, schema.progress, "object_id", {"object_id": object_id, **vars(progress)})
        for stream_id, position in self._offsets.items():
            _put(connection, schema.offsets, "stream_id", {"stream_id": stream_id, "position": dump(position)})
        if self._landed_files:
            files = [{"stream_id": of, "path": path, "landed_in": self.version} for of, path in self._landed_files]
            connection.execute(sa.insert(schema.landed_files), files)
        for object_id, message in self._failures.items():
            row = {"object_id": object_id, "message": message, "failed_at": now}
            _put(connection, schema.failures, "object_id", row)
        if self._refreshes:
            mended = [refresh.object_id for refresh in self._refreshes]
            connection.execute(sa.delete(schema.failures).where(schema.failures.c.object_id.in_(mended)))
            rows = [
                {**vars(refresh), "reaches": dump(dict(refresh.reaches)), "snapshot_id": self.version}
                for refresh in self._refreshes
            ]
            connection.execute(sa.insert(schema.refreshes), rows)
        if self._home_options is not None:
            connection.execute(sa.update(schema.homes).values(options=dump(self._home_options)))

    def _write_objects(self, connection: Connection, now: int) -> None:
        for item, needs in self._objects:
            connection.execute(sa.insert(schema.objects).values(**_row(item), created_at=now, created_in=self.version))
            if needs:
                pairs = [{"object_id": item.id, "needs_id": other} for other in needs]
                connection.execute(sa.insert(schema.dependencies), pairs)
        for item, needs in self._rewired:
            table = schema.dependencies
            connection.execute(sa.delete(table).where(table.c.object_id == item.id))
            if needs:
                connection.execute(sa.insert(table), [{"object_id": item.id, "needs_id": other} for other in needs])
        for item in self._altered:
            table = schema.objects
            connection.execute(sa.update(table).where(table.c.id == item.id).values(**_row(item)))
        for object_id in self._ended:
            objects, parts = schema.objects, schema.parts
            connection.execute(sa.update(objects).where(objects.c.id == object_id).values(ended_in=self.version))
            connection.execute(
                sa.update(parts)
                .where(parts.c.object_id == object_id, parts.c.removed_in.is_(None))
                .values(removed_in=self.version)
            )

    def _write_parts(self, connection: Connection, now: int) -> None:
        table = schema.parts
        if self._removed:
            # One statement a part: a list of them all can be longer than a database takes.
            one = sa.update(table).where(table.c.id == sa.bindparam("part")).values(removed_in=self.version)
            connection.execute(one, [{"part": part} for part in self._removed])
        if self._added:
            connection.execute(sa.insert(table), [self._part_row(part, now) for part in self._added])

    def _part_row(self, part: NewPart, now: int) -> dict[str, Any]:
        return {
            "object_id": part.object_id,
            "first_part": part.first,
            "last_part": part.last,
            "version": self.version,
            "files": dump([written.path for written in part.files]),
            "rows": part.rows,
            "bytes": sum(written.bytes for written in part.files),
            "oldest": part.oldest,
            "newest": part.newest,
            "inserts_only": part.inserts_only,
            "changed_at": part.changed_at if part.changed_at is not None else now,
            "added_in": self.version,
            "removed_in": None,
            "arrived_in": part.arrived_in if part.arrived_in is not None else self.version,
        }


def _paths(part: NewPart) -> tuple[str, ...]:
    return tuple(written.path for written in part.files)


def _row(item: Object) -> dict[str, Any]:
    return {
        "id": item.id,
        "name": item.name,
        "kind": item.kind,
        "log": item.log,
        "definition": item.definition,
        "columns": dump([vars(column) for column in item.columns]),
        "key": None if item.key is None else dump(list(item.key)),
        "time_kind": item.time_kind,
        "time_column": item.time_column,
        "partition_length": item.partition_length,
        "options": dump(dict(item.options)),
        "system": item.system,
    }


def _put(connection: Connection, table: sa.Table, key: str, row: Mapping[str, Any]) -> None:
    """Update or insert by primary key, the same on every database."""
    changed = connection.execute(sa.update(table).where(table.c[key] == row[key]).values(**row))
    if changed.rowcount == 0:
        connection.execute(sa.insert(table).values(**row))
