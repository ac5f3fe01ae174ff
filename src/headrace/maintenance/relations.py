"""Queries over the home's objects at a point in time: the recompute path, which is also every test's oracle.

A query is evaluated by giving Spark one DataFrame for each relation it mentions, each as of the wanted time. A view
whose rows are kept as a plain state knows only its newest content; at an earlier time its own query is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.algebra.non_retroactive import meet_versions
from headrace.algebra.stars import spell_out_stars
from headrace.errors import DefinitionError, StorageError
from headrace.language import Query, RelationRef
from headrace.maintenance.logs import Logs, relation_fields
from headrace.maintenance.small_logs import PART_TIMESTAMP
from headrace.storage.records import Object, Part, RefreshRecord


class Source(Protocol):
    """Where objects and their parts are looked up: a committed snapshot, or a transaction on top of one."""

    def find(self, name: str, *kinds: str) -> Object: ...

    def parts(self, item: Object) -> Sequence[Part]: ...

    def needs(self, item: Object) -> list[Object]: ...

    def last_refresh(self, item: Object) -> RefreshRecord | None: ...


@dataclass(frozen=True)
class Relations:
    """Relations of one home at one snapshot.

    `reach` tells how far an object may be read, `forgotten` before which time its rows are gone, `query_of` a view's
    query, and `earlier` gives the same for an earlier snapshot.
    """

    logs: Logs
    source: Source
    reach: Callable[[Object, Sequence[Part]], int | None]
    forgotten: Callable[[Object, Sequence[Part], int | None], int | None]
    query_of: Callable[[Object], Query]
    earlier: Callable[[int], Relations]
    changes_of: Callable[[Relations, Object, int | None, int | None], Any]

    def at(self, item: Object, time: int | None, extra: Sequence[str] = ()) -> Any:
        """The relation of `item` at `time`; None means now."""
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
                return seen.evaluate(self.query_of(item), point_at(item, time)).toDF(*item.names)
            return self.logs.relation(item, parts, None)
        if PART_TIMESTAMP in extra and item.partition_length is None:
            raise DefinitionError(*_no_times(item, extra))
        born = item.option("born") if item.maintained else None
        if time is not None and born is not None and time < born:
            # A view's log begins with its birth; before it, the view is what its query would have given.
            return self.evaluate(self.query_of(item), time).toDF(*item.names)
        upto = least(time, self.reach(item, parts))
        forgotten = self.forgotten(item, parts, upto) if item.forgets_rows else None
        return self.logs.relation(item, parts, upto, forgotten_before=forgotten, extra=extra)

    def evaluate(self, query: Query, time: int | None = None) -> Any:
        """The query's result over all its relations at `time`."""
        references = query.relations()
        items = [self.source.find(ref.name) for ref in references]
        extras: list[tuple[str, ...]] = [(PART_TIMESTAMP,) if ref.part_timestamp else () for ref in references]
        versions: frozenset[int] = frozenset()
        fixed = frozenset(number for number, item in enumerate(items) if item.option("non_retroactive"))
        parted = frozenset(number for number, ref in enumerate(references) if ref.part_timestamp)
        shown = {number: [field.name for field in relation_fields(item)] for number, item in enumerate(items)}
        if parted:
            query = spell_out_stars(query, parted, shown)
        if fixed:
            rewritten = meet_versions(query, fixed, shown)
            query, versions = rewritten.query, rewritten.versions
            for number in rewritten.arrivals:
                extras[number] = (*extras[number], "__t")
        names = [f"relation_{number}_" for number in range(len(references))]
        frames = {}
        for number, (ref, item) in enumerate(zip(references, items, strict=True)):
            seen, at = self._moment(ref, time)
            if number in versions:
                frames[names[number]] = seen.logs.versions(item, seen.source.parts(item), at)
            else:
                frames[names[number]] = seen._referred(ref, item, at, extras[number])
        return self.logs.engine.sql(query.to_spark(names), frames)

    def as_refreshed(self, refresh: RefreshRecord) -> Relations:
        """The inputs as a refresh saw them: in its snapshot, or here if that is not committed yet or no longer kept."""
        try:
            return self.earlier(refresh.snapshot_id)
        except StorageError:
            return self

    def _moment(self, ref: RelationRef, time: int | None) -> tuple[Relations, int | None]:
        """Where and when a reference is to be read."""
        if ref.as_of is None:
            return self, time
        if ref.as_of.snapshot is not None:
            return self.earlier(ref.as_of.snapshot), None
        return self, ref.as_of.time

    def _referred(self, ref: RelationRef, item: Object, time: int | None, extra: Sequence[str]) -> Any:
        if ref.kind == "changes":
            return self.changes_of(self, item, None, time)
        # Only a time somebody asks for: a refresh that catches up passes through times that are forgotten at its end.
        if time is not None and ref.as_of is not None:
            self._check_kept(item, time)
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


def point_at(view: Object, time: int) -> int:
    """The time a view shows at `time`: the same, or with REFRESH EVERY the last one on the grid since its birth."""
    every, born = view.option("every"), view.option("born")
    if every is None:
        return time
    grid = int(time // every * every)
    return int(born) if born is not None and grid < born <= time else grid


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
