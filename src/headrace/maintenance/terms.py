"""Terms of a join's change that foreign keys show to be empty, left out before anything is looked up for them.

New customers have no orders yet if every order has a customer: then the orders need not be searched for theirs. What
is joined on top inherits that: the new rows of customers with their orders all have a new order, so nothing old can
refer to it either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.algebra.expressions import is_ref
from headrace.algebra.nodes import Filter, Generate, Node, Project, Scan
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.program import Edge, Program
from headrace.planner.foreign_keys import Change, Reference, joins_nothing_old


def without_empty_terms(
    program: Program, inputs: Sequence[int], references: Sequence[Reference], changes: Mapping[int, Change]
) -> Program:
    """The program for one batch. `inputs[i]` is the id of the object that scans number i read.

    `changes` names every object that the batch changes.
    """
    if not references:
        return program
    batch = _Batch(inputs, references, changes)
    given: dict[int, _Rows] = {}
    operators = []
    for placed in program.operators:
        join = placed.operator
        if isinstance(join, JoinOperator) and join.kind == "inner":
            left, right = (_side(program, batch, given, placed.number, slot) for slot in (0, 1))
            join = replace(join, idle=batch.idle(join, left, right))
            given[placed.number] = _joined(left, right, join.idle)
        operators.append(replace(placed, operator=join))
    return replace(program, operators=tuple(operators))


@dataclass(frozen=True)
class _Rows:
    """Rows made of one row each of some scans. `stored[name]` is a column that is a scan's own, as it is there.

    `new` are the scans whose rows in it are new in whatever the batch changes here; None if it changes nothing.
    """

    stored: Mapping[str, tuple[Scan, str]]
    new: frozenset[Scan] | None

    @property
    def scans(self) -> frozenset[Scan]:
        return frozenset(scan for scan, _source in self.stored.values()) | (self.new or frozenset())

    def without(self, scans: frozenset[Scan]) -> _Rows:
        stored = {name: found for name, found in self.stored.items() if found[0] not in scans}
        return _Rows(stored, None if self.new is None else self.new - scans)


_UNKNOWN = _Rows({}, frozenset())


@dataclass(frozen=True)
class _Batch:
    inputs: Sequence[int]
    references: Sequence[Reference]
    changes: Mapping[int, Change]

    def scanned(self, scan: Scan) -> _Rows:
        stored = {column.name: (scan, source) for column, source in zip(scan.columns, scan.sources, strict=True)}
        change = self.changes.get(self.inputs[scan.relation])
        return _Rows(stored, None if change is None else frozenset([scan] if change == "inserts" else []))

    def idle(self, join: JoinOperator, left: _Rows, right: _Rows) -> frozenset[str]:
        """The sides of an inner join whose old rows meet none of the other's changes."""
        pairs: dict[tuple[Scan, Scan], list[tuple[str, str]]] = defaultdict(list)
        for pair in join.equal:
            if not pair.null_safe and pair.left in left.stored and pair.right in right.stored:
                (one, source), (other, its) = left.stored[pair.left], right.stored[pair.right]
                pairs[one, other].append((source, its))
        found = set()
        for (one, other), equal in pairs.items():
            objects = self.inputs[one.relation], self.inputs[other.relation]
            empty = joins_nothing_old(*objects, equal, self.references, self.changes)
            if right.new is not None and other in right.new and ("old", "inserted") in empty:
                found.add("left")
            if left.new is not None and one in left.new and ("inserted", "old") in empty:
                found.add("right")
        return frozenset(found)


def _joined(left: _Rows, right: _Rows, idle: frozenset[str]) -> _Rows:
    """The pairs: whatever changes in them changes on the one side, the other, or both."""
    twice = left.scans & right.scans  # a subquery read twice: two rows of one scan, not to be told apart here
    left, right = left.without(twice), right.without(twice)
    terms = []
    if left.new is not None and "right" not in idle:
        terms.append(left.new)
    if right.new is not None and "left" not in idle:
        terms.append(right.new)
    if left.new is not None and right.new is not None:
        terms.append(left.new | right.new)
    return _Rows({**left.stored, **right.stored}, frozenset.intersection(*terms) if terms else None)


def _side(program: Program, batch: _Batch, given: Mapping[int, _Rows], target: int, slot: int) -> _Rows:
    """What an input is made of, if that is known: rows of one scan, or of joins of some."""
    edges = [edge for edge in program.into(target) if edge.slot == slot]
    if len(edges) != 1:
        return _UNKNOWN
    edge = edges[0]
    if edge.scan is not None:
        return _passed(batch.scanned(edge.scan), edge)
    return _passed(given.get(-1 if edge.source is None else edge.source, _UNKNOWN), edge)


def _passed(rows: _Rows, edge: Edge) -> _Rows:
    """What is known of rows after an edge's steps: filters and projections make none of several."""
    stored = rows.stored
    for step in edge.steps:
        if isinstance(step, Project):
            stored = _renamed(step, stored)
        elif not isinstance(step, Filter | Generate):
            return _UNKNOWN
    return replace(rows, stored=stored)


def _renamed(step: Node, stored: Mapping[str, tuple[Scan, str]]) -> dict[str, tuple[Scan, str]]:
    assert isinstance(step, Project)
    items = zip(step.names, step.items, strict=True)
    return {name: stored[item.name] for name, item in items if is_ref(item) and item.name in stored}
