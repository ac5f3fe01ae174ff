"""Whether a query is better read from a view that contains it: by the rows that go through its operators."""

from __future__ import annotations

from dataclasses import dataclass

#: Less work than this is done before an engine has begun: it is not worth tying one view to another.
LEAST = 100_000


@dataclass(frozen=True)
class Work:
    """Rows that are read, and the joins and groupings they go through. Changes come in the same proportion."""

    rows: int
    operators: int

    @property
    def cost(self) -> int:
        return self.rows * (1 + self.operators)


def is_worth(own: Work, shared: Work) -> bool:
    """Whether a query is read from a view rather than from what both are over."""
    return own.cost - shared.cost >= LEAST
