"""INSERT, UPDATE, DELETE and MERGE, each with an optional time at which it takes effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headrace.language.cursor import Cursor
from headrace.language.printing import names_sql, quote_name
from headrace.language.query import Query, Scalar
from headrace.language.statement import Statement
from headrace.language.times import format_seconds

Assignments = tuple[tuple[str, Scalar], ...]


def _at_sql(at: int | None) -> str:
    return "" if at is None else f" AT {format_seconds(at)}"


def _alias_sql(alias: str | None) -> str:
    return "" if alias is None else f" AS {quote_name(alias)}"


def _assignments_sql(assignments: Assignments) -> str:
    return ", ".join(f"{quote_name(name)} = {value.sql()}" for name, value in assignments)


@dataclass(frozen=True)
class InsertRow:
    """One row of VALUES, and when it arrives, in microseconds."""

    values: tuple[Scalar, ...]
    at: int | None = None

    def sql(self) -> str:
        return f"({', '.join(value.sql() for value in self.values)}){_at_sql(self.at)}"


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    """``INSERT INTO t [(columns)] VALUES (...) [AT t], ...`` or ``INSERT INTO t SELECT ... [AT t]``."""

    name_of_statement: ClassVar[str] = "INSERT"

    table: str
    columns: tuple[str, ...] | None = None
    rows: tuple[InsertRow, ...] | None = None
    query: Query | None = None
    at: int | None = None

    def sql(self) -> str:
        columns = f" {names_sql(self.columns)}" if self.columns is not None else ""
        if self.query is not None:
            return f"INSERT INTO {quote_name(self.table)}{columns} {self.query.sql()}{_at_sql(self.at)}"
        rows = ", ".join(row.sql() for row in self.rows or ())
        return f"INSERT INTO {quote_name(self.table)}{columns} VALUES {rows}"


@dataclass(frozen=True, kw_only=True)
class Update(Statement):
    name_of_statement: ClassVar[str] = "UPDATE"

    table: str
    alias: str | None = None
    assignments: Assignments
    where: Scalar | None = None
    at: int | None = None

    def sql(self) -> str:
        where = f" WHERE {self.where.sql()}" if self.where is not None else ""
        target = f"{quote_name(self.table)}{_alias_sql(self.alias)}"
        return f"UPDATE {target} SET {_assignments_sql(self.assignments)}{where}{_at_sql(self.at)}"


@dataclass(frozen=True, kw_only=True)
class Delete(Statement):
    name_of_statement: ClassVar[str] = "DELETE"

    table: str
    alias: str | None = None
    where: Scalar | None = None
    at: int | None = None

    def sql(self) -> str:
        where = f" WHERE {self.where.sql()}" if self.where is not None else ""
        return f"DELETE FROM {quote_name(self.table)}{_alias_sql(self.alias)}{where}{_at_sql(self.at)}"


@dataclass(frozen=True)
class MergeClause:
    """One WHEN of a MERGE. `star` is ``UPDATE SET *`` or ``INSERT *``."""

    kind: str  # matched, not matched, not matched by source
    action: str  # update, delete, insert
    condition: Scalar | None = None
    assignments: Assignments = ()
    columns: tuple[str, ...] = ()
    values: tuple[Scalar, ...] = ()
    star: bool = False

    def sql(self) -> str:
        condition = f" AND {self.condition.sql()}" if self.condition is not None else ""
        return f"WHEN {self.kind.upper()}{condition} THEN {self._action()}"

    def _action(self) -> str:
        if self.action == "delete":
            return "DELETE"
        if self.action == "update":
            return "UPDATE SET *" if self.star else f"UPDATE SET {_assignments_sql(self.assignments)}"
        if self.star:
            return "INSERT *"
        columns = f" {names_sql(self.columns)}" if self.columns else ""
        return f"INSERT{columns} VALUES ({', '.join(value.sql() for value in self.values)})"


@dataclass(frozen=True, kw_only=True)
class Merge(Statement):
    name_of_statement: ClassVar[str] = "MERGE"

    target: str
    target_alias: str | None = None
    source: Query | str
    source_alias: str | None = None
    on: Scalar
    clauses: tuple[MergeClause, ...]
    at: int | None = None

    def sql(self) -> str:
        source = f"({self.source.sql()})" if isinstance(self.source, Query) else quote_name(self.source)
        return (
            f"MERGE INTO {quote_name(self.target)}{_alias_sql(self.target_alias)}"
            f" USING {source}{_alias_sql(self.source_alias)} ON {self.on.sql()} "
            + " ".join(clause.sql() for clause in self.clauses)
            + _at_sql(self.at)
        )


def parse_insert(cursor: Cursor) -> Insert:
    place = cursor.place()
    cursor.expect("INSERT", "INTO", hint="Write INSERT INTO t VALUES (...).")
    cursor.take("TABLE")
    table = cursor.name("a stream or table")
    columns = None
    if cursor.at("(") and not cursor.at_query():
        columns = cursor.names()
    if cursor.take("VALUES"):
        rows = cursor.listed(lambda: _row(cursor, columns))
        return Insert(table=table, columns=columns, rows=rows, place=place)
    if not cursor.at_query():
        raise cursor.expected("VALUES or a query")
    return Insert(table=table, columns=columns, query=cursor.query(), at=_at(cursor), place=place)


def _row(cursor: Cursor, columns: tuple[str, ...] | None) -> InsertRow:
    at = cursor.index
    values = cursor.bracketed(lambda: cursor.scalar("a value"))
    if columns is not None and len(values) != len(columns):
        raise cursor.error(
            "WRONG_NUMBER_OF_VALUES", f"{len(columns)} columns are named, and this row has {len(values)} values.", at=at
        )
    return InsertRow(values, _at(cursor))


def _at(cursor: Cursor) -> int | None:
    return cursor.time() if cursor.take("AT") else None


def _alias(cursor: Cursor, *ends: str) -> str | None:
    if cursor.take("AS"):
        return cursor.name("an alias")
    if cursor.ended or cursor.word() in ends:
        return None
    return cursor.name("an alias")


def _assignments(cursor: Cursor) -> Assignments:
    return cursor.listed(lambda: _assignment(cursor))


def _assignment(cursor: Cursor) -> tuple[str, Scalar]:
    name = cursor.column_name()
    cursor.expect("=")
    return name, cursor.scalar("a value")


def parse_update(cursor: Cursor) -> Update:
    place = cursor.place()
    cursor.expect("UPDATE")
    table = cursor.name("a table")
    alias = _alias(cursor, "SET")
    cursor.expect("SET", hint="Write UPDATE t SET a = 1 WHERE ...")
    assignments = _assignments(cursor)
    where = cursor.scalar("a condition") if cursor.take("WHERE") else None
    return Update(table=table, alias=alias, assignments=assignments, where=where, at=_at(cursor), place=place)


def parse_delete(cursor: Cursor) -> Delete:
    place = cursor.place()
    cursor.expect("DELETE", "FROM", hint="Write DELETE FROM t WHERE ...")
    table = cursor.name("a table")
    alias = _alias(cursor, "WHERE", "AT")
    where = cursor.scalar("a condition") if cursor.take("WHERE") else None
    return Delete(table=table, alias=alias, where=where, at=_at(cursor), place=place)


def parse_merge(cursor: Cursor) -> Merge:
    place = cursor.place()
    cursor.expect("MERGE", "INTO", hint="Write MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *.")
    target = cursor.name("a table")
    target_alias = _alias(cursor, "USING")
    cursor.expect("USING")
    source: Query | str
    if cursor.take("("):
        source = cursor.query()
        cursor.expect(")")
    else:
        source = cursor.name("a relation or a query in parentheses")
    source_alias = _alias(cursor, "ON")
    cursor.expect("ON")
    on = cursor.scalar("a condition")
    clauses = []
    while cursor.at("WHEN"):
        clauses.append(_merge_clause(cursor))
    if not clauses:
        raise cursor.expected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(
        target=target, target_alias=target_alias, source=source, source_alias=source_alias, on=on,
        clauses=tuple(clauses), at=_at(cursor), place=place,
    )  # fmt: skip


def _merge_clause(cursor: Cursor) -> MergeClause:
    cursor.expect("WHEN")
    kind = "not matched" if cursor.take("NOT") else "matched"
    cursor.expect("MATCHED")
    if cursor.take("BY", "SOURCE"):
        if kind == "matched":
            raise cursor.error("MISPLACED_CLAUSE", "BY SOURCE goes with NOT MATCHED.", at=cursor.index - 1)
        kind = "not matched by source"
    else:
        cursor.take("BY", "TARGET")
    condition = cursor.scalar("a condition") if cursor.take("AND") else None
    cursor.expect("THEN")
    if kind == "not matched":
        cursor.expect("INSERT", hint="A row that is not matched can only be inserted.")
        if cursor.take("*"):
            return MergeClause(kind, "insert", condition, star=True)
        columns = cursor.bracketed(cursor.column_name) if cursor.at("(") else ()
        cursor.expect("VALUES")
        values = cursor.bracketed(lambda: cursor.scalar("a value"))
        if columns and len(columns) != len(values):
            raise cursor.error(
                "WRONG_NUMBER_OF_VALUES", f"{len(columns)} columns are named, and {len(values)} values given.",
                at=cursor.index - 1,
            )  # fmt: skip
        return MergeClause(kind, "insert", condition, columns=columns, values=values)
    if cursor.take("DELETE"):
        return MergeClause(kind, "delete", condition)
    cursor.expect("UPDATE", hint="Write UPDATE SET ... or DELETE.")
    cursor.expect("SET")
    if cursor.take("*"):
        return MergeClause(kind, "update", condition, star=True)
    return MergeClause(kind, "update", condition, assignments=_assignments(cursor))
