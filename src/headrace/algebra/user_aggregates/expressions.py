"""Value expressions of a body, as program text."""

from __future__ import annotations

import math
from typing import Protocol

from sqlglot import exp

from headrace.algebra.user_aggregates.faults import Fault
from headrace.algebra.user_aggregates.functions import FUNCTIONS, call, common_kind, converted
from headrace.algebra.user_aggregates.tables import Known, Scope, Table
from headrace.algebra.user_aggregates.values import NATIVE, NULL, NUMBERS, WORDS, Code, Kind, Writer, either, kind_of
from headrace.errors import LanguageError
from headrace.language.dialect import headrace_sql
from headrace.language.times import parse_duration, parse_time
from headrace.language.types import is_type, normalise_type

_COMPARISONS = {exp.EQ: "==", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_BITS = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_BOUNDS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


class Subqueries(Protocol):
    """What an expression asks of whoever compiles selects."""

    window: Table | None
    known: Known

    def scalar(self, select: exp.Select, scope: Scope) -> Code: ...

    def exists(self, select: exp.Select, scope: Scope) -> Code: ...

    def contains(self, value: Code, select: exp.Select, scope: Scope, node: exp.Expr) -> Code: ...


class Expressions:
    """Compiles expressions; what they need before they have a value is written first."""

    def __init__(self, writer: Writer, subqueries: Subqueries) -> None:
        self._writer, self._subqueries = writer, subqueries

    def compile(self, node: exp.Expr, scope: Scope) -> Code:
        code = self._compile(node, scope)
        if code.kind not in NATIVE and code.kind != "null":
            scope.known.is_slow(f"{headrace_sql(node)} is {WORDS[code.kind]}")
        return code

    def condition(self, node: exp.Expr, scope: Scope) -> str:
        """Text that is true where the condition holds: NULL is not."""
        code = self._truth(node, scope)
        if code.null == "False":
            return code.value
        return f"(not {code.null} and {code.value})"

    def _truth(self, node: exp.Expr, scope: Scope) -> Code:
        code = self.compile(node, scope)
        if code.kind == "null":
            return Code("False", "bool", "True")
        if code.kind != "bool":
            raise Fault("WRONG_TYPE", f"{WORDS[code.kind]} stands where a condition is needed", node)
        return code

    def _compile(self, node: exp.Expr, scope: Scope) -> Code:
        match node:
            case exp.Paren():
                return self._compile(node.this, scope)
            case exp.Column():
                return scope.column(node)
            case exp.Null():
                return NULL
            case exp.Boolean():
                return Code("True" if node.this else "False", "bool")
            case exp.Literal():
                return _literal(node)
            case exp.Interval():
                return Code(str(_duration(node)), "span")
            case exp.Neg():
                value = self._compile(node.this, scope)
                if value.kind not in NUMBERS and value.kind not in ("span", "null"):
                    raise Fault("WRONG_TYPE", f"{WORDS[value.kind]} cannot be negated", node)
                text = f"_subtract(0, {value.value})" if value.kind == "int" else f"(-{value.value})"
                return Code(text, value.kind, value.null)
            case exp.Not():
                value = self._writer.kept(self._truth(node.this, scope))
                return Code(f"(not {value.value})", "bool", value.null)
            case exp.And() | exp.Or():
                return self._connected(node, scope)
            case exp.Is():
                return self._is(node, scope)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                return self._null_safe(node, scope)
            case exp.Between():
                low, high = exp.GTE(this=node.this, expression=node.args["low"]), node.args["high"]
                return self._connected(exp.And(this=low, expression=exp.LTE(this=node.this, expression=high)), scope)
            case exp.In():
                return self._in(node, scope)
            case exp.Exists():
                return self._subqueries.exists(_select(node.this), scope)
            case exp.Subquery():
                return self._subqueries.scalar(_select(node), scope)
            case exp.Case():
                return self._case(node, scope)
            case exp.If():
                return self._case(exp.Case(ifs=[node], default=node.args.get("false")), scope)
            case exp.Cast():
                return self._cast(node, scope)
            case exp.Dot():
                return self._oldest(node.this, node.expression.name, node)
            case exp.DPipe():
                return call("concat", self._writer, [self.compile(one, scope) for one in (node.left, node.right)], node)
        for kinds, compile_ in (
            (_COMPARISONS, self._compared), (_BITS, self._bits), (_ARITHMETIC, self._computed),
        ):  # fmt: skip
            if type(node) in kinds:
                return compile_(node, scope)
        return self._called(node, scope)

    # --- Truth ---------------------------------------------------------------------------------------------------

    def _connected(self, node: exp.And | exp.Or, scope: Scope) -> Code:
        word = "and" if isinstance(node, exp.And) else "or"
        one, two = (self._writer.kept(self._truth(side, scope)) for side in (node.left, node.right))
        value = f"({one.value} {word} {two.value})"
        # Where one side alone decides, false of AND or true of OR, the other may be NULL.
        decides = [code.value if word == "or" else f"not {code.value}" for code in (one, two)]
        sure = [
            text if code.null == "False" else f"(not {code.null} and {text})"
            for code, text in zip((one, two), decides, strict=True)
        ]
        nulls = either(one.null, two.null)
        return self._writer.kept(
            Code(value, "bool", nulls if nulls == "False" else f"({nulls} and not ({' or '.join(sure)}))")
        )

    def _is(self, node: exp.Is, scope: Scope) -> Code:
        value = self._writer.kept(self.compile(node.this, scope))
        if isinstance(node.expression, exp.Null):
            return Code(value.null, "bool")
        if isinstance(node.expression, exp.Boolean):
            wanted = value.value if node.expression.this else f"(not {value.value})"
            return Code(wanted if value.null == "False" else f"(not {value.null} and {wanted})", "bool")
        raise Fault("NOT_IN_A_BODY", f"{headrace_sql(node)} cannot be said here", node)

    def _null_safe(self, node: exp.Expr, scope: Scope) -> Code:
        one, two = (self._writer.kept(code) for code in self._alike(node.left, node.right, node, scope))
        same = f"({one.value} == {two.value})"
        if one.null != "False" or two.null != "False":
            same = (
                f"(({one.null} and {two.null}) or (not {one.null} and not {two.null} and {one.value} == {two.value}))"
            )
        return Code(same if isinstance(node, exp.NullSafeEQ) else f"(not {same})", "bool")

    def _alike(self, left: exp.Expr, right: exp.Expr, node: exp.Expr, scope: Scope) -> tuple[Code, Code]:
        """Two values in the kind they have in common; text beside a time is one."""
        sides = list(self._both(left, right, scope))
        for number, (side, other) in enumerate(((sides[0], sides[1]), (sides[1], sides[0]))):
            literal = (left, right)[number]
            if side.kind == "text" and other.kind in ("time", "date") and isinstance(literal, exp.Literal):
                sides[number] = _time(literal, other.kind)
        kind = common_kind(sides, node)
        return converted(sides[0], kind, node), converted(sides[1], kind, node)

    def _both(self, left: exp.Expr, right: exp.Expr, scope: Scope) -> tuple[Code, Code]:
        """Two values; a number that is written out beside a DECIMAL is one."""
        one, two = self.compile(left, scope), self.compile(right, scope)
        if two.kind == "decimal" and isinstance(left, exp.Literal) and not left.is_string:
            one = Code(f"_exact({left.name!r})", "decimal")
        if one.kind == "decimal" and isinstance(right, exp.Literal) and not right.is_string:
            two = Code(f"_exact({right.name!r})", "decimal")
        return one, two

    def _compared(self, node: exp.Expr, scope: Scope) -> Code:
        one, two = self._alike(node.left, node.right, node, scope)
        return Code(f"({one.value} {_COMPARISONS[type(node)]} {two.value})", "bool", either(one.null, two.null))

    def _in(self, node: exp.In, scope: Scope) -> Code:
        if node.args.get("query") is not None:
            value = self._writer.kept(self.compile(node.this, scope))
            return self._subqueries.contains(value, _select(node.args["query"]), scope, node)
        options: list[exp.Expr] = [exp.EQ(this=node.this, expression=option) for option in node.expressions]
        found = options[0]
        for option in options[1:]:
            found = exp.Or(this=found, expression=option)
        return self._truth(found, scope)

    # --- Numbers -------------------------------------------------------------------------------------------------

    def _computed(self, node: exp.Expr, scope: Scope) -> Code:
        one, two = self._both(node.left, node.right, scope)
        timely = self._timely(node, one, two)
        if timely is not None:
            return timely
        for code in (one, two):
            if code.kind not in NUMBERS and code.kind != "null":
                raise Fault("WRONG_TYPE", f"{WORDS[code.kind]} cannot be computed with", node)
        if isinstance(node, exp.Div):
            kind: Kind = (
                "decimal" if "decimal" in (one.kind, two.kind) and "float" not in (one.kind, two.kind) else "float"
            )
        else:
            kind = common_kind([one, two], node)
            kind = "int" if kind == "null" else kind
        one, two = converted(one, kind, node), self._writer.kept(converted(two, kind, node))
        nulls = either(one.null, two.null)
        if isinstance(node, exp.Div | exp.Mod | exp.IntDiv):
            # There is no result where the divisor is 0: an aggregate must not fail when its window is empty.
            nulls = either(nulls, f"{two.value} == 0")
            name = {exp.Div: "_divide", exp.Mod: "_modulo", exp.IntDiv: "_whole_divide"}[type(node)]
            return Code(f"{name}({one.value}, {two.value})", "int" if isinstance(node, exp.IntDiv) else kind, nulls)
        if kind == "int":
            return Code(f"{_CHECKED[type(node)]}({one.value}, {two.value})", kind, nulls)
        return Code(f"({one.value} {_ARITHMETIC[type(node)]} {two.value})", kind, nulls)

    def _timely(self, node: exp.Expr, one: Code, two: Code) -> Code | None:
        """Arithmetic of times and lengths of time, if it is that."""
        kinds = (one.kind, two.kind)
        nulls = either(one.null, two.null)
        sign = _ARITHMETIC[type(node)]
        if not {"time", "date", "span"} & set(kinds):
            return None
        if isinstance(node, exp.Sub) and kinds in (("time", "time"), ("span", "span")):
            return Code(f"({one.value} - {two.value})", "span", nulls)
        if kinds == ("date", "date") and isinstance(node, exp.Sub):
            return Code(f"({one.value} - {two.value})", "int", nulls)
        if isinstance(node, exp.Add | exp.Sub) and kinds[0] == "date" and kinds[1] == "int":
            return Code(f"({one.value} {sign} {two.value})", "date", nulls)
        if (
            isinstance(node, exp.Add | exp.Sub)
            and kinds[0] in ("time", "span")
            and kinds[1] in ("span", "int", "float")
        ):
            return Code(f"({one.value} {sign} {converted(two, 'span').value})", one.kind, nulls)
        if isinstance(node, exp.Add) and kinds[0] in ("span", "int") and kinds[1] == "time":
            return Code(f"({converted(one, 'span').value} + {two.value})", "time", nulls)
        if isinstance(node, exp.Mul) and kinds == ("span", "int"):
            return Code(f"({one.value} * {two.value})", "span", nulls)
        words = " and ".join(WORDS[kind] for kind in kinds)
        raise Fault("WRONG_TYPE", f"{words} do not go together with {sign}", node)

    def _bits(self, node: exp.Expr, scope: Scope) -> Code:
        one, two = (self.compile(side, scope) for side in (node.left, node.right))
        if {one.kind, two.kind} - {"int"}:
            raise Fault("WRONG_TYPE", "bits are those of whole numbers", node)
        return Code(f"({one.value} {_BITS[type(node)]} {two.value})", "int", either(one.null, two.null))

    # --- Choices, casts, calls -----------------------------------------------------------------------------------

    def _case(self, node: exp.Case, scope: Scope) -> Code:
        writer = self._writer
        whens = [
            (exp.EQ(this=node.this, expression=when.this) if node.this is not None else when.this, when.args["true"])
            for when in node.args["ifs"]
        ]
        default = node.args.get("default") or exp.Null()
        # The kind is known only when all of them are compiled, which is thrown away.
        lines = len(writer.lines)
        kind = common_kind([self.compile(value, scope) for value in (*(then for _when, then in whens), default)], node)
        del writer.lines[lines:]
        value, null = writer.fresh(), writer.fresh("z")
        depth = writer.depth

        def assign(branch: exp.Expr) -> bool:
            code = converted(self.compile(branch, scope), kind, branch)
            writer.emit(f"{value} = {code.value}")
            writer.emit(f"{null} = {code.null}")
            return code.null != "False"

        nullable = False
        for when, then in whens:
            condition = self.condition(when, scope)
            with writer.block(f"if {condition}:"):
                nullable |= assign(then)
            writer.emit("else:")
            writer.depth += 1
        nullable |= assign(default)
        writer.depth = depth
        return Code(value, kind, null if nullable else "False")

    def _cast(self, node: exp.Cast, scope: Scope) -> Code:
        spelled = node.to.sql(dialect="spark")
        if not is_type(spelled):
            raise Fault("UNKNOWN_TYPE", f"{spelled} is not a type", node)
        type_ = normalise_type(spelled)
        kind = kind_of(type_)
        if isinstance(node.this, exp.Literal) and node.this.is_string and kind in ("time", "date"):
            return _time(node.this, kind)
        return self.stored(self.compile(node.this, scope), type_, node, cast=True)

    def stored(self, code: Code, type_: str, node: exp.Expr | None = None, *, cast: bool = False) -> Code:
        """A value as a column of a type holds it."""
        kind = kind_of(type_)
        if cast and code.kind == "text" and kind in ("int", "float"):
            # Text that is no number is NULL, as a division by zero is.
            code = self._writer.kept(code)
            name = "whole" if kind == "int" else "real"
            code = Code(f"_{name}_of({code.value})", kind, either(code.null, f"not _is_{name}({code.value})"))
        if type_ in _BOUNDS and code.kind in ("int", "float", "decimal", "bool"):
            if code.kind != "int":
                code = Code(f"_truncated({code.value})", "int", code.null)
            if type_ == "BIGINT":
                return code
            return Code(f"_bounded({code.value}, {2 ** _BOUNDS[type_]})", "int", code.null)
        if kind == "decimal" and code.kind in NUMBERS:
            precision, scale = type_[len("DECIMAL(") : -1].split(",")
            return Code(f"_scaled({code.value}, {precision}, {scale})", "decimal", code.null)
        if type_ == "FLOAT" and code.kind in NUMBERS:
            return Code(f"_single({code.value})", "float", code.null)
        if cast and kind == "text" and code.kind != "null":
            value = code.value if code.kind == "text" else f"_as_text({code.value}, {code.kind!r})"
            return Code(value, "text", code.null)
        if cast and kind == "int" and code.kind == "time":
            return Code(f"({code.value} // 1000000)", "int", code.null)
        return converted(code, kind, node)

    def _oldest(self, node: exp.Expr, column: str | None, whole: exp.Expr) -> Code:
        if not (isinstance(node, exp.Anonymous) and str(node.this).lower() == "oldest"):
            raise Fault("NOT_IN_A_BODY", f"{headrace_sql(whole)} cannot be said here", whole)
        table = self._subqueries.window
        if table is None:
            raise Fault(
                "NO_INWINDOW", "oldest() is the oldest row of inwindow, and there is no such table", whole,
                "Declare TABLE inwindow(...) with a column for each parameter.",
            )  # fmt: skip
        if column is None and len(table.columns) != 1:
            names = ", ".join(f"oldest().{one.name}" for one in table.columns)
            raise Fault("WRONG_ARGUMENTS", "the oldest row has several columns", whole, f"Write one of {names}.")
        number = 0 if column is None else table.number_of(column)
        if number is None:
            known = ", ".join(one.name for one in table.columns)
            raise Fault("UNKNOWN_COLUMN", f"inwindow has no column {column}", whole, f"It has: {known}.")
        return self._at(table, number)

    def _at(self, table: Table, number: int) -> Code:
        """A column of the window's oldest row; NULL where the window is empty."""
        writer = self._writer
        value, null = writer.fresh(), writer.fresh("z")
        cell = self._subqueries.known.cell(table, number, table.first)
        with writer.block(f"if {table.first} < {table.count}:"):
            writer.emit(f"{value} = {cell.value}")
            writer.emit(f"{null} = {cell.null}")
        with writer.block("else:"):
            empty = converted(NULL, cell.kind)
            writer.emit(f"{value} = {empty.value}")
            writer.emit(f"{null} = True")
        return Code(value, cell.kind, null)

    def _called(self, node: exp.Expr, scope: Scope) -> Code:
        if not isinstance(node, exp.Func):
            raise Fault("NOT_IN_A_BODY", f"{headrace_sql(node)} cannot be said in the body of an aggregate", node)
        name = (str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        name = _SYNONYMS.get(name, name)
        arguments = _arguments(node)
        if name == "oldest":
            return self._oldest(node, None, node)
        if name not in FUNCTIONS:
            raise Fault(
                "UNKNOWN_FUNCTION", f"{name} is no function that a body can call", node,
                f"There are: {', '.join(sorted(FUNCTIONS))}; aggregates stand in a SELECT over a table.",
            )  # fmt: skip
        if name == "log" and len(arguments) == 2:
            arguments = arguments[1:]
        return call(name, self._writer, [self.compile(argument, scope) for argument in arguments], node)


_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV",
}  # fmt: skip
_CHECKED: dict[type[exp.Expr], str] = {exp.Add: "_add", exp.Sub: "_subtract", exp.Mul: "_multiply"}
_SYNONYMS = {
    "pow": "power", "ceiling": "ceil", "nvl": "coalesce", "ifnull": "coalesce", "len": "length", "substr": "substring",
    "char_length": "length", "log": "ln", "xxhash64": "hash64",
}  # fmt: skip


def _arguments(node: exp.Func) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found = []
    for key in node.arg_types:
        value = node.args.get(key)
        if isinstance(value, list):
            found += value
        elif isinstance(value, exp.Expr):
            found.append(value)
    return found


def _select(node: exp.Expr) -> exp.Select:
    while isinstance(node, exp.Subquery | exp.Paren):
        node = node.this
    if not isinstance(node, exp.Select):
        raise Fault("NOT_IN_A_BODY", "a subquery of a body is a SELECT", node)
    return node


def _literal(node: exp.Literal) -> Code:
    if node.is_string:
        return Code(repr(node.name), "text")
    # A number with a point is real here, unless it stands beside a DECIMAL: machine code has no decimals.
    found = float(node.name)
    if math.isinf(found) or (node.name.isdigit() and int(node.name) >= 2**63):
        raise Fault("WRONG_TYPE", f"{node.name} is too large for a number", node)
    return Code(node.name, "int") if node.name.isdigit() else Code(repr(found), "float")


def _time(node: exp.Literal, kind: Kind) -> Code:
    try:
        micros = parse_time(node.name)
    except LanguageError as error:
        raise Fault("WRONG_TYPE", f"'{node.name}' is no {WORDS[kind]}", node) from error
    return Code(str(micros if kind == "time" else micros // 86_400_000_000), kind)


def _duration(node: exp.Interval) -> int:
    unit = "" if node.args.get("unit") is None else f" {node.args['unit'].name}"
    try:
        return parse_duration(f"{node.this.name}{unit}")
    except LanguageError as error:
        raise Fault("WRONG_TYPE", f"{headrace_sql(node)} is no length of time", node) from error
