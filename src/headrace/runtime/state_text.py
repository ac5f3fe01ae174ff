"""EXPLAIN STATE: every state that is kept for an object, what is in it and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.algebra.words import Words, base_name
from headrace.runtime.home import Home, query_of
from headrace.runtime.info import Info, counted
from headrace.runtime.plan_text import is_keyed, size_of
from headrace.runtime.plans import Plan
from headrace.runtime.states import states_of
from headrace.runtime.strategy import find_plan
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

COLUMNS = ("of", "operator", "state", "keeps", "key", "columns", "rows", "bytes", "runs", "buckets")


def explain_state(home: Home, item: Object) -> Info:
    """The states of an object; for a view, also those of the keyed tables and streams it reads."""
    snapshot = home.snapshot()
    rows = []
    plan: Plan | None = None
    if item.maintained and states_of(snapshot, item):
        found = find_plan(home, snapshot, item, query_of(item))
        plan = None if isinstance(found, str) else found
    rows += _rows(snapshot, item, plan)
    if item.maintained:
        for other in snapshot.needs(item):
            if is_keyed(other):
                rows += _rows(snapshot, other, None)
    if not rows:
        last = snapshot.last_refresh(item)
        why = f": its last refresh was {last.strategy}, because {last.reason}" if last is not None else ""
        return Info("EXPLAIN STATE", f"No state is kept for {item.name}{why}.", COLUMNS, rows)
    size = sum(row[COLUMNS.index("bytes")] for row in rows)
    return Info("EXPLAIN STATE", f"{counted(len(rows), 'state')}, {size:,} bytes.", COLUMNS, rows)


def _rows(snapshot: Snapshot, owner: Object, plan: Plan | None) -> list[tuple[Any, ...]]:
    words = None if plan is None else Words(plan.root)
    rows = []
    for state in sorted(states_of(snapshot, owner), key=lambda item: (item.option("operator"), item.option("state"))):
        number = state.option("operator")
        placed = plan.program.operators[number] if plan is not None and number < len(plan.program.operators) else None
        name = _naming(owner, words)
        size = size_of(snapshot, state)
        rows.append(
            (
                owner.name,
                "current rows" if is_keyed(owner) else words.phrase(placed.node) if words and placed else str(number),
                state.option("state"),
                state.definition,
                ", ".join(dict.fromkeys(name(column) for column in state.key or ())),
                ", ".join(dict.fromkeys(name(column) for column in state.names if not column.startswith("__"))),
                size.rows,
                size.bytes,
                size.runs,
                f"{size.buckets} of {state.option('buckets')}" if state.option("buckets") else str(size.buckets),
            )
        )
    return rows


def _naming(owner: Object, words: Words | None) -> Callable[[str], str]:
    if words is not None:
        return words.column
    prefix = f"t{owner.id}_"  # see `maintenance.tagging`
    return lambda column: column.removeprefix(prefix) if column.startswith(prefix) else base_name(column)
