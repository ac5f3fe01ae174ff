"""Aggregating before rows are multiplied: rows that go into many windows are put together by part first.

A query for many parts at once has each row as often as there are windows it lies in. Where the first thing it does with
them is to group them, groups of each part of what it reads are made once, and only these are multiplied and put
together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headrace.algebra.core import primitive
from headrace.algebra.expressions import columns_of, is_ref
from headrace.algebra.nodes import Aggregate, Filter, Node, Project, Scan
from headrace.algebra.trees import parents
from headrace.maintenance.kernels.plain import group

_MERGED = {
    "count_rows": "sum", "count": "sum", "sum": "sum", "min": "min", "max": "max", "bool_and": "bool_and",
    "bool_or": "bool_or",
}  # fmt: skip


@dataclass(frozen=True)
class Panes:
    """The aggregate that a scan's rows go into, the key that tells the part, and how groups are put together."""

    aggregate: Aggregate
    part: str
    calls: tuple[tuple[str, str, str], ...]

    def merging(self, multiply: Callable[[pa.Table, str], pa.Table]) -> Callable[[pa.Table], pa.Table]:
        """What becomes of the groups of each part: `multiply` puts those into windows, by the column of the part."""

        def merged(groups: pa.Table) -> pa.Table:
            found = group(multiply(groups, self.part), self.aggregate.keys, self.calls)
            kinds = [groups.schema.field(name).type for name in self.aggregate.names]
            columns = [found.column(n).cast(kind) for n, kind in zip(self.aggregate.names, kinds, strict=True)]
            return pa.Table.from_arrays(columns, names=list(self.aggregate.names))

        return merged


def panes(root: Node, scan: Scan, part: str) -> Panes | None:
    """How the rows of a scan are put together first, by its column `part`; None where they are not grouped at once."""
    if any(count > 1 for count in parents(root).values()):
        return None
    above = {child: node for node in root.walk() for child in node.children}
    name = scan.columns[scan.sources.index(part)].name
    node: Node | None = above.get(scan)
    while isinstance(node, Filter | Project):
        if isinstance(node, Filter):
            if name in columns_of(node.predicate):
                return None
        else:
            passed = [c for c, item in zip(node.names, node.items, strict=True) if name in columns_of(item)]
            items = [item for item in node.items if name in columns_of(item)]
            if len(passed) != 1 or not is_ref(items[0]):
                return None
            name = passed[0]
        node = above.get(node)
    if not isinstance(node, Aggregate) or name not in node.keys:
        return None
    types = {column.name: column.type for column in node.child.columns}
    calls = []
    for call in node.calls:
        known = primitive(call, types)
        if known is None or known.argument == name:
            return None
        calls.append((call.column.name, _MERGED[known.function], call.column.name))
    return Panes(node, name, tuple(calls))
