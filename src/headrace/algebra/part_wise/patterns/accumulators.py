"""What a run keeps for each aggregate, as a column of the helper view: its type, its first value, its next value.

An average is kept as a sum and a count. The column of a run's last row that an edge reads, and the time of its first
row for WITHIN, are the aggregates LAST and FIRST, so a query that selects them keeps nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from headrace.algebra.expressions import atom, rewrite, text
from headrace.algebra.part_wise.patterns import aggregate_types
from headrace.algebra.part_wise.patterns.aggregates import Aggregate
from headrace.algebra.part_wise.patterns.pattern_columns import Bound
from headrace.algebra.part_wise.patterns.state_machine import NEW, StateMachine
from headrace.language.query import Scalar
from headrace.language.relations import PART_TIMESTAMP

Kind = Literal["rows", "count", "sum", "min", "max", "first", "last"]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


@dataclass(frozen=True)
class Naming:
    """How the columns of the new row and of the run before it are written where an expression stands."""

    new: Callable[[str], exp.Expr]
    prev: Callable[[str], exp.Expr]

    def value(self, argument: Scalar) -> str:
        """An expression over input columns, of the new row."""
        return text(atom(rewrite(argument.tree, lambda it: self.new(it.name) if isinstance(it, exp.Column) else None)))


@dataclass(frozen=True)
class Accumulator:
    """A column of the helper: `kind` over the rows of `state`, or over all rows of the run.

    `solid`: neither the value before nor that of a row is NULL, so that sums need not look out for it.
    """

    name: str
    type: str
    kind: Kind
    argument: Scalar | None
    argument_type: str
    state: int | None
    solid: bool = False

    def empty(self) -> str:
        """The value over no rows."""
        return f"CAST({0 if self.kind in ('rows', 'count') else 'NULL'} AS {self.type})"

    def begin(self, naming: Naming) -> str:
        """The value of a run that the new row begins."""
        return self.empty() if self.state not in (None, 1) else self._first(naming)

    def step(self, naming: Naming, target: int, state: str) -> str:
        """The value after the new row took the run to `target`; `state` is the text of the state before."""
        before = text(naming.prev(self.name))
        if self.state not in (None, target):
            return before
        value = self._first(naming)
        match self.kind:
            case "rows" | "count":
                return f"{before} + {1 if self.kind == 'rows' else value}"
            case "min" | "max":
                return f"{'LEAST' if self.kind == 'min' else 'GREATEST'}({before}, {value})"
            case "last":
                return value
            case "first" if self.state is None:
                return before
            case "first":
                return f"CASE WHEN {state} = {target} THEN {before} ELSE {value} END"
        raw = naming.value(self.argument) if self.argument is not None else ""
        total = aggregate_types.added(
            before, value if self.argument_type == "STRING" else raw, self.argument_type, self.type
        )
        return total if self.solid else f"COALESCE({total}, {before}, {value})"

    def _first(self, naming: Naming) -> str:
        if self.kind == "rows" or self.argument is None:
            return f"CAST(1 AS {self.type})"
        value = naming.value(self.argument)
        if self.kind == "count":
            return f"CAST({value} IS NOT NULL AS {self.type})"
        plain = isinstance(self.argument.tree, exp.Column) and self.argument_type == self.type
        return value if plain else f"CAST({value} AS {self.type})"


class Accumulators:
    """The columns that a run keeps, each once, with names that neither each other nor the group columns have."""

    def __init__(self, machine: StateMachine, bound: Bound) -> None:
        self._machine = machine
        self._bound = bound
        self._taken = {name.lower() for name in (*bound.described.groups, PART_TIMESTAMP)}
        self._found: dict[tuple[str, str, str, int | None], Accumulator] = {}

    def __iter__(self) -> Iterator[Accumulator]:
        return iter(self._found.values())

    def unique(self, base: str) -> str:
        """A name that no column has yet."""
        name, number = base, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name.lower())
        return name

    def keep(
        self, kind: Kind, argument: Scalar | None, state: int | None = None, type_: str | None = None
    ) -> Accumulator:
        """The column for an aggregate; without a type it has that of its argument."""
        if kind == "first" and state == 1:
            state = None  # the first row of the first variable is that of the match
        argument_type = self._bound.type(argument) if argument is not None else "BIGINT"
        type_ = type_ or argument_type
        key = (kind, argument.sql() if argument is not None else "", type_, state)
        if key not in self._found:
            name = self.unique(self._base(kind, argument, state))
            # Before the first row of a later variable, the sum of its rows is NULL.
            solid = argument is not None and state in (None, 1) and self._never_null(argument)
            self._found[key] = Accumulator(name, type_, kind, argument, argument_type, state, solid)
        return self._found[key]

    def result(self, aggregate: Aggregate) -> str:
        """The text of an aggregate's value over the helper's columns; what it needs is kept from now on."""
        argument, state = aggregate.argument, aggregate.state
        if argument is None:
            return self.keep("rows", None, state).name
        match aggregate.function:
            case "COUNT":
                return self.keep("count", argument, state, "BIGINT").name
            case "MIN" | "MAX" | "FIRST" | "LAST":
                kinds: dict[str, Kind] = {"MIN": "min", "MAX": "max", "FIRST": "first", "LAST": "last"}
                return self.keep(kinds[aggregate.function], argument, state).name
        type_ = self._bound.type(argument)
        summed = aggregate_types.sum_type(type_) if aggregate.function == "SUM" else aggregate_types.total_type(type_)
        if summed is None:
            raise self._bound.error(
                "BAD_PATTERN_ITEM",
                f"{argument.sql()} is of type {type_}, which has no {aggregate.function}.",
                "Numbers and lengths of time can be added up; the other aggregates take any type.",
            )
        total = self.keep("sum", argument, state, summed).name
        if aggregate.function == "SUM":
            return total
        return aggregate_types.average(total, self.keep("count", argument, state, "BIGINT").name, type_)

    def _base(self, kind: Kind, argument: Scalar | None, state: int | None) -> str:
        words: list[str] = ["ct" if kind == "rows" else kind]
        if state is not None:
            words.append(self._machine.variables[state - 1].name)
        if argument is not None:
            words.append(argument.sql())
        return re.sub(r"[^a-z0-9]+", "_", "_".join(words).lower()).strip("_")

    def _never_null(self, argument: Scalar) -> bool:
        """Whether the column has no NULL, or every edge compares it with something: then none gets into a run."""
        column = argument.tree
        if not isinstance(column, exp.Column):
            return False
        if column.name in self._bound.source.not_null:
            return True

        def tests(predicate: Scalar) -> bool:
            sides = (predicate.tree.this, predicate.tree.expression) if isinstance(predicate.tree, _COMPARISONS) else ()
            return any(
                isinstance(side, exp.Column) and side.table == NEW and side.name.lower() == column.name.lower()
                for side in sides
            )

        return all(any(map(tests, edge.predicates)) for edge in self._machine.edges)
