"""SELECTs that call user-defined aggregates, or built-in ones over ESL's windows, taken apart.

Such a SELECT becomes an inner query over its FROM and WHERE, which gives the rows with the arguments of each call; the
calls; and an outer SELECT over what the calls give. Only the outermost such SELECTs of a query are taken apart: one
inside another is met again in the inner query of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.user_aggregates.block_of_calls import Taken, take_apart
from headrace.algebra.user_aggregates.called import names_of, over_of
from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.windows_of_calls import is_preceding
from headrace.errors import DefinitionError
from headrace.language import Query, nodes
from headrace.language.relations import find_relations

Known = Mapping[str, Versions]


@dataclass(frozen=True)
class TakenApart:
    """`outer` reads the relation of each block, by its name, where the block stood."""

    outer: Query
    blocks: tuple[Taken, ...]


def has_blocks(query: Query, known: Known, streams: Callable[[str], bool]) -> bool:
    """Whether some SELECT of a query is to be taken apart; `streams` tells which relations are streams."""
    if not known and query.tree.find(exp.Window) is None:
        return False
    return next(_blocks(query.tree, known, streams), None) is not None


def taken_apart(
    query: Query, known: Known, streams: Callable[[str], bool], shown: Callable[[Query], Sequence[str]]
) -> TakenApart | None:
    """A query with its blocks taken out, None where it has none. `shown` tells the columns of a SELECT of stars."""
    if not has_blocks(query, known, streams):
        return None
    tree = query.tree.copy()
    found: list[Taken] = []
    places: list[tuple[exp.Select, exp.Select]] = []
    for number, select in enumerate(_outermost(_blocks(tree, known, streams))):
        if select.find_ancestor(nodes.WindowedSubquery) is not None:
            raise DefinitionError(
                "WINDOW_OVER_AGGREGATE",
                "A window over a subquery that calls aggregates is not there yet.",
                hint="CREATE STREAM s AS SELECT ... with the calls, then read FROM s [ROWS 10].",
                place=query.place,
            )
        block, outer = take_apart(select, f"__block_{number}", _visible(select), known, shown, query.place)
        found.append(block)
        places.append((select, outer))
    # Only now: a block may read a WITH that has another in it.
    for select, outer in places:
        if select is tree:
            tree = outer
        else:
            select.replace(outer)
    return TakenApart(replace(query, tree=tree), tuple(found))


def _outermost(found: Iterator[exp.Select]) -> list[exp.Select]:
    all_ = list(found)
    marked = {id(select) for select in all_}

    def within(select: exp.Expr) -> bool:
        above = select.parent
        while above is not None and id(above) not in marked:
            above = above.parent
        return above is not None

    return [select for select in all_ if not within(select)]


def _blocks(tree: exp.Expr, known: Known, streams: Callable[[str], bool]) -> Iterator[exp.Select]:
    named = {id(table) for table in find_relations(tree)}
    for select in tree.find_all(exp.Select):
        from_ = select.args.get("from_")
        relation = from_.this if from_ is not None and not select.args.get("joins") else None
        over_stream = (
            isinstance(relation, nodes.Relation)
            and id(relation) in named
            and not (relation.args.get("joins") or relation.args.get("changes_of"))
            and select.find(exp.Window) is not None
            and streams(relation.name)
        )
        if any(_is_ours(node, select, known, over_stream) for node in own_nodes(select)):
            yield select


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT that are in no query inside it, nor in its FROM."""
    pending: list[exp.Expr] = []
    for key in ("expressions", "having", "qualify", "order", "where", "group"):
        value = select.args.get(key)
        pending += value if isinstance(value, list) else [value] if isinstance(value, exp.Expr) else []
    while pending:
        node = pending.pop()
        yield node
        pending += [child for child in node.iter_expressions() if not isinstance(child, exp.Query)]


def _is_ours(node: exp.Expr, select: exp.Select, known: Known, over_stream: bool) -> bool:
    if isinstance(node, nodes.SlidingWindow):
        return True
    if isinstance(node, exp.Window):
        inner = node.this.this if isinstance(node.this, exp.Filter) else node.this
        if not over_stream or not isinstance(inner, exp.AggFunc | exp.Anonymous):
            return False
        window = node if node.args.get("alias") is None else _named(node, select)
        return isinstance(window, nodes.SlidingWindow) or (is_preceding(window) and window.args.get("order") is None)
    versions = next((known[name] for name in names_of(node) if name in known), None)
    if versions is None:
        return False
    # A built-in one goes on to answer calls without OVER where the user's is for windows alone.
    return versions.base is not None or over_of(node) is not None or isinstance(node, exp.Anonymous)


def _named(window: exp.Window, select: exp.Select) -> exp.Window:
    name = window.args["alias"].name.lower()
    return next((it for it in select.args.get("windows") or () if it.this.name.lower() == name), window)


def _visible(select: exp.Select) -> list[exp.CTE]:
    """The common table expressions that a SELECT may read, outer ones first."""
    found: list[exp.CTE] = []
    above: exp.Expr | None = select
    inside: exp.Expr | None = None
    while above is not None:
        with_ = above.args.get("with_")
        if isinstance(with_, exp.With):
            mine = list(with_.expressions)
            if isinstance(inside, exp.CTE) and any(inside is cte for cte in mine):
                # A common table expression sees those before it.
                mine = mine[: next(number for number, cte in enumerate(mine) if cte is inside)]
            found = mine + found
        if isinstance(above, exp.CTE):
            inside = above
        above = above.parent
    return list({cte.alias.lower(): cte for cte in found}.values())


def is_row_wise(query: Query) -> bool:
    """Whether a query over one relation says of each row by itself whether and how it is shown."""
    tree = query.tree
    if not isinstance(tree, exp.Select) or query.output is not None:
        return False
    said = {key for key, value in tree.args.items() if value}
    if said - {"expressions", "from_", "where", "kind"}:
        return False
    inside = [*tree.expressions, *([tree.args["where"]] if tree.args.get("where") else [])]
    return not any(node.find(exp.Query, exp.AggFunc, exp.Window, exp.UDTF, exp.Explode) for node in inside)
