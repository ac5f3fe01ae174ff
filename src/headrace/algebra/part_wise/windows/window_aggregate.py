"""One SELECT over one relation that groups and aggregates, taken apart: keys, outputs, WHERE and HAVING.

Every expression that is kept speaks of the source's columns without a qualifier. Aliases and ordinals in GROUP BY and
aliases in HAVING are replaced by what they stand for, so that the pieces can be put into other queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.aggregates import find_aggregates, function_of, is_aggregate
from headrace.algebra.determinism import nondeterministic
from headrace.algebra.expressions import rewrite, text, unparen
from headrace.language import Query, nodes
from headrace.language.dialect import DIALECT


@dataclass(frozen=True)
class Named:
    """An expression and the name of the column it makes."""

    name: str
    expression: exp.Expr


@dataclass(frozen=True)
class WindowAggregate:
    """``SELECT outputs FROM one relation WHERE where GROUP BY keys HAVING having``."""

    keys: tuple[Named, ...]
    outputs: tuple[Named, ...]
    where: exp.Expr | None
    having: exp.Expr | None

    @property
    def calls(self) -> tuple[exp.Expr, ...]:
        """The aggregates, each once, in the order in which they are mentioned."""
        places = [output.expression for output in self.outputs] + ([self.having] if self.having is not None else [])
        found = {same_key(call): call for place in places for call in find_aggregates(place)}
        return tuple(found.values())

    def put(self, expression: exp.Expr, key: Callable[[str], exp.Expr], call: Callable[[exp.Expr], exp.Expr]) -> str:
        """The text of an output or of HAVING, with other expressions for keys (by name) and aggregates."""
        keys = {same_key(item.expression): item.name for item in self.keys}

        def change(node: exp.Expr) -> exp.Expr | None:
            if is_aggregate(function_of(node)):
                return call(node)
            name = keys.get(same_key(unparen(node)))
            return None if name is None else key(name)

        return text(rewrite(expression, change))


class _Unfit(Exception):
    """The query is no such aggregate, for the reason that is told."""


_PLAIN_CLAUSES = frozenset({"kind", "hint", "expressions", "from_", "where", "group", "having", "operation_modifiers"})
#: What makes other rows or reads other relations, and so does not go with helper views.
_OTHER_WORDS = (
    (exp.Query, "a subquery"),
    (exp.Window, "OVER"),
    (exp.Explode, "a generator"),
    (exp.Inline, "a generator"),
    (exp.Placeholder, "a parameter"),
)


def describe_aggregate(
    query: Query, source: str, columns: Collection[str], names: Sequence[str] | None = None
) -> WindowAggregate | str:
    """The parts of the query, or the reason why it is not a single SELECT that aggregates one relation."""
    try:
        return _describe(query, source, columns, names)
    except _Unfit as unfit:
        return str(unfit)


def _describe(query: Query, source: str, columns: Collection[str], names: Sequence[str] | None) -> WindowAggregate:
    select = query.tree
    _check(query, select)
    assert isinstance(select, exp.Select)
    alias = select.args["from_"].this.alias_or_name
    scope = _Scope({source.lower(), alias.lower()}, {name.lower() for name in columns})
    items = [scope.plain(item.unalias()) for item in select.expressions]
    if names is not None and len(names) != len(items):
        raise _Unfit(f"the query has {len(items)} columns and the view {len(names)}")
    if names is None:
        names = [item.alias or output_name(item.unalias()) for item in select.expressions]
    outputs = [Named(name, item) for name, item in zip(names, items, strict=True)]
    own_aliases = [(item.alias or "").lower() for item in select.expressions]
    aliases = {alias: item for alias, item in zip(own_aliases, items, strict=True) if alias}
    keys = _keys(select, scope, outputs, aliases)
    where, having = select.args.get("where"), select.args.get("having")
    made = WindowAggregate(
        keys,
        tuple(outputs),
        None if where is None else scope.plain(where.this),
        None if having is None else _having(scope.plain(having.this), aliases, keys),
    )
    if not made.keys and not made.calls:
        raise _Unfit("the query neither groups nor aggregates")
    _check_columns(made, scope)
    return made


def _check(query: Query, select: exp.Expr) -> None:
    if not isinstance(select, exp.Select):
        raise _Unfit("the query is not a single SELECT")
    for key, value in select.args.items():
        if value and key not in _PLAIN_CLAUSES:
            word = key.strip("_").replace("_", " ").upper()
            raise _Unfit(f"the query has {'a join' if key == 'joins' else word}")
    table = select.args["from_"].this if select.args.get("from_") else None
    if not isinstance(table, nodes.Relation) or table.args.get("joins") or len(table.args.get("suffixes") or ()) != 1:
        raise _Unfit("the query reads more than one windowed relation")
    if table.args.get("sample") or table.args.get("pivots"):
        raise _Unfit("the relation is sampled or pivoted")
    for kind, word in _OTHER_WORDS:
        if any(found is not select for found in select.find_all(kind)):
            raise _Unfit(f"the query has {word}")
    if any(item.is_star for item in select.expressions):
        raise _Unfit("the query selects *")
    if (call := nondeterministic(query)) is not None:
        raise _Unfit(f"{call} gives another value each time")


@dataclass(frozen=True)
class _Scope:
    """The qualifiers that mean the source, and its columns, in lower case."""

    qualifiers: Collection[str]
    columns: Collection[str]

    def plain(self, expression: exp.Expr) -> exp.Expr:
        """The expression without the source's name before its columns."""
        copy = expression.copy()
        for column in copy.find_all(exp.Column):
            if column.table and column.table.lower() in self.qualifiers and column.table.lower() not in self.columns:
                column.set("table", None)
        return copy

    def knows(self, column: exp.Column) -> bool:
        # `a.b` that is not source and column is a field of the struct a.
        return (column.table or column.name).lower() in (*self.columns, "part_timestamp")


def _keys(
    select: exp.Select, scope: _Scope, outputs: Sequence[Named], aliases: dict[str, exp.Expr]
) -> tuple[Named, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    if group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
        raise _Unfit("the query groups by ROLLUP, CUBE or GROUPING SETS")
    if group.args.get("all"):
        found = [item.expression for item in outputs if next(find_aggregates(item.expression), None) is None]
    else:
        found = [_key(unparen(item), scope, outputs, aliases) for item in group.expressions]
    keys: dict[str, Named] = {}
    for number, expression in enumerate(found, 1):
        if next(find_aggregates(expression), None) is not None:
            raise _Unfit("the query groups by an aggregate")
        if expression.find(exp.Column) is None:  # a number in GROUP BY would be taken for an item's place
            raise _Unfit(f"the query groups by the constant {text(expression)}")
        shown = [item.name for item in outputs if same_key(item.expression) == same_key(expression)]
        own = expression.name if isinstance(expression, exp.Column) else f"key_{number}"
        keys.setdefault(same_key(expression), Named(shown[0] if shown else own, expression))
    return tuple(keys.values())


def _key(item: exp.Expr, scope: _Scope, outputs: Sequence[Named], aliases: dict[str, exp.Expr]) -> exp.Expr:
    if isinstance(item, exp.Literal) and item.is_int and 0 < int(item.name) <= len(outputs):
        return unparen(outputs[int(item.name) - 1].expression)
    # A column of the source goes before an alias of the same name, as in Spark.
    if isinstance(item, exp.Column) and not item.table and item.name.lower() not in scope.columns:
        return unparen(aliases.get(item.name.lower(), item))
    return unparen(scope.plain(item))


def _having(having: exp.Expr, aliases: dict[str, exp.Expr], keys: Sequence[Named]) -> exp.Expr:
    grouped = {same_key(item.expression) for item in keys}

    def change(node: exp.Expr) -> exp.Expr | None:
        if is_aggregate(function_of(node)):
            return node.copy()
        if not isinstance(node, exp.Column) or node.table or node.name.lower() not in aliases:
            return None
        meant = aliases[node.name.lower()]
        if same_key(node) in grouped and same_key(meant) != same_key(node):
            raise _Unfit(f"{node.name} in HAVING is the name of a key and of another output")
        return meant.copy()

    return rewrite(having, change)


def _check_columns(made: WindowAggregate, scope: _Scope) -> None:
    """Every column is one of the source, and outside aggregates one that is grouped by."""
    inside = [*(item.expression for item in made.keys), *made.calls]
    for expression in [*inside, *([made.where] if made.where is not None else [])]:
        for column in expression.find_all(exp.Column):
            if not scope.knows(column) and not isinstance(column.this, exp.Star):
                raise _Unfit(f"{text(column)} is no column of the windowed relation")
    for call in made.calls:
        if any(is_aggregate(node) for node in function_of(call).walk() if node is not function_of(call)):
            raise _Unfit("an aggregate stands inside another")
    left: list[exp.Expr] = []
    for expression in [item.expression for item in made.outputs] + ([made.having] if made.having is not None else []):
        keys = {same_key(item.expression) for item in made.keys}
        rewrite(expression, lambda node, keys=keys: _outside(node, keys, left))  # type: ignore[misc]
    if left:
        raise _Unfit(f"{text(left[0])} is neither grouped by nor inside an aggregate that is known here")


def _outside(node: exp.Expr, keys: Collection[str], left: list[exp.Expr]) -> exp.Expr | None:
    if is_aggregate(function_of(node)) or same_key(unparen(node)) in keys:
        return exp.Null()
    if isinstance(node, exp.Column):
        left.append(node)
    return None


def same_key(expression: exp.Expr) -> str:
    """Text that is the same for expressions that differ only in the case and quotes of names."""
    copy = expression.copy()
    for node in copy.walk():
        if isinstance(node, exp.Identifier):
            node.set("this", node.name.lower())
            node.set("quoted", True)
        elif isinstance(node, exp.Anonymous):
            node.set("this", node.name.lower())
    return text(copy)


def output_name(expression: exp.Expr) -> str:
    """The name of an output that has no alias: the column's own, or the text as Spark shows it."""
    expression = unparen(expression)
    if isinstance(expression, exp.Column):
        return expression.name
    if isinstance(expression, exp.Dot):
        return expression.expression.name
    shown = expression.copy()
    for call in shown.find_all(exp.Count):
        if isinstance(call.this, exp.Star):
            call.set("this", exp.Literal.number(1))
    return DIALECT.generator(comments=False, normalize_functions="lower").generate(shown)
