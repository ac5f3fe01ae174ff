"""What is known of a view's refreshes: what they took, and where its states stand.

A change that is dearer to follow than the query is to compute is not followed: the view is computed as a whole, and its
states stay where they are. From then on every refresh that following would have made cheaper adds to what is owed.
Once that would have paid for it, the states catch up, or are made anew if that is cheaper. So a bulk load costs what
the query costs, and a view that is only ever changed in bulk never pays for states it does not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from headrace.planner.cost import Costs
from headrace.runtime import states
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object, RefreshRecord
from headrace.storage.transactions import Transaction

#: How far from the estimate a measured refresh may set the next ones.
_LEAST_PACE, _MOST_PACE = 0.1, 30.0


class Way(Enum):
    """What a refresh does."""

    FOLLOW = "follow the changes"
    STAND = "compute the view and leave its states where they are"
    CATCH_UP = "compute the view and bring its states forward by the changes"
    BUILD = "compute the view and make its states anew"


@dataclass(frozen=True)
class Book:
    """Seconds of the query (`whole`) and of making the states (`built`), as measured; None before.

    Following a change took `extra` seconds more than estimated, whatever its rows, and `pace` times what was estimated
    by its rows. `owed`: seconds that following would have saved since the states stand still. `stands`: where they do,
    if that is not where the view is.
    """

    whole: float | None = None
    built: float | None = None
    pace: float = 1.0
    extra: float = 0.0
    owed: float = 0.0
    stands: Mapping[str, Any] | None = None

    def with_whole(self, seconds: float) -> Book:
        return replace(self, whole=seconds if self.whole is None else (self.whole + seconds) / 2)

    def with_followed(self, seconds: float, estimated: Costs) -> Book:
        """What a refresh took tells of `extra` where few rows changed, and of the `pace` of rows where many did."""
        if estimated.by_rows < estimated.fixed + self.extra:
            extra = max(0.0, seconds - estimated.fixed - self.pace * estimated.by_rows)
            return replace(self, extra=_nearer(self.extra, extra, 2 * (self.extra + estimated.fixed)))
        pace = (seconds - estimated.fixed - self.extra) / estimated.by_rows
        return replace(self, pace=_nearer(self.pace, min(_MOST_PACE, max(_LEAST_PACE, pace)), 2 * self.pace))

    def place(self, last: RefreshRecord) -> RefreshRecord:
        """The refresh at which the states stand, for a view that was last refreshed in `last`."""
        return last if self.stands is None else replace(last, **self.stands)

    def standing(self, last: RefreshRecord) -> Book:
        """The book when the view goes on from `last` without its states."""
        if self.stands is not None:
            return self
        place = {"reaches": dict(last.reaches), "read_snapshot": last.read_snapshot, "point": last.point}
        return replace(self, stands=place, owed=0.0)

    def choose(self, now: float, all_: float, whole: float) -> tuple[Way, Book]:
        """The cheapest way, and the book after it: `now` and `all_` are what following takes, in seconds.

        That is for what has changed since the view was refreshed, and since its states stand still.
        """
        if self.stands is None:
            return (Way.FOLLOW if all_ <= whole else Way.STAND), self
        owed = self.owed + max(0.0, whole - now)
        book = replace(self, owed=owed)
        built = all_ if self.built is None else self.built
        if owed < min(all_, built):
            return Way.STAND, book
        return (Way.CATCH_UP if all_ <= built else Way.BUILD), book


def _nearer(known: float, found: float, most: float) -> float:
    """What is known once a refresh has been measured. Slow ones often have reasons that pass, as files nobody had read
    yet, and a view that is not followed any more would never learn that. So one of them counts for `most` at most: a
    view that is dear indeed is found out in a few refreshes, which together take about twice what the last one does."""
    return (known + found) / 2 if found < known else min((3 * known + found) / 4, most)


def book_of(source: Snapshot | Transaction, view: Object) -> Book:
    """What is known of a view; nothing where it has no states."""
    kept = states.states_of(source, view)
    return Book(**kept[0].option("book")) if kept and kept[0].option("book") else Book()


def note(transaction: Transaction, view: Object, book: Book) -> None:
    """Remember it with the view's states, and forget it with them."""
    for item in states.states_of(transaction, view)[:1]:
        states.moved_to(transaction, item, {"book": vars(book)})
