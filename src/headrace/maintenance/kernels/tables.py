"""What the kernels share: the names of the columns that are not the row's, stacking, and order by small numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.storage.bags import HASH, WEIGHT, Ints, codes

TIME = "__t"
EXPIRES = "__exp"
VERSION = "__version"
SINCE = "__since"
UNTIL = "__until"

#: When a row dies that never does.
NEVER = 1 << 62

#: The columns that are not the row's own.
SYSTEM = (HASH, TIME, WEIGHT, EXPIRES, VERSION)


def row_columns(table: pa.Table) -> list[str]:
    """The names of the row's own columns."""
    return [name for name in table.column_names if name not in SYSTEM]


def stacked(tables: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    """Some columns of several tables below one another, in the wider type where types differ."""
    # Fields alone: metadata and what is said of NULLs must not keep tables apart.
    bare = [_bare(table, columns) for table in tables]
    same = all(table.schema.equals(bare[0].schema) for table in bare[1:])
    return pa.concat_tables(bare, promote_options="none" if same else "permissive")


def codes_below(tables: Sequence[pa.Table], columns: Sequence[str]) -> Ints:
    """Which rows of several tables below one another are equal on some columns, or on none: then all are."""
    # Arrow forgets how many rows a table without columns has when it is stacked.
    if not columns:
        return np.zeros(sum(table.num_rows for table in tables), dtype=np.int64)
    return codes(stacked(tables, columns), columns)


def with_columns(table: pa.Table, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    """A table with more columns, even where it had none so far."""
    return pa.Table.from_arrays([*table.columns, *columns.values()], names=[*table.column_names, *columns])


def ordered(groups: Ints, values: Ints) -> Ints:
    """Positions by group, then by value. Groups are numbers from 0."""
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    low, high = int(values.min()), int(values.max())
    width = high - low + 1
    if (int(groups.max()) + 1) * width < 1 << 62:
        # One sort is quicker than two.
        return np.argsort(groups * width + (values - low), kind="stable")
    return np.lexsort((values, groups))


def spread(counts: Ints) -> tuple[Ints, Ints]:
    """For counts such as 2, 0, 3: whose each of the five places is (0, 0, 2, 2, 2) and its number (0, 1, 0, 1, 2)."""
    owner = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - starts[owner]


def heads(*sorted_columns: Ints) -> Ints:
    """Where a new combination of values begins, in columns that are sorted together."""
    rows = len(sorted_columns[0])
    new = np.zeros(rows, dtype=np.bool_)
    new[:1] = True
    for values in sorted_columns:
        new[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(new)


def labels(starts: Ints, rows: int) -> Ints:
    """Which of the pieces that begin at `starts` each of the rows lies in."""
    marks = np.zeros(rows, dtype=np.int64)
    marks[starts] = 1
    return np.cumsum(marks) - 1


def _bare(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    names = [f"{number}" for number in range(len(columns))]
    found = pa.Table.from_arrays([table.column(name) for name in columns], names=names)
    return found.rename_columns(list(columns))
