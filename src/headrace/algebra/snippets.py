"""Trees made from text, where that says more than building them node by node."""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from headrace.language import Select, parse_one


def select_of(text: str) -> exp.Select:
    """The tree of a SELECT statement."""
    return cast(exp.Select, cast(Select, parse_one(text)).query.tree)
