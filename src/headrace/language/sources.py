"""REGISTER SOURCE, and the connectors that say where rows come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sqlglot.tokens import TokenType

from headrace.language.cursor import Cursor
from headrace.language.printing import NO_OPTIONS, FrozenMap, Options, options_sql, quote_name, quote_string
from headrace.language.statement import Column, Statement, columns_sql

CONNECTORS = ("MEMORY", "FILES", "PORT", "RATE", "STREAMING", "KAFKA", "POSTGRES")
_PORT = re.compile(r"port\s*(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Connector:
    """Where rows come from. What `arguments` holds depends on `kind`.

    FILES: glob, format. PORT: port, and host and format where given. RATE: rows_per_second. STREAMING: format, options.
    KAFKA and POSTGRES: options. MEMORY: nothing.
    """

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=FrozenMap)

    def sql(self) -> str:
        given = self.arguments
        match self.kind:
            case "FILES":
                return f"FILES {quote_string(given['glob'])} FORMAT {given['format']}"
            case "PORT":
                host = f" HOST {quote_string(given['host'])}" if "host" in given else ""
                return f"PORT {given['port']}{host}" + (f" FORMAT {given['format']}" if "format" in given else "")
            case "RATE":
                return f"RATE {given['rows_per_second']}"
            case "STREAMING":
                return f"STREAMING {quote_string(given['format'])} OPTIONS {options_sql(given['options'])}"
            case "KAFKA" | "POSTGRES":
                return f"{self.kind} OPTIONS {options_sql(given['options'])}"
        return self.kind


@dataclass(frozen=True, kw_only=True)
class RegisterSource(Statement):
    """``REGISTER SOURCE s (cols) FROM connector [WITH (...)]``."""

    name_of_statement: ClassVar[str] = "REGISTER SOURCE"

    name: str
    columns: tuple[Column, ...]
    connector: Connector
    options: Options = NO_OPTIONS

    def sql(self) -> str:
        words = ["REGISTER SOURCE", quote_name(self.name), columns_sql(self.columns), "FROM", self.connector.sql()]
        if self.options:
            words.append(f"WITH {options_sql(self.options)}")
        return " ".join(words)


def parse_register_source(cursor: Cursor) -> RegisterSource:
    place = cursor.place()
    cursor.expect("REGISTER", "SOURCE", hint="Write REGISTER SOURCE s (id INT, ...) FROM MEMORY.")
    name = cursor.name("the name of the source")
    columns = cursor.bracketed(cursor.column)
    refuse_duplicates(cursor, columns)
    cursor.expect("FROM", hint=f"Say where rows come from: FROM {' | '.join(CONNECTORS)}.")
    connector = parse_connector(cursor)
    options = cursor.options() if cursor.take("WITH") else NO_OPTIONS
    return RegisterSource(name=name, columns=columns, connector=connector, options=options, place=place)


def refuse_duplicates(cursor: Cursor, columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise cursor.error("DUPLICATE_COLUMN", f"The column {column.name} is declared twice.", at=cursor.index - 1)
        seen.add(column.name.lower())


def parse_connector(cursor: Cursor) -> Connector:
    """What follows FROM in REGISTER SOURCE, or SOURCE in CREATE STREAM."""
    if (port := _port_word(cursor)) is not None:
        return _after_port(cursor, port)
    kind = cursor.take_one_of(CONNECTORS)
    if kind is None:
        if cursor.ended:
            raise cursor.expected("where rows come from", f"One of {', '.join(CONNECTORS)}.")
        raise cursor.unknown("connector", CONNECTORS)
    match kind:
        case "PORT":
            return _after_port(cursor, cursor.positive("a port number"))
        case "FILES":
            glob = cursor.string("a path such as 'data/*.json'")
            cursor.expect("FORMAT", hint="Write FORMAT json, csv or parquet.")
            return Connector(kind, FrozenMap({"glob": glob, "format": _format(cursor, ("json", "csv", "parquet"))}))
        case "RATE":
            return Connector(kind, FrozenMap({"rows_per_second": cursor.positive("rows per second")}))
        case "STREAMING":
            name = cursor.string("the name of a Structured Streaming source, such as 'rate'")
            options = cursor.options(keep_case=True) if cursor.take("OPTIONS") else NO_OPTIONS
            return Connector(kind, FrozenMap({"format": name, "options": options}))
        case "KAFKA" | "POSTGRES":
            cursor.expect("OPTIONS", hint=f"Write {kind} OPTIONS (name = 'value', ...).")
            return Connector(kind, FrozenMap({"options": cursor.options(keep_case=True)}))
    return Connector(kind)


def _port_word(cursor: Cursor) -> int | None:
    """``port5501`` and ``'port5501'``, the papers' spellings."""
    token = cursor.token()
    if token is None or token.token_type not in (TokenType.VAR, TokenType.STRING):
        return None
    found = _PORT.fullmatch(token.text.strip())
    if found is None:
        return None
    cursor.advance()
    return int(found.group(1))


def _after_port(cursor: Cursor, port: int) -> Connector:
    if not 0 < port < 65536:
        raise cursor.error("BAD_NUMBER", f"{port} is not a port: ports are 1 to 65535.", at=cursor.index - 1)
    arguments: dict[str, Any] = {"port": port}
    if cursor.take("HOST"):
        arguments["host"] = cursor.string("a host name")
    if cursor.take("FORMAT"):
        arguments["format"] = _format(cursor, ("json", "csv"))
    return Connector("PORT", FrozenMap(arguments))


def _format(cursor: Cursor, known: tuple[str, ...]) -> str:
    token = cursor.token()
    written = token.text.lower() if token is not None else ""
    if written not in known:
        raise cursor.unknown("format", known)
    cursor.advance()
    return written
