"""When a query that reads the clock can change though nothing arrives: the times its comparisons with Now turn over.

`Now - 5 < R.TS` holds until the clock is at `R.TS + 5`. Any comparison that can be solved for Now, with columns of one
relation on the other side, turns over once for each row, at a time that the row tells; between two such times no use
of the comparison, in WHERE, CASE or anywhere else, can change. A use of Now that cannot be solved *floats*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.algebra.kinds import Fields, Kinds
from headrace.algebra.seconds import COMPARISONS
from headrace.language import Query, nodes
from headrace.language.dialect import headrace_sql


@dataclass(frozen=True)
class Crossing:
    """Comparisons of Now with `text`, microseconds computed from a row of the `relation`-th relation.

    They turn over when the clock reaches that time (`at`), and right after it (`after`).
    """

    relation: int
    text: str
    at: bool
    after: bool
    tree: exp.Expr = field(default_factory=exp.Null, compare=False, repr=False)


@dataclass(frozen=True)
class ClockReads:
    """Every use of Now in a query: crossings, and whether there are others."""

    crossings: tuple[Crossing, ...] = ()
    floats: bool = False


def clock_reads(query: Query, fields: Sequence[Fields]) -> ClockReads:
    """How `query`, in which no number stands for a time any more, depends on Now."""
    if query.tree.find(nodes.Now) is None:
        return ClockReads()
    tree = query.tree.copy()
    found = crossings_of(tree, Kinds(tree, fields))
    return ClockReads(floats=True) if found is None else ClockReads(tuple(found))


def crossings_of(tree: exp.Expr, kinds: Kinds) -> list[Crossing] | None:
    """All comparisons with Now in a tree, each once; None when Now is used otherwise too."""
    found: dict[Crossing, None] = {}
    for now in tree.find_all(nodes.Now):
        crossings = _crossings(now, kinds)
        if crossings is None:
            return None
        found |= dict.fromkeys(crossings)
    return list(found)


def _crossings(now: nodes.Now, kinds: Kinds) -> list[Crossing] | None:
    node: exp.Expr | None = now
    while isinstance(node, nodes.Now | exp.Add | exp.Sub | exp.Paren):
        node = node.parent
    if isinstance(node, exp.Between):
        pairs = [(exp.GTE, node.this, node.args["low"]), (exp.LTE, node.this, node.args["high"])]
    elif isinstance(node, COMPARISONS):
        pairs = [(type(node), node.this, node.expression)]
    else:
        return None
    found = []
    for comparison, left, right in pairs:
        if left.find(nodes.Now) is None and right.find(nodes.Now) is None:
            continue
        crossing = _solved(comparison, left, right, kinds)
        if crossing is None:
            return None
        found.append(crossing)
    return found


def _solved(comparison: type[exp.Expr], left: exp.Expr, right: exp.Expr, kinds: Kinds) -> Crossing | None:
    terms: list[tuple[int, exp.Expr]] = []
    if not (_linear(left, 1, terms) and _linear(right, -1, terms)):
        return None
    weight = sum(sign for sign, term in terms if isinstance(term, nodes.Now))
    if weight not in (1, -1):
        return None
    rest = [(-sign * weight, term) for sign, term in terms if not isinstance(term, nodes.Now)]
    times = [sign for sign, term in rest if kinds.of(term) == "time"]
    if times != [1] or any(kinds.of(term) not in ("time", "length") for _, term in rest):
        return None
    columns = [column for _, term in rest for column in term.find_all(exp.Column)]
    relations = {kinds.relation_of(column) for column in columns}
    if len(relations) != 1 or None in relations or any(term.find(exp.AggFunc, exp.Select) for _, term in rest):
        return None
    (relation,) = relations
    before, after = (exp.GT, exp.LTE) if weight == 1 else (exp.LT, exp.GTE)
    both = comparison not in (exp.GT, exp.LTE, exp.LT, exp.GTE)
    turns_after = comparison in (before, after)
    total = _total(rest, kinds)
    return Crossing(int(relation or 0), headrace_sql(total), both or not turns_after, both or turns_after, total)


def _linear(node: exp.Expr, sign: int, terms: list[tuple[int, exp.Expr]]) -> bool:
    """Take a sum apart; False if Now stands somewhere else than among its terms."""
    if isinstance(node, exp.Paren):
        return _linear(node.this, sign, terms)
    if isinstance(node, exp.Add):
        return _linear(node.this, sign, terms) and _linear(node.expression, sign, terms)
    if isinstance(node, exp.Sub):
        return _linear(node.this, sign, terms) and _linear(node.expression, -sign, terms)
    terms.append((sign, node))
    return isinstance(node, nodes.Now) or node.find(nodes.Now) is None


def _total(terms: Sequence[tuple[int, exp.Expr]], kinds: Kinds) -> exp.Expr:
    """The sum of a time and some lengths, in microseconds, over plain column names."""
    total = next(term.copy() for _, term in terms if kinds.of(term) == "time")
    for sign, term in terms:
        if kinds.of(term) == "length":
            operator = exp.Add if sign == 1 else exp.Sub
            total = operator(this=total, expression=exp.paren(term.copy(), copy=False))
    for column in list(total.find_all(exp.Column)):
        column.replace(exp.column(exp.to_identifier(column.name, quoted=True)))
    if isinstance(total, exp.Column):
        total = exp.column(exp.to_identifier(total.name, quoted=True))
    cast = exp.cast(total, exp.DType.TIMESTAMPTZ)
    return exp.Anonymous(this="unix_micros", expressions=[cast])
