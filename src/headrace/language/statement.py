"""The base of all statements, and what several families share: columns, tail clauses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.errors import Place
from headrace.language.printing import Options, options_sql, quote_name
from headrace.language.times import format_duration


@dataclass(frozen=True, kw_only=True)
class Statement(ABC):
    """One statement. Equal statements mean the same; where they stood in the text does not count."""

    name_of_statement: ClassVar[str] = "statement"

    place: Place | None = field(default=None, compare=False, repr=False)

    @abstractmethod
    def sql(self) -> str:
        """Text that parses to an equal statement."""


@dataclass(frozen=True)
class Column:
    """A declared column. `type` is normal DDL text; it is empty where the query of the statement gives the type."""

    name: str
    type: str
    not_null: bool = False

    def sql(self) -> str:
        words = [quote_name(self.name), self.type, "NOT NULL" if self.not_null else ""]
        return " ".join(word for word in words if word)


def columns_sql(columns: Iterable[Column], *constraints: str) -> str:
    """``(a INT, b STRING)``, with table constraints after the columns."""
    return "(" + ", ".join([*(column.sql() for column in columns), *constraints]) + ")"


def storage_sql(partition_length: int | None, retain: int | None, options: Options) -> list[str]:
    """The tail clauses that every stored object takes."""
    words: list[str] = []
    if partition_length is not None:
        words.append(f"PARTITION LENGTH {partition_length}")
    if retain is not None:
        words.append(f"RETAIN {format_duration(retain)}")
    if options:
        words.append(f"WITH {options_sql(options)}")
    return words
