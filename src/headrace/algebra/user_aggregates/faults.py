"""What is wrong with an aggregate: the block, the statement, the spot in it, and what to write."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import DefinitionError, Place


class Fault(Exception):
    """Something wrong at a node of a statement; whoever knows the statement says where that is."""

    def __init__(self, condition: str, message: str, node: exp.Expr | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.condition, self.message, self.node, self.hint = condition, message, node, hint

    def placed(self, aggregate: str, block: str, statement: str) -> DefinitionError:
        """As the user is told."""
        return DefinitionError(
            self.condition,
            f"{self.message[0].upper()}{self.message[1:]} ({block} of {aggregate}).",
            hint=self.hint,
            place=_place(statement, self.node),
        )


def _place(text: str, node: exp.Expr | None) -> Place:
    spot = None if node is None else next((part for part in node.walk() if "start" in part.meta), None)
    if spot is None:
        return Place(text, 1, 1, len(text))
    start, end = spot.meta["start"], spot.meta["end"]
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    return Place(text, line, column, end - start + 1)
