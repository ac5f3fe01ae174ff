"""The parts of a query that are queries themselves, and a query with some of them put in place by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from headrace.language import Query, nodes


def with_parts(query: Query, change: Callable[[Query], Query | None]) -> Query:
    """The query with its largest parts that `change` answers replaced by the answers, itself among them."""
    named = {cte.alias.lower() for with_ in query.tree.find_all(exp.With) for cte in with_.expressions}
    tree = _changed(query.tree.copy(), named, change)
    return Query(tree, query.output)


def _changed(tree: exp.Expr, named: set[str], change: Callable[[Query], Query | None]) -> exp.Expr:
    # What a WITH around it has named means something else there.
    if not any(table.name.lower() in named for table in tree.find_all(exp.Table)):
        found = change(Query(tree))
        if found is not None:
            return found.tree.copy()
    for part in list(_parts(tree)):
        made = _changed(part.copy(), named, change)
        if made != part:
            part.replace(made)
    return tree


def _parts(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The queries that a query is directly made of: of WITH, of a set operation, in FROM."""
    with_ = tree.args.get("with_")
    if isinstance(with_, exp.With) and not with_.args.get("recursive"):
        for cte in with_.expressions:
            yield cte.this
    if isinstance(tree, exp.SetOperation):
        yield from (part for part in (tree.this, tree.expression) if isinstance(part, exp.Query))
    if isinstance(tree, exp.Select):
        for holder in (tree.args.get("from_"), *(tree.args.get("joins") or ())):
            source = None if holder is None else holder.this
            if isinstance(source, exp.Subquery) and not isinstance(source, nodes.WindowedSubquery):
                yield source.this
    if isinstance(tree, exp.Subquery):
        yield tree.this


def operators(query: Query) -> int:
    """How many joins, groupings and sortings a query has."""
    kinds = (exp.Join, exp.Group, exp.Distinct, exp.Window, exp.Order, exp.SetOperation)
    return sum(1 for _node in query.tree.find_all(*kinds))
