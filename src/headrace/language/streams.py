"""CREATE STREAM, in its three forms: over a source, with columns of its own, and from a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot.tokens import TokenType

from headrace.language.cursor import Cursor
from headrace.language.foreign_keys import Declared, ForeignKey, check_declared, parse_foreign_key
from headrace.language.printing import NO_OPTIONS, Options, OptionValue, names_sql, quote_name
from headrace.language.query import Query
from headrace.language.sources import Connector, parse_connector, refuse_duplicates
from headrace.language.statement import Column, Statement, columns_sql, storage_sql
from headrace.language.times import format_duration, parse_duration

LATE = ("DIVERT", "DROP", "MERGE")


@dataclass(frozen=True, kw_only=True)
class CreateStream(Statement):
    """``CREATE STREAM``. Exactly one of `over`, `query` or typed `columns` tells what the stream is.

    `key` is None when the statement says nothing of it and empty for KEY NULL. Columns before a query have no types.
    """

    name_of_statement: ClassVar[str] = "CREATE STREAM"

    name: str
    columns: tuple[Column, ...] | None = None
    over: str | None = None
    source: Connector | None = None
    query: Query | None = None
    key: tuple[str, ...] | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    order_by: str | None = None
    slack: int | None = None
    late: str | None = None
    partition_length: int | None = None
    retain: int | None = None
    options: Options = NO_OPTIONS
    if_not_exists: bool = False

    def sql(self) -> str:
        words = ["CREATE STREAM", "IF NOT EXISTS" if self.if_not_exists else "", quote_name(self.name)]
        if self.columns is not None:
            words.append(columns_sql(self.columns))
        if self.over is not None:
            words.append(f"OVER {quote_name(self.over)}")
        if self.query is not None:
            words.append(f"AS {self.query.sql()}")
        if self.key is not None:
            words.append(f"KEY {names_sql(self.key)}" if self.key else "KEY NULL")
        words += [foreign.sql() for foreign in self.foreign_keys]
        if self.order_by is not None:
            words.append(f"ORDER BY {quote_name(self.order_by)}")
        if self.source is not None:
            words.append(f"SOURCE {self.source.sql()}")
        if self.slack is not None:
            words.append(f"SLACK {format_duration(self.slack)}")
        if self.late is not None:
            words.append(f"LATE {self.late}")
        words += storage_sql(self.partition_length, self.retain, self.options)
        return " ".join(word for word in words if word)


def parse_create_stream(cursor: Cursor) -> CreateStream:
    place = cursor.place()
    cursor.expect("CREATE", "STREAM")
    found: dict[str, Any] = {"if_not_exists": cursor.take("IF", "NOT", "EXISTS")}
    found["name"] = cursor.name("the name of the stream")
    at = cursor.index
    declared = Declared()
    if cursor.at("("):
        cursor.bracketed(lambda: declared.read(cursor))
        if not declared.columns:
            raise cursor.error("UNEXPECTED_TOKEN", "Expected columns, found only keys.", at=at)
        found["columns"] = tuple(declared.columns)
        refuse_duplicates(cursor, found["columns"])
    if cursor.take("OVER"):
        if "columns" in found:
            raise cursor.error(
                "MISPLACED_CLAUSE", "A stream over a source has the source's columns.", at=at,
                hint="Leave out the column list, or leave out OVER.",
            )  # fmt: skip
        found["over"] = cursor.name("the name of a source")
    elif cursor.take("AS"):
        found["query"] = cursor.query()
    elif "columns" not in found:
        raise cursor.expected(
            "OVER, AS or a list of columns",
            "Write CREATE STREAM t OVER source KEY (k), CREATE STREAM t (id INT, ...) or CREATE STREAM t AS SELECT ...",
        )
    _check_column_types(cursor, found, at)
    for key in declared.keys:
        put_once(cursor, found, "key", key, at)
    while _clause(cursor, found, declared):
        pass
    if "query" in found and (declared.keys or declared.foreign_keys):
        raise cursor.error(
            "MISPLACED_CLAUSE", "A stream AS SELECT takes its key from its query, and has no foreign keys.", at=at,
            hint="Declare them on the streams and tables the query reads.",
        )  # fmt: skip
    # KEY (k) behind the list is checked when the stream is made; what stands in the list, or names columns of it, here.
    key = declared.keys[0] if declared.keys else ()
    check_declared(cursor, found.get("columns") or (), key, declared.foreign_keys, at)
    return CreateStream(**found, foreign_keys=tuple(declared.foreign_keys), place=place)


def _check_column_types(cursor: Cursor, found: dict[str, Any], at: int) -> None:
    for column in found.get("columns") or ():
        if "query" not in found and not column.type:
            raise cursor.error(
                "MISSING_TYPE", f"The column {column.name} has no type.", at=at,
                hint="Only a stream AS SELECT takes its types from elsewhere.",
            )  # fmt: skip
        if "query" in found and column.type:
            raise cursor.error(
                "MISPLACED_TYPE", f"The column {column.name} takes its type from the query.", at=at,
                hint="Write the name alone, and CAST in the query if another type is wanted.",
            )  # fmt: skip


def _clause(cursor: Cursor, found: dict[str, Any], declared: Declared) -> bool:
    """Read one tail clause, in any order; each at most once, but for FOREIGN KEY."""
    at = cursor.index
    key: str
    value: Any
    if cursor.take("FOREIGN KEY"):
        declared.foreign_keys.append(parse_foreign_key(cursor))
        return True
    if cursor.take("KEY") or cursor.take("PRIMARY KEY"):
        key, value = "key", _key(cursor)
    elif cursor.take("ORDER BY"):
        key, value = "order_by", cursor.name("a timestamp column")
    elif cursor.at("SOURCE") or (cursor.at(";", "SOURCE") and cursor.kind(2) == TokenType.STRING):
        # ESL prints a semicolon before SOURCE; the clause belongs to the statement all the same.
        cursor.take(";")
        cursor.expect("SOURCE")
        if "over" in found or "query" in found:
            raise cursor.error("MISPLACED_CLAUSE", "SOURCE is for a stream with columns of its own.", at=at)
        key, value = "source", parse_connector(cursor)
    elif cursor.take("SLACK"):
        key, value = "slack", cursor.duration()
    elif cursor.take("LATE"):
        key, value = "late", _late(cursor)
    elif cursor.take("PARTITION", "LENGTH"):
        key, value = "partition_length", cursor.whole_seconds()
    elif cursor.take("RETAIN"):
        key, value = "retain", cursor.duration()
    elif cursor.take("WITH"):
        key, value = "options", _options(cursor, found)
    else:
        return False
    put_once(cursor, found, key, value, at)
    return True


def put_once(cursor: Cursor, found: dict[str, Any], key: str, value: Any, at: int) -> None:
    if key in found:
        raise cursor.error("DUPLICATE_CLAUSE", f"{key.replace('_', ' ').upper()} is given twice.", at=at)
    found[key] = value


def _key(cursor: Cursor) -> tuple[str, ...]:
    if cursor.take("NULL"):
        return ()
    return cursor.names() if cursor.at("(") else (cursor.name("a key column, a list of them, or NULL"),)


def _late(cursor: Cursor) -> str:
    found = cursor.take_one_of(LATE)
    if found is None:
        raise cursor.unknown("policy for late rows", LATE)
    return found


def _options(cursor: Cursor, found: dict[str, Any]) -> Options:
    """WITH (...): slack and late become the fields they are, the rest stay options."""
    at = cursor.index
    options: dict[str, OptionValue] = dict(cursor.options())
    if "slack" in options:
        given = options.pop("slack")
        if isinstance(given, bool):
            raise cursor.error("BAD_DURATION", "slack is a length of time.", at=at)
        put_once(cursor, found, "slack", cursor.placed(lambda: parse_duration(given), at), at)
    if "late" in options:
        word = str(options.pop("late")).upper()
        if word not in LATE:
            raise cursor.error("UNKNOWN_POLICY_FOR_LATE_ROWS", f"late is one of {', '.join(LATE)}, not {word}.", at=at)
        put_once(cursor, found, "late", word, at)
    return Options(options)
