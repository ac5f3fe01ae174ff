"""One SELECT in a normal form that two can be compared in: every column by the relation it is of.

Inner joins are a set of relations and a set of conditions. Subqueries in FROM that only choose rows and columns are
taken apart. Where there is an outer join or anything else in FROM, all of FROM is one thing that is only equal to
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates
from headrace.algebra.expressions import conjuncts, rewrite, text, unparen
from headrace.algebra.matching.predicates import Condition
from headrace.language import nodes, quote_name

#: The columns that a relation of a name shows; None where they are not known.
Schema = Callable[[str], Sequence[str] | None]

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct", "kind", "operation_modifiers"}


class NotPlain(Exception):
    """A query that has no such form."""


@dataclass(frozen=True)
class Source:
    """A relation in FROM: the name its columns go by, what it is, and that as it is written."""

    alias: str
    key: str
    node: exp.Expr


@dataclass(frozen=True)
class Block:
    """A SELECT without ORDER BY, LIMIT, OVER or subqueries in expressions. `keys` is None where it has no groups.

    `whole` is FROM as a text, where it is not an inner join; `sources` are then empty.
    """

    sources: tuple[Source, ...]
    whole: str
    conditions: tuple[exp.Expr, ...]
    items: tuple[exp.Expr, ...]
    names: tuple[str, ...]
    keys: tuple[exp.Expr, ...] | None = None
    having: tuple[exp.Expr, ...] = ()

    @cached_property
    def condition(self) -> Condition:
        return Condition(self.conditions)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """Its items, each as a text."""
        return tuple(map(text, self.items))

    @property
    def only_chooses(self) -> bool:
        """Whether it shows rows as they are: it can be taken apart where it is read."""
        return self.keys is None and not self.whole


def column(name: str, table: str = "") -> exp.Column:
    """A column, quoted where that is needed."""
    qualifier = _identifier(table) if table else None
    return exp.Column(this=_identifier(name), table=qualifier)


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=quote_name(name) != name)


def block_of(tree: exp.Expr, schema: Schema | None = None) -> Block | None:
    """The normal form of a query; None where it has none."""
    try:
        return _by_relation(_Reader(schema).block(tree))
    except NotPlain:
        return None


def _by_relation(block: Block) -> Block:
    """The block with every relation that it reads once under its own name: so most need no renaming to be compared."""
    keys = [source.key for source in block.sources]
    named = {
        source.alias: source.node.name.lower()
        for source in block.sources
        if isinstance(source.node, exp.Table) and keys.count(source.key) == 1
    }
    after = [named.get(source.alias, source.alias) for source in block.sources]
    return block if len(set(after)) < len(after) else under(block, named)


def under(block: Block, aliases: Mapping[str, str]) -> Block:
    """The block with relations under other names."""
    if all(old == new for old, new in aliases.items()):
        return block

    def all_renamed(expressions: Sequence[exp.Expr]) -> tuple[exp.Expr, ...]:
        return tuple(renamed(one, aliases) for one in expressions)

    return replace(
        block,
        sources=tuple(replace(one, alias=aliases.get(one.alias, one.alias)) for one in block.sources),
        items=all_renamed(block.items),
        conditions=all_renamed(block.conditions),
        keys=None if block.keys is None else all_renamed(block.keys),
        having=all_renamed(block.having),
    )


@dataclass
class _Scope:
    """What names mean in one SELECT: by alias, the columns it is known to have, and what they stand for."""

    columns: dict[str, Sequence[str] | None]
    meanings: dict[str, Mapping[str, exp.Expr] | None]
    named: Mapping[str, exp.Expr]

    def meaning(self, node: exp.Column) -> exp.Expr:
        name, table = node.name.lower(), node.table.lower()
        if len(node.parts) > 2 or (table and table not in self.columns):
            raise NotPlain
        alias = table or self._owner(name)
        if alias is None:
            if name not in self.named:
                raise NotPlain
            return self.named[name].copy()
        meanings = self.meanings[alias]
        if meanings is not None and name not in meanings:
            raise NotPlain
        found = column(name, alias) if meanings is None else meanings[name].copy()
        if not table and name in self.named and text(self.named[name]) != text(found):
            raise NotPlain  # a name of an item, and of a column besides
        return found

    def _owner(self, name: str) -> str | None:
        """The only relation that has a column of the name."""
        having = [alias for alias, names in self.columns.items() if names is not None and name in names]
        unknown = [alias for alias, names in self.columns.items() if names is None]
        if len(having) == 1 and not unknown:
            return having[0]
        if having or len(unknown) > 1:
            raise NotPlain
        return unknown[0] if unknown else None


class _Reader:
    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.spelling: dict[str, Sequence[str]] = {}

    def block(self, tree: exp.Expr) -> Block:
        while isinstance(tree, exp.Subquery) and not isinstance(tree, nodes.WindowedSubquery):
            if any(value for key, value in tree.args.items() if key not in ("this", "alias")):
                raise NotPlain
            tree = tree.this
        if not isinstance(tree, exp.Select) or any(value for key, value in tree.args.items() if key not in _CLAUSES):
            raise NotPlain
        if tree.args.get("from_") is None or (tree.args.get("distinct") and tree.args.get("group")):
            raise NotPlain
        distinct = tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise NotPlain
        for clause in (*tree.expressions, *(tree.args.get(key) for key in ("where", "group", "having"))):
            if clause is not None:
                _check_plain(clause)
        scope, sources, whole, conditions = self._from(tree)
        if len({source.alias for source in sources}) < len(sources):
            raise NotPlain
        if whole and any(_star(item) is not None for item in tree.expressions):
            raise NotPlain  # what it stands for depends on the joins
        items, names = self._items(tree, scope)
        where = tree.args.get("where")
        if where is not None:
            conditions += [_meant(part, scope) for part in conjuncts(where.this)]
        aliases = {
            item.alias.lower(): found for item, found in zip(tree.expressions, items, strict=False) if item.alias
        }
        grouped = _Scope(scope.columns, scope.meanings, aliases)
        having = tree.args.get("having")
        kept = [] if having is None else [_meant(part, grouped) for part in conjuncts(having.this)]
        keys = self._keys(tree, grouped, items)
        if keys is None and kept:
            raise NotPlain
        return Block(
            tuple(sources), whole, tuple(conditions), tuple(items), tuple(names),
            None if keys is None else tuple(keys), tuple(kept),
        )  # fmt: skip

    def _keys(self, tree: exp.Select, scope: _Scope, items: list[exp.Expr]) -> list[exp.Expr] | None:
        group = tree.args.get("group")
        if group is not None:
            if any(value for key, value in group.args.items() if key != "expressions"):
                raise NotPlain
            return [_key(key, scope, items) for key in group.expressions]
        if tree.args.get("distinct"):
            if any(map(_aggregates, items)):
                raise NotPlain
            return list(items)
        return [] if any(map(_aggregates, items)) else None

    def _items(self, tree: exp.Select, scope: _Scope) -> tuple[list[exp.Expr], list[str]]:
        items: list[exp.Expr] = []
        names: list[str] = []
        for item in tree.expressions:
            of = _star(item)
            if of is None:
                items.append(_meant(item.unalias(), scope))
                named = bool(item.alias) or isinstance(item, exp.Column)
                names.append(item.alias_or_name if named else f"column_{len(names)}")
                continue
            for alias in [of] if of else list(scope.columns):
                known = scope.columns.get(alias)
                if known is None:
                    raise NotPlain
                items += [scope.meaning(column(name, alias)) for name in known]
                names += self.spelling.get(alias, known)
        return items, names

    def _from(self, tree: exp.Select) -> tuple[_Scope, list[Source], str, list[exp.Expr]]:
        """What names mean, the relations, or FROM as a whole, and the conditions of joins."""
        joins = tree.args.get("joins") or []
        holders = [tree.args["from_"], *joins]
        if any(holder.this.args.get("joins") for holder in holders):
            raise NotPlain
        inner = all(_is_inner(join) for join in joins)
        scope = _Scope({}, {}, {})
        sources: list[Source] = []
        conditions: list[exp.Expr] = []
        for holder in holders:
            found, more = self._source(holder.this, scope, apart=inner)
            sources += found
            conditions += more
        if not inner:
            written = " ".join(text(holder) for holder in holders)
            return scope, [], written, []
        for join in joins:
            if join.args.get("on") is not None:
                _check_plain(join.args["on"])
                conditions += [_meant(part, scope) for part in conjuncts(join.args["on"])]
        return scope, sources, "", conditions

    def _source(self, node: exp.Expr, scope: _Scope, *, apart: bool) -> tuple[list[Source], list[exp.Expr]]:
        alias = node.alias_or_name.lower()
        given = node.args.get("alias")
        if not alias or alias in scope.columns or (given is not None and given.args.get("columns")):
            raise NotPlain
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if not all(_is_window(suffix) for suffix in node.args.get("suffixes") or ()):
                raise NotPlain
            if node.args.get("changes_of") or any(node.args.get(key) for key in ("db", "sample", "pivots", "laterals")):
                raise NotPlain
            known = None if self.schema is None else self.schema(node.name)
            if known is not None:
                self.spelling[alias] = known
            scope.columns[alias] = None if known is None else [name.lower() for name in known]
            scope.meanings[alias] = None
            return [Source(alias, _bare(node), node)], []
        if not isinstance(node, exp.Subquery) or isinstance(node, nodes.WindowedSubquery):
            raise NotPlain
        block = _Reader(self.schema).block(node)
        self.spelling[alias] = block.names
        scope.columns[alias] = [name.lower() for name in block.names]
        if not block.only_chooses or not apart:
            scope.meanings[alias] = None
            return [Source(alias, _bare(node), node)], []
        # Its relations go by names of their own now.
        new = {source.alias: f"{alias}_{source.alias}" for source in block.sources}
        scope.meanings[alias] = {
            name.lower(): renamed(item, new) for name, item in zip(block.names, block.items, strict=True)
        }
        sources = [Source(new[source.alias], source.key, source.node) for source in block.sources]
        return sources, [renamed(condition, new) for condition in block.conditions]


def renamed(expression: exp.Expr, aliases: Mapping[str, str]) -> exp.Expr:
    """The expression with relations under other names."""

    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and node.table in aliases:
            return column(node.name, aliases[node.table])
        return None

    return rewrite(expression, change)


def _bare(node: exp.Expr) -> str:
    """What a relation is, without the name it is given here."""
    copy = node.copy()
    copy.set("alias", None)
    if isinstance(copy, exp.Table) and isinstance(copy.this, exp.Identifier):
        copy.set("this", exp.to_identifier(copy.name.lower(), quoted=True))
    return text(copy)


def _is_window(suffix: exp.Expr) -> bool:
    """Whether what stands behind a relation makes nothing else of it than some of its rows."""
    return isinstance(suffix, nodes.StreamWindow) and not suffix.args.get("internal")


def _is_inner(join: exp.Join) -> bool:
    plain = not join.args.get("side") and not join.args.get("method") and not join.args.get("using")
    return plain and (join.args.get("kind") or "INNER").upper() in ("INNER", "CROSS", "")


def _star(item: exp.Expr) -> str | None:
    """The relation of which a star shows all columns; "" for all relations, None for what is no star."""
    if isinstance(item, exp.Star):
        if item.args.get("except_") or item.args.get("replace") or item.args.get("rename"):
            raise NotPlain
        return ""
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return item.table.lower()
    return None


def _check_plain(clause: exp.Expr) -> None:
    """Refuse queries, windows, the clock and grouping sets in a clause, and generators of rows.

    Of a function that the parser does not know, nobody can tell here whether it is one of these.
    """
    if clause.find(exp.Query, exp.Window, exp.Cube, exp.Rollup, exp.GroupingSets, exp.UDTF, exp.Explode, nodes.Now):
        raise NotPlain
    if clause.find(exp.Anonymous, exp.AnonymousAggFunc, exp.Posexplode, exp.Inline):
        raise NotPlain
    for star in clause.find_all(exp.Star):
        if not isinstance(star.parent, exp.Count) and star is not clause and star.parent is not clause:
            raise NotPlain


def _aggregates(expression: exp.Expr) -> bool:
    return next(find_aggregates(expression), None) is not None


def _meant(expression: exp.Expr, scope: _Scope) -> exp.Expr:
    def change(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return scope.meaning(node)
        if isinstance(node, exp.Count) and isinstance(node.this, exp.Literal) and not node.expressions:
            return exp.Count(this=exp.Star(), big_int=node.args.get("big_int"))
        return None

    return unparen(rewrite(expression, change))


def _key(key: exp.Expr, scope: _Scope, items: list[exp.Expr]) -> exp.Expr:
    found = key
    if isinstance(key, exp.Literal) and key.is_int and 1 <= int(key.name) <= len(items):
        found = items[int(key.name) - 1]
    elif not isinstance(key, exp.Literal):
        found = _meant(key, scope)
    if not found.find(exp.Column):
        raise NotPlain  # where it is printed, a number would be the place of an item
    return found
