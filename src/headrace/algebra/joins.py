"""Joins in normal form: equalities between plain columns of the same type, filters on the side they speak of."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.algebra.expressions import all_of, columns_of, conjuncts, equal, ref, unparen
from headrace.algebra.nodes import Equal, Filter, Join, JoinKind, Node
from headrace.algebra.typed import Typer

#: Which side may be filtered before the join, by a condition on that side alone.
FILTER_LEFT = ("inner", "right", "semi")
FILTER_RIGHT = ("inner", "left", "semi", "anti")


def make_join(typer: Typer, kind: JoinKind, left: Node, right: Node, conditions: Sequence[exp.Expr]) -> Join:
    """Join on all of `conditions`, which may also mention columns of a query around."""
    pairs: list[tuple[exp.Expr, exp.Expr, bool]] = []
    on_left: list[exp.Expr] = []
    on_right: list[exp.Expr] = []
    residual: list[exp.Expr] = []
    lefts, rights = set(left.names), set(right.names)
    for condition in [part for whole in conditions for part in conjuncts(whole)]:
        used = columns_of(condition)
        pair = equality(condition, lefts, rights)
        if pair is not None:
            pairs.append(pair)
        elif used and used <= rights and kind in FILTER_RIGHT:
            on_right.append(condition)
        elif used and used <= lefts and kind in FILTER_LEFT:
            on_left.append(condition)
        else:
            residual.append(condition)
    left, right = filtered(left, on_left), filtered(right, on_right)
    left, left_keys = typer.extend(left, [pair[0] for pair in pairs], "key")
    right, right_keys = typer.extend(right, [pair[1] for pair in pairs], "key")
    types = [typer.comparable(typer.known[a], typer.known[b]) for a, b in zip(left_keys, right_keys, strict=True)]
    left, left_keys = typer.extend(left, [typer.as_type(n, t) for n, t in zip(left_keys, types, strict=True)], "key")
    right, right_keys = typer.extend(
        right, [typer.as_type(n, t) for n, t in zip(right_keys, types, strict=True)], "key"
    )
    equals = [Equal(a, b, pair[2]) for a, b, pair in zip(left_keys, right_keys, pairs, strict=True)]
    return Join(kind, left, right, tuple(dict.fromkeys(equals)), all_of(residual))


def equality(
    condition: exp.Expr, lefts: set[str] | frozenset[str], rights: set[str] | frozenset[str]
) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """``l = r`` as (l, r, whether NULLs are equal), when one side speaks of `lefts` alone and one of `rights`."""
    condition = unparen(condition)
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    one, other = unparen(condition.this), unparen(condition.expression)
    if isinstance(one, exp.Tuple) or isinstance(other, exp.Tuple):
        return None
    null_safe = isinstance(condition, exp.NullSafeEQ)
    for first, second in ((one, other), (other, one)):
        mine, theirs = columns_of(first), columns_of(second)
        if mine and theirs and mine <= lefts and theirs <= rights:
            return first, second, null_safe
    return None


def filtered(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """The node, under a filter if there is any condition."""
    predicate = all_of(conditions)
    return node if predicate is None else Filter(node, predicate)


def conditions_of(join: Join) -> list[exp.Expr]:
    """All conditions of a join as expressions."""
    kinds = {False: exp.EQ, True: exp.NullSafeEQ}
    pairs = [kinds[pair.null_safe](this=ref(pair.left), expression=ref(pair.right)) for pair in join.equal]
    return [*pairs, *conjuncts(join.residual)]


def keyed(
    typer: Typer, inner: Node, pairs: Sequence[tuple[exp.Expr, exp.Expr, bool]]
) -> tuple[Node, list[str], list[exp.Expr]]:
    """The inner side of equalities (outer, inner, NULL-safe) as columns, and the equalities over them.

    They are brought to the type in which they are compared, so that two different keys never match one outer row.
    """
    keys: list[str] = []
    conditions: list[exp.Expr] = []
    for theirs, mine, null_safe in pairs:
        inner, (name,) = typer.extend(inner, [mine], "key")
        wanted = typer.comparable(typer.types([theirs])[0], typer.known[name])
        inner, (name,) = typer.extend(inner, [typer.as_type(name, wanted)], "key")
        keys.append(name)
        conditions.append(equal(theirs, ref(name), null_safe=null_safe))
    return inner, keys, conditions
