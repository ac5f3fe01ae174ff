"""In which order inner joins are made: what changes rarely first, what changes fast last.

A change passes every join above the relation it came from. So the fast relations go up, as the thesis does with fast
streams, and what is slow is joined among itself: then its joins rest while the others change. Parts are put together
where the condition names the whole key of one of them, because then the result is no larger than the other; pairs of
many with many come last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.joins import equality, filtered
from headrace.algebra.node_keys import Key, keys_of
from headrace.algebra.nodes import Node, Scan
from headrace.algebra.regions import Fresh, Region, joined, usable


@dataclass(frozen=True)
class Rates:
    """How fast a stored relation changes, in any unit, and its key."""

    rate: Callable[[Scan], float]
    key: Callable[[Scan], Key]

    def of(self, node: Node) -> float:
        """A subtree changes as fast as the fastest relation in it."""
        return max((self.rate(scan) for scan in node.walk() if isinstance(scan, Scan)), default=0.0)


@dataclass(frozen=True, eq=False)
class _Part:
    node: Node
    rate: float
    place: int


def rebuild_by_rates(region: Region, fresh: Fresh, rates: Rates) -> Node:
    """Join a region's inputs again, slow ones first."""
    conditions = list(region.conditions)
    parts = [_Part(leaf, rates.of(leaf), place) for place, leaf in enumerate(region.leaves)]
    while len(parts) > 1:
        left, right = min(
            ((a, b) for n, a in enumerate(parts) for b in parts[n + 1 :]),
            key=lambda pair: _rank(pair[0], pair[1], conditions, region, rates),
        )
        node = joined(left.node, right.node, conditions, region, fresh)
        parts = [part for part in parts if part is not left and part is not right]
        parts.append(_Part(node, max(left.rate, right.rate), min(left.place, right.place)))
        parts.sort(key=lambda part: part.place)
    return filtered(parts[0].node, conditions)


def _rank(left: _Part, right: _Part, conditions: list[exp.Expr], region: Region, rates: Rates) -> tuple[float, ...]:
    """Sorts pairs: by key before many-to-many before unconnected, then the slow before the fast, then as written."""
    names = frozenset(left.node.names), frozenset(right.node.names)
    pairs = [found for part in conditions if (found := equality(part, *names)) is not None]
    pairs = [pair for pair in pairs if all(usable(side, region) for side in pair[:2])]
    kind = 2.0
    if pairs:
        lefts = {pair[0].name for pair in pairs}
        rights = {pair[1].name for pair in pairs}
        kind = 0.0 if _covers(left.node, lefts, rates) or _covers(right.node, rights, rates) else 1.0
    fast, slow = max(left.rate, right.rate), min(left.rate, right.rate)
    return (kind, fast, slow, float(left.place), float(right.place))


def _covers(node: Node, names: set[str], rates: Rates) -> bool:
    key = keys_of(node, rates.key)[node]
    return key is not None and set(key) <= names
