"""How large the parts of a window view and of its helper are: measured on the newest parts, or seen in storage."""

from __future__ import annotations

from headrace.algebra.part_wise.windows.window_functions import possible_strategies, window_functions
from headrace.algebra.part_wise.windows.window_query import WindowQuery
from headrace.language import CreateViewDelta, parse_one
from headrace.maintenance.relations import Relations
from headrace.planner.window_costs import WindowSizes
from headrace.runtime.home import Home
from headrace.storage.records import Object
from headrace.storage.writer import MICROS

#: Groups of a window are counted up to so many rows; beyond that they are guessed from those of a pane.
COUNTED = 5_000_000


def measured_sizes(home: Home, relations: Relations, query: WindowQuery, item: Object) -> WindowSizes | None:
    """Sizes by counting the newest pane and window; None as long as there is nothing to count."""
    rows = rows_a_part(relations, item)
    newest = max((part.newest for part in relations.source.parts(item) if part.newest is not None), default=None)
    if rows is None or newest is None:
        return None
    pane = newest // (query.pane * MICROS)
    entries = _count(home, relations, query, "distributive", pane)
    window = None
    if rows * query.source_parts <= COUNTED:
        window = _count(home, relations, query, "recompute", newest // (query.slide * MICROS))
    a_pane = rows * (query.pane // query.source.length) if entries is None else float(entries)
    groups = 2.0 * a_pane if window is None else float(window)
    return WindowSizes(rows_a_part=rows, groups_a_pane=min(a_pane, groups), groups_in_window=groups,
                       values_a_pane=a_pane if a_pane > groups else None)  # fmt: skip


def rows_a_part(relations: Relations, item: Object) -> float | None:
    """How many rows a part of a relation has, on average."""
    parts = relations.source.parts(item)
    if not parts:
        return None
    spanned = max(part.last for part in parts) - min(part.first for part in parts) + 1
    return sum(part.rows for part in parts) / spanned


def _count(home: Home, relations: Relations, query: WindowQuery, strategy: str, part: int) -> int | None:
    """How many rows the first statement of a strategy has for a part."""
    if possible_strategies(query)[strategy] is not None:
        return None
    statement = parse_one(window_functions(query, strategy, "v", helper="h")[0])
    assert isinstance(statement, CreateViewDelta)
    frame = relations.evaluate(statement.initialize.at_part(part))
    counted = home.engine.sql("SELECT count(*) AS n FROM counted_", {"counted_": frame})
    return int(home.engine.arrow(counted).column("n")[0].as_py())
