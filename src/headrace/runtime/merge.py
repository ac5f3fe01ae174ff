"""MERGE: rows of a source matched with a table's, and for each the first clause that applies.

One query joins the two fully, picks the clause, and computes the row as it will be; the log gets the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DefinitionError, InputError
from headrace.language import Merge, MergeClause
from headrace.language.types import arrow_type
from headrace.maintenance.logs import listed, quoted
from headrace.maintenance.relations import Relations
from headrace.runtime.foreign_keys import check_written
from headrace.runtime.home import Home
from headrace.runtime.mutations import (
    BORN,
    apply_updates,
    bound,
    change_time,
    check_born,
    check_not_null,
    check_unique,
    move_clock,
    write_changes,
)
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction

_PRESENT = {
    "matched": "__in_target AND __in_source",
    "not matched": "__in_target IS NULL",
    "not matched by source": "__in_source IS NULL",
}


def merge(home: Home, transaction: Transaction, statement: Merge) -> int:
    """Run a MERGE. Returns the number of rows inserted, changed or deleted."""
    table = transaction.base.find(statement.target, "table")
    relations = home.relations(transaction)
    frames: dict[str, Any] = {}
    source = _source(relations, statement)
    frames["__merge_source"] = source
    frames["__merge_target"] = relations.at(table, None, (BORN,))
    text = _query(relations, table, statement, source.columns, frames)
    found = home.engine.arrow(home.engine.sql(text, frames))
    _check_one_match(table, found)
    time = change_time(home, transaction, statement.at)
    by_action = {
        action: found.filter(pc.equal(found.column("__action"), action)) for action in ("delete", "update", "insert")
    }
    total = _delete(home, transaction, table, by_action["delete"], time)
    total += apply_updates(home, transaction, table, by_action["update"], time)
    total += _insert(home, transaction, table, by_action["insert"], time)
    check_written(transaction, table)
    return total


def _source(relations: Relations, statement: Merge) -> Any:
    if isinstance(statement.source, str):
        return relations.at(relations.source.find(statement.source), None)
    return relations.evaluate(statement.source)


def _query(
    relations: Relations, table: Object, statement: Merge, source_columns: Sequence[str], frames: dict[str, Any]
) -> str:
    target_alias = quoted(statement.target_alias or table.name)
    named = statement.source if isinstance(statement.source, str) else "source"
    source_alias = quoted(statement.source_alias or named)
    which = "CASE"
    for number, clause in enumerate(statement.clauses):
        condition = "" if clause.condition is None else f" AND ({bound(relations, clause.condition, frames)})"
        which += f" WHEN {_PRESENT[clause.kind]}{condition} THEN {number}"
    which += " END"
    values = [
        _new_rows(relations, table, clause, target_alias, source_alias, source_columns, frames)
        for clause in statement.clauses
    ]
    actions = " ".join(f"WHEN {number} THEN '{clause.action}'" for number, clause in enumerate(statement.clauses))
    news = ", ".join(
        "CASE __clause "
        + " ".join(f"WHEN {number} THEN {quoted(f'v{number} {name}')}" for number in range(len(values)))
        + f" END AS {quoted('n ' + name)}"
        for name in table.names
    )
    computed = ", ".join(
        f"{row[name]} AS {quoted(f'v{number} {name}')}" for number, row in enumerate(values) for name in table.names
    )
    olds = ", ".join(f"{target_alias}.{quoted(name)} AS {quoted('o ' + name)}" for name in table.names)
    joined = (
        f"(SELECT *, monotonically_increasing_id() AS __row, true AS __in_target FROM __merge_target) AS {target_alias}"
        f" FULL OUTER JOIN (SELECT *, true AS __in_source FROM __merge_source) AS {source_alias}"
        f" ON {bound(relations, statement.on, frames)}"
    )
    return (
        f"SELECT __row, {BORN}, CASE __clause {actions} END AS __action, {listed(['o ' + n for n in table.names])},"
        f" {news} FROM (SELECT {which} AS __clause, __row, {BORN}, {olds}, {computed} FROM {joined})"
        f" WHERE __clause IS NOT NULL"
    )


def _new_rows(
    relations: Relations,
    table: Object,
    clause: MergeClause,
    target: str,
    source: str,
    source_columns: Sequence[str],
    frames: dict[str, Any],
) -> dict[str, str]:
    """For one clause, the expression of every column afterwards."""
    types = {field.name: field.type for field in table.columns}
    known = {name.lower(): name for name in table.names}
    if clause.action == "delete":
        return dict.fromkeys(table.names, "NULL")
    start = {name: f"{target}.{quoted(name)}" if clause.action == "update" else "NULL" for name in table.names}
    if clause.star:
        given = {name.lower() for name in source_columns}
        found = {name: f"{source}.{quoted(name)}" for name in table.names if name.lower() in given}
    elif clause.action == "update":
        found = {_column(table, known, name): bound(relations, value, frames) for name, value in clause.assignments}
    else:
        columns = clause.columns or table.names
        if len(columns) != len(clause.values):
            raise InputError(
                "WRONG_ROW_LENGTH", f"INSERT names {len(columns)} columns and gives {len(clause.values)} values."
            )
        found = {
            _column(table, known, name): bound(relations, value, frames)
            for name, value in zip(columns, clause.values, strict=True)
        }
    return {name: f"CAST({found.get(name, start[name])} AS {types[name]})" for name in table.names}


def _column(table: Object, known: dict[str, str], name: str) -> str:
    if name.lower() not in known:
        raise DefinitionError(
            "UNKNOWN_COLUMN", f"{table.name} has no column {name}.", hint=f"It has: {', '.join(table.names)}."
        )
    return known[name.lower()]


def _check_one_match(table: Object, found: pa.Table) -> None:
    rows = found.column("__row").drop_null()
    if len(rows) != len(rows.unique()):
        raise InputError(
            "MERGE_AMBIGUOUS",
            f"A row of {table.name} is matched by several rows of the source, and it is unclear which counts.",
            hint="Make the source have one row for each match, with GROUP BY or DISTINCT.",
        )


def _renamed(table: Object, rows: pa.Table, prefix: str) -> pa.Table:
    wanted = pa.schema([(field.name, arrow_type(field.type)) for field in table.columns])
    return rows.select([f"{prefix} {name}" for name in table.names]).rename_columns(list(table.names)).cast(wanted)


def _delete(home: Home, transaction: Transaction, table: Object, rows: pa.Table, time: int) -> int:
    check_born(table, rows.column(BORN), time)
    times = pa.repeat(pa.scalar(time, pa.int64()), rows.num_rows)
    write_changes(transaction, table, _renamed(table, rows, "o"), times, -1)
    move_clock(home, transaction, times)
    return int(rows.num_rows)


def _insert(home: Home, transaction: Transaction, table: Object, rows: pa.Table, time: int) -> int:
    new = _renamed(table, rows, "n")
    check_not_null(table, new)
    if table.key is not None and new.num_rows:
        check_unique(home, transaction, table, new)
    times = pa.repeat(pa.scalar(time, pa.int64()), new.num_rows)
    write_changes(transaction, table, new, times, +1)
    move_clock(home, transaction, times)
    return int(new.num_rows)
