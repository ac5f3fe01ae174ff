"""An inner join is bilinear: (L + dL)(R + dR) - LR = dL R + L dR + dL dR.

A pair takes effect when the later of its two rows does, weighs the product, and dies with the first of the two to die.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.maintenance.kernels.matching import match
from headrace.maintenance.kernels.tables import EXPIRES, NEVER, TIME, row_columns, stacked
from headrace.storage.bags import WEIGHT, Ints, integers, take


def bilinear(
    left_changes: pa.Table,
    right_changes: pa.Table,
    left_old: pa.Table,
    right_old: pa.Table,
    left_on: Sequence[str],
    right_on: Sequence[str],
    null_safe: Sequence[bool],
) -> pa.Table:
    """The changes of a join: the rows' columns, left then right, `__t`, `__w`, and `__exp` if any input has it.

    The old sides need only hold the rows that the changes can meet. Pairs that would be dead when they take effect are
    left out. The result is not consolidated.
    """
    dying = any(EXPIRES in table.column_names for table in (left_changes, right_changes, left_old, right_old))
    lefts, rights = row_columns(left_changes), row_columns(right_changes)
    terms = [
        _pairs(left, right, match(left, right, left_on, right_on, null_safe), lefts, rights, dying)
        for left, right in ((left_changes, right_old), (left_old, right_changes), (left_changes, right_changes))
    ]
    some = [term for term in terms if term.num_rows] or terms[2:]
    return some[0] if len(some) == 1 else _below(some)


def _pairs(
    left: pa.Table, right: pa.Table, pairs: tuple[Ints, Ints], lefts: list[str], rights: list[str], dying: bool
) -> pa.Table:
    here, there = pairs
    times = [integers(table, TIME)[at] for table, at in ((left, here), (right, there)) if TIME in table.column_names]
    time = times[0] if len(times) == 1 else np.maximum(*times)
    death = np.empty(0, dtype=np.int64)
    if dying:
        death = np.minimum(_deaths(left)[here], _deaths(right)[there])
        alive = death > time
        here, there, time, death = here[alive], there[alive], time[alive], death[alive]
    weight = _products(integers(left, WEIGHT)[here], integers(right, WEIGHT)[there])
    rows = take(left.select(lefts), here).columns + take(right.select(rights), there).columns
    columns = [*rows, pa.array(time), pa.array(weight), *([pa.array(death)] if dying else [])]
    return pa.Table.from_arrays(columns, names=[*lefts, *rights, TIME, WEIGHT, *([EXPIRES] if dying else [])])


def _deaths(table: pa.Table) -> Ints:
    if EXPIRES not in table.column_names:
        return np.full(table.num_rows, NEVER, dtype=np.int64)
    return integers(table, EXPIRES)


def _products(left: Ints, right: Ints) -> Ints:
    try:
        return np.asarray(pc.multiply_checked(pa.array(left), pa.array(right)).to_numpy())
    except pa.ArrowInvalid as error:
        raise ArithmeticError("The weight of a pair does not fit BIGINT.") from error


def _below(terms: list[pa.Table]) -> pa.Table:
    """The terms below one another; names may occur on both sides of a join."""
    names = terms[0].column_names
    numbered = [f"{number}" for number in range(len(names))]
    return stacked([term.rename_columns(numbered) for term in terms], numbered).rename_columns(names)
