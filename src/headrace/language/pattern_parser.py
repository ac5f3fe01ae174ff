"""How patterns over sequences of rows are read: ``M PATTERN [a, b+] WITHIN 10 MINUTES`` and MATCH_RECOGNIZE (...).

All of the standard's clause is read, also what no machine of ours can mean: it prints back as it came, and whoever
makes a view of it refuses it by name. sqlglot's own reader knows neither WITHIN nor SUBSET, and no lack of DEFINE.
"""

# mypy: allow-subclassing-any
from __future__ import annotations

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from headrace.errors import LanguageError
from headrace.language import nodes
from headrace.language.times import format_seconds, is_unit, parse_duration

_LENGTH_STARTS = {TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL}
_ROWS_OPTIONS = ("SHOW EMPTY MATCHES", "OMIT EMPTY MATCHES", "WITH UNMATCHED ROWS")


class PatternParser(SparkParser):
    """The part of our parser that reads patterns and lengths of time."""

    def _close_bracket(self) -> None:
        if not self._match(TokenType.R_BRACKET):
            self.raise_error("Expected ]")

    def _parse_length(self) -> nodes.Length:
        if self._match(TokenType.INTERVAL):
            this = self._parse_string() or self._parse_number()
        else:
            this = self._parse_number() or self._parse_id_var(any_token=False)
        if this is None:
            self.raise_error("Expected a number, such as 100 or 10 SECONDS")
        unit = None
        if self._curr.token_type == TokenType.VAR and is_unit(self._curr.text):
            unit = exp.var(self._curr.text.upper())
            self._advance()
        return nodes.Length(this=this, unit=unit)

    # -- PATTERN [a, b+] ------------------------------------------------------------------------------------------

    def _parse_pattern(self) -> nodes.Pattern | None:
        if self._curr.text.upper() != "PATTERN" or self._next.token_type != TokenType.L_BRACKET:
            return None
        self._advance(2)
        variables = self._parse_csv(self._parse_pattern_variable)
        self._close_bracket()
        return nodes.Pattern(expressions=variables, within=self._parse_within())

    def _parse_pattern_variable(self) -> nodes.PatternVariable | None:
        name = self._parse_id_var()
        return nodes.PatternVariable(this=name, plus=self._match(TokenType.PLUS)) if name else None

    def _parse_within(self) -> nodes.Length | None:
        """``WITHIN 10 MINUTES``, in whole or broken seconds; `M PATTERN [a] within` has an alias instead."""
        if self._curr.text.upper() != "WITHIN" or self._next.token_type not in _LENGTH_STARTS:
            return None
        self._advance()
        token = self._curr
        length = self._parse_string() or self._parse_length()
        unit = length.args.get("unit")
        told = length.this.name if isinstance(length, nodes.Length) else length.name
        try:
            micros = parse_duration(told + (f" {unit.name}" if unit is not None else ""))
        except LanguageError as error:
            self.raise_error(f"{error.message} Write WITHIN 10 MINUTES", token)
            raise AssertionError("raise_error always raises") from None
        if micros < 1:
            self.raise_error("A pattern lies WITHIN a length of time above 0", token)
        return nodes.Length(this=exp.Literal.number(format_seconds(micros)), unit=exp.var("SECONDS"))

    # -- MATCH_RECOGNIZE (...) ------------------------------------------------------------------------------------

    def _parse_match_recognize(self) -> nodes.MatchRecognize | None:
        if not self._match(TokenType.MATCH_RECOGNIZE):
            return None
        self._match_l_paren()
        partition = self._parse_partition_by()
        order = self._parse_order()
        measures = self._parse_csv(self._parse_measure) if self._match_text_seq("MEASURES") else None
        rows = self._parse_rows_per_match()
        after = self._words_before("PATTERN") if self._at_word("AFTER") else None
        pattern = self._parse_row_pattern()
        within = self._parse_within()
        subset = self._words_before("DEFINE") if self._at_word("SUBSET") else None
        define = self._parse_csv(self._parse_name_as_expression) if self._match_text_seq("DEFINE") else None
        self._match_r_paren()
        return self.expression(
            nodes.MatchRecognize(
                partition_by=partition, order=order, measures=measures, rows=rows, after=after, pattern=pattern,
                within=within, subset=subset, define=define, alias=self._parse_table_alias(),
            )
        )  # fmt: skip

    def _parse_measure(self) -> exp.MatchRecognizeMeasure:
        frame = self._match_texts(("FINAL", "RUNNING")) and self._prev.text.upper()
        value = self._parse_disjunction()
        # A name without AS could be the ONE or the ALL of the next clause.
        if value is None or not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS and the name of the measure")
        name = self._parse_id_var()
        return exp.MatchRecognizeMeasure(window_frame=frame, this=exp.Alias(this=value, alias=name))

    def _at_word(self, word: str) -> bool:
        return self._curr.token_type != TokenType.IDENTIFIER and self._curr.text.upper() == word

    def _parse_rows_per_match(self) -> exp.Var | None:
        if self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
            return exp.var("ONE ROW PER MATCH")
        if not self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            return None
        for option in _ROWS_OPTIONS:
            if self._match_text_seq(*option.split()):
                return exp.var(f"ALL ROWS PER MATCH {option}")
        return exp.var("ALL ROWS PER MATCH")

    def _words_before(self, last: str) -> exp.Var:
        """All words up to `last` or the end of the clause, as one."""
        words: list[Token] = []
        depth = 0
        while self._curr and not (depth == 0 and (self._at_word(last) or self._curr.token_type == TokenType.R_PAREN)):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            words.append(self._curr)
            self._advance()
        if not words:
            self.raise_error("Expected a pattern, such as (a b+)")
        return exp.var(_joined(words))

    def _parse_row_pattern(self) -> exp.Expr:
        """Variables in a row, where the pattern is that; else its words."""
        if not self._match_text_seq("PATTERN"):
            self.raise_error("Expected PATTERN (a b+)")
        self._match_l_paren()
        index = self._index
        variables: list[exp.Expr] = []
        names = {TokenType.IDENTIFIER, *self.ID_VAR_TOKENS}
        while self._curr.token_type in names and (variable := self._parse_pattern_variable()):
            variables.append(variable)
        if variables and self._match(TokenType.R_PAREN):
            return nodes.RowPattern(expressions=variables)
        self._retreat(index)
        words = self._words_before(")")
        self._match_r_paren()
        return words


def _joined(words: list[Token]) -> str:
    """The words as they may be read again: quoted names in backquotes, quantifiers right behind their variable."""
    text = ""
    for word in words:
        told = word.text if word.token_type != TokenType.IDENTIFIER else "`" + word.text.replace("`", "``") + "`"
        if word.token_type == TokenType.STRING:
            told = exp.Literal.string(word.text).sql(dialect="spark")
        text += told if not text or told in ("+", "*", "?", ")", "{", "}", ",") or text[-1] in "({" else f" {told}"
    return text
