"""The skinned form of a view (SyncSQL 5.1, Theorem 2): its data part, over plain relations, and its synchronization.

The data part is the query with nothing synchronized in it, and with views that are read put in as subqueries. By
Corollaries 2 and 3 the view and its skinned form agree at the points that all synchronization streams have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from headrace.language import Query
from headrace.language.relations import find_relations
from headrace.language.synchronized import sync_of


@dataclass(frozen=True)
class Skinned:
    """What a view shows, and the streams of which it shows it at the common points; none: at any time."""

    data: Query
    streams: tuple[str, ...]


#: A view's query as it is written, and the stream it is synchronized by as a whole; None for what is no view.
Defined = Callable[[str], tuple[Query, str | None] | None]


def skinned(query: Query, by: str | None, defined: Defined) -> Skinned:
    """The skinned form of a query that is synchronized by `by`; `defined` tells the queries of views."""
    streams: dict[str, None] = {} if by is None else {by: None}
    tree = _bare(query.tree.copy(), defined, streams)
    return Skinned(Query(tree, query.output), tuple(streams))


def _bare(tree: exp.Expr, defined: Defined, streams: dict[str, None]) -> exp.Expr:
    for table in find_relations(tree):
        suffixes = table.args.get("suffixes") or []
        stream = sync_of(suffixes)
        if stream is not None:
            streams[stream] = None
            left = [suffix for suffix in suffixes if sync_of([suffix]) is None]
            table.set("suffixes", left or None)
        if table.args.get("suffixes") or table.args.get("changes_of"):
            continue
        found = defined(table.name)
        if found is None:
            continue
        inner, by = found
        if by is not None:
            streams[by] = None
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        if alias.this is None:
            alias.set("this", exp.to_identifier(table.name))
        view = _bare(inner.tree.copy(), defined, streams)
        table.replace(exp.Subquery(this=view, alias=alias.copy(), joins=table.args.get("joins")))
    return tree
