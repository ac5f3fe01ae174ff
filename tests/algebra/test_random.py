"""Random queries: the operator tree gives the same rows as the query."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, event, given, settings

from headrace.algebra.not_bound import NotBound
from headrace.engine import Engine

from . import data
from .random_queries import queries

TABLES = {
    "t": {"k": "int", "v": "int", "s": "string"},
    "u": {"k": "int", "w": "int", "s": "string"},
    "c": {"k": "int", "y": "int"},
}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=queries(TABLES, depth=2))
def test_random_queries(text: str, sail: Engine, spark: Callable[[], Engine]) -> None:
    try:
        plain, written = data.answer(sail, text, raw=True)
    except NotBound as reason:
        event(f"not bound: {reason.what}")
        raise
    better, better_written = data.answer(sail, text)
    assert better == plain, f"{text}\n{better_written}"
    said = data.judged(text, better, [sail, spark])
    assert said is None, f"{text}\n{said}\n{written}"
