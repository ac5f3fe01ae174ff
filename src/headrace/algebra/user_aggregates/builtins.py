"""The built-in aggregates, as definitions."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.algebra.user_aggregates.definition import Versions


def builtin(name: str, argument_types: Sequence[str]) -> Versions | None:
    """The versions of a built-in aggregate for arguments of some types; None if there is no such."""
    return None
