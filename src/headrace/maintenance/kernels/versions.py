"""The versions of the groups that changed: each group's rows before the batch and after each of its times.

What cannot be maintained by arithmetic is evaluated over each version apart, and the differences between a version's
result and the next one's are the changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.maintenance.kernels.tables import (
    SINCE,
    TIME,
    UNTIL,
    VERSION,
    codes_below,
    heads,
    labels,
    ordered,
    row_columns,
    spread,
    stacked,
    with_columns,
)
from headrace.storage.bags import HASH, WEIGHT, Ints, consolidate, integers, take
from headrace.storage.exact import Exact
from headrace.storage.identity import nulls


@dataclass(frozen=True)
class Versions:
    """`rows`: the row, `__version` and `__w`, how often that version has it. `spans`: a line for each version.

    A span has `__version`, the key, `__h`, and `__since` and `__until`, the times between which the version holds:
    NULL for a group's first one, which is from before, and for its last one.
    """

    rows: pa.Table
    spans: pa.Table


def versions(old: pa.Table, changes: pa.Table, keys: Sequence[str]) -> Versions:
    """All versions of the groups in the changes; other groups in `old` are left out."""
    names = row_columns(changes)
    rows = stacked([changes, old], names)
    groups = codes_below([changes, old], keys)
    # Changes come first, so the groups they touch have the first numbers.
    mine = groups[: changes.num_rows]
    touched = int(mine.max(initial=-1)) + 1
    time = integers(changes, TIME)
    order = ordered(mine, time)
    steps = heads(mine[order], time[order])
    group_of_step = mine[order][steps]
    # Each group has one version more than it has steps, so step s of group g begins version s + g + 1.
    version_of_change = np.empty(len(order), dtype=np.int64)
    version_of_change[order] = labels(steps, len(order)) + mine[order] + 1
    first = np.searchsorted(group_of_step, np.arange(touched + 1)) + np.arange(touched + 1)
    kept = np.flatnonzero(groups[changes.num_rows :] < touched) + changes.num_rows
    where = np.concatenate([np.arange(changes.num_rows), kept])
    begins = np.concatenate([version_of_change, first[groups[kept]]])
    weights = stacked([changes, old], [WEIGHT]).column(WEIGHT)
    found = _expanded(rows, codes_below([changes, old], names), weights, where, begins, first[1:][groups[where]])
    spans = _spans(changes, keys, group_of_step, time[order][steps], order[steps], first)
    return Versions(found, spans)


def _expanded(rows: pa.Table, ids: Ints, weights: pa.ChunkedArray, where: Ints, begins: Ints, ends: Ints) -> pa.Table:
    """Each row in each version that has it: from the version where its weight changes until it changes again."""
    order = ordered(ids[where], begins)
    where, begins, ends = where[order], begins[order], ends[order]
    events = heads(ids[where], begins)
    owner = ids[where][events]
    starts = heads(owner)
    moves = Exact.of(weights, len(weights)).take(where).sums(labels(events, len(where)), len(events))
    counts = moves.running(starts, labels(starts, len(events))).arrow(pa.int64()).to_numpy()
    begins, ends = begins[events], ends[events]
    again = owner[1:] == owner[:-1]
    ends[:-1][again] = begins[1:][again]
    event, number = spread(np.where(counts > 0, ends - begins, 0))
    found = take(rows, where[events][event])
    return with_columns(found, __version=pa.array(begins[event] + number), __w=pa.array(counts[event]))


def _spans(
    changes: pa.Table, keys: Sequence[str], group_of_step: Ints, times: Ints, samples: Ints, first: Ints
) -> pa.Table:
    count = int(first[-1])
    since, known = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    at = np.arange(len(times)) + group_of_step + 1
    since[at], known[at] = times, True
    until, ended = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    until[at - 1], ended[at - 1] = times, True
    sample = np.empty(count, dtype=np.int64)
    sample[at], sample[at - 1] = samples, samples
    names = [*keys, *([HASH] if HASH in changes.column_names else [])]
    of_key = take(changes.select(names), sample)
    columns = [pa.array(np.arange(count)), *of_key.columns, pa.array(since, mask=~known), pa.array(until, mask=~ended)]
    return pa.Table.from_arrays(columns, names=[VERSION, *names, SINCE, UNTIL])


def explode_weights(table: pa.Table) -> pa.Table:
    """Every row as often as `__w` says, without `__w`."""
    where = np.repeat(np.arange(table.num_rows), integers(table, WEIGHT))
    return take(table.drop_columns([WEIGHT]), where)


def difference(results: pa.Table, spans: pa.Table, drop: Sequence[str] = ()) -> pa.Table:
    """The changes from one version's result to the next one's: its columns but `__version`, `__t` and `__w`."""
    known = integers(spans, VERSION)
    order = np.argsort(known, kind="stable")
    of_result = integers(results, VERSION)
    near = np.minimum(np.searchsorted(known[order], of_result), max(len(known) - 1, 0))
    if len(of_result) and (not len(known) or not np.array_equal(known[order][near], of_result)):
        raise ValueError("A result is of a version that has no span.")
    at = order[near] if len(known) else near
    weights = integers(results, WEIGHT) if WEIGHT in results.column_names else np.ones(len(at), dtype=np.int64)
    rows = results.drop_columns([name for name in (VERSION, WEIGHT, *drop) if name in results.column_names])
    return consolidate(pa.concat_tables([_at(rows, spans, SINCE, at, weights), _at(rows, spans, UNTIL, at, -weights)]))


def _at(rows: pa.Table, spans: pa.Table, edge: str, at: Ints, weights: Ints) -> pa.Table:
    """The rows at one edge of their version's span, if it has that edge, as changes."""
    there = np.flatnonzero(~nulls(spans.column(edge))[at])
    times = take(spans.select([edge]), at[there]).column(edge)
    return with_columns(take(rows, there), __t=times, __w=pa.array(weights[there]))
