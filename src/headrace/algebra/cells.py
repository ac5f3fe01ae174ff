"""Band joins as joins on equal columns: both sides are cut into cells as wide as the band.

With ``low <= a - b <= high`` and cells of width ``high - low``, a row of one side lies in one cell, and all its
partners have a copy there when each row of the other side is copied into the cells of ``b + low`` and of ``b + high``.
A pair meets in one cell only, so it is found once. The condition itself is asked again above the join, so NULLs,
bounds and whatever else it says mean what they did.

It holds for inner joins on a condition without any equality, which in core form (`core`) are all joins of that kind:
outer, semi and anti ones are made of the pairs of an inner one. State: both sides, the copied one twice.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.algebra.bands import Band, Unit, band_of
from headrace.algebra.core import Names
from headrace.algebra.expressions import cast, ref
from headrace.algebra.join_order import Rates
from headrace.algebra.nodes import Cells, Column, Constant, Equal, Filter, Generate, Join, Node, Project, Scan, Union
from headrace.algebra.trees import narrow, types_of, with_children

#: Cells of one unit would number every value, and the numbers next to the last BIGINT would not fit one.
_NARROWEST = 2
#: Wider cells hold no less, and EXPLAIN tells 10 seconds rather than 9.999998 where bounds are strict.
_MILLISECOND = 1_000


def join_by_cells(root: Node, rates: Rates | None = None, *, in_utc: bool = True) -> Node:
    """The tree, in core form, with band joins cut into cells. With `rates`, the side that changes less is copied.

    Only `in_utc` are times a constant distance apart: elsewhere a day later may be 23 hours later.
    """
    names = Names(root)
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            made = with_children(node, [visit(child) for child in node.children])
            if isinstance(made, Join) and made.kind == "inner" and not made.equal and made.residual is not None:
                band = band_of(made.residual, types_of(made.left), types_of(made.right))
                if band is not None and (in_utc or band.unit.kind != "time"):
                    made = _cut(made, made.residual, band, names, rates)
            done[id(node)] = made
        return done[id(node)]

    return visit(root)


def _cut(join: Join, condition: exp.Expr, band: Band, names: Names, rates: Rates | None) -> Node:
    # Nothing is in a band that ends before it begins; the condition above says so to every pair.
    high = max(band.low, band.high)
    width = max(_NARROWEST, high - band.low)
    if band.unit.kind == "time":
        width = -(-width // _MILLISECOND) * _MILLISECOND
    kinds = {**types_of(join.left), **types_of(join.right)}
    keys = Column(names.fresh("cell"), "BIGINT"), Column(names.fresh("cell"), "BIGINT")
    counts = [_count(name, kinds[name], band.unit) for name in (band.left, band.right)]
    if _copies_left(join, rates):
        left = _copied(join.left, keys[0], counts[0], -high, -band.low, width)
        right: Node = _placed(join.right, keys[1], counts[1], width)
    else:
        left = _placed(join.left, keys[0], counts[0], width)
        right = _copied(join.right, keys[1], counts[1], band.low, high, width)
    cells = Cells(band.left, band.right, band.unit.words(width))
    equal = (Equal(keys[0].name, keys[1].name),)
    joined = replace(join, left=left, right=right, equal=equal, residual=None, cells=cells)
    return narrow(Filter(joined, condition), join.names)


def _copies_left(join: Join, rates: Rates | None) -> bool:
    """Which side is copied: one that is copied where it is read, else the one that changes less, else the right."""
    rowwise = _row_by_row(join.left), _row_by_row(join.right)
    if rowwise[0] != rowwise[1]:
        return rowwise[0]  # above an operator a generator is one more job
    return rates is not None and rates.of(join.left) < rates.of(join.right)


def _row_by_row(node: Node) -> bool:
    if isinstance(node, Filter | Project | Generate | Union):
        return all(_row_by_row(child) for child in node.children)
    return isinstance(node, Scan | Constant)


def _placed(side: Node, key: Column, count: exp.Expr, width: int) -> Node:
    """Each row with the cell that it lies in."""
    items = (*(ref(name) for name in side.names), _cell(count, 0, width))
    return Project(side, (*side.columns, key), items)


def _copied(side: Node, key: Column, count: exp.Expr, low: int, high: int, width: int) -> Node:
    """Each row once for every cell in which a partner may lie: two at most."""
    cells = exp.Anonymous(this="sequence", expressions=[_cell(count, low, width), _cell(count, high, width)])
    return Generate(side, (*side.columns, key), exp.Anonymous(this="explode", expressions=[cells]), (key,))


def _count(name: str, kind: str, unit: Unit) -> exp.Expr:
    """A column in whole units, as a BIGINT."""
    column: exp.Expr = ref(name)
    if unit.kind == "day":
        column = exp.Anonymous(this="unix_date", expressions=[column])
    elif unit.kind == "time":
        # In UTC, a time without a zone keeps its digits.
        moment = column if kind.lower() == "timestamp" else cast(column, "timestamp")
        column = exp.Anonymous(this="unix_micros", expressions=[moment])
    elif unit.scale:
        column = exp.Mul(this=column, expression=exp.Literal.number(10**unit.scale))
    return cast(column, "bigint")


def _cell(count: exp.Expr, offset: int, width: int) -> exp.Expr:
    """The number of the cell of ``count + offset``, without ever adding the two: the sum might not fit a BIGINT.

    DIV and % cut towards zero, so what is below zero belongs one cell lower.
    """
    cells, rest = divmod(offset, width)
    whole = exp.IntDiv(this=count.copy(), expression=_number(width))
    over = exp.Mod(this=count.copy(), expression=_number(width))
    below = exp.If(this=exp.LT(this=over, expression=_number(-rest)), true=_number(cells - 1))
    ifs = [below]
    if rest:
        ifs.append(exp.If(this=exp.GTE(this=over.copy(), expression=_number(width - rest)), true=_number(cells + 1)))
    return exp.Add(this=exp.Paren(this=whole), expression=exp.Case(ifs=ifs, default=_number(cells)))


def _number(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal
