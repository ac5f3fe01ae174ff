"""Text to tokens: Spark's tokenizer plus the few spellings that only make sense before parsing.

The adjustments live here, and not in the parser, because they join or split what the tokenizer saw: ``3..i`` is a
number, two dots and a name; ``Rstream-restore(`` is one function name; ``a mod 2`` is an operator; and in ``SELECT
STREAMED x`` the word is a marker, while in ``SELECT streamed FROM t`` it is a column.
"""

# mypy: allow-subclassing-any
from __future__ import annotations

import re
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from headrace.errors import LanguageError, Place

RANGE_DOTS = TokenType.BREAK  # a token type that no expression parser consumes: it stands for `..`
STREAMED_MARK, COMPLETE_MARK = "<STREAMED>", "<COMPLETE>"

_OPERAND_ENDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET}
_OPERAND_STARTS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.L_PAREN}
_AFTER_A_COLUMN = {
    TokenType.COMMA, TokenType.FROM, TokenType.DOT, TokenType.ALIAS, TokenType.SEMICOLON, TokenType.R_PAREN,
    TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.PLUS,
    TokenType.DASH, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE, TokenType.AND, TokenType.OR, TokenType.IS,
    TokenType.IN, TokenType.LIKE, TokenType.BETWEEN, TokenType.L_BRACKET, TokenType.DCOLON, TokenType.UNION,
    TokenType.WHERE, TokenType.EXCEPT, TokenType.INTERSECT,
}  # fmt: skip


class HeadraceTokenizer(Spark.Tokenizer):
    # No command swallows the rest of its line as one string: SHOW and EXPLAIN are ours to read.
    COMMANDS: ClassVar[set[TokenType]] = set()
    # Since Spark 4, a doubled quote inside a string is the quote itself.
    STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        **Spark.Tokenizer.SINGLE_TOKENS,
        "≤": TokenType.LTE,
        "≥": TokenType.GTE,
        "≠": TokenType.NEQ,
        "∪": TokenType.UNION,
    }
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **Spark.Tokenizer.KEYWORDS,
        "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
        "GROUPBY": TokenType.GROUP_BY,
    }


def place_at(text: str, start: int, length: int = 1) -> Place:
    """The place of a character offset, with 1-based line and column."""
    start = min(max(start, 0), len(text))
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Place(text=text, line=line, column=column, length=max(1, length))


def place_of(text: str, token: Token) -> Place:
    """The place of a token; underlines no further than the end of its first line."""
    source = text[token.start : token.end + 1]
    return place_at(text, token.start, len(source.split("\n", 1)[0]))


def tokenise(text: str, dialect: object) -> list[Token]:
    """All tokens of `text`, adjusted; unclosed quotes and comments are told with their place."""
    _refuse_unclosed(text)
    try:
        tokens: list[Token] = HeadraceTokenizer(dialect=dialect).tokenize(text)
    except TokenError as error:
        detail = str(error.__cause__ or error)
        raise LanguageError("UNREADABLE_TEXT", "The text cannot be split into words.", detail=detail) from None
    return _mark_output_words(_join_and_split(tokens))


# Whole strings (raw ones first: in them a backslash escapes nothing), names and line comments; then what only opens.
_CLOSED_OR_OPEN = re.compile(
    r"""\b[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:``|[^`])*`|--[^\n]*|/\*.*?\*/|/\*|['"`]""",
    re.DOTALL,
)


def _refuse_unclosed(text: str) -> None:
    """sqlglot swallows an unclosed comment and tells an unclosed quote by where the text ends; we look ourselves."""
    for found in _CLOSED_OR_OPEN.finditer(text):
        opened = found.group()
        if opened == "/*":
            raise LanguageError(
                "UNCLOSED_COMMENT",
                "The comment opened here is never closed.",
                hint="Write */ at its end.",
                place=place_at(text, found.start(), 2),
            )
        if len(opened) == 1:
            raise LanguageError(
                "UNCLOSED_QUOTE",
                f"The quote {opened} opened here is never closed.",
                hint=f"Write {opened} at its end; inside a string, write \\{opened} for the character itself.",
                place=place_at(text, found.start()),
            )


def _connected(left: Token, right: Token) -> bool:
    return bool(left.end + 1 == right.start)


def _part(token: Token, kind: TokenType, text: str, start: int) -> Token:
    return Token(kind, text, token.line, token.col, start, start + len(text) - 1, token.comments)


def _join_and_split(tokens: list[Token]) -> list[Token]:
    out: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        after = tokens[index + 2] if index + 2 < len(tokens) else None
        upper = token.text.upper()
        if following is None:
            out.append(token)
        elif token.token_type == TokenType.NUMBER and token.text.endswith(".") and _is_dot_after(token, following):
            out.append(_part(token, TokenType.NUMBER, token.text[:-1], token.start))
            out.append(_part(following, RANGE_DOTS, "..", token.end))
            index += 1
        elif token.token_type == TokenType.DOT and _is_dot_after(token, following):
            out.append(_part(token, RANGE_DOTS, "..", token.start))
            index += 1
        elif (
            upper in ("ISTREAM", "RSTREAM")
            and after is not None
            and following.token_type == TokenType.DASH
            and after.text.upper() == "RESTORE"
            and _connected(token, following)
            and _connected(following, after)
        ):
            out.append(_part(token, TokenType.VAR, f"{token.text}-{after.text}", token.start))
            index += 2
        elif (
            token.token_type == TokenType.VAR
            and upper == "MOD"
            and out
            and out[-1].token_type in _OPERAND_ENDS
            and following.token_type in _OPERAND_STARTS
        ):
            out.append(_part(token, TokenType.MOD, token.text, token.start))
        elif token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            # Spark's function: sqlglot would end the GROUP BY here and look for a named window.
            out.append(_part(token, TokenType.VAR, token.text, token.start))
        else:
            out.append(token)
        index += 1
    return out


def _is_dot_after(token: Token, following: Token) -> bool:
    return following.token_type == TokenType.DOT and _connected(token, following)


def _mark_output_words(tokens: list[Token]) -> list[Token]:
    """Mark STREAMED and COMPLETE after SELECT, and put them behind DISTINCT, where the parser looks for them."""
    out = list(tokens)
    for index, token in enumerate(tokens[:-2]):
        if token.token_type != TokenType.SELECT:
            continue
        at = index + 1
        if out[at].token_type in (TokenType.DISTINCT, TokenType.ALL):
            at += 1
        if at + 1 >= len(out) or not _is_output_word(out, at):
            continue
        word = out[at]
        marked = _part(word, TokenType.VAR, f"<{word.text.upper()}>", word.start)
        marked.end = word.end
        out[at] = marked
        if out[at + 1].token_type in (TokenType.DISTINCT, TokenType.ALL):
            out[at], out[at + 1] = out[at + 1], marked
    return out


def _is_output_word(tokens: list[Token], at: int) -> bool:
    token, following = tokens[at], tokens[at + 1]
    if token.token_type == TokenType.IDENTIFIER or token.text.upper() not in ("STREAMED", "COMPLETE"):
        return False
    if following.token_type == TokenType.STAR:
        # `SELECT complete * 2 FROM t` multiplies; `SELECT COMPLETE * FROM t` selects all columns.
        after = tokens[at + 2].token_type if at + 2 < len(tokens) else TokenType.SEMICOLON
        return after in (TokenType.FROM, TokenType.COMMA, TokenType.EXCEPT, TokenType.SEMICOLON)
    return following.token_type not in _AFTER_A_COLUMN
