"""Predicates in the form that lets an equality become a join key later, when nobody can be asked for types."""

from __future__ import annotations

from sqlglot import exp

from headrace.algebra.expressions import all_of, any_of, cast, columns_of, conjuncts, disjuncts, is_ref, text, unparen
from headrace.algebra.typed import Typer

#: Where a cast that was put in keeps its type as the engine spells it.
TYPE = "spark_type"


def settle_types(typer: Typer, condition: exp.Expr) -> exp.Expr:
    """``l = r`` between different columns with both sides of one type, each a plain column or a cast."""
    condition = unparen(condition)
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return condition
    sides = [unparen(condition.this), unparen(condition.expression)]
    used = [columns_of(side) for side in sides]
    if not all(used) or used[0] & used[1] or any(isinstance(side, exp.Tuple) for side in sides):
        return condition
    types = typer.types(sides)
    common = typer.comparable(types[0], types[1])
    settled = [
        side if is_ref(side) and t == common else _cast(side, common) for side, t in zip(sides, types, strict=True)
    ]
    return type(condition)(this=settled[0], expression=settled[1])


def _cast(side: exp.Expr, type_: str) -> exp.Expr:
    made = cast(side.copy(), type_)
    made.meta[TYPE] = type_
    return made


def settled_type(side: exp.Expr) -> str | None:
    """The type that `settle_types` gave an expression."""
    return side.meta.get(TYPE) if isinstance(side, exp.Cast) else None


def factored(condition: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of a condition; ``(a AND x) OR (a AND y)`` is told as ``a`` and ``x OR y``."""
    found: list[exp.Expr] = []
    for part in conjuncts(condition):
        branches = [conjuncts(branch) for branch in disjuncts(part)]
        if len(branches) < 2:
            found.append(part)
            continue
        texts = [{text(item) for item in branch} for branch in branches]
        common = set.intersection(*texts)
        found += [item for item in branches[0] if text(item) in common]
        rest = [[item for item in branch if text(item) not in common] for branch in branches]
        if all(rest):
            whole = any_of([all_of(branch) or exp.true() for branch in rest])
            assert whole is not None
            found.append(whole)
    return list({text(item): item for item in found}.values())


def implied(condition: exp.Expr, names: frozenset[str]) -> exp.Expr | None:
    """What a disjunction says of the columns `names` alone, if every branch says something."""
    branches = disjuncts(condition)
    if len(branches) < 2:
        return None
    told = [
        all_of([item for item in conjuncts(branch) if columns_of(item) and columns_of(item) <= names])
        for branch in branches
    ]
    return any_of([part for part in told if part is not None]) if None not in told else None
