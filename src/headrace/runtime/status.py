"""Telling what there is: status, SHOW, DESCRIBE and EXPLAIN, all from the catalog alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.engine import CAPABILITIES, LACKS
from headrace.errors import NotYetMaintained
from headrace.language import (
    CreateStream,
    CreateView,
    Describe,
    Explain,
    Query,
    Select,
    Show,
    format_duration,
    format_time,
)
from headrace.maintenance.logs import relation_fields
from headrace.runtime.home import DEFAULTS, Home, query_of
from headrace.runtime.info import Info, counted
from headrace.runtime.ingest import Listeners
from headrace.runtime.refresh import REASON, RECOMPUTE
from headrace.runtime.views import check_query, inputs_of
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
    rejected: int
    late: int
    dropped: int
    waiting: int
    error: str | None


def of_home(home: Home, listeners: Listeners | None = None) -> list[ObjectStatus]:
    """The status of every object, in the order of their making."""
    snapshot = home.snapshot()
    return [_status(snapshot, item, listeners) for item in snapshot.objects()]


def _status(snapshot: Snapshot, item: Object, listeners: Listeners | None) -> ObjectStatus:
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
    "VIEWS": _objects("view"),
    "SNAPSHOTS": _snapshots,
    "PARTS": _parts,
    "REFRESHES": _refreshes,
    "FEATURES": _features,
    "CLOCK": _clock,
    "OPTIONS": _options,
}


def describe(home: Home, statement: Describe) -> Info:
    """Answer a DESCRIBE: columns, and with EXTENDED all else that is known."""
    item = home.snapshot().find(statement.name)
    rows: list[tuple[Any, ...]] = [
        (field.name, field.type, "key" if field.name in (item.key or ()) else "") for field in relation_fields(item)
    ]
    if statement.extended:
        rows += [("", "", ""), *((name, str(value), "") for name, value in _facts(home.snapshot(), item))]
    return Info("DESCRIBE", item.name, ("column", "type", "note"), rows)


def _facts(snapshot: Snapshot, item: Object) -> list[tuple[str, Any]]:
    return [
        ("kind", item.kind),
        ("log", item.log),
        ("timestamps", item.time_kind + (f" ({item.time_column})" if item.time_column else "")),
        ("partition length", "none" if item.partition_length is None else f"{item.partition_length} s"),
        ("reads", ", ".join(other.name for other in snapshot.needs(item)) or "nothing"),
        ("read by", ", ".join(other.name for other in snapshot.dependents(item)) or "nothing"),
        *sorted(item.options.items()),
        ("definition", item.definition),
    ]


def explain(home: Home, statement: Explain) -> Info:
    """Answer an EXPLAIN."""
    if statement.kind is not None:
        raise NotYetMaintained(f"EXPLAIN {statement.kind}", place=statement.place)
    if statement.target is not None:
        text = explain_object(home, home.snapshot().find(statement.target))
    elif isinstance(statement.statement, Select):
        text = _explain_query(home.snapshot(), statement.statement.query)
    elif isinstance(statement.statement, CreateView | CreateStream) and statement.statement.query is not None:
        check_query(statement.statement.query)
        text = f"{statement.statement.name} would be maintained by {RECOMPUTE}: {REASON}.\n"
        text += _explain_query(home.snapshot(), statement.statement.query)
    else:
        what = statement.statement.name_of_statement if statement.statement is not None else ""
        raise NotYetMaintained(f"EXPLAIN {what}", place=statement.place)
    return Info("EXPLAIN", text)


def explain_object(home: Home, item: Object) -> str:
    """How an object is kept, in sentences."""
    snapshot = home.snapshot()
    lines = [f"{item.name} is a {item.kind} with {_key_sentence(item)}."]
    if item.kind == "source":
        fed = ", ".join(other.name for other in snapshot.dependents(item) if not other.system) or "no stream yet"
        return "\n".join([lines[0], f"Rows come from {item.option('connector')} and go into {fed}."])
    parts = snapshot.parts(item)
    size = sum(part.bytes for part in parts)
    lines.append(
        f"It is stored as {_LOGS[item.log]}: {counted(sum(part.rows for part in parts), 'row')} in "
        f"{counted(len(parts), 'file')}, {size:,} bytes."
    )
    if item.maintained:
        lines += _explain_view(snapshot, item)
    else:
        lines += _explain_arrivals(item)
    if item.option("retain") is not None:
        what = "Rows" if item.forgets_rows else "Changes"
        lines.append(f"{what} older than {format_duration(item.option('retain'))} are forgotten.")
    readers = ", ".join(other.name for other in snapshot.dependents(item) if not other.system)
    lines.append(f"It is read by {readers}." if readers else "Nothing reads it.")
    return "\n".join(lines)


_LOGS = {
    "append": "rows that are only added",
    "upsert": "the rows of each key in time",
    "signed": "rows added and removed in time",
    "state": "its newest content",
}


def _explain_view(snapshot: Snapshot, item: Object) -> list[str]:
    last = snapshot.last_refresh(item)
    lines = [f"Strategy: {RECOMPUTE}, because {REASON}.", f"It is due {_policy(item)}."]
    lines.append(f"It reads {', '.join(other.name for other in snapshot.needs(item))}: {query_of(item).sql()}")
    if last is not None:
        at = "an empty home" if last.point is None else format_time(last.point)
        lines.append(
            f"The last refresh took {last.seconds:.3f} s and {counted(last.jobs, 'job')}, "
            f"read {counted(last.rows_in, 'new row')}, "
            f"wrote {last.rows_out:,} and brought it to {at}."
        )
    return lines


def _policy(item: Object) -> str:
    every, after = item.option("every"), item.option("after_rows")
    words = [f"every {format_duration(every)} of the clock"] if every else []
    words += [f"after {after:,} new rows"] if after else []
    words += ["only when it is named"] if item.option("on_demand") else []
    return " or ".join(words) or "whenever something it reads has changed"


def _explain_arrivals(item: Object) -> list[str]:
    if item.kind == "table":
        retroactive = not item.option("non_retroactive")
        return ["A change of it meets " + ("all rows, old and new." if retroactive else "only rows that arrive later.")]
    kinds = {
        "external": f"by {item.time_column}, which rows bring along",
        "internal": "by the time of their arrival",
        "latent": "by nothing; times are given when an operator needs them",
    }
    lines = [f"Its rows are ordered {kinds[item.time_kind]}."] if item.time_kind in kinds else []
    if item.time_kind == "external":
        policy = {
            "divert": f"diverted to {item.name}__late",
            "drop": "dropped and counted",
            "merge": "merged, and what they touch is made again",
        }[item.option("late", "divert")]
        slack = format_duration(int(item.option("slack") or 0))
        lines.append(f"Rows up to {slack} late are put in order; later ones are {policy}.")
    return lines


def _explain_query(snapshot: Snapshot, query: Query) -> str:
    names = ", ".join(f"{other.name} ({other.kind})" for other in inputs_of(snapshot, query)) or "nothing"
    sql = query.to_spark([ref.name for ref in query.relations()])
    return f"The query reads {names}.\nSpark is asked: {sql}"


def _key(item: Object) -> str:
    return "" if item.key is None else ", ".join(item.key) or "(one row)"


def _key_sentence(item: Object) -> str:
    if item.key is None:
        return "no key"
    return f"the key ({', '.join(item.key)})" if item.key else "at most one row"


def _columns(item: Object) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in relation_fields(item))


def engines() -> Sequence[tuple[str, str]]:
    """What each engine lacks, for the documentation."""
    return [(engine, CAPABILITIES[name]) for engine, lacks in LACKS.items() for name in sorted(lacks)]
