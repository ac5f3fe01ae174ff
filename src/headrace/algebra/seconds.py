"""Numbers mixed with times mean seconds: `Now - 5 < R.TS`, `at > 100`, `Timepoint mod 2 = 0`.

A number that is added to a time or a length is a length; one that is compared with a time is a point since 1970, with
a length a length. Spark itself refuses all of these, so no query that it takes comes to mean something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.kinds import Fields, Kind, Kinds
from headrace.language import Query, format_time, nodes, parse_time

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def mean_seconds(query: Query, fields: Sequence[Fields]) -> Query:
    """`query` with numbers turned into times and lengths; `fields` are the columns of its relations, in order."""
    tree = query.tree.copy()
    kinds = Kinds(tree, fields)
    changed = False
    for node in reversed(list(tree.walk())):
        changed = _rewrite(node, kinds) or changed
    return replace(query, tree=tree) if changed else query


def at_time(query: Query, time: int) -> Query:
    """`query` with the current time put in."""
    if query.tree.find(nodes.Now) is None:
        return query
    tree = query.tree.copy()
    for now in list(tree.find_all(nodes.Now)):
        named = isinstance(now.parent, exp.Select) and now.arg_key == "expressions"
        now.replace(exp.alias_(point(time), "Now") if named else point(time))
    return replace(query, tree=tree)


def point(micros: int) -> exp.Expr:
    """A point in time as Spark writes it."""
    return exp.cast(exp.Literal.string(format_time(micros)), exp.DType.TIMESTAMPTZ)


def _rewrite(node: exp.Expr, kinds: Kinds) -> bool:
    if isinstance(node, exp.Mod) and kinds.of(node.this) == "time":
        micros = exp.Anonymous(this="unix_micros", expressions=[node.this.copy()])
        node.set("this", exp.paren(exp.Div(this=micros, expression=exp.Literal.number(1_000_000)), copy=False))
        return True
    if isinstance(node, exp.Add | exp.Sub):
        return _convert(node, ("this", "expression"), kinds, {"time": _length, "length": _length})
    if isinstance(node, COMPARISONS):
        return _convert(node, ("this", "expression"), kinds, {"time": _point, "length": _length})
    if isinstance(node, exp.Between):
        return _convert(node, ("this", "low", "high"), kinds, {"time": _point, "length": _length})
    if isinstance(node, exp.In) and kinds.of(node.this) == "time" and node.expressions:
        numbers = [item for item in node.expressions if kinds.of(item) == "number"]
        node.set("expressions", [_point(item) if item in numbers else item for item in node.expressions])
        return bool(numbers)
    return False


def _convert(node: exp.Expr, keys: Sequence[str], kinds: Kinds, by: dict[Kind, object]) -> bool:
    found = {key: kinds.of(node.args.get(key)) for key in keys}
    other = next((kind for kind in ("time", "length") if kind in found.values()), None)
    numbers = [key for key, kind in found.items() if kind == "number"]
    if other is None or not numbers:
        return False
    convert = by[other]  # type: ignore[index]
    for key in numbers:
        node.set(key, convert(node.args[key]))  # type: ignore[operator]
    return True


def _literal(node: exp.Expr) -> str | None:
    """The text of a plain number, with its sign."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal):
        return f"-{inner.this.name}"
    return inner.name if isinstance(inner, exp.Literal) else None


def _point(node: exp.Expr) -> exp.Expr:
    text = _literal(node)
    if text is not None:
        return point(parse_time(text))
    micros = exp.cast(exp.Mul(this=exp.paren(node.copy()), expression=exp.Literal.number(1_000_000)), exp.DType.BIGINT)
    return exp.Anonymous(this="timestamp_micros", expressions=[micros])


def _length(node: exp.Expr) -> exp.Expr:
    text = _literal(node)
    if text is not None:
        return exp.Interval(this=exp.Literal.string(text), unit=exp.var("SECOND"))
    second = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("SECOND"))
    return exp.paren(exp.Mul(this=exp.paren(node.copy()), expression=second), copy=False)
