"""A query's tree evaluated in this process, over tables: for results that are asked for as a whole.

What can be evaluated is what the kernels know: filters and projections that are surely the same here as on the engine
(`kernels.scalars`), joins on equal keys, exact aggregates, and unions. Any other tree is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.algebra.core import primitive
from headrace.algebra.nodes import Aggregate, Filter, Join, Node, Project, Scan, Union
from headrace.algebra.trees import all_nodes
from headrace.language.types import arrow_type
from headrace.maintenance.kernels.plain import group, join
from headrace.maintenance.kernels.scalars import NotHere, filtering, projecting

#: Gives a node's rows, from the rows of its children.
_Run = Callable[..., pa.Table]


@dataclass(frozen=True)
class Evaluation:
    """A tree that can be evaluated here. `scans` are its leaves: of each relation the columns that are read."""

    root: Node
    scans: tuple[Scan, ...]
    _runs: Mapping[Node, _Run]

    def over(
        self, tables: Mapping[Scan, pa.Table], after: Mapping[Node, Callable[[pa.Table], pa.Table]] | None = None
    ) -> pa.Table:
        """The result, where a scan gives the rows of its table, whose columns are called as the relation calls them.

        `after` are functions that the rows of some nodes are put through. Raises `NotHere` where these rows are for the
        engine.
        """
        done: dict[Node, pa.Table] = {}
        for node in all_nodes(self.root):
            if isinstance(node, Scan):
                found = tables[node].select(list(node.sources)).rename_columns(list(node.names))
            else:
                try:
                    found = self._runs[node](*(done[child] for child in node.children))
                    if after is not None and node in after:
                        found = after[node](found)
                except (pa.ArrowException, ArithmeticError) as error:
                    raise NotHere(str(error)) from error
            done[node] = found
        return done[self.root]


def evaluation(root: Node, engine: str) -> Evaluation | None:
    """How a tree in core form is evaluated here, in place of an engine of that kind; None where it cannot be."""
    nodes = all_nodes(root)
    if any(not node.columns for node in nodes):
        return None  # Arrow does not know how many rows a table without columns has.
    runs = {node: _run_of(node, engine) for node in nodes if not isinstance(node, Scan)}
    known = {node: run for node, run in runs.items() if run is not None}
    if len(known) < len(runs):
        return None
    return Evaluation(root, tuple(node for node in nodes if isinstance(node, Scan)), known)


def _run_of(node: Node, engine: str) -> _Run | None:
    match node:
        case Filter():
            return filtering(node, _types(node.child), engine)
        case Project():
            return projecting(node, _types(node.child), engine)
        case Join(residual=None, kind="inner" | "left" | "full" | "semi" | "anti") if node.equal:
            return lambda left, right: join(node.kind, left, right, node.equal)
        case Aggregate():
            return _aggregate(node)
        case Union():
            return _union(node)
    return None


def _aggregate(node: Aggregate) -> _Run | None:
    types = _types(node.child)
    calls = []
    for call in node.calls:
        known = primitive(call, types)
        if known is None:
            return None
        calls.append((call.column.name, known.function, known.argument))
    kinds = [arrow_type(call.column.type) for call in node.calls]
    schema = [arrow_type(types[key]) for key in node.keys] + kinds
    # Over no rows at all, counts are zero and the rest is NULL.
    zeros = [pa.array([0 if function.startswith("count") else None], pa.int64()) for _name, function, _of in calls]
    empty = pa.Table.from_arrays(zeros, names=[call.column.name for call in node.calls])

    def run(rows: pa.Table) -> pa.Table:
        found = group(rows, node.keys, calls)
        if not node.keys and not found.num_rows:
            found = empty
        columns = [column.cast(kind) for column, kind in zip(found.columns, schema, strict=True)]
        return pa.Table.from_arrays(columns, names=list(node.names))

    return run


def _union(node: Union) -> _Run:
    names = list(node.names)
    kinds = [arrow_type(column.type) for column in node.columns]

    def run(*inputs: pa.Table) -> pa.Table:
        below = [
            pa.Table.from_arrays([c.cast(kind) for c, kind in zip(rows.columns, kinds, strict=True)], names=names)
            for rows in inputs
        ]
        return pa.concat_tables(below)

    return run


def _types(node: Node) -> dict[str, str]:
    return {column.name: column.type for column in node.columns}
