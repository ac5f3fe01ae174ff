"""What the parts of the binder share while one query is bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.algebra.nodes import Constant
from headrace.algebra.scopes import Relation, Scope
from headrace.algebra.typed import Typer

#: A stored relation: its name, and the name and type of each column.
Stored = tuple[str, Sequence[tuple[str, str]]]


@dataclass
class Context:
    """The parts call each other through it: a FROM binds subqueries, a subquery binds a FROM."""

    typer: Typer
    stored: Sequence[Stored]
    bind_query: Callable[[Context, exp.Expr, Scope], Relation]

    def one_row(self) -> Constant:
        """One row of one column that nobody asks for."""
        column = self.typer.fresh("one", "int")
        return Constant(f"SELECT 1 AS {column.name}", (column,))
