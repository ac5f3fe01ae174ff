"""A query told from a view that contains it (SyncSQL 5.2): the compensating selection, projection and aggregation.

Both are brought to the form of `blocks`. The relations of the view must be among those of the query, and the view's
condition must follow from the query's; what the query asks beyond it, and all that it shows, must be told by columns of
the view, or by the relations that only the query reads. A view without groups can be grouped; one with groups can be
rolled up to fewer keys, where every aggregate can be told from those of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, permutations

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates, function_of, is_aggregate
from headrace.algebra.expressions import all_of, rewrite, text
from headrace.algebra.matching.blocks import Block, Schema, block_of, column, under
from headrace.algebra.matching.predicates import Kinds
from headrace.language import Query, quote_name

#: A relation that is read several times can be matched in several ways: so many are tried.
_MOST_WAYS = 24


@dataclass(frozen=True)
class Asked:
    """A query in the form that is compared, and its ORDER BY and LIMIT."""

    block: Block
    order: Mapping[str, exp.Expr]
    output: str | None

    @classmethod
    def of(cls, query: Query, schema: Schema | None = None) -> Asked | None:
        """None where the query has no such form."""
        tree = query.tree
        order = {key: tree.args[key] for key in _ORDER if tree.args.get(key)}
        if order:
            tree = tree.copy()
            for key in order:
                tree.set(key, None)
        block = block_of(tree, schema)
        if block is None or not all(_speaks_of(clause, block.names) for clause in order.values()):
            return None
        return cls(block, order, query.output)


_ORDER = ("order", "limit", "offset")


def _speaks_of(clause: exp.Expr, names: Sequence[str]) -> bool:
    """Whether ORDER BY or LIMIT only speaks of columns that are shown."""
    known = {name.lower() for name in names}
    columns = list(clause.find_all(exp.Column))
    plain = not clause.find(exp.Query, exp.Window) and next(find_aggregates(clause), None) is None
    return plain and all(not node.table and node.name.lower() in known for node in columns)


def compensation(
    query: Query, view: Query, name: str, columns: Sequence[str], kinds: Kinds, schema: Schema | None = None
) -> Query | None:
    """The query over the view `name`, whose columns are called `columns`; None where the view does not contain it.

    `schema` tells the columns of relations, without which only queries over one relation are understood.
    """
    asked, block = Asked.of(query, schema), block_of(view.tree, schema)
    return None if asked is None or block is None else compensated(asked, block, name, columns, kinds)


def compensated(asked: Asked, outer: Block, name: str, columns: Sequence[str], kinds: Kinds) -> Query | None:
    """The query over a view whose block is known."""
    inner = asked.block
    if inner.whole != outer.whole or len(outer.items) != len(columns):
        return None
    for aliases in ways(inner, outer):
        try:
            made = _Match(inner, under(outer, aliases), frozenset(aliases.values()), name, columns, kinds).told()
        except _NotTold:
            continue
        for key, value in asked.order.items():
            made.set(key, value.copy())
        return Query(made, asked.output)
    return None


class _NotTold(Exception):
    """Something that the view does not show."""


def ways(inner: Block, outer: Block) -> Iterator[dict[str, str]]:
    """The ways in which the view's relations can be some of the query's: by alias."""
    if inner.whole:
        yield {}
        return
    keys = [source.key for source in outer.sources]
    mine = {key: [source.alias for source in inner.sources if source.key == key] for key in keys}
    theirs = {key: [source.alias for source in outer.sources if source.key == key] for key in keys}
    yield from islice(_assigned(list(theirs), mine, theirs), _MOST_WAYS)


def _assigned(keys: list[str], mine: dict[str, list[str]], theirs: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    if not keys:
        yield {}
        return
    first, rest = keys[0], keys[1:]
    for chosen in permutations(mine[first], len(theirs[first])):
        for others in _assigned(rest, mine, theirs):
            yield {**dict(zip(theirs[first], chosen, strict=True)), **others}


#: What tells an aggregate of several groups from those of each.
_MERGED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.Sum: exp.Sum, exp.Min: exp.Min, exp.Max: exp.Max, exp.Count: exp.Sum,
}  # fmt: skip


@dataclass
class _Match:
    """A query and a view whose relations have been found in it: `shared` are their names."""

    inner: Block
    outer: Block
    shared: frozenset[str]
    name: str
    columns: Sequence[str]
    kinds: Kinds

    def __post_init__(self) -> None:
        self.extra = [source for source in self.inner.sources if source.alias not in self.shared]
        taken = {source.alias for source in self.extra}
        alias = self.name
        while alias.lower() in taken:
            alias += "_"
        self.alias = alias
        shown = dict(zip(self.outer.shown, self.columns, strict=True))
        self.told_by = shown
        self.keys = {text(key) for key in self.outer.keys or ()}
        self.by_key = {spelled: one for spelled, one in shown.items() if spelled in self.keys}

    def told(self) -> exp.Select:
        given, shown = self.inner.condition, self.outer.condition
        if not given.implies(shown, self.kinds):
            raise _NotTold
        rest = shown.unsaid(given, self.kinds)
        return self._over_rows(rest) if self.outer.keys is None else self._rolled_up(rest)

    def _column(self, name: str) -> exp.Expr:
        return column(name, self.alias if self.extra else "")

    def _told(self, expression: exp.Expr, told_by: dict[str, str], *, calls: bool = True) -> exp.Expr:
        """An expression over the view's columns and those of other relations; without `calls`, no aggregate in it."""

        def change(node: exp.Expr) -> exp.Expr | None:
            known = None if isinstance(node, exp.Literal) else told_by.get(text(node))
            if known is not None:
                return self._column(known)
            if not calls and is_aggregate(function_of(node)):
                raise _NotTold
            if isinstance(node, exp.Column):
                if node.table in self.shared or not node.table or not self.extra:
                    raise _NotTold
                return node.copy()
            return None

        return rewrite(expression, change)

    def _over_rows(self, rest: list[exp.Expr]) -> exp.Select:
        """A view that shows rows: the rest of the query is asked of it."""
        inner, known = self.inner, self.told_by
        made = self._select([self._told(item, known) for item in inner.items])
        self._read(made, [self._told(part, known) for part in rest])
        shown = [text(item) for item in inner.items]
        if inner.keys and not inner.having and [text(key) for key in inner.keys] == shown:
            made.set("distinct", exp.Distinct())
        elif inner.keys:
            made.set("group", exp.Group(expressions=[self._told(key, known) for key in inner.keys]))
        self._keep(made, [self._told(part, known) for part in inner.having])
        return made

    def _rolled_up(self, rest: list[exp.Expr]) -> exp.Select:
        """A view of groups: its groups are chosen among, and put together."""
        inner = self.inner
        if inner.keys is None or self.extra or not all(text(key) in self.by_key for key in inner.keys):
            raise _NotTold
        same = {text(key) for key in inner.keys} == self.keys
        if same and not self.keys and rest:
            raise _NotTold  # a row that is always there would be chosen away
        chosen = {text(part) for part in inner.having}
        # Groups that the view leaves out are missing, unless the query leaves out the same ones.
        if self.outer.having and not (same and all(text(part) in chosen for part in self.outer.having)):
            raise _NotTold
        conditions = [self._told(part, self.by_key) for part in rest]
        if same:
            made = self._select([self._told(item, self.told_by, calls=False) for item in inner.items])
            left_out = {text(part) for part in self.outer.having}
            kept = [part for part in inner.having if text(part) not in left_out]
            self._read(made, [*conditions, *(self._told(part, self.told_by, calls=False) for part in kept)])
            return made
        made = self._select([self._merged(item) for item in inner.items])
        self._read(made, conditions)
        if inner.keys:
            made.set("group", exp.Group(expressions=[self._told(key, self.by_key) for key in inner.keys]))
        self._keep(made, [self._merged(part) for part in inner.having])
        return made

    def _merged(self, expression: exp.Expr) -> exp.Expr:
        """An expression over aggregates, each of which is told from those of the view's groups."""

        def change(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Literal) and text(node) in self.by_key:
                return self._column(self.by_key[text(node)])
            if is_aggregate(function_of(node)):
                return self._merged_call(node)
            if isinstance(node, exp.Column):
                raise _NotTold
            return None

        return rewrite(expression, change)

    def _merged_call(self, node: exp.Expr) -> exp.Expr:
        call = node.this if isinstance(node, exp.Filter) else node
        # What does not ask how often a value is there can be told from the keys alone.
        if isinstance(call, exp.Min | exp.Max) or (isinstance(call, exp.Count) and call.find(exp.Distinct)):
            with suppress(_NotTold):
                return self._told(node, self.by_key)
        return self._from_groups(node, call)

    def _from_groups(self, node: exp.Expr, call: exp.Expr) -> exp.Expr:
        kind = _MERGED.get(type(call))
        if kind is None or text(node) not in self.told_by or call.find(exp.Distinct):
            raise _NotTold
        if isinstance(call, exp.Sum) and not self._is_exact(call.this):
            raise _NotTold
        merged = kind(this=self._column(self.told_by[text(node)]))
        if isinstance(call, exp.Count) and not self.inner.keys:
            return exp.Coalesce(this=merged, expressions=[exp.Literal.number(0)])
        return merged

    def _is_exact(self, summed: exp.Expr) -> bool:
        """Whether sums of an expression are the same in any order: not so the last digits of floating-point ones."""
        for node in summed.walk():
            if isinstance(node, exp.Column):
                if self.kinds(node.name) != "number":
                    return False
            elif isinstance(node, exp.Literal):
                if node.is_string or "e" in node.name.lower():
                    return False
            elif not isinstance(node, exp.Identifier | exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul):
                return False
        return True

    def _select(self, items: list[exp.Expr]) -> exp.Select:
        """SELECT items under the names they have in the query."""
        named = []
        for item, name in zip(items, self.inner.names, strict=True):
            same = isinstance(item, exp.Column) and item.name == name
            quoted = quote_name(name) != name
            named.append(item if same or not name else exp.alias_(item, exp.to_identifier(name, quoted=quoted)))
        return exp.Select(expressions=named)

    def _read(self, select: exp.Select, conditions: list[exp.Expr]) -> None:
        table = exp.Table(this=exp.to_identifier(self.name, quoted=quote_name(self.name) != self.name))
        if self.alias != self.name:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(self.alias)))
        select.set("from_", exp.From(this=table))
        joins = []
        for source in self.extra:
            node = source.node.copy()
            node.set("alias", exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True)))
            joins.append(exp.Join(this=node, kind="CROSS"))
        select.set("joins", joins or None)
        whole = all_of(conditions)
        select.set("where", None if whole is None else exp.Where(this=whole))

    def _keep(self, select: exp.Select, conditions: list[exp.Expr]) -> None:
        whole = all_of(conditions)
        select.set("having", None if whole is None else exp.Having(this=whole))
