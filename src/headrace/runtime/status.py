"""Telling what there is: status and SHOW, from the catalog alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.engine import CAPABILITIES, LACKS
from headrace.errors import NotYetMaintained
from headrace.language import Show, format_time
from headrace.maintenance.logs import relation_fields
from headrace.runtime.aggregates import show_aggregates
from headrace.runtime.home import DEFAULTS, Home
from headrace.runtime.info import Info, counted
from headrace.runtime.ingest import Listeners
from headrace.runtime.plan_text import state_bytes
from headrace.runtime.strategy import strategy_changed
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object, Part
from headrace.storage.writer import MICROS


@dataclass(frozen=True)
class ObjectStatus:
    """One object, as `headrace status` shows it. Times are ISO 8601, durations seconds."""

    name: str
    kind: str
    rows: int
    parts: int
    bytes: int
    reaches: str | None
    behind_seconds: float | None
    last_refresh: str | None
    refresh_seconds: float | None
    strategy: str | None
    reason: str | None
    strategy_changed: str | None
    state_bytes: int
    rejected: int
    late: int
    dropped: int
    waiting: int
    error: str | None


def of_home(home: Home, listeners: Listeners | None = None) -> list[ObjectStatus]:
    """The status of every object, in the order of their making."""
    snapshot = home.snapshot()
    return [_status(home, snapshot, item, listeners) for item in snapshot.objects()]


def _status(home: Home, snapshot: Snapshot, item: Object, listeners: Listeners | None) -> ObjectStatus:
    parts = snapshot.parts(item)
    progress = snapshot.progress(item)
    last = snapshot.last_refresh(item)
    newest = max((part.newest for part in parts if part.newest is not None), default=None)
    reaches = last.point if last is not None else newest
    listener = listeners.get(item) if listeners is not None else None
    clock = snapshot.clock
    return ObjectStatus(
        name=item.name,
        kind=item.kind,
        rows=sum(part.rows for part in parts),
        parts=len(parts),
        bytes=sum(part.bytes for part in parts),
        reaches=None if reaches is None else format_time(reaches),
        # A table that does not change is not behind: only what follows a stream can be.
        behind_seconds=None
        if reaches is None or clock is None or item.kind == "table"
        else max(0.0, (clock - reaches) / MICROS),
        last_refresh=None if last is None else format_time(last.started_at),
        refresh_seconds=None if last is None else round(last.seconds, 3),
        strategy=None if last is None else last.strategy,
        reason=None if last is None else last.reason,
        strategy_changed=None if last is None else strategy_changed(home.catalog.refreshes(item.id, 2)),
        state_bytes=state_bytes(snapshot, item),
        rejected=progress.rejected_rows,
        late=progress.late_rows,
        dropped=progress.dropped_rows,
        waiting=0 if listener is None else listener.pending.rows,
        error=snapshot.failure(item),
    )


def show(home: Home, listeners: Listeners, statement: Show) -> Info:
    """Answer a SHOW."""
    if statement.what not in _SHOWN:
        raise NotYetMaintained(f"SHOW {statement.what}", place=statement.place)
    columns, rows = _SHOWN[statement.what](home, listeners, statement.target)
    return Info(f"SHOW {statement.what}", counted(len(rows), "row"), columns, rows)


Listing = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def _objects(*kinds: str) -> Callable[[Home, Listeners, str | None], Listing]:
    def listing(home: Home, _listeners: Listeners, _target: str | None) -> Listing:
        items = home.snapshot().objects(*kinds)
        rows = [(item.name, item.kind, _key(item), _columns(item)) for item in items if kinds or not item.system]
        return ("name", "kind", "key", "columns"), rows

    return listing


def _views(home: Home, _listeners: Listeners, _target: str | None) -> Listing:
    snapshot = home.snapshot()
    rows: list[tuple[Any, ...]] = []
    for item in [item for item in snapshot.objects("view") if not item.system]:
        last = snapshot.last_refresh(item)
        told = (None, None) if last is None else (last.strategy, last.reason)
        rows.append((item.name, item.kind, _key(item), _columns(item), *told, state_bytes(snapshot, item)))
    return ("name", "kind", "key", "columns", "strategy", "reason", "state_bytes"), rows


def _aggregates(home: Home, _listeners: Listeners, _target: str | None) -> Listing:
    return show_aggregates(home.snapshot())


def _snapshots(home: Home, _listeners: Listeners, _target: str | None) -> Listing:
    rows = [
        (info.id, format_time(info.committed_at), info.reason, None if info.clock is None else format_time(info.clock))
        for info in home.catalog.snapshots()
    ]
    return ("snapshot", "committed_at", "reason", "clock"), rows


def _parts(home: Home, _listeners: Listeners, target: str | None) -> Listing:
    snapshot = home.snapshot()
    item = snapshot.find(target or "")
    rows = [
        (
            part.first,
            part.last,
            _part_time(item, part),
            part.version,
            part.rows,
            part.bytes,
            format_time(part.changed_at),
        )
        for part in snapshot.parts(item)
    ]
    return ("first_part", "last_part", "part_timestamp", "version", "rows", "bytes", "last_updated"), rows


def _part_time(item: Object, part: Part) -> str | None:
    return None if item.partition_length is None else format_time(part.first * item.partition_length * MICROS)


def _refreshes(home: Home, _listeners: Listeners, target: str | None) -> Listing:
    snapshot = home.snapshot()
    only = None if target is None else snapshot.find(target).id
    rows = []
    for made in home.catalog.refreshes(only):
        item = snapshot.by_id.get(made.object_id)
        point = None if made.point is None else format_time(made.point)
        rows.append(
            (
                item.name if item else f"dropped object {made.object_id}",
                made.snapshot_id,
                format_time(made.started_at),
                point,
                round(made.seconds, 3),
                made.rows_in,
                made.rows_out,
                made.jobs,
                made.strategy,
                made.reason,
            )
        )
    names = ("view", "snapshot", "started_at", "point", "seconds", "rows_in", "rows_out", "jobs", "strategy", "reason")
    return names, rows


def _features(_home: Home, _listeners: Listeners, _target: str | None) -> Listing:
    from headrace.runtime.execute import EXECUTED

    return ("executes",), [(name,) for name in EXECUTED]


def _clock(home: Home, _listeners: Listeners, _target: str | None) -> Listing:
    clock = home.snapshot().clock
    return ("mode", "clock"), [(home.clock_mode, None if clock is None else format_time(clock))]


def _options(home: Home, _listeners: Listeners, target: str | None) -> Listing:
    if target is not None:
        return ("option", "value"), sorted(home.snapshot().find(target).options.items())
    return ("option", "value"), [(name, home.option(name)) for name in sorted(DEFAULTS)]


_SHOWN: dict[str, Callable[[Home, Listeners, str | None], Listing]] = {
    "OBJECTS": _objects(),
    "SOURCES": _objects("source"),
    "STREAMS": _objects("stream"),
    "TABLES": _objects("table"),
    "VIEWS": _views,
    "AGGREGATES": _aggregates,
    "SNAPSHOTS": _snapshots,
    "PARTS": _parts,
    "REFRESHES": _refreshes,
    "FEATURES": _features,
    "CLOCK": _clock,
    "OPTIONS": _options,
}


def _key(item: Object) -> str:
    return "" if item.key is None else ", ".join(item.key) or "(one row)"


def _columns(item: Object) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in relation_fields(item))


def engines() -> Sequence[tuple[str, str]]:
    """What each engine lacks, for the documentation."""
    return [(engine, CAPABILITIES[name]) for engine, lacks in LACKS.items() for name in sorted(lacks)]
