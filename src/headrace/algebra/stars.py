"""Stars spelled out: `*` as the columns a relation shows, where it is given to the engine with more than those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.language import Query
from headrace.language.relations import direct_tables, find_relations


def spell_out_stars(query: Query, relations: frozenset[int], columns: Mapping[int, Sequence[str]]) -> Query:
    """`query` with no star in the SELECTs that read the relations numbered in `relations`."""
    tree = query.tree.copy()
    numbers = {id(table): number for number, table in enumerate(find_relations(tree))}
    for select in list(tree.find_all(exp.Select)):
        mine = [table for table in direct_tables(select) if id(table) in numbers]
        if any(numbers[id(table)] in relations for table in mine):
            spell_out(select, {table.alias_or_name.lower(): columns[numbers[id(table)]] for table in mine})
    return replace(query, tree=tree)


def spell_out(select: exp.Select, columns: Mapping[str, Sequence[str]]) -> None:
    """Replace the stars of one SELECT by names; `columns` has those of each relation by its alias in lower case."""
    spelled: list[exp.Expr] = []
    for item in select.expressions:
        qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
        if isinstance(item, exp.Star):
            for alias in _aliases(select):
                spelled += _columns(alias, columns.get(alias.lower()))
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            spelled += _columns(item.table, columns.get(qualifier))
        else:
            spelled.append(item)
    select.set("expressions", spelled)


def _aliases(select: exp.Select) -> list[str]:
    # A semi or anti join shows its left side alone.
    joins = [join for join in select.args.get("joins") or [] if join.args.get("kind") not in ("SEMI", "ANTI")]
    holders = [select.args.get("from_"), *joins]
    return [holder.this.alias_or_name for holder in holders if holder is not None]


def _columns(alias: str, names: Sequence[str] | None) -> list[exp.Expr]:
    if names is None:  # a subquery shows what it shows
        return [exp.Column(this=exp.Star(), table=exp.to_identifier(alias))]
    return [exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(alias, quoted=True)) for name in names]
