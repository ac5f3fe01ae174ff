"""Bags of rows: tables whose rows carry how often they occur, or other measures that add up.

A bag is consolidated when every row stands there once and none has only zeros for measures. Two tables with the same
consolidated form are the same bag.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.storage.exact import Exact
from headrace.storage.identity import Ints, codes, plain

__all__ = [
    "HASH",
    "WEIGHT",
    "Ints",
    "ascending",
    "codes",
    "consolidate",
    "differ",
    "distinct",
    "firsts",
    "in_groups",
    "in_order",
    "integers",
    "netted",
    "newest",
    "take",
]

HASH = "__h"
WEIGHT = "__w"
#: Up to so many rows, and for so many runs below one another, a plain sort is as quick as any.
_FEW, _RUNS = 4_096, 16


def consolidate(table: pa.Table, measures: Sequence[str] = (WEIGHT,), *, sorted_by_hash: bool = False) -> pa.Table:
    """One row for all that are equal but for their measures, which are added; rows with only zeros are dropped.

    Rows keep the order of their first appearance, or are sorted by `__h`. Types stay, and a sum that does not fit its
    type raises ArithmeticError.
    """
    rows = table.num_rows
    where = np.arange(rows)
    sums = {name: plain(table.column(name)) for name in measures}
    if rows > 1:
        ids = codes(table, [name for name in table.column_names if name not in sums])
        count = int(ids.max()) + 1
        if count < rows:
            where = firsts(ids)
            sums = {name: Exact.of(column, rows).sums(ids, count).arrow(column.type) for name, column in sums.items()}
    kept = _not_zero(list(sums.values()), len(where))
    # Sums are by place in `where`, so places are sorted and dropped before rows are.
    places = np.flatnonzero(kept)
    if sorted_by_hash and len(places) > 1:
        hashes = integers(table, HASH)[where[places]]
        if not (hashes[1:] >= hashes[:-1]).all():
            places = places[in_order(hashes)]
    if len(places) == rows and np.array_equal(places, where):
        return table
    out = take(table, where[places])
    if len(where) < rows:
        for name, column in sums.items():
            out = out.set_column(out.column_names.index(name), table.schema.field(name), column.take(pa.array(places)))
    return out


def netted(changes: pa.Table) -> pa.Table:
    """Changes without those that take each other back. Where rows only come they stay as they are: bags add up."""
    if not changes.num_rows or pc.min(changes.column(WEIGHT)).as_py() > 0:
        return changes
    return consolidate(changes.combine_chunks())


def in_order(hashes: Ints) -> Ints:
    """Where hashes stand in ascending order; equal ones stay as they stand.

    What is in order but for a few places, as runs below one another are, a stable sort merges in one pass. Other hashes
    are sorted with their places in their last bits, which is several times as quick as sorting places by hashes.
    """
    rows = len(hashes)
    if rows < _FEW or np.count_nonzero(hashes[1:] < hashes[:-1]) < _RUNS:
        return np.argsort(hashes, kind="stable")
    places = np.int64((1 << rows.bit_length()) - 1)
    order = np.sort((hashes & ~places) | np.arange(rows)) & places
    found = hashes[order]
    # Hashes that differ in their last bits only are hardly ever there.
    return order if (found[1:] >= found[:-1]).all() else np.argsort(hashes, kind="stable")


def take(table: pa.Table, where: Ints) -> pa.Table:
    """Some rows, by position."""
    # Taking from columns in chunks joins the chunks, once for every call and column.
    if any(column.num_chunks > 1 for column in table.columns):
        table = table.combine_chunks()
    return table.take(pa.array(where, pa.int64()))


def integers(table: pa.Table, name: str) -> Ints:
    """A column of whole numbers without NULLs."""
    column = plain(table.column(name))
    if column.null_count:
        raise ValueError(f"{name} has NULLs.")
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def ascending(columns: Sequence[np.ndarray], among: np.ndarray | None = None) -> bool:
    """Whether rows are in the order of some columns, each after the one before it.

    With `among`, only some of the rows are compared with the one before them.
    """
    same = np.ones(max(0, len(columns[0]) - 1), dtype=np.bool_) if among is None else among.copy()
    for column in columns:
        before, after = column[:-1], column[1:]
        if (same & (after < before)).any():
            return False
        same &= after == before
    return True


def distinct(numbers: Ints) -> Ints:
    """Each number once, in order. NumPy's own way is slower for numbers that are mostly different."""
    if not len(numbers):
        return numbers
    steps = numbers[1:] > numbers[:-1]
    if steps.all():
        return numbers
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])]


def firsts(ids: Ints) -> Ints:
    """Where each id is first seen, for ids that are dense and counted by first appearance."""
    if not len(ids):
        return ids
    highest = np.maximum.accumulate(ids)
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(highest[1:] > highest[:-1]) + 1])


def in_groups(table: pa.Table, key: Sequence[str], within: Sequence[np.ndarray]) -> tuple[Ints, Ints]:
    """An order of the rows by key, and by `within` (the last first) for one key; and the number of each one's group.

    Keys are told apart by `__h`, which is their hash, and compared only where that is the same.
    """
    hashes = integers(table, HASH)
    order = in_order(hashes)
    follows = hashes[order[1:]] == hashes[order[:-1]]
    places = np.flatnonzero(follows)
    # Rows mostly come in order, and to see that is cheaper than to sort them by all there is.
    if not ascending([column[order] for column in reversed(within)], among=follows):
        order = np.lexsort((*within, hashes))
    if len(places) and differ((table, order[places]), (table, order[places + 1]), key):
        ids = codes(table, key)
        order = np.lexsort((*within, ids))
        follows = ids[order[1:]] == ids[order[:-1]]
    return order, np.cumsum(np.append(False, ~follows))[: len(order)]


def differ(ones: tuple[pa.Table, Ints], others: tuple[pa.Table, Ints], key: Sequence[str]) -> bool:
    """Whether any row has another key than the one it is compared with; both as a table and places in it."""
    for name in key:
        one, other = (plain(table.column(name)).take(pa.array(where)) for table, where in (ones, others))
        if one.equals(other):
            continue
        # They may still be the same to us: not-a-number is one value.
        ids = codes(pa.table({"k": pa.concat_arrays([one, other])}), ["k"])
        if not np.array_equal(ids[: len(one)], ids[len(one) :]):
            return True
    return False


def newest(table: pa.Table, key: Sequence[str]) -> Ints:
    """Where the last row of each key stands, in the order of `__h`, which is a hash of the key."""
    hashes = integers(table, HASH)
    order = in_order(hashes)
    follows = hashes[order[1:]] == hashes[order[:-1]]
    shared = np.flatnonzero(follows)
    if not len(shared):
        return order
    if not differ((table, order[shared]), (table, order[shared + 1]), key):
        return order[np.append(~follows, True)]
    alike = np.append(follows, False) | np.append(False, follows)
    places = np.flatnonzero(alike)
    ids = codes(take(table.select(list(key)), order[places]), key)
    last = np.zeros(int(ids.max()) + 1, dtype=np.int64)
    last[ids] = places  # the last one stays
    kept = ~alike
    kept[last] = True
    return order[kept]


def _not_zero(measures: list[pa.Array], rows: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    kept = np.zeros(rows, dtype=np.bool_)
    for column in measures:
        low, *high = Exact.of(column, 1).limbs
        kept |= low != 0
        for limb in high:
            kept |= limb != 0
    return kept
