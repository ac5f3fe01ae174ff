"""Windows over subqueries, ``(SELECT ...) [ROWS 10]``: the subquery becomes a relation of its own, with the window.

Only the outermost are taken out; one inside another stays in the text of its own query. A window on time over what is
only selected from a stream is a window over that stream, and is put there instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.errors import DefinitionError
from headrace.language import Query, Window, nodes
from headrace.language.windows import window_of

_NAME = "__windowed_{}"


@dataclass(frozen=True)
class Lifted:
    """A query that reads the relation `name` where `inner` stood, seen through `window`."""

    name: str
    inner: Query
    window: Window


def lift(query: Query) -> tuple[Query, tuple[Lifted, ...]]:
    """`query` without windowed subqueries, and those it had."""
    if query.tree.find(nodes.WindowedSubquery) is None:
        return query, ()
    tree = query.tree.copy()
    found = []
    outermost = [
        node for node in tree.find_all(nodes.WindowedSubquery) if node.find_ancestor(nodes.WindowedSubquery) is None
    ]
    for number, node in enumerate(outermost):
        window = window_of(node.args.get("suffixes") or (), query.place)
        if window is None or len(node.args["suffixes"]) != 1 or node.args.get("with_") is not None:
            raise DefinitionError(
                "BAD_WINDOW", "A subquery in FROM can have one window, and nothing else.", place=query.place
            )
        name = _NAME.format(number)
        relation = nodes.Relation(
            this=exp.to_identifier(name), alias=node.args.get("alias"), joins=node.args.get("joins")
        )
        found.append(Lifted(name, replace(query, tree=node.this.copy(), output=None), window))
        node.replace(relation)
    return replace(query, tree=tree), tuple(found)


def moved_inward(query: Query, appends: frozenset[str]) -> Query:
    """`query` with windows on time over selections from streams, those in `appends`, put on the streams themselves.

    A row of such a subquery is born with the one row that it is made of, and dies by the window alone.
    """
    if query.tree.find(nodes.WindowedSubquery) is None:
        return query
    tree = query.tree.copy()
    for node in list(tree.find_all(nodes.WindowedSubquery)):
        suffixes = node.args.get("suffixes") or []
        window = window_of(suffixes, query.place)
        alone = len(suffixes) == 1 and node.args.get("with_") is None
        if window is None or not alone or window.kind != "range" or window.internal or window.partition:
            continue
        relations = _selected_from(node.this, appends)
        if relations is None:
            continue
        for relation in relations:
            relation.set("suffixes", [suffixes[0].copy()])
        rest = {name: value for name, value in node.args.items() if name != "suffixes"}
        node.replace(exp.Subquery(**rest))
    return replace(query, tree=tree)


def _selected_from(inner: exp.Expr, appends: frozenset[str]) -> list[nodes.Relation] | None:
    """The streams that a subquery only selects from, each by itself; None where it does more than that."""
    if isinstance(inner, exp.Union) and not inner.args.get("distinct") and _has_only(inner, _OF_UNION):
        left, right = _selected_from(inner.this, appends), _selected_from(inner.expression, appends)
        return None if left is None or right is None else left + right
    if not isinstance(inner, exp.Select) or not _has_only(inner, _OF_SELECT):
        return None
    if len(list(inner.find_all(exp.Query))) != 1 or inner.find(exp.AggFunc, exp.Window, exp.UDTF, nodes.Now):
        return None
    relation = inner.args["from_"].this if inner.args.get("from_") else None
    if not isinstance(relation, nodes.Relation) or relation.name.lower() not in appends:
        return None
    plain = not (relation.args.get("suffixes") or relation.args.get("changes_of") or relation.args.get("joins"))
    return [relation] if plain else None


_OF_UNION = frozenset({"this", "expression", "distinct"})
_OF_SELECT = frozenset({"expressions", "from_", "where"})


def _has_only(node: exp.Expr, names: frozenset[str]) -> bool:
    return all(name in names for name, value in node.args.items() if value not in (None, False, []))
