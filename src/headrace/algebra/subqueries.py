"""Subqueries in expressions: EXISTS, IN and scalar ones, as joins.

A conjunct of WHERE that is [NOT] EXISTS or [NOT] IN becomes a semi or anti join. Anywhere else (under OR, in CASE, in
the SELECT list) the subquery becomes a value: a left join, and a mark that tells whether there was a match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headrace.algebra.context import Context
from headrace.algebra.decorrelate import join_scalar, lift
from headrace.algebra.expressions import columns_of, conjuncts, negate, rewrite, text, unparen
from headrace.algebra.joins import filtered, make_join
from headrace.algebra.marks import in_mark, mark, not_in_join, not_in_mark, row_equalities
from headrace.algebra.nodes import Aggregate, Filter, JoinKind, Node, Project
from headrace.algebra.normal import settle_types
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Relation, Scope
from headrace.algebra.trees import free_columns, narrow


def is_subquery(node: exp.Expr) -> bool:
    """A scalar subquery, EXISTS or IN (SELECT ...)."""
    if isinstance(node, exp.Exists):
        return isinstance(node.this, exp.Query)
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Query)


def find_subqueries(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The topmost subqueries of an expression."""
    if is_subquery(expression):
        yield expression
        if isinstance(expression, exp.In):
            yield from find_subqueries(expression.this)
        return
    for child in expression.iter_expressions():
        yield from find_subqueries(child)


def has_subquery(expression: exp.Expr) -> bool:
    return next(find_subqueries(expression), None) is not None


def apply_filter(context: Context, node: Node, conditions: Sequence[exp.Expr], scope: Scope) -> Node:
    """The rows for which all conditions hold; they are resolved but for the subqueries in them."""
    parts = [part for whole in conditions for part in conjuncts(_nots_down(whole))]
    node = filtered(node, [settle_types(context.typer, part) for part in parts if not has_subquery(part)])
    for part in parts:
        if has_subquery(part):
            node = _apply_one(context, node, part, scope)
    return node


def _nots_down(expression: exp.Expr) -> exp.Expr:
    """NOT (a OR b) as NOT a AND NOT b wherever subqueries are in it: NOT IN is a question of its own, as in Spark."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Not) or not has_subquery(node):
            return None
        inner = unparen(node.this)
        if isinstance(inner, exp.Not):
            return _nots_down(inner.this)
        if isinstance(inner, exp.Or | exp.And):
            kind = exp.And if isinstance(inner, exp.Or) else exp.Or
            sides = [exp.Paren(this=_nots_down(negate(side))) for side in (inner.this, inner.expression)]
            return kind(this=sides[0], expression=sides[1])
        return None

    return rewrite(expression, change)


def _apply_one(context: Context, node: Node, part: exp.Expr, scope: Scope) -> Node:
    typer, columns = context.typer, node.names
    negated = isinstance(part, exp.Not)
    inner = unparen(part.this) if negated else part
    if isinstance(inner, exp.Exists) and is_subquery(inner):
        relation = _bind(context, inner.this, node, scope)
        if _surely_a_row(relation.node):
            return Filter(node, exp.false()) if negated else node
        lifted = lift(typer, node, relation.node)
        kind: JoinKind = "anti" if negated else "semi"
        return _narrowed(make_join(typer, kind, node, lifted.node, lifted.conditions), columns)
    if isinstance(inner, exp.In) and is_subquery(inner):
        node, (value,) = attach(context, node, [inner.this], scope)
        relation = _bind(context, inner.args["query"], node, scope)
        if negated:
            return _narrowed(not_in_join(typer, node, value, relation), columns)
        lifted = lift(typer, node, relation.node)
        pairs = row_equalities(value, relation, lifted)
        return _narrowed(make_join(typer, "semi", node, lifted.node, [*lifted.conditions, *pairs]), columns)
    node, (predicate,) = attach(context, node, [part], scope)
    return narrow(Filter(node, predicate), columns)


def _narrowed(node: Node, columns: Sequence[str]) -> Node:
    return node if set(node.names) == set(columns) else narrow(node, columns)


def _bind(context: Context, query: exp.Expr, node: Node, scope: Scope) -> Relation:
    relation = context.bind_query(context, query, scope)
    for name in free_columns(relation.node):
        if scope.knows(name) and name not in node.names:
            raise NotBound("a subquery mentions a column of a row that GROUP BY has merged")
    return relation


def _surely_a_row(node: Node) -> bool:
    if isinstance(node, Project):
        return _surely_a_row(node.child)
    return isinstance(node, Aggregate) and node.is_global


def attach(context: Context, node: Node, expressions: Sequence[exp.Expr], scope: Scope) -> tuple[Node, list[exp.Expr]]:
    """The node beside the values of all subqueries, and the expressions over them. Each subquery is computed once."""
    done: list[exp.Expr] = []
    known: dict[str, exp.Expr] = {}
    for expression in expressions:
        if not has_subquery(expression):
            done.append(expression)
            continue
        holder = exp.Paren(this=_nots_down(expression))
        while (found := next(find_subqueries(holder.this), None)) is not None:
            if isinstance(found, exp.In) and has_subquery(found.this):
                node, (inner,) = attach(context, node, [found.this], scope)
                found.set("this", inner)
            target = _with_not(found)
            if text(target) not in known:
                node, known[text(target)] = _value(context, node, target, scope)
            target.replace(exp.Paren(this=known[text(target)].copy()))
        done.append(holder.this.copy())
    return node, done


def _with_not(found: exp.Expr) -> exp.Expr:
    """The NOT around an IN, which asks for more than its opposite; else the subquery itself."""
    around = found.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    return around if isinstance(found, exp.In) and isinstance(around, exp.Not) else found


def _value(context: Context, node: Node, found: exp.Expr, scope: Scope) -> tuple[Node, exp.Expr]:
    typer = context.typer
    if isinstance(found, exp.Exists):
        relation = _bind(context, found.this, node, scope)
        if _surely_a_row(relation.node):
            return node, exp.true()
        return mark(typer, node, lift(typer, node, relation.node), [])
    if isinstance(found, exp.Not):
        inner = unparen(found.this)
        return not_in_mark(typer, node, inner.this, _bind(context, inner.args["query"], node, scope))
    if isinstance(found, exp.In):
        return in_mark(typer, node, found.this, _bind(context, found.args["query"], node, scope))
    relation = _bind(context, found, node, scope)
    if len(relation.output) != 1:
        raise NotBound("a scalar subquery gives more than one column")
    return join_scalar(typer, node, relation.node, relation.output[0].column)


def attach_side(
    context: Context, sides: tuple[Node, Node], conditions: Sequence[exp.Expr], scope: Scope
) -> tuple[tuple[Node, Node], list[exp.Expr]]:
    """The subqueries in the condition of an outer join, computed on the one side that they mention."""
    left, right = sides
    done: list[exp.Expr] = []
    for condition in conditions:
        used: set[str] = set()
        for found in find_subqueries(condition):
            query = found.args.get("query") or (found.this if isinstance(found, exp.Exists) else found)
            used |= free_columns(context.bind_query(context, query, scope).node)
            if isinstance(found, exp.In):
                used |= columns_of(found.this)
        if used <= set(left.names):
            left, (condition,) = attach(context, left, [condition], scope)
        elif used <= set(right.names):
            right, (condition,) = attach(context, right, [condition], scope)
        else:
            raise NotBound("a subquery in the condition of an outer join mentions both sides")
        done.append(condition)
    return (left, right), done
