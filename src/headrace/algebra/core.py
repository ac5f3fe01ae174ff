"""A query's tree in the few shapes that maintenance knows how to change.

- A right join is a left join turned round.
- An outer, semi or anti join with a condition beyond equality asks, for each row, whether *any* pair passes it. The
  pairs are an inner join and a filter; whether a row has one is a semi or anti join on the whole row.
- AVG over exact types is a sum and a count, divided above; FILTER is a CASE below.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.algebra.nodes import (
    Aggregate,
    Call,
    Column,
    Constant,
    Equal,
    Filter,
    Join,
    Node,
    Over,
    Project,
    TopK,
    Union,
)
from headrace.algebra.trees import with_children

_INTEGERS = ("tinyint", "smallint", "int", "integer", "bigint", "byte", "short", "long")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)", re.IGNORECASE)


@dataclass(frozen=True)
class Primitive:
    """An aggregate the kernels know: `function` over one column, or over rows."""

    function: str
    argument: str | None


class Names:
    """New column names that the tree does not have yet."""

    def __init__(self, root: Node) -> None:
        self._taken = {name.lower() for node in root.walk() for name in node.names}
        self._numbers: Iterator[int] = itertools.count()

    def fresh(self, hint: str) -> str:
        while (name := f"{hint}_{next(self._numbers)}").lower() in self._taken:
            pass
        self._taken.add(name.lower())
        return name


def to_core(root: Node) -> Node:
    """The same relation in core form. A node that two others read is still one node."""
    names = Names(root)
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = _rewritten(with_children(node, [visit(child) for child in node.children]), names)
        return done[id(node)]

    return visit(root)


def _rewritten(node: Node, names: Names) -> Node:
    match node:
        case Join(kind="right"):
            return _rewritten(replace(node, kind="left", left=node.right, right=node.left, equal=_turned(node)), names)
        case Join(kind="inner") if node.residual is not None and (node.equal or one_row(node.left, node.right)):
            return Filter(replace(node, residual=None), node.residual)
        case Join(kind="semi" | "anti" | "left" | "full") if node.residual is not None or not node.equal:
            return _by_pairs(node, names)
        case Aggregate():
            return _primitive_calls(node, names)
    return node


def _turned(join: Join) -> tuple[Equal, ...]:
    return tuple(Equal(pair.right, pair.left, pair.null_safe) for pair in join.equal)


def one_row(*nodes: Node) -> bool:
    """Whether one of the nodes has at most one row, so that pairing it with everything is cheap."""
    return any(_at_most_one(node) for node in nodes)


def _at_most_one(node: Node) -> bool:
    match node:
        case Aggregate(keys=()):
            return True
        case TopK(limit=1) | TopK(limit=0):
            return True
        case Filter() | Project() | TopK() | Over():
            return _at_most_one(node.child)
        case Constant():
            return node.text.upper().count("UNION ALL") == 0 and "VALUES" not in node.text.upper()
        case Join(kind="inner" | "left"):
            return _at_most_one(node.left) and _at_most_one(node.right)
        case Join(kind="semi" | "anti"):
            return _at_most_one(node.left)
    return False


def _by_pairs(join: Join, names: Names) -> Node:
    """Semi, anti and outer joins on any condition, by the pairs that pass it."""
    pairs: Node = _rewritten(Join("inner", join.left, join.right, join.equal, join.residual), names)
    if join.kind in ("semi", "anti"):
        return _with_pair(join.left, pairs, join.kind, names)
    lonely_left = _widened(_with_pair(join.left, pairs, "anti", names), join, names)
    parts = [_positional(pairs, join.columns), lonely_left]
    if join.kind == "full":
        parts.append(_widened(_with_pair(join.right, pairs, "anti", names), join, names))
    # Each input has its own names for the columns; the union gives them the join's.
    return Union(tuple(parts), join.columns)


def _with_pair(rows: Node, pairs: Node, kind: str, names: Names) -> Node:
    """The rows that have (semi) or have not (anti) a pair, compared as whole rows."""
    renamed = [Column(names.fresh("pair"), column.type) for column in rows.columns]
    marks = Project(pairs, tuple(renamed), tuple(column_of(column.name) for column in rows.columns))
    equal = tuple(Equal(old.name, new.name, True) for old, new in zip(rows.columns, renamed, strict=True))
    return Join("semi" if kind == "semi" else "anti", rows, marks, equal)


def _widened(rows: Node, join: Join, names: Names) -> Node:
    """Rows of one side, with NULLs for the other's columns."""
    known = set(rows.names)
    items = [
        column_of(column.name) if column.name in known else cast(exp.Null(), column.type) for column in join.columns
    ]
    return Project(rows, tuple(Column(names.fresh("wide"), column.type) for column in join.columns), tuple(items))


def _positional(node: Node, columns: tuple[Column, ...]) -> Node:
    if node.names == tuple(column.name for column in columns):
        return node
    return Project(node, columns, tuple(column_of(column.name) for column in columns))


def column_of(name: str) -> exp.Expr:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def cast(value: exp.Expr, type_name: str) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build(type_name, dialect="spark"))


def is_exact(type_name: str) -> bool:
    """Whether sums of the type can be taken back without any error."""
    return type_name.lower() in _INTEGERS or _DECIMAL.fullmatch(type_name) is not None


def is_simple(type_name: str) -> bool:
    """Whether values of the type have an order the kernels know."""
    return not type_name.lower().startswith(("array", "map", "struct", "variant", "interval"))


def primitive(call: Call, types: dict[str, str]) -> Primitive | None:
    """The kernel function a call is, or None when only the engine knows it."""
    match call.expression:
        case exp.Count(this=exp.Star()) | exp.Count(this=exp.Literal()):
            return None if call.expression.expressions else Primitive("count_rows", None)
        case exp.Count(this=exp.Column() as argument) if not call.expression.expressions:
            return Primitive("count", argument.name)
        case exp.Sum(this=exp.Column() as argument) if is_exact(types[argument.name]):
            return Primitive("sum", argument.name)
        case exp.Min(this=exp.Column() as argument) if is_simple(types[argument.name]) and not _more(call):
            return Primitive("min", argument.name)
        case exp.Max(this=exp.Column() as argument) if is_simple(types[argument.name]) and not _more(call):
            return Primitive("max", argument.name)
        case exp.LogicalAnd(this=exp.Column() as argument):
            return Primitive("bool_and", argument.name)
        case exp.LogicalOr(this=exp.Column() as argument):
            return Primitive("bool_or", argument.name)
    return None


def _more(call: Call) -> bool:
    return bool(call.expression.expressions)


def _primitive_calls(node: Aggregate, names: Names) -> Node:
    """AVG as sum and count, FILTER as CASE, where that makes every call a primitive; otherwise the node as it is."""
    types = {column.name: column.type for column in node.child.columns}
    below: list[tuple[Column, exp.Expr]] = []
    calls: list[Call] = []
    above: list[exp.Expr] = []
    for call in node.calls:
        plain = _unfiltered(call, types, names, below)
        if plain is None:
            return node
        parts = _average(plain, types, names, below) or ([plain], column_of(plain.column.name))
        if any(primitive(part, types) is None for part in parts[0]):
            return node
        calls += parts[0]
        above.append(parts[1])
    if not below and len(calls) == len(node.calls) and all(isinstance(item, exp.Column) for item in above):
        return node
    child = node.child
    if below:
        kept = tuple(column_of(name) for name in child.names)
        columns, items = zip(*below, strict=True)
        child = Project(child, child.columns + tuple(columns), kept + tuple(items))
    made = replace(node, child=child, calls=tuple(calls))
    keys = tuple(column_of(name) for name in node.keys)
    return Project(made, node.columns, keys + tuple(above))


def _unfiltered(call: Call, types: dict[str, str], names: Names, below: list[tuple[Column, exp.Expr]]) -> Call | None:
    """The call with its FILTER turned into an argument that is NULL for other rows; None where that cannot be said."""
    expression, condition = call.expression, None
    if isinstance(expression, exp.Filter):
        condition = expression.expression.this
        expression = expression.this
    if isinstance(expression, exp.CountIf):
        condition = expression.this if condition is None else exp.and_(condition, expression.this)
        expression = exp.Count(this=exp.Star())
    inner = expression.this
    if isinstance(inner, exp.Distinct):
        # Duplicates make no difference to the least and the greatest.
        if not isinstance(expression, exp.Min | exp.Max | exp.LogicalAnd | exp.LogicalOr) or len(inner.expressions) > 1:
            return None
        expression = type(expression)(this=inner.expressions[0])
        inner = expression.this
    if condition is None:
        return Call(call.column, expression)
    counts_rows = isinstance(expression, exp.Count) and not isinstance(inner, exp.Column)
    if not counts_rows and not isinstance(inner, exp.Column):
        return None
    kind = "int" if counts_rows else types[inner.name]
    value: exp.Expr = exp.Literal.number(1) if counts_rows else inner.copy()
    filtered = Column(names.fresh("kept"), kind)
    below.append((filtered, exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])))
    types[filtered.name] = kind
    return Call(call.column, type(expression)(this=column_of(filtered.name)))


def _average(
    call: Call, types: dict[str, str], names: Names, below: list[tuple[Column, exp.Expr]]
) -> tuple[list[Call], exp.Expr] | None:
    """AVG over an exact type: its two sums, and the quotient as Spark types and rounds it."""
    argument = call.expression.this
    if not isinstance(call.expression, exp.Avg) or not isinstance(argument, exp.Column):
        return None
    kind = types[argument.name]
    if not is_exact(kind):
        return None
    found = _DECIMAL.fullmatch(kind)
    added, total_type = argument.copy(), f"decimal({min(38, int(found[1]) + 10)},{found[2]})" if found else "bigint"
    if kind.lower() in ("bigint", "long"):
        # Spark averages these as floating-point numbers, so their sum may well not fit a BIGINT.
        wide = Column(names.fresh("wide"), "decimal(20,0)")
        below.append((wide, cast(argument.copy(), wide.type)))
        types[wide.name] = wide.type
        added, total_type = column_of(wide.name), "decimal(30,0)"
    total = Call(Column(names.fresh("total"), total_type), exp.Sum(this=added))
    count = Call(Column(names.fresh("count"), "bigint"), exp.Count(this=argument.copy()))
    divided: exp.Expr = column_of(total.column.name)
    by: exp.Expr = column_of(count.column.name)
    if found:
        by = cast(by, "decimal(20,0)")
    else:
        divided, by = cast(divided, "double"), cast(by, "double")
    # No row, no average: the quotient of nothing is NULL, not a division by zero.
    quotient = exp.Div(this=divided, expression=exp.Nullif(this=by, expression=exp.Literal.number(0)))
    return [total, count], cast(quotient, call.column.type)
