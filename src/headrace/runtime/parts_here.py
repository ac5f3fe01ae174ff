"""Parts of a view made in this process: its query evaluated over what it reads, where that is known to be the same.

The engine takes as long to begin as this takes for millions of rows. What cannot be evaluated here, or is too much for
one machine's memory, is asked of the engine as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.algebra.nodes import Node, Scan
from headrace.algebra.part_wise.lifting import PART
from headrace.algebra.part_wise.references import Reference
from headrace.maintenance.evaluating import Evaluation, evaluation
from headrace.maintenance.kernels.scalars import NotHere
from headrace.maintenance.panes import panes
from headrace.maintenance.relations import Relations, least
from headrace.maintenance.small_logs import PART_TIMESTAMP
from headrace.runtime.delta_functions import Step
from headrace.runtime.home import Home
from headrace.runtime.part_trees import part_tree
from headrace.storage.bags import Ints, take
from headrace.storage.records import Object
from headrace.storage.writer import MICROS

#: So many columns of as many rows as a change may have are read into this process.
_COLUMNS = 16
#: Below so many rows a copy, rows are multiplied one by one.
_WORTH_A_COPY = 1_000


def part_here(home: Home, relations: Relations, step: Step, part: int, rows: int, view: Object) -> pa.Table | None:
    """The rows of a part, in the view's types; None where the engine has to be asked.

    `rows` is how many the part is made of.
    """
    found = evaluation_of(home, relations, step, rows, view)
    if found is None:
        return None
    tables = {}
    for scan in found.scans:
        table = part_table(home, relations, step, scan.relation, part, scan.sources)
        if table is None:
            return None
        tables[scan] = table
    try:
        return found.over(tables).rename_columns(view.names)
    except NotHere:
        return None


def parts_here(
    home: Home, relations: Relations, step: Step, first: int, last: int, rows: int, view: Object
) -> pa.Table | None:
    """The rows of the parts from `first` to `last`, the last column telling which; None where the engine is asked.

    `rows` is how many are read, each counted once.
    """
    found = evaluation_of(home, relations, step, rows, view, many=True)
    if found is None:
        return None
    tables: dict[Scan, pa.Table] = {}
    after: dict[Node, Callable[[pa.Table], pa.Table]] = {}
    try:
        for scan in found.scans:
            reference = step.inputs[scan.relation][1]
            assert reference is not None
            table = _numbered_rows(home, relations, reference, scan, (first, last))
            if table is None:
                return None
            multiply = partial(_parted, home, reference, (first, last))
            grouped = panes(found.root, scan, PART)
            tables[scan] = multiply(table, PART) if grouped is None else table
            if grouped is not None:
                after[grouped.aggregate] = grouped.merging(multiply)
        return found.over(tables, after).rename_columns([*view.names, PART])
    except NotHere:
        return None


def _numbered_rows(
    home: Home, relations: Relations, reference: Reference, scan: Scan, made: tuple[int, int]
) -> pa.Table | None:
    """What a scan reads for the parts of the view from the first to the last of `made`, each row with its own part."""
    columns = ["__t", *(name for name in scan.sources if name != PART)]
    span = (reference.needs(made[0])[0], reference.needs(made[1])[1])
    table = _read(home, relations, relations.source.find(reference.name), reference, span, columns)
    if table is None:
        return None
    numbers = table.column("__t").to_numpy() // (reference.length * MICROS)
    return table.drop_columns(["__t"]).append_column(PART, pa.array(numbers))


def evaluation_of(
    home: Home, relations: Relations, step: Step, rows: int, view: Object, *, many: bool = False
) -> Evaluation | None:
    """How a step is evaluated here, for one part or for many; None where it cannot be, or `rows` it reads are many."""
    if step.whole or not home.fits_here(rows // _COLUMNS):
        return None
    found = _known(home, relations, step, view, many)
    return None if found is None or not _fits(home, rows, max(len(scan.sources) for scan in found.scans)) else found


def _fits(home: Home, rows: int, columns: int) -> bool:
    return home.fits_here(rows * columns // _COLUMNS)


def part_table(
    home: Home, relations: Relations, step: Step, number: int, part: int, columns: Sequence[str]
) -> pa.Table | None:
    """Some columns of the parts that a part needs of a step's relation; None where the engine has to tell them."""
    reference = step.inputs[number][1]
    assert reference is not None
    item = relations.source.find(reference.name)
    return _read(home, relations, item, reference, reference.needs(part), columns)


def _read(
    home: Home, relations: Relations, item: Object, reference: Reference, span: tuple[int, int], columns: Sequence[str]
) -> pa.Table | None:
    length = reference.length * MICROS
    stored = relations.source.parts(item)
    upto = least((span[1] + 1) * length - 1, relations.reach(item, stored))
    extra = [name for name in columns if name in ("__t", PART_TIMESTAMP)]
    own = [name for name in columns if name not in extra]
    return home.logs.table(item, stored, upto, forgotten_before=span[0] * length, extra=extra, columns=own)


def _parted(home: Home, reference: Reference, made: tuple[int, int], rows: pa.Table, part: str) -> pa.Table:
    """Each row once for every part of the view that it goes into, by the part it is of, which is the column `part`.

    Raises `NotHere` where these are too many.
    """
    if not rows.num_rows:
        return rows
    numbers, whose = _numbered(rows.column(part).to_numpy())
    touched = [reference.touched((int(number), int(number)), made) for number in numbers]
    often = np.array([len(parts) for parts in touched], dtype=np.int64)
    counts = often[whose]
    if not _fits(home, int(counts.sum()), rows.num_columns):
        raise NotHere("too many rows")
    at = rows.column_names.index(part)
    if counts.sum() < _WORTH_A_COPY * often.max():
        starts = np.array([parts[0] if parts else 0 for parts in touched], dtype=np.int64)
        owner = np.repeat(np.arange(rows.num_rows), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return take(rows, owner).set_column(at, part, pa.array(starts[whose][owner] + within))
    # Windows slide, so most rows go into as many of them: all rows once for each is quicker than each row so often.
    copies = []
    for number in range(int(often.max())):
        windows = np.array([parts[number] if number < len(parts) else 0 for parts in touched], dtype=np.int64)
        copy = rows.set_column(at, part, pa.array(windows[whose]))
        copies.append(copy if (counts > number).all() else copy.filter(pa.array(counts > number)))
    return pa.concat_tables(copies) if copies else rows.slice(0, 0)


def _numbered(parts: Ints) -> tuple[Ints, Ints]:
    """The parts there are, and which of them each row lies in."""
    first, span = int(parts.min()), int(parts.max()) - int(parts.min()) + 1
    if span > len(parts):
        numbers, whose = np.unique(parts, return_inverse=True)
        return numbers, whose
    return np.arange(first, first + span), parts - first


def _known(home: Home, relations: Relations, step: Step, view: Object, many: bool) -> Evaluation | None:
    """How the query of a step is evaluated here."""
    root = part_tree(home, relations, step, view, many=many)
    if root is None:
        return None
    if root not in home.plans:
        home.plans[root] = evaluation(root, home.engine.kind)
    known: Evaluation | None = home.plans[root]
    return known
