"""Duplicate elimination over rows that carry their death: the thesis' delta* (3.5.2).

Of each value two deaths are kept: that of the result which was given out, and that of the youngest row seen. When the
result dies before the youngest row does, the value is given out again until then. So what is kept grows with the
results and not with the input, and nothing is ever taken back. Whoever needs signed rows is told when a value comes and
when it has gone.

How the time in which a value is present is cut into results makes no difference: where one ends and the next begins
nothing changes, whoever reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.algebra.deaths import DEATH, NEVER
from headrace.algebra.nodes import Column
from headrace.maintenance.kernels.tables import codes_below, heads, labels
from headrace.maintenance.operators.base import (
    Calendar,
    Clock,
    Input,
    Kept,
    State,
    concat,
    hash_sql,
    hashes_of,
    negated,
    quote,
)
from headrace.storage.bags import Ints, consolidate, distinct, integers, take
from headrace.storage.identity import Bools

GIVEN, YOUNGEST, KEY = Column("__given", "BIGINT"), Column("__youngest", "BIGINT"), Column("__key", "BIGINT")


@dataclass(frozen=True)
class DirectDistinct:
    """`read` has the rows' columns and their death, `keys` are the columns of a value. `signed`: so are the results."""

    read: Input
    keys: tuple[str, ...]
    width: int
    signed: bool = False
    clock: Clock | None = None

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.read,)

    @property
    def _values(self) -> tuple[Column, ...]:
        known = {column.name: column for column in self.read.columns}
        return tuple(known[name] for name in self.keys)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._values if self.signed else (*self._values, DEATH)

    @property
    def states(self) -> tuple[State, ...]:
        keys, last = ", ".join(quote(name) for name in self.keys), f"max({DEATH.name})"
        grouped = f"CAST(1 AS BIGINT) AS __w FROM input_ GROUP BY {keys}"
        results = f"SELECT {keys}, {last} AS {GIVEN.name}, {last} AS {YOUNGEST.name}, {grouped}"
        due = f"SELECT {hash_sql(self.keys, self._values)} AS {KEY.name}, {last} AS {DEATH.name}, {grouped}"
        calendar = Calendar(self.width, in_order=True, hashed=KEY.name)
        return (
            State("results", 0, (*self._values, GIVEN, YOUNGEST), self.keys, results,
                  purpose="the death of each result, and of the youngest row of its value"),
            State("due", 0, (KEY, DEATH), (KEY.name,), due, purpose="which results die when", calendar=calendar),
        )  # fmt: skip

    def delta(self, changes: Sequence[pa.Table], states: Mapping[str, Kept]) -> pa.Table:
        (rows,) = changes
        assert self.clock is not None
        due = states["due"].due(self.clock.before, self.clock.now)
        touched = distinct(np.concatenate([hashes_of(rows), integers(due, KEY.name)]))
        old = states["results"].lookup(touched)
        runs = _Runs.of(old, rows, list(self.keys))
        known = runs.given > -NEVER
        # A result that is still alive only has its youngest row to remember.
        waiting = known & (runs.given > self.clock.now)
        births = np.where(known, runs.given, runs.start)
        new = ~waiting & (runs.end > births)
        given = np.where(waiting, runs.given, runs.end)
        values = _of_values(old, rows, runs.sample, [*self.keys, "__h"])
        self._keep(states, old, values, runs, given, new)
        if self.signed:
            gone = ~waiting & (runs.end <= self.clock.now)
            pieces = [self._results(values, ~known, runs.start, 1), self._results(values, gone, runs.end, -1)]
            return consolidate(concat(pieces, pieces[0].column_names))
        found = self._results(values, new, births, 1)
        return found.add_column(len(self.keys), DEATH.name, pa.array(runs.end[new]))

    def _results(self, values: pa.Table, which: Bools, times: Ints, weight: int) -> pa.Table:
        assert self.clock is not None
        where = np.flatnonzero(which)
        rows = take(values.select(list(self.keys)), where)
        moments = times[where] if self.clock.timed or not self.signed else np.zeros(len(where), dtype=np.int64)
        weights = pa.array(np.full(len(where), weight, dtype=np.int64))
        return rows.append_column("__t", pa.array(moments)).append_column("__w", weights)

    def _keep(
        self, states: Mapping[str, Kept], old: pa.Table, values: pa.Table, runs: _Runs, given: Ints, new: Bools
    ) -> None:
        """Put what each value's last run has come to in the place of what was kept."""
        assert self.clock is not None
        alive = np.flatnonzero(given > self.clock.now)
        rows = take(values, alive)
        names = [*self.keys, GIVEN.name, YOUNGEST.name, "__h", "__w"]
        ones = pa.array(np.ones(len(alive), dtype=np.int64))
        arrays = [*(rows.column(name) for name in self.keys), pa.array(given[alive]), pa.array(runs.end[alive])]
        kept = pa.Table.from_arrays([*arrays, rows.column("__h"), ones], names=names)
        states["results"].add(concat([kept, negated(old)], names))
        fresh = np.flatnonzero(new & (runs.end > self.clock.now))
        hashes = take(values, fresh).column("__h")
        dying = [hashes, pa.array(runs.end[fresh]), hashes, pa.array(np.ones(len(fresh), dtype=np.int64))]
        if len(fresh):
            dates = pa.Table.from_arrays(dying, names=[KEY.name, DEATH.name, "__h", "__w"])
            states["due"].add(dates, self.clock.now)


@dataclass(frozen=True)
class _Runs:
    """The times in which values are present without a break: since when, until when, and a row that has the value.

    `given`: until when a result was given out already, for runs that were there before.
    """

    start: Ints
    end: Ints
    given: Ints
    sample: Ints

    @classmethod
    def of(cls, old: pa.Table, rows: pa.Table, keys: list[str]) -> _Runs:
        groups = codes_below([old, rows], keys)
        begin = np.concatenate([np.full(old.num_rows, -NEVER, dtype=np.int64), integers(rows, "__t")])
        end = np.concatenate([integers(old, YOUNGEST.name), integers(rows, DEATH.name)])
        given = np.concatenate([integers(old, GIVEN.name), np.full(rows.num_rows, -NEVER, dtype=np.int64)])
        # What was kept comes first of its value: rows that are born before all times come behind it.
        order = np.lexsort((np.arange(len(groups)) >= old.num_rows, begin, groups))
        groups, begin, end, given = groups[order], begin[order], end[order], given[order]
        latest = _running_max(groups, end)
        first = np.ones(len(order), dtype=bool)
        first[1:] = (groups[1:] != groups[:-1]) | (begin[1:] > latest[:-1])
        starts = np.flatnonzero(first)
        last = np.append(starts[1:], len(order)) - 1 if len(starts) else starts
        return cls(begin[starts], latest[last], given[starts], order[starts])


def _running_max(groups: Ints, values: Ints) -> Ints:
    """The greatest value so far, within each group; groups stand together, in order."""
    if not len(values):
        return values
    known, ranks = np.unique(values, return_inverse=True)
    place = labels(heads(groups), len(groups)) * len(known)
    return known[np.maximum.accumulate(place + ranks) - place]


def _of_values(old: pa.Table, rows: pa.Table, where: Ints, names: list[str]) -> pa.Table:
    return take(concat([old, rows], names), where)
