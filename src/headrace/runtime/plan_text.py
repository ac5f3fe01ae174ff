"""A view's plan in words: the tree of its query, and at each operator how it is maintained and what is kept for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.algebra.lives import NOW
from headrace.algebra.node_keys import Key, keys_of
from headrace.algebra.nodes import Aggregate, Generate, Join, Node, Over, Scan
from headrace.algebra.patterns import Input, Label, Pattern, explain, leaf, result_pattern
from headrace.algebra.words import Words, not_additive, only_keeps
from headrace.language import Window, format_duration
from headrace.language.synchronized import BETWEEN
from headrace.maintenance.operators.base import State
from headrace.maintenance.program import Placed
from headrace.planner.support import Way, way_of
from headrace.runtime.home import Home, query_of
from headrace.runtime.info import counted
from headrace.runtime.plans import Plan
from headrace.runtime.scans import Read
from headrace.runtime.states import states_of
from headrace.runtime.strategy import find_plan
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

PATTERNS = {
    Pattern.MON: "rows never go",
    Pattern.WKS: "rows go in the order they came",
    Pattern.WK: "when a row goes is known when it comes",
    Pattern.STR: "a row may go whenever something changes",
}


@dataclass(frozen=True)
class Size:
    """What a state takes: rows of its runs, bytes, and how many runs in how many buckets."""

    rows: int
    bytes: int
    runs: int
    buckets: int


def size_of(snapshot: Snapshot, state: Object) -> Size:
    parts = snapshot.parts(state)
    return Size(
        sum(part.rows for part in parts),
        sum(part.bytes for part in parts),
        len(parts),
        len({part.first for part in parts}),
    )


def state_bytes(snapshot: Snapshot, item: Object) -> int:
    """What is kept beside an object to follow changes."""
    return sum(size_of(snapshot, state).bytes for state in states_of(snapshot, item))


def is_keyed(item: Object) -> bool:
    """Whether the object's log tells only what a key's row is now, so that its changes need the rows before."""
    return item.log == "upsert" and not item.maintained


def input_pattern(home: Home, snapshot: Snapshot, read: Read) -> Input:
    """How the rows of a stored relation come and go, as they are read."""
    found = _stored_pattern(home, snapshot, read)
    if read.reading.life is None:
        return found
    return Input(max(found.pattern, Pattern.WK), "a row comes and goes when the clock passes the time it tells")


def _stored_pattern(home: Home, snapshot: Snapshot, read: Read) -> Input:
    item, window = read.item, read.ref.window
    if item.maintained and window is None:
        plan = find_plan(home, snapshot, item, query_of(item))
        if isinstance(plan, str):
            return Input(Pattern.STR, f"{item.name} is computed as a whole")
        words = PlanWords(home, snapshot, plan, None)
        return Input(words.patterns[plan.root].pattern, f"as the result of {item.name}")
    fixed = bool(item.option("non_retroactive"))
    return leaf(window, table=item.kind == "table", keyed=item.log == "upsert", non_retroactive=fixed)


@dataclass(frozen=True)
class PlanWords:
    """A plan, and the view whose states are told; None when there is no view yet."""

    home: Home
    snapshot: Snapshot
    plan: Plan
    view: Object | None

    @cached_property
    def words(self) -> Words:
        return Words(self.plan.root)

    @cached_property
    def patterns(self) -> dict[Node, Label]:
        def stored(scan: Scan) -> Input:
            return input_pattern(self.home, self.snapshot, self.plan.reads[scan.relation])

        return dict(explain(self.plan.root, stored))

    @cached_property
    def keys(self) -> dict[Node, Key]:
        def stored(scan: Scan) -> Key:
            read = self.plan.reads[scan.relation]
            return None if read.reading.versions else read.item.key

        return dict(keys_of(self.plan.root, stored))

    @cached_property
    def _kept(self) -> dict[tuple[int, str], Object]:
        found = [] if self.view is None else states_of(self.snapshot, self.view)
        return {(item.option("operator"), item.option("state")): item for item in found}

    def phrase(self, node: Node) -> str:
        """What an operator does; a stored relation with the window and the conditions on Now it is read through."""
        while only_keeps(node):
            node = node.children[0]
        if not isinstance(node, Scan):
            return self.words.phrase(node)
        read = self.plan.reads[node.relation]
        window = f" {window_words(read.ref.window)}" if read.ref.window is not None else ""
        life = f" while {read.reading.life.condition.replace(NOW, 'Now')}" if read.reading.life is not None else ""
        versions = ", by version" if read.reading.versions else ""
        columns = ", ".join(source for source in node.sources if not source.startswith("__"))
        relation = self.words.relation(node).replace(BETWEEN, " SYNC ")
        return f"{relation}{window}{f' ({columns})' if columns else ''}{versions}{life}"

    def tree(self, names: Sequence[str]) -> list[str]:
        """The result with its columns, and below it the operators, each above what it reads."""
        pattern = result_pattern(self.patterns[self.plan.root].pattern, internal=self.plan.grows)
        key = self.keys[self.plan.root]
        at = {name: number for number, name in enumerate(self.plan.root.names)}
        known = key is not None and all(at[name] < len(names) for name in key)
        shown = [names[at[name]] for name in key] if key is not None and known else None
        lines = [f"result ({', '.join(names)}){_marks(pattern, shown)}"]
        self._below(self.plan.root, "", True, lines, set())
        return lines

    def _below(self, node: Node, indent: str, last: bool, lines: list[str], told: set[int]) -> None:
        above: list[str] = []
        while only_keeps(node):  # there is nothing to tell of it, but for what may expire its rows
            above = [*self._maintained(node), *above]
            node = node.children[0]
        again = id(node) in told and not isinstance(node, Scan)
        key = self.keys[node]
        shown = None if key is None else [self.words.column(name) for name in key]
        marks = " (as above)" if again else _marks(self.patterns[node].pattern, shown)
        lines.append(f"{indent}{'└─' if last else '├─'} {self.phrase(node)}{marks}")
        if again:
            return
        told.add(id(node))
        inner = indent + ("   " if last else "│  ")
        children = node.children
        lines += [f"{inner}{'│ ' if children else '  '}{line}" for line in [*self._maintained(node), *above]]
        for number, child in enumerate(children):
            self._below(child, inner, number == len(children) - 1, lines, told)

    def _maintained(self, node: Node) -> list[str]:
        lines = self._scanned(self.plan.inputs[node.relation]) if isinstance(node, Scan) else []
        told: set[str] = set()
        for placed in self.plan.program.operators:
            if placed.node is not node:
                continue
            way = way_of_placed(placed)
            if way is not None and way.name not in told:
                told.add(way.name)
                lines.append(f"{way.name}: {way.how}")
                lines += [f"because {reason}" for reason in _reasons(node, way)]
            lines += [self._state(placed, state) for state in states_by_name(placed)]
        return lines

    def _state(self, placed: Placed, state: State) -> str:
        key = [name for name in state.key if not name.startswith("__")]
        by = f" (by {self.words.columns(key)})" if key else ""
        kept = self._kept.get((placed.number, state.name))
        if kept is None:
            return f"would keep {state.name}: {state.purpose}{by}"
        return f"keeps {state.name}: {state.purpose}{by}; {sized(size_of(self.snapshot, kept))}"

    def _scanned(self, item: Object) -> list[str]:
        if not is_keyed(item):
            return []
        kept = states_of(self.snapshot, item)
        if not kept:
            return ["its current rows would be kept, once for all views"]
        sizes = {state.option("state"): sized(size_of(self.snapshot, state)) for state in kept}
        left = [f"keeps left: changes for views that have yet to read them; {sizes['left']}"] if "left" in sizes else []
        return [f"keeps current: the current row of each key, for all views; {sizes['current']}", *left]


def window_words(window: Window) -> str:
    """A window as it is written."""
    measure = str if window.kind == "rows" else format_duration
    words = ["PARTITION BY", ", ".join(window.partition)] if window.partition else []
    words += [window.kind.upper(), "UNBOUNDED" if window.length is None else measure(window.length)]
    words += [] if window.slide is None else ["SLIDE", measure(window.slide)]
    return f"[{' '.join([*words, 'INTERNAL'] if window.internal else words)}]"


def states_by_name(placed: Placed) -> list[State]:
    """An operator's states; one that is filled from two inputs once."""
    return list({state.name: state for state in placed.operator.states}.values())


def way_of_placed(placed: Placed) -> Way | None:
    """The way in which an operator of the program works."""
    node, kind = placed.node, ""
    if isinstance(node, Join):
        alone = "join" if placed.after is not None else node.kind
        kind = alone if node.cells is None else "band"
    elif isinstance(node, Aggregate):
        kind = "aggregate"
    elif isinstance(node, Over):
        kind = "over"
    elif isinstance(node, Generate):
        kind = "generate"
    return way_of(type(placed.operator).__name__, kind)


def _reasons(node: Node, way: Way) -> list[str]:
    """Why a dearer way was taken than an operator of this kind may have."""
    if isinstance(node, Aggregate) and ("GroupAggregate" in way.classes or "RowsOfGroups" in way.classes):
        return not_additive(node)
    if isinstance(node, Join) and "PairsOperator" in way.classes:
        return ["its condition has no equality and no constant distance by which partners could be looked up"]
    return []


def sized(size: Size) -> str:
    return f"{counted(size.rows, 'row')}, {size.bytes:,} bytes"


def _marks(pattern: Pattern, key: Sequence[str] | None) -> str:
    if key is None:
        known = ""
    else:
        known = f", key ({', '.join(key)})" if key else ", at most one row"
    return f"  [{pattern.name}{known}]"
