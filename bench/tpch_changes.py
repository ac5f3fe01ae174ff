"""Random changes of all eight relations of TPC-H, and the ways to bring them into a home.

`Content` is what a home should hold: each batch of changes is drawn from it and then part of it. Keys stay unique.
Foreign keys mostly hold; some point nowhere, and become good when such a row comes. Rows that went may come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.tpch_data import RELATIONS, Relation, codes
from headrace.session import Session

#: One batch of changes: for each relation that changes its rows, with a column `op` before them (`+`, `u` or `-`).
Batch = dict[str, pa.Table]

#: Values the 22 queries ask for. Tiny data has few of them; see `focused`.
_FOCUS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    # Brazil, Canada, France, Germany, India, China, Saudi Arabia.
    "supplier": {"s_nationkey": (2, 3, 6, 7, 8, 18, 20)},
    "customer": {"c_nationkey": (2, 6, 7, 8, 18), "c_mktsegment": ("BUILDING",), "c_acctbal": (9000, 8500)},
    "part": {
        "p_name": ("forest green lace", "forest almond red", "dark green sky"),
        "p_brand": ("Brand#12", "Brand#23", "Brand#34"),
        "p_container": ("SM CASE", "MED BOX", "LG PACK"),
        "p_type": ("ECONOMY ANODIZED STEEL", "PROMO PLATED BRASS", "LARGE BURNISHED BRASS"),
        "p_size": (15, 3, 9, 5),
    },
    "orders": {"o_orderstatus": ("F",)},
    "lineitem": {
        "l_quantity": (50, 49, 48, 50, 1, 2, 11, 21),
        "l_shipmode": ("AIR", "MAIL", "SHIP"),
        "l_shipinstruct": ("DELIVER IN PERSON",),
    },
}

#: Most queries name a region or a nation: a rename would leave them empty for good.
_LASTING = ("r_name", "n_name")

#: Here three times as much happens.
_LARGE = ("orders", "lineitem")

#: Foreign keys that point nowhere lie this far behind the last key, where new rows will be.
_NOWHERE = 50


@dataclass
class Content:
    """The rows of the eight relations now, those that went, and the next free number of a line."""

    tables: dict[str, pa.Table]
    gone: dict[str, pa.Table] = field(default_factory=dict)
    next_line: int = 1_000

    def take(self, relation: Relation, changed: pa.Table) -> None:
        """Let changes happen here too."""
        now, before = self.tables[relation.name], self.gone.get(relation.name, self.tables[relation.name].slice(0, 0))
        stays = pc.not_equal(changed.column("op"), "-")
        rows = changed.drop_columns("op")
        touched, went = codes(rows, relation.key), codes(rows.filter(pc.invert(stays)), relation.key)
        there, gone = codes(now, relation.key), codes(before, relation.key)
        kept, still = now.filter(pa.array(~np.isin(there, touched))), before.filter(pa.array(~np.isin(gone, touched)))
        self.tables[relation.name] = pa.concat_tables([kept, rows.filter(stays)])
        self.gone[relation.name] = pa.concat_tables([still, now.filter(pa.array(np.isin(there, went)))])


def focused(rng: np.random.Generator, tables: Mapping[str, pa.Table], share: float = 0.3) -> dict[str, pa.Table]:
    """The same tables with values the queries ask for in a share of their rows, so that no view is empty."""
    found = dict(tables)
    for name, columns in _FOCUS.items():
        for column, values in columns.items():
            rows = found[name]
            wanted = pa.array(values, RELATIONS[name].schema.field(column).type)
            drawn = wanted.take(pa.array(rng.integers(0, len(values), rows.num_rows)))
            # There are so few suppliers that nearly all must be where somebody looks.
            chosen = _some(rng, rows.num_rows, 0.9 if name == "supplier" else share)
            found[name] = _set(rows, column, pc.if_else(chosen, drawn, rows.column(column)))
    return found


def changes(rng: np.random.Generator, content: Content, *, most: int = 60, nulls: float = 0.02) -> Batch:
    """A batch of inserts, updates and deletes on all eight relations, about `most` of a kind. It is taken in.

    A share of `nulls` of the new values outside the key is NULL.
    """
    batch: Batch = {}
    for relation in RELATIONS.values():
        rows = content.tables[relation.name]
        # A region has a third of everything under it: a few of them are changed, not half.
        few = max(1, min(most if relation.name not in _LARGE else 3 * most, rows.num_rows // 6))
        order = rng.permutation(rows.num_rows)
        went, changed = (order[: rng.integers(1, few + 1)], order[few : few + rng.integers(1, few + 1)])
        parts = {
            "-": rows.take(pa.array(went)),
            "u": _updated(rng, content, relation, rows.take(pa.array(changed)), nulls),
            "+": _inserted(rng, content, relation, int(rng.integers(1, few + 1)), nulls),
        }
        batch[relation.name] = pa.concat_tables([with_op(part, op) for op, part in parts.items()])
        content.take(relation, batch[relation.name])
    return batch


def with_op(rows: pa.Table, op: str) -> pa.Table:
    """Rows with what they do before them."""
    return rows.add_column(0, "op", pa.repeat(pa.scalar(op), rows.num_rows))


def _updated(rng: np.random.Generator, content: Content, relation: Relation, rows: pa.Table, nulls: float) -> pa.Table:
    """The rows with some of their columns as other rows have them, and some foreign keys drawn anew."""
    rows = _mixed(rng, content, relation, rows, 0.3, nulls, but=_LASTING)
    for columns in relation.refers:
        if not set(columns) & set(relation.key):
            drawn = _references(rng, content, relation, columns, rows.num_rows)
            moved = _some(rng, rows.num_rows, 0.3)
            for column, values in zip(columns, drawn, strict=True):
                rows = _set(rows, column, pc.if_else(moved, pa.array(values), rows.column(column)))
    return rows


def _inserted(rng: np.random.Generator, content: Content, relation: Relation, count: int, nulls: float) -> pa.Table:
    """Rows with new keys, made of columns of others, and some that were there before."""
    now, gone = content.tables[relation.name], content.gone.get(relation.name)
    # A nation or region that went comes back at once: too much hangs on it.
    back = 0 if gone is None else min(gone.num_rows, count if len(now) < 100 else int(rng.integers(0, count + 1)))
    again = [gone.take(pa.array(rng.permutation(gone.num_rows)[:back]))] if gone is not None else []
    rows = now.take(pa.array(rng.integers(0, now.num_rows, count - back)))
    rows = _mixed(rng, content, relation, rows, 0.3, nulls)
    for columns in relation.refers:
        drawn = _references(rng, content, relation, columns, rows.num_rows)
        for column, values in zip(columns, drawn, strict=True):
            rows = _set(rows, column, pa.array(values))
    rows = _with_new_keys(content, relation, rows)
    return pa.concat_tables([*again, rows])


def _with_new_keys(content: Content, relation: Relation, rows: pa.Table) -> pa.Table:
    count = rows.num_rows
    if relation.name == "partsupp":
        # Any pair will do that neither is there nor was.
        taken = [codes(content.tables["partsupp"], relation.key)]
        taken += [codes(content.gone["partsupp"], relation.key)] if "partsupp" in content.gone else []
        found, first = np.unique(codes(rows, relation.key), return_index=True)
        return rows.take(pa.array(first[~np.isin(found, np.concatenate(taken))]))
    if relation.name == "lineitem":
        rows = _set(rows, "l_linenumber", pa.array(np.arange(count, dtype=np.int32) + content.next_line))
        content.next_line += count
        return rows
    column = relation.key[0]
    return _set(rows, column, pa.array(np.arange(count, dtype=np.int64) + _last(content, relation.name) + 1))


def _last(content: Content, name: str) -> int:
    """The highest key that is there or was."""
    column = RELATIONS[name].key[0]
    tables = [content.tables[name], *([content.gone[name]] if name in content.gone else [])]
    return max(int(pc.max(table.column(column)).as_py() or 0) for table in tables)


def _references(
    rng: np.random.Generator, content: Content, relation: Relation, columns: tuple[str, ...], count: int
) -> list[np.ndarray]:
    """Values for a foreign key: half among the newest rows, the others anywhere, and some nowhere."""
    name = relation.refers[columns]
    there = content.tables[name]
    places = rng.integers(0, there.num_rows, count)
    newest = np.maximum(0, there.num_rows - 1 - rng.integers(0, 40, count))
    places = np.where(rng.random(count) < 0.5, newest, places)
    nowhere = rng.random(count) < 0.08
    found = []
    for column in RELATIONS[name].key[: len(columns)]:
        values = there.column(column).to_numpy()[places]
        found.append(np.where(nowhere, int(values.max(initial=0)) + rng.integers(1, _NOWHERE, count), values))
    return found


def _mixed(
    rng: np.random.Generator,
    content: Content,
    relation: Relation,
    rows: pa.Table,
    share: float,
    nulls: float,
    but: Sequence[str] = (),
) -> pa.Table:
    """Each column outside the key, in a share of the rows, as some other row has it, or NULL."""
    others = content.tables[relation.name]
    for name in relation.columns:
        if name in (*relation.key, *but) or any(name in columns for columns in relation.refers):
            continue
        drawn = others.column(name).take(pa.array(rng.integers(0, others.num_rows, rows.num_rows)))
        values = pc.if_else(_some(rng, rows.num_rows, share), drawn, rows.column(name))
        empty = pa.scalar(None, values.type)
        rows = _set(rows, name, pc.if_else(_some(rng, rows.num_rows, nulls), empty, values))
    return rows


def _some(rng: np.random.Generator, count: int, share: float) -> pa.Array:
    return pa.array(rng.random(count) < share)


def _set(rows: pa.Table, column: str, values: Any) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), values)


# --- Into a home -----------------------------------------------------------------------------------------------------


def feed(session: Session, batch: Batch) -> None:
    """Into streams with a key and a column `op`: one feed a relation."""
    for name, rows in batch.items():
        session.feed(name, rows)


def operate(session: Session, batch: Batch) -> None:
    """Into tables with a key, in bulk: the same, and `ops` names the column."""
    for name, rows in batch.items():
        session.feed(name, rows, ops="op")


def merge(session: Session, batch: Batch) -> None:
    """Into tables: the changes go into a table of their own, and from there by one MERGE a relation."""
    for name, rows in batch.items():
        relation = RELATIONS[name]
        staged = f"{name}_changes"
        session.sql(f"CREATE TABLE IF NOT EXISTS {staged} (op STRING, {relation.declared})")
        session.feed(staged, rows)
        same = " AND ".join(f"old.{column} = new.{column}" for column in relation.key)
        updates = ", ".join(f"{column} = new.{column}" for column in relation.columns if column not in relation.key)
        values = ", ".join(f"new.{column}" for column in relation.columns)
        session.sql(
            f"MERGE INTO {name} old USING {staged} new ON {same}"
            " WHEN MATCHED AND new.op = '-' THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {updates}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join(relation.columns)}) VALUES ({values})"
        )
        session.sql(f"DELETE FROM {staged}")


def write_by_hand(session: Session, batch: Batch) -> None:
    """Into tables, by statements as people write them: one DELETE, an UPDATE a row, one INSERT."""
    for name, rows in batch.items():
        relation = RELATIONS[name]
        went, changed, came = (
            rows.filter(pc.equal(rows.column("op"), op)).drop_columns("op").to_pylist() for op in ("-", "u", "+")
        )
        if went:
            session.sql(f"DELETE FROM {name} WHERE {_any_of(relation, went)}")
        for row in changed:
            new = ", ".join(f"{column} = {_literal(row[column])}" for column in row if column not in relation.key)
            session.sql(f"UPDATE {name} SET {new} WHERE {_any_of(relation, [row])}")
        if came:
            values = ", ".join(f"({', '.join(_literal(value) for value in row.values())})" for row in came)
            session.sql(f"INSERT INTO {name} VALUES {values}")


def _any_of(relation: Relation, rows: Sequence[Mapping[str, Any]]) -> str:
    if len(relation.key) == 1:
        column = relation.key[0]
        return f"{column} IN ({', '.join(str(row[column]) for row in rows)})"
    return " OR ".join("(" + " AND ".join(f"{column} = {row[column]}" for column in relation.key) + ")" for row in rows)


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"DATE '{value}'" if hasattr(value, "isoformat") else str(value)
