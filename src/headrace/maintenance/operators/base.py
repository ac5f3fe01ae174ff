"""What every operator offers: the states it keeps, and `delta`, its output's changes for its inputs' changes.

An operator is plain data, sent to tasks as it is. In a task it sees one bucket: the changes whose key falls there, and
that bucket of each of its states. Changes are tables with the row's columns, `__t`, `__w`, and `__h`, the hash of the
input's key; what `delta` gives has the output's columns, `__t` and `__w`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.algebra.nodes import Column
from headrace.storage.bags import distinct
from headrace.storage.hashing import MOST_DIGITS, TINY, TINY_PLACES

WEIGHT = Column("__w", "BIGINT")
#: How many pages a calendar has for the longest life there can be (thesis 3.6.1).
PAGES = 10
_FLOATS = ("float", "double", "real")
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


@dataclass(frozen=True)
class Clock:
    """What the clock was at the last refresh and is now. Without `timed`, nobody asks at which times between."""

    before: int
    now: int
    timed: bool


@dataclass(frozen=True)
class Calendar:
    """A state cut by the deaths of its rows, `death`, into pages of `width`: what is dead is dropped in whole files.

    A few rows of many pages stay together in one file until they are worth a page each. In order, its rows are not
    found by a key but by their death: that takes the place of the hash. `hashed` is a column that is already the hash
    which decides the bucket.
    """

    width: int
    in_order: bool = False
    hashed: str = ""
    death: str = "__exp"

    def page(self, oldest: int | None, newest: int | None) -> int | None:
        """The page that holds all rows dying between two times; None where that takes several."""
        first, last = (oldest or 0) // self.width, (newest or 0) // self.width
        return first if first == last else None


@dataclass(frozen=True)
class State:
    """A relation an operator keeps: rows of `columns` with additive `measures`, looked up by the hash of `key`.

    `content` is what a fresh one holds, as SQL over the relation `input_` that is the operator's input number `input`.
    A `unique` one has no measures: it holds one row a key, and a row that is added takes the place of the one before.
    """

    name: str
    input: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    content: str
    measures: tuple[Column, ...] = (WEIGHT,)
    purpose: str = ""
    calendar: Calendar | None = None
    unique: bool = False

    @property
    def holds_rows(self) -> bool:
        """Whether a fresh one holds rows of the input, its own columns of them, as often as they are there."""
        return self.content in (_rows_of(self.columns), counted(self.columns))


@dataclass(frozen=True)
class Input:
    """One input: its columns, and those whose hash decides the bucket."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


class Kept(Protocol):
    """One bucket of a state, in a task."""

    def lookup(self, hashes: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """Its rows with one of these hashes: the columns, `__h` and the measures, summed by row.

        Of a unique state, no more than some columns may be asked for, the key among them.
        """

    def newest(self, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Of a unique state, the rows of the keys of some rows, and perhaps of others that hash like them.

        The columns asked for are some, the key and `__h` among them.
        """

    def scan(self) -> pa.Table:
        """All its rows."""

    def due(self, after: int, upto: int) -> pa.Table:
        """Of a calendar in order: the rows that die after a time and up to another."""

    def add(self, rows: pa.Table, dead: int | None = None) -> None:
        """Add rows, and their measures to those of equal ones. Of a calendar, rows dead by a time need not stay."""

    def replace(self, rows: pa.Table) -> None:
        """Hold exactly these rows from now on."""


class Operator(Protocol):
    """One operator of a delta program."""

    @property
    def inputs(self) -> tuple[Input, ...]: ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """What `delta` gives, without `__t` and `__w`."""

    @property
    def states(self) -> tuple[State, ...]: ...

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table: ...


def bag(name: str, number: int, read: Input, key: Sequence[str], purpose: str) -> State:
    """A state that holds an input's rows as they are."""
    return State(name, number, read.columns, tuple(key), _rows_of(read.columns), purpose=purpose)


def _rows_of(columns: Sequence[Column]) -> str:
    return f"SELECT {''.join(f'{quote(column.name)}, ' for column in columns)}CAST(1 AS BIGINT) AS __w FROM input_"


def counted(columns: Sequence[Column]) -> str:
    """What a state holds that has some columns of its input's rows, and how often they are there."""
    keys = ", ".join(quote(column.name) for column in columns)
    listed = f"{keys}, " if keys else ""
    return f"SELECT {listed}count(*) AS __w FROM input_" + (f" GROUP BY {keys}" if keys else "")


def hashes_of(*tables: pa.Table) -> np.ndarray:
    """The distinct hashes in some tables of changes, in order."""
    found = [table.column("__h").to_numpy() for table in tables if table.num_rows]
    return distinct(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def beside(results: pa.Table, spans: pa.Table, names: Sequence[str]) -> pa.Table:
    """The results with some columns of the version they are of."""
    known = spans.column("__version").to_numpy()
    order = np.argsort(known, kind="stable")
    where = pa.array(order[np.searchsorted(known[order], results.column("__version").to_numpy())])
    for name in names:
        results = results.append_column(name, spans.column(name).combine_chunks().take(where))
    return results


def negated(changes: pa.Table) -> pa.Table:
    """The changes taken back."""
    weights = pa.array(-changes.column("__w").to_numpy())
    return changes.set_column(changes.column_names.index("__w"), "__w", weights)


def concat(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Tables of the same columns, one after another, in the order of `names`; the first gives the types."""
    chosen = [table.select(list(names)) for table in tables]
    return pa.concat_tables([table.cast(chosen[0].schema) for table in chosen]).combine_chunks()


def hash_sql(key: Sequence[str], columns: Sequence[Column]) -> str:
    """The 64-bit hash of a key, the same as `storage.hashing` computes where it can.

    Floating-point zeros are one value, as in Spark's own joins and groups.
    """
    if not key:
        return "CAST(0 AS BIGINT)"
    types = {column.name: column.type.lower() for column in columns}
    values = []
    # A column that is asked for twice is hashed twice: the other side of a join may have two columns for it.
    for name in key:
        value = quote(name)
        if types[name] in _FLOATS:
            # Not THEN 0: where all rows have a zero, Sail would hash a constant, and panics.
            value = f"CASE WHEN {value} = 0 THEN abs({value}) ELSE {value} END"
        elif (decimal := _DECIMAL.fullmatch(types[name])) and int(decimal[1]) > MOST_DIGITS:
            text = f"CAST({value} AS STRING)"
            small = int(decimal[2] or 0) > TINY_PLACES
            value = f"CASE WHEN abs({value}) < {TINY:f} THEN '0' ELSE {text} END" if small else text
        elif types[name].startswith("interval"):
            value = f"CAST({value} AS STRING)"  # Sail hashes no intervals
        values.append(value)
    return f"xxhash64({', '.join(values)})"


def quote(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
