"""Statements that ask or steer: SELECT, REFRESH, ADVANCE CLOCK, EXPLAIN, EXPECT, SHOW, DESCRIBE, ALTER, DROP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from headrace.language.cursor import Cursor
from headrace.language.printing import Options, options_sql, quote_name
from headrace.language.query import Query
from headrace.language.statement import Statement
from headrace.language.times import format_seconds
from headrace.language.views import MODES, CreateView

EXPLAINS = ("MAINTENANCE", "STATE", "SHARING")
SHOWS = (
    "SOURCES", "STREAMS", "TABLES", "VIEWS", "AGGREGATES", "OBJECTS", "SNAPSHOTS", "PARTS", "REFRESHES", "FEATURES",
    "CLOCK", "OPTIONS",
)  # fmt: skip
OBJECTS = ("SOURCE", "STREAM", "TABLE", "VIEW", "AGGREGATE")
_UNNAMED = ("HOME", "CLOCK")


@dataclass(frozen=True, kw_only=True)
class Select(Statement):
    name_of_statement: ClassVar[str] = "SELECT"

    query: Query

    def sql(self) -> str:
        return self.query.sql()


@dataclass(frozen=True, kw_only=True)
class Refresh(Statement):
    """``REFRESH VIEW v``; without a view, all that are due."""

    name_of_statement: ClassVar[str] = "REFRESH VIEW"

    view: str | None = None

    def sql(self) -> str:
        return "REFRESH" if self.view is None else f"REFRESH VIEW {quote_name(self.view)}"


@dataclass(frozen=True, kw_only=True)
class AdvanceClock(Statement):
    """``ADVANCE CLOCK TO t``; `to` is in microseconds."""

    name_of_statement: ClassVar[str] = "ADVANCE CLOCK"

    to: int

    def sql(self) -> str:
        return f"ADVANCE CLOCK TO {format_seconds(self.to)}"


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """``EXPLAIN [MAINTENANCE | STATE | SHARING]`` of a named object or of a statement."""

    name_of_statement: ClassVar[str] = "EXPLAIN"

    kind: str | None = None
    target: str | None = None
    statement: Statement | None = None

    def sql(self) -> str:
        what = self.statement.sql() if self.statement is not None else quote_name(self.target or "")
        return " ".join(word for word in ("EXPLAIN", self.kind or "", what) if word)


@dataclass(frozen=True, kw_only=True)
class ExplainCreate(Statement):
    """``EXPLAIN CREATE VIEW ...``: how the view would be kept; nothing is made."""

    name_of_statement: ClassVar[str] = "EXPLAIN CREATE VIEW"

    statement: CreateView

    def sql(self) -> str:
        return f"EXPLAIN {self.statement.sql()}"


@dataclass(frozen=True, kw_only=True)
class Expect(Statement):
    """``EXPECT n ROWS INTO t``: a declared prediction of the next change."""

    name_of_statement: ClassVar[str] = "EXPECT"

    rows: int
    table: str

    def sql(self) -> str:
        return f"EXPECT {self.rows} ROWS INTO {quote_name(self.table)}"


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    name_of_statement: ClassVar[str] = "SHOW"

    what: str
    target: str | None = None

    def sql(self) -> str:
        return f"SHOW {self.what}" + (f" FROM {quote_name(self.target)}" if self.target is not None else "")


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    name_of_statement: ClassVar[str] = "DESCRIBE"

    name: str
    extended: bool = False

    def sql(self) -> str:
        return f"DESCRIBE {'EXTENDED ' if self.extended else ''}{quote_name(self.name)}"


@dataclass(frozen=True, kw_only=True)
class Alter(Statement):
    """``ALTER kind name SET (k = v, ...)``; HOME and CLOCK have no name.

    ``ALTER CLOCK SET manual`` sets `mode`, and ``ALTER VIEW v SET REFRESH POLICY FULL`` sets `policy`.
    """

    name_of_statement: ClassVar[str] = "ALTER"

    kind: str
    name: str | None = None
    settings: Options

    def sql(self) -> str:
        name = f" {quote_name(self.name)}" if self.name is not None else ""
        return f"ALTER {self.kind}{name} SET {options_sql(self.settings)}"


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    name_of_statement: ClassVar[str] = "DROP"

    kind: str
    name: str
    cascade: bool = False
    if_exists: bool = False

    def sql(self) -> str:
        exists = "IF EXISTS " if self.if_exists else ""
        return f"DROP {self.kind} {exists}{quote_name(self.name)}{' CASCADE' if self.cascade else ''}"


def parse_select(cursor: Cursor) -> Select:
    place = cursor.place()
    return Select(query=cursor.query(), place=place)


def parse_refresh(cursor: Cursor) -> Refresh:
    place = cursor.place()
    cursor.expect("REFRESH")
    if cursor.ended or cursor.take("ALL") or cursor.take("VIEWS"):
        return Refresh(place=place)
    if not cursor.at_last:
        if cursor.take("MATERIALIZED"):
            cursor.expect("VIEW", hint="Write REFRESH MATERIALIZED VIEW v.")
        else:
            cursor.take("VIEW")
    return Refresh(view=cursor.name("the name of a view"), place=place)


def parse_advance_clock(cursor: Cursor) -> AdvanceClock:
    place = cursor.place()
    cursor.expect("ADVANCE", "CLOCK", "TO", hint="Write ADVANCE CLOCK TO 10 or ADVANCE CLOCK TO '2015-01-01 10:00'.")
    return AdvanceClock(to=cursor.time(), place=place)


def parse_explain(cursor: Cursor, statement: Callable[[Cursor], Statement | None]) -> Explain | ExplainCreate:
    """`statement` reads a statement if one begins here, and gives None where only a name can be meant."""
    place = cursor.place()
    cursor.expect("EXPLAIN")
    kind = None if cursor.at_last else cursor.take_one_of(EXPLAINS)
    inner = None if cursor.at_last else statement(cursor)
    if isinstance(inner, CreateView) and kind is None:
        return ExplainCreate(statement=inner, place=place)
    if inner is not None:
        return Explain(kind=kind, statement=inner, place=place)
    if not cursor.at_last:
        cursor.take_one_of(("MATERIALIZED VIEW", *OBJECTS))
    return Explain(kind=kind, target=cursor.name("the name of an object, or a statement"), place=place)


def parse_expect(cursor: Cursor) -> Expect:
    place = cursor.place()
    cursor.expect("EXPECT")
    rows = cursor.integer("a number of rows")
    if not cursor.take("ROW"):
        cursor.expect("ROWS", hint="Write EXPECT 1000 ROWS INTO t.")
    cursor.expect("INTO", hint="Write EXPECT 1000 ROWS INTO t.")
    return Expect(rows=rows, table=cursor.name("a stream or table"), place=place)


def parse_show(cursor: Cursor) -> Show:
    place = cursor.place()
    cursor.expect("SHOW")
    what = cursor.take_one_of(SHOWS)
    if what is None:
        if cursor.ended:
            raise cursor.expected("what to show", f"One of {', '.join(SHOWS)}.")
        raise cursor.unknown("thing to show", SHOWS)
    target = None
    if cursor.take_one_of(("FROM", "OF", "IN")):
        target = cursor.name("the name of an object")
    elif what == "PARTS":
        raise cursor.expected("FROM", "Write SHOW PARTS FROM name.")
    return Show(what=what, target=target, place=place)


def parse_describe(cursor: Cursor) -> Describe:
    place = cursor.place()
    if not cursor.take("DESC"):
        cursor.expect("DESCRIBE")
    extended = not cursor.at_last and cursor.take("EXTENDED")
    if not cursor.at_last:
        cursor.take_one_of(OBJECTS)
    return Describe(name=cursor.name("the name of an object"), extended=extended, place=place)


def parse_alter(cursor: Cursor) -> Alter:
    place = cursor.place()
    cursor.expect("ALTER")
    kind = _kind(cursor, (*OBJECTS, *_UNNAMED))
    if kind is None:
        raise cursor.unknown("kind of object", (*OBJECTS, *_UNNAMED))
    name = None if kind in _UNNAMED else cursor.name(f"the name of the {kind.lower()}")
    cursor.expect("SET", hint=f"Write ALTER {kind}{'' if name is None else ' ' + name} SET (option = value).")
    if cursor.at("("):
        settings = cursor.options()
        if not settings:
            raise cursor.error("UNEXPECTED_TOKEN", "Expected an option, found none.", at=cursor.index - 1)
    elif kind == "CLOCK" and cursor.word(1) != "=":
        settings = Options({"mode": cursor.name("data, wall or manual").lower()})
    elif kind == "VIEW" and cursor.at("REFRESH") and cursor.word(1) != "=":
        settings = Options({"policy": _refresh_policy(cursor).lower()})
    else:
        settings = _settings(cursor)
    return Alter(kind=kind, name=name, settings=settings, place=place)


def _kind(cursor: Cursor, known: tuple[str, ...]) -> str | None:
    """The kind of object named here. Every view is materialized, so MATERIALIZED VIEW is another word for VIEW."""
    if cursor.take("MATERIALIZED"):
        cursor.expect("VIEW", hint="Only a view is materialized.")
        return "VIEW"
    return cursor.take_one_of(known)


def _refresh_policy(cursor: Cursor) -> str:
    cursor.expect("REFRESH")
    cursor.expect("POLICY", hint="Write SET REFRESH POLICY AUTO. When a view is refreshed is settled by CREATE VIEW.")
    if cursor.ended:
        raise cursor.expected("a refresh policy", f"One of {', '.join(MODES)}.")
    mode = cursor.take_one_of(MODES)
    if mode is None:
        raise cursor.unknown("refresh policy", MODES)
    return mode


def _settings(cursor: Cursor) -> Options:
    found = {}
    for key, value, at in cursor.listed(lambda: _setting(cursor)):
        if key in found:
            raise cursor.error("DUPLICATE_OPTION", f"The option {key} is given twice.", at=at)
        found[key] = value
    return Options(found)


def _setting(cursor: Cursor) -> tuple[str, str | int | float | bool, int]:
    at = cursor.index
    key = cursor.option_key().lower()
    cursor.expect("=", hint=f"Write SET {key} = value.")
    return key, cursor.option_value(), at


def parse_drop(cursor: Cursor) -> Drop:
    place = cursor.place()
    cursor.expect("DROP")
    kind = _kind(cursor, OBJECTS)
    if kind is None:
        if cursor.ended:
            raise cursor.expected("what to drop", f"One of {', '.join(OBJECTS)}.")
        raise cursor.unknown("kind of object", OBJECTS)
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name(f"the name of the {kind.lower()}")
    cascade = cursor.take("CASCADE")
    if not cascade:
        cursor.take("RESTRICT")
    return Drop(kind=kind, name=name, cascade=cascade, if_exists=if_exists, place=place)
