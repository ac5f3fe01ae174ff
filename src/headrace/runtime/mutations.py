"""INSERT, UPDATE and DELETE: rows changed by hand, each statement one transaction.

A change takes effect `AT` the given time, else at the clock. Rows inserted into a source or a stream arrive there like
any others; rows of a table go into its log as upserts (with a primary key) or signed rows (without).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DefinitionError, InputError
from headrace.language import Delete, Insert, Scalar, Update, format_time
from headrace.language.types import arrow_type
from headrace.maintenance.logs import listed, quoted
from headrace.maintenance.relations import Relations
from headrace.runtime.arrival import UNIT_SIZE
from headrace.runtime.foreign_keys import check_written
from headrace.runtime.home import Home
from headrace.runtime.key_checks import NEVER, can_look_up, distinct, present_since, stored_log
from headrace.runtime.landing import arrival_times, land_rows, streams_over
from headrace.runtime.rows import to_table
from headrace.storage.catalog import now_micros
from headrace.storage.records import Field, Object
from headrace.storage.transactions import Transaction
from headrace.storage.writer import write_table

#: The time a row was born, beside the row itself.
BORN = "__t"


def insert(home: Home, transaction: Transaction, statement: Insert) -> int:
    """Run an INSERT. Returns the number of rows."""
    target = transaction.base.find(statement.table, "source", "stream", "table")
    fields = input_fields(target)
    chosen = _chosen(target, fields, statement.columns)
    if statement.query is not None:
        given = home.engine.arrow(home.relations(transaction).evaluate(statement.query))
        _check_width(target, chosen, given.num_columns)
        rows = to_table(given.rename_columns([field.name for field in chosen]), chosen)
        times: list[int | None] | None = None if statement.at is None else [statement.at] * rows.num_rows
    else:
        rows = _values(home, target, chosen, statement)
        times = _given_times(statement)
    missing = [field for field in fields if field not in chosen]
    for field in missing:
        rows = rows.append_column(field.name, pa.nulls(rows.num_rows, arrow_type(field.type)))
    return put(home, transaction, target, rows.select([f.name for f in fields]), times, statement.query is not None)


def _given_times(statement: Insert) -> list[int | None]:
    """Each row's own AT; one that stands only at the very end holds for all rows."""
    given = [row.at for row in statement.rows or ()]
    if given and given[-1] is not None and all(time is None for time in given[:-1]):
        return [given[-1]] * len(given)
    return [statement.at if time is None else time for time in given]


def put(
    home: Home,
    transaction: Transaction,
    target: Object,
    rows: pa.Table,
    times: Sequence[int | None] | None,
    together: bool,
) -> int:
    """Put rows with the target's input columns into a source's streams, a stream or a table."""
    mode = home.clock_mode
    if target.kind == "table":
        return _insert_into_table(home, transaction, target, rows, times)
    streams = streams_taking(transaction, target)
    arrived = arrival_times(transaction, mode, rows.num_rows, times)
    return max(land_rows(transaction, stream, rows, arrived, mode, together=together) for stream in streams)


def streams_taking(transaction: Transaction, target: Object) -> list[Object]:
    """The streams that rows put into a source or a stream go to."""
    if target.maintained:
        raise DefinitionError("NOT_INSERTABLE", f"{target.name} follows from its query; insert into what it reads.")
    streams = streams_over(transaction.base, target) if target.kind == "source" else [target]
    if not streams:
        raise DefinitionError(
            "NO_STREAM",
            f"No stream takes rows from {target.name}, so they would be lost.",
            hint=f"CREATE STREAM s OVER {target.name} KEY NULL first.",
        )
    return streams


def input_fields(target: Object) -> tuple[Field, ...]:
    """The columns a row has on its way into `target`."""
    if target.kind == "stream" and target.option("declared"):
        return tuple(Field(**field) for field in target.option("declared"))
    return target.columns


def optional_names(target: Object) -> list[str]:
    """Columns a row may leave out because we fill them."""
    return [target.time_column] if target.time_kind == "internal" and target.time_column else []


def _chosen(target: Object, fields: Sequence[Field], names: Sequence[str] | None) -> list[Field]:
    if names is None:
        return list(fields)
    known = {field.name.lower(): field for field in fields}
    for name in names:
        if name.lower() not in known:
            raise DefinitionError(
                "UNKNOWN_COLUMN",
                f"{target.name} has no column {name}.",
                hint=f"It has: {', '.join(field.name for field in fields)}.",
            )
    return [known[name.lower()] for name in names]


def _check_width(target: Object, chosen: Sequence[Field], width: int) -> None:
    if width != len(chosen):
        raise InputError(
            "WRONG_ROW_LENGTH",
            f"The query gives {width} columns; {target.name} takes {len(chosen)}: "
            f"{', '.join(field.name for field in chosen)}.",
        )


def _values(home: Home, target: Object, chosen: Sequence[Field], statement: Insert) -> pa.Table:
    rows = []
    for row in statement.rows or ():
        literals = [value.literal() for value in row.values]
        if all(known for known, _value in literals):
            rows.append([value for _known, value in literals])
        else:
            rows.append(_computed(home, row.values))
    return to_table(rows, chosen, optional=optional_names(target))


def _computed(home: Home, values: Sequence[Scalar]) -> list[Any]:
    text = ", ".join(f"{value.to_spark()} AS c{number}" for number, value in enumerate(values))
    return list(home.engine.arrow(home.engine.sql(f"SELECT {text}")).to_pylist()[0].values())


def _insert_into_table(
    home: Home, transaction: Transaction, table: Object, rows: pa.Table, times: Sequence[int | None] | None
) -> int:
    now = change_time(home, transaction, None)
    taken = pa.array([now if time is None else time for time in times] if times else [now] * rows.num_rows, pa.int64())
    check_not_null(table, rows)
    if table.key is not None:
        check_unique(home, transaction, table, rows)
    write_changes(transaction, table, rows, taken, +1)
    check_written(transaction, table)
    move_clock(home, transaction, taken)
    return int(rows.num_rows)


def apply_operations(
    home: Home, transaction: Transaction, table: Object, rows: pa.Table, deletes: pa.Array, times: pa.Array
) -> int:
    """Put rows into a table with a key as a stream of changes would: a row replaces that of its key, or deletes it.

    Rows go to the log as they are, in their order, and nothing is looked up: a key may be new or not, and come twice.
    """
    kept = rows.filter(pc.invert(deletes))
    check_not_null(table, kept)
    write_changes(transaction, table, rows, times, pc.if_else(deletes, -1, 1))
    check_written(transaction, table)
    move_clock(home, transaction, times)
    return int(rows.num_rows)


def check_not_null(table: Object, rows: pa.Table) -> None:
    """Refuse NULL where the table says NOT NULL."""
    for field in table.columns:
        if field.not_null and rows.column(field.name).null_count:
            raise InputError("NULL_VALUE", f"{table.name}.{field.name} is NOT NULL, and a row has NULL there.")


def check_unique(home: Home, transaction: Transaction, table: Object, rows: pa.Table) -> None:
    """Refuse rows whose key is there already, or twice among them."""
    key = list(table.key or ())
    counts = rows.select(key).append_column("__one", pa.array(np.ones(rows.num_rows, dtype=np.int64)))
    grouped = counts.group_by(key).aggregate([("__one", "sum")])
    twice = grouped.filter(pc.greater(grouped.column("__one_sum"), 1))
    if twice.num_rows:
        raise _duplicate(table, twice.select(key).to_pylist()[0])
    if not transaction.parts(table) or not rows.num_rows:
        return
    # Also rows that wait for the clock: they will be there.
    if can_look_up([field for field in table.columns if field.name in key]):
        # Only the new keys are looked up, and only key columns are read.
        wanted = distinct(rows.select(key))
        there = np.flatnonzero(present_since(stored_log(transaction, table), wanted) != NEVER)
        if len(there):
            raise _duplicate(table, wanted.slice(int(there[0]), 1).to_pylist()[0])
        return
    relation = home.logs.relation(table, transaction.parts(table), None)
    same = " AND ".join(f"old_rows.{quoted(name)} <=> new_rows.{quoted(name)}" for name in key)
    text = f"SELECT {listed(key)} FROM old_rows LEFT SEMI JOIN new_rows ON {same} LIMIT 1"
    frames = {"old_rows": relation, "new_rows": home.engine.frame(rows.select(key))}
    found = home.engine.arrow(home.engine.sql(text, frames))
    if found.num_rows:
        raise _duplicate(table, found.to_pylist()[0])


def _duplicate(table: Object, key: Mapping[str, Any]) -> InputError:
    shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
    return InputError(
        "DUPLICATE_KEY",
        f"{table.name} can have one row with {shown}.",
        detail="None of the rows was taken in.",
        hint="UPDATE the row, or use MERGE to insert or update.",
    )


def update(home: Home, transaction: Transaction, statement: Update) -> int:
    """Run an UPDATE. Returns the number of rows that changed."""
    table = _changeable(transaction, statement.table, "updated")
    relations = home.relations(transaction)
    known = {name.lower(): name for name in table.names}
    new: dict[str, str] = {}
    frames: dict[str, Any] = {}
    for column, value in statement.assignments:
        if column.lower() not in known:
            raise DefinitionError(
                "UNKNOWN_COLUMN", f"{table.name} has no column {column}.", hint=f"It has: {', '.join(table.names)}."
            )
        new[known[column.lower()]] = bound(relations, value, frames)
    types = {field.name: field.type for field in table.columns}
    values = ", ".join(
        f"CAST({new[name]} AS {types[name]}) AS {quoted('n ' + name)}"
        if name in new
        else f"{quoted('o ' + name)} AS {quoted('n ' + name)}"
        for name in table.names
    )
    where = "" if statement.where is None else f" WHERE {bound(relations, statement.where, frames)}"
    # The row's own columns must be visible under their names, and kept as they were.
    olds = ", ".join(f"{quoted(name)} AS {quoted('o ' + name)}" for name in table.names)
    frames["__target_rows"] = home.engine.sql(
        f"SELECT *, {olds} FROM __target_rows", {"__target_rows": _current(relations, table)}
    )
    alias = quoted(statement.alias or table.name)
    both = home.engine.arrow(
        home.engine.sql(
            f"SELECT {listed(['o ' + n for n in table.names])}, {values}, {BORN} FROM __target_rows AS {alias}{where}",
            frames,
        )
    )
    count = apply_updates(home, transaction, table, both, change_time(home, transaction, statement.at))
    check_written(transaction, table)
    return count


def apply_updates(home: Home, transaction: Transaction, table: Object, both: pa.Table, time: int) -> int:
    """Write the rows of `both` (columns `o name` before, `n name` after, `__t` their birth) that really differ."""
    wanted = pa.schema([(field.name, arrow_type(field.type)) for field in table.columns])
    old = both.select([f"o {name}" for name in table.names]).rename_columns(list(table.names)).cast(wanted)
    new = both.select([f"n {name}" for name in table.names]).rename_columns(list(table.names)).cast(wanted)
    differs = _differ(old, new)
    old, new = old.filter(pa.array(differs)), new.filter(pa.array(differs))
    check_born(table, both.column(BORN).filter(pa.array(differs)), time)
    check_not_null(table, new)
    times = pa.repeat(pa.scalar(time, pa.int64()), new.num_rows)
    if table.key is not None and old.select(list(table.key)).equals(new.select(list(table.key))):
        write_changes(transaction, table, new, times, +1)
    else:
        write_changes(transaction, table, old, times, -1)
        if table.key is not None:
            check_unique(home, transaction, table, new)
        write_changes(transaction, table, new, times, +1)
    move_clock(home, transaction, times)
    return int(new.num_rows)


def _differ(old: pa.Table, new: pa.Table) -> np.ndarray:
    """Which rows are another than they were; NULL is the same as NULL."""
    found = np.zeros(old.num_rows, dtype=bool)
    for before, after in zip(old.columns, new.columns, strict=True):
        if pa.types.is_nested(before.type):
            pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
            found |= np.fromiter((a != b for a, b in pairs), dtype=bool, count=old.num_rows)
            continue
        unequal = pc.fill_null(pc.not_equal(before, after), False)
        appeared = pc.xor(pc.is_null(before), pc.is_null(after))
        found |= np.asarray(pc.or_(unequal, appeared).to_numpy(), dtype=bool)
    return found


def delete(home: Home, transaction: Transaction, statement: Delete) -> int:
    """Run a DELETE. Returns the number of rows that went."""
    table = _changeable(transaction, statement.table, "deleted from")
    relations = home.relations(transaction)
    frames: dict[str, Any] = {}
    where = "" if statement.where is None else f" WHERE {bound(relations, statement.where, frames)}"
    frames["__target_rows"] = _current(relations, table)
    alias = quoted(statement.alias or table.name)
    text = f"SELECT {listed(table.names)}, {BORN} FROM __target_rows AS {alias}{where}"
    gone = home.engine.arrow(home.engine.sql(text, frames))
    time = change_time(home, transaction, statement.at)
    check_born(table, gone.column(BORN), time)
    times = pa.repeat(pa.scalar(time, pa.int64()), gone.num_rows)
    write_changes(transaction, table, gone, times, -1)
    check_written(transaction, table)
    move_clock(home, transaction, times)
    return int(gone.num_rows)


def _current(relations: Relations, table: Object) -> Any:
    return relations.at(table, None, (BORN,)).select(*[quoted(name) for name in (*table.names, BORN)])


def check_born(table: Object, births: pa.ChunkedArray, time: int) -> None:
    """Refuse to change or delete rows at a time before they were there: weights would fall below zero."""
    newest = pc.max(births).as_py()
    if newest is not None and newest > time:
        raise InputError(
            "NOT_THERE_YET",
            f"{table.name} got a row at {format_time(newest)}; it cannot be changed or deleted AT {format_time(time)}.",
            detail="None of the rows was changed.",
            hint="Leave out AT, or give a later time.",
        )


def bound(relations: Relations, value: Scalar, frames: dict[str, Any]) -> str:
    """Spark text of an expression, with a frame for every relation its subqueries read."""
    names = []
    for ref in value.relations():
        # Names that no column has: what stands beside it may be any of the statement's expressions.
        name = f"__inner_{len(frames)}"
        frames[name] = relations.at(relations.source.find(ref.name), None)
        names.append(name)
    return value.to_spark(names)


def _changeable(transaction: Transaction, name: str, what: str) -> Object:
    item = transaction.base.find(name)
    if item.kind == "table" or (item.kind == "stream" and item.log == "upsert"):
        return item
    reason = {
        "view": "it follows from its query",
        "source": "it is a raw source",
        "stream": "it only grows: it has no key",
    }[item.kind]
    raise DefinitionError("NOT_CHANGEABLE", f"{item.name} cannot be {what}: {reason}.")


def write_changes(
    transaction: Transaction, item: Object, rows: pa.Table, times: pa.Array, weight: int | pa.ChunkedArray
) -> None:
    """Add rows to a table's (or keyed stream's) log as inserted (+1) or deleted (-1): all of them, or each its own."""
    if not rows.num_rows:
        return
    wanted = pa.schema([(field.name, arrow_type(field.type)) for field in item.columns])
    rows = rows.select(list(item.names)).cast(wanted).append_column("__t", times)
    weights = pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows) if isinstance(weight, int) else weight
    inserted = pc.greater(weights, 0)
    if item.log == "signed":
        rows = rows.append_column("__w", weights)
    else:
        progress = transaction.progress(item)
        sequence = progress.next_unit * UNIT_SIZE + np.arange(rows.num_rows, dtype=np.int64)
        rows = rows.append_column("__seq", pa.array(sequence))
        rows = rows.append_column("__op", pc.if_else(inserted, "+", "-"))
        newest = max(int(pc.max(times).as_py()), progress.newest if progress.newest is not None else -(1 << 62))
        transaction.set_progress(item, replace(progress, next_unit=progress.next_unit + 1, newest=newest))
    write_table(transaction, item, rows, inserts_only=bool(pc.all(inserted).as_py()))


def change_time(home: Home, transaction: Transaction, at: int | None) -> int:
    """When a change by hand takes effect."""
    if at is not None:
        return at
    if home.clock_mode == "wall":
        return now_micros()
    return (transaction.advanced_to if home.clock_mode == "manual" else transaction.clock) or 0


def move_clock(home: Home, transaction: Transaction, times: pa.Array) -> None:
    """In data mode a change by hand is an event like any other."""
    if home.clock_mode == "data" and len(times):
        newest = int(pc.max(times).as_py())
        if transaction.clock is None or newest > transaction.clock:
            transaction.clock = newest
