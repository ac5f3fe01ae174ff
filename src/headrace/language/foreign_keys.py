"""What may stand in a column list beside columns: PRIMARY KEY and FOREIGN KEY, for tables and streams alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headrace.language.cursor import Cursor
from headrace.language.printing import names_sql, quote_name
from headrace.language.statement import Column

ENFORCEMENTS = ("NOT ENFORCED RELY", "NOT ENFORCED", "ENFORCED", "RELY")


@dataclass(frozen=True)
class ForeignKey:
    """``FOREIGN KEY (columns) REFERENCES table (references)``; no `references` means the key of `table`.

    `enforcement` is ENFORCED (rows are checked), RELY (they are not, and plans may build on it), NOT ENFORCED (neither)
    or None, which means the same as NOT ENFORCED.
    """

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...] = ()
    enforcement: str | None = None

    def sql(self) -> str:
        words = ["FOREIGN KEY", names_sql(self.columns), "REFERENCES", quote_name(self.table)]
        words += [names_sql(self.references)] if self.references else []
        words += [self.enforcement] if self.enforcement is not None else []
        return " ".join(words)


def parse_foreign_key(cursor: Cursor) -> ForeignKey:
    """What follows the words FOREIGN KEY."""
    if not cursor.at("("):
        raise cursor.expected("a list of columns", "Write FOREIGN KEY (column) REFERENCES other (key).")
    columns = cursor.names()
    cursor.expect("REFERENCES", hint=f"Write FOREIGN KEY {names_sql(columns)} REFERENCES other (key).")
    return _target(cursor, columns)


def _target(cursor: Cursor, columns: tuple[str, ...]) -> ForeignKey:
    """What follows the word REFERENCES."""
    table = cursor.name("a table or stream")
    references = cursor.names() if cursor.at("(") else ()
    enforcement = cursor.take_one_of(ENFORCEMENTS)
    if enforcement == "NOT ENFORCED RELY":  # the long spelling other systems have
        enforcement = "RELY"
    return ForeignKey(columns, table, references, enforcement)


class Declared:
    """The columns and constraints of one column list, as they are read."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.keys: list[tuple[str, ...]] = []
        self.foreign_keys: list[ForeignKey] = []

    def read(self, cursor: Cursor) -> None:
        """One item of the list: a constraint, or a column with its own constraints behind it."""
        if cursor.take("PRIMARY KEY"):
            self.keys.append(cursor.names())
            return
        if cursor.take("FOREIGN KEY"):
            self.foreign_keys.append(parse_foreign_key(cursor))
            return
        column = cursor.column(typed=False)
        while True:
            if cursor.take("PRIMARY KEY"):
                self.keys.append((column.name,))
            elif cursor.take("NOT", "NULL"):
                column = replace(column, not_null=True)
            elif cursor.take("REFERENCES"):
                self.foreign_keys.append(_target(cursor, (column.name,)))
            else:
                self.columns.append(column)
                return


def check_declared(
    cursor: Cursor, columns: Iterable[Column], key: Iterable[str], foreign_keys: Iterable[ForeignKey], at: int
) -> None:
    """Refuse a key of columns that a column list does not have."""
    declared = {column.name.lower() for column in columns}
    for name in (*key, *(name for foreign in foreign_keys for name in foreign.columns)):
        if declared and name.lower() not in declared:
            raise cursor.error("UNKNOWN_COLUMN", f"The key column {name} is not declared.", at=at)
