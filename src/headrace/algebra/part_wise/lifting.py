"""One query for many parts: a query over the parts it names becomes one over all of them, which also tells the part.

Every relation that is read by its parts brings a column with the part that a row goes into; joins compare it, groups
and windows are cut by it, and the result shows it last. What cannot be cut that way is left to be made part by part: a
subquery in an expression, a LIMIT, an aggregate over all rows (which has a row even for an empty part).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.language import Query
from headrace.language.relations import PART_TIMESTAMP, find_relations

#: The column that tells for which part of the view a row is.
PART = "__part"


class _CannotLift(Exception):
    """The query has to be run part by part."""


@dataclass(frozen=True)
class _Lifted:
    """A query that shows its part, and its columns where they are known."""

    tree: exp.Expr
    parted: bool


def lift(query: Query, columns: Sequence[Sequence[str]]) -> Query | None:
    """The query for many parts at once, with `PART` as its last column; None where it cannot be.

    `columns` are those of its i-th relation.
    """
    tree = query.tree.copy()
    relations = find_relations(tree)
    if tree.args.get("with_") or any(column.name.upper() == PART_TIMESTAMP for column in tree.find_all(exp.Column)):
        return None
    known = {id(table): list(names) for table, names in zip(relations, columns, strict=True)}
    parted = {id(table) for table, ref in zip(relations, query.relations(), strict=True) if ref.parts is not None}
    try:
        lifted = _query(tree, known, parted)
    except _CannotLift:
        return None
    return Query(lifted.tree, query.output) if lifted.parted else None


def _query(tree: exp.Expr, known: dict[int, list[str]], parted: set[int]) -> _Lifted:
    if isinstance(tree, exp.Subquery):
        inner = _query(tree.this, known, parted)
        tree.set("this", inner.tree)
        return _Lifted(tree, inner.parted)
    if isinstance(tree, exp.SetOperation):
        if tree.args.get("limit") or tree.args.get("offset") or tree.args.get("with_"):
            raise _CannotLift
        sides = [_query(tree.args[key], known, parted) for key in ("this", "expression")]
        if not all(side.parted for side in sides):
            raise _CannotLift
        tree.set("this", sides[0].tree)
        tree.set("expression", sides[1].tree)
        tree.set("order", None)
        return _Lifted(tree, True)
    if not isinstance(tree, exp.Select):
        raise _CannotLift
    return _select(tree, known, parted)


_KNOWN_CLAUSES = {
    "kind", "expressions", "from_", "joins", "where", "group", "having", "qualify", "distinct", "order",
    "operation_modifiers", "hint",
}  # fmt: skip


def _select(select: exp.Select, known: dict[int, list[str]], parted: set[int]) -> _Lifted:
    if any(value for key, value in select.args.items() if key not in _KNOWN_CLAUSES):
        raise _CannotLift
    if _has_inner_query(select):
        raise _CannotLift
    select.set("order", None)
    from_ = select.args.get("from_")
    if from_ is None:
        return _Lifted(select, False)
    shown = _source(from_.this, known, parted)
    for join in select.args.get("joins") or ():
        shown = _join(join, shown, _source(join.this, known, parted))
    if shown is None:
        return _Lifted(select, False)
    _expand_stars(select, known)
    for window in list(select.find_all(exp.Window)):
        window.set("partition_by", [*(window.args.get("partition_by") or ()), _part(shown)])
    _group(select, shown)
    select.set("expressions", [*select.expressions, exp.alias_(_part(shown), PART)])
    return _Lifted(select, True)


def _has_inner_query(select: exp.Select) -> bool:
    """Whether an expression has a query of its own: those in FROM are looked into."""
    clauses = [*select.expressions, *(select.args.get(key) for key in ("where", "group", "having", "qualify"))]
    conditions = [join.args.get("on") for join in select.args.get("joins") or ()]
    return any(clause is not None and clause.find(exp.Query) is not None for clause in (*clauses, *conditions))


def _source(node: exp.Expr, known: dict[int, list[str]], parted: set[int]) -> str | None:
    """The name by which what stands in FROM shows its part; None if it has none."""
    if isinstance(node, exp.Table):
        if id(node) not in known or node.args.get("joins"):
            raise _CannotLift
        return node.alias_or_name if id(node) in parted else None
    if isinstance(node, exp.Subquery) and not node.args.get("joins"):
        inner = _query(node, known, parted)
        if not inner.parted:
            return None
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier("unnamed_")))
        if node.args["alias"].args.get("columns"):
            raise _CannotLift
        return str(node.alias)
    raise _CannotLift


def _join(join: exp.Join, left: str | None, right: str | None) -> str | None:
    """The name by which a join shows its part."""
    side, kind, method = join.side.upper(), join.kind.upper(), (join.args.get("method") or "").upper()
    if (
        join.args.get("using")
        or method
        or side == "FULL"
        or kind not in ("", "OUTER", "INNER", "CROSS", "SEMI", "ANTI")
    ):
        raise _CannotLift
    if right is None:
        if side == "RIGHT" and left is not None:
            raise _CannotLift
        return left
    if left is None or side == "RIGHT":
        # Rows of the left side alone would have no part of their own.
        raise _CannotLift
    same = exp.EQ(this=_part(left), expression=_part(right))
    condition = join.args.get("on")
    join.set("on", same if condition is None else exp.and_(exp.paren(condition.copy()), same, copy=False))
    if kind == "CROSS":
        join.set("kind", None)
    return left


def _group(select: exp.Select, shown: str) -> None:
    group = select.args.get("group")
    if group is not None:
        if any(value for key, value in group.args.items() if key != "expressions"):
            raise _CannotLift
        group.append("expressions", _part(shown))
        return
    aggregated = [
        call
        for item in (*select.expressions, select.args.get("having"))
        if item is not None
        for call in item.find_all(exp.AggFunc, exp.Anonymous)
        if not isinstance(call.parent, exp.Window)
    ]
    if aggregated:
        raise _CannotLift


def _expand_stars(select: exp.Select, known: dict[int, list[str]]) -> None:
    """Spell out stars: they would show the part as well."""
    if not any(item.find(exp.Star) for item in select.expressions if not item.find(exp.AggFunc)):
        return
    tables = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    if any(id(table) not in known for table in tables):
        raise _CannotLift
    items: list[exp.Expr] = []
    for item in select.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            items += [_column(name, table.alias_or_name) for table in tables for name in known[id(table)]]
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            own = [table for table in tables if table.alias_or_name.lower() == item.table.lower()]
            items += [_column(name, table.alias_or_name) for table in own for name in known[id(table)]]
        elif item.find(exp.Star) and not item.find(exp.AggFunc):
            raise _CannotLift
        else:
            items.append(item)
    select.set("expressions", items)


def _part(name: str) -> exp.Column:
    return _column(PART, name)


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name), exp.to_identifier(table))
