"""Writing one temporal part of a view: its rows, or the difference to what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.part_wise.lifting import PART
from headrace.maintenance.logs import listed
from headrace.maintenance.relations import Relations
from headrace.runtime.home import Home
from headrace.runtime.whole import as_stored, typed_columns
from headrace.storage.bags import consolidate
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS, SMALL, write_frame, write_table


def write_part(
    home: Home, transaction: Transaction, relations: Relations, view: Object, part: int, frame: Any, rows: int
) -> int:
    """Make `frame` the content of a part. Returns how many rows were written: none if it is as it was.

    What changes is written as rows that come and go, so that whoever reads the view can follow. `rows` is how many the
    frame is made of; a small one comes to this process.
    """
    typed = typed_columns(view)
    named = frame.toDF(*view.names)
    stored = relations.source.parts(view)
    at = part * (view.partition_length or 1) * MICROS
    old = any(known.first <= part <= known.last for known in stored)
    if old:
        frames = {"new_": named, "old_": home.logs.relation(view, stored, at, forgotten_before=at)}
        names = listed(view.names)
        text = (
            f"SELECT {names}, CAST({at} AS BIGINT) AS __t, __n AS __w FROM (SELECT {names}, sum(__w) AS __n FROM"
            f" (SELECT {typed}, CAST(1 AS BIGINT) AS __w FROM new_ UNION ALL SELECT {names}, CAST(-1 AS BIGINT) AS __w"
            f" FROM old_) GROUP BY {names}) WHERE __n <> 0"
        )
    else:
        frames = {"new_": named}
        text = f"SELECT {typed}, CAST({at} AS BIGINT) AS __t, CAST(1 AS BIGINT) AS __w FROM new_"
    changes = home.engine.sql(text, frames)
    if rows > SMALL:
        return write_frame(transaction, view, changes, home.engine, inserts_only=not old)
    table = as_stored(view, home.engine.arrow(changes))
    return write_table(transaction, view, table, inserts_only=not old)


def write_part_here(
    home: Home, transaction: Transaction, relations: Relations, view: Object, part: int, table: pa.Table
) -> int | None:
    """Make a table the content of a part, as `write_part` does; None where what it was is for the engine to tell."""
    found = write_parts_here(
        home,
        transaction,
        relations,
        view,
        (part, part),
        table.append_column(PART, pa.array(np.full(table.num_rows, part, dtype=np.int64))),
    )
    return None if found is None else found[1]


def write_parts_here(
    home: Home, transaction: Transaction, relations: Relations, view: Object, made: tuple[int, int], table: pa.Table
) -> tuple[list[int], int] | None:
    """Make a table the content of the parts from the first to the last of `made`; its last column tells which.

    Which of them changed, and by how many rows; None where what they were is for the engine to tell.
    """
    length = (view.partition_length or 1) * MICROS
    stored = relations.source.parts(view)
    times = pc.multiply(table.column(PART), length)
    changes = _signed(view, table.drop_columns([PART]).append_column("__t", times), 1)
    old = any(known.first <= made[1] and known.last >= made[0] for known in stored)
    if old:
        was = home.logs.table(view, stored, made[1] * length, forgotten_before=made[0] * length, extra=("__t",))
        if was is None:
            return None
        changes = consolidate(pa.concat_tables([changes, _signed(view, was, -1)]))
    changed = sorted(time // length for time in changes.column("__t").unique().to_pylist())
    # Whoever reads a part that was made again looks at its file to see that it was.
    return changed, write_table(transaction, view, changes, inserts_only=not old, together=not old)


def _signed(view: Object, rows: pa.Table, weight: int) -> pa.Table:
    return as_stored(view, rows.append_column("__w", pa.array(np.full(rows.num_rows, weight, dtype=np.int64))))


def write_parts(home: Home, transaction: Transaction, view: Object, frame: Any, rows: int) -> int:
    """Write new parts of a view; the frame's last column tells whose part a row is. Returns how many rows there are."""
    typed = typed_columns(view)
    length = (view.partition_length or 1) * MICROS
    text = f"SELECT {typed}, CAST({PART} * {length} AS BIGINT) AS __t, CAST(1 AS BIGINT) AS __w FROM new_"
    changes = home.engine.sql(text, {"new_": frame.toDF(*view.names, PART)})
    if rows > SMALL:
        return write_frame(transaction, view, changes, home.engine, inserts_only=True)
    return write_table(transaction, view, as_stored(view, home.engine.arrow(changes)), inserts_only=True)


def rewrite_parts(
    home: Home, transaction: Transaction, relations: Relations, view: Object, first: int, last: int, frame: Any
) -> tuple[list[int], int]:
    """Make `frame`, which is small, the content of several parts; which of them changed, and by how many rows."""
    typed = typed_columns(view)
    names = listed(view.names)
    length = (view.partition_length or 1) * MICROS
    stored = relations.source.parts(view)
    old = home.logs.relation(view, stored, last * length, forgotten_before=first * length, extra=("__t",))
    text = (
        f"SELECT {names}, __t, __n AS __w FROM (SELECT {names}, __t, sum(__w) AS __n FROM"
        f" (SELECT {typed}, CAST({PART} * {length} AS BIGINT) AS __t, CAST(1 AS BIGINT) AS __w FROM new_"
        f" UNION ALL SELECT {names}, __t, CAST(-1 AS BIGINT) AS __w FROM old_) GROUP BY {names}, __t) WHERE __n <> 0"
    )
    changes = home.engine.sql(text, {"new_": frame.toDF(*view.names, PART), "old_": old})
    table = as_stored(view, home.engine.arrow(changes))
    changed = sorted({time // length for time in table.column("__t").unique().to_pylist()})
    return changed, write_table(transaction, view, table, inserts_only=False)
