"""A reading position in the tokens of a script, and the small things every statement is made of.

Statement modules read words, names, numbers and options here; where a query or an expression begins they hand over to
sqlglot's parser, which shares the position and stops where its part ends.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from headrace.errors import DefinitionError, HeadraceError, LanguageError, Place
from headrace.language.dialect import DIALECT
from headrace.language.printing import Options, OptionValue
from headrace.language.query import Query, Scalar
from headrace.language.query_parser import HeadraceParser, PlacedParseError
from headrace.language.statement import Column
from headrace.language.times import is_unit, parse_duration, parse_time
from headrace.language.tokens import COMPLETE_MARK, STREAMED_MARK, place_at, place_of, tokenise
from headrace.language.types import is_type, normalise_type

T = TypeVar("T")

_WORD = re.compile(r"\w[\w$-]*")
_VALUES = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)


class Cursor:
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
        if token is None or token.token_type in _VALUES:
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
        if not _WORD.fullmatch(token.text):
            raise self.expected(what, "Put names with other characters in `backquotes`.")
        self.advance()
        name = str(token.text)
        end = token.end
        while self.kind() == TokenType.DASH and self._connected(end):
            dash, part = self.token(), self.token(1)
            assert dash is not None
            if part is None or part.start != dash.end + 1 or not _WORD.fullmatch(part.text):
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

    # -- values -----------------------------------------------------------------------------------------------------

    def string(self, what: str = "a string") -> str:
        token = self.token()
        if token is None or token.token_type != TokenType.STRING:
            raise self.expected(what, "Put strings in 'quotes'.")
        self.advance()
        return str(token.text)

    def integer(self, what: str = "a whole number") -> int:
        token = self.token()
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit():
            raise self.expected(what)
        self.advance()
        return int(token.text)

    def positive(self, what: str) -> int:
        at = self.index
        number = self.integer(what)
        if number == 0:
            raise self.error("BAD_NUMBER", f"Expected {what} above zero, found 0.", at=at)
        return number

    def _number_text(self) -> str | None:
        sign = ""
        if self.at("-") and self.kind(1) == TokenType.NUMBER:
            sign = "-"
            self.advance()
        if self.kind() != TokenType.NUMBER:
            return None
        token = self.token()
        assert token is not None
        self.advance()
        return sign + str(token.text)

    def time(self) -> int:
        """A point in time: seconds, a string, or TIMESTAMP '...'."""
        at = self.index
        if self.word() in ("TIMESTAMP", "DATE") and self.kind(1) == TokenType.STRING:
            self.advance()
        text = self.string() if self.kind() == TokenType.STRING else self._number_text()
        if text is None:
            raise self.expected("a point in time", "Write seconds since 1970 or a timestamp: 3, '2015-01-01 10:00'.")
        return self.placed(lambda: parse_time(text), at)

    def duration(self) -> int:
        """A length of time: seconds, a number and a unit, a string, or an INTERVAL."""
        at = self.index
        self.take("INTERVAL")
        text = self.string() if self.kind() == TokenType.STRING else self._number_text()
        if text is None:
            raise self.expected("a length of time", "Write for example 10 SECONDS, 5 MINUTES or 7 DAYS.")
        if is_unit(self.word()):
            text = f"{text} {self.word()}"
            self.advance()
        micros = self.placed(lambda: parse_duration(text), at)
        if micros < 0:
            raise self.error("BAD_DURATION", f"A length of time cannot be negative: {text}.", at=at)
        return micros

    def whole_seconds(self) -> int:
        at = self.index
        micros = self.duration()
        if micros % 1_000_000 or micros <= 0:
            raise self.error(
                "BAD_PARTITION_LENGTH", "A partition length is a whole number of seconds, at least 1.",
                hint="Write for example PARTITION LENGTH 60.", at=at,
            )  # fmt: skip
        return micros // 1_000_000

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

    def option_value(self) -> OptionValue:
        token = self.token()
        if token is None or self.ended or self.word() in (",", ")", "="):
            raise self.expected("a value", "Values are numbers, 'strings', TRUE, FALSE or names.")
        if token.token_type == TokenType.STRING:
            return self.string()
        if self.at("INTERVAL"):
            return f"{self.duration()} microseconds"
        text = self._number_text()
        if text is not None:
            if is_unit(self.word()):
                unit = self.word()
                self.advance()
                return f"{text} {unit}"
            return int(text) if re.fullmatch(r"-?\d+", text) else float(Decimal(text))
        if self.at("TRUE") or self.at("FALSE"):
            self.advance()
            return token.text.upper() == "TRUE"
        return self.name("a value")

    def options(self, *, keep_case: bool = False) -> Options:
        """``(k = v, k 'v', ...)``; keys are lower-cased and may not repeat."""
        self.expect("(")
        found: dict[str, OptionValue] = {}
        while not self.take(")"):
            if found:
                self.expect(",")
            at = self.index
            key = self.option_key()
            key = key if keep_case else key.lower()
            if key in found:
                raise self.error("DUPLICATE_OPTION", f"The option {key} is given twice.", at=at)
            self.take("=")
            found[key] = self.option_value()
        return Options(found)

    def option_key(self) -> str:
        """A name, a string, or names joined by dots, as Kafka's options have them."""
        if self.kind() == TokenType.STRING:
            return self.string()
        if self.kind() == TokenType.IDENTIFIER:
            return self.name("an option")
        parts = [self._option_word()]
        while self.take("."):
            parts.append(self._option_word())
        return ".".join(parts)

    def _option_word(self) -> str:
        token = self.token()
        if token is None or token.token_type in _VALUES or not _WORD.fullmatch(token.text):
            raise self.expected("the name of an option", "Options are written (name = value, ...).")
        self.advance()
        return str(token.text)

    # -- columns ----------------------------------------------------------------------------------------------------

    def column(self, *, typed: bool = True) -> Column:
        """``name type`` or, as SyncSQL has it, ``type name``; `typed=False` also allows a name alone."""
        start = self.index
        name = self.name("a column")
        if not typed and self.word() in (",", ")"):
            return Column(name, "")
        found = self._type_text()
        if found is not None:
            return Column(name, found, self.take("NOT", "NULL"))
        after_name = self.index
        self.index = start
        found = self._type_text()
        if found is not None and self.word() not in (",", ")", ""):
            return Column(self.name("a column"), found, self.take("NOT", "NULL"))
        self.index = after_name
        if self.ended or self.word() in (",", ")"):
            raise self.expected(f"the type of column {name}", "Write for example (id INT, name STRING).")
        token = self.token()
        assert token is not None
        return self.placed(lambda: Column(name, normalise_type(token.text)), after_name)

    def type(self) -> str:
        found = self._type_text()
        if found is None:
            at = self.index
            if self.ended:
                raise self.expected("a type")
            token = self.token()
            assert token is not None
            return self.placed(lambda: normalise_type(token.text), at)
        return found

    def _type_text(self) -> str | None:
        """The longest run of tokens from here that is a type; the position moves behind it."""
        first = self.token()
        if first is None or first.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
            return None
        depth, ahead, best = 0, 0, 0
        found: str | None = None
        while (token := self.token(ahead)) is not None and ahead < 200:
            text = token.text
            depth += text.count("<") + text.count("(") - text.count(">") - text.count(")")
            if depth < 0 or token.token_type == TokenType.SEMICOLON or (depth == 0 and text == ","):
                break
            ahead += 1
            if depth == 0:
                candidate = self.text[first.start : token.end + 1]
                if is_type(candidate):
                    found, best = normalise_type(candidate), ahead
                elif found is not None and ahead > best + 3:
                    break
        if found is not None:
            self.advance(best)
        return found

    # -- queries and expressions ------------------------------------------------------------------------------------

    def at_query(self) -> bool:
        if self.word() in ("SELECT", "WITH", "FROM", "VALUES"):
            return not self.at("WITH", "(")
        return self.at("(") and self.word(1) in ("SELECT", "WITH", "FROM", "VALUES", "(")

    def query(self) -> Query:
        """A query; the position is then at the first token that is no part of it."""
        at = self.index
        if not self.at_query():
            raise self.expected("a query", "A query begins with SELECT, WITH, FROM, VALUES or a parenthesis.")
        tree = self._parse(self._parser._parse_ddl_select)
        while isinstance(tree, exp.Subquery) and tree.is_wrapper:
            tree = tree.this
        if not isinstance(tree, exp.Query | exp.Values):
            raise self.error("UNEXPECTED_TOKEN", "Expected a query.", at=at)
        output = self._take_output(tree, at)
        query = Query(tree, output, self.text, self.place(at))
        self.placed(query.relations, at)  # refuses qualified names, here where the place is known
        self.placed(query.sql, at)
        return query

    def _take_output(self, tree: exp.Expr, at: int) -> str | None:
        first: exp.Expr = tree
        while isinstance(first, exp.SetOperation | exp.Subquery):
            first = first.this
        output: str | None = None
        for select in tree.find_all(exp.Select):
            for mark in select.args.get("operation_modifiers") or ():
                if select is not first or output is not None:
                    raise self.error(
                        "MISPLACED_OUTPUT",
                        "STREAMED and COMPLETE belong to the outermost SELECT, and only one of them.",
                        at=at,
                    )
                output = {STREAMED_MARK: "STREAMED", COMPLETE_MARK: "COMPLETE"}[mark.name]
            select.set("operation_modifiers", None)
        return output

    def scalar(self, what: str = "an expression") -> Scalar:
        at = self.index
        if self.ended:
            raise self.expected(what)
        tree = self._parse(self._parser._parse_disjunction)
        if tree is None:
            raise self.expected(what)
        scalar = Scalar(tree)
        self.placed(scalar.sql, at)
        return scalar

    def _parse(self, read: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        try:
            return read()
        except PlacedParseError as error:
            raise self._translated(error) from None
        except ParseError as error:
            raise self.error("SYNTAX_ERROR", _readable(str(error).split("\n")[0])) from None
        except RecursionError:
            raise self.error("TOO_DEEP", "The query is nested too deeply.") from None

    def _translated(self, error: PlacedParseError) -> LanguageError:
        token = error.token
        message = _readable(error.message)
        if token is None or token.token_type == TokenType.SEMICOLON:
            place = place_of(self.text, token) if token else self.place(len(self.tokens))
            return LanguageError("UNEXPECTED_END", f"{message}, found the end of the statement.", place=place)
        source = self.text[token.start : token.end + 1]
        return LanguageError("SYNTAX_ERROR", f"{message}, found '{source}'.", place=place_of(self.text, token))


def _readable(message: str) -> str:
    """sqlglot's words in ours."""
    missing = re.match(r"Required argument '(\w+)' missing for .*?(\w+)'?>?$", message)
    if missing:
        return f"Expected an operand of {missing.group(2)}"
    message = message.replace("Expecting", "Expected").rstrip(".")
    return message[0].upper() + message[1:] if message else "The text is not understood"
