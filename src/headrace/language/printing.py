"""Small pieces of text that every statement prints in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from headrace.language.tokens import HeadraceTokenizer

V = TypeVar("V")
OptionValue = str | int | float | bool

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that begin clauses of ours: as names they are printed in backquotes, which is always safe.
_CLAUSES = {
    "AT", "KEY", "SLACK", "LATE", "RETAIN", "REFRESH", "SYNC", "PATTERN", "SOURCE", "OVER", "LENGTH", "OPTIONS",
    "HOST", "INITIALIZE", "STREAMED", "COMPLETE", "R", "NOW", "NULL", "FROM", "WITH", "ALL", "VIEW", "VIEWS",
    "MATERIALIZED", "EXTENDED", "MAINTENANCE", "STATE", "SHARING", "CASCADE", "RESTRICT", "IF", "FORMAT", "CHANGES",
    "STREAM", "TABLE", "AGGREGATE", "HOME", "CLOCK", "NON", "EXTERNAL", "DEMAND", "SNAPSHOT", "VERSION", "PRIMARY",
    "FOREIGN", "TABLES", "MEMORY", "MOD", "DISTINCT", "TO", "SOURCES", "TYPE", "NOT", "TRUE", "FALSE", "POLICY",
}  # fmt: skip
_KEYWORDS = frozenset(word for key in HeadraceTokenizer.KEYWORDS for word in key.upper().split()) | _CLAUSES


class FrozenMap(Mapping[str, V], Generic[V]):
    """A mapping that cannot change and can be hashed; it keeps the order it was given."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset((key, str(value)) for key, value in self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


Options = FrozenMap[OptionValue]
NO_OPTIONS: Options = FrozenMap()


def quote_name(name: str) -> str:
    """A name as it may be written back: plain where that is safe, else in backquotes."""
    if _PLAIN.fullmatch(name) and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_string(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"


def value_sql(value: OptionValue) -> str:
    """The value of an option."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value) if isinstance(value, int | float) else quote_string(value)


def options_sql(options: Mapping[str, OptionValue]) -> str:
    """``(k = v, ...)``."""
    return "(" + ", ".join(f"{quote_name(key)} = {value_sql(value)}" for key, value in options.items()) + ")"


def names_sql(names: Iterable[str]) -> str:
    """``(a, b)``."""
    return "(" + ", ".join(map(quote_name, names)) + ")"
