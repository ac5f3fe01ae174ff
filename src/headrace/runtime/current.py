"""The current rows of keyed tables and streams: kept once for all views, and brought forward once a refresh.

One job turns the new rows of all of them into signed changes, which every view reads that stands where they stood. For
views that stand further back (their policy does not let them be refreshed yet, or their states stand still) the changes
are left behind, until the last of them has come by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headrace.maintenance.building import Filling, run_filling
from headrace.maintenance.deltas import SMALL, LogRows, Position, read_here, read_there, rows_since
from headrace.maintenance.filling import Piece, can_fill, fill, log_pieces
from headrace.maintenance.kept import BucketChange, Held
from headrace.maintenance.logs import listed, log_fields
from headrace.maintenance.operators.base import hash_sql
from headrace.maintenance.tagging import (
    Upserted,
    current_pieces,
    current_program,
    current_rows,
    no_changes,
    stored_columns,
    tag,
    upserts,
)
from headrace.runtime import states
from headrace.runtime.books import book_of
from headrace.runtime.home import Home
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Field, Object, Part
from headrace.storage.transactions import Transaction
from headrace.storage.writer import write_table

#: Rows of current state that one bucket is meant to hold, and the least number of buckets.
_ROWS_A_BUCKET = 2_000_000
_BUCKETS = 4
#: The name of the changes that are left behind, among what is kept of an object.
_LEFT = "left"


@dataclass
class Tagging:
    """One keyed object's change, and between which positions it is."""

    item: Object
    since: Position
    upto: int | None
    changes: pa.Table


@dataclass(frozen=True)
class Expected:
    """Keyed objects that views will ask for, how far they may be read, and the columns that are read of each."""

    items: Sequence[Object] = ()
    reached: Mapping[int, int] = field(default_factory=dict)
    shown: Mapping[int, Set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Left:
    """A change that was left behind: in which file, and between which positions it is."""

    file: str
    since: Position
    upto: Position


@dataclass(frozen=True)
class _Fresh:
    """Current rows that are to be filled: from which parts of the log, up to which time, with which columns."""

    item: Object
    held: Held
    parts: Sequence[Part]
    upto: int | None
    buckets: int
    kept: frozenset[str]


@dataclass
class Current:
    """The current rows of keyed objects in one transaction, and what they tell."""

    home: Home
    transaction: Transaction
    _tagged: dict[int, Tagging] = field(default_factory=dict)
    _expected: Expected = field(default_factory=Expected)

    def expect(self, items: Sequence[Object], reached: Mapping[int, int], shown: Mapping[int, Set[str]]) -> None:
        """Keyed objects whose current rows are brought forward together, as soon as a view asks for one of them.

        `shown` tells by object which columns views read of it; of others, all are told.
        """
        self._expected = Expected(items, reached, shown)

    def reset(self) -> None:
        """The transaction is as it was before the last view: what was brought forward for that one is not."""
        self._tagged.clear()

    def told(
        self, item: Object, parts: Sequence[Part], since: Position, upto: int | None, shown: Set[str] | None = None
    ) -> pa.Table | None:
        """The changes of `item` (columns, `__at`, `__t`, `__w`) between a position and a time; None if not known here.

        The same rows have to be new: then it does not matter that they were read at different moments. `shown` are the
        columns that are wanted: all unless told.
        """
        made = self._made(item)
        if made is None:
            return None
        behind = self._behind(item, parts, rows_since(parts, since, upto), made.since, made.upto)
        names = [*(item.names if shown is None else shown & {*item.names}), "__at", "__t", "__w"]
        if behind is None or not all(name in made.changes.column_names for name in names):
            return None
        if not behind:
            return made.changes
        rows = [self.home.files.read([left.file]) for left in behind]
        if not all(name in table.column_names for name in names for table in rows):
            return None
        schema = pa.schema([made.changes.schema.field(name) for name in names])
        return pa.concat_tables([table.select(names).cast(schema) for table in (*rows, made.changes)])

    def tells(self, item: Object, parts: Sequence[Part], fresh: LogRows) -> bool:
        """Whether it would be known what these rows, which are new to a view, have changed."""
        made, state = self._tagged.get(item.id), self._state(item)
        if made is not None:
            return self._behind(item, parts, fresh, made.since, made.upto) is not None
        if state is None:
            return False
        return self._behind(item, parts, fresh, _position(state), fresh.upto) is not None

    def _behind(
        self, item: Object, parts: Sequence[Part], fresh: LogRows, since: Position, upto: int | None
    ) -> list[Left] | None:
        """The changes left behind between where some rows were new and a position; None where some are missing."""
        wanted = rows_since(parts, since, upto).files
        if wanted == fresh.files:
            return []
        found: list[Left] = []
        for left in reversed(self._left(item)):
            if rows_since(parts, left.upto, upto).files != wanted:
                return None
            found.insert(0, left)
            wanted = rows_since(parts, left.since, upto).files
            if wanted == fresh.files:
                return found
        return None

    def _made(self, item: Object) -> Tagging | None:
        if item.id not in self._tagged and any(item.id == other.id for other in self._expected.items):
            self._tag(self._expected)
        return self._tagged.get(item.id)

    def _tag(self, expected: Expected) -> None:
        """Bring the current rows of keyed objects forward, all in one job."""
        relations = self.home.relations(self.transaction)
        given: list[Upserted] = []
        waiting = []
        for item in expected.items:
            state = self._state(item)
            if state is None or item.id in self._tagged:
                continue
            since = _position(state)
            parts = relations.source.parts(item)
            upto = relations.reach(item, parts)
            rows = rows_since(parts, since, upto)
            count = rows.most
            small = read_here(self.home.logs, item, rows) if count <= most_here(self.home) else None
            if small is not None and small.num_rows == 0:
                self._tagged[item.id] = Tagging(item, since, upto, no_changes(item))
                self._moved(state, expected.reached.get(item.id))
                continue
            came = read_there(self.home.logs, item, rows) if small is None else small
            kept = _columns(state)
            held = states.held_one(self.transaction, state, current_rows(item, kept).states[0])
            shown = frozenset(expected.shown.get(item.id, item.names))
            given.append(Upserted(item, came, count, held, int(state.option("buckets")), kept, shown))
            waiting.append((item, state, since, upto))
        if not given:
            return
        here = self.home.fits_here(sum(upserted.count for upserted in given))
        done = tag(self.home.engine, given, self.home.files.home, self.transaction.version, here=here)
        states.apply(self.transaction, done.states)
        for (item, state, since, upto), changes in zip(waiting, done.changes, strict=True):
            self._tagged[item.id] = Tagging(item, since, upto, changes)
            self._moved(state, expected.reached.get(item.id))

    def _moved(self, state: Object, reach: int | None) -> None:
        states.moved_to(self.transaction, state, {"reach": reach, "snapshot": self.transaction.version})

    def keep(self, items: Sequence[Object], reached: Mapping[int, int], shown: Mapping[int, Set[str]]) -> None:
        """See to it that the current rows of keyed objects are kept, and stand where a view that is made now does.

        `shown` are the columns that are needed of each.
        """
        for item in items:
            if item.log != "upsert" or item.maintained:
                continue
            wanted = frozenset(stored_columns(item, shown.get(item.id, frozenset())))
            state = self._state(item)
            if state is None:
                self._build(item, reached.get(item.id), wanted)
                continue
            if self._made(item) is None:
                self._tag(Expected([item], reached))
            if not wanted <= _columns(state):
                # What the others will want to read has been told; now more is kept from here on.
                self._build(item, reached.get(item.id), wanted | _columns(state))

    def keeps(self, items: Sequence[Object], shown: Mapping[int, Set[str]]) -> bool:
        """Whether the current rows of all keyed objects among these are kept, with these columns."""
        for item in items:
            if item.log == "upsert" and not item.maintained:
                state = self._state(item)
                if state is None or not (shown.get(item.id, frozenset()) & {*item.names}) <= _columns(state):
                    return False
        return True

    def pieces(self, item: Object, upto: int | None) -> Iterator[Piece] | None:
        """The rows of a keyed object as of a time, those columns that are kept; None where they do not stand there."""
        state = self._state(item)
        if state is None or _position(state) != Position(upto, self.transaction.version):
            return None
        kept = _columns(state)
        held = states.held_one(self.transaction, state, current_rows(item, kept).states[0])
        return current_pieces(item, kept, held, self.home.files.home)

    def _state(self, item: Object) -> Object | None:
        found = _kept(self.transaction, item, "current")
        if found is None:
            return None
        operator = current_rows(item, _columns(found))
        # It may be of a shape that is no longer used.
        return found if found.option("print") == states.fingerprint(operator, "current") else None

    def _build(self, item: Object, upto: int | None, kept: frozenset[str]) -> None:
        relations = self.home.relations(self.transaction)
        rows = sum(part.rows for part in relations.source.parts(item))
        buckets = _BUCKETS
        while rows > buckets * _ROWS_A_BUCKET:
            buckets *= 2
        told = {
            "reach": upto,
            "snapshot": self.transaction.version,
            "buckets": buckets,
            "columns": stored_columns(item, kept),
        }
        made = states.create(self.transaction, item, current_program(item, kept), told, but=_LEFT)[0, "current"]
        here = self.home.files.local and can_fill(made.state)
        fresh = _Fresh(item, made, relations.source.parts(item), upto, buckets, kept)
        changes = self._filled_here(fresh) if here else self._filled(fresh, rows)
        states.apply(self.transaction, changes)
        if sum(run.rows for change in changes for run in change.new) == rows:
            # No key has come twice so far: whoever reads the whole relation need not look for that again.
            known = {**item.options, "unique_upto": self.transaction.version}
            self.transaction.alter(replace(item, options=known))

    def _filled_here(self, fresh: _Fresh) -> list[BucketChange]:
        item, kept = fresh.item, fresh.kept
        files = self.home.files
        unread = {*item.names} - {*stored_columns(item, kept)}
        fields = [field for field in log_fields(item) if field.name not in unread]
        paths = [files.spark_path(path) for part in fresh.parts for path in part.files]
        engine = self.home.engine
        pieces = log_pieces(paths, fields, fresh.upto, lambda rows: upserts(engine, item, rows, kept))
        with files.stage() as folder:
            version = self.transaction.version
            return fill(fresh.held, files.home, version, fresh.buckets, pieces, folder, newest=("__at", "__seq"))

    def _filled(self, fresh: _Fresh, rows: int) -> list[BucketChange]:
        item, buckets = fresh.item, fresh.buckets
        engine = self.home.engine
        log = self.home.logs.rows(item, fresh.parts, fresh.upto)
        state = fresh.held.state
        columns = ", ".join(listed([column.name]) for column in state.columns)
        came = upserts(engine, item, log, fresh.kept)
        plain = f"SELECT {columns} FROM input_"
        newest = engine.sql(plain if self._each_once(item, log) else state.content, {"input_": came})
        routed = engine.sql(
            "SELECT CAST(0 AS INT) AS __e, CAST(0 AS BIGINT) AS __t, CAST(0 AS BIGINT) AS __w,"
            f" CAST(NULL AS STRING) AS __note, {columns}, __h, CAST(pmod(__h, {buckets}) AS INT) AS __b FROM"
            f" (SELECT *, {hash_sql(state.key, state.columns)} AS __h FROM newest_)",
            {"newest_": newest},
        )
        work = Filling(self.home.files.home, self.transaction.version, buckets, (fresh.held,), state.columns)
        return run_filling(engine, routed, work, rows)

    def _each_once(self, item: Object, log: Any) -> bool:
        """Whether no key has come twice, so that every row is the newest of its key. Cheaper to ask than to sort."""
        counts = f"SELECT count(*) AS n FROM log_rows GROUP BY {listed(item.key or ())}"
        most = self.home.engine.sql(f"SELECT max(n) AS n FROM ({counts})", {"log_rows": log})
        return (self.home.engine.arrow(most).column("n")[0].as_py() or 0) <= 1

    # --- For those who come later --------------------------------------------------------------------------------

    def leave(self, follows: Callable[[Object], bool]) -> None:
        """Keep the changes that were told for views that have not read them, and forget those that all have read.

        `follows` tells of a view whether it may want them.
        """
        for tagging in self._tagged.values():
            kept = _kept(self.transaction, tagging.item, _LEFT)
            unread = self._unread(tagging.item, follows)
            if kept is not None:
                kept = self._without_read(tagging, kept, unread)
            if unread and tagging.changes.num_rows:
                self._leave(tagging, kept)

    def _without_read(self, tagging: Tagging, kept: Object, unread: Sequence[LogRows]) -> Object | None:
        """What was left behind, without what all have read; None if nothing is left."""
        parts = self.transaction.parts(tagging.item)
        behind = [self._behind(tagging.item, parts, rows, tagging.since, tagging.upto) for rows in unread]
        wanted = {left.file for found in behind for left in found or ()}
        if not wanted:
            self.transaction.end(kept)
            return None
        self.transaction.remove_parts([part for part in self.transaction.parts(kept) if part.files[0] not in wanted])
        between = {file: places for file, places in kept.option("between", {}).items() if file in wanted}
        states.moved_to(self.transaction, kept, {"between": between})
        return _kept(self.transaction, tagging.item, _LEFT)

    def _leave(self, tagging: Tagging, kept: Object | None) -> None:
        item = tagging.item
        known = 0 if kept is None else sum(part.rows for part in self.transaction.parts(kept))
        if known + tagging.changes.num_rows > self._most_left(item):
            # Whoever stands that far back is sooner served by the whole log.
            if kept is not None:
                self.transaction.end(kept)
            return
        if kept is None:
            kept = self.transaction.create(_left_object(item, self.transaction.version))
        write_table(self.transaction, kept, tagging.changes, inserts_only=False)
        (part,) = [part for part in self.transaction.parts(kept) if part.added_in == self.transaction.version]
        state = self._state(item)
        assert state is not None
        between = {"since": vars(tagging.since), "upto": vars(_position(state))}
        states.moved_to(self.transaction, kept, {"between": {**kept.option("between", {}), part.files[0]: between}})

    def _most_left(self, item: Object) -> int:
        return max(SMALL, sum(part.rows for part in self.transaction.parts(item)) // 2)

    def _left(self, item: Object) -> list[Left]:
        """The changes that were left behind, oldest first."""
        kept = _kept(self.transaction, item, _LEFT)
        if kept is None:
            return []
        found = [
            Left(file, Position(**between["since"]), Position(**between["upto"]))
            for file, between in kept.option("between", {}).items()
        ]
        return sorted(found, key=lambda left: left.upto.snapshot)

    def _unread(self, item: Object, follows: Callable[[Object], bool]) -> list[LogRows]:
        """The rows of `item` that the current rows have taken in and a view has not, for each such view."""
        relations = self.home.relations(self.transaction)
        parts = relations.source.parts(item)
        upto = relations.reach(item, parts)
        found = []
        for view in self.transaction.base.dependents(item):
            last = relations.source.last_refresh(view)
            if last is None or not follows(view):
                continue
            place = book_of(self.transaction, view).place(last)
            rows = rows_since(parts, Position(place.reaches.get(str(item.id)), place.read_snapshot), upto)
            if rows.most:
                found.append(rows)
        return found


def most_here(home: Home) -> int:
    """Up to so many rows a change is read here."""
    return max(SMALL, home.rows_here)


def _kept(transaction: Transaction, item: Object, name: str) -> Object | None:
    return next((state for state in states.states_of(transaction, item) if state.option("state") == name), None)


def _columns(state: Object) -> frozenset[str]:
    """The columns that the current rows of an object have."""
    return frozenset(state.option("columns", ()))


def _position(state: Object) -> Position:
    return Position(state.option("reach"), state.option("snapshot"))


def _left_object(item: Object, version: int) -> Object:
    options = {"of": item.id, "operator": 0, "state": _LEFT}
    purpose = "the changes that some views have yet to read"
    columns = (*item.columns, Field("__at", "BIGINT"))
    name = f"__left_{item.id}_{version}"
    return Object(0, name, states.KIND, "signed", purpose, columns, None, options=options, system=True)


def positions(snapshot: Snapshot, item: Object) -> list[int]:
    """The snapshots at which the current rows of an object stand, and at which changes left behind begin and end."""
    kept = states.states_of(snapshot, item)
    current = [state.option("snapshot") for state in kept if state.option("state") == "current"]
    lefts = [between for state in kept for between in state.option("between", {}).values()]
    return current + [between[side]["snapshot"] for between in lefts for side in ("since", "upto")]
