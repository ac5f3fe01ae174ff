"""Tagged tuples with the row that each of them took away: asked for by CHANGES(v, OLD)."""

from __future__ import annotations

from typing import Any

from headrace.engine import Engine
from headrace.maintenance.logs import listed, quoted, tag_names
from headrace.storage.records import Object


def old_names(item: Object) -> dict[str, str]:
    """By column, what it is called in the row that was there before: `old_x`, unless the row has such a column."""
    taken = {name.lower() for name in item.names}
    return {name: f"__old_{name}" if f"old_{name}".lower() in taken else f"old_{name}" for name in item.names}


def with_old_rows(engine: Engine, item: Object, tagged: Any) -> Any:
    """All tagged tuples of an object, those that update or delete with the row that was there."""
    op, ts = tag_names(item)
    if item.key is None:
        # A deletion of something that has no key names the whole row itself.
        before = {name: f"CASE WHEN {op} = '-' THEN {quoted(name)} END" for name in item.names}
    else:
        earlier = f"OVER (PARTITION BY {listed(item.key)} ORDER BY {ts})"
        before = {name: f"CASE WHEN {op} <> '+' THEN lag({quoted(name)}) {earlier} END" for name in item.names}
    shown = ", ".join(f"{before[name]} AS {quoted(old)}" for name, old in old_names(item).items())
    return engine.sql(f"SELECT *, {shown} FROM tagged_tuples ORDER BY {ts}", {"tagged_tuples": tagged})
