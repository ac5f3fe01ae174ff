"""Windows over subqueries, ``(SELECT ...) [ROWS 10]``: the subquery becomes a relation of its own, with the window.

Only the outermost are taken out; one inside another stays in the text of its own query.
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
