"""Computing a view as a whole: its content, or the log of what came and went since a point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language import Query
from headrace.language.types import arrow_type
from headrace.maintenance.differentiate import changes_at
from headrace.maintenance.logs import listed, quoted
from headrace.maintenance.points import grid_of, points_between
from headrace.maintenance.relations import Relations
from headrace.runtime.home import Home
from headrace.runtime.starts import kept_from
from headrace.storage.records import Object, Part
from headrace.storage.transactions import Transaction
from headrace.storage.writer import SMALL, write_frame, write_table


def replace_content(
    home: Home,
    transaction: Transaction,
    relations: Relations,
    view: Object,
    query: Query,
    point: int | None,
    content: Any | None,
) -> int:
    """Put a view's content in place of what it was; `content` where that was made with its states already."""
    old = transaction.base.parts(view)
    frame = content
    if frame is None:
        frame = relations.evaluate(query, point if view.on_grid or query.reads_clock else None).toDF(*view.names)
    transaction.remove_parts(old)
    before = sum(part.rows for part in old)
    if before > SMALL or (not old and _size(relations, query) > SMALL):
        weighted = home.engine.sql(
            f"SELECT {typed_columns(view)}, CAST(1 AS BIGINT) AS __w FROM content_", {"content_": frame}
        )
        return write_frame(transaction, view, weighted, home.engine, inserts_only=True)
    table = as_stored(view, home.engine.arrow(frame))
    weights = pa.array(np.ones(table.num_rows, dtype=np.int64))
    return write_table(transaction, view, table.append_column("__w", weights), inserts_only=True)


def typed_columns(view: Object) -> str:
    """SQL for a view's columns, each in the type it has there."""
    return ", ".join(f"CAST({quoted(c.name)} AS {c.type}) AS {quoted(c.name)}" for c in view.columns)


def as_stored(view: Object, table: pa.Table) -> pa.Table:
    """Rows in the types the view has. An engine may answer with wider ones than it told: Sail does, of INTEGERs."""
    kinds = {column.name: arrow_type(column.type) for column in view.columns}
    fields = [field.with_type(kinds.get(field.name, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def correct_log(home: Home, transaction: Transaction, view: Object, content: Any, point: int | None) -> int:
    """Bring a log in line with the states that will change it from now on.

    Both are the same relation, but for what the engine may answer in two ways: the last digit of a floating-point sum,
    and which of some ties comes first.
    """
    parts = transaction.parts(view)
    now = home.logs.relation(view, parts, None)
    names = listed(view.names)
    text = (
        f"SELECT {names}, __n AS __w FROM (SELECT {names}, sum(__w) AS __n FROM (SELECT {names}, CAST(1 AS BIGINT) AS"
        f" __w FROM wanted_ UNION ALL SELECT {names}, CAST(-1 AS BIGINT) AS __w FROM now_) GROUP BY {names})"
        f" WHERE __n <> 0"
    )
    differs = as_stored(view, home.engine.arrow(home.engine.sql(text, {"wanted_": content, "now_": now})))
    times = pa.array(np.full(differs.num_rows, point or 0, dtype=np.int64))
    differs = differs.add_column(len(view.names), "__t", times)
    return write_table(transaction, view, differs, inserts_only=_inserts_only(differs))


def _size(relations: Relations, query: Query) -> int:
    inputs = {ref.name.lower() for ref in query.relations()}
    return sum(part.rows for name in inputs for part in relations.source.parts(relations.source.find(name)))


def extend_log(
    transaction: Transaction,
    relations: Relations,
    view: Object,
    query: Query,
    inputs: list[Object],
    start: int | None,
    point: int | None,
) -> int:
    """Add the changes since the last refresh to a view's log, or make it anew from where late rows fell."""
    parts = transaction.base.parts(view)
    previous = None
    if start is not None:
        _forget_from(transaction, view, parts, start)
        kept = transaction.parts(view)
        previous = relations.logs.relation(view, kept, None) if kept else None
    points = points_between(relations, inputs, start, point, grid_of(relations, view), query)
    # What happened before its birth, or before RETAIN keeps its history, shows there.
    if start is not None and start in (view.option("born"), kept_from(relations, view, parts)) and start not in points:
        points = [start, *points]
    changes = as_stored(view, changes_at(relations, view, query, points, previous))
    return write_table(transaction, view, changes, inserts_only=_inserts_only(changes))


def _forget_from(transaction: Transaction, view: Object, parts: Iterable[Part], start: int) -> None:
    """Take back the log's rows at and after `start`: they are made again."""
    touched = [part for part in parts if part.newest is not None and part.newest >= start]
    if not touched:
        return
    transaction.remove_parts(touched)
    kept = transaction.files.read([path for part in touched for path in part.files])
    kept = kept.filter(_before(kept, start))
    write_table(transaction, view, kept, inserts_only=_inserts_only(kept))


def _before(table: Any, start: int) -> Any:
    return pc.less(table.column("__t"), start)


def _inserts_only(table: Any) -> bool:
    # A weight of two is one stored row, so only plain +1 rows can be read without summing.
    return table.num_rows == 0 or bool(pc.all(pc.equal(table.column("__w"), 1)).as_py())
