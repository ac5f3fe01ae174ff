"""When a row passes a condition on Now: the condition itself, and the times at which it can turn over for that row.

`Now - 5 < at AND at <= Now` is true from `at` to `at + 5`. Whatever a condition is made of, as long as each of its
comparisons with Now can be solved for Now over columns of one relation (`clock_reads`), it can only turn over at the
times the comparisons tell. So a row's coming and going is found by asking the condition at those times and just before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.clock_reads import Crossing, crossings_of
from headrace.algebra.expressions import all_of, conjuncts, substitute
from headrace.algebra.kinds import Kind, Kinds, kind_of_type
from headrace.algebra.nodes import Filter, Node, Project, Scan
from headrace.algebra.trees import definitions, types_of, with_children
from headrace.language import nodes
from headrace.language.dialect import headrace_sql

#: Stands in a life's text where the time is to be put.
NOW = "__now__"

_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


class NoLife(Exception):
    """When a condition on Now turns over cannot be told; the message says why."""


@dataclass(frozen=True)
class Life:
    """A condition on Now over the columns that a relation stores.

    `condition` is SQL with `NOW` for the time, `turns` are SQL for the microseconds at which it can turn over. Where
    each of these is the row's own time and so much more, `distances` tells how much.
    """

    condition: str
    turns: tuple[str, ...]
    distances: tuple[int, ...] | None = None

    def at(self, micros: str) -> str:
        """Whether the condition is true at a time, never NULL."""
        return f"coalesce({self.condition.replace(NOW, f'timestamp_micros({micros})')}, false)"


@dataclass(frozen=True)
class Asking:
    """Conditions on Now, over the columns of a scan whose rows they ask."""

    scan: Scan
    conditions: tuple[exp.Expr, ...]


class _OfColumns(Kinds):
    """The kinds of expressions over columns whose types are known, all of one relation."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._types = types

    def relation_of(self, column: exp.Column) -> int | None:
        return 0 if column.name in self._types else None

    def _column(self, column: exp.Column) -> Kind | None:
        return kind_of_type(self._types.get(column.name, ""))


def lives_of(root: Node) -> dict[int, Asking]:
    """What the filters of a tree (by their `id`) ask of Now.

    Raises `NoLife` where something else asks for Now.
    """
    found: dict[int, Asking] = {}
    for node in root.walk():
        if not isinstance(node, Filter):
            if any(item.find(nodes.Now) is not None for item in _expressions(node)):
                raise NoLife("Now is compared with more than the rows of one relation, or shown")
            continue
        asking = [part for part in conjuncts(node.predicate) if part.find(nodes.Now) is not None]
        if asking:
            found[id(node)] = _down(node.child, asking)
    return found


def without_now(node: Filter) -> Node:
    """The filter without its conditions on Now; only what it reads if it has no others."""
    kept = all_of([part for part in conjuncts(node.predicate) if part.find(nodes.Now) is None])
    return node.child if kept is None else Filter(node.child, kept)


def over_scan(node: Node, scan: Scan) -> Node:
    """A chain of filters and projections over another scan."""
    if isinstance(node, Scan):
        return scan
    return with_children(node, [over_scan(node.children[0], scan)])


def life_of(asking: Asking, times: frozenset[str]) -> Life:
    """The life that conditions give a scan's rows; `times` are columns that hold a row's own time."""
    scan = asking.scan
    kinds = _OfColumns(types_of(scan))
    whole: exp.Expr = exp.Paren(this=all_of(asking.conditions))
    crossings = crossings_of(whole, kinds)
    if crossings is None:
        raise NoLife("a comparison with Now cannot be solved for it")
    if _has_months(whole, types_of(scan)):
        raise NoLife("months are of different lengths, so nobody can say when a comparison over them turns over")
    sources = dict(zip(scan.names, scan.sources, strict=True))
    for now in list(whole.find_all(nodes.Now)):
        now.replace(exp.column(exp.to_identifier(NOW)))
    turns: dict[str, None] = {}
    for crossing in crossings:
        text = _text(crossing, sources)
        turns |= dict.fromkeys([text] * crossing.at + [f"({text} + 1)"] * crossing.after)
    own = {name for name, source in sources.items() if source in times}
    return Life(headrace_sql(_with_sources(whole, sources)), tuple(turns), _distances(crossings, own))


def _down(node: Node, conditions: Sequence[exp.Expr]) -> Asking:
    match node:
        case Scan():
            return Asking(node, tuple(conditions))
        case Filter():
            return _down(node.child, conditions)
        case Project():
            items = definitions(node)
            return _down(node.child, [substitute(part, items) for part in conditions])
    raise NoLife("Now is compared with what is computed from several rows")


def _expressions(node: Node) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for value in vars(node).values():
        for item in value if isinstance(value, tuple) else (value,):
            inner = getattr(item, "expression", item)
            found += [inner] if isinstance(inner, exp.Expr) else []
    return found


def _has_months(tree: exp.Expr, types: Mapping[str, str]) -> bool:
    lengths = [item for item in tree.find_all(exp.Interval) if _micros(item) is None]
    columns = [item for item in tree.find_all(exp.Column) if "month" in types.get(item.name, "").lower()]
    years = [item for item in columns if "interval" in types[item.name].lower()]
    return bool(lengths or years)


def _micros(length: exp.Interval) -> int | None:
    """How long an interval that is written out is."""
    unit = str(length.args.get("unit") or "").upper().removesuffix("S")
    value = length.this
    if unit not in _MICROS or not isinstance(value, exp.Literal):
        return None
    try:
        return round(float(value.name) * _MICROS[unit])
    except ValueError:
        return None


def _with_sources(tree: exp.Expr, sources: Mapping[str, str]) -> exp.Expr:
    made = tree.copy()
    for column in list(made.find_all(exp.Column)):
        if column.name in sources:
            column.set("this", exp.to_identifier(sources[column.name], quoted=True))
    return made


def _text(crossing: Crossing, sources: Mapping[str, str]) -> str:
    return headrace_sql(_with_sources(crossing.tree, sources))


def _distances(crossings: list[Crossing], own: set[str]) -> tuple[int, ...] | None:
    """How long after a row's own time it turns over, if that is all that counts."""
    found = []
    for crossing in crossings:
        distance = _distance(crossing.tree, own)
        if distance is None:
            return None
        found += [distance] * crossing.at + [distance + 1] * crossing.after
    return tuple(found)


def _distance(tree: exp.Expr, own: set[str]) -> int | None:
    """`own time + constant` as that constant."""
    match tree:
        case exp.Anonymous() | exp.Cast() | exp.Paren():
            return _distance(tree.expressions[0] if isinstance(tree, exp.Anonymous) else tree.this, own)
        case exp.Column():
            return 0 if tree.name in own else None
        case exp.Add() | exp.Sub():
            before = _distance(tree.this, own)
            length = tree.expression.unnest()
            more = _micros(length) if isinstance(length, exp.Interval) else None
            if before is None or more is None:
                return None
            return before + more if isinstance(tree, exp.Add) else before - more
    return None
