"""Small logs resolved in the driver: the same relations as `logs.py` gives by SQL, as pure Arrow kernels.

For a log of a few thousand rows the fixed cost of reading its files and of one more aggregation in the engine's plan is
far above that of the work itself. Files never change, so what was read is kept and read once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.storage.files import Files
from headrace.storage.records import Object
from headrace.storage.writer import MICROS

#: Logs up to this many rows are resolved here.
MOST_ROWS = 20_000
_MOST_CACHED_BYTES = 64 << 20

PART_TIMESTAMP = "PART_TIMESTAMP"
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class RecentFiles:
    """The rows of files read or written lately."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()
        self._bytes = 0
        files.on_write = self._keep

    def read(self, paths: Sequence[str]) -> list[pa.Table]:
        return [self._one(path) for path in paths]

    def _one(self, path: str) -> pa.Table:
        if path in self._tables:
            self._tables.move_to_end(path)
            return self._tables[path]
        table = self._files.read([path])
        self._keep(path, table)
        return table

    def _keep(self, path: str, table: pa.Table) -> None:
        # A piece of a large table keeps all of it in memory.
        size = table.get_total_buffer_size()
        if size > _MOST_CACHED_BYTES:
            return
        self._tables[path] = table
        self._bytes += size
        while self._bytes > _MOST_CACHED_BYTES:
            _path, gone = self._tables.popitem(last=False)
            self._bytes -= gone.get_total_buffer_size()


def can_resolve(item: Object, schema: pa.Schema, inserts_only: bool) -> bool:
    """Whether Arrow groups the log's rows as Spark does: not by nested values, nor by floats, whose zeros differ."""
    if item.log == "append" or (item.log in ("signed", "state") and inserts_only):
        return True
    grouped = item.key if item.log == "upsert" else item.names
    kinds = [schema.field(name).type for name in grouped or ()]
    return bool(kinds) and not any(pa.types.is_nested(kind) or pa.types.is_floating(kind) for kind in kinds)


def resolve(
    item: Object,
    rows: pa.Table,
    upto: int | None,
    since: int | None,
    inserts_only: bool,
    extra: Sequence[str],
) -> pa.Table:
    """The relation that log rows with `since` < `__t` <= `upto` make, with the columns a query sees and `extra`.

    Of the item's own columns, `rows` may have only some where that is all that is asked for.
    """
    if upto is not None:
        rows = rows.filter(pc.less_equal(rows.column("__t"), upto))
    if since is not None:
        rows = rows.filter(pc.greater(rows.column("__t"), since))
    if item.log == "upsert":
        rows = _latest_of_each_key(rows, item.key or ())
    elif item.log == "state":
        return rows.select(list(item.names)) if inserts_only else _content(rows, item.names)
    elif item.log == "signed" and not inserts_only:
        rows = _rows_of_positive_weight(rows, item.names, part_wise=item.part_wise)
    return _shown(item, rows, extra)


def _latest_of_each_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    ordered = rows.sort_by([("__t", "ascending"), ("__seq", "ascending")])
    numbered = ordered.select(list(key)).append_column("__n", pa.array(np.arange(rows.num_rows)))
    newest = numbered.group_by(list(key)).aggregate([("__n", "max")]).column("__n_max")
    latest = ordered.take(newest)
    return latest.filter(pc.equal(latest.column("__op"), "+"))


def _rows_of_positive_weight(rows: pa.Table, names: Sequence[str], *, part_wise: bool) -> pa.Table:
    if part_wise:
        # What is alike in two parts is two rows.
        summed = rows.group_by([*names, "__t"]).aggregate([("__w", "sum")]).rename_columns([*names, "__t", "__w"])
        weights = np.maximum(summed.column("__w").to_numpy(), 0)
        return summed.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
    born = pc.if_else(pc.greater(rows.column("__w"), 0), rows.column("__t"), None)
    rows = rows.set_column(rows.column_names.index("__t"), "__t", born)
    summed = rows.group_by(list(names)).aggregate([("__t", "max"), ("__w", "sum")])
    summed = summed.rename_columns([*names, "__t", "__w"])
    weights = np.maximum(summed.column("__w").to_numpy(), 0)
    return summed.take(pa.array(np.repeat(np.arange(len(weights)), weights)))


def _content(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    summed = rows.group_by(list(names)).aggregate([("__w", "sum")])
    weights = np.maximum(summed.column("__w_sum").to_numpy(), 0)
    return summed.take(pa.array(np.repeat(np.arange(len(weights)), weights))).select(list(names))


def _shown(item: Object, rows: pa.Table, extra: Sequence[str]) -> pa.Table:
    columns = {name: rows.column(name) for name in item.names if name in rows.column_names}
    if not item.option("exposes_ts") and not extra:
        return pa.table(columns)
    times = rows.column("__t")
    if item.option("exposes_ts"):
        columns["TS"] = times.cast(_TIMESTAMP)
    for name in extra:
        if name == PART_TIMESTAMP:
            length = (item.partition_length or 1) * MICROS
            starts = times.to_numpy() // length * length
            columns[name] = pa.array(starts, pa.int64()).cast(_TIMESTAMP)
        else:
            columns[name] = rows.column(name)
    return pa.table(columns)
