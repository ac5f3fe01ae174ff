"""How a pattern query is refused: what, why, what to write instead, and where in the text."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import DefinitionError, Place
from headrace.language.query import Query
from headrace.language.tokens import place_at


def error(condition: str, query: Query, message: str, hint: str, node: exp.Expr | None = None) -> DefinitionError:
    """The error to raise; `node` is the piece of the query that is at fault."""
    return DefinitionError(condition, message, hint=hint, place=_place(query, node))


def _place(query: Query, node: exp.Expr | None) -> Place | None:
    found = [] if node is None or query.text is None else list(node.find_all(exp.Identifier))
    starts = [(it.meta["start"], len(it.name)) for it in found if it.meta.get("start") is not None]
    return place_at(query.text or "", *min(starts)) if starts else query.place
