"""CREATE TABLE: relations that users change themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.language.cursor import Cursor
from headrace.language.foreign_keys import Declared, ForeignKey, check_declared
from headrace.language.printing import NO_OPTIONS, Options, names_sql, quote_name
from headrace.language.query import Query
from headrace.language.sources import refuse_duplicates
from headrace.language.statement import Column, Statement, columns_sql, storage_sql
from headrace.language.streams import put_once


@dataclass(frozen=True, kw_only=True)
class CreateTable(Statement):
    """``CREATE [NON RETROACTIVE] TABLE``. A retroactive table's change re-joins the past."""

    name_of_statement: ClassVar[str] = "CREATE TABLE"

    name: str
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    retroactive: bool = True
    query: Query | None = None
    options: Options = NO_OPTIONS
    if_not_exists: bool = False
    partition_length: int | None = None
    retain: int | None = None

    def sql(self) -> str:
        words = ["CREATE", "" if self.retroactive else "NON RETROACTIVE", "TABLE"]
        words += ["IF NOT EXISTS" if self.if_not_exists else "", quote_name(self.name)]
        constraints = [f"PRIMARY KEY {names_sql(self.key)}"] if self.key else []
        constraints += [foreign.sql() for foreign in self.foreign_keys]
        if self.columns or constraints:
            words.append(columns_sql(self.columns, *constraints))
        if self.query is not None:
            words.append(f"AS {self.query.sql()}")
        words += storage_sql(self.partition_length, self.retain, self.options)
        return " ".join(word for word in words if word)


def parse_create_table(cursor: Cursor) -> CreateTable:
    place = cursor.place()
    cursor.expect("CREATE")
    found: dict[str, Any] = {"retroactive": not cursor.take("NON", "RETROACTIVE")}
    cursor.expect("TABLE")
    found["if_not_exists"] = cursor.take("IF", "NOT", "EXISTS")
    found["name"] = cursor.name("the name of the table")
    at = cursor.index
    declared = Declared()
    if cursor.at("("):
        cursor.bracketed(lambda: declared.read(cursor))
    columns, keys = tuple(declared.columns), declared.keys
    refuse_duplicates(cursor, columns)
    if cursor.take("AS"):
        found["query"] = cursor.query()
    elif not columns:
        raise cursor.expected("a list of columns or AS", "Write CREATE TABLE t (id INT PRIMARY KEY, name STRING).")
    for column in columns:
        if "query" not in found and not column.type:
            raise cursor.error("MISSING_TYPE", f"The column {column.name} has no type.", at=at)
    while _clause(cursor, found, keys):
        pass
    if len(keys) > 1:
        raise cursor.error("DUPLICATE_CLAUSE", "A table has one primary key.", at=at, hint="PRIMARY KEY (a, b) is one.")
    key = keys[0] if keys else ()
    check_declared(cursor, columns, key, declared.foreign_keys, at)
    return CreateTable(columns=columns, key=key, foreign_keys=tuple(declared.foreign_keys), **found, place=place)


def _clause(cursor: Cursor, found: dict[str, Any], keys: list[tuple[str, ...]]) -> bool:
    at = cursor.index
    if cursor.take("KEY"):
        keys.append(cursor.names() if cursor.at("(") else (cursor.name("a key column"),))
    elif cursor.take("PARTITION", "LENGTH"):
        put_once(cursor, found, "partition_length", cursor.whole_seconds(), at)
    elif cursor.take("RETAIN"):
        put_once(cursor, found, "retain", cursor.duration(), at)
    elif cursor.take("WITH"):
        put_once(cursor, found, "options", cursor.options(), at)
    else:
        return False
    return True
