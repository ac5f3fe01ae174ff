"""Queries over the home's objects at a point in time: the recompute path, which is also every test's oracle.

A query is evaluated by giving Spark one DataFrame for each relation it mentions, each as of the wanted time. A view
whose rows are kept as a plain state knows only its newest content; at an earlier time its own query is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.algebra.asked import Asked, make_ready
from headrace.algebra.births import same_moment
from headrace.algebra.non_retroactive import meet_versions
from headrace.algebra.seconds import at_time
from headrace.algebra.stars import spell_out_stars
from headrace.algebra.windowed_subqueries import Lifted
from headrace.engine import apart
from headrace.errors import DefinitionError, StorageError
from headrace.language import Query, RelationRef
from headrace.maintenance.grown import Grown
from headrace.maintenance.logs import Logs, listed, relation_fields, tag_names
from headrace.maintenance.old_rows import old_names, with_old_rows
from headrace.maintenance.small_logs import PART_TIMESTAMP
from headrace.maintenance.user_aggregates.evaluating import apart_of, evaluate_apart
from headrace.maintenance.windows import check_window, edge, newest_rows, order_of, since
from headrace.storage.records import Object, Part, RefreshRecord
from headrace.storage.writer import MICROS


class Source(Protocol):
    """Where objects and their parts are looked up: a committed snapshot, or a transaction on top of one."""

    def find(self, name: str, *kinds: str) -> Object: ...

    def objects(self, *kinds: str) -> list[Object]: ...

    def parts(self, item: Object) -> Sequence[Part]: ...

    def needs(self, item: Object) -> list[Object]: ...

    def last_refresh(self, item: Object) -> RefreshRecord | None: ...


@dataclass(frozen=True)
class Relations:
    """Relations of one home at one snapshot.

    `reach` tells how far an object may be read, `forgotten` before which time its rows are gone, `query_of` a view's
    query, and `earlier` gives the same for an earlier snapshot. `clock` is what the clock shows, None if it has seen no
    time yet; `grown` works out results that only grow; `shown_at` tells which time a view shows at a time,
    `released_at` up to which time a synchronization stream has released changes, and `points_of` a view's points.
    `given` are frames that stand for relations of their names, while a query is evaluated that was taken apart.
    """

    logs: Logs
    source: Source
    reach: Callable[[Object, Sequence[Part]], int | None]
    forgotten: Callable[[Object, Sequence[Part], int | None], int | None]
    query_of: Callable[[Object], Query]
    earlier: Callable[[int], Relations]
    changes_of: Callable[[Relations, Object, int | None, int | None], Any]
    clock: int | None
    grown: Callable[..., Grown]
    shown_at: Callable[[Relations, Object, int], int]
    released_at: Callable[[Relations, str, int], int]
    points_of: Callable[[Relations, Object], Any]
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> int:
        """The current time; 1970 as long as nothing has been seen."""
        return self.clock or 0

    def at(self, item: Object, time: int | None, extra: Sequence[str] = (), after: int | None = None) -> Any:
        """The relation of `item` at `time`; None means now. Rows born up to `after` may be left out."""
        if item.log == "given":
            return self.given[item.name]
        parts = self.source.parts(item)
        if item.kind == "source":
            raise DefinitionError(
                "SOURCE_IS_RAW",
                f"{item.name} is a raw source and cannot be queried.",
                hint=f"Make a stream of it and query that: CREATE STREAM s OVER {item.name} KEY NULL.",
            )
        if item.log == "state":
            if extra:
                raise DefinitionError(*_no_times(item, extra))
            refresh = self.source.last_refresh(item)
            if time is not None and refresh is not None and refresh.point is not None and time < refresh.point:
                seen = self.as_refreshed(refresh)
                return seen.evaluate(self.query_of(item), seen.shown_at(seen, item, time)).toDF(*item.names)
            return self.logs.relation(item, parts, None)
        if PART_TIMESTAMP in extra and item.partition_length is None:
            raise DefinitionError(*_no_times(item, extra))
        born = item.option("born") if item.maintained else None
        if time is not None and born is not None and time < born:
            # A view's log begins with its birth; before it, the view is what its query would have given.
            if extra:
                raise DefinitionError(*_no_times(item, extra))
            return self.evaluate(self.query_of(item), time).toDF(*item.names)
        upto = least(time, self.reach(item, parts))
        forgotten = self.forgotten(item, parts, upto) if item.forgets_rows else None
        if after is not None and item.log == "append":
            forgotten = after + 1 if forgotten is None else max(forgotten, after + 1)
        return self.logs.relation(item, parts, upto, forgotten_before=forgotten, extra=extra)

    def evaluate(self, query: Query, time: int | None = None) -> Any:
        """The query's result over all its relations at `time`; None means now."""
        apart = apart_of(self, query)
        if apart is not None:
            return evaluate_apart(self, apart, time)
        asked = self.asked(query)
        at = self.now if time is None and query.reads_clock else time
        if asked.internal:
            return self._grown_at(query, at or 0)
        return self.rows(asked.outer, at, lifted=asked.lifted)

    def shaped(self, query: Query) -> Any:
        """The query's columns, checked as `evaluate` does; its rows too, unless it calls aggregates over a stream."""
        apart = apart_of(self, query)
        return self.evaluate(query) if apart is None else evaluate_apart(self, apart, None, empty=True)

    def asked(self, query: Query) -> Asked:
        """The query made ready for a time."""
        references = query.relations()
        appends = frozenset(ref.name.lower() for ref in references if self.source.find(ref.name).log == "append")
        return make_ready(query, tuple(self._fields(ref) for ref in references), appends)

    def _fields(self, ref: RelationRef) -> tuple[tuple[str, str], ...]:
        item = self.source.find(ref.name)
        found = tuple((field.name, field.type) for field in relation_fields(item))
        if ref.kind != "changes":
            return found
        old = [(old_names(item)[field.name], field.type) for field in item.columns] if ref.old else []
        return (*found, (tag_names(item)[1], "TIMESTAMP"), *old)

    def rows(
        self,
        query: Query,
        time: int | None,
        *,
        lifted: Sequence[Lifted] = (),
        extras: Mapping[int, tuple[str, ...]] | None = None,
    ) -> Any:
        """The result at `time` of a query in which every relation has a name.

        `lifted` are the subqueries among them. `extras` are hidden columns it reads beside those a relation shows.
        """
        frames = {}
        references = query.relations()
        subqueries = {item.name: item for item in lifted}
        numbers = [number for number, ref in enumerate(references) if ref.name not in subqueries]
        items = {number: self.source.find(references[number].name) for number in numbers}
        wanted = {
            number: ((PART_TIMESTAMP,) if ref.part_timestamp else ()) + tuple((extras or {}).get(number, ()))
            for number, ref in enumerate(references)
        }
        versions: frozenset[int] = frozenset()
        fixed = frozenset(number for number, item in items.items() if item.option("non_retroactive"))
        parted = frozenset(number for number, ref in enumerate(references) if ref.part_timestamp)
        shown = {number: [field.name for field in relation_fields(item)] for number, item in items.items()}
        # Stars may be spelled out below, so the columns they stand for count as the query's own words.
        base = apart("relation_", query.sql(), *(name for columns in shown.values() for name in columns))
        names = [f"{base}{number}_" for number in range(len(references))]
        for number, ref in enumerate(references):
            if ref.name in subqueries:
                part, shown[number] = self._windowed_subquery(subqueries[ref.name], time or 0)
                frames[names[number]] = part
        if parted:
            query = spell_out_stars(query, parted, shown)
        if fixed:
            rewritten = meet_versions(query, fixed, shown)
            query, versions = rewritten.query, rewritten.versions
            for number in rewritten.arrivals:
                wanted[number] = tuple(dict.fromkeys((*wanted[number], "__t")))
        for number, item in items.items():
            ref = references[number]
            seen, at = self._moment(ref, time)
            check_window(ref, item)
            if number in versions:
                frames[names[number]] = seen.logs.versions(item, seen.source.parts(item), at)
            else:
                frames[names[number]] = seen._referred(ref, item, at, wanted[number])
        return self.logs.engine.sql(at_time(query, time or 0).to_spark(names), frames)

    def _grown_at(self, query: Query, time: int) -> Any:
        """The result over INTERNAL windows, which AS OF can only move as a whole."""
        query, as_of = same_moment(query)
        seen = self
        if as_of is not None and as_of.snapshot is not None:
            seen = self.earlier(as_of.snapshot)
            time = seen.now
        elif as_of is not None and as_of.time is not None:
            time = as_of.time
        return seen.grown(seen, query, time).at(self.logs.engine, time)

    def _windowed_subquery(self, lifted: Lifted, time: int) -> tuple[Any, list[str]]:
        """A subquery's results in its window, and their columns."""
        window, engine = lifted.window, self.logs.engine
        found = self.grown(self, lifted.inner, time, monotonic=True)
        frame = found.with_times(engine, edge(window, time), since(window, time))
        if window.kind == "rows":
            return newest_rows(engine, frame, window, found.names, order_of(found.fields, False)), found.names
        return frame.select(*found.names), found.names

    def windowed(self, ref: RelationRef, item: Object, time: int | None, extra: Sequence[str]) -> Any:
        """The rows of `item` that its window shows at `time`."""
        window, engine = ref.window, self.logs.engine
        assert window is not None
        moment = self.now if time is None else time
        shown = [*(field.name for field in relation_fields(item)), *extra]
        after = since(window, moment)
        numbered = item.log != "signed"
        hidden = ("__t", "__seq") if window.kind == "rows" and numbered else ("__t",)
        frame = self.at(item, edge(window, moment), tuple(dict.fromkeys((*extra, *hidden))), after)
        if window.kind == "rows":
            fields = [(field.name, field.type) for field in item.columns]
            return newest_rows(engine, frame, window, shown, order_of(fields, numbered))
        bound = "" if after is None else f" WHERE __t > {after}"
        return engine.sql(f"SELECT {listed(shown)} FROM windowed_rows{bound}", {"windowed_rows": frame})

    def parts(self, ref: RelationRef, item: Object, extra: Sequence[str] = ()) -> Any:
        """The rows of the temporal parts that a reference names."""
        assert ref.parts is not None
        if ref.parts.variable is not None:
            raise DefinitionError(
                "PART_WITHOUT_VALUE",
                f"{item.name}[{ref.parts.variable}] has no value here: only INITIALIZE and UPDATE set a part variable.",
                hint=f"Write a number, such as {item.name}[{self._newest_part(item)}].",
                place=ref.place,
            )
        if item.partition_length is None or item.log == "state":
            raise DefinitionError(
                "NO_PARTS",
                f"{item.name} has no temporal parts.",
                hint="Declare it with PARTITION LENGTH n, the seconds that a part spans.",
                place=ref.place,
            )
        first, last = ref.parts.at(0)
        length = item.partition_length * MICROS
        stored = self.source.parts(item)
        upto = least((last + 1) * length - 1, self.reach(item, stored))
        return self.logs.relation(item, stored, upto, forgotten_before=first * length, extra=extra)

    def _newest_part(self, item: Object) -> int:
        return max((part.last for part in self.source.parts(item)), default=0)

    def as_refreshed(self, refresh: RefreshRecord) -> Relations:
        """The inputs as a refresh saw them: in its snapshot, or here if that is not committed yet or no longer kept."""
        try:
            return self.earlier(refresh.snapshot_id)
        except StorageError:
            return self

    def _moment(self, ref: RelationRef, time: int | None) -> tuple[Relations, int | None]:
        """Where and when a reference is to be read."""
        seen, at = self, time
        if ref.as_of is not None and ref.as_of.snapshot is not None:
            seen, at = self.earlier(ref.as_of.snapshot), None
        elif ref.as_of is not None:
            at = ref.as_of.time
        if ref.sync is not None:
            at = seen.released_at(seen, ref.sync, seen.now if at is None else at)
        return seen, at

    def _referred(self, ref: RelationRef, item: Object, time: int | None, extra: Sequence[str]) -> Any:
        if ref.kind == "changes":
            found = self.changes_of(self, item, None, time)
            return with_old_rows(self.logs.engine, item, found) if ref.old else found
        if ref.kind == "points":
            return self.points_of(self, item)
        if ref.parts is not None:
            return self.parts(ref, item, extra)
        # Only a time somebody asks for: a refresh that catches up passes through times that are forgotten at its end.
        if time is not None and ref.as_of is not None:
            self._check_kept(item, time)
        if ref.window is not None:
            return self.windowed(ref, item, time, extra)
        return self.at(item, time, extra)

    def _check_kept(self, item: Object, time: int) -> None:
        """A time whose rows RETAIN has already dropped cannot be asked for."""
        if item.option("retain") is None:
            return
        parts = self.source.parts(item)
        forgotten = self.forgotten(item, parts, self.reach(item, parts))
        if forgotten is not None and time < forgotten:
            raise StorageError(
                "TIME_FORGOTTEN",
                f"{item.name} keeps no rows as old as {time / 1_000_000:g} s; the oldest kept are of "
                f"{forgotten / 1_000_000:g} s.",
                hint=f"ALTER {item.kind.upper()} {item.name} SET (retain = ...) keeps more from now on.",
            )


def least(*times: int | None) -> int | None:
    """The least of the times that are given."""
    return min((time for time in times if time is not None), default=None)


def _no_times(item: Object, extra: Sequence[str]) -> tuple[str, str]:
    if PART_TIMESTAMP in extra:
        return (
            "NO_PARTS",
            f"{item.name} has no temporal parts, so it has no PART_TIMESTAMP. Declare it with PARTITION LENGTH n.",
        )
    return (
        "NO_ARRIVAL_TIMES",
        f"{item.name} keeps only its newest content, so its rows have no times of arrival to meet a non-retroactive "
        "table by. Declare it as a STREAMED view.",
    )
