"""Algorithm 1 of the ViewDF paper: the state machine of a pattern query.

State 0 is the begin state and state p the p-th variable; the last state accepts. A predicate on one variable stands on
the edge that enters its state, and on the self-edge too if the variable has a +. A predicate on a variable and the one
before it stands on the entering edge only: there the row before is the last of the run, so the machine remembers the
columns that such predicates read of it (`auxlist`). ``PREV(b.loss)`` is the row before in the same sense, and holds on
the self-edge as well.

In state k a row is tried on the self-edge, then on the edge to k+1. If neither holds (NULL does not), the run ends and
the same row is tried as the first variable; if that fails too, the group has no run. WITHIN fails the transitions of
rows that are too late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.expressions import rewrite, text
from headrace.algebra.part_wise.patterns.pattern_query import PatternQuery, Variable
from headrace.errors import DefinitionError, Place
from headrace.language import format_duration
from headrace.language.query import Scalar

NEW, PREV = "New", "Prev"


@dataclass(frozen=True)
class Edge:
    """A move from one state to another, on a row New that satisfies all predicates; Prev is the run's last row."""

    source: int
    target: int
    predicates: tuple[Scalar, ...] = ()

    def condition(self) -> str:
        """The conjunction as text."""
        return " AND ".join(
            f"({it.sql()})" if isinstance(it.tree, exp.Or) else it.sql() for it in self.predicates
        ) or "TRUE"  # fmt: skip


@dataclass(frozen=True)
class StateMachine:
    """States 1 to n are the variables; `edges` leads from each to its next, and to itself where there is a +.

    `auxlist` are the columns of the run's last row that edges read.
    """

    variables: tuple[Variable, ...]
    edges: tuple[Edge, ...]
    auxlist: tuple[str, ...] = ()
    within: int | None = None

    @property
    def accepting(self) -> int:
        return len(self.variables)

    def edge(self, source: int, target: int) -> Edge | None:
        """E[source][target], if there is such an edge."""
        return next((edge for edge in self.edges if (edge.source, edge.target) == (source, target)), None)


def state_machine(described: PatternQuery) -> StateMachine:
    """The machine of a pattern query.

    Examples
    --------
    >>> from headrace.algebra.part_wise.patterns.pattern_query import describe_pattern
    >>> from headrace.language import parse_one
    >>> text = "SELECT count(*) AS n FROM M PATTERN [a, b+] WHERE a.x > 1 AND b.x > a.x"
    >>> describe_machine(state_machine(describe_pattern(parse_one(text).query)))[3:5]
    ['edge 0 -> 1: New.x > 1', 'edge 1 -> 2: New.x > Prev.x']
    """
    edges: dict[tuple[int, int], list[Scalar]] = {}
    for state, variable in enumerate(described.variables, 1):
        edges[state - 1, state] = []
        if variable.plus:
            edges[state, state] = []
    auxiliary: dict[str, str] = {}
    for predicate in described.predicates:
        placed = _placed(predicate, described.variables, described.place)
        edges[placed.state - 1, placed.state].append(placed.predicate)
        if placed.repeats and described.variables[placed.state - 1].plus:
            edges[placed.state, placed.state].append(placed.predicate)
        for column in placed.remembered:
            auxiliary.setdefault(column.lower(), column)
    return StateMachine(
        described.variables,
        tuple(Edge(*ends, tuple(predicates)) for ends, predicates in edges.items()),
        tuple(auxiliary.values()),
        described.within,
    )


@dataclass(frozen=True)
class _Placed:
    """A predicate over New and Prev: the state it leads to, and whether it also holds for more rows of that state."""

    predicate: Scalar
    state: int
    repeats: bool
    remembered: tuple[str, ...]


def _placed(predicate: Scalar, variables: Sequence[Variable], place: Place | None) -> _Placed:
    numbers = {variable.name.lower(): state for state, variable in enumerate(variables, 1)}
    named = {numbers[column.table.lower()] for column in predicate.tree.find_all(exp.Column)}
    state = max(named)
    if not named <= {state - 1, state}:
        told = " and ".join(variables[number - 1].name for number in sorted(named))
        raise _bad(
            f"{predicate.sql()} compares rows of {told}: the machine remembers of a run only its last row.",
            f"Compare {variables[state - 1].name} with the variable before it, {variables[state - 2].name}.",
            place,
        )
    remembered: dict[str, str] = {}

    def in_row(node: exp.Expr, row: str) -> exp.Expr | None:
        if not isinstance(node, exp.Column):
            return None
        if row == PREV:
            remembered.setdefault(node.name.lower(), node.name)
        return exp.Column(this=node.this.copy(), table=exp.to_identifier(row))

    def as_rows(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return in_row(node, NEW if numbers[node.table.lower()] == state else PREV)
        if not _is_prev(node):
            return None
        if state == 1 or numbers[_variable_of(node, predicate, place)] != state:
            raise _bad(
                f"{text(node)} in {predicate.sql()} is a row from before the run's last row.",
                "PREV belongs to the last variable that a predicate names, and before the first there is no row.",
                place,
            )
        return rewrite(node.expressions[0], lambda inner: in_row(inner, PREV))

    return _Placed(Scalar(rewrite(predicate.tree, as_rows)), state, named == {state}, tuple(remembered.values()))


def _is_prev(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "PREV"


def _variable_of(call: exp.Expr, predicate: Scalar, place: Place | None) -> str:
    variables = {column.table.lower() for column in call.find_all(exp.Column)}
    if len(call.expressions) != 1 or len(variables) != 1:
        raise _bad(
            f"{text(call)} in {predicate.sql()} is not the row before.", "Write PREV(b.loss), of one variable.", place
        )
    return variables.pop()


def _bad(message: str, hint: str, place: Place | None) -> DefinitionError:
    return DefinitionError("BAD_PATTERN_PREDICATE", message, hint=hint, place=place)


def describe_machine(machine: StateMachine) -> list[str]:
    """The machine in lines for people: its states, its edges with their predicates, and what it remembers."""
    lines = ["state 0: begin"]
    for state, variable in enumerate(machine.variables, 1):
        accepts = ", accepting" if state == machine.accepting else ""
        lines.append(f"state {state}: {variable.name}{'+' if variable.plus else ''}{accepts}")
    lines += [
        f"edge {edge.source} -> {edge.target}: {edge.condition() if edge.predicates else 'any row'}"
        for edge in machine.edges
    ]
    if machine.auxlist:
        lines.append(f"of the last row remembered: {', '.join(machine.auxlist)}")
    if machine.within is not None:
        lines.append(f"a run is over {format_duration(machine.within)} after its first row")
    return lines
