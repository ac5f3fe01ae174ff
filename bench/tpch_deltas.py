"""Deltas of TPC-H for measuring: new orders with their lines and new customers, and as many old ones changed.

A delta can be taken back. So one home serves many measurements: after each it holds what it held before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.tpch_changes import Batch, with_op
from bench.tpch_data import DataSet

ORDERS_A_SCALE, CUSTOMERS_A_SCALE = 1_500_000, 150_000

#: What an update changes: the rows exchange their values among each other.
_CHANGED = {
    "customer": ("c_acctbal", "c_mktsegment", "c_nationkey"),
    "orders": ("o_orderstatus", "o_totalprice", "o_orderpriority", "o_orderdate"),
    "lineitem": ("l_quantity", "l_extendedprice", "l_discount", "l_returnflag", "l_shipdate"),
}


@dataclass(frozen=True)
class Delta:
    """Changes, and the changes that undo them."""

    name: str
    forth: Batch
    back: Batch

    @property
    def rows(self) -> int:
        return sum(rows.num_rows for rows in self.forth.values())


def by_share(data: DataSet, shares: Sequence[float], *, old: bool = True) -> list[Delta]:
    """Deltas that change these shares of all orders, with their lines, and customers.

    All of them are new ones, or with `old` a half: of the others, which are there, half go and half get other values.
    """
    new = 2 if old else 1
    rows = _Rows(data, max(shares) / new, old)
    return [rows.delta(f"{100 * share:g} %", share / new) for share in shares]


def by_rows(data: DataSet, count: int, *, old: bool = True) -> Delta:
    """A delta of about so many rows."""
    # An order has four lines, and every tenth comes with a customer.
    orders = count / (5.1 * (2 if old else 1))
    share = orders / (ORDERS_A_SCALE * data.scale)
    return _Rows(data, share, old).delta(f"{count:,} rows", share)


class _Rows:
    """The rows deltas are made of: all that were held back, and old ones in a random order, with their lines."""

    def __init__(self, data: DataSet, share: float, old: bool) -> None:
        self._scale = data.scale
        self._old = old
        self._new = {name: data.held(name) for name in _CHANGED}
        if share * ORDERS_A_SCALE * data.scale > self._new["orders"].num_rows:
            raise ValueError(f"{share:.2%} is more than was held back")
        if not old:
            return
        rng = np.random.default_rng(0)
        self._rng = rng
        self._old_orders = _some_keys(rng, data, "orders", "o_orderkey", round(share * ORDERS_A_SCALE * data.scale))
        self._old_customers = _some_keys(
            rng, data, "customer", "c_custkey", round(share * CUSTOMERS_A_SCALE * data.scale)
        )
        self._there = {
            "customer": _with_keys(data, "customer", "c_custkey", self._old_customers),
            "orders": _with_keys(data, "orders", "o_orderkey", self._old_orders),
            "lineitem": _with_keys(data, "lineitem", "l_orderkey", self._old_orders),
        }

    def delta(self, name: str, share: float) -> Delta:
        """The delta of a share: that of a smaller one is a part of that of a larger."""
        orders, customers = round(share * ORDERS_A_SCALE * self._scale), round(share * CUSTOMERS_A_SCALE * self._scale)
        keys = self._new["orders"].column("o_orderkey").slice(0, orders)
        new = {
            "customer": self._new["customer"].slice(0, customers),
            "orders": self._new["orders"].slice(0, orders),
            "lineitem": _of(self._new["lineitem"], "l_orderkey", keys),
        }
        forth = {table: [with_op(rows, "+")] for table, rows in new.items()}
        back = {table: [with_op(rows, "-")] for table, rows in new.items()}
        if self._old:
            for go, table, before in self._touched(orders, customers):
                after = before if go else self._changed(table, before)
                forth[table].append(with_op(after, "-" if go else "u"))
                back[table].append(with_op(before, "+" if go else "u"))
        return Delta(
            name,
            {table: pa.concat_tables(rows) for table, rows in forth.items()},
            {table: pa.concat_tables(rows) for table, rows in back.items()},
        )

    def _touched(self, orders: int, customers: int) -> list[tuple[bool, str, pa.Table]]:
        """The old rows that go, and those that change."""
        found = []
        for table, column, keys, count in (
            ("customer", "c_custkey", self._old_customers, customers),
            ("orders", "o_orderkey", self._old_orders, orders),
            ("lineitem", "l_orderkey", self._old_orders, orders),
        ):
            half = count // 2
            found.append((True, table, _of(self._there[table], column, pa.array(keys[:half]))))
            found.append((False, table, _of(self._there[table], column, pa.array(keys[half:count]))))
        return found

    def _changed(self, table: str, rows: pa.Table) -> pa.Table:
        for column in _CHANGED[table]:
            other = rows.column(column).take(pa.array(self._rng.permutation(rows.num_rows)))
            rows = rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), other)
        return rows


def _some_keys(rng: np.random.Generator, data: DataSet, table: str, column: str, count: int) -> np.ndarray:
    keys = np.concatenate([pq.read_table(path, columns=[column]).column(0).to_numpy() for path in data.base(table)])
    return rng.choice(keys, count, replace=False)


def _with_keys(data: DataSet, table: str, column: str, keys: np.ndarray) -> pa.Table:
    paths = [str(path) for path in data.base(table)]
    return ds.dataset(paths).to_table(filter=ds.field(column).isin(pa.array(keys)))


def _of(rows: pa.Table, column: str, keys: pa.Array | pa.ChunkedArray) -> pa.Table:
    wanted = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return rows.filter(pc.is_in(rows.column(column), wanted))
