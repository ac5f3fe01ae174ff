"""A query told from a view that contains it (SyncSQL 5.2): the compensating selection, projection and aggregation.

Both are one SELECT over the same relations. The view's condition must follow from the query's; what the query asks
beyond it, and all that it shows, must be told by columns of the view. A view without groups can be grouped; one with
groups can be rolled up to fewer keys, where every aggregate can be told from those of the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.expressions import conjuncts, rewrite, text, unparen
from headrace.algebra.matching.predicates import Kinds, implies
from headrace.language import Query
from headrace.language.relations import find_relations

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "kind", "operation_modifiers"}


@dataclass(frozen=True)
class _Block:
    """One SELECT without ORDER BY, LIMIT, windows or subqueries in expressions."""

    select: exp.Select
    alone: bool

    @property
    def where(self) -> exp.Expr | None:
        return self.select.args["where"].this if self.select.args.get("where") else None

    @property
    def keys(self) -> list[exp.Expr] | None:
        """The GROUP BY columns; None without groups."""
        group = self.select.args.get("group")
        if group is not None:
            return [self.plain(key) for key in group.expressions]
        if self.select.args.get("distinct"):
            return [self.plain(item.unalias()) for item in self.select.expressions]
        return [] if any(item.find(exp.AggFunc) for item in self.select.expressions) else None

    def plain(self, expression: exp.Expr) -> exp.Expr:
        """An expression whose columns are spelled in one way: without a qualifier where there is one relation."""

        def bare(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Column) or not self.alone:
                return None
            return exp.Column(this=exp.to_identifier(node.name.lower()))

        return unparen(rewrite(expression, bare))


def compensation(query: Query, view: Query, name: str, columns: Sequence[str], kinds: Kinds) -> Query | None:
    """The query over the view `name`, whose columns are called `columns`; None where the view does not contain it."""
    inner, outer = _block(query.tree), _block(view.tree)
    if inner is None or outer is None or _sources(inner) != _sources(outer):
        return None
    given = None if inner.where is None else inner.plain(inner.where)
    shown = None if outer.where is None else outer.plain(outer.where)
    if not implies(given, shown, kinds):
        return None
    rest = [part for part in _parts(given) if not implies(shown, part, kinds)]
    items = [item.unalias() for item in outer.select.expressions]
    told = {text(outer.plain(item)): column for item, column in zip(items, columns, strict=True)}
    if outer.keys is None:
        made = _over_rows(inner, rest, told, name)
    elif outer.select.args.get("having") or outer.select.args.get("distinct"):
        return None
    else:
        made = _rolled_up(inner, outer, rest, told, name)
    return None if made is None else Query(made, query.output)


def _block(tree: exp.Expr) -> _Block | None:
    if not isinstance(tree, exp.Select) or any(value for key, value in tree.args.items() if key not in _CLAUSES):
        return None
    looked_at = [*tree.expressions, *(tree.args.get(key) for key in ("where", "group", "having"))]
    if any(clause is not None and not _is_plain(clause) for clause in looked_at):
        return None
    if tree.args.get("from_") is None or (tree.args.get("distinct") and tree.args.get("group")):
        return None
    return _Block(tree, not tree.args.get("joins") and isinstance(tree.args["from_"].this, exp.Table))


def _is_plain(clause: exp.Expr) -> bool:
    """Whether a clause has no query, window or grouping set in it, and no star but that of COUNT(*)."""
    if clause.find(exp.Query, exp.Window, exp.Cube, exp.Rollup, exp.GroupingSets):
        return False
    return all(isinstance(star.parent, exp.Count) for star in clause.find_all(exp.Star))


def _sources(block: _Block) -> str:
    """What the block reads; of one relation alone, its name without an alias."""
    if block.alone:
        (table,) = find_relations(block.select) or [block.select.args["from_"].this]
        if not table.args.get("suffixes") and not table.args.get("changes_of"):
            return str(table.name.lower())
    joins = [text(join) for join in block.select.args.get("joins") or ()]
    return " ".join([text(block.select.args["from_"]), *joins])


def _parts(predicate: exp.Expr | None) -> list[exp.Expr]:
    return [] if predicate is None else list(conjuncts(predicate))


class _NotTold(Exception):
    """Something that the view does not show."""


def _translated(block: _Block, expression: exp.Expr, told: dict[str, str]) -> exp.Expr:
    """An expression over the view's columns."""

    def column(node: exp.Expr) -> exp.Expr | None:
        known = told.get(text(node))
        if known is not None and not isinstance(node, exp.Literal):
            return exp.column(known)
        if isinstance(node, exp.Column):
            raise _NotTold
        return None

    return rewrite(block.plain(expression), column)


def _over_rows(inner: _Block, rest: list[exp.Expr], told: dict[str, str], name: str) -> exp.Expr | None:
    """A view that shows rows: the rest of the query is asked of it."""
    copy = inner.select.copy()
    try:
        items = [_named(item, _translated(inner, item.unalias(), told)) for item in inner.select.expressions]
        conditions = [_translated(inner, part, told) for part in rest]
        group = inner.select.args.get("group")
        keys = None if group is None else [_translated(inner, key, told) for key in group.expressions]
        having = inner.select.args.get("having")
        kept = None if having is None else _translated(inner, having.this, told)
    except _NotTold:
        return None
    copy.set("expressions", items)
    _read(copy, name, conditions)
    if keys is not None:
        copy.set("group", exp.Group(expressions=keys))
    if kept is not None:
        copy.set("having", exp.Having(this=kept))
    return copy


#: What tells an aggregate of several groups from those of each.
_MERGED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.Sum: exp.Sum, exp.Min: exp.Min, exp.Max: exp.Max, exp.Count: exp.Sum,
}  # fmt: skip


def _rolled_up(inner: _Block, outer: _Block, rest: list[exp.Expr], told: dict[str, str], name: str) -> exp.Expr | None:
    """A view of groups: its groups are chosen among, and put together."""
    keys, finer = inner.keys, {text(key) for key in outer.keys or ()}
    if not keys or inner.select.args.get("having") or not all(text(key) in finer for key in keys):
        return None
    by_key = {spelled: column for spelled, column in told.items() if spelled in finer}
    same = len(keys) == len(finer)

    def item(expression: exp.Expr) -> exp.Expr:
        call = inner.plain(expression)
        if text(call) in by_key:
            return exp.column(by_key[text(call)])
        kind = _MERGED.get(type(call))
        if kind is None or text(call) not in told or call.find(exp.Distinct):
            raise _NotTold
        column = exp.column(told[text(call)])
        return column if same else kind(this=column)

    try:
        items = [_named(one, item(one.unalias())) for one in inner.select.expressions]
        conditions = [_translated(inner, part, by_key) for part in rest]
    except _NotTold:
        return None
    made = exp.Select(expressions=items)
    _read(made, name, conditions)
    if not same:
        made.set("group", exp.Group(expressions=[exp.column(by_key[text(key)]) for key in keys]))
    return made


def _named(item: exp.Expr, made: exp.Expr) -> exp.Expr:
    """An item under the name it has in the query."""
    name = item.alias_or_name
    return made if isinstance(made, exp.Column) and made.name == name else exp.alias_(made, name or None)


def _read(select: exp.Select, name: str, conditions: list[exp.Expr]) -> None:
    select.set("from_", exp.From(this=exp.to_table(name)))
    select.set("joins", None)
    select.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
