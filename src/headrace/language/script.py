"""A script: statements one after the other, each handed to the module of its family."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokens import TokenType

from headrace.errors import LanguageError
from headrace.language.aggregates import parse_create_aggregate, parse_load_aggregates
from headrace.language.changes import parse_delete, parse_insert, parse_merge, parse_update
from headrace.language.commands import (
    parse_advance_clock,
    parse_alter,
    parse_describe,
    parse_drop,
    parse_expect,
    parse_explain,
    parse_refresh,
    parse_select,
    parse_show,
)
from headrace.language.cursor import Cursor
from headrace.language.sources import RegisterSource, parse_register_source
from headrace.language.statement import Statement
from headrace.language.streams import CreateStream, parse_create_stream
from headrace.language.tables import parse_create_table
from headrace.language.views import parse_create_view, parse_create_views

Reader = Callable[[Cursor], Statement]

_READERS: dict[str, Reader] = {
    "REGISTER": parse_register_source,
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
    "SELECT": parse_select,
    "WITH": parse_select,
    "FROM": parse_select,
    "VALUES": parse_select,
    "(": parse_select,
    "REFRESH": parse_refresh,
    "ADVANCE": parse_advance_clock,
    "EXPECT": parse_expect,
    "SHOW": parse_show,
    "DESCRIBE": parse_describe,
    "DESC": parse_describe,
    "ALTER": parse_alter,
    "DROP": parse_drop,
    "LOAD": parse_load_aggregates,
}

_CREATES: dict[str, Reader] = {
    "STREAM": parse_create_stream,
    "TABLE": parse_create_table,
    "VIEW": parse_create_view,
    "VIEWS": parse_create_views,
    "AGGREGATE": parse_create_aggregate,
}
# Words that may stand between CREATE and what is created.
_BEFORE_KIND = ("OR", "REPLACE", "STREAMED", "COMPLETE", "MATERIALIZED", "NON", "RETROACTIVE", "ALGEBRAIC", "WINDOW")

STARTS = ("CREATE", "EXPLAIN", *(word for word in _READERS if word.isalpha()))


def parse(text: str) -> list[Statement]:
    """All statements of a script.

    Examples
    --------
    >>> [statement.name_of_statement for statement in parse("SHOW VIEWS; SELECT 1")]
    ['SHOW', 'SELECT']
    """
    cursor = Cursor(text)
    statements: list[Statement] = []
    while True:
        while cursor.take(";"):
            pass
        if cursor.token() is None:
            return statements
        _skip_label(cursor)
        statement = _statement(cursor)
        statements.append(statement)
        if not cursor.ended and not _next_begins(cursor, statement):
            raise cursor.error(
                "UNEXPECTED_TOKEN",
                f"The {statement.name_of_statement} statement is complete before {cursor.shown()}.",
                hint="End each statement with ; or correct the word.",
            )


def parse_one(text: str) -> Statement:
    """The only statement of the text."""
    statements = parse(text)
    if len(statements) == 1:
        return statements[0]
    if not statements:
        raise LanguageError("EMPTY_TEXT", "Expected a statement, found none.")
    raise LanguageError(
        "MORE_THAN_ONE_STATEMENT",
        f"Expected one statement, found {len(statements)}.",
        hint="Run a script of several statements as a script.",
        place=statements[1].place,
    )


def _skip_label(cursor: Cursor) -> None:
    """``RoomTempStr: CREATE ...`` and ``Q3: select ...``: the papers name their statements."""
    if cursor.kind(1) == TokenType.COLON:
        cursor.name("a label")
        cursor.expect(":")


def _next_begins(cursor: Cursor, statement: Statement) -> bool:
    """SyncSQL's declarations stand one to a line with nothing between them."""
    if not isinstance(statement, RegisterSource | CreateStream) or not cursor.on_new_line:
        return False
    ahead = 2 if cursor.kind(1) == TokenType.COLON else 0
    return cursor.word(ahead) in ("REGISTER", "CREATE")


def _statement(cursor: Cursor) -> Statement:
    found = _known_statement(cursor)
    if found is None:
        raise cursor.unknown("statement", STARTS)
    return found


def _known_statement(cursor: Cursor) -> Statement | None:
    word = cursor.word()
    if word == "CREATE" or (word in ("AGGREGATE", "ALGEBRAIC") and cursor.token(1) is not None):
        return _create(cursor)
    if word == "EXPLAIN":
        return parse_explain(cursor, _known_statement)
    reader = _READERS.get(word)
    return reader(cursor) if reader is not None else None


def _create(cursor: Cursor) -> Statement:
    start = cursor.index
    cursor.take("CREATE")
    while cursor.word() in _BEFORE_KIND:
        cursor.advance()
    reader = _CREATES.get(cursor.word())
    if reader is None:
        if cursor.ended:
            raise cursor.expected("what to create", f"One of {', '.join(_CREATES)}.")
        raise cursor.unknown("thing to create", _CREATES)
    cursor.index = start
    return reader(cursor)
