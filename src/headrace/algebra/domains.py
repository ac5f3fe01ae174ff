"""A correlated tree computed for a whole domain of outer values at once.

`over_domain` gives a tree whose rows are those of the subquery beside the outer values they belong to. Every operator
keeps the values of the domain apart: a join also joins on them, a group and a window also group by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.algebra.aggregates import empty_value
from headrace.algebra.expressions import case, equal, ref, rename
from headrace.algebra.joins import conditions_of, filtered, make_join
from headrace.algebra.nodes import (
    Aggregate,
    Call,
    Column,
    Filter,
    Generate,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    TopK,
    Union,
)
from headrace.algebra.not_bound import NotBound
from headrace.algebra.trees import free_columns, narrow, with_children
from headrace.algebra.typed import Typer
from headrace.algebra.windows import partition_also, row_number

Names = dict[str, str]


def over_domain(typer: Typer, outer: Node, node: Node, mentioned: Sequence[str]) -> tuple[Node, Names]:
    """The subquery's rows beside the outer values; and what each outer column is called there."""
    values = Aggregate(narrow(outer, mentioned), tuple(mentioned))

    def domain() -> tuple[Node, Names]:
        made = tuple(typer.fresh(name, typer.known[name]) for name in mentioned)
        renamed = Project(values, made, tuple(map(ref, mentioned)))
        return renamed, {old: new.name for old, new in zip(mentioned, made, strict=True)}

    return _Domain(typer, frozenset(mentioned), domain).dependent(node)


class _Domain:
    def __init__(self, typer: Typer, outer: frozenset[str], domain: Callable[[], tuple[Node, Names]]) -> None:
        self.typer = typer
        self.outer = outer
        self.domain = domain

    def dependent(self, node: Node) -> tuple[Node, Names]:
        if not free_columns(node) & self.outer:
            values, names = self.domain()
            return Join("inner", values, node, ()), names
        match node:
            case Filter():
                child, names = self.dependent(node.child)
                return Filter(child, rename(node.predicate, names)), names
            case Project():
                child, names = self.dependent(node.child)
                known = {column.name: column for column in child.columns}
                passed = tuple(known[name] for name in names.values())
                items = tuple(rename(item, names) for item in node.items) + tuple(ref(c.name) for c in passed)
                return Project(child, node.columns + passed, items), names
            case Generate():
                child, names = self.dependent(node.child)
                moved = replace(node, generator=rename(node.generator, names))
                return with_children(moved, [child]), names
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Over():
                child, names = self.dependent(node.child)
                return partition_also(node, child, list(names.values())), names
            case TopK():
                return self._top(node)
            case Union():
                return self._union(node)
            case SetOperation():
                return self._set_operation(node)
        raise NotBound(f"a correlated subquery over {type(node).__name__} has no operator")

    def _join(self, node: Join) -> tuple[Node, Names]:
        conditions = conditions_of(node)
        in_left = bool(free_columns(node.left) & self.outer)
        in_right = bool(free_columns(node.right) & self.outer)
        # The side whose rows are all kept must carry the domain; an inner join needs it on either.
        left_leads = node.kind != "right" and (node.kind != "inner" or in_left or not in_right)
        lead_left = left_leads or node.kind == "full"
        follow = (in_right if lead_left else in_left) or node.kind == "full"
        left, left_names = self.dependent(node.left) if lead_left or follow else (node.left, {})
        right, right_names = self.dependent(node.right) if not lead_left or follow else (node.right, {})
        names = left_names if lead_left else right_names
        conditions = [rename(part, names) for part in conditions]
        if left_names and right_names:
            conditions += [equal(ref(left_names[n]), ref(right_names[n]), null_safe=True) for n in sorted(self.outer)]
        joined: Node = make_join(self.typer, node.kind, left, right, conditions)
        if node.kind == "full":
            either = [
                exp.Coalesce(this=ref(left_names[n]), expressions=[ref(right_names[n])]) for n in sorted(self.outer)
            ]
            joined, found = self.typer.extend(joined, either, "outer")
            names = dict(zip(sorted(self.outer), found, strict=True))
        return joined, names

    def _aggregate(self, node: Aggregate) -> tuple[Node, Names]:
        child, names = self.dependent(node.child)
        renamed = [Call(call.column, rename(call.expression, names)) for call in node.calls]
        if not node.is_global:
            return Aggregate(child, (*node.keys, *names.values()), tuple(renamed)), names
        # Without GROUP BY there is a row for each outer value, matched or not.
        inner = [self.typer.fresh(call.column.name, call.column.type) for call in node.calls]
        calls = tuple(Call(new, call.expression) for new, call in zip(inner, renamed, strict=True))
        grouped: Node = Aggregate(child, tuple(names.values()), calls)
        grouped, (there,) = self.typer.extend(grouped, [exp.true()], "there")
        values, outer_names = self.domain()
        conditions = [equal(ref(outer_names[n]), ref(names[n]), null_safe=True) for n in sorted(self.outer)]
        joined = make_join(self.typer, "left", values, grouped, conditions)
        items = [case([(ref(there), ref(new.name))], empty_value(c)) for new, c in zip(inner, node.calls, strict=True)]
        made = tuple(call.column for call in node.calls)
        return Project(joined, (*made, *values.columns), (*items, *map(ref, values.names))), outer_names

    def _top(self, node: TopK) -> tuple[Node, Names]:
        child, names = self.dependent(node.child)
        over, number = row_number(self.typer, child, list(names.values()), node.order)
        bounds: list[exp.Expr] = [exp.GT(this=ref(number), expression=exp.Literal.number(node.offset))]
        if node.limit is not None:
            last = exp.Literal.number(node.offset + node.limit)
            bounds.append(exp.LTE(this=ref(number), expression=last))
        return narrow(filtered(over, bounds), child.names), names

    def _union(self, node: Union) -> tuple[Node, Names]:
        inputs = [self._aligned(child) for child in node.inputs]
        made, names = self._outer_columns()
        return Union(tuple(inputs), node.columns + made), names

    def _set_operation(self, node: SetOperation) -> tuple[Node, Names]:
        left, right = self._aligned(node.left), self._aligned(node.right)
        made, names = self._outer_columns()
        return SetOperation(node.kind, node.all, left, right, node.columns + made), names

    def _outer_columns(self) -> tuple[tuple[Column, ...], Names]:
        made = tuple(self.typer.fresh(name, self.typer.known[name]) for name in sorted(self.outer))
        return made, {old: new.name for old, new in zip(sorted(self.outer), made, strict=True)}

    def _aligned(self, child: Node) -> Node:
        moved, names = self.dependent(child)
        return narrow(moved, [*child.names, *(names[name] for name in sorted(self.outer))])
