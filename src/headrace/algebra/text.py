"""An operator tree as Spark SQL text: one WITH entry a node, shared nodes once. Runs on Spark and on Sail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.algebra.expressions import all_of, is_ref, text
from headrace.algebra.joins import conditions_of
from headrace.algebra.nodes import (
    Aggregate,
    Column,
    Constant,
    Filter,
    Generate,
    Join,
    Newest,
    Node,
    Order,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)

ScanNames = Mapping[int, str] | Callable[[Scan], str]

_JOINS = {
    "inner": "INNER JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


def to_sql(root: Node, scan_names: ScanNames) -> str:
    """The whole tree as one query; `scan_names` gives what to read for each relation number, or for each scan."""
    names: dict[int, str] = {}
    entries: list[str] = []

    def visit(node: Node) -> str:
        if id(node) not in names:
            children = [visit(child) for child in node.children]
            if isinstance(node, Scan):
                source = scan_names(node) if callable(scan_names) else scan_names[node.relation]
                body = node_sql(node, [source])
            else:
                body = node_sql(node, children)
            names[id(node)] = f"n{len(names)}"
            entries.append(f"{names[id(node)]} AS ({body})")
        return names[id(node)]

    last = visit(root)
    return f"WITH {', '.join(entries)} SELECT {', '.join(root.names)} FROM {last}"


def node_sql(node: Node, child_names: Sequence[str]) -> str:
    """One node as a query over its named children; for a scan, over the relation's own name."""
    listed = ", ".join(node.names)
    match node:
        case Scan():
            shown = [f"`{s.replace('`', '``')}` AS {c.name}" for s, c in zip(node.sources, node.columns, strict=True)]
            return f"SELECT {', '.join(shown)} FROM {child_names[0]}"
        case Constant():
            return node.text
        case Filter():
            return f"SELECT {listed} FROM {child_names[0]} WHERE {text(node.predicate)}"
        case Project():
            items = [_aliased(text(i), c.name, is_ref(i)) for i, c in zip(node.items, node.columns, strict=True)]
            return f"SELECT {', '.join(items)} FROM {child_names[0]}"
        case Generate():
            outer = "OUTER " if node.outer else ""
            made = ", ".join(column.name for column in node.made)
            view = f"LATERAL VIEW {outer}{text(node.generator)} g AS {made}"
            return f"SELECT {listed} FROM {child_names[0]} {view}"
        case Join():
            return _join(node, listed, child_names)
        case Aggregate():
            calls = [_aliased(text(call.expression), call.column.name) for call in node.calls]
            group = f" GROUP BY {', '.join(node.keys)}" if node.keys else ""
            return f"SELECT {', '.join([*node.keys, *calls])} FROM {child_names[0]}{group}"
        case Union():
            return " UNION ALL ".join(
                _positions(child.names, node.columns, name)
                for child, name in zip(node.inputs, child_names, strict=True)
            )
        case SetOperation():
            word = f"{node.kind.upper()} {'ALL' if node.all else 'DISTINCT'}"
            left = _positions(node.left.names, node.columns, child_names[0])
            return f"{left} {word} {_positions(node.right.names, node.columns, child_names[1])}"
        case TopK():
            return _top(node, listed, child_names[0])
        case Newest():
            return _newest(node, listed, child_names[0])
        case Over():
            calls = [_aliased(text(call.expression), call.column.name) for call in node.calls]
            return f"SELECT {', '.join([*node.child.names, *calls])} FROM {child_names[0]}"
    raise TypeError(f"{type(node).__name__} is no operator")


def _aliased(expression: str, name: str, bare: bool = False) -> str:
    return name if bare and expression == name else f"{expression} AS {name}"


def _positions(names: Sequence[str], columns: Sequence[Column], source: str) -> str:
    items = [_aliased(old, new.name, True) for old, new in zip(names, columns, strict=True)]
    return f"SELECT {', '.join(items)} FROM {source}"


def _join(node: Join, listed: str, child_names: Sequence[str]) -> str:
    condition = all_of(conditions_of(node))
    if condition is None and node.kind == "inner":
        return f"SELECT {listed} FROM {child_names[0]} CROSS JOIN {child_names[1]}"
    on = "true" if condition is None else text(condition)
    return f"SELECT {listed} FROM {child_names[0]} {_JOINS[node.kind]} {child_names[1]} ON {on}"


def _newest(node: Newest, listed: str, source: str) -> str:
    by = f"PARTITION BY {', '.join(node.partition)}" if node.partition else ""
    last = "count_" if node.slide is None else f"(count_ - count_ % {node.slide})"
    ranked = f"row_number() OVER ({by} ORDER BY {node.time}, {node.number}) AS rank_, count(*) OVER ({by}) AS count_"
    lower = "" if node.length is None else f" AND rank_ > {last} - {node.length}"
    return f"SELECT {listed} FROM (SELECT {listed}, {ranked} FROM {source}) WHERE rank_ <= {last}{lower}"


def _top(node: TopK, listed: str, source: str) -> str:
    order = {item.column: item for item in node.order}
    for column in node.columns:
        if "map<" not in column.type and "variant" not in column.type:  # neither has an order
            order.setdefault(column.name, Order(column.name))
    items = [
        f"{o.column} {'DESC' if o.descending else 'ASC'} NULLS {'FIRST' if o.nulls_first else 'LAST'}"
        for o in order.values()
    ]
    by = f" ORDER BY {', '.join(items)}" if items else ""
    limit = "" if node.limit is None else f" LIMIT {node.limit}"
    offset = f" OFFSET {node.offset}" if node.offset else ""
    return f"SELECT {listed} FROM {source}{by}{limit}{offset}"
