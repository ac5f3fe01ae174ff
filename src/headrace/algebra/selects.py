"""One SELECT, clause by clause in the order of its meaning.

FROM, WHERE, GROUP BY with the aggregates, HAVING, windows, QUALIFY, the SELECT list, DISTINCT, ORDER BY with LIMIT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates, is_aggregate
from headrace.algebra.context import Context
from headrace.algebra.expressions import columns_of, conjuncts, ref, rewrite, text, unparen
from headrace.algebra.generators import generate, is_generator
from headrace.algebra.grouping import Grouped, bind_group
from headrace.algebra.limits import bounds, ordering, ordinal, top
from headrace.algebra.nodes import Aggregate, Node, Project
from headrace.algebra.not_bound import NotBound
from headrace.algebra.scopes import Relation, Scope, fields_of, resolve
from headrace.algebra.sources import bind_from
from headrace.algebra.stars_in_select import expand
from headrace.algebra.subqueries import apply_filter, attach
from headrace.algebra.windows import bind_windows, spell_windows


@dataclass
class Items:
    """The SELECT list: names and resolved expressions, and the aliases that later expressions may call."""

    names: list[str] = field(default_factory=list)
    items: list[exp.Expr] = field(default_factory=list)
    aliases: dict[str, exp.Expr] = field(default_factory=dict)


def bind_select(context: Context, select: exp.Select, around: Scope) -> Relation:
    """Bind a SELECT with all its clauses."""
    if unknown := [key for key in ("match", "connect", "cluster", "sample", "pivots") if select.args.get(key)]:
        raise NotBound(f"{unknown[0].upper()} has no operator")
    if isinstance(distinct := select.args.get("distinct"), exp.Distinct) and distinct.args.get("on"):
        raise NotBound("DISTINCT ON is not Spark's")
    source = bind_from(context, select, around)
    scope = Scope(source.fields, around, around.ctes)
    node = source.node
    if (where := select.args.get("where")) is not None:
        node = apply_filter(context, node, [resolve(part, scope) for part in conjuncts(where.this)], scope)
    return _Select(context, select, scope, node).bind()


class _Select:
    def __init__(self, context: Context, select: exp.Select, scope: Scope, node: Node) -> None:
        self.context = context
        self.select = select
        self.scope = scope
        self.node = node
        self.windows = {window.this.name.lower(): window for window in select.args.get("windows") or ()}

    def bind(self) -> Relation:
        written, fixed = self._generators(expand(self.select, self.scope, self.context))
        listed = self._items(written, fixed)
        found = bounds(self.select)
        having = [self._resolve_late(part, listed) for part in conjuncts(self._clause("having"))]
        qualify = [self._resolve_late(part, listed) for part in conjuncts(self._clause("qualify"))]
        distinct = self.select.args.get("distinct") is not None
        order = self._order(listed, found is not None)
        exprs = [*listed.items, *order]
        grouped = self._group(listed, [*exprs, *having, *qualify])
        if grouped is not None:
            self.node = grouped.node
            exprs, qualify = self._grouped(exprs, grouped), self._grouped(qualify, grouped)
            having = self._having(having, grouped, listed)
        elif having:
            raise NotBound("HAVING without a group has no meaning")
        self.node = apply_filter(self.context, self.node, having, self.scope)
        self.node, exprs = attach(self.context, self.node, exprs, self.scope)
        self.node, told = bind_windows(self.context, self.node, [*exprs, *qualify])
        if told:
            exprs, qualify = ([_replaced(item, told) for item in part] for part in (exprs, qualify))
        self.node = apply_filter(self.context, self.node, qualify, self.scope)
        return self._project(listed.names, exprs, distinct, found)

    def _clause(self, key: str) -> exp.Expr | None:
        clause = self.select.args.get(key)
        return None if clause is None else clause.this

    # -- the SELECT list ------------------------------------------------------------------------------------------

    def _generators(self, written: Sequence[tuple[str, exp.Expr]]) -> tuple[list[tuple[str, exp.Expr]], set[int]]:
        """Each explode in the SELECT list becomes a node below, and its columns take its place."""
        done: list[tuple[str, exp.Expr]] = []
        made_here: set[int] = set()
        for name, item in written:
            inner, names = item, [name]
            if isinstance(item, exp.Aliases):
                inner, names = item.this, [identifier.name for identifier in item.expressions]
            if not is_generator(unparen(inner)):
                if isinstance(item, exp.Aliases):
                    raise NotBound("several aliases for one expression need a generator")
                done.append((name, item))
                continue
            if self.select.args.get("group") is not None:
                raise NotBound("a generator in the SELECT list of a GROUP BY has no operator")
            made = generate(self.context, self.node, resolve(unparen(inner), self.scope), None, False)
            self.node = made.node
            shown = names if len(names) == len(made.fields) and names[0] else [f.name for f in made.fields]
            for label, column in zip(shown, made.fields, strict=True):
                made_here.add(len(done))
                done.append((label, ref(column.column)))
        return done, made_here

    def _items(self, written: Sequence[tuple[str, exp.Expr]], fixed: set[int]) -> Items:
        listed = Items()
        for position, (name, item) in enumerate(written):
            spelled = spell_windows(item, self.windows)
            bound = spelled if position in fixed else resolve(spelled, self.scope, listed.aliases)
            listed.names.append(name or _name(item))
            listed.items.append(bound)
            listed.aliases.setdefault((name or _name(item)).lower(), bound)
        return listed

    # -- clauses that may call what SELECT has named ----------------------------------------------------------------

    def _resolve_late(self, part: exp.Expr, listed: Items) -> exp.Expr:
        """HAVING and QUALIFY: a column of FROM first, then a name of the SELECT list."""
        return resolve(spell_windows(part, self.windows), self.scope, listed.aliases)

    def _order(self, listed: Items, wanted: bool) -> list[exp.Expr]:
        """The expressions of ORDER BY, if a LIMIT makes them matter: names of the SELECT list first."""
        clause = self.select.args.get("order")
        if clause is None or not wanted:
            return []
        shown = {name.lower(): item for name, item in zip(listed.names, listed.items, strict=True)}
        found: list[exp.Expr] = []
        for item in self._ordered_items():
            position = ordinal(item.this, len(listed.items))
            if position is not None:
                found.append(listed.items[position])
                continue
            spelled = spell_windows(item.this, self.windows)

            def change(node: exp.Expr) -> exp.Expr | None:
                if isinstance(node, exp.Column) and not node.table and node.name.lower() in shown:
                    return _marked(shown[node.name.lower()])
                return None

            whole = rewrite(spelled, change)
            found.append(resolve(whole, self.scope, listed.aliases))
        return found

    def _ordered_items(self) -> list[exp.Expr]:
        clause = self.select.args.get("order")
        items = list(clause.expressions) if clause is not None else []
        if len(items) == 1 and isinstance(items[0].this, exp.Column | exp.Var) and items[0].this.name.upper() == "ALL":
            raise NotBound("ORDER BY ALL with LIMIT has no operator")
        return items

    # -- GROUP BY -----------------------------------------------------------------------------------------------------

    def _group(self, listed: Items, exprs: Sequence[exp.Expr]) -> Grouped | None:
        group = self.select.args.get("group")
        if group is None and not any(next(find_aggregates(item), None) is not None for item in exprs):
            return None
        return bind_group(self.context, self.node, group, listed.items, listed.aliases, exprs, self.scope)

    def _having(self, having: Sequence[exp.Expr], grouped: Grouped, listed: Items) -> list[exp.Expr]:
        """HAVING over the groups; a name of FROM that the groups do not have is one of the SELECT list."""
        try:
            return self._grouped(having, grouped)
        except NotBound:
            again = [_called(part, listed.aliases) for part in conjuncts(self._clause("having"))]
            return self._grouped([resolve(part, self.scope, listed.aliases) for part in again], grouped)

    def _grouped(self, exprs: Sequence[exp.Expr], grouped: Grouped) -> list[exp.Expr]:
        """The expressions over the groups' columns."""
        done: list[exp.Expr] = []
        given = set(grouped.node.names)
        for item in exprs:
            replaced = _replaced(item, grouped.told)
            for name in columns_of(replaced):
                if self.scope.knows(name) and name not in given:
                    raise NotBound("a column is neither grouped by nor aggregated")
            done.append(replaced)
        return done

    # -- the result ---------------------------------------------------------------------------------------------------

    def _project(
        self, names: Sequence[str], exprs: Sequence[exp.Expr], distinct: bool, found: tuple[int | None, int] | None
    ) -> Relation:
        typer = self.context.typer
        items, order = list(exprs[: len(names)]), list(exprs[len(names) :])
        columns = typer.typed(names, items)
        known = {text(unparen(item)): column.name for item, column in zip(items, columns, strict=True)}
        hidden = [item for item in order if text(unparen(item)) not in known]
        extra = typer.typed(["order"] * len(hidden), hidden)
        known |= {text(unparen(item)): column.name for item, column in zip(hidden, extra, strict=True)}
        if distinct and hidden:
            raise NotBound("ORDER BY of a SELECT DISTINCT mentions what is not selected")
        node: Node = Project(self.node, columns + extra, (*items, *hidden))
        if distinct:
            node = Aggregate(node, node.names)
        if found is not None:
            orders = ordering(self._ordered_items(), [known[text(unparen(item))] for item in order])
            node = top(node, orders, found)
        return Relation(node, fields_of(names, columns))


def _marked(expression: exp.Expr) -> exp.Expr:
    """A copy whose columns are known to be resolved already."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if not isinstance(node, exp.Column):
            return None
        copy = node.copy()
        copy.meta["bound"] = True
        return copy

    return rewrite(expression, change)


def _called(expression: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with names of the SELECT list put in, but not inside aggregates."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if is_aggregate(node):
            return node.copy()
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            return _marked(aliases[node.name.lower()])
        return None

    return rewrite(expression, change)


def _name(item: exp.Expr) -> str:
    item = unparen(item)
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Dot):
        return item.expression.name
    return text(item)


def _replaced(expression: exp.Expr, told: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with each part that is told by its text replaced."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Identifier | exp.DataType | exp.Literal | exp.Query):
            return None
        found = told.get(text(unparen(node)))
        return None if found is None else found.copy()

    return rewrite(expression, change)
