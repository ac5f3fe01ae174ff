"""Which relations a query reads, in one fixed order, and which of them show PART_TIMESTAMP.

The order is that of the text: common table expressions first, then FROM, joins and the rest, depth first.
`Query.relations` and `Query.to_spark` both walk with `find_relations`, which keeps "the i-th reference" meaning the
same in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from headrace.errors import DefinitionError, LanguageError, Place
from headrace.language import nodes
from headrace.language.parts import PartRange, parts_of
from headrace.language.synchronized import sync_of
from headrace.language.tokens import place_at
from headrace.language.windows import Window, window_of

PART_TIMESTAMP = "PART_TIMESTAMP"


@dataclass(frozen=True)
class AsOf:
    """A moment in a relation's past: a time in microseconds, or a snapshot number."""

    time: int | None = None
    snapshot: int | None = None


@dataclass(frozen=True)
class RelationRef:
    """One mention of a relation in a query."""

    name: str
    kind: Literal["relation", "changes", "points"] = "relation"
    old: bool = False
    as_of: AsOf | None = None
    part_timestamp: bool = False
    window: Window | None = None
    parts: PartRange | None = None
    sync: str | None = None
    place: Place | None = field(default=None, compare=False)


#: What a function around a relation's name shows of it.
_KINDS: dict[str, Literal["changes", "points"]] = {
    "CHANGES": "changes", nodes.CHANGES_AND_OLD: "changes", "SYNC_POINTS": "points",
}  # fmt: skip


def find_relations(tree: exp.Expr) -> list[exp.Table]:
    """All table nodes that name an object of the catalog: not CTEs, not table functions."""
    return list(_walk(tree, frozenset()))


def _walk(node: exp.Expr, hidden: frozenset[str]) -> Iterator[exp.Table]:
    with_ = node.args.get("with_")
    if isinstance(with_, exp.With):
        recursive = bool(with_.args.get("recursive"))
        for cte in with_.expressions:
            name = cte.alias.lower()
            yield from _walk(cte.this, hidden | {name} if recursive else hidden)
            hidden = hidden | {name}
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        plain = not node.args.get("db") and not node.args.get("suffixes") and not node.args.get("changes_of")
        if not (plain and node.name.lower() in hidden):
            yield node
    for key in sorted(node.args, key=_textual):
        if key in ("with_", "hint"):  # a hint names aliases, which stay as they are
            continue
        value = node.args[key]
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expr):
                yield from _walk(child, hidden)


_TEXT_ORDER = {
    key: rank
    for rank, key in enumerate(
        ("this", "expressions", "expression", "from_", "joins", "laterals", "where", "group", "having", "qualify")
    )
}


def _textual(key: str) -> int:
    return _TEXT_ORDER.get(key, len(_TEXT_ORDER))


def describe_relation(table: exp.Table, text: str | None) -> RelationRef:
    """What the caller may know of one table node."""
    place = _place(table, text)
    if table.args.get("db") or table.args.get("catalog"):
        written = ".".join(part.name for part in table.parts)
        raise DefinitionError(
            "QUALIFIED_NAME",
            f"The name {written} has a qualifier, and all objects of a home share one namespace.",
            hint=f"Write {table.name}, or `{written}` in backquotes if the dots are part of the name.",
            place=place,
        )
    as_of = None
    for suffix in table.args.get("suffixes") or ():
        if isinstance(suffix, nodes.AsOfTime):
            as_of = AsOf(time=int(suffix.name))
        elif isinstance(suffix, nodes.AsOfSnapshot):
            as_of = AsOf(snapshot=int(suffix.name))
    return RelationRef(
        name=table.name,
        kind=_KINDS.get(str(table.args.get("changes_of")), "relation"),
        old=table.args.get("changes_of") == nodes.CHANGES_AND_OLD,
        as_of=as_of,
        part_timestamp=any(table is found for found in tables_with_part_timestamp(table.root())),
        window=window_of(table.args.get("suffixes") or (), place),
        parts=parts_of(table.args.get("suffixes") or (), place),
        sync=sync_of(table.args.get("suffixes") or (), place),
        place=place,
    )


def _place(table: exp.Table, text: str | None) -> Place | None:
    start = table.this.meta.get("start") if text is not None else None
    return None if text is None or start is None else place_at(text, start, len(table.name))


def direct_tables(select: exp.Select) -> list[exp.Table]:
    """The tables in a SELECT's own FROM and joins, not those of its subqueries."""
    found: list[exp.Table] = []
    from_ = select.args.get("from_")
    for holder in [from_, *(select.args.get("joins") or [])]:
        if holder is not None:
            _collect_tables(holder.this, found)
    return found


def _collect_tables(node: exp.Expr | None, found: list[exp.Table]) -> None:
    if isinstance(node, exp.Table):
        found.append(node)
    elif isinstance(node, exp.Paren) or (isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)):
        _collect_tables(node.this, found)
    if node is not None:
        for join in node.args.get("joins") or []:
            _collect_tables(join.this, found)


def is_part_timestamp(node: object) -> bool:
    return isinstance(node, exp.Column) and node.name.upper() == PART_TIMESTAMP


def tables_with_part_timestamp(tree: exp.Expr) -> list[exp.Table]:
    """The tables whose part timestamp some expression of their own SELECT mentions."""
    shown: list[exp.Table] = []
    named = set(map(id, find_relations(tree)))
    for column in tree.find_all(exp.Column):
        if not is_part_timestamp(column):
            continue
        select = column.find_ancestor(exp.Select)
        while select is not None:
            tables = [table for table in direct_tables(select) if id(table) in named]
            if column.table:
                tables = [table for table in tables if table.alias_or_name.lower() == column.table.lower()]
            elif len(tables) > 1:
                raise LanguageError(
                    "AMBIGUOUS_PART_TIMESTAMP",
                    "PART_TIMESTAMP could belong to more than one relation of this FROM.",
                    hint=f"Write for example {tables[0].alias_or_name}.PART_TIMESTAMP.",
                )
            shown += [table for table in tables if not any(table is seen for seen in shown)]
            if tables:
                break
            # Not a relation of this SELECT: a correlated subquery may mean the one around it.
            select = select.find_ancestor(exp.Select)
    return shown
