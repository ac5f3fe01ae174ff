"""What several queries over the same relations have in common: one query that contains them all.

It has the conditions that all of them have, any of the rest, and the columns that any of them mentions. Each of them
can then be told from it (`compensation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from sqlglot import exp

from headrace.algebra.expressions import all_of, any_of, text
from headrace.algebra.matching.blocks import Block, column, under
from headrace.algebra.matching.compensation import ways
from headrace.language import Query, quote_name


def relations_of(block: Block) -> tuple[str, ...]:
    """What a query reads, in an order that does not depend on how it is written; nothing where that cannot be told."""
    return tuple(sorted(source.key for source in block.sources))


def shared_relations(blocks: Sequence[Block]) -> list[tuple[str, ...]]:
    """What queries may have in common: what some of them read, and the joins that two have a part of; largest first."""
    found = {relations_of(block) for block in blocks if block.sources}
    for one, other in combinations(sorted(found), 2):
        both = tuple(sorted(set(one) & set(other)))
        if len(both) > 1:
            found.add(both)
    return sorted(found, key=lambda keys: (-len(keys), keys))


def part_of(block: Block, relations: tuple[str, ...]) -> Block | None:
    """What a query asks of some relations, before it joins them with others; None where it does not read them so."""
    own = relations_of(block)
    if own == relations:
        return block
    if len(relations) < 2 or not set(relations) < set(own) or len(set(own)) < len(own):
        return None
    sources = tuple(source for source in block.sources if source.key in relations)
    aliases = {source.alias for source in sources}

    def inside(expression: exp.Expr) -> bool:
        return all(node.table in aliases for node in expression.find_all(exp.Column))

    mentioned = [*block.items, *block.conditions, *(block.keys or ()), *block.having]
    shown = {text(node): node for one in mentioned for node in one.find_all(exp.Column) if node.table in aliases}
    return Block(
        sources, "", tuple(filter(inside, block.conditions)), tuple(shown.values()),
        tuple(node.name for node in shown.values()),
    )  # fmt: skip


def common_query(blocks: Sequence[Block]) -> Query | None:
    """A query that contains all of some over the same relations; None where it would be all there is."""
    first = blocks[0]
    aligned = [first]
    for other in blocks[1:]:
        aliases = next(iter(ways(first, other)), None)
        if aliases is None:
            return None
        aligned.append(under(other, aliases))
    said = [{text(part): part for part in block.conditions} for block in aligned]
    always = [part for spelled, part in said[0].items() if all(spelled in one for one in said)]
    kept = {text(part) for part in always}
    rest = [all_of([part for spelled, part in one.items() if spelled not in kept]) for one in said]
    given = [part for part in rest if part is not None]
    distinct = list({text(part): part for part in given}.values())
    # Where one of them asks no more, all that they have in common is shown.
    either = any_of(distinct) if len(given) == len(rest) else None
    conditions = [*always, *([] if either is None else [either])]
    columns = _columns(aligned, said)
    if not columns:
        return None
    return Query(_select(first, columns, conditions))


def _columns(blocks: Sequence[Block], said: Sequence[dict[str, exp.Expr]]) -> list[exp.Column]:
    found: dict[str, exp.Column] = {}
    for block, conditions in zip(blocks, said, strict=True):
        for one in (*block.items, *(block.keys or ()), *block.having, *conditions.values()):
            for node in one.find_all(exp.Column):
                found.setdefault(text(node), node)
    return list(found.values())


def _select(block: Block, columns: list[exp.Column], conditions: list[exp.Expr]) -> exp.Select:
    names = [node.name for node in columns]
    items = []
    for node in columns:
        name = node.name if names.count(node.name) == 1 else f"{node.table}_{node.name}"
        items.append(
            exp.alias_(column(node.name, node.table), exp.to_identifier(name, quoted=quote_name(name) != name))
        )
    made = exp.Select(expressions=items)
    holders = []
    for source in block.sources:
        node = source.node.copy()
        node.set("alias", exp.TableAlias(this=exp.to_identifier(source.alias, quoted=True)))
        holders.append(node)
    made.set("from_", exp.From(this=holders[0]))
    made.set("joins", [exp.Join(this=node, kind="CROSS") for node in holders[1:]] or None)
    whole = all_of(conditions)
    made.set("where", None if whole is None else exp.Where(this=whole))
    return made
