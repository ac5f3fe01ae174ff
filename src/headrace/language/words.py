"""A reading position in the tokens of a script: words, names, places and errors."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from sqlglot.tokens import Token, TokenType

from headrace.errors import DefinitionError, HeadraceError, LanguageError, Place
from headrace.language.dialect import DIALECT
from headrace.language.query_parser import HeadraceParser
from headrace.language.tokens import place_at, place_of, tokenise

T = TypeVar("T")

WORD = re.compile(r"\w[\w$-]*")
VALUES = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)


class Words:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenise(text, DIALECT)
        self._parser = HeadraceParser(dialect=DIALECT)
        self._parser.start(self.tokens, text)

    # -- position ---------------------------------------------------------------------------------------------------

    @property
    def index(self) -> int:
        return int(self._parser._index)

    @index.setter
    def index(self, index: int) -> None:
        self._parser._retreat(index)

    def token(self, ahead: int = 0) -> Token | None:
        at = self.index + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def kind(self, ahead: int = 0) -> TokenType | None:
        token = self.token(ahead)
        return token.token_type if token else None

    def advance(self, count: int = 1) -> None:
        self._parser._advance(count)

    @property
    def ended(self) -> bool:
        """Whether the statement, or the script, ends here."""
        return self.kind() in (None, TokenType.SEMICOLON)

    @property
    def at_last(self) -> bool:
        """Whether the token here is the last of its statement: a word that stands alone is a name, not a keyword."""
        return self.kind(1) in (None, TokenType.SEMICOLON)

    @property
    def on_new_line(self) -> bool:
        token, before = self.token(), self.token(-1)
        return token is not None and before is not None and "\n" in self.text[before.end + 1 : token.start]

    def place(self, index: int | None = None) -> Place:
        at = self.index if index is None else index
        if at < len(self.tokens):
            return place_of(self.text, self.tokens[at])
        end = self.tokens[-1].end + 1 if self.tokens else 0
        return place_at(self.text, end)

    # -- errors -----------------------------------------------------------------------------------------------------

    def shown(self) -> str:
        token = self.token()
        if token is None:
            return "the end of the text"
        source = self.text[token.start : token.end + 1]
        return "the end of the statement" if token.token_type == TokenType.SEMICOLON else f"'{source}'"

    def error(
        self, condition: str, message: str, *, hint: str | None = None, detail: str | None = None, at: int | None = None
    ) -> LanguageError:
        return LanguageError(condition, message, hint=hint, detail=detail, place=self.place(at))

    def expected(self, what: str, hint: str | None = None) -> LanguageError:
        condition = "UNEXPECTED_END" if self.ended else "UNEXPECTED_TOKEN"
        return self.error(condition, f"Expected {what}, found {self.shown()}.", hint=hint)

    def unknown(self, what: str, known: Iterable[str], hint: str | None = None) -> LanguageError:
        """An unknown word, with the nearest known one."""
        choices = list(known)
        token = self.token()
        written = token.text.upper() if token else ""
        near = difflib.get_close_matches(written, choices, n=1, cutoff=0.6)
        if near and hint is None:
            hint = f"Did you mean {near[0]}?"
        return LanguageError(
            f"UNKNOWN_{what.upper().replace(' ', '_')}",
            f"{self.shown()[0].upper() + self.shown()[1:]} is not a {what}.",
            detail=f"Known: {', '.join(choices)}.",
            hint=hint,
            place=self.place(),
        )

    # -- words ------------------------------------------------------------------------------------------------------

    def word(self, ahead: int = 0) -> str:
        """The word here in upper case; empty for quoted names, strings and numbers."""
        token = self.token(ahead)
        if token is None or token.token_type in VALUES:
            return ""
        return " ".join(token.text.upper().split())

    def at(self, *words: str) -> bool:
        return all(self.word(ahead) == word for ahead, word in enumerate(words))

    def take(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self.advance(len(words))
        return True

    def expect(self, *words: str, hint: str | None = None) -> None:
        for word in words:
            if not self.take(word):
                raise self.expected(word, hint)

    def take_one_of(self, words: Iterable[str]) -> str | None:
        for word in words:
            if self.take(*word.split()):
                return word
        return None

    def name(self, what: str = "a name") -> str:
        """A name: a word or anything in backquotes. Parts joined by dashes, as in larceny-in-progress, are one name."""
        token = self.token()
        if token is None or token.token_type in (TokenType.STRING, TokenType.NUMBER):
            raise self.expected(what)
        if token.token_type == TokenType.IDENTIFIER:
            self.advance()
            return str(token.text)
        if not WORD.fullmatch(token.text):
            raise self.expected(what, "Put names with other characters in `backquotes`.")
        self.advance()
        name = str(token.text)
        end = token.end
        while self.kind() == TokenType.DASH and self._connected(end):
            dash, part = self.token(), self.token(1)
            assert dash is not None
            if part is None or part.start != dash.end + 1 or not WORD.fullmatch(part.text):
                break
            name += f"-{part.text}"
            end = part.end
            self.advance(2)
        if self.kind() == TokenType.DOT:
            raise DefinitionError(
                "QUALIFIED_NAME",
                f"The name {name} has a qualifier, and all objects of a home share one namespace.",
                hint="Write the name alone, or in backquotes if the dot is part of it.",
                place=self.place(),
            )
        return name

    def _connected(self, end: int) -> bool:
        token = self.token()
        return token is not None and token.start == end + 1

    def column_name(self) -> str:
        """The name of a column, whose table's name or alias may stand before it."""
        if self.kind(1) == TokenType.DOT:
            self.advance(2)
        return self.name("a column")

    def names(self, what: str = "a column") -> tuple[str, ...]:
        """``(a, b, c)``."""
        return self.bracketed(lambda: self.name(what))

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        found = [item()]
        while self.take(","):
            found.append(item())
        return tuple(found)

    def bracketed(self, item: Callable[[], T]) -> tuple[T, ...]:
        self.expect("(")
        found = self.listed(item)
        self.expect(")")
        return found

    def placed(self, read: Callable[[], T], at: int) -> T:
        """Run a reader of text that knows no places, and add ours to its errors."""
        try:
            return read()
        except HeadraceError as error:
            if error.place is not None:
                raise
            raise type(error)(
                error.condition, error.message, detail=error.detail, hint=error.hint, place=self.place(at)
            ) from None
