"""The rows of a relation that a window shows at a time.

`[RANGE w]` shows at T the rows with T - w < time <= T; with SLIDE s, what it showed at the last multiple of s.
`[ROWS n]` shows the newest n rows by time and arrival; with SLIDE m, what it showed when the count of rows was last a
multiple of m. PARTITION BY gives each value a window of rows of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.engine import Engine
from headrace.errors import DefinitionError
from headrace.language import RelationRef, Window
from headrace.maintenance.logs import listed
from headrace.storage.records import Object

_NO_COMPARISON = ("MAP", "VARIANT", "ARRAY<MAP")


def edge(window: Window, time: int) -> int:
    """The time whose content the window shows at `time`."""
    return time if window.kind == "rows" or window.slide is None else time // window.slide * window.slide


def since(window: Window, time: int) -> int | None:
    """Rows up to this time have left a window on time; None where none ever leaves by time."""
    return None if window.kind == "rows" or window.length is None else edge(window, time) - window.length


def turns(window: Window, times: np.ndarray) -> np.ndarray:
    """The times at which rows with `times` come into a window, and those at which they leave it by time."""
    if window.kind == "rows":
        return times
    both = times if window.length is None else np.concatenate([times, times + window.length])
    return both if window.slide is None else -(-both // window.slide) * window.slide


def reach_back(window: Window) -> int:
    """How long after a row's time it can still leave the window."""
    return 0 if window.kind == "rows" else (window.length or 0) + (window.slide or 0)


def check_window(ref: RelationRef, item: Object) -> None:
    """Refuse a window over what has no rows in the order of time."""
    window = ref.window
    if window is None:
        return
    if ref.kind == "changes":
        raise DefinitionError(
            "WINDOW_OVER_CHANGES",
            f"CHANGES({item.name}) is a list of what happened, and a window shows rows that live.",
            hint=f"Put the window on {item.name} itself, or select from CHANGES by ts.",
            place=ref.place,
        )
    if item.kind == "table":
        raise DefinitionError(
            "WINDOW_OVER_TABLE",
            f"{item.name} is a table: its rows are changed by hand and do not stand in an order of time.",
            hint="A window is for streams. Put the window on the stream this table is joined with.",
            place=ref.place,
        )
    if item.log == "state":
        raise DefinitionError(
            "NO_ARRIVAL_TIMES",
            f"{item.name} keeps only its newest content, so its rows have no times for a window to go by.",
            hint="Declare it as a STREAMED view.",
            place=ref.place,
        )
    if window.kind == "rows" and window.slide is not None and item.log != "append":
        raise DefinitionError(
            "WINDOW_NEEDS_APPENDS",
            f"{item.name} loses rows otherwise than by its window, so nobody can say which arrival is the last of a "
            "slide of ROWS.",
            hint="Leave SLIDE out, or use a stream without a key.",
            place=ref.place,
        )
    known = {name.lower() for name in item.names}
    for column in window.partition:
        if column.lower() not in known:
            raise DefinitionError(
                "UNKNOWN_COLUMN",
                f"{item.name} has no column {column} to partition a window by.",
                hint=f"It has: {', '.join(item.names)}.",
                place=ref.place,
            )


def order_of(fields: Sequence[tuple[str, str]], numbered: bool) -> str:
    """The order of rows from old to new. Without numbers of arrival, rows of one time stand in that of their values."""
    if numbered:
        return "__t, __seq"
    comparable = [name for name, kind in fields if not any(word in kind.upper() for word in _NO_COMPARISON)]
    return ", ".join(["__t", *(listed([name]) for name in comparable)])


def newest_rows(engine: Engine, frame: Any, window: Window, columns: Sequence[str], order: str) -> Any:
    """The rows that a window of ROWS shows of `frame`, a relation with `__t`, in `columns`."""
    if window.length is None and window.slide is None:
        return engine.sql(f"SELECT {listed(columns)} FROM windowed_rows", {"windowed_rows": frame})
    partition = f"PARTITION BY {listed(window.partition)} " if window.partition else ""
    last = "__count" if window.slide is None else f"(__count - __count % {window.slide})"
    ranked = (
        f"SELECT *, row_number() OVER ({partition}ORDER BY {order}) AS __rank, "
        f"count(*) OVER ({partition.strip()}) AS __count FROM windowed_rows"
    )
    lower = "" if window.length is None else f" AND __rank > {last} - {window.length}"
    text = f"SELECT {listed(columns)} FROM ({ranked}) WHERE __rank <= {last}{lower}"
    return engine.sql(text, {"windowed_rows": frame})
