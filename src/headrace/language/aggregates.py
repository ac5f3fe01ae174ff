"""CREATE AGGREGATE (ESL): state tables and blocks of statements, or a class in Python.

The statements inside the blocks are kept as text in one normal spacing. They speak of the aggregate's own tables and
parameters, so only the aggregate compiler can say what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from sqlglot.tokens import TokenType

from headrace.language.cursor import Cursor
from headrace.language.printing import FrozenMap, quote_name, quote_string
from headrace.language.statement import Column, Statement, columns_sql

BLOCKS = ("INITIALIZE", "ITERATE", "TERMINATE", "EXPIRE")
_BLOCK_STATEMENTS = ("INSERT", "UPDATE", "DELETE", "SELECT")


@dataclass(frozen=True)
class AggregateTable:
    """A table that lives inside an aggregate; `inwindow` is the window's rows."""

    name: str
    columns: tuple[Column, ...]

    def sql(self) -> str:
        return f"TABLE {quote_name(self.name)} {columns_sql(self.columns)}"


@dataclass(frozen=True, kw_only=True)
class CreateAggregate(Statement):
    """``CREATE [ALGEBRAIC] [WINDOW] AGGREGATE f(x type) : type { ... }`` or ``... EXTERNAL 'module:Class'``.

    `returns` is a type, or the columns of a returned row. Columns may lack a type, as in ESL Example 18. `blocks` has
    the statements of each block that is written, in the order of `BLOCKS`; an empty block is there and empty.
    """

    name_of_statement: ClassVar[str] = "CREATE AGGREGATE"

    name: str
    parameters: tuple[Column, ...]
    returns: str | tuple[Column, ...]
    algebraic: bool = False
    window: bool = False
    tables: tuple[AggregateTable, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=FrozenMap)
    external: str | None = None
    or_replace: bool = False

    def sql(self) -> str:
        words = ["CREATE", "OR REPLACE" if self.or_replace else "", "ALGEBRAIC" if self.algebraic else ""]
        words += ["WINDOW" if self.window else "", "AGGREGATE"]
        returns = self.returns if isinstance(self.returns, str) else columns_sql(self.returns)
        words.append(f"{quote_name(self.name)}{columns_sql(self.parameters)} : {returns}")
        if self.external is not None:
            words.append(f"EXTERNAL {quote_string(self.external)}")
        else:
            words += ["{", *(f"{table.sql()};" for table in self.tables)]
            for name, statements in self.blocks.items():
                words.append(f"{name}: {{ {''.join(f'{text}; ' for text in statements)}}}")
            words.append("}")
        return " ".join(word for word in words if word)


@dataclass(frozen=True, kw_only=True)
class LoadAggregates(Statement):
    """``LOAD AGGREGATES a, b``: make aggregates of the library known; without names, all of them."""

    name_of_statement: ClassVar[str] = "LOAD AGGREGATES"

    names: tuple[str, ...] = ()

    def sql(self) -> str:
        return " ".join(["LOAD AGGREGATES", ", ".join(map(quote_name, self.names))]).strip()


def parse_load_aggregates(cursor: Cursor) -> LoadAggregates:
    place = cursor.place()
    cursor.expect("LOAD")
    if not cursor.take("AGGREGATE"):
        cursor.expect("AGGREGATES", hint="Write LOAD AGGREGATES name, ...")
    names = () if cursor.ended else cursor.listed(lambda: cursor.name("an aggregate"))
    return LoadAggregates(names=names, place=place)


def parse_create_aggregate(cursor: Cursor) -> CreateAggregate:
    place = cursor.place()
    cursor.take("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    algebraic = cursor.take("ALGEBRAIC")
    window = cursor.take("WINDOW")
    cursor.expect("AGGREGATE")
    name = cursor.name("the name of the aggregate")
    # One that counts rows has no parameters.
    parameters = () if cursor.take("(", ")") else _columns(cursor)
    cursor.expect(":", hint=f"Say what it returns: AGGREGATE {name}(x REAL) : REAL.")
    returns: str | tuple[Column, ...] = _columns(cursor) if cursor.at("(") else cursor.type()
    external = None
    tables: tuple[AggregateTable, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = FrozenMap()
    if cursor.take("EXTERNAL"):
        external = cursor.string("'module:Class'")
    else:
        tables, blocks = _body(cursor)
    return CreateAggregate(
        name=name, parameters=parameters, returns=returns, algebraic=algebraic, window=window, tables=tables,
        blocks=blocks, external=external, or_replace=or_replace, place=place,
    )  # fmt: skip


def _columns(cursor: Cursor) -> tuple[Column, ...]:
    return cursor.bracketed(lambda: cursor.column(typed=False))


def _body(cursor: Cursor) -> tuple[tuple[AggregateTable, ...], Mapping[str, tuple[str, ...]]]:
    opened = cursor.index
    cursor.expect("{", hint="The body stands in braces: { TABLE ...; INITIALIZE: {...} ITERATE: {...} }.")
    tables: list[AggregateTable] = []
    while cursor.take("TABLE"):
        tables.append(AggregateTable(cursor.name("a table"), _columns(cursor)))
        cursor.take(";")
    found: dict[str, tuple[str, ...]] = {}
    while not cursor.take("}"):
        if cursor.token() is None:
            raise cursor.error("UNCLOSED_BRACE", "The brace opened here is never closed.", hint="Write }.", at=opened)
        if cursor.take(";"):
            continue
        names = _block_names(cursor, found)
        body = _block(cursor)
        found.update((name, body) for name in names)
    if "INITIALIZE" not in found and "ITERATE" not in found:
        raise cursor.error(
            "MISSING_BLOCK", "An aggregate needs an INITIALIZE or ITERATE block.",
            hint="Write INITIALIZE: {...} ITERATE: {...}.", at=opened,
        )  # fmt: skip
    return tuple(tables), FrozenMap({name: found[name] for name in BLOCKS if name in found})


def _block_names(cursor: Cursor, found: dict[str, tuple[str, ...]]) -> list[str]:
    """One or more labels: ``INITIALIZE: ITERATE: {`` gives both the same body."""
    names: list[str] = []
    while not names or not cursor.at("{"):
        at = cursor.index
        name = cursor.take_one_of(BLOCKS)
        if name is None:
            raise cursor.unknown("block", BLOCKS)
        if name in found or name in names:
            raise cursor.error("DUPLICATE_CLAUSE", f"The block {name} is given twice.", at=at)
        names.append(name)
        cursor.expect(":")
    return names


def _block(cursor: Cursor) -> tuple[str, ...]:
    opened = cursor.index
    cursor.expect("{")
    statements: list[str] = []
    pieces: list[str] = []
    end = -1
    while True:
        token = cursor.token()
        if token is None:
            raise cursor.error("UNCLOSED_BRACE", "The brace opened here is never closed.", hint="Write }.", at=opened)
        closing = token.token_type in (TokenType.SEMICOLON, TokenType.R_BRACE)
        if not closing:
            if not pieces and cursor.word() not in _BLOCK_STATEMENTS:
                raise cursor.unknown("statement of an aggregate", _BLOCK_STATEMENTS)
            source = cursor.text[token.start : token.end + 1]
            pieces.append((" " if pieces and token.start > end + 1 else "") + _ascii(source))
            end = token.end
        elif pieces:
            statements.append("".join(pieces))
            pieces = []
        cursor.advance()
        if token.token_type == TokenType.R_BRACE:
            return tuple(statements)


def _ascii(source: str) -> str:
    return {"≤": "<=", "≥": ">=", "≠": "<>"}.get(source, source)
