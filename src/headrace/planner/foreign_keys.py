"""What a foreign key says of a join's changes: which pairs of old rows and changes cannot meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

#: One side of a term of a join's change: the rows before or after the batch, or those it inserts or deletes.
Rows = Literal["old", "new", "inserted", "deleted"]

#: What a batch does to an object's keys: only inserts keys that were not there, only deletes keys that do not come
#: back, or both with no key among the two. `updates` is anything else; so is a key that stays, with other values.
Change = Literal["inserts", "deletes", "both", "updates"]


@dataclass(frozen=True)
class Reference:
    """A foreign key to build on: `columns` of the object `child` are the key columns `referenced` of `parent`."""

    child: int
    parent: int
    columns: tuple[str, ...]
    referenced: tuple[str, ...]


def joins_nothing_old(
    left: int,
    right: int,
    equal: Iterable[tuple[str, str]],
    references: Sequence[Reference],
    changes: Mapping[int, Change],
) -> frozenset[tuple[Rows, Rows]]:
    """The pairs (rows of `left`, rows of `right`) that join to nothing, by the foreign keys between the two.

    `left` and `right` are ids of objects, `equal` the columns the join compares by ``=`` (not by ``<=>``, to which a
    NULL that refers to nothing is equal), and `changes` what the batch does to each object that it changes.

    Assumed is, for R.fk = S.pk with a foreign key from R to S, that it holds in both states that the terms are made of:
    every fk of R_old that is not NULL is a key of S_old, and of R_new of S_new. So both must be read up to the same
    synchronization point, at whose end the foreign key holds. Assumed is further that the batch's changed keys of S are
    pure inserts (not in S_old) or pure deletes (not in S_new), as `changes` states. Then

    - R_old x inserted S is empty: what R_old refers to was there before; hence deleted R x inserted S too;
    - R_new x deleted S is empty: what R_new refers to is still there; hence inserted R x deleted S too.

    It says nothing of S with `updates`. Filters and projections above R and S, and further conditions of the join, only
    make less match. It is about matches: what an outer join adds for rows without one is for the caller to see to.
    """
    pairs = {(first.lower(), second.lower()) for first, second in equal}
    swapped = {(second, first) for first, second in pairs}
    found: set[tuple[Rows, Rows]] = set()
    if any(_covers(reference, left, right, pairs) for reference in references):
        found |= _empty(changes.get(right))
    if any(_covers(reference, right, left, swapped) for reference in references):
        found |= {(rows, other) for other, rows in _empty(changes.get(left))}
    return frozenset(found)


def _covers(reference: Reference, child: int, parent: int, equal: set[tuple[str, str]]) -> bool:
    """Whether the join compares every column of the foreign key with what it refers to."""
    wanted = zip(reference.columns, reference.referenced, strict=True)
    return (reference.child, reference.parent) == (child, parent) and all(
        (column.lower(), key.lower()) in equal for column, key in wanted
    )


def _empty(change: Change | None) -> set[tuple[Rows, Rows]]:
    """The empty pairs (rows of the child, rows of the parent) when the parent changes so."""
    found: set[tuple[Rows, Rows]] = set()
    if change in ("inserts", "both"):
        found |= {("old", "inserted"), ("deleted", "inserted")}
    if change in ("deletes", "both"):
        found |= {("new", "deleted"), ("inserted", "deleted")}
    return found
