"""The changes of a refresh: what each input has become since each view read it, worked out once for all views.

What keyed tables and streams have become is told by their current rows (`runtime.current`); a view that stands where
these cannot tell it gets its change from the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from headrace.errors import StorageError
from headrace.language import Window
from headrace.maintenance.deltas import (
    Delta,
    NoDelta,
    Position,
    appended,
    between,
    rows_since,
    signed_table,
)
from headrace.maintenance.forgetting import Forgetting
from headrace.maintenance.lifetimes import born, windowed
from headrace.maintenance.logs import listed
from headrace.maintenance.readings import BORN, Reading, appended_spans, born_rows, events, keyed_spans, still_turning
from headrace.maintenance.relations import Relations, least
from headrace.maintenance.version_changes import versions_between, versions_changed
from headrace.runtime.current import Current, most_here
from headrace.runtime.home import Home
from headrace.storage.records import Object, Part, RefreshRecord
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS

#: Changes that are kept for the views that are refreshed next.
_MOST_MADE = 16


@dataclass
class Deltas:
    """The changes of one transaction's refresh."""

    home: Home
    transaction: Transaction
    #: From when on views have become others since a snapshot; see `runtime.starts`.
    changed_from: dict[tuple[int, int], int | None] = field(default_factory=dict)
    _read_in: dict[int, Relations] = field(default_factory=dict)
    _made: dict[object, Delta] = field(default_factory=dict)

    @cached_property
    def current(self) -> Current:
        return Current(self.home, self.transaction)

    def count(self, item: Object, since: RefreshRecord) -> int:
        """About how many rows tell what `item` has become since a view read it. Raises `NoDelta`.

        What updates take the place of is not counted: nobody knows yet how many rows are updates.
        """
        relations = self.home.relations(self.transaction)
        parts = relations.source.parts(item)
        read = Position(since.reaches.get(str(item.id)), since.read_snapshot)
        if item.maintained:
            old = {part.files: part.rows for part in self._before(relations, item, read)}
            new = {part.files: part.rows for part in parts}
            return sum(rows for files, rows in (old | new).items() if (files in old) != (files in new))
        fresh = rows_since(parts, read, relations.reach(item, parts))
        if item.log == "upsert" and fresh.most and not self.current.tells(item, parts, fresh):
            return sum(part.rows for part in parts)  # all of the log will be compared
        return fresh.most

    def of(
        self,
        item: Object,
        last: RefreshRecord,
        upto: int | None,
        shown: Set[str],
        *,
        timed: bool,
        within: bool = False,
    ) -> Delta:
        """What `item` has become since a view read it in `last`, in the columns `shown`. Raises `NoDelta`.

        `within`: another view was read only up to the time that `last` tells, not as a whole.
        """
        relations = self.home.relations(self.transaction)
        seen = last.reaches.get(str(item.id))
        since = Position(seen, last.read_snapshot)
        parts = relations.source.parts(item)
        if item.maintained:
            before, start = self._before(relations, item, since), seen if within else None
            files = (frozenset(part.files for part in some) for some in (before, parts))
            key = (item.id, *files, start, upto, frozenset(shown), timed)
            return self._once(key, lambda: between(
                self.home.logs, item, before, parts, upto,
                since=start, timed=timed, shown=shown, most=most_here(self.home),
            ))  # fmt: skip
        if item.log == "upsert":
            return self._upserted(relations, item, since, upto, shown, timed=timed)
        new = rows_since(parts, since, upto)
        asked = (item.id, new.files, frozenset(shown), timed)
        return self._once(
            asked, lambda: appended(self.home.logs, item, new, timed=timed, shown=shown, most=most_here(self.home))
        )

    def _once(self, key: object, make: Callable[[], Delta]) -> Delta:
        """A change that other views may ask for too; the last few are kept."""
        if key not in self._made:
            self._made[key] = make()
            while len(self._made) > _MOST_MADE:
                self._made.pop(next(iter(self._made)))
        return self._made[key]

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
            told = self.current.told(item, parts, since, upto)
            if told is not None:
                return born_rows(item, told, rows_since(parts, since, upto).oldest, timed=timed)
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
        new, told = rows_since(parts, since, upto), self.current.told(item, parts, since, upto)
        in_order = since.reach is None or new.oldest is None or new.oldest > since.reach
        if told is None or not in_order:
            read = [part for part in parts if part.arrived_in <= since.snapshot]
            return versions_between(self.home.logs, item, (parts, upto), (read, since.reach), timed=timed)
        return versions_changed(item, told, timed=timed)

    def _before(self, relations: Relations, item: Object, since: Position) -> Sequence[Part]:
        if since.snapshot >= self.transaction.version:
            return relations.source.parts(item)
        # Many views have read in the same snapshot, and to look it up takes longer than to follow a small change.
        known = self._read_in.get(since.snapshot)
        if known is None:
            try:
                known = relations.earlier(since.snapshot)
            except StorageError as error:
                raise NoDelta(f"the snapshot in which {item.name} was last read is no longer kept") from error
            self._read_in[since.snapshot] = known
        return known.source.parts(item)

    def _upserted(
        self, relations: Relations, item: Object, since: Position, upto: int | None, shown: Set[str], *, timed: bool
    ) -> Delta:
        parts = relations.source.parts(item)
        new = rows_since(parts, since, upto)
        rows = self.current.told(item, parts, since, upto, shown)
        if rows is None:
            return self._from_log(relations, item, since, upto, timed=timed)
        times, born, weights = (rows.column(name) for name in ("__t", "__at", "__w"))
        return signed_table(item, rows, times, born, weights, oldest=new.oldest, timed=timed, shown=shown)

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
