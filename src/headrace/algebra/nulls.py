"""Conditions that are never true of a row of NULLs."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.expressions import conjuncts, disjuncts, unparen

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.Between)
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Cast)


def rejects_nulls(condition: exp.Expr, names: frozenset[str]) -> bool:
    """Whether the condition is false or unknown whenever all columns `names` are NULL."""
    condition = unparen(condition)
    if isinstance(condition, exp.Or):
        return all(rejects_nulls(branch, names) for branch in disjuncts(condition))
    if isinstance(condition, exp.And):
        return any(rejects_nulls(part, names) for part in conjuncts(condition))
    if isinstance(condition, exp.Not):
        inner = unparen(condition.this)
        if isinstance(inner, exp.Is) and isinstance(unparen(inner.expression), exp.Null):
            return is_strict(inner.this, names)
        if isinstance(inner, exp.Between):  # NOT (x BETWEEN NULL AND 3) can be true
            return is_strict(inner.this, names)
        return isinstance(inner, _COMPARISONS) and rejects_nulls(inner, names)
    if isinstance(condition, _COMPARISONS):
        sides = [condition.this, condition.args.get("expression"), condition.args.get("low")]
        return any(side is not None and is_strict(side, names) for side in sides)
    if isinstance(condition, exp.In) and condition.args.get("query") is None:
        return is_strict(condition.this, names)
    return isinstance(condition, exp.Column) and condition.name in names


def is_strict(expression: exp.Expr, names: frozenset[str]) -> bool:
    """Whether the expression is NULL whenever all columns `names` are."""
    expression = unparen(expression)
    if isinstance(expression, exp.Column):
        return expression.name in names
    if isinstance(expression, _STRICT):
        return any(is_strict(child, names) for child in expression.iter_expressions() if _is_value(child))
    return False


def _is_value(child: exp.Expr) -> bool:
    return not isinstance(child, exp.DataType | exp.Identifier)
