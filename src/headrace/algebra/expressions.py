"""Small tools on scalar expressions: sqlglot trees whose columns are names in the operator tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from headrace.language.dialect import headrace_sql


def ref(name: str) -> exp.Column:
    """A mention of a column of the operator tree."""
    return exp.Column(this=exp.Identifier(this=name, quoted=False))


def is_ref(expression: exp.Expr) -> bool:
    return isinstance(expression, exp.Column)


def text(expression: exp.Expr) -> str:
    """The expression as Spark SQL."""
    return headrace_sql(expression)


def columns_of(expression: exp.Expr | None) -> frozenset[str]:
    """The names of all columns that the expression mentions."""
    if expression is None:
        return frozenset()
    return frozenset(column.name for column in expression.find_all(exp.Column))


def columns_of_all(expressions: Iterable[exp.Expr | None]) -> frozenset[str]:
    """The names of all columns that the expressions mention."""
    found: frozenset[str] = frozenset()
    for expression in expressions:
        found |= columns_of(expression)
    return found


def rewrite(expression: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy in which every topmost node that `change` answers is replaced by the answer.

    Subqueries that are still in the tree are not entered: their columns belong to other scopes.
    """
    holder = exp.Paren(this=expression.copy())
    _rewrite(holder, change)
    return holder.this


def _rewrite(parent: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> None:
    for child in list(parent.iter_expressions()):
        new = change(child)
        if new is not None:
            if not isinstance(parent, exp.Paren | exp.Alias | exp.Where | exp.Ordered | exp.Distinct) and not (
                isinstance(parent, exp.Func) and not isinstance(parent, exp.Binary)
            ):
                new = atom(new)
            child.replace(new)
        elif not isinstance(child, exp.Query):
            _rewrite(child, change)


def atom(expression: exp.Expr) -> exp.Expr:
    """The expression, in brackets where an operator around it could bind tighter."""
    if isinstance(expression, exp.Column | exp.Literal | exp.Paren | exp.Null | exp.Boolean | exp.Cast | exp.Case):
        return expression
    if isinstance(expression, exp.Func) and not isinstance(expression, exp.Binary | exp.Connector | exp.Predicate):
        return expression
    return exp.Paren(this=expression)


def substitute(expression: exp.Expr, mapping: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with each mentioned column of `mapping` replaced by what it stands for."""
    if not mapping:
        return expression

    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and node.name in mapping:
            return mapping[node.name].copy()
        return None

    return rewrite(expression, change)


def rename(expression: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """The expression with columns renamed."""
    return substitute(expression, {old: ref(new) for old, new in names.items()})


def unparen(expression: exp.Expr) -> exp.Expr:
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def conjuncts(expression: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a conjunction; TRUE has none."""
    return _parts(expression, exp.And, True)


def disjuncts(expression: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a disjunction; FALSE has none."""
    return _parts(expression, exp.Or, False)


def _parts(expression: exp.Expr | None, kind: type[exp.Expr], neutral: bool) -> list[exp.Expr]:
    if expression is None:
        return []
    expression = unparen(expression)
    if isinstance(expression, kind):
        return _parts(expression.this, kind, neutral) + _parts(expression.expression, kind, neutral)
    if isinstance(expression, exp.Boolean) and bool(expression.this) is neutral:
        return []
    return [expression]


def all_of(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    """The conjunction of `parts`; None for none."""
    return _joined(parts, exp.And)


def any_of(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    """The disjunction of `parts`; None for none."""
    return _joined(parts, exp.Or)


def _joined(parts: Sequence[exp.Expr], kind: type[exp.Expr]) -> exp.Expr | None:
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0].copy()
    operands = [exp.Paren(this=p.copy()) if isinstance(p, exp.Connector) else p.copy() for p in parts]
    whole = operands[0]
    for operand in operands[1:]:
        whole = kind(this=whole, expression=operand)
    return whole


def cast(expression: exp.Expr, type_: str) -> exp.Expr:
    """``CAST(expression AS type)``."""
    return exp.Cast(this=expression, to=exp.DataType.build(type_, dialect="spark"))


def equal(left: exp.Expr, right: exp.Expr, *, null_safe: bool = False) -> exp.Expr:
    """``left = right`` or ``left <=> right``."""
    return (exp.NullSafeEQ if null_safe else exp.EQ)(this=atom(left.copy()), expression=atom(right.copy()))


def is_null(expression: exp.Expr) -> exp.Expr:
    return exp.Is(this=atom(expression.copy()), expression=exp.Null())


def negate(expression: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Paren(this=expression.copy()))


def case(whens: Sequence[tuple[exp.Expr, exp.Expr]], otherwise: exp.Expr | None = None) -> exp.Expr:
    """``CASE WHEN ... THEN ... ELSE ... END``."""
    return exp.Case(
        ifs=[exp.If(this=condition.copy(), true=value.copy()) for condition, value in whens],
        default=None if otherwise is None else otherwise.copy(),
    )
