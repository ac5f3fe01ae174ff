"""`@headrace.aggregate`: a class in Python declared as an aggregate, where it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from headrace.algebra.user_aggregates.classes import check_class, reference_of, remember, speaks_of_windows
from headrace.errors import DefinitionError
from headrace.language import CreateAggregate, parse_one
from headrace.language.printing import quote_string

T = TypeVar("T")

#: The declarations of this process: by name in small letters, then the base and the window version.
_statements: dict[str, dict[bool, CreateAggregate]] = {}


def aggregate(signature: str, *, window: bool = False, algebraic: bool = False) -> Callable[[type[T]], type[T]]:
    """Declare a class as an aggregate, which `LOAD AGGREGATES` then makes known to a home.

    Parameters
    ----------
    signature
        The name, the parameters and the results, as in CREATE AGGREGATE: ``"f(x DOUBLE) : DOUBLE"``.
    window
        Whether it is the window version. A class with `expire` or only `step_window` is one in any case.
    algebraic
        Whether results of parts can be put together by the window version (CREATE ALGEBRAIC AGGREGATE).

    Examples
    --------
    >>> import headrace
    >>> @headrace.aggregate("longest(word STRING) : STRING")
    ... class Longest:
    ...     def iterate(self, word):
    ...         self.best = max(getattr(self, "best", ""), word, key=len)
    ...
    ...     def terminate(self):
    ...         return self.best

    Then ``session.sql("LOAD AGGREGATES longest")``.
    """

    def declare(kind: type[T]) -> type[T]:
        reference = reference_of(kind)
        text = f"CREATE AGGREGATE {signature} EXTERNAL {quote_string(reference)}"
        statement = parse_one(text)
        if not isinstance(statement, CreateAggregate) or statement.external != reference:
            raise DefinitionError(
                "BAD_AGGREGATE_CLASS",
                f"'{signature}' does not say what the aggregate takes and returns.",
                hint='Write "name(x DOUBLE) : DOUBLE".',
            )
        remember(kind)
        over = window or speaks_of_windows(reference)
        check_class(reference, len(statement.parameters), window=over)
        statement = replace(statement, window=over, algebraic=algebraic, place=None)
        _statements.setdefault(statement.name.lower(), {})[over] = statement
        return kind

    return declare


def declared_texts() -> dict[str, str]:
    """The aggregates that were declared in this process: their names, and the statements that define each."""
    return {name: ";\n".join(one.sql() for one in versions.values()) for name, versions in _statements.items()}
