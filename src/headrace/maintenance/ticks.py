"""Ticks: rows that carry nothing but the news that the clock has passed a death, to the buckets where one lies.

A window goes on when nothing arrives. Which buckets hold something that falls due is told by the runs of the states, so
that no task is started for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.maintenance.kept import Held
from headrace.maintenance.operators.base import Clock, Operator
from headrace.maintenance.operators.direct_distinct import DirectDistinct
from headrace.maintenance.operators.direct_join import DirectJoin
from headrace.maintenance.operators.expire import Expire
from headrace.maintenance.operators.expiring_join import ExpiringJoin
from headrace.maintenance.program import TICK, Program
from headrace.storage.arrangements import Run


def told(operator: Operator, clock: Clock | None) -> Operator:
    """The operator with what the clock shows, if it goes by it."""
    if isinstance(operator, Expire | ExpiringJoin | DirectDistinct | DirectJoin):
        return replace(operator, clock=clock)
    return operator


def due_buckets(program: Program, held: Mapping[tuple[int, str], Held], clock: Clock) -> dict[int, list[int]]:
    """By operator, the buckets in which something has died since the clock was read last."""
    found: dict[int, list[int]] = {}
    for edge in program.edges:
        if not edge.is_tick:
            continue
        operator = program.operators[edge.target].operator
        held_ = held[edge.target, "due" if isinstance(operator, DirectDistinct) else "alive"]
        buckets = [bucket for bucket, runs in held_.runs.items() if any(_falls_due(run, clock) for run in runs)]
        if buckets:
            found[edge.target] = sorted(buckets)
    return found


def _falls_due(run: Run, clock: Clock) -> bool:
    """Whether a run may hold a row that has died. Nobody knows where no deaths are noted, so all are looked at."""
    return run.oldest is None or run.newest is None or (run.oldest <= clock.now and run.newest > clock.before)


def due_rows(program: Program, held: Mapping[tuple[int, str], Held], clock: Clock) -> int:
    """About how many rows fall due: a page that is only partly past counts by its share."""
    total = 0.0
    for number in due_buckets(program, held, clock):
        for name in ("alive", "due"):
            runs = [run for some in held[number, name].runs.values() for run in some] if (number, name) in held else []
            total += sum(run.rows * _share(run, clock) for run in runs)
    return round(total)


def _share(run: Run, clock: Clock) -> float:
    if run.oldest is None or run.newest is None:
        return 1.0
    past = min(clock.now, run.newest) - max(clock.before, run.oldest - 1)
    return max(0.0, past / (run.newest - run.oldest + 1))


def tick_table(buckets: Sequence[int]) -> pa.Table:
    """One row a bucket."""
    zeros = pa.array(np.zeros(len(buckets), dtype=np.int64))
    return pa.table({TICK.name: pa.array(buckets, pa.int32()), "__t": zeros, "__w": zeros})
