"""Set operations that a stream cannot be made of: ones whose results are taken back when more rows come (ESL 2.2)."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.errors import DefinitionError
from headrace.language import Query, nodes
from headrace.language.relations import find_relations


def check_monotonic(query: Query, streams: Callable[[str], bool]) -> None:
    """Refuse EXCEPT and INTERSECT of streams that no window bounds; `streams` tells which relations are such."""
    for node in query.tree.find_all(exp.Except, exp.Intersect):
        for table in find_relations(node):
            windowed = any(isinstance(suffix, nodes.StreamWindow) for suffix in table.args.get("suffixes") or ())
            if windowed or not streams(table.name):
                continue
            word = "EXCEPT" if isinstance(node, exp.Except) else "INTERSECT"
            why = (
                "a row of the result would be taken back when the other side brings it"
                if word == "EXCEPT"
                else "a row would have to be kept for ever, for the other side may still bring it"
            )
            raise DefinitionError(
                "NOT_MONOTONIC",
                f"{word} over {table.name}, which goes on for ever, gives no stream: {why}.",
                hint=f"Put windows on the streams, {table.name} [RANGE 1 MINUTE], or CREATE VIEW, which may lose rows.",
                place=query.place,
            )
