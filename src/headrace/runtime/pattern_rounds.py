"""A part of a pattern's helper made in this process, where groups may have several rows.

The function for parts in which every group has one row is applied in rounds: to the first row of every group, to the
second of those that have one, and so on, each time to the runs that the round before has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.maintenance.evaluating import Evaluation
from headrace.maintenance.kernels.ordering import sort_codes
from headrace.maintenance.kernels.scalars import NotHere
from headrace.maintenance.kernels.tables import heads, labels
from headrace.maintenance.relations import Relations
from headrace.maintenance.small_logs import PART_TIMESTAMP
from headrace.runtime.delta_functions import DeltaFunction, Step
from headrace.runtime.home import Home
from headrace.runtime.parts_here import evaluation_of, part_table
from headrace.storage.bags import codes, take
from headrace.storage.records import Object
from headrace.storage.writer import MICROS

#: Where a group has more rows than these, the engine takes them one by one.
MOST_ROUNDS = 200


def part_in_rounds(
    home: Home, relations: Relations, plain: DeltaFunction, part: int, first: int, rows: int, view: Object
) -> pa.Table | None:
    """The runs at the end of a part; None where the engine has to be asked.

    `plain` is the helper's function for one row a group; `rows` is how many the part is made of.
    """
    steps = [plain.step(part, first), plain.update]
    found = [evaluation_of(home, relations, step, rows, view) for step in steps]
    if found[0] is None or found[1] is None:
        return None
    came = _came(home, relations, steps[0], found[0], found[1], part, view)
    before = None if part == first else _before(home, relations, steps[1], found[1], part)
    if came is None or (part != first and before is None):
        return None
    try:
        runs: pa.Table | None = None
        for number, some in enumerate(_rounds(came, view.option("groups"), view.option("sequence"))):
            if number == MOST_ROUNDS:
                return None
            evaluation = found[0] if number == 0 else found[1]
            step = steps[0] if number == 0 else steps[1]
            old = before if number == 0 else _as_before(runs, view, part)
            tables = {scan: old if _is_own(step, scan.relation) else some for scan in evaluation.scans}
            runs = evaluation.over(tables).rename_columns(view.names)
        return runs
    except NotHere:
        return None


def _is_own(step: Step, number: int) -> bool:
    reference = step.inputs[number][1]
    return reference is not None and reference.own


def _came(
    home: Home, relations: Relations, step: Step, now: Evaluation, later: Evaluation, part: int, view: Object
) -> pa.Table | None:
    """The new rows, with all that any round reads of them."""
    read = [scan.sources for scan in now.scans if not _is_own(step, scan.relation)]
    read += [scan.sources for scan in later.scans if scan.name == step.inputs[0][0]]
    wanted = dict.fromkeys(
        [*view.option("groups"), *view.option("sequence"), *(name for some in read for name in some)]
    )
    number = next(number for number in range(len(step.inputs)) if not _is_own(step, number))
    return part_table(home, relations, step, number, part, list(wanted))


def _before(home: Home, relations: Relations, step: Step, evaluation: Evaluation, part: int) -> pa.Table | None:
    """The runs at the end of the part before."""
    wanted = dict.fromkeys(name for scan in evaluation.scans if _is_own(step, scan.relation) for name in scan.sources)
    number = next(number for number in range(len(step.inputs)) if _is_own(step, number))
    return part_table(home, relations, step, number, part, list(wanted))


def _as_before(runs: pa.Table | None, view: Object, part: int) -> pa.Table:
    """The runs that a round has left, as if the part before had left them."""
    assert runs is not None
    began = (part - 1) * (view.partition_length or 1) * MICROS
    times = pa.array(np.full(runs.num_rows, began, dtype=np.int64)).cast(pa.timestamp("us", tz="UTC"))
    return runs.append_column(PART_TIMESTAMP, times)


def _rounds(rows: pa.Table, groups: Sequence[str], sequence: Sequence[str]) -> Iterator[pa.Table]:
    """The first row of each group, then the second of those that have one, and so on; no rows are one round."""
    ids = codes(rows, list(groups)) if groups else np.zeros(rows.num_rows, dtype=np.int64)
    if not rows.num_rows or int(ids.max()) + 1 == rows.num_rows:
        yield rows
        return
    ordered = sort_codes(rows, [(name, False, True) for name in sequence]) if sequence else np.arange(rows.num_rows)
    place = ordered[np.argsort(ids[ordered], kind="stable")]
    starts = heads(ids[place])
    rank = np.arange(len(place)) - starts[labels(starts, len(place))]
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.flatnonzero(np.diff(rank[by_rank])) + 1
    for some in np.split(place[by_rank], bounds):
        yield take(rows, some)
