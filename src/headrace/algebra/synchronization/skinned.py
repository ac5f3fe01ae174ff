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
class Clocked:
    """What a view changes by: the points of a stream, or every so many microseconds; neither: whenever it can."""

    stream: str | None = None
    every: int | None = None


#: Nothing that it would have to wait for.
AT_ONCE = Clocked()


@dataclass(frozen=True)
class Skinned:
    """What a view shows, and what it is synchronized by: it shows it at the points that all of this has in common.

    `by` is that of the view as a whole; `read` has by relation what lies between it and the view.
    """

    data: Query
    by: Clocked
    read: tuple[tuple[str, frozenset[Clocked]], ...]

    @property
    def clocks(self) -> tuple[Clocked, ...]:
        """All that it is synchronized by; none: at any time."""
        inner = [clock for _name, clocks in self.read for clock in sorted(clocks, key=str)]
        return tuple(dict.fromkeys(clock for clock in (self.by, *inner) if clock != AT_ONCE))

    @property
    def inner(self) -> frozenset[Clocked]:
        """What its relations are synchronized by, apart from the view as a whole."""
        return frozenset(clock for _name, clocks in self.read for clock in clocks)

    @property
    def uniform(self) -> Clocked | None:
        """What all its relations are read through alike, if there is one thing."""
        found = {clocks for _name, clocks in self.read}
        only = next(iter(found)) if len(found) == 1 else frozenset()
        return next(iter(only)) if len(only) == 1 else None


#: A view's query as it is written, and what it is synchronized by as a whole; None for what is no view.
Defined = Callable[[str], tuple[Query, Clocked] | None]


def skinned(query: Query, by: Clocked, defined: Defined) -> Skinned:
    """The skinned form of a query that is synchronized by `by`; `defined` tells the queries of views."""
    read: list[tuple[str, frozenset[Clocked]]] = []
    tree = _bare(query.tree.copy(), defined, read, frozenset())
    return Skinned(Query(tree, query.output), by, tuple(read))


def _bare(
    tree: exp.Expr, defined: Defined, read: list[tuple[str, frozenset[Clocked]]], around: frozenset[Clocked]
) -> exp.Expr:
    for table in find_relations(tree):
        suffixes = table.args.get("suffixes") or []
        stream = sync_of(suffixes)
        clocks = around if stream is None else around | {Clocked(stream)}
        if stream is not None:
            left = [suffix for suffix in suffixes if sync_of([suffix]) is None]
            table.set("suffixes", left or None)
        plain = not table.args.get("suffixes") and not table.args.get("changes_of")
        found = defined(table.name) if plain else None
        if found is None:
            read.append((table.name.lower(), clocks))
            continue
        inner, by = found
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        if alias.this is None:
            alias.set("this", exp.to_identifier(table.name))
        view = _bare(inner.tree.copy(), defined, read, clocks if by == AT_ONCE else clocks | {by})
        table.replace(exp.Subquery(this=view, alias=alias.copy(), joins=table.args.get("joins")))
    return tree
