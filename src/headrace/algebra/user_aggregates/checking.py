"""Whether the body of an aggregate can be compiled."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.algebra.user_aggregates.definition import Definition, Versions


def check(definition: Definition, known: Mapping[str, Versions]) -> None:
    """Raise for a bad body."""
