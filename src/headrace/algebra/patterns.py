"""Update patterns: in which order a query's results come and go, told for every edge of its tree (thesis 3.2, 3.5.1).

=====  =========================  ====================================================================
label  thesis                     a row of the result
=====  =========================  ====================================================================
MON    monotonic                  never dies
WKS    weakest non-monotonic      dies at a time known at its birth, all after one and the same length
WK     weak non-monotonic         dies at a time known at its birth, in any order
STR    strict non-monotonic       may die at a time that only later arrivals tell
=====  =========================  ====================================================================

Up to WK a row can carry the time of its death and no negative row is ever needed; up to WKS rows also die in the order
in which they were born. The thesis' five rules are kept; what it leaves open follows from its definitions:

- A relation that never changes is transparent to a join, as a non-retroactive one is.
- A join of a stream without a window and a window is WK. Thesis 3.3.2 says WKS, but a new row of the stream may meet a
  row of the window that is about to die, so the lifetimes differ, and its own definition of WKS wants them equal.
- A union of windows of different lengths is WK for the same reason.
- An outer join holds a negation (its rows of NULLs go when a match comes), so it is strict.
- A semi join and INTERSECT are duplicate elimination over a join, and take its label.

Inside a tree an INTERNAL window is labelled as an external one: its state must be kept in the same way (thesis 3.3.2,
Fig. 3.3). Only the final result is monotonic: `result_pattern`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from headrace.algebra.nodes import (
    Aggregate,
    Constant,
    Filter,
    Generate,
    Join,
    Newest,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)
from headrace.language import Window
from headrace.language import nodes as language


class Pattern(IntEnum):
    """An update pattern; the greater, the harder to maintain."""

    MON = 0
    WKS = 1
    WK = 2
    STR = 3

    @property
    def dies_in_order(self) -> bool:
        """Whether rows die in the order of their births, so that a queue can hold them."""
        return self <= Pattern.WKS

    @property
    def death_is_known(self) -> bool:
        """Whether a row's death is known at its birth, so that no negative row is needed."""
        return self <= Pattern.WK


@dataclass(frozen=True)
class Input:
    """What is known of a stored relation: its pattern, how long its rows live, and how its changes meet others.

    `lifetime` is the length of a time window, in any unit. `still`: it never changes. `non_retroactive`: its changes
    meet only rows that arrive later.
    """

    pattern: Pattern
    reason: str
    lifetime: int | None = None
    still: bool = False
    non_retroactive: bool = False


#: The leaves there are. A time window also has its length: `time_window`.
STREAM = Input(Pattern.MON, "a stream without a window only grows")
KEYED_STREAM = Input(Pattern.STR, "a new row of a key replaces the one before it, nobody knows when")
ROW_WINDOW = Input(Pattern.STR, "a row leaves a window of rows when others arrive")
TABLE = Input(Pattern.STR, "a table is changed by hand, nobody knows when")
NON_RETROACTIVE = Input(
    Pattern.STR, "a table is changed by hand; its changes meet only later arrivals", non_retroactive=True
)
STILL = Input(Pattern.MON, "it never changes", still=True)


def time_window(length: int) -> Input:
    """A window on time, INTERNAL or not."""
    return Input(Pattern.WKS, "every row of a time window dies one window length after its time", length)


def leaf(window: Window | None, *, table: bool = False, keyed: bool = False, non_retroactive: bool = False) -> Input:
    """The leaf for a stored relation as a query reads it: a table, or a stream with or without a key and a window."""
    if non_retroactive:
        return NON_RETROACTIVE
    if table:
        return TABLE
    if window is not None and window.kind == "rows" and window.length is not None:
        return ROW_WINDOW
    if keyed:
        return KEYED_STREAM
    return STREAM if window is None or window.length is None else time_window(window.length)


@dataclass(frozen=True)
class Label:
    """The pattern of an edge, and why it is that."""

    pattern: Pattern
    reason: str


def label(root: Node, inputs: Callable[[Scan], Pattern | Input]) -> Mapping[Node, Pattern]:
    """The pattern of the edge above each node of the tree; `inputs` tells those of the leaves."""
    return {node: found.pattern for node, found in explain(root, inputs).items()}


def explain(root: Node, inputs: Callable[[Scan], Pattern | Input]) -> Mapping[Node, Label]:
    """As `label`, each with a sentence for EXPLAIN."""
    known: dict[Node, Input] = {}
    for node in root.walk():
        if node not in known:
            known[node] = _of(node, inputs, known)
    return {node: Label(found.pattern, found.reason) for node, found in known.items()}


def result_pattern(root: Pattern, *, internal: bool) -> Pattern:
    """The pattern of what a user sees: over INTERNAL windows alone, results never die (thesis 3.3.2)."""
    return Pattern.MON if internal else root


def _of(node: Node, inputs: Callable[[Scan], Pattern | Input], known: Mapping[Node, Input]) -> Input:
    below = [known[child] for child in node.children]
    if isinstance(node, Scan):
        found = inputs(node)
        return found if isinstance(found, Input) else Input(found, "it is given so")
    if isinstance(node, Constant) or (below and all(child.still for child in below)):
        return STILL
    if isinstance(node, Filter | Project | Generate):
        return _row_by_row(node, below[0])
    if isinstance(node, Union):
        return _union(below)
    if isinstance(node, Join):
        return _join(node, *below)
    if isinstance(node, Aggregate):
        return _aggregate(node, below[0])
    if isinstance(node, SetOperation):
        return _set_operation(node, *below)
    if isinstance(node, TopK):
        if node.limit is None and node.offset == 0:
            return _follows(below[0], "an order alone changes no row")
        return _strict("a row is pushed out of the first ones by one that comes later")
    if isinstance(node, Newest):
        return below[0]
    if isinstance(node, Over):
        return _strict("the value beside a row changes with the rows around it")
    raise TypeError(f"No update pattern is known for {type(node).__name__}.")


def _follows(child: Input, reason: str) -> Input:
    return Input(child.pattern, reason, child.lifetime, non_retroactive=child.non_retroactive)


def _strict(reason: str) -> Input:
    return Input(Pattern.STR, reason)


def _weak(reason: str) -> Input:
    return Input(Pattern.WK, reason)


def _row_by_row(node: Filter | Project | Generate, child: Input) -> Input:
    """Rule 1: a unary weakest non-monotonic operator leaves lifetimes as they are; unless it reads the clock itself."""
    if isinstance(node, Filter) and node.predicate.find(language.Now) is not None:
        worst = max(child.pattern, Pattern.WK)
        return Input(worst, "a row comes and goes when the clock passes the time it is compared with")
    if not isinstance(node, Filter):
        items = node.items if isinstance(node, Project) else (node.generator,)
        if any(item.find(language.Now) is not None for item in items):
            return _strict("its values change with the clock")
    return _follows(child, "row by row, lifetimes stay as they are (rule 1)")


def _union(below: list[Input]) -> Input:
    """Rule 2: a union is as its hardest input; lifetimes of several lengths do not end in the order they began."""
    changing = [child for child in below if not child.still]
    worst = max(child.pattern for child in changing)
    lengths = {child.lifetime for child in changing}
    if worst == Pattern.WKS and (len(lengths) > 1 or any(child.pattern != worst for child in below)):
        return _weak("a union of rows with lifetimes of different lengths")
    return Input(
        worst, "a union is as the hardest of its inputs (rule 2)", lengths.pop() if len(lengths) == 1 else None
    )


def _join(node: Join, left: Input, right: Input) -> Input:
    if left.non_retroactive and right.non_retroactive:
        reason = "a join of non-retroactive tables, whose changes meet only later arrivals"
        return Input(Pattern.STR, reason, non_retroactive=True)
    for side, other, kinds in (
        (right, left, ("inner", "left", "semi", "anti")),
        (left, right, ("inner", "right")),
    ):
        if node.kind not in kinds:
            continue
        if side.non_retroactive:
            return _follows(other, "a join with a non-retroactive table is as its other input (rule 1)")
        if side.still:
            return _follows(other, "a join with what never changes is as its other input")
    if node.kind in ("anti", "left", "right", "full"):
        which = "a negation" if node.kind == "anti" else "an outer join, which holds a negation,"
        return _strict(f"{which} takes a result back when a match arrives (rule 4)")
    name = "a join" if node.kind == "inner" else "a semi join, duplicate elimination over a join,"
    return _weak_operator([left, right], name)


def _weak_operator(below: list[Input], name: str) -> Input:
    """Rule 3: STR if an input is, else WK; and nothing dies where nothing below dies."""
    worst = max(child.pattern for child in below)
    if worst == Pattern.STR:
        return _strict(f"{name} of an input that takes rows back (rule 3)")
    if worst == Pattern.MON:
        return Input(Pattern.MON, f"{name} of inputs whose rows never die")
    return _weak(f"{name} has rows that die with the first to die of what made them (rule 3)")


def _aggregate(node: Aggregate, child: Input) -> Input:
    if node.calls:
        return _strict("an aggregate's value is replaced when its group changes (rule 4)")
    return _weak_operator([child], "duplicate elimination")


def _set_operation(node: SetOperation, left: Input, right: Input) -> Input:
    if node.kind == "except":
        if right.still and not node.all:
            return _weak_operator([left], "duplicate elimination")
        return _strict("a negation takes a result back when a match arrives (rule 4)")
    worst = max(left.pattern, right.pattern)
    if node.all and worst != Pattern.MON:
        return _strict("how often a row counts depends on what arrives on either side")
    return _weak_operator([left, right], "an intersection, duplicate elimination over a join,")
