"""Where a plan's negations go: pulled up, so that few operators see negative rows, or pushed down, so that few rows
go through the others (thesis 3.5.3). The view's option `rewriting` asks for one; by default the cheaper one is taken.

What is cheaper is told by how fast rows came when the view was made, and by the lengths of its windows. Both stay what
they were, since what is kept follows from the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.algebra.merging import merge
from headrace.algebra.nodes import Join, Node, Scan, SetOperation
from headrace.algebra.pattern_costs import Statistics, cost, key_of
from headrace.algebra.patterns import Input, Pattern, leaf
from headrace.algebra.pruning import prune
from headrace.algebra.simplify import pull_up_negation, push_down_negation, push_down_weakest
from headrace.algebra.trees import narrow
from headrace.runtime.scans import Read
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

_SECOND = 1_000_000
#: Of the rows of a join's larger side, the share that has one and the same key, where nothing is known.
_SAME_KEY = 0.01


def spans_of(source: Snapshot, inputs: Sequence[Object]) -> dict[str, float]:
    """Over how many seconds the rows of each relation (by id) have come; those without times are left out."""
    found = {}
    for item in inputs:
        parts = source.parts(item)
        oldest = [part.oldest for part in parts if part.oldest is not None]
        newest = [part.newest for part in parts if part.newest is not None]
        if oldest and newest and max(newest) > min(oldest):
            found[str(item.id)] = (max(newest) - min(oldest)) / _SECOND
    return found


def rewritten(
    root: Node, reads: Sequence[Read], asked: str, tuples: str, rows: Mapping[str, int], spans: Mapping[str, float]
) -> tuple[Node, str]:
    """The tree in the form that was asked for, or in the cheaper one; and what was done, if there was a choice."""
    if not any(_negates(node) for node in root.walk()):
        return root, ""
    up, down = _tidied(pull_up_negation(root), root), _tidied(_down(root, reads), root)
    if asked == "pull up":
        return up, "negation is pulled up, as asked"
    if asked == "push down":
        return down, "negation is pushed down, as asked"
    known = _statistics((up, down), reads, rows, spans)
    if known is None:
        return root, ""

    def pattern(scan: Scan) -> Input:
        found = _leaf(reads[scan.relation])
        return replace(found, pattern=Pattern.STR) if tuples == "negative" else found

    high, low = cost(up, pattern, known), cost(down, pattern, known)
    if high == low:
        return root, ""
    words = f"about {min(high, low):.3g} rows a second to handle, and {max(high, low):.3g} the other way"
    return (up, f"negation is pulled up: {words}") if high < low else (down, f"negation is pushed down: {words}")


def _negates(node: Node) -> bool:
    if isinstance(node, Join):
        return node.kind == "anti"
    return isinstance(node, SetOperation) and node.kind == "except" and not node.all


def _down(root: Node, reads: Sequence[Read]) -> Node:
    return push_down_negation(push_down_weakest(root), lambda scan: reads[scan.relation].item.kind == "table")


def _tidied(new: Node, root: Node) -> Node:
    return narrow(merge(prune(new)), root.names)


def _leaf(read: Read) -> Input:
    item = read.item
    return leaf(
        read.ref.window,
        table=item.kind == "table" or item.maintained,
        keyed=item.log == "upsert",
        non_retroactive=bool(item.option("non_retroactive")),
    )


def _statistics(
    trees: Sequence[Node], reads: Sequence[Read], rows: Mapping[str, int], spans: Mapping[str, float]
) -> Statistics | None:
    """None where it is not known how fast rows come."""
    rates: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for read in reads:
        number = str(read.item.id)
        if not rows.get(number) or number not in spans:
            return None
        name, window = read.item.name, read.ref.window
        rates[name] = rows[number] / spans[number]
        timed = window is not None and window.kind == "range" and window.length is not None
        length = (window.length or 0) / _SECOND if window is not None and timed else spans[number]
        # A relation that is read through two windows counts with the longer one.
        sizes[name] = max(sizes.get(name, 1.0), rates[name] * length)
    largest = max(sizes.values())
    joins = {node for tree in trees for node in tree.walk() if isinstance(node, Join)}
    shares = {key_of(join): 0.5 if join.kind in ("semi", "anti") else max(_SAME_KEY, 1 / largest) for join in joins}
    return Statistics(rates, sizes, shares)
