"""An aggregate as it was defined: its parameters, its tables, the statements of its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.algebra.user_aggregates.classes import written
from headrace.language import CreateAggregate
from headrace.language.aggregates import AggregateTable
from headrace.language.statement import Column

#: The window's rows, as a table of the aggregate.
INWINDOW = "inwindow"


@dataclass(frozen=True)
class Definition:
    """One version of an aggregate: for base calls, or (`window`) for calls over windows that move.

    `returns` has one column or several; that of a plain type bears the aggregate's name. Parameters, tables and results
    may lack types: those are the types of the arguments it is called with.
    """

    name: str
    parameters: tuple[Column, ...]
    returns: tuple[Column, ...]
    tables: tuple[AggregateTable, ...] = ()
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    window: bool = False
    algebraic: bool = False
    external: str | None = None

    @property
    def blocking(self) -> bool:
        """Whether it only tells when its input has ended: a TERMINATE that is not empty."""
        if self.external is not None:
            return "TERMINATE" in written(self.external, window=self.window).blocks
        return bool(self.blocks.get("TERMINATE"))

    @property
    def generic(self) -> bool:
        """Whether the arguments of a call have to tell types."""
        return any(not column.type for column in self.parameters)

    def table(self, name: str) -> AggregateTable | None:
        """One of its tables, by name."""
        return next((table for table in self.tables if table.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class Versions:
    """What is defined under one name: a base version, a window version, or both."""

    name: str
    base: Definition | None = None
    window: Definition | None = None

    @property
    def any(self) -> Definition:
        found = self.base or self.window
        assert found is not None
        return found

    def with_version(self, definition: Definition) -> Versions:
        """With one of them put in its place."""
        return replace(self, window=definition) if definition.window else replace(self, base=definition)


def definition_of(statement: CreateAggregate) -> Definition:
    """What a statement says, not checked."""
    returns = statement.returns
    if isinstance(returns, str):
        returns = (Column(statement.name, returns),)
    # ESL Example 18 leaves WINDOW out: what speaks of the window is for windows.
    speaks = bool(statement.blocks.get("EXPIRE")) or any(one.name.lower() == INWINDOW for one in statement.tables)
    return Definition(
        statement.name, statement.parameters, returns, statement.tables, dict(statement.blocks),
        statement.window or speaks,
        statement.algebraic, statement.external,
    )  # fmt: skip


def types_of(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.type for column in columns)
