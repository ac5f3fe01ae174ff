"""Terms of a join's change that foreign keys show to be empty, left out before anything is looked up for them.

New customers have no orders yet if every order has a customer: then the orders need not be searched for theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headrace.algebra.nodes import Scan
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.program import Placed, Program
from headrace.planner.foreign_keys import Change, Reference, joins_nothing_old


def without_empty_terms(
    program: Program, inputs: Sequence[int], references: Sequence[Reference], changes: Mapping[int, Change]
) -> Program:
    """The program for one batch. `inputs[i]` is the id of the object that scans number i read."""
    if not references:
        return program
    operators = tuple(_reduced(program, placed, inputs, references, changes) for placed in program.operators)
    return replace(program, operators=operators)


def _reduced(
    program: Program,
    placed: Placed,
    inputs: Sequence[int],
    references: Sequence[Reference],
    changes: Mapping[int, Change],
) -> Placed:
    join = placed.operator
    if not isinstance(join, JoinOperator) or join.kind != "inner" or any(pair.null_safe for pair in join.equal):
        return placed
    sides = [_scanned(program, placed.number, slot) for slot in (0, 1)]
    if sides[0] is None or sides[1] is None:
        return placed
    stored = [{c.name: source for c, source in zip(scan.columns, scan.sources, strict=True)} for scan in sides if scan]
    if not all(pair.left in stored[0] and pair.right in stored[1] for pair in join.equal):
        return placed  # computed on the way: nothing is known of it
    equal = [(stored[0][pair.left], stored[1][pair.right]) for pair in join.equal]
    left, right = (inputs[scan.relation] for scan in sides if scan)
    empty = joins_nothing_old(left, right, equal, references, changes)
    idle = set()
    if changes.get(right) == "inserts" and ("old", "inserted") in empty:
        idle.add("left")
    if changes.get(left) == "inserts" and ("inserted", "old") in empty:
        idle.add("right")
    return replace(placed, operator=replace(join, idle=frozenset(idle))) if idle else placed


def _scanned(program: Program, target: int, slot: int) -> Scan | None:
    """The one stored relation that an input is made of, row by row."""
    edges = [edge for edge in program.into(target) if edge.slot == slot]
    return edges[0].scan if len(edges) == 1 else None
