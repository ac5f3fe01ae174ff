"""The change of a table's *versions*, which rows of streams meet that arrived while they held.

A version is a row with the span in which it holds (`__from`, `__to`). It begins open, and when its key gets another row
or is deleted it is closed there: the open one is taken back, and the closed one stays for good. So what the change of
the table gives to rows that arrived before it is taken back and put again, and nets to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.maintenance.deltas import Delta
from headrace.maintenance.logs import NEVER, Logs, listed
from headrace.storage.bags import consolidate
from headrace.storage.records import Object, Part


def versions_changed(item: Object, changes: pa.Table, *, timed: bool) -> Delta:
    """From signed rows with their births (`__at`), none of them of a time before the table's newest."""
    came = changes.filter(pc.greater(changes.column("__w"), 0))
    went = changes.filter(pc.less(changes.column("__w"), 0))
    # A row that was replaced at the time it came never held.
    held = went.filter(pc.less(went.column("__at"), went.column("__t")))
    open_ = np.int64(NEVER)
    pieces = [
        _piece(item, came, np.full(came.num_rows, open_), 1),
        _piece(item, went, np.full(went.num_rows, open_), -1),
        _piece(item, held, held.column("__t").to_numpy(), 1),
    ]
    return _delta(pa.concat_tables(pieces), timed=timed)


def _piece(item: Object, rows: pa.Table, ends: np.ndarray, weight: int) -> pa.Table:
    columns = {name: rows.column(name) for name in item.names}
    marks = {"__from": rows.column("__at"), "__to": pa.array(ends, pa.int64()), "__t": rows.column("__t")}
    return pa.table({**columns, **marks, "__w": pa.array(np.full(rows.num_rows, weight, dtype=np.int64))})


def versions_between(
    logs: Logs,
    item: Object,
    now: tuple[Sequence[Part], int | None],
    then: tuple[Sequence[Part], int | None],
    *,
    timed: bool,
) -> Delta:
    """From the whole log: what is known now, less what was known then; each as its parts and how far they are read."""
    frames = {"now_": logs.versions(item, *now), "then_": logs.versions(item, *then)}
    texts = [_events_sql(item, source, sign) for source, sign in (("now_", 1), ("then_", -1))]
    return _delta(logs.engine.arrow(logs.engine.sql(" UNION ALL ".join(texts), frames)), timed=timed)


def _events_sql(item: Object, source: str, sign: int) -> str:
    names = listed(item.names)
    steps = [(str(NEVER), "__from", sign, ""), (str(NEVER), "__to", -sign, f" WHERE __to < {NEVER}"),
             ("__to", "__to", sign, f" WHERE __to < {NEVER}")]  # fmt: skip
    return " UNION ALL ".join(
        f"SELECT {names}, __from, CAST({ends} AS BIGINT) AS __to, {time} AS __t, CAST({weight} AS BIGINT) AS __w"
        f" FROM {source}{where}"
        for ends, time, weight, where in steps
    )


def _delta(table: pa.Table, *, timed: bool) -> Delta:
    table = consolidate(table.combine_chunks())
    oldest = pc.min(table.column("__t")).as_py()
    if not timed:
        zeros = pa.array(np.zeros(table.num_rows, dtype=np.int64))
        table = consolidate(table.set_column(table.column_names.index("__t"), "__t", zeros).combine_chunks())
    return Delta(table, table.num_rows, oldest)
