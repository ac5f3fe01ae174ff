"""Which rows of two tables are equal on their keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.maintenance.kernels.tables import spread, stacked
from headrace.storage.bags import HASH, Ints, codes
from headrace.storage.identity import Bools, is_cheap, nulls


def match(
    left: pa.Table, right: pa.Table, left_on: Sequence[str], right_on: Sequence[str], null_safe: Sequence[bool]
) -> tuple[Ints, Ints]:
    """Positions of the pairs whose keys are equal, by left position and then by right.

    A NULL equals a NULL where the key is null-safe, and nothing otherwise. Without keys, all pairs match. Equality is
    that of the keys themselves; hashes only save work, so that it does no harm if they collide.
    """
    if not left.num_rows or not right.num_rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if not left_on:
        return spread(np.full(left.num_rows, right.num_rows))
    names = [f"{number}" for number in range(len(left_on))]
    keys = stacked([_renamed(left, left_on, names), _renamed(right, right_on, names)], names)
    if HASH in left.column_names and HASH in right.column_names and not all(map(is_cheap, keys.schema.types)):
        # Rows without a partner differ by their hashes, and then their keys need not be looked at.
        keys = keys.append_column(HASH, stacked([left, right], [HASH]).column(HASH))
    ids = codes(keys, keys.column_names)
    able = _able(keys, names, null_safe)
    here, there = np.flatnonzero(able[: left.num_rows]), np.flatnonzero(able[left.num_rows :])
    mine, theirs = ids[: left.num_rows][here], ids[left.num_rows :][there]
    there = there[np.argsort(theirs, kind="stable")]
    counts = np.bincount(theirs, minlength=int(ids.max()) + 1)
    owner, number = spread(counts[mine])
    first = (np.cumsum(counts) - counts)[mine]
    return here[owner], there[first[owner] + number]


def _renamed(table: pa.Table, columns: Sequence[str], names: Sequence[str]) -> pa.Table:
    return pa.Table.from_arrays([table.column(name) for name in columns], names=list(names))


def _able(keys: pa.Table, names: Sequence[str], null_safe: Sequence[bool]) -> Bools:
    able = np.ones(keys.num_rows, dtype=np.bool_)
    for name, safe in zip(names, null_safe, strict=True):
        if not safe and keys.column(name).null_count:
            able &= ~nulls(keys.column(name))
    return able
