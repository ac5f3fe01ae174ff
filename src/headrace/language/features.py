"""The constructs that parse but do not run yet, found in a query by their node classes."""

from __future__ import annotations

from sqlglot import exp

from headrace.language import nodes

_NAMES: tuple[tuple[type[exp.Expr], str], ...] = (
    (nodes.Pattern, "PATTERN"),
    (exp.MatchRecognize, "MATCH_RECOGNIZE"),
    *((kind, kind.spelling) for kind in nodes.RELATION_TO_STREAM.values()),
)


def find_features(tree: exp.Expr) -> tuple[str, ...]:
    """Names of such constructs, each once, in a fixed order."""
    found: list[str] = []
    for kind, name in _NAMES:
        if tree.find(kind) is not None:
            found.append(name)
    return tuple(found)
