"""Joins with non-retroactive tables: a row meets the version of the table that held when the row arrived.

The rewriting gives every stream in such a SELECT its time of arrival and every non-retroactive table the span of each
of its versions, and adds `version began <= arrival < version ended`. An update of the table thus never touches rows
that arrived before it, as thesis section 3.3.1 wants, and the view stays an ordinary query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.stars import spell_out
from headrace.errors import DefinitionError
from headrace.language import Query
from headrace.language.relations import direct_tables, find_relations

ARRIVED = "__t"
BEGAN = "__from"
ENDED = "__to"


@dataclass(frozen=True)
class Versioned:
    """The rewritten query, and by number the relations to give with their versions and with their arrival times."""

    query: Query
    versions: frozenset[int]
    arrivals: frozenset[int]


def meet_versions(query: Query, tables: frozenset[int], columns: Mapping[int, Sequence[str]]) -> Versioned:
    """Rewrite `query`, whose relations numbered in `tables` are non-retroactive.

    `columns` gives each relation's visible columns, which a star must still show and nothing else.
    """
    tree = query.tree.copy()
    numbers = {id(table): number for number, table in enumerate(find_relations(tree))}
    versions: set[int] = set()
    arrivals: set[int] = set()
    for select in list(tree.find_all(exp.Select)):
        mine = [table for table in direct_tables(select) if id(table) in numbers]
        kept = [table for table in mine if numbers[id(table)] in tables]
        streams = [table for table in mine if numbers[id(table)] not in tables]
        outer = [] if streams or not kept else _streams_around(select, numbers, tables)
        if not kept or not (streams or outer):
            continue
        spell_out(select, {t.alias_or_name.lower(): columns[numbers[id(t)]] for t in mine})
        for around in {
            id(table.find_ancestor(exp.Select)): table.find_ancestor(exp.Select) for table in outer
        }.values():
            theirs = [table for table in direct_tables(around) if id(table) in numbers]
            spell_out(around, {t.alias_or_name.lower(): columns[numbers[id(t)]] for t in theirs})
        streams = streams or outer
        for table in kept:
            _restrict(select, table, _arrival(streams))
        versions |= {numbers[id(table)] for table in kept}
        arrivals |= {numbers[id(table)] for table in streams}
    return Versioned(replace(query, tree=tree), frozenset(versions), frozenset(arrivals))


def _streams_around(select: exp.Select, numbers: Mapping[int, int], tables: frozenset[int]) -> list[exp.Table]:
    """The streams whose rows a subquery over non-retroactive tables is asked for, if it is asked for each row."""
    inner: exp.Expr = select
    around = select.find_ancestor(exp.Select)
    while around is not None:
        streams = [t for t in direct_tables(around) if id(t) in numbers and numbers[id(t)] not in tables]
        if streams:
            _check_correlatable(inner, select)
            return streams
        inner, around = around, around.find_ancestor(exp.Select)
    return []


def _check_correlatable(inner: exp.Expr, select: exp.Select) -> None:
    """Only EXISTS and IN can be asked again for every row's time of arrival."""
    holder = inner.parent
    while isinstance(holder, exp.Subquery | exp.Paren):
        holder = holder.parent
    if isinstance(holder, exp.Exists | exp.In):
        return
    names = ", ".join(table.name for table in direct_tables(select))
    raise DefinitionError(
        "NON_RETROACTIVE_SUBQUERY",
        f"{names} is not retroactive, and in this subquery it would be read as it is now.",
        hint="Join it with the stream (LEFT JOIN), or ask with EXISTS or IN.",
    )


def _arrival(streams: Sequence[exp.Table]) -> exp.Expr:
    """When a combination of stream rows came to be: with the last of them."""
    times = [exp.column(ARRIVED, table.alias_or_name) for table in streams]
    return times[0] if len(times) == 1 else exp.Greatest(this=times[0], expressions=times[1:])


def _restrict(select: exp.Select, table: exp.Table, arrival: exp.Expr) -> None:
    alias = table.alias_or_name
    held = exp.and_(
        exp.LTE(this=exp.column(BEGAN, alias), expression=arrival.copy()),
        exp.LT(this=arrival.copy(), expression=exp.column(ENDED, alias)),
    )
    join = table.find_ancestor(exp.Join, exp.From)
    side = str(join.args.get("side") or "").upper() if isinstance(join, exp.Join) else ""
    others = {str(other.args.get("side") or "").upper() for other in select.args.get("joins") or []}
    if side in ("RIGHT", "FULL") or (isinstance(join, exp.From) and others - {""}) or "FULL" in others:
        raise DefinitionError(
            "NON_RETROACTIVE_JOIN",
            f"{table.name} is not retroactive and cannot be the preserved side of an outer join.",
            detail="Its rows meet only rows that arrive after them, so on their own they belong to no moment.",
            hint="Put the stream on the preserved side: FROM stream LEFT JOIN table.",
        )
    if isinstance(join, exp.Join) and (side == "LEFT" or join.args.get("kind") in ("SEMI", "ANTI")):
        on = join.args.get("on")
        join.set("on", held if on is None else exp.and_(on, held))
    else:
        select.where(held, copy=False)
