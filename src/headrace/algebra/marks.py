"""EXISTS, IN and NOT IN as marks beside each row, and NOT IN as anti joins.

``x NOT IN (s)`` holds only if no s equals x, and no s is NULL, and x is not NULL unless there is no s at all. Where the
subquery is compared by equalities alone, two joins by key tell that: one on the value, one on the counts of the
subquery's rows and of those that are not NULL.

As a value, IN is never NULL: Spark's existence join tells false where SQL would tell unknown, and so do we.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.algebra.decorrelate import Lifted, lift
from headrace.algebra.expressions import all_of, any_of, columns_of, equal, is_null, negate, ref, substitute, unparen
from headrace.algebra.joins import equality, keyed, make_join
from headrace.algebra.nodes import Aggregate, Call, Constant, Filter, Node, Project
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Relation
from headrace.algebra.trees import narrow
from headrace.algebra.typed import Typer


def row_equalities(value: exp.Expr, relation: Relation, lifted: Lifted) -> list[exp.Expr]:
    """``value = row`` of an IN, column by column."""
    value = unparen(value)
    values = list(value.expressions) if isinstance(value, exp.Tuple) else [value]
    columns = [item.column for item in relation.output]
    if len(values) != len(columns):
        raise NotBound("IN compares rows of different lengths")
    return [equal(v, lifted.value(c)) for v, c in zip(values, columns, strict=True)]


def not_in_join(typer: Typer, node: Node, value: exp.Expr, relation: Relation) -> Node:
    """The rows for which ``value NOT IN (relation)`` is true."""
    lifted = lift(typer, node, relation.node)
    pairs = row_equalities(value, relation, lifted)
    if not _by_key(node, lifted, pairs):
        return make_join(typer, "anti", node, lifted.node, [*lifted.conditions, _not_false(pairs)])
    node = make_join(typer, "anti", node, lifted.node, [*lifted.conditions, *pairs])
    counted, conditions, total, known = _counts(typer, node, lifted, relation)
    any_row = exp.GT(this=ref(total), expression=exp.Literal.number(0))
    return make_join(typer, "anti", node, Filter(counted, any_row), [*conditions, _doubt(value, total, known)])


def not_in_mark(typer: Typer, node: Node, value: exp.Expr, relation: Relation) -> tuple[Node, exp.Expr]:
    """The rows beside a mark that tells whether ``value NOT IN (relation)`` is true."""
    lifted = lift(typer, node, relation.node)
    pairs = row_equalities(value, relation, lifted)
    if not _by_key(node, lifted, pairs):
        node, found = mark(typer, node, lifted, [_not_false(pairs)])
        return node, negate(found)
    node, found = mark(typer, node, lifted, pairs)
    counted, conditions, total, known = _counts(typer, node, lifted, relation)
    node = make_join(typer, "left", node, counted, conditions)
    # Where the subquery has no rows for a row, the counts are NULL or 0.
    some = exp.GT(this=exp.Coalesce(this=ref(total), expressions=[exp.Literal.number(0)]), expression=_zero())
    unsure = all_of([some, _doubt(value, total, known)])
    assert unsure is not None
    doubted = any_of([found, unsure])
    assert doubted is not None
    return node, negate(doubted)


def in_mark(typer: Typer, node: Node, value: exp.Expr, relation: Relation) -> tuple[Node, exp.Expr]:
    """The rows beside a mark that tells whether ``value IN (relation)`` is true."""
    lifted = lift(typer, node, relation.node)
    return mark(typer, node, lifted, row_equalities(value, relation, lifted))


def _zero() -> exp.Expr:
    return exp.Literal.number(0)


def _not_false(pairs: Sequence[exp.Expr]) -> exp.Expr:
    return exp.Coalesce(this=all_of(pairs), expressions=[exp.true()])


def _doubt(value: exp.Expr, total: str, known: str) -> exp.Expr:
    doubt = any_of([is_null(value), exp.LT(this=ref(known), expression=ref(total))])
    assert doubt is not None
    return doubt


def _by_key(outer: Node, lifted: Lifted, pairs: Sequence[exp.Expr]) -> bool:
    """Whether one column is compared, and the subquery is bound to the outer row by equalities alone."""
    names, inner = frozenset(outer.names), frozenset(lifted.node.names)
    return len(pairs) == 1 and not lifted.late and all(equality(part, names, inner) for part in lifted.conditions)


def _counts(
    typer: Typer, outer: Node, lifted: Lifted, relation: Relation
) -> tuple[Aggregate, list[exp.Expr], str, str]:
    """How many rows the subquery has for each outer row, and how many that are not NULL."""
    names = frozenset(outer.names)
    made = tuple(typer.fresh(column.name, column.type) for column in lifted.node.columns)
    renamed = {old: ref(new.name) for old, new in zip(lifted.node.names, made, strict=True)}
    inner: Node = Project(lifted.node, made, tuple(map(ref, lifted.node.names)))
    moved = [substitute(part, renamed) for part in lifted.conditions]
    pairs = [pair for part in moved if (pair := equality(part, names, frozenset(inner.names))) is not None]
    inner, keys, conditions = keyed(typer, inner, pairs)
    total, known = typer.fresh("count", "bigint"), typer.fresh("count", "bigint")
    counted = exp.Count(this=renamed[relation.output[0].column].copy())
    calls = (Call(total, exp.Count(this=exp.Star())), Call(known, counted))
    return Aggregate(inner, tuple(dict.fromkeys(keys)), calls), conditions, total.name, known.name


def mark(typer: Typer, outer: Node, lifted: Lifted, more: Sequence[exp.Expr]) -> tuple[Node, exp.Expr]:
    """The outer rows beside a mark that tells whether the subquery has a row for them; never NULL."""
    conditions = [*lifted.conditions, *(substitute(part, lifted.late) for part in more)]
    names, inner = frozenset(outer.names), frozenset(lifted.node.names)
    pairs = [pair for part in conditions if (pair := equality(part, names, inner)) is not None]
    if len(pairs) < len(conditions):
        found, matched = _asked_of_domain(typer, outer, lifted.node, conditions)
    elif pairs:
        found, keys, matched = keyed(typer, lifted.node, pairs)
        found = Aggregate(found, tuple(dict.fromkeys(keys)))
    else:
        # Whether there is any row at all: a count is one row, and its sign changes seldom.
        count = typer.fresh("count", "bigint")
        counted = Aggregate(lifted.node, (), (Call(count, exp.Count(this=exp.Star())),))
        found, matched = Filter(counted, exp.GT(this=ref(count.name), expression=_zero())), []
    found, (there,) = typer.extend(found, [exp.true()], "there")
    return make_join(typer, "left", outer, found, matched), negate(is_null(ref(there)))


def _asked_of_domain(
    typer: Typer, outer: Node, inner: Node, conditions: Sequence[exp.Expr]
) -> tuple[Node, list[exp.Expr]]:
    """The distinct outer values for which the subquery has a row, and the equalities that lead to them."""
    used = sorted({name for part in conditions for name in columns_of(part)} & set(outer.names))
    if not used:
        column = typer.fresh("one", "int")
        one = Constant(f"SELECT 1 AS {column.name}", (column,))
        return make_join(typer, "semi", one, inner, conditions), []
    made = tuple(typer.fresh(name, typer.known[name]) for name in used)
    domain = Project(Aggregate(narrow(outer, used), tuple(used)), made, tuple(map(ref, used)))
    renamed = {old: ref(new.name) for old, new in zip(used, made, strict=True)}
    asked = make_join(typer, "semi", domain, inner, [substitute(part, renamed) for part in conditions])
    found = narrow(asked, [column.name for column in made])
    return found, [equal(ref(old), new, null_safe=True) for old, new in renamed.items()]
