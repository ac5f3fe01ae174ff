"""Simple scalar expressions read into terms, typed as Spark (ANSI) types them: they need not be asked of an engine.

Only what is surely the same everywhere is read; `None` says that an expression is for the engine. There are no floats
(NaN and -0.0 have rules of their own), no times of day without a zone, and no values taken out of strings. Nothing that
overflows has a value here: whoever evaluates a term must notice, and ask the engine, which knows how to fail.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headrace.errors import DefinitionError
from headrace.language.dialect import headrace_sql
from headrace.language.types import arrow_type, ddl_type

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
#: How many digits Spark gives an integer among decimals.
_DIGITS = dict(zip(_INTEGERS, (3, 5, 10, 20), strict=True))
_COMPARED = (pa.bool_(), pa.string(), pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us"))
#: Units that are as long on every day.
_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_MOST = 38
#: decimal256 holds a product only up to here.
_MOST_BETWEEN = 76


@dataclass(frozen=True)
class Term:
    """An operation on terms. Operands are of the types it needs: what SQL converts silently is a `cast` here.

    `value` is a literal's value, a column's name, a pattern, or what else the operation must know. `literal`: Spark
    sees a literal, whose own digits count among decimals.
    """

    operation: str
    type: pa.DataType
    operands: tuple[Term, ...] = ()
    value: Any = None
    literal: bool = False


class _Refused(Exception):
    """The expression is for the engine."""


def term_of(expression: exp.Expr, types: Mapping[str, str], result: str, engine: str | None = None) -> Term | None:
    """An expression cast to the SQL type `result`, over columns of the SQL types `types`; None if it is not simple.

    Engines divide decimals differently, and do not all round them: what does either is read only where the kind of
    the `engine` is known.
    """
    try:
        reader = _Reader(types, engine)
        return reader.converted(reader.read(expression), _arrow(result))
    except _Refused:
        return None


def type_of(expression: exp.Expr, types: Mapping[str, str]) -> str | None:
    """The SQL type of an expression over columns of the SQL types `types`; None if it is not simple."""
    try:
        return ddl_type(_Reader(types, None).read(expression).type)
    except (_Refused, DefinitionError):
        return None


class _Reader:
    def __init__(self, types: Mapping[str, str], engine: str | None) -> None:
        self._types = types
        self._engine = engine

    def read(self, node: exp.Expr) -> Term:
        rule = _RULES.get(type(node))
        if rule is None:
            raise _Refused
        known, make = rule
        # What an argument that we do not know would mean, we do not know either.
        if any(value for key, value in node.args.items() if key not in known):
            raise _Refused
        return make(self, node)

    def pair(self, node: exp.Expr) -> tuple[Term, Term]:
        return self.read(node.this), self.read(node.args["expression"])

    def truth(self, node: exp.Expr) -> Term:
        return _truth(self.read(node))

    # --- Leaves --------------------------------------------------------------------------------------------------

    def column(self, node: exp.Expr) -> Term:
        if not isinstance(node.this, exp.Identifier) or node.name not in self._types:
            raise _Refused
        return Term("column", _arrow(self._types[node.name]), value=node.name)

    def number(self, node: exp.Expr) -> Term:
        return _literal(node.name, pa.string()) if node.is_string else _number(node.name)

    def cast(self, node: exp.Expr) -> Term:
        text = headrace_sql(node.args["to"])
        kind = _arrow(text)
        # CHAR(n) is a STRING for us, and may be something else in a cast.
        if kind == pa.string() and text != "STRING":
            raise _Refused
        if isinstance(node.this, exp.Literal) and node.this.is_string and kind != pa.string():
            return _point(node.this.name, kind)
        # Not a literal any more: Spark counts the digits of its type.
        return replace(self.converted(self.read(node.this), kind), literal=False)

    def converted(self, term: Term, kind: pa.DataType) -> Term:
        """A cast that is asked for. Sail would not round where it compares the value with a literal."""
        rounds = _is_decimal(term.type) and _is_decimal(kind) and term.type.scale > kind.scale
        return Term("cast", kind, (term,)) if rounds and self._engine == "spark" else _cast(term, kind)

    def negated(self, node: exp.Expr) -> Term:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return _number(node.this.name, negative=True)
        operand = self.read(node.this)
        # Of decimals with more digits, Spark's minus rounds the last away.
        if operand.type not in _INTEGERS and not (_is_decimal(operand.type) and operand.type.precision <= 34):
            raise _Refused
        return Term("negate", operand.type, (operand,))

    # --- Truth ---------------------------------------------------------------------------------------------------

    def compared(self, node: exp.Expr) -> Term:
        return _compared(_COMPARISONS[type(node)], *self.pair(node))

    def between(self, node: exp.Expr) -> Term:
        operand = self.read(node.this)
        low = _compared("greater_equal", operand, self.read(node.args["low"]))
        high = _compared("less_equal", operand, self.read(node.args["high"]))
        return _perhaps_not(node, Term("and", pa.bool_(), (low, high)))

    def within(self, node: exp.Expr) -> Term:
        operand = self.read(node.this)
        items = [self.read(item) for item in node.expressions]
        if not items or any(item.operation != "value" for item in items):
            raise _Refused
        kind = _comparable(_common([operand, *items]))
        found = Term("in", pa.bool_(), (_cast(operand, kind),), tuple(item.value for item in items))
        return _perhaps_not(node, found)

    def like(self, node: exp.Expr) -> Term:
        pattern = node.args["expression"]
        # A backslash escapes, and other engines disagree on what.
        if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.name:
            raise _Refused
        return _perhaps_not(node, Term("like", pa.bool_(), (_of(self.read(node.this), pa.string()),), pattern.name))

    def connected(self, node: exp.Expr) -> Term:
        operation = "and" if isinstance(node, exp.And) else "or"
        return Term(operation, pa.bool_(), (self.truth(node.this), self.truth(node.args["expression"])))

    def inverted(self, node: exp.Expr) -> Term:
        return Term("not", pa.bool_(), (self.truth(node.this),))

    def tested(self, node: exp.Expr) -> Term:
        operand, wanted = self.read(node.this), node.args["expression"]
        if isinstance(wanted, exp.Null):
            return _perhaps_not(node, Term("is_null", pa.bool_(), (operand,)))
        if not isinstance(wanted, exp.Boolean):
            raise _Refused
        return _perhaps_not(node, _compared("same", _truth(operand), self.read(wanted)))

    # --- Arithmetic ----------------------------------------------------------------------------------------------

    def calculated(self, node: exp.Expr) -> Term:
        operation = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply"}[type(node)]
        left, other = self.read(node.this), node.args["expression"]
        if isinstance(other, exp.Interval):
            return _shifted(left, other, -1 if operation == "subtract" else 1) if operation != "multiply" else _refuse()
        right = self.read(other)
        if left.type == pa.date32():
            return _days_later(left, right, operation)
        kinds = {left.type, right.type}
        if kinds <= set(_INTEGERS):
            kind = max(kinds, key=_INTEGERS.index)
            return Term(operation, kind, (_cast(left, kind), _cast(right, kind)))
        if any(map(_is_decimal, kinds)):
            return _decimals(operation, _as_decimal(left), _as_decimal(right))
        raise _Refused

    def divided(self, node: exp.Expr) -> Term:
        quotient = {"spark": _spark_quotient, "sail": _sail_quotient}.get(str(self._engine))
        left, right = self.pair(node)
        # Integers are divided as floats.
        if quotient is None or not (_is_decimal(left.type) or _is_decimal(right.type)):
            raise _Refused
        left, right = _as_decimal(left), _as_decimal(right)
        return quotient(left, right) if pa.null() not in (left.type, right.type) else _refuse()

    def later(self, node: exp.Expr) -> Term:
        if str(node.args["unit"]).upper() != "DAY":
            raise _Refused
        left, right = self.pair(node)
        return _days_later(left, right, "add")

    # --- Choices -------------------------------------------------------------------------------------------------

    def case(self, node: exp.Expr) -> Term:
        key = self.read(node.this) if node.this is not None else None
        tests, values = [], []
        for branch in node.args["ifs"]:
            test = self.read(branch.this)
            tests.append(_truth(test) if key is None else _compared("equal", key, test))
            values.append(self.read(branch.args["true"]))
        default = node.args.get("default")
        values.append(Term("value", pa.null()) if default is None else self.read(default))
        kind = _common(values)
        *values, chosen = (_cast(value, kind) for value in values)
        for test, value in zip(reversed(tests), reversed(values), strict=True):
            chosen = Term("if", kind, (test, value, chosen))
        return chosen

    def chosen(self, node: exp.Expr) -> Term:
        values = [self.read(node.args[key]) if node.args.get(key) else _refuse() for key in ("true", "false")]
        kind = _common(values)
        return Term("if", kind, (self.truth(node.this), *(_cast(value, kind) for value in values)))

    def coalesced(self, node: exp.Expr) -> Term:
        values = [self.read(item) for item in (node.this, *node.expressions)]
        kind = _common(values)
        return Term("coalesce", kind, tuple(_cast(value, kind) for value in values))

    def null_if(self, node: exp.Expr) -> Term:
        left, right = self.pair(node)
        # Sail gives this the common type, and the digits of a quotient depend on it.
        scale = left.type.scale if _is_decimal(left.type) else 0
        if self._engine == "sail" and _is_decimal(right.type) and right.type.scale > scale:
            raise _Refused
        return Term("null_if", left.type, (_compared("equal", left, right), left))

    # --- Functions -----------------------------------------------------------------------------------------------

    def substring(self, node: exp.Expr) -> Term:
        text = _of(self.read(node.this), pa.string())
        start, length = (self.read(node.args[key]) if node.args.get(key) else _refuse() for key in ("start", "length"))
        if not (start.literal and start.type == length.type == pa.int32() and length.literal):
            raise _Refused
        if start.value < 1 or length.value < 0:
            raise _Refused
        return Term("substring", pa.string(), (text,), (start.value - 1, start.value - 1 + length.value))

    def part_of_date(self, node: exp.Expr) -> Term:
        return Term(_PARTS[type(node)], pa.int32(), (_of(self.read(node.this), pa.date32()),))

    def extracted(self, node: exp.Expr) -> Term:
        part = str(node.this.name).lower()
        if part not in ("year", "month", "day"):
            raise _Refused
        return Term(part, pa.int32(), (_of(self.read(node.args["expression"]), pa.date32()),))

    def as_date(self, node: exp.Expr) -> Term:
        return _of(self.read(node.this), pa.date32())


_COMPARISONS = {
    exp.EQ: "equal", exp.NEQ: "not_equal", exp.LT: "less", exp.LTE: "less_equal", exp.GT: "greater",
    exp.GTE: "greater_equal", exp.NullSafeEQ: "same", exp.NullSafeNEQ: "not_same",
}  # fmt: skip
_PARTS = {exp.Year: "year", exp.Month: "month", exp.Day: "day", exp.DayOfMonth: "day"}

_TWO = ("this", "expression")
_Rule = tuple[tuple[str, ...], Callable[[_Reader, Any], Term]]
#: For each kind of node the arguments that are understood, and who understands them.
_RULES: dict[type, _Rule] = {
    exp.Column: (("this",), _Reader.column),
    exp.Literal: (("this", "is_string"), _Reader.number),
    exp.Boolean: (("this",), lambda _, node: _literal(bool(node.this), pa.bool_())),
    exp.Null: ((), lambda _reader, _node: Term("value", pa.null(), literal=True)),
    exp.Paren: (("this",), lambda reader, node: reader.read(node.this)),
    # Whether a cast that fails gives NULL does not matter: none fails here.
    exp.Cast: (("this", "to", "safe"), _Reader.cast),
    exp.TryCast: (("this", "to", "safe"), _Reader.cast),
    exp.Neg: (("this",), _Reader.negated),
    **dict.fromkeys(_COMPARISONS, (_TWO, _Reader.compared)),
    exp.Between: (("this", "low", "high", "negate"), _Reader.between),
    exp.In: (("this", "expressions", "negate"), _Reader.within),
    exp.Like: ((*_TWO, "negate"), _Reader.like),
    exp.Is: ((*_TWO, "negate"), _Reader.tested),
    **dict.fromkeys((exp.And, exp.Or), (_TWO, _Reader.connected)),
    exp.Not: (("this",), _Reader.inverted),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), (_TWO, _Reader.calculated)),
    # Whether a division by zero gives NULL does not matter: there is none here.
    exp.Div: ((*_TWO, "safe"), _Reader.divided),
    exp.TsOrDsAdd: ((*_TWO, "unit"), _Reader.later),
    exp.Case: (("this", "ifs", "default"), _Reader.case),
    exp.If: (("this", "true", "false"), _Reader.chosen),
    exp.Coalesce: (("this", "expressions"), _Reader.coalesced),
    exp.Nullif: (_TWO, _Reader.null_if),
    exp.Substring: (("this", "start", "length"), _Reader.substring),
    **dict.fromkeys(_PARTS, (("this",), _Reader.part_of_date)),
    exp.Extract: (_TWO, _Reader.extracted),
    exp.TsOrDsToDate: (("this",), _Reader.as_date),
}


def _arrow(text: str) -> pa.DataType:
    try:
        return arrow_type(text)
    except DefinitionError as error:
        raise _Refused from error


def _refuse() -> Any:
    raise _Refused


def _literal(value: Any, kind: pa.DataType) -> Term:
    return Term("value", kind, value=value, literal=True)


def _number(text: str, *, negative: bool = False) -> Term:
    sign = "-" if negative else ""
    if re.fullmatch(r"\d+", text):
        value = int(sign + text)
        fits = [kind for kind, bits in ((pa.int32(), 31), (pa.int64(), 63)) if -(1 << bits) <= value < 1 << bits]
        return _literal(value, fits[0]) if fits else _refuse()
    if not re.fullmatch(r"\d+\.\d*|\.\d+", text):
        raise _Refused
    # Leading zeros are no digits of a decimal; those after the point are.
    scale = len(text) - text.index(".") - 1
    precision = max(len(text.replace(".", "").lstrip("0")), scale, 1)
    return _literal(Decimal(sign + text), pa.decimal128(precision, scale)) if precision <= _MOST else _refuse()


def _point(text: str, kind: pa.DataType) -> Term:
    """A date, or a moment whose zone is told, from text in the one spelling that needs no rules."""
    try:
        if kind == pa.date32() and re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return _literal(date.fromisoformat(text), kind)
        if kind == pa.timestamp("us", tz="UTC") and re.fullmatch(
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{6})?Z", text, re.ASCII
        ):
            return _literal(datetime.fromisoformat(text), kind)
    except ValueError:
        pass
    raise _Refused


def _is_decimal(kind: pa.DataType) -> bool:
    return pa.types.is_decimal128(kind)


def _of(term: Term, kind: pa.DataType) -> Term:
    return term if term.type == kind else _refuse()


def _truth(term: Term) -> Term:
    return _cast(term, pa.bool_()) if term.type in (pa.bool_(), pa.null()) else _refuse()


def _perhaps_not(node: exp.Expr, term: Term) -> Term:
    return Term("not", pa.bool_(), (term,)) if node.args.get("negate") else term


def _cast(term: Term, kind: pa.DataType) -> Term:
    """The same value in another type. Where it may not fit, that shows when it is evaluated."""
    if term.type == kind:
        return term
    if term.operation == "value" and term.value is None:
        return replace(term, type=kind)
    widens = _is_decimal(kind) and (
        term.type in _INTEGERS or (_is_decimal(term.type) and term.type.scale <= kind.scale)
    )
    if widens or (term.type in _INTEGERS and kind in _INTEGERS):
        return Term("cast", kind, (term,))
    raise _Refused


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """How many digits a number has before and after its point."""
    return (kind.precision - kind.scale, kind.scale) if _is_decimal(kind) else (_DIGITS[kind], 0)


def _common(terms: Sequence[Term]) -> pa.DataType:
    """The type that SQL brings all of these to."""
    kinds = list(dict.fromkeys(term.type for term in terms if term.type != pa.null()))
    if len(kinds) == 1:
        return kinds[0]
    if kinds and set(kinds) <= set(_INTEGERS):
        return max(kinds, key=_INTEGERS.index)
    if not kinds or not all(kind in _INTEGERS or _is_decimal(kind) for kind in kinds):
        raise _Refused
    whole, scale = (max(digits) for digits in zip(*map(_digits, kinds), strict=True))
    # Above 38 digits Spark cuts, and rounds.
    return pa.decimal128(whole + scale, scale) if whole + scale <= _MOST else _refuse()


def _comparable(kind: pa.DataType) -> pa.DataType:
    return kind if kind in _INTEGERS or kind in _COMPARED or _is_decimal(kind) else _refuse()


def _compared(operation: str, left: Term, right: Term) -> Term:
    if _is_decimal(left.type) or _is_decimal(right.type):
        left, right = _as_decimal(left), _as_decimal(right)
    kind = _comparable(_common((left, right)))
    return Term(operation, pa.bool_(), (_cast(left, kind), _cast(right, kind)))


def _as_decimal(term: Term) -> Term:
    """An operand beside a decimal: a literal integer has the digits it has, any other all that its type may have."""
    if _is_decimal(term.type) or term.type == pa.null():
        return term
    if term.type not in _INTEGERS:
        raise _Refused
    if term.literal:
        return replace(term, value=Decimal(term.value), type=pa.decimal128(len(str(abs(term.value))), 0))
    return _cast(term, pa.decimal128(_DIGITS[term.type], 0))


def _decimals(operation: str, left: Term, right: Term) -> Term:
    """Sums and products of decimals have as many digits as they need, while they fit."""
    if pa.null() in (left.type, right.type):
        raise _Refused
    (whole, scale), (other_whole, other_scale) = _digits(left.type), _digits(right.type)
    if operation == "multiply":
        precision, cut = left.type.precision + right.type.precision + 1, scale + other_scale
    else:
        cut = max(scale, other_scale)
        precision = max(whole, other_whole) + cut + 1
    # Above 38 digits Spark drops those after the point, but not the first six.
    if (
        cut > _MOST
        or precision > _MOST_BETWEEN
        or (precision > _MOST and cut > max(_MOST - precision + cut, min(cut, 6)))
    ):
        raise _Refused
    return Term(operation, pa.decimal128(min(precision, _MOST), cut), (left, right))


def _spark_quotient(left: Term, right: Term) -> Term:
    """Spark rounds a quotient, and cuts digits after the point (but not the first six) where there are more than 38."""
    whole, scale = _digits(left.type)[0] + right.type.scale, max(6, left.type.scale + right.type.precision + 1)
    if whole + scale > _MOST:
        scale = max(_MOST - whole, 6)
    kind = pa.decimal128(min(whole + scale, _MOST), scale)
    return Term("divide", kind, (left, right), "half_towards_infinity")


def _sail_quotient(left: Term, right: Term) -> Term:
    """Sail gives a quotient four digits more than the dividend has, and drops the others."""
    scale = min(left.type.scale + 4, _MOST)
    precision = left.type.precision + right.type.scale + scale - left.type.scale
    if scale - left.type.scale + right.type.scale > _MOST or not (_settled(left) and _settled(right)):
        raise _Refused
    return Term("divide", pa.decimal128(min(precision, _MOST), scale), (left, right), "towards_zero")


def _settled(term: Term) -> bool:
    """Whether the type does not depend on how an engine brings several values to one type."""
    values = term.operands[1:] if term.operation in ("if", "null_if") else term.operands
    if term.operation in ("if", "coalesce") and any(value.operation == "cast" for value in values):
        return False
    return all(map(_settled, values))


def _days_later(left: Term, right: Term, operation: str) -> Term:
    if left.type != pa.date32() or right.type not in _INTEGERS[:3] or operation == "multiply":
        raise _Refused
    days = _cast(right, pa.int32())
    return Term(
        "add_days", pa.date32(), (left, Term("negate", pa.int32(), (days,)) if operation == "subtract" else days)
    )


def _shifted(left: Term, interval: exp.Expr, sign: int) -> Term:
    """A date some days, or one that is known some months later; a moment some seconds later."""
    count, unit = interval.this, str(interval.args.get("unit")).upper().removesuffix("S")
    if not isinstance(count, exp.Literal) or not re.fullmatch(r"-?\d{1,6}", count.name):
        raise _Refused
    number = sign * int(count.name)
    if pa.types.is_timestamp(left.type) and unit in _SECONDS:
        return Term("add_micros", left.type, (left,), number * _SECONDS[unit] * 1_000_000)
    if left.type != pa.date32():
        raise _Refused
    if left.operation != "value" or left.value is None:
        return _days_later(left, _literal(number, pa.int32()), "add") if unit == "DAY" else _refuse()
    try:
        if unit == "DAY":
            moved = left.value + timedelta(days=number)
        elif unit in ("MONTH", "YEAR"):
            moved = _months_later(left.value, number * (12 if unit == "YEAR" else 1))
        else:
            raise _Refused
    except (ValueError, OverflowError) as error:
        raise _Refused from error
    return Term("value", pa.date32(), value=moved)


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or its last."""
    years, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(years, month + 1, min(day.day, monthrange(years, month + 1)[1]))
