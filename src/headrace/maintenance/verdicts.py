"""Joins of all with all whose right side is only compared with: they tell the rows that are decided anew, not all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.algebra.nodes import Filter, Project
from headrace.algebra.trees import references
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.operators.verdict import Verdict
from headrace.maintenance.program import Placed, Program


def with_verdicts(program: Program, engine: str) -> Program:
    """The program with a verdict in every join that can have one, given here as an engine of this kind gives it."""
    return replace(program, operators=tuple(_judging(program, placed, engine) for placed in program.operators))


def _judging(program: Program, placed: Placed, engine: str) -> Placed:
    join = placed.operator
    if not isinstance(join, JoinOperator) or join.kind != "inner" or join.equal:
        return placed
    verdict = _verdict(program, placed.number, join, engine)
    return placed if verdict is None else replace(placed, operator=replace(join, verdict=verdict))


def _verdict(program: Program, number: int, join: JoinOperator, engine: str) -> Verdict | None:
    leaving = program.out_of(number)
    if len(leaving) != 1:
        return None
    steps = leaving[0].steps
    predicates: list[Any] = []
    for step in steps:
        if not isinstance(step, Filter):
            break
        predicates.append(step.predicate)
    after = steps[len(predicates)] if len(predicates) < len(steps) else None
    if not predicates or not isinstance(after, Project) or references(after) & set(join.right.names):
        return None
    verdict = Verdict(tuple(predicates), join.left.columns, join.right.columns, engine)
    return verdict if verdict.can_be_given else None
