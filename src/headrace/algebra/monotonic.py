"""Set operations of streams (ESL 2.2): those whose results would be taken back are refused, UNION goes by times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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


def equal_with_times(query: Query, times: Callable[[str], str | None]) -> Query:
    """UNION of streams, which leaves out what is equal at equal times alone (ESL 2.2).

    `times` tells the column that a stream's times are in. Where a side is more than a choice of rows and columns of one
    stream, what is equal at any time is left out, as SQL says.
    """
    tree = query.tree
    if not isinstance(tree, exp.Union) or not tree.args.get("distinct") or tree.args.get("with_"):
        return query
    sides = _sides(tree)
    found = [_timed(side, times) for side in sides]
    names = [item.alias_or_name for item in sides[0].expressions] if sides else []
    if not all(names) or len(set(names)) < len(names) or None in found:
        return query
    merged = tree.copy()
    for side, time in zip(_sides(merged), found, strict=True):
        assert time is not None
        side.append("expressions", exp.alias_(time.copy(), "__at"))
    inner = exp.Subquery(this=merged, alias=exp.TableAlias(this=exp.to_identifier("merged")))
    shown = [exp.column(exp.to_identifier(name, quoted=True), "merged") for name in names]
    return replace(query, tree=exp.Select(expressions=shown, from_=exp.From(this=inner)))


def _sides(tree: exp.Expr) -> list[exp.Select]:
    if isinstance(tree, exp.Union):
        left, right = _sides(tree.left), _sides(tree.right)
        return [*left, *right] if left and right and tree.args.get("distinct") else []
    return [tree] if isinstance(tree, exp.Select) else []


def _timed(side: exp.Select, times: Callable[[str], str | None]) -> exp.Column | None:
    """The column that tells the times of a side's rows."""
    said = {key for key, value in side.args.items() if value}
    from_ = side.args.get("from_")
    plain = not said - {"expressions", "from_", "where", "kind"} and from_ is not None
    if not plain or not isinstance(from_.this, nodes.Relation) or side.find(exp.AggFunc, exp.Window, exp.Star):
        return None
    name = times(from_.this.name)
    return None if name is None else exp.column(name, from_.this.alias_or_name)
