"""Queries whose results are born and never die: over INTERNAL windows, and under a window of their own (thesis 3.3).

Over internal windows a query gives the same results in the same order as over external ones, but they stay. So what is
wanted is every *birth* in the query over external windows. To tell a new result from an old one that happens to have
the same values, each result carries who made it: a join the times and numbers of the rows it joined, an aggregate
those of all rows of its group. Duplicate elimination and negation have no such form (their results would contradict
themselves), nor has anything that holds one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.stars import spell_out
from headrace.errors import DefinitionError
from headrace.language import AsOf, Query, RelationRef, Window, nodes
from headrace.language.relations import direct_tables, find_relations

MADE_OF = "__made_of"


@dataclass(frozen=True)
class Births:
    """A query over external windows whose last columns tell who made a result.

    `extras` are the columns it wants of each relation beside those that are shown. `outlived` are external windows
    among internal ones: a result dies when the row whose time stands in that column leaves that window.
    """

    query: Query
    extras: Mapping[int, tuple[str, ...]]
    outlived: tuple[tuple[str, Window], ...]
    aggregates: bool


def births(query: Query, columns: Mapping[int, Sequence[str]], extras: Mapping[int, tuple[str, ...]]) -> Births:
    """Make every result of `query` tell who made it.

    `columns` are those each relation shows, `extras` those that tell its rows apart (`__t`, and `__seq` if it has it).
    """
    tree = query.tree.copy()
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree.this
    select = _checked(tree, query)
    tables = find_relations(select)
    numbers = {id(table): number for number, table in enumerate(tables)}
    references = query.relations()
    mine = [(numbers[id(table)], table.alias_or_name) for table in direct_tables(select) if id(table) in numbers]
    shape = query.shape()
    aggregates = shape is not None and (shape.aggregates or shape.group_by is not None)
    outlived = _outlived(references, mine, aggregates, query)
    spell_out(select, {alias.lower(): columns[number] for number, alias in mine})
    for window in select.find_all(nodes.StreamWindow):
        window.set("internal", False)
    ids = [exp.column(extra, alias) for number, alias in mine for extra in extras[number]]
    made_of: exp.Expr = _call("concat_ws", exp.Literal.string(","), *ids)
    if aggregates:
        listed = _call("sort_array", exp.ArrayAgg(this=made_of))
        made_of = _call("array_join", listed, exp.Literal.string(";"))
    for column, (number, alias, _) in outlived.items():
        select.append("expressions", exp.alias_(exp.column(extras[number][0], alias), column))
    select.append("expressions", exp.alias_(made_of, MADE_OF))
    return Births(
        replace(query, tree=select),
        extras,
        tuple((column, window) for column, (_, _, window) in outlived.items()),
        aggregates,
    )


def same_moment(query: Query) -> tuple[Query, AsOf | None]:
    """The one AS OF that all relations of `query` have, if they have one, and the query without it."""
    moments = {ref.as_of for ref in query.relations()}
    if moments <= {None}:
        return query, None
    if len(moments) > 1:
        raise DefinitionError(
            "MIXED_WINDOWS",
            "Over INTERNAL windows all relations must be read AS OF one and the same time.",
            hint="Write the same AS OF behind each of them.",
            place=query.place,
        )
    tree = query.tree.copy()
    for table in find_relations(tree):
        suffixes = table.args.get("suffixes") or []
        table.set("suffixes", [one for one in suffixes if not isinstance(one, nodes.AsOfTime | nodes.AsOfSnapshot)])
    return replace(query, tree=tree), moments.pop()


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _checked(tree: exp.Expr, query: Query) -> exp.Select:
    if not isinstance(tree, exp.Select):
        raise _refusal(query, "a set operation")
    if tree.args.get("distinct") is not None:
        raise _refusal(query, "duplicate elimination (DISTINCT)")
    for key, name in (("limit", "LIMIT"), ("offset", "OFFSET"), ("qualify", "QUALIFY"), ("with_", "WITH")):
        if tree.args.get(key) is not None:
            raise _refusal(query, name)
    if any(inner is not tree for inner in tree.find_all(exp.Select)):
        raise _refusal(query, "a subquery")
    if tree.find(exp.Window) is not None:
        raise _refusal(query, "a function with OVER")
    if tree.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None:
        raise _refusal(query, "a grouping of several levels")
    for join in tree.find_all(exp.Join):
        words = {str(join.args.get(key) or "").upper() for key in ("side", "kind", "method")}
        if words & {"SEMI", "ANTI"}:
            raise _refusal(query, "negation (a semi or anti join)")
        if words & {"LEFT", "RIGHT", "FULL"}:
            raise _refusal(query, "an outer join, which holds a negation")
    return tree


def _refusal(query: Query, what: str) -> DefinitionError:
    return DefinitionError(
        "NEVER_DYING_RESULT",
        f"Results that never die cannot be had through {what}.",
        detail="Over an INTERNAL window, and under a window of its own, a query only adds to its result. With "
        "duplicate elimination or negation such a result would contradict the query.",
        hint="Use a SELECT of streams joined, filtered or aggregated; or leave INTERNAL out.",
        place=query.place,
    )


def _outlived(
    references: Sequence[RelationRef], mine: Sequence[tuple[int, str]], aggregates: bool, query: Query
) -> dict[str, tuple[int, str, Window]]:
    """External windows beside internal ones: their rows still take their results along when they die."""
    found: dict[str, tuple[int, str, Window]] = {}
    if not any(ref.window is not None and ref.window.internal for ref in references):
        return found
    for number, alias in mine:
        window = references[number].window
        if window is None or window.internal or window.length is None:
            continue
        if window.kind == "rows" or aggregates:
            what = "a window of rows" if window.kind == "rows" else "an aggregate"
            raise DefinitionError(
                "MIXED_WINDOWS",
                f"{references[number].name} has an external window beside an INTERNAL one, under {what}.",
                detail="A join of both is clear: a result dies with its row of the external window. This is not.",
                hint="Make all windows INTERNAL, or none.",
                place=query.place,
            )
        found[f"__time_{number}"] = (number, alias, window)
    return found
