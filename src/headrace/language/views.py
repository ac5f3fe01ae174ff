"""CREATE VIEW: by a query, or by a view delta function that tells how one part follows from the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from headrace.language.cursor import Cursor
from headrace.language.printing import NO_OPTIONS, Options, names_sql, quote_name
from headrace.language.query import Query
from headrace.language.statement import Statement, storage_sql
from headrace.language.streams import put_once
from headrace.language.times import format_duration

MODES = ("AUTO", "INCREMENTAL STRICT", "INCREMENTAL", "FULL")


@dataclass(frozen=True)
class Trigger:
    """What causes a refresh: ``every`` so much time, ``after`` so many rows, ``on`` a stream's event, or ``demand``."""

    kind: str
    every: int | None = None
    rows: int | None = None
    stream: str | None = None

    def sql(self) -> str:
        if self.every is not None:
            return f"EVERY {format_duration(self.every)}"
        if self.rows is not None:
            return f"AFTER {self.rows} ROWS"
        return f"ON {quote_name(self.stream)}" if self.stream is not None else "ON DEMAND"


@dataclass(frozen=True)
class RefreshPolicy:
    """When a view is refreshed (any of the triggers), and in which way it may be."""

    triggers: tuple[Trigger, ...] = ()
    mode: str | None = None

    def sql(self) -> str:
        words = []
        if self.triggers:
            words.append("REFRESH " + " OR ".join(trigger.sql() for trigger in self.triggers))
        if self.mode is not None:
            words.append(f"REFRESH POLICY {self.mode}")
        return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class CreateView(Statement):
    """``CREATE [STREAMED | COMPLETE] VIEW v AS query`` and its tail clauses.

    STREAMED or COMPLETE written in the query's SELECT is moved to `output`.
    """

    name_of_statement: ClassVar[str] = "CREATE VIEW"

    name: str
    query: Query
    output: str | None = None
    columns: tuple[str, ...] | None = None
    sync_by: str | None = None
    refresh: RefreshPolicy | None = None
    partition_length: int | None = None
    retain: int | None = None
    options: Options = NO_OPTIONS
    or_replace: bool = False
    if_not_exists: bool = False
    materialized: bool = False

    def sql(self) -> str:
        words = ["CREATE", "OR REPLACE" if self.or_replace else "", self.output or ""]
        words += ["MATERIALIZED" if self.materialized else "", "VIEW", "IF NOT EXISTS" if self.if_not_exists else ""]
        words.append(quote_name(self.name))
        if self.columns is not None:
            words.append(names_sql(self.columns))
        words.append(f"AS {self.query.sql()}")
        if self.sync_by is not None:
            words.append(f"SYNC BY {quote_name(self.sync_by)}")
        if self.refresh is not None:
            words.append(self.refresh.sql())
        words += storage_sql(self.partition_length, self.retain, self.options)
        return " ".join(word for word in words if word)


@dataclass(frozen=True, kw_only=True)
class CreateViews(Statement):
    """``CREATE VIEWS (CREATE VIEW ...; CREATE VIEW ...)``: views that are declared together."""

    name_of_statement: ClassVar[str] = "CREATE VIEWS"

    views: tuple[CreateView, ...]

    def sql(self) -> str:
        return f"CREATE VIEWS ({'; '.join(view.sql() for view in self.views)})"


@dataclass(frozen=True, kw_only=True)
class CreateViewDelta(Statement):
    """``CREATE VIEW v AS INITIALIZE v[i] AS query UPDATE v[j] AS query PARTITION LENGTH n``."""

    name_of_statement: ClassVar[str] = "CREATE VIEW ... INITIALIZE"

    name: str
    initialize: Query
    initialize_index: str
    update: Query
    update_index: str
    partition_length: int
    retain: int | None = None
    options: Options = NO_OPTIONS
    or_replace: bool = False
    if_not_exists: bool = False

    def sql(self) -> str:
        name = quote_name(self.name)
        words = ["CREATE", "OR REPLACE" if self.or_replace else "", "VIEW"]
        words += ["IF NOT EXISTS" if self.if_not_exists else "", name, "AS"]
        words.append(f"INITIALIZE {name}[{quote_name(self.initialize_index)}] AS {self.initialize.sql()}")
        words.append(f"UPDATE {name}[{quote_name(self.update_index)}] AS {self.update.sql()}")
        words += storage_sql(self.partition_length, self.retain, self.options)
        return " ".join(word for word in words if word)


def parse_create_view(cursor: Cursor) -> CreateView | CreateViewDelta:
    place = cursor.place()
    start = cursor.index
    cursor.expect("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    output = cursor.take_one_of(("STREAMED", "COMPLETE"))
    materialized = cursor.take("MATERIALIZED")
    output = output or cursor.take_one_of(("STREAMED", "COMPLETE"))
    cursor.expect("VIEW")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of the view")
    common: dict[str, Any] = {"name": name, "or_replace": or_replace, "if_not_exists": if_not_exists, "place": place}
    columns = cursor.names() if cursor.at("(") else None
    if cursor.at("INITIALIZE") or cursor.at("AS", "INITIALIZE"):
        if columns is not None or output is not None or materialized:
            raise cursor.error(
                "MISPLACED_CLAUSE", "A view delta function takes no columns and no STREAMED, COMPLETE or MATERIALIZED.",
                at=start,
            )  # fmt: skip
        return _delta(cursor, common)
    cursor.expect("AS", hint="Write CREATE VIEW v AS SELECT ...")
    query = cursor.query()
    if query.output is not None:
        if output not in (None, query.output):
            raise cursor.error("MISPLACED_OUTPUT", f"The view is {output} and its query is {query.output}.", at=start)
        output, query = query.output, replace(query, output=None)
    found: dict[str, Any] = {}
    while _clause(cursor, found):
        pass
    return CreateView(**common, query=query, output=output, columns=columns, materialized=materialized, **found)


def parse_create_views(cursor: Cursor) -> CreateViews:
    place = cursor.place()
    cursor.expect("CREATE", "VIEWS", "(", hint="Write CREATE VIEWS (CREATE VIEW a AS ...; CREATE VIEW b AS ...).")
    found: list[CreateView] = []
    while not cursor.take(")"):
        if cursor.take(";"):
            continue
        at = cursor.index
        view = parse_create_view(cursor)
        if not isinstance(view, CreateView):
            raise cursor.error("MISPLACED_CLAUSE", "Views that are declared together are made by queries.", at=at)
        found.append(view)
        if not cursor.at(")") and not cursor.at(";"):
            raise cursor.expected("; or )", "End each view with a semicolon.")
    return CreateViews(views=tuple(found), place=place)


def _delta(cursor: Cursor, common: dict[str, Any]) -> CreateViewDelta:
    cursor.take("AS")
    cursor.expect("INITIALIZE")
    initialize_index = _part(cursor, common["name"])
    initialize = cursor.query()
    cursor.expect("UPDATE", hint=f"After the INITIALIZE query comes UPDATE {common['name']}[j] AS SELECT ...")
    cursor.take("VIEW")
    update_index = _part(cursor, common["name"])
    update = cursor.query()
    found: dict[str, Any] = {}
    at = cursor.index
    while _clause(cursor, found):
        pass
    for key in ("sync_by", "refresh"):
        if key in found:
            word = key.replace("_", " ").upper()
            raise cursor.error("MISPLACED_CLAUSE", f"A view delta function has no {word} clause.", at=at)
    if "partition_length" not in found:
        raise cursor.expected("PARTITION LENGTH", "Say how many seconds one part spans: PARTITION LENGTH 60.")
    return CreateViewDelta(
        **common, initialize=initialize, initialize_index=initialize_index, update=update, update_index=update_index,
        **found,
    )  # fmt: skip


def _part(cursor: Cursor, view: str) -> str:
    """``v[i] AS``: the part that the query fills."""
    at = cursor.index
    name = cursor.name("the name of the view")
    if name.lower() != view.lower():
        raise cursor.error("WRONG_VIEW", f"This fills parts of {view}, not of {name}.", hint=f"Write {view}.", at=at)
    cursor.expect("[")
    index = cursor.name("a part variable such as i")
    cursor.expect("]", "AS")
    return index


def _clause(cursor: Cursor, found: dict[str, Any]) -> bool:
    at = cursor.index
    if cursor.take("SYNC", "BY"):
        put_once(cursor, found, "sync_by", cursor.name("a synchronization stream"), at)
    elif cursor.take("REFRESH"):
        _refresh(cursor, found, at)
    elif cursor.take("PARTITION", "LENGTH"):
        put_once(cursor, found, "partition_length", cursor.whole_seconds(), at)
    elif cursor.take("RETAIN"):
        put_once(cursor, found, "retain", cursor.duration(), at)
    elif cursor.take("WITH"):
        put_once(cursor, found, "options", cursor.options(), at)
    else:
        return False
    return True


def _refresh(cursor: Cursor, found: dict[str, Any], at: int) -> None:
    policy: RefreshPolicy = found.get("refresh", RefreshPolicy())
    if cursor.take("POLICY"):
        mode = cursor.take_one_of(MODES)
        if mode is None:
            raise cursor.unknown("refresh policy", MODES)
        if policy.mode is not None:
            raise cursor.error("DUPLICATE_CLAUSE", "REFRESH POLICY is given twice.", at=at)
        found["refresh"] = replace(policy, mode=mode)
        return
    triggers = [_trigger(cursor)]
    while cursor.take("OR"):
        cursor.take("REFRESH")
        triggers.append(_trigger(cursor))
    if policy.triggers:
        raise cursor.error("DUPLICATE_CLAUSE", "REFRESH is given twice.", hint="Join its parts with OR.", at=at)
    found["refresh"] = replace(policy, triggers=tuple(triggers))


def _trigger(cursor: Cursor) -> Trigger:
    if cursor.take("EVERY"):
        at = cursor.index
        every = cursor.duration()
        if every == 0:
            raise cursor.error("BAD_DURATION", "A view cannot be refreshed every 0 seconds.", at=at)
        return Trigger("every", every=every)
    if cursor.take("AFTER"):
        rows = cursor.positive("a number of rows")
        if not cursor.take("ROW"):
            cursor.expect("ROWS")
        return Trigger("after", rows=rows)
    if cursor.take("ON"):
        if cursor.take("DEMAND"):
            return Trigger("demand")
        return Trigger("on", stream=cursor.name("a synchronization stream or DEMAND"))
    raise cursor.expected(
        "EVERY, AFTER, ON or POLICY", "Write REFRESH EVERY 10 SECONDS, AFTER 1000 ROWS, ON stream or ON DEMAND."
    )
