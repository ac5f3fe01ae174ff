"""What every statement is made of: values, options, columns, queries and expressions.

Statement modules read these here; where a query or an expression begins, the cursor hands over to sqlglot's parser,
which shares the position and stops where its part ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import TokenType

from headrace.errors import LanguageError
from headrace.language.printing import Options, OptionValue
from headrace.language.query import Query, Scalar
from headrace.language.query_parser import PlacedParseError
from headrace.language.statement import Column
from headrace.language.times import is_unit, parse_duration, parse_time
from headrace.language.tokens import COMPLETE_MARK, STREAMED_MARK, place_of
from headrace.language.types import is_type, normalise_type
from headrace.language.words import VALUES, WORD, Words

# How sqlglot names the clauses that lack something.
_CLAUSES = {
    "Where": "WHERE",
    "Order": "ORDER BY",
    "Group": "GROUP BY",
    "From": "FROM",
    "Having": "HAVING",
    "Join": "JOIN",
}


class Cursor(Words):
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
        if token is None or token.token_type in VALUES or not WORD.fullmatch(token.text):
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
    missing = re.match(r"Required \w+:? '\w+' missing for .*?(\w+)'?>?$", message)
    if missing:
        clause = _CLAUSES.get(missing.group(1))
        return f"Expected an expression after {clause}" if clause else "Expected an operand"
    if message.startswith("Expected table name"):
        return "Expected the name of a stream, table or view"
    message = message.replace("Expecting", "Expected").rstrip(".")
    return message[0].upper() + message[1:] if message else "The text is not understood"
