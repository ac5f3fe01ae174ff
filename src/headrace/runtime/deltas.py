"""The changes of a refresh: what each input has become since each view read it, worked out once for all views.

A keyed table or stream has its current rows kept beside it as soon as a view is maintained by its changes. One job
turns the new rows of all of them into signed changes; a view that stands elsewhere than they did gets its change from
the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from headrace.errors import StorageError
from headrace.language import Window
from headrace.language.types import arrow_type
from headrace.maintenance.building import Filling, run_filling
from headrace.maintenance.deltas import (
    SMALL,
    Delta,
    LogRows,
    NoDelta,
    Position,
    appended,
    between,
    read_here,
    read_there,
    rows_since,
    signed_table,
    within,
)
from headrace.maintenance.filling import can_fill, fill, parquet_pieces
from headrace.maintenance.forgetting import Forgetting
from headrace.maintenance.kept import BucketChange, Held
from headrace.maintenance.lifetimes import born, windowed
from headrace.maintenance.logs import listed, log_fields
from headrace.maintenance.operators.base import hash_sql
from headrace.maintenance.readings import BORN, Reading, appended_spans, born_rows, events, keyed_spans, still_turning
from headrace.maintenance.relations import Relations, least
from headrace.maintenance.tagging import Upserted, current_program, current_rows, no_changes, tag, upserts
from headrace.maintenance.version_changes import versions_between, versions_changed
from headrace.runtime import states
from headrace.runtime.home import Home
from headrace.storage.records import Object, Part, RefreshRecord
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS

#: Rows of current state that one bucket is meant to hold, and the least number of buckets.
_ROWS_A_BUCKET = 2_000_000
_BUCKETS = 4


@dataclass
class Tagging:
    """One keyed object's change, and between which positions it is."""

    since: Position
    upto: int | None
    changes: pa.Table


@dataclass(frozen=True)
class Expected:
    """Keyed objects that views will ask for, how far they may be read, and the columns that are read of each."""

    items: Sequence[Object] = ()
    reached: Mapping[int, int] = field(default_factory=dict)
    shown: Mapping[int, Set[str]] = field(default_factory=dict)


@dataclass
class Deltas:
    """The changes of one transaction's refresh."""

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

    def _made(self, item: Object) -> Tagging | None:
        if item.id not in self._tagged and any(item.id == other.id for other in self._expected.items):
            self._tag(self._expected)
        return self._tagged.get(item.id)

    def count(self, item: Object, since: RefreshRecord) -> int:
        """About how many signed rows tell what `item` has become since a view read it. Raises `NoDelta`."""
        relations = self.home.relations(self.transaction)
        parts = relations.source.parts(item)
        read = Position(since.reaches.get(str(item.id)), since.read_snapshot)
        if item.maintained:
            old = {part.files: part.rows for part in self._before(relations, item, read)}
            new = {part.files: part.rows for part in parts}
            return sum(rows for files, rows in (old | new).items() if (files in old) != (files in new))
        fresh = rows_since(parts, read, relations.reach(item, parts))
        if item.log != "upsert" or not fresh.most:
            return fresh.most
        if not self._told_by_current_rows(item, parts, fresh):
            return sum(part.rows for part in parts)  # all of the log will be compared
        return 2 * fresh.most  # an update is two: what was there, and what is now

    def _told_by_current_rows(self, item: Object, parts: Sequence[Part], fresh: LogRows) -> bool:
        """Whether the current rows stand where these rows are new."""
        made, state = self._tagged.get(item.id), self._state(item)
        if made is not None:
            return rows_since(parts, made.since, made.upto).files == fresh.files
        since = None if state is None else Position(state.option("reach"), state.option("snapshot"))
        return since is not None and rows_since(parts, since, fresh.upto).files == fresh.files

    def of(self, item: Object, last: RefreshRecord, upto: int | None, shown: Set[str], *, timed: bool) -> Delta:
        """What `item` has become since a view read it in `last`, in the columns `shown`. Raises `NoDelta`."""
        relations = self.home.relations(self.transaction)
        seen = last.reaches.get(str(item.id))
        since = Position(seen, last.read_snapshot)
        parts = relations.source.parts(item)
        if item.maintained:
            before = self._before(relations, item, since)
            return between(self.home.logs, item, before, parts, upto, timed=timed, shown=shown, most=self._most)
        if item.log == "upsert":
            return self._upserted(relations, item, since, upto, shown, timed=timed)
        new = rows_since(parts, since, upto)
        return appended(self.home.logs, item, new, timed=timed, shown=shown, most=self._most)

    @property
    def _most(self) -> int:
        """Up to so many rows a change is read here."""
        return max(SMALL, self.home.rows_here)

    def of_window(
        self,
        item: Object,
        window: Window,
        last: RefreshRecord,
        upto: int | None,
        clock: tuple[int | None, int],
        *,
        timed: bool,
    ) -> Delta:
        """What a window on time over `item` has come to show since the clock was at `clock[0]`."""
        relations = self.home.relations(self.transaction)
        parts = relations.source.parts(item)
        since = Position(last.reaches.get(str(item.id)), last.read_snapshot)
        fresh = rows_since(parts, since, upto)
        read = self._read(relations, item, since)
        return windowed(self.home.logs, item, window, fresh, read, clock, since.reach, timed=timed)

    def of_births(
        self, item: Object, window: Window, last: RefreshRecord, upto: int | None, clock: tuple[int | None, int]
    ) -> Delta:
        """The rows that have come into a window on time since the clock was at `clock[0]`, with their deaths."""
        relations = self.home.relations(self.transaction)
        parts = relations.source.parts(item)
        since = Position(last.reaches.get(str(item.id)), last.read_snapshot)
        read = self._read(relations, item, since)
        return born(self.home.logs, item, window, rows_since(parts, since, upto), read, clock, since.reach)

    def of_reading(
        self,
        item: Object,
        window: Window | None,
        reading: Reading,
        last: RefreshRecord,
        upto: int | None,
        clock: tuple[int | None, int],
        points: Callable[[], Sequence[int]],
        *,
        timed: bool,
    ) -> Delta:
        """What `item` has become for a plan that reads more of it than its columns, or its rows by the clock.

        `points` are those of the view since it was refreshed.
        """
        logs, relations = self.home.logs, self.home.relations(self.transaction)
        since = Position(last.reaches.get(str(item.id)), last.read_snapshot)
        parts = relations.source.parts(item)
        read = self._read(relations, item, since)
        if reading.versions:
            return self._versions(relations, item, since, upto, timed=timed)
        if item.log == "upsert" and window is None and reading.life is None and reading.hidden == (BORN,):
            made = self._made(item)
            if (
                made is not None
                and rows_since(parts, made.since, made.upto).files == rows_since(parts, since, upto).files
            ):
                return born_rows(item, made.changes, rows_since(parts, since, upto).oldest, timed=timed)
        if item.log == "upsert":
            then = (read if since.reach is not None else [], since.reach, clock[0] or 0)
            oldest = rows_since(parts, since, upto).oldest
            spans = keyed_spans(logs, item, window, reading, (parts, upto, clock[1]), then, oldest)
            delta = events(logs, item, reading, spans, timed=timed)
            # A version that was over before the last reading leaves nothing to tell but its time.
            return replace(delta, oldest=least(delta.oldest, oldest))
        fresh = rows_since(parts, since, upto)
        forgetting = None
        if reading.forgets:
            forgetting = self._forgetting(relations, item, since, upto, clock, tuple(points()) if timed else None)
            turns = reading.life is not None or window is not None
            older = forgetting.older(read, since.reach, all_rows=turns)
        else:
            older = still_turning(read, window, reading.life, clock, since.reach)
        spans = appended_spans(logs, item, window, reading, fresh, older, clock, forgetting)
        return events(logs, item, reading, spans, timed=timed)

    def _read(self, relations: Relations, item: Object, since: Position) -> Sequence[Part]:
        """The parts that had come when a view read an object, also those that RETAIN has let go of since."""
        if item.forgets_rows and item.option("retain") is not None:
            return self._before(relations, item, since)
        return [part for part in relations.source.parts(item) if part.arrived_in <= since.snapshot]

    def _forgetting(
        self,
        relations: Relations,
        item: Object,
        since: Position,
        upto: int | None,
        clock: tuple[int | None, int],
        points: tuple[int, ...] | None,
    ) -> Forgetting:
        parts, before = relations.source.parts(item), self._before(relations, item, since)
        then = item
        if since.snapshot < self.transaction.version:
            then = relations.earlier(since.snapshot).source.find(item.name)
        if then.option("retain") != item.option("retain"):
            raise NoDelta(f"{item.name} retains its rows otherwise than it did")
        newest, known = (max((part.newest for part in some if part.newest is not None), default=None)
                         for some in (parts, before))  # fmt: skip
        if points is not None and since.reach is not None and (known or 0) > since.reach:
            # Rows that wait make others forgotten, but no point at which a view would see it.
            raise NoDelta(f"{item.name} forgets rows by RETAIN, and some of its rows waited for the clock")
        length = None if item.partition_length is None else item.partition_length * MICROS
        reached = None if newest is None else least(newest, upto, clock[1])
        made = Forgetting(int(item.option("retain")), length, None, least(since.reach, clock[0]), clock[1], points)
        gone = None if since.reach is None else made.edge
        return replace(made, gone=gone, reached=reached)

    def _versions(self, relations: Relations, item: Object, since: Position, upto: int | None, *, timed: bool) -> Delta:
        """The change of the versions of a table's rows: a new one begins, and the one before it ends there."""
        parts = relations.source.parts(item)
        new, made = rows_since(parts, since, upto), self._made(item)
        in_order = since.reach is None or new.oldest is None or new.oldest > since.reach
        if made is None or not in_order or rows_since(parts, made.since, made.upto).files != new.files:
            read = [part for part in parts if part.arrived_in <= since.snapshot]
            return versions_between(self.home.logs, item, (parts, upto), (read, since.reach), timed=timed)
        return versions_changed(item, made.changes, timed=timed)

    def _before(self, relations: Relations, item: Object, since: Position) -> Sequence[Part]:
        if since.snapshot >= self.transaction.version:
            return relations.source.parts(item)
        try:
            return relations.earlier(since.snapshot).source.parts(item)
        except StorageError as error:
            raise NoDelta(f"the snapshot in which {item.name} was last read is no longer kept") from error

    def _upserted(
        self, relations: Relations, item: Object, since: Position, upto: int | None, shown: Set[str], *, timed: bool
    ) -> Delta:
        made = self._made(item)
        parts = relations.source.parts(item)
        new = rows_since(parts, since, upto)
        # The same rows are new to both: then it does not matter that they were read at different moments.
        if made is None or rows_since(parts, made.since, made.upto).files != new.files:
            return self._from_log(relations, item, since, upto, timed=timed)
        rows = made.changes
        times, born, weights = (rows.column(name) for name in ("__t", "__at", "__w"))
        return signed_table(item, rows, times, born, weights, oldest=new.oldest, timed=timed, shown=shown)

    def _tag(self, expected: Expected) -> None:
        """Bring the current rows of keyed objects forward, all in one job."""
        relations = self.home.relations(self.transaction)
        given: list[Upserted] = []
        waiting = []
        for item in expected.items:
            state = self._state(item)
            if state is None or item.id in self._tagged:
                continue
            since = Position(state.option("reach"), state.option("snapshot"))
            parts = relations.source.parts(item)
            upto = relations.reach(item, parts)
            rows = rows_since(parts, since, upto)
            count = rows.most
            small = read_here(self.home.logs, item, rows) if count <= self._most else None
            if small is not None and small.num_rows == 0:
                self._tagged[item.id] = Tagging(since, upto, no_changes(item))
                self._moved(state, expected.reached.get(item.id))
                continue
            came = read_there(self.home.logs, item, rows) if small is None else small
            held = states.held_one(self.transaction, state, current_rows(item).states[0])
            columns = frozenset(expected.shown.get(item.id, item.names))
            given.append(Upserted(item, came, count, held, int(state.option("buckets")), columns))
            waiting.append((item, state, since, upto))
        if not given:
            return
        here = self.home.fits_here(sum(upserted.count for upserted in given))
        done = tag(self.home.engine, given, self.home.files.home, self.transaction.version, here=here)
        states.apply(self.transaction, done.states)
        for (item, state, since, upto), changes in zip(waiting, done.changes, strict=True):
            self._tagged[item.id] = Tagging(since, upto, changes)
            self._moved(state, expected.reached.get(item.id))

    def _moved(self, state: Object, reach: int | None) -> None:
        states.moved_to(self.transaction, state, {"reach": reach, "snapshot": self.transaction.version})

    def keep_current(self, items: Sequence[Object], reached: dict[int, int]) -> None:
        """See to it that the current rows of keyed objects are kept, and stand where a view that is made now does."""
        for item in items:
            if item.log != "upsert" or item.maintained:
                continue
            if self._state(item) is None:
                self._build(item, reached.get(item.id))
            elif self._made(item) is None:
                self._tag(Expected([item], reached))

    def keeps_current(self, items: Sequence[Object]) -> bool:
        """Whether the current rows of all keyed objects among these are kept."""
        keyed = [item for item in items if item.log == "upsert" and not item.maintained]
        return all(self._state(item) is not None for item in keyed)

    def _state(self, item: Object) -> Object | None:
        found = next(iter(states.states_of(self.transaction, item)), None)
        if found is None or found.option("print") != states.fingerprint(current_rows(item), "current"):
            return None  # of a shape that is no longer used
        return found

    def _build(self, item: Object, upto: int | None) -> None:
        relations = self.home.relations(self.transaction)
        rows = sum(part.rows for part in relations.source.parts(item))
        buckets = _BUCKETS
        while rows > buckets * _ROWS_A_BUCKET:
            buckets *= 2
        position = {"reach": upto, "snapshot": self.transaction.version, "buckets": buckets}
        made = states.create(self.transaction, item, current_program(item), position)[0, "current"]
        here = self.home.files.local and can_fill(made.state)
        way = self._filled_here if here else self._filled
        changes = way(item, made, relations, upto, rows, buckets)
        states.apply(self.transaction, changes)
        if sum(run.rows for change in changes for run in change.new) == rows:
            # No key has come twice so far: whoever reads the whole relation need not look for that again.
            known = {**item.options, "unique_upto": self.transaction.version}
            self.transaction.alter(replace(item, options=known))

    def _filled_here(
        self, item: Object, made: Held, relations: Relations, upto: int | None, _rows: int, buckets: int
    ) -> list[BucketChange]:
        files = self.home.files
        schema = pa.schema([(field.name, arrow_type(field.type)) for field in log_fields(item)])
        parts = relations.source.parts(item)
        paths = [files.spark_path(path) for part in parts for path in part.files]
        read = (within(piece, None, upto) for piece in parquet_pieces(paths, schema))
        pieces = (upserts(self.home.engine, item, piece) for piece in read)
        with files.stage() as folder:
            version = self.transaction.version
            return fill(made, files.home, version, buckets, pieces, folder, newest=("__at", "__seq"))

    def _filled(
        self, item: Object, made: Held, relations: Relations, upto: int | None, rows: int, buckets: int
    ) -> list[BucketChange]:
        engine = self.home.engine
        log = self.home.logs.rows(item, relations.source.parts(item), upto)
        state = made.state
        columns = ", ".join(listed([column.name]) for column in state.columns)
        came = upserts(engine, item, log)
        plain = f"SELECT {columns} FROM input_"
        newest = engine.sql(plain if self._each_once(item, log) else state.content, {"input_": came})
        routed = engine.sql(
            "SELECT CAST(0 AS INT) AS __e, CAST(0 AS BIGINT) AS __t, CAST(0 AS BIGINT) AS __w,"
            f" CAST(NULL AS STRING) AS __note, {columns}, __h, CAST(pmod(__h, {buckets}) AS INT) AS __b FROM"
            f" (SELECT *, {hash_sql(state.key, state.columns)} AS __h FROM newest_)",
            {"newest_": newest},
        )
        work = Filling(self.home.files.home, self.transaction.version, buckets, (made,), state.columns)
        return run_filling(engine, routed, work, rows)

    def _each_once(self, item: Object, log: Any) -> bool:
        """Whether no key has come twice, so that every row is the newest of its key. Cheaper to ask than to sort."""
        counts = f"SELECT count(*) AS n FROM log_rows GROUP BY {listed(item.key or ())}"
        most = self.home.engine.sql(f"SELECT max(n) AS n FROM ({counts})", {"log_rows": log})
        return (self.home.engine.arrow(most).column("n")[0].as_py() or 0) <= 1

    def _from_log(self, relations: Relations, item: Object, since: Position, upto: int | None, *, timed: bool) -> Delta:
        """The change of a keyed object between any two readings, from its whole log."""
        parts = relations.source.parts(item)
        new = rows_since(parts, since, upto)
        if timed:
            raise NoDelta(f"the current rows of {item.name} are not kept as this view last read them")
        stamp = ", TS" if item.option("exposes_ts") else ""
        shown = listed(item.names) + stamp
        before = self.home.logs.relation(
            item, [part for part in parts if part.arrived_in <= since.snapshot], since.reach
        )
        after = self.home.logs.relation(item, parts, upto)
        text = (
            f"SELECT {shown}, CAST(0 AS BIGINT) AS __t, __n AS __w FROM (SELECT {shown}, sum(__w) AS __n FROM"
            f" (SELECT {shown}, CAST(1 AS BIGINT) AS __w FROM after_ UNION ALL"
            f" SELECT {shown}, CAST(-1 AS BIGINT) AS __w FROM before_) GROUP BY {shown}) WHERE __n <> 0"
        )
        frame = self.home.engine.sql(text, {"after_": after, "before_": before})
        return Delta(frame, new.most, new.oldest)
