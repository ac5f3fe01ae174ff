"""Measures that add up, key by key over time: what each was before and after every time at which it changed.

DISTINCT and the set operations follow by arithmetic: they only ask how often a row was there before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from headrace.maintenance.kernels.tables import TIME, codes_below, heads, labels, ordered, stacked
from headrace.storage.bags import HASH, WEIGHT, Ints, integers, take
from headrace.storage.exact import Exact

LEFT, RIGHT = "__l", "__r"


def running(old: pa.Table, changes: pa.Table, keys: Sequence[str], measures: Sequence[str]) -> pa.Table:
    """One row for every key and time in the changes: the key, `__h`, `__t`, `__before_<m>` and `__after_<m>`.

    `old` has the keys and measures, as many rows a key as it likes. Rows come by key, in order of time. Sums are exact;
    ArithmeticError where one does not fit its type.
    """
    names = [*keys, *([HASH] if HASH in changes.column_names else [])]
    ids = codes_below([changes, old], keys)
    mine, olds = ids[: changes.num_rows], ids[changes.num_rows :]
    time = integers(changes, TIME)
    order = ordered(mine, time)
    steps = heads(mine[order], time[order])
    step_of_row = labels(steps, len(order))
    key_of_step = mine[order][steps]
    starts = heads(key_of_step)
    columns = _named(take(changes.select([*names, TIME]), order[steps]))
    for name in measures:
        stack = stacked([changes, old], [name]).column(name)
        numbers = Exact.of(stack, len(stack))
        base = numbers.take(np.arange(changes.num_rows, len(stack))).sums(olds, int(ids.max(initial=-1)) + 1)
        moves = numbers.take(order).sums(step_of_row, len(steps))
        after = moves.running(starts, labels(starts, len(steps))).plus(base.take(key_of_step))
        columns[f"__before_{name}"] = after.minus(moves).arrow(stack.type)
        columns[f"__after_{name}"] = after.arrow(stack.type)
    return pa.table(columns)


def indicator(old: pa.Table, changes: pa.Table, keys: Sequence[str], measure: str = WEIGHT) -> pa.Table:
    """Changes of the bag that has each key once while its measure is above zero: DISTINCT, by counting."""
    steps = running(old, changes, keys, [measure])
    before, after = integers(steps, f"__before_{measure}"), integers(steps, f"__after_{measure}")
    return _signed(steps, (after > 0).astype(np.int64) - (before > 0))


def set_operation(
    kind: Literal["except", "intersect"], all: bool, old: pa.Table, changes: pa.Table, keys: Sequence[str]
) -> pa.Table:
    """Changes of EXCEPT or INTERSECT, from how often each side has a row: measures `__l` and `__r`."""
    steps = running(old, changes, keys, [LEFT, RIGHT])
    before, after = (
        _occurs(kind, all, integers(steps, f"{when}_{LEFT}"), integers(steps, f"{when}_{RIGHT}"))
        for when in ("__before", "__after")
    )
    return _signed(steps, after - before)


def _occurs(kind: str, all: bool, left: Ints, right: Ints) -> Ints:
    """How often the result has a row that the sides have so often."""
    left, right = np.maximum(left, 0), np.maximum(right, 0)
    if kind == "except":
        return np.maximum(left - right, 0) if all else ((left > 0) & (right == 0)).astype(np.int64)
    if kind == "intersect":
        return np.minimum(left, right) if all else ((left > 0) & (right > 0)).astype(np.int64)
    raise ValueError(f"Neither except nor intersect: {kind}")


def _signed(steps: pa.Table, weights: Ints) -> pa.Table:
    moved = np.flatnonzero(weights)
    names = [name for name in steps.column_names if not name.startswith(("__before_", "__after_"))]
    return take(steps.select(names), moved).append_column(WEIGHT, pa.array(weights[moved]))


def _named(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))
