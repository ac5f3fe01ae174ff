"""Every error a user can meet: one base class, a stable condition, and a message that says what to do.

An error has a primary message (what is wrong and where), an optional detail (the facts) and an optional hint (what to
write instead). Tests and programs look at `condition`, never at the prose.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A spot in SQL text: 1-based line and column, and how many characters to underline."""

    text: str
    line: int
    column: int
    length: int = 1

    def picture(self) -> str:
        """The line of SQL with the spot underlined."""
        lines = self.text.splitlines() or [""]
        shown = lines[min(self.line, len(lines)) - 1]
        return f"  {shown}\n  {' ' * (self.column - 1)}{'^' * max(1, self.length)}"


class HeadraceError(Exception):
    """Base of all errors raised by Headrace.

    Parameters
    ----------
    condition
        A stable code such as ``UNKNOWN_OBJECT``.
    message
        One sentence: what is wrong, with names.
    detail, hint
        Facts that help, and what to write or run instead.
    place
        Where in the SQL text, when it is known.
    """

    def __init__(
        self,
        condition: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        place: Place | None = None,
    ) -> None:
        self.condition = condition
        self.message = message
        self.detail = detail
        self.hint = hint
        self.place = place
        super().__init__(self.render())

    def render(self) -> str:
        """The whole text, as the command line prints it."""
        parts = [self.message]
        if self.place is not None:
            parts[0] = f"line {self.place.line}, column {self.place.column}: {self.message}"
            parts.append(self.place.picture())
        if self.detail:
            parts.append(self.detail)
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)


class LanguageError(HeadraceError):
    """The text is not a statement of the language."""


class DefinitionError(HeadraceError):
    """A name, type or option that does not fit what is declared."""


class InputError(HeadraceError):
    """Data that cannot be taken in as it is."""


class NotYetMaintained(HeadraceError):
    """A statement or construct that is understood but not executed yet."""

    def __init__(self, what: str, *, place: Place | None = None) -> None:
        super().__init__(
            "NOT_YET_MAINTAINED",
            f"{what} is not yet maintained.",
            detail="The statement is understood, and nothing was changed.",
            hint="SHOW FEATURES lists what this version executes.",
            place=place,
        )
        self.what = what


class StorageError(HeadraceError):
    """The home cannot be read or written as asked."""


class EngineError(HeadraceError):
    """The engine refused, failed, or lacks a capability."""
