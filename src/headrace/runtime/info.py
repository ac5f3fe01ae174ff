"""What a statement that is no query answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


def counted(count: int, what: str) -> str:
    """A number of things in words: `1 row`, `2,000 rows`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Info:
    """The statement's name, one sentence on what it did, and rows where it lists something."""

    statement: str
    message: str
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[Any, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.message
