"""Spark's query parser, extended with what may stand in a Headrace query.

It reads from the middle of a token list and stops where the query stops, so the clauses after a view's query (REFRESH,
RETAIN, ...) need no search for the end. For that, a name that begins such a clause is never an alias (`_stops`).
It is one long module because sqlglot's parser is one class and the pieces call each other.
"""

# mypy: allow-subclassing-any
from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from headrace.errors import LanguageError
from headrace.language import nodes
from headrace.language.pattern_parser import PatternParser
from headrace.language.times import is_unit, parse_time
from headrace.language.tokens import COMPLETE_MARK, RANGE_DOTS, STREAMED_MARK

_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_POINT_STARTS = {TokenType.NUMBER, TokenType.STRING, TokenType.DASH}

# A word that begins a tail clause, and the words one of which must follow it. What follows is part of the test, so that
# `SELECT 1 AS late` and `FROM t AS refresh` stay legal.
_TAILS: dict[str, Collection[str]] = {
    "PARTITION": ("LENGTH",),
    "LATE": ("DIVERT", "DROP", "MERGE"),
    "SYNC": ("BY",),
    "VERSION": ("AS",),
}
_TAILS_BEFORE: dict[str, set[TokenType]] = {
    "SLACK": {TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL},
    "AT": {*_POINT_STARTS, TokenType.TIMESTAMPTZ, TokenType.TIMESTAMP, TokenType.DATE},
    "PATTERN": {TokenType.L_BRACKET},
    "KEY": {TokenType.L_PAREN, TokenType.NULL, *_NAMES},
    "SYNC": _NAMES,
    "ACTIVE": {TokenType.VAR},
}


class PlacedParseError(ParseError):
    """A parse error that remembers its token, so that the place can be told exactly; no token means the end."""

    def __init__(self, message: str, token: Token | None) -> None:
        super().__init__(message, [{"description": message}])
        self.message = message
        self.token = token


class _Percentile:
    """``percentile(x, p)``, or with a frequency, for which sqlglot's own node has no room."""

    @staticmethod
    def from_arg_list(arguments: list[exp.Expr]) -> exp.Expr:
        if len(arguments) > 2:
            return exp.Anonymous(this="percentile", expressions=arguments)
        return exp.Quantile.from_arg_list(arguments)


def _first_or_last(name: str, build: Callable[[list[exp.Expr]], exp.Expr]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """sqlglot forgets what it does not know: the standard's ``LAST(x, 1)``, the row before the last."""

    def built(arguments: list[exp.Expr]) -> exp.Expr:
        if len(arguments) > 1 and not isinstance(arguments[1], exp.Boolean):
            return exp.Anonymous(this=name, expressions=arguments)
        return build(arguments)

    return built


class HeadraceParser(PatternParser):
    OPERATION_MODIFIERS: ClassVar[set[str]] = {STREAMED_MARK, COMPLETE_MARK}
    # sqlglot prints these without their format, so they stay functions it knows nothing of.
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        name: build for name, build in SparkParser.FUNCTIONS.items() if name not in ("TO_CHAR", "TO_VARCHAR")
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **SparkParser.FUNCTION_PARSERS,
        "PERCENTILE": lambda self: self._parse_distinct_arg_function(_Percentile),
    }
    FUNCTIONS.update({name: _first_or_last(name, SparkParser.FUNCTIONS[name]) for name in ("FIRST", "LAST")})

    def start(self, tokens: list[Token], text: str) -> None:
        """Make ready to read `tokens` from the first."""
        self.reset()
        self.sql = text
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    def raise_error(self, message: str, token: Token | None = None) -> None:
        raise PlacedParseError(message, token or self._curr or None)

    # -- where a query ends ---------------------------------------------------------------------------------------

    def _stops(self) -> bool:
        if self._curr.token_type == TokenType.IDENTIFIER:
            return False
        word, following = self._curr.text.upper(), self._next
        if word in ("REFRESH", "RETAIN"):  # always ours, so that a slip in the clause is told as one
            return True
        if following.token_type != TokenType.IDENTIFIER and following.text.upper() in _TAILS.get(word, ()):
            return True
        if following.token_type in _TAILS_BEFORE.get(word, ()):
            return True
        if word == "UPDATE":  # the UPDATE of a view delta function: `UPDATE v[j] AS` or `UPDATE VIEW v[j] AS`
            after = self._tokens[self._index + 2] if self._index + 2 < self._tokens_size else None
            return following.token_type == TokenType.VIEW or (
                after is not None and after.token_type == TokenType.L_BRACKET
            )
        return False

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        if self._stops():
            return this
        aliased = super()._parse_alias(this, explicit=explicit)
        if isinstance(aliased, exp.Alias) and self._match(TokenType.OVER, advance=False):
            # ESL Example 15 names the aggregate before its window: `sum(x) AS s OVER (...)`.
            aliased.set("this", self._parse_window(aliased.this))
        return aliased

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        return None if self._stops() else super()._parse_table_alias(alias_tokens)

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        index = self._index
        if self._match(TokenType.GROUP_BY) and self._match(TokenType.ALL) and self._curr and self._stops():
            # sqlglot looks for expressions after ALL too, and would take PARTITION or RETAIN for a column.
            return self.expression(exp.Group(all=True))
        self._retreat(index)
        return super()._parse_group(skip_group_by_token)

    def _parse_table_hints(self) -> list[exp.Expr] | None:
        # `WITH (...)` after a relation is T-SQL's; with us it begins the options of the statement.
        return None

    # -- relations in FROM ----------------------------------------------------------------------------------------

    def _parse_table(
        self,
        schema: bool = False,
        joins: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
        is_db_reference: bool = False,
        **options: Any,
    ) -> exp.Expr | None:
        if schema or is_db_reference:
            return super()._parse_table(
                schema=schema, joins=joins, alias_tokens=alias_tokens, is_db_reference=is_db_reference, **options
            )
        this = self._parse_relation()
        if this is None:
            this = super()._parse_table(alias_tokens=alias_tokens, **options)
            if isinstance(this, exp.Subquery):
                this = self._with_suffixes(this)
        else:
            this = self._parse_after_relation(this, alias_tokens)
        this = self._parse_union_of_relations(this)
        if joins and this is not None:
            for join in self._parse_joins(alias_tokens=alias_tokens):
                this.append("joins", join)
        return this

    def _parse_relation(self) -> exp.Expr | None:
        """A relation named in one of our ways, or a plain name; None for anything else (subquery, function, ...)."""
        word = self._curr.text.upper() if self._curr.token_type != TokenType.IDENTIFIER else ""
        if (
            word in ("R", "ℜ")
            and self._next.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET)
            and (found := self._parse_relational_view())
        ):
            return found
        if word in ("CHANGES", "SYNC_POINTS") and self._next.token_type == TokenType.L_PAREN:
            self._advance(2)
            changed = self._parse_plain_name()
            if word == "CHANGES" and self._match(TokenType.COMMA):
                if not self._match_text_seq("OLD"):
                    self.raise_error("Expected OLD, which shows the rows that were there before", self._curr)
                word = nodes.CHANGES_AND_OLD
            self._match_r_paren()
            changed.set("changes_of", word)
            return changed
        if self._curr.token_type in (TokenType.L_PAREN, TokenType.LATERAL, TokenType.UNNEST, TokenType.VALUES):
            return None
        if self._next.token_type == TokenType.L_PAREN and self._curr.token_type != TokenType.IDENTIFIER:
            return None
        if self._curr.token_type in self.ID_VAR_TOKENS or self._curr.token_type == TokenType.IDENTIFIER:
            return self._parse_plain_name()
        return None

    def _parse_plain_name(self) -> nodes.Relation:
        parts: list[exp.Expr] = []
        while True:
            token = self._curr
            part = self._parse_id_var(any_token=bool(parts))
            if part is None:
                self.raise_error("Expected the name of a stream, table or view", token)
                raise AssertionError("raise_error always raises")
            parts.append(part)
            if not self._match(TokenType.DOT):
                break
        relation = nodes.Relation(this=parts[-1])
        for key, qualifier in zip(("db", "catalog"), reversed(parts[:-1]), strict=False):
            relation.set(key, qualifier)
        return self.expression(relation)

    def _parse_relational_view(self) -> exp.Expr | None:
        """``R(S)`` and ``R[y](S)`` of SyncSQL; None where R is just the name of a relation."""
        index = self._index
        self._advance()
        sync = None
        if self._match(TokenType.L_BRACKET):
            sync = self._parse_id_var(any_token=False)
            if sync is None or not self._match(TokenType.R_BRACKET):
                self._retreat(index)
                return None
        if not self._match(TokenType.L_PAREN):
            self._retreat(index)
            return None
        relation = self._parse_plain_name()
        self._match_r_paren()
        if sync is not None:
            relation.append("suffixes", nodes.Sync(this=sync))
        return relation

    def _parse_after_relation(self, this: exp.Expr, alias_tokens: Collection[TokenType] | None) -> exp.Expr:
        self._parse_suffixes(this)
        if sample := self._parse_table_sample():
            this.set("sample", sample)
        if pivots := self._parse_pivots():
            this.set("pivots", pivots)
        if alias := self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS):
            this.set("alias", alias)
            self._parse_suffixes(this)
        return this

    def _with_suffixes(self, this: exp.Subquery) -> exp.Expr:
        holder = nodes.WindowedSubquery(**this.args)
        self._parse_suffixes(holder)
        if not holder.args.get("suffixes"):
            return this
        if not holder.args.get("alias") and (alias := self._parse_table_alias()):
            holder.set("alias", alias)
        return holder

    def _parse_union_of_relations(self, this: exp.Expr | None) -> exp.Expr | None:
        """``FROM R(a) x UNION R(b) y`` (SyncSQL Example 11) is a subquery with a UNION of two `SELECT *`."""
        while isinstance(this, nodes.Relation) and self._match(TokenType.UNION, advance=False):
            index = self._index
            self._advance()
            keep_all = self._match(TokenType.ALL)
            right = self._parse_relation() if self._curr.token_type not in (TokenType.SELECT, TokenType.WITH) else None
            if right is None:
                self._retreat(index)
                return this
            right = self._parse_after_relation(right, None)
            union = exp.union(exp.select("*").from_(this), exp.select("*").from_(right), distinct=not keep_all)
            return union.subquery()
        return this

    # -- suffixes -------------------------------------------------------------------------------------------------

    def _parse_suffixes(self, this: exp.Expr) -> None:
        while suffix := self._parse_suffix():
            this.append("suffixes", suffix)

    def _parse_suffix(self) -> exp.Expr | None:
        if self._match(TokenType.L_BRACKET, advance=False):
            return self._parse_stream_window() or self._parse_part_reference()
        if self._at_sync():
            self._advance()
            return nodes.Sync(this=self._parse_id_var())
        return self._parse_pattern() or self._parse_as_of()

    def _at_sync(self) -> bool:
        """`S SYNC y`, but not the SYNC BY that follows a view's query."""
        if self._curr.token_type == TokenType.IDENTIFIER or self._curr.text.upper() != "SYNC":
            return False
        following = self._next
        return following.token_type == TokenType.IDENTIFIER or (
            following.token_type == TokenType.VAR and following.text.upper() != "BY"
        )

    def _parse_stream_window(self) -> nodes.StreamWindow | None:
        index = self._index
        self._advance()
        partition = self._parse_csv(self._parse_column) if self._match(TokenType.PARTITION_BY) else None
        kind = self._curr.text.upper()
        if kind not in ("RANGE", "ROWS", "WINDOW") or self._next.token_type == TokenType.R_BRACKET:
            if partition is not None:
                self.raise_error("Expected ROWS or RANGE after PARTITION BY")
            self._retreat(index)
            return None
        self._advance()
        length = None if self._match_text_seq("UNBOUNDED") else self._parse_length()
        slide = self._parse_length() if self._match_text_seq("SLIDE") else None
        internal = self._match_text_seq("INTERNAL")
        self._close_bracket()
        return nodes.StreamWindow(kind=kind, this=length, partition_by=partition, slide=slide, internal=internal)

    def _parse_part_reference(self) -> nodes.PartReference:
        self._advance()
        first = self._parse_bitwise()
        if first is None:
            self.raise_error("Expected a part, such as [i], [j-1] or [i-3..i]")
        to = None
        if self._match(RANGE_DOTS):
            to = self._parse_bitwise()
            if to is None:
                self.raise_error("Expected the last part after ..")
        self._close_bracket()
        return nodes.PartReference(this=first, to=to)

    def _parse_as_of(self) -> exp.Expr | None:
        index = self._index
        by = ""
        self._match_text_seq("FOR")
        if self._curr.text.upper() in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"):
            by = "SNAPSHOT" if "VERSION" in self._curr.text.upper() else "TIME"
            self._advance()
        if not self._match_text_seq("AS", "OF"):
            self._retreat(index)
            return None
        if not by and self._match_text_seq("SNAPSHOT"):
            by = "SNAPSHOT"
        typed = self._curr.text.upper() in ("TIMESTAMP", "DATE") and self._next.token_type == TokenType.STRING
        if typed:
            self._advance()
        if not by and not typed and self._curr.token_type not in _POINT_STARTS:
            self._retreat(index)  # `FROM v AS of`: an alias, if a strange one
            return None
        token = self._curr
        text = "-" if self._match(TokenType.DASH) else ""
        if self._curr.token_type not in (TokenType.NUMBER, TokenType.STRING):
            self.raise_error("Expected a number or a timestamp after AS OF")
        text += self._curr.text
        self._advance()
        if by == "SNAPSHOT":
            if not text.isdigit():
                self.raise_error("Expected the number of a snapshot", token)
            return nodes.AsOfSnapshot(this=exp.Literal.number(text))
        try:
            return nodes.AsOfTime(this=exp.Literal(this=str(parse_time(text)), is_string=False))
        except LanguageError as error:
            raise PlacedParseError(error.message.rstrip("."), token) from None

    # -- expressions ----------------------------------------------------------------------------------------------

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Read `a < b <= c` of SyncSQL as `(a < b AND b <= c)`; in plain SQL it would compare a boolean."""
        found = super()._parse_comparison(this)
        if type(found) not in self.COMPARISON.values():
            return found
        links: list[exp.Expr] = []
        link: Any = found
        while type(link) in self.COMPARISON.values():
            links.append(link)
            link = link.this
        if len(links) == 1:
            return links[0]
        links.reverse()
        pairs = [links[0].copy()]
        for before, link in pairwise(links):
            pairs.append(type(link)(this=before.expression.copy(), expression=link.expression.copy()))
        return exp.Paren(this=exp.and_(*pairs, copy=False, wrap=False))

    def _parse_column(self) -> exp.Expr | None:
        found = super()._parse_column()
        if not isinstance(found, exp.Column) or found.table or not isinstance(found.this, exp.Identifier):
            return found
        return nodes.Now() if found.name.upper() == "NOW" and not found.this.args.get("quoted") else found

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        kind = nodes.RELATION_TO_STREAM.get(self._curr.text.upper())
        if kind is None or self._next.token_type != TokenType.L_PAREN or self._curr.token_type == TokenType.IDENTIFIER:
            return super()._parse_function_call(*args, **options)
        self._advance(2)
        inner = [exp.Star()] if self._match(TokenType.STAR) else self._parse_csv(self._parse_expression)
        self._match_r_paren()
        window = None
        if kind is nodes.Wstream and self._match(TokenType.L_BRACKET, advance=False):
            window = self._parse_stream_window()
        return self.expression(kind(expressions=inner, window=window))

    def _parse_window_spec(self) -> dict[str, str | exp.Expr | None]:
        if self._curr.token_type == TokenType.NUMBER and is_unit(self._next.text):
            length = self._parse_length()
            side = self._prev.text if self._match_texts(self.WINDOW_SIDES) else None
            return {"value": length, "side": side}
        return super()._parse_window_spec()

    def _match_r_paren(self, expression: exp.Expr | None = None) -> None:
        if self._curr.token_type != TokenType.R_PAREN and isinstance(self._window_tail, list):
            # Inside OVER (...): sqlglot closes the window here, so this is where the slide clause stands.
            if self._match_text_seq("SLIDE"):
                self._window_tail.append(("slide", self._parse_length()))
            elif self._match_text_seq("ACTIVE", "EXPIRATION"):
                self._window_tail.append(("active", True))
        super()._match_r_paren(expression)

    _window_tail: list[tuple[str, Any]] | None = None

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        outer, self._window_tail = self._window_tail, []
        try:
            window = super()._parse_window(this, alias=alias)
            tail = self._window_tail
        finally:
            self._window_tail = outer
        if not tail or not isinstance(window, exp.Window):
            return window
        sliding = nodes.SlidingWindow(**window.args)
        for key, value in tail:
            sliding.set(key, value)
        return sliding
