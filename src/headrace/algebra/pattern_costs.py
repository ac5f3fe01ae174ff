"""What a plan costs a unit of time when its rows come and go: a small model that counts negative rows (thesis 3.5.3).

Every operator handles each row that reaches it and each row it gives. Below the first strict edge rows die at times
that they carry, so nothing but arrivals flows. From a strict edge upwards every death is a row too: as many negative
rows as positive ones, once windows are full. So a negation far up saves the operators below it the negative rows, and
one far down saves those above it the rows that it takes away: `cheaper` weighs one against the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.algebra.nodes import Aggregate, Filter, Join, Node, Scan, SetOperation, TopK, Union
from headrace.algebra.patterns import Input, Pattern, label
from headrace.language.dialect import headrace_sql


@dataclass(frozen=True)
class Statistics:
    """Of each relation by name, rows arriving in a unit of time and rows present; of operators, what they let through.

    `passing` is by `key_of`: of a filter, semi or anti join, DISTINCT, the share of rows; of a join, of pairs.
    """

    rates: Mapping[str, float]
    sizes: Mapping[str, float]
    passing: Mapping[str, float] = field(default_factory=dict)
    usual: float = 0.1


@dataclass(frozen=True)
class Flow:
    """Rows that come in a unit of time, rows present, and negative rows that come in a unit of time."""

    rate: float
    size: float
    negative: float

    @property
    def rows(self) -> float:
        return self.rate + self.negative


def key_of(node: Node) -> str:
    """A name for an operator's selectivity that no rewriting changes."""
    if isinstance(node, Filter):
        return headrace_sql(node.predicate)
    if isinstance(node, Join):
        return f"{node.kind} " + ", ".join(f"{pair.left} = {pair.right}" for pair in node.equal)
    if isinstance(node, Aggregate):
        return "group " + ", ".join(node.keys)
    return type(node).__name__.lower()


def cost(root: Node, inputs: Callable[[Scan], Pattern | Input], statistics: Statistics) -> float:
    """Rows handled in a unit of time by all operators of a plan, its result among them."""
    patterns = label(root, inputs)
    flows: dict[Node, Flow] = {}
    total = 0.0
    for node in root.walk():
        if node in flows:
            continue
        below = [flows[child] for child in node.children]
        rate, size = _estimated(node, below, statistics)
        flows[node] = Flow(rate, size, rate if patterns[node] == Pattern.STR else 0.0)
        if below:
            total += flows[node].rows + sum(child.rows for child in below)
    return total


def cheaper(a: Node, b: Node, inputs: Callable[[Scan], Pattern | Input], statistics: Statistics) -> Node:
    """The cheaper of two plans of one query; the first where they cost the same."""
    return b if cost(b, inputs, statistics) < cost(a, inputs, statistics) else a


def _estimated(node: Node, below: list[Flow], statistics: Statistics) -> tuple[float, float]:
    share = statistics.passing.get(key_of(node), statistics.usual)
    if isinstance(node, Scan):
        return statistics.rates.get(node.name, 1.0), statistics.sizes.get(node.name, 1.0)
    if isinstance(node, Join) and node.kind in ("inner", "left", "right", "full"):
        left, right = below
        rate, size = share * (left.rate * right.size + right.rate * left.size), share * left.size * right.size
        kept = [flow for flow, kinds in ((left, ("left", "full")), (right, ("right", "full"))) if node.kind in kinds]
        return rate + sum(flow.rate for flow in kept), size + sum(flow.size for flow in kept)
    if isinstance(node, Union):
        return sum(flow.rate for flow in below), sum(flow.size for flow in below)
    if isinstance(node, Filter | Join | SetOperation) or (isinstance(node, Aggregate) and not node.calls):
        return share * below[0].rate, share * below[0].size
    if isinstance(node, Aggregate):
        # Every arrival gives its group a new value.
        return below[0].rate, share * below[0].size if node.keys else 1.0
    if isinstance(node, TopK) and node.limit is not None:
        return share * below[0].rate, min(below[0].size, float(node.limit))
    return (below[0].rate, below[0].size) if below else (0.0, 1.0)
