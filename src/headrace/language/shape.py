"""What key inference needs to know of a query: plain data about one SELECT, no tree."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.language.dialect import headrace_sql
from headrace.language.relations import find_relations


@dataclass(frozen=True)
class Source:
    """One relation in FROM. `relation` is its index in `Query.relations()`, None for a subquery, CTE or function."""

    relation: int | None
    alias: str
    join: str  # FROM, INNER, CROSS, LEFT, RIGHT, FULL, LEFT SEMI, LEFT ANTI, NATURAL ..., LATERAL


@dataclass(frozen=True)
class Projection:
    """One item of the SELECT list. `column` is (qualifier, name) where the item is a bare column."""

    output_name: str | None
    column: tuple[str | None, str] | None
    is_star: bool
    expression_text: str


@dataclass(frozen=True)
class QueryShape:
    """A single SELECT. `group_by` is None without GROUP BY, also for a global aggregate, where `aggregates` is True."""

    sources: tuple[Source, ...]
    distinct: bool
    group_by: tuple[str, ...] | None
    projections: tuple[Projection, ...]
    aggregates: bool = False
    grouping_sets: bool = False  # ROLLUP, CUBE, GROUPING SETS: several groupings, with NULL for what each lacks
    generates: bool = False  # LATERAL VIEW, UNNEST or a generator in SELECT: one input row may give many


def find_shape(tree: exp.Expr) -> QueryShape | None:
    """The shape of a query that is one SELECT, perhaps in parentheses."""
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return None
    numbers = {id(table): index for index, table in enumerate(find_relations(tree))}
    sources: list[Source] = []
    from_ = tree.args.get("from_")
    if from_ is not None:
        _add_sources(from_.this, "FROM", numbers, sources)
    for join in tree.args.get("joins") or []:
        _add_sources(join.this, _join_kind(join), numbers, sources)
    sources += [Source(None, lateral.alias_or_name, "LATERAL") for lateral in tree.args.get("laterals") or []]
    group = tree.args.get("group")
    return QueryShape(
        sources=tuple(sources),
        distinct=tree.args.get("distinct") is not None,
        group_by=None if group is None else _group_texts(group, tree),
        projections=tuple(_projection(item) for item in tree.expressions),
        aggregates=group is not None or _has_aggregate(tree),
        grouping_sets=group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None,
        generates=bool(tree.args.get("laterals"))
        or any(item.find(exp.Explode, exp.Posexplode, exp.Inline) is not None for item in tree.expressions),
    )


def _add_sources(node: exp.Expr, join: str, numbers: dict[int, int], sources: list[Source]) -> None:
    sources.append(Source(numbers.get(id(node)), node.alias_or_name, join))
    for nested in node.args.get("joins") or []:
        _add_sources(nested.this, _join_kind(nested), numbers, sources)


def _join_kind(join: exp.Join) -> str:
    words = [str(join.args.get(key) or "").upper() for key in ("method", "side", "kind")]
    kept = [word for word in words if word and word != "OUTER"]
    if kept == ["NATURAL"]:
        kept.append("INNER")
    if kept:
        return " ".join(kept)
    return "INNER" if join.args.get("on") or join.args.get("using") else "CROSS"


def _group_texts(group: exp.Group, select: exp.Select) -> tuple[str, ...]:
    """The grouping expressions; an ordinal such as `GROUP BY 1` is replaced by the item it stands for."""
    if group.args.get("all"):
        return tuple(headrace_sql(item.unalias()) for item in select.expressions if item.find(exp.AggFunc) is None)
    texts: list[str] = []
    for item in group.expressions:
        if isinstance(item, exp.Literal) and not item.is_string and 0 < int(item.name) <= len(select.expressions):
            item = select.expressions[int(item.name) - 1].unalias()
        texts.append(headrace_sql(item))
    for key in ("rollup", "cube", "grouping_sets"):
        texts += [headrace_sql(item) for item in group.args.get(key) or [] if isinstance(item, exp.Expr)]
    return tuple(texts)


def _has_aggregate(select: exp.Select) -> bool:
    if select.args.get("having") is not None:
        return True
    for item in select.expressions:
        for call in item.find_all(exp.AggFunc):
            if call.find_ancestor(exp.Select) is select and not isinstance(call.parent, exp.Window):
                return True
    return False


def _projection(item: exp.Expr) -> Projection:
    inner = item.unalias()
    if inner.is_star:
        qualifier = inner.table if isinstance(inner, exp.Column) else None
        return Projection(None, (qualifier, "*") if qualifier else None, True, headrace_sql(item))
    column: tuple[str | None, str] | None = None
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Identifier):
        column = (inner.table or None, inner.name)
    return Projection(item.alias_or_name or None, column, False, headrace_sql(inner))
