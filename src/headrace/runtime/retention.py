"""RETAIN: letting go of what is older than it says.

A stream's old rows go, in whole files. A table or view keeps all its rows and lets go of how they came about: the old
part of its log is folded into the rows it amounts to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language.types import arrow_type
from headrace.maintenance.logs import log_fields
from headrace.maintenance.small_logs import can_resolve, resolve
from headrace.runtime.clock import forgotten_before, horizon
from headrace.runtime.home import Home
from headrace.runtime.part_retention import helper_needed, oldest_needed
from headrace.storage import housekeeping
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object, Part
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS, part_of, write_table

#: So many parts of a helper view are dropped at a time.
UNNEEDED = 8


def forget(home: Home, transaction: Transaction, item: Object) -> None:
    """Drop or fold what an object need not keep any more."""
    parts = transaction.base.parts(item)
    edge = forgotten_before(item, parts, horizon(item, parts, home.clock_mode, transaction.advanced_to))
    if edge is None:
        return
    if item.forgets_rows:
        # AS OF the oldest time that can be asked for still sees the rows that were not forgotten then.
        before = edge - int(item.option("retain"))
        needed = oldest_needed(transaction.base, item, home.relations(transaction).source)
        housekeeping.forget(transaction, item, before if needed is None else min(before, needed))
    else:
        _fold(transaction, item, [part for part in parts if part.newest is not None and part.newest < edge])


def unneeded_parts(home: Home, snapshot: Snapshot, helper: Object) -> int | None:
    """The first part of a helper view that may be needed, when enough lie before it to be worth a commit."""
    before = helper_needed(snapshot, helper, home.relations(snapshot).source)
    if before is None:
        return None
    first = part_of(before, helper.partition_length)
    return first if sum(part.last < first for part in snapshot.parts(helper)) >= UNNEEDED else None


def forget_helper_parts(transaction: Transaction, helper: Object, first: int) -> None:
    """Drop the parts of a helper view before `first`."""
    housekeeping.forget(transaction, helper, first * (helper.partition_length or 1) * MICROS)
    parts = {**(helper.option("parts") or {}), "dropped": first}
    transaction.alter(replace(helper, options={**helper.options, "parts": parts}))


def _fold(transaction: Transaction, item: Object, old: list[Part]) -> None:
    """Replace old parts by the rows they amount to, each at the time it came to be."""
    rows = sum(part.rows for part in old)
    # Folded parts are folded again only when they have been joined by as many new rows.
    folded = max((part.rows for part in old), default=0)
    if item.log == "state" or len(old) < 2 or rows < 2 * folded or rows > housekeeping.ROWS_A_FILE:
        return
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in log_fields(item)])
    if not can_resolve(item, schema, inserts_only=False):
        return
    table = transaction.files.read([path for part in old for path in part.files]).select(schema.names).cast(schema)
    plain = replace(item, options={})
    left = resolve(plain, table, None, None, False, ("__t",))
    if item.log == "upsert":
        left = left.append_column("__seq", pa.array(np.arange(left.num_rows)))
        left = left.append_column("__op", pa.array(["+"] * left.num_rows, pa.string()))
    else:
        left = left.append_column("__w", pa.array(np.ones(left.num_rows, dtype=np.int64)))
    left = left.set_column(left.column_names.index("__t"), "__t", pc.fill_null(left.column("__t"), 0))
    transaction.remove_parts(old)
    seen = max(part.arrived_in for part in old)
    write_table(transaction, item, left.select(schema.names), inserts_only=True, arrived_in=seen)
