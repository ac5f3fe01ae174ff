"""DESCRIBE, and the few words in which an object's key and log are told."""

from __future__ import annotations

from typing import Any

from headrace.language import Describe
from headrace.maintenance.logs import relation_fields
from headrace.runtime.aggregates import describe_aggregate
from headrace.runtime.foreign_keys import OPTION, describe_foreign_keys
from headrace.runtime.home import Home
from headrace.runtime.info import Info
from headrace.runtime.plan_text import state_bytes
from headrace.runtime.strategy import strategy_changed
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

LOGS = {
    "append": "rows that are only added",
    "upsert": "the rows of each key in time",
    "signed": "rows added and removed in time",
    "state": "its newest content",
}

#: Options that are told in other words, or are of no use to anybody.
_TOLD = (OPTION, "strategy", "rates", "spans")


def describe(home: Home, statement: Describe) -> Info:
    """Answer a DESCRIBE: columns and foreign keys, and with EXTENDED all else that is known."""
    snapshot = home.snapshot()
    # A relation comes first where both have the name: SHOW AGGREGATES tells of the other.
    aggregate = describe_aggregate(snapshot, statement) if snapshot.get(statement.name) is None else None
    if aggregate is not None:
        return aggregate
    item = snapshot.find(statement.name)
    rows: list[tuple[Any, ...]] = [
        (field.name, field.type, "key" if field.name in (item.key or ()) else "") for field in relation_fields(item)
    ]
    facts = describe_foreign_keys(snapshot, item)
    if statement.extended:
        facts += _facts(home, snapshot, item)
    if facts:
        rows += [("", "", ""), *((name, str(value), "") for name, value in facts)]
    return Info("DESCRIBE", item.name, ("column", "type", "note"), rows)


def _facts(home: Home, snapshot: Snapshot, item: Object) -> list[tuple[str, Any]]:
    return [
        ("kind", item.kind),
        ("log", item.log),
        ("timestamps", item.time_kind + (f" ({item.time_column})" if item.time_column else "")),
        ("partition length", "none" if item.partition_length is None else f"{item.partition_length} s"),
        ("reads", ", ".join(other.name for other in snapshot.needs(item)) or "nothing"),
        ("read by", ", ".join(other.name for other in snapshot.dependents(item)) or "nothing"),
        *_maintenance(home, snapshot, item),
        *sorted((name, value) for name, value in item.options.items() if name not in _TOLD),
        ("definition", item.definition),
    ]


def _maintenance(home: Home, snapshot: Snapshot, item: Object) -> list[tuple[str, Any]]:
    last = snapshot.last_refresh(item)
    found: list[tuple[str, Any]] = []
    if last is not None:
        found += [("strategy", last.strategy), ("reason", last.reason)]
        changed = strategy_changed(home.catalog.refreshes(item.id, 2))
        found += [("strategy changed", changed)] if changed else []
    size = state_bytes(snapshot, item)
    return [*found, ("state bytes", size)] if size or item.maintained else found


def key_sentence(item: Object) -> str:
    if item.key is None:
        return "no key"
    return f"the key ({', '.join(item.key)})" if item.key else "at most one row"
