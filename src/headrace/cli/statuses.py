"""`headrace status`: what the catalog knows of every object, without any engine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from headrace.runtime.status import ObjectStatus
from headrace.storage.records import LATE_SUFFIX, REJECTED_SUFFIX

COLUMNS = (
    "object", "kind", "rows stored", "parts", "size", "reaches", "behind", "last refresh", "took", "strategy",
    "strategy changed", "state", "rejected", "late", "error",
)  # fmt: skip


def as_json(objects: Sequence[ObjectStatus]) -> str:
    """A JSON array with an object for each, its fields as in `ObjectStatus`."""
    return json.dumps([dataclasses.asdict(item) for item in objects], ensure_ascii=False)


def as_rows(objects: Sequence[ObjectStatus]) -> tuple[Sequence[str], list[list[Any]]]:
    """Column names and rows for people. Columns in which nothing stands are left out, as are empty side streams."""
    shown = [item for item in objects if item.rows or not item.name.endswith((LATE_SUFFIX, REJECTED_SUFFIX))]
    rows = [_row(item) for item in shown]
    optional = {
        "late",
        "rejected",
        "error",
        "behind",
        "reaches",
        "last refresh",
        "took",
        "strategy",
        "strategy changed",
        "state",
    }
    kept = [at for at, name in enumerate(COLUMNS) if name not in optional or any(row[at] for row in rows)]
    return [COLUMNS[at] for at in kept], [["" if row[at] is None else row[at] for at in kept] for row in rows]


def _row(item: ObjectStatus) -> list[Any]:
    stored = item.kind != "source"
    return [
        item.name,
        item.kind,
        item.rows if stored else None,
        item.parts if stored else None,
        _size(item.bytes) if stored else None,
        item.reaches,
        _seconds(item.behind_seconds),
        item.last_refresh and item.last_refresh.partition(".")[0].removesuffix("Z") + "Z",
        _seconds(item.refresh_seconds),
        item.strategy,
        item.strategy_changed,
        _size(item.state_bytes) if item.state_bytes else None,
        item.rejected or None,
        item.late or None,
        item.error,
    ]


def _size(count: float) -> str:
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def _seconds(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.2f} s" if seconds else "0 s"
