"""A query made ready to be evaluated at a time: numbers mean seconds, windowed subqueries stand apart, and it is known
how the result depends on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headrace.algebra.clock_reads import ClockReads, clock_reads
from headrace.algebra.kinds import Fields
from headrace.algebra.seconds import mean_seconds
from headrace.algebra.windowed_subqueries import Lifted, lift, moved_inward
from headrace.language import Query


@dataclass(frozen=True)
class Asked:
    """`query` as it was asked but for numbers that mean seconds; `outer` reads `lifted` subqueries as relations."""

    query: Query
    outer: Query
    lifted: tuple[Lifted, ...]
    reads: ClockReads

    @property
    def internal(self) -> bool:
        """Whether the result only grows, because it is over INTERNAL windows."""
        return any(ref.window is not None and ref.window.internal for ref in self.outer.relations())


def make_ready(query: Query, fields: tuple[Fields, ...], appends: frozenset[str] = frozenset()) -> Asked:
    """Make `query` ready; `fields` are the columns (name, type) of its relations, in order.

    `appends` are those relations, in small letters, whose rows only come.
    """
    # Equal queries are one in the cache, also where they stand in different texts, which only places in errors tell.
    return _made_ready(query, fields, appends, query.text)


@lru_cache(maxsize=512)
def _made_ready(query: Query, fields: tuple[Fields, ...], appends: frozenset[str], _text: str | None) -> Asked:
    meant = moved_inward(mean_seconds(query, fields), appends)
    outer, lifted = lift(meant)
    return Asked(meant, outer, lifted, clock_reads(meant, fields))
