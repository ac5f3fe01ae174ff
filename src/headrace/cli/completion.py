"""What the prompt offers while one types: objects and columns of the home, then the words of the language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from headrace.errors import HeadraceError
from headrace.language import quote_name
from headrace.language.commands import SHOWS
from headrace.language.script import STARTS
from headrace.language.sources import CONNECTORS
from headrace.session import Session

_CLAUSES = (
    "ADVANCE", "ALL", "AND", "AS", "ASC", "AT", "BETWEEN", "BY", "CASCADE", "CASE", "CAST", "CHANGES", "CLOCK",
    "COMPLETE", "COUNT", "CROSS", "DELETE", "DESC", "DISTINCT", "ELSE", "END", "EXCEPT", "EXISTS", "EXTENDED",
    "FALSE", "FORMAT", "FROM", "FULL", "GROUP", "HAVING", "HOME", "IF", "IN", "INNER", "INSERT", "INTERSECT",
    "INTERVAL", "INTO", "IS", "JOIN", "KEY", "LATE", "LEFT", "LENGTH", "LIKE", "LIMIT", "MATCHED", "MAX", "MIN",
    "NON", "NOT", "NULL", "OF", "ON", "OPTIONS", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "PRIMARY", "REFRESH",
    "REPLACE", "RETAIN", "RETROACTIVE", "RIGHT", "ROWS", "SELECT", "SET", "SLACK", "SOURCE", "STREAM", "STREAMED",
    "SUM", "SYNC", "TABLE", "THEN", "TO", "TRUE", "UNION", "UPDATE", "USING", "VALUES", "VIEW", "WHEN", "WHERE",
    "WITH", "BIGINT", "BINARY", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "STRING", "TIMESTAMP",
)  # fmt: skip
KEYWORDS = tuple(sorted({*STARTS, *CONNECTORS, *_CLAUSES}))
COMMANDS = ("help", "exit", "quit")

_WORD = re.compile(r"(?:(?P<owner>[\w$]+)\.)?(?P<word>[\w$]*)$")


class Names:
    """Objects of the home and their columns, as they were when last looked up."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.columns: Mapping[str, Sequence[str]] = {}
        self.look_up()

    def look_up(self) -> None:
        """Read the catalog again; a home that cannot be read offers nothing rather than break the prompt."""
        try:
            objects = [str(row[0]) for row in self._session.sql("SHOW OBJECTS").rows]
            self.columns = {name: self._columns(name) for name in objects}
        except HeadraceError:
            self.columns = {}

    def _columns(self, name: str) -> list[str]:
        return [str(row[0]) for row in self._session.sql(f"DESCRIBE {quote_name(name)}").rows]


class SqlCompleter(Completer):
    """Completes the word before the cursor; after ``name.``, the columns of that object."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        found = _WORD.search(before)
        word, owner = (found.group("word"), found.group("owner")) if found else ("", None)
        if not word and owner is None:
            return
        for text, kind in self._candidates(before[: len(before) - len(word)], word, owner):
            yield Completion(text, start_position=-len(word), display_meta=kind)

    def _candidates(self, before: str, word: str, owner: str | None) -> Iterator[tuple[str, str]]:
        columns = self._names.columns
        if owner is not None:
            mine = [names for name, names in columns.items() if name.lower() == owner.lower()] or columns.values()
            yield from _starting(word, (name for names in mine for name in names), "column")
            return
        if before.upper().split()[-1:] == ["SHOW"]:
            yield from _starting(word, map(str.lower, SHOWS) if word.islower() else SHOWS, "show")
            return
        yield from _starting(word, columns, "object")
        yield from _starting(word, (name for names in columns.values() for name in names), "column")
        yield from _starting(word, map(str.lower, KEYWORDS) if word.islower() else KEYWORDS, "keyword")
        if not before.strip():
            yield from _starting(word, COMMANDS, "prompt")


def _starting(word: str, names: Iterable[str], kind: str) -> Iterator[tuple[str, str]]:
    """Names that begin with `word`, each once."""
    for name in dict.fromkeys(names):
        if name.lower().startswith(word.lower()):
            yield name, kind
