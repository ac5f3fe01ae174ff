"""Refreshing a view by the changes of what it reads, and making the states that this needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.maintenance.building import Building
from headrace.maintenance.deltas import Delta, NoDelta
from headrace.maintenance.execution import Execution
from headrace.maintenance.filling import Piece, log_pieces
from headrace.maintenance.here import Here
from headrace.maintenance.kept import Held
from headrace.maintenance.operators.base import Clock
from headrace.maintenance.points import grid_of, points_between
from headrace.maintenance.program import schedule
from headrace.maintenance.readings import BORN
from headrace.maintenance.relations import Relations, least
from headrace.maintenance.terms import without_empty_terms
from headrace.maintenance.ticks import due_buckets, due_rows
from headrace.planner.cost import Costs, estimate
from headrace.planner.foreign_keys import Change
from headrace.runtime import states
from headrace.runtime.books import Book
from headrace.runtime.deltas import Deltas
from headrace.runtime.directing import joined, living, needs
from headrace.runtime.foreign_keys import references
from headrace.runtime.home import Home
from headrace.runtime.plans import Plan
from headrace.runtime.scans import Read
from headrace.storage.bags import consolidate
from headrace.storage.records import Field, Object, RefreshRecord
from headrace.storage.transactions import Transaction
from headrace.storage.writer import write_table

#: Rows of a state that one bucket is meant to hold.
_ROWS_A_BUCKET = 4_000_000
_LEAST_BUCKETS, _MOST_BUCKETS = 2, 64


@dataclass(frozen=True)
class Changed:
    """What a refresh by changes did: rows in and out, rows of state looked at."""

    rows_in: int
    rows_out: int
    looked_at: int


@dataclass(frozen=True)
class Built:
    """A view's content as its states tell it, under its own names; None where they do not.

    It may be read from files in the stage, so it has to be taken before these go. `spared` are the seconds of the
    engine that were not needed for it any more, because states had been made of the same rows; None if nobody knows.
    """

    content: Any | None = None
    spared: float | None = 0.0


def is_timed(view: Object) -> bool:
    """Whether the view keeps when each of its rows came and went."""
    return view.log == "signed"


def columns_read(plan: Plan) -> dict[int, set[str]]:
    """By object, the columns that a plan reads of it."""
    found: dict[int, set[str]] = {read.item.id: set() for read in plan.reads}
    for scan in (edge.scan for edge in plan.program.edges):
        if scan is not None:
            read = plan.reads[scan.relation]
            # What is read by more than its columns is told apart by all of them.
            found[read.item.id].update(scan.sources if read.reading.plain else (*scan.sources, *read.item.names))
    return found


def gather(
    deltas: Deltas, relations: Relations, view: Object, plan: Plan, last: RefreshRecord, point: int | None
) -> dict[int, Delta]:
    """The change of each relation the plan reads, those without any left out. Raises `NoDelta`."""
    found: dict[int, Delta] = {}
    made: dict[object, Delta] = {}
    timed = is_timed(view) or plan.grows

    def points() -> list[int]:
        query = relations.query_of(view)
        inputs = relations.source.needs(view)
        return points_between(relations, inputs, last.point, point, grid_of(relations, view), query)

    shown = columns_read(plan)
    for number, source in enumerate(plan.reads):
        item, window, reading = source.item, source.ref.window, source.reading
        signed, direct = needs(plan.program, number)
        key = (item.id, window, reading, signed, direct)
        if key not in made:
            upto = relations.reach(item, relations.source.parts(item))
            if view.on_grid:
                if item.log == "state":
                    raise NoDelta(f"{item.name} may be ahead of {view.name}'s own points, and keeps no times")
                upto = least(upto, point)
            read = _as_read(view, last)
            clock = (last.point, point or 0)
            if not reading.plain or (window is not None and item.log != "append"):
                made[key] = deltas.of_reading(item, window, reading, read, upto, clock, points, timed=timed)
            elif window is not None:
                delta = deltas.of_window(item, window, read, upto, clock, timed=timed) if signed else None
                births = deltas.of_births(item, window, read, upto, clock) if direct else None
                made[key] = joined(delta, births) if births is not None else delta  # type: ignore[assignment]
            else:
                made[key] = deltas.of(item, read, upto, shown[item.id], timed=timed, within=view.on_grid)
        delta = made[key]
        # At the view's own point more may come: what is there changes again, and its log is netted when it is read.
        # A result that only comes cannot be taken back there, though.
        edge = None if last.point is None else last.point + plan.grows
        if timed and edge is not None and delta.oldest is not None and delta.oldest < edge:
            raise NoDelta(f"{item.name} changed at a time that was already past")
        if delta.rows:
            found[number] = delta
    return found


def _as_read(view: Object, last: RefreshRecord) -> RefreshRecord:
    """On a grid, a view has read its inputs only up to its own point."""
    if not view.on_grid or last.point is None:
        return last
    reaches = {item: min(time, last.point) for item, time in last.reaches.items()}
    return replace(last, reaches=reaches)


def can_stand(view: Object, plan: Plan) -> bool:
    """Whether a view can be computed as a whole while its states stay where they are.

    Not where anything goes by the clock, or where the view keeps when its rows came and went.
    """
    plain = all(read.reading.plain and read.ref.window is None for read in plan.reads)
    return view.log == "state" and not view.on_grid and plain and not (plan.grows or plan.lifetimes)


def changed_rows(deltas: Deltas, plan: Plan, since: RefreshRecord) -> dict[int, int]:
    """About how many rows of each relation have changed, without reading any. Raises `NoDelta`."""
    found = {}
    for number, read in enumerate(plan.reads):
        rows = deltas.count(read.item, since)
        if rows:
            found[number] = rows
    return found


def costs(
    home: Home, plan: Plan, kept: dict[tuple[int, str], Held], clock: Clock, changed: dict[int, int], total: int,
    book: Book,
) -> Costs:  # fmt: skip
    """What the refresh would take by changes, and as a whole."""
    ticking = due_buckets(plan.program, kept, clock)
    here = home.fits_here(sum(changed.values()))
    planned = schedule(plan.program, plan.program.active(changed, ticking), 1_000 if here else home.engine.levels_a_job)
    return estimate(
        home.engine.kind,
        levels=sum(len(levels) for levels in planned.segments),
        jobs=max(1, len(planned.segments)),
        changed=sum(changed.values()) + due_rows(plan.program, kept, clock),
        total=total,
        operators=len(plan.program.operators),
        measured=book.whole,
        here=here,
        pace=book.pace,
        extra=book.extra,
    )


def refresh_by_changes(
    home: Home,
    transaction: Transaction,
    view: Object,
    plan: Plan,
    held: dict[tuple[int, str], Held],
    changes: dict[int, Delta],
    clock: Clock,
    *,
    write: bool = True,
) -> Changed:
    """Run the view's delta program, take over its states, and add the view's own changes to its log if asked to."""
    rows = sum(delta.rows for delta in changes.values())
    ticks = due_buckets(plan.program, held, clock)
    if not changes and not ticks:
        states.forget_dead(transaction, view, clock.now)
        return Changed(0, 0, 0)
    program = without_empty_terms(
        plan.program, [item.id for item in plan.inputs], references(transaction.base), _kinds(plan, changes)
    )
    told = (home.engine, program, held, home.files.home, transaction.version, _buckets_of(transaction, view), clock)
    run = Here(*told) if home.fits_here(rows) else Execution(*told, rows=rows)
    signed = {number: delta.changes for number, delta in changes.items() if delta.changes is not None}
    dying = {number: delta.dying for number, delta in changes.items() if delta.dying is not None}
    done = run.run(signed, dying, ticks)
    looked_at = states.apply(transaction, done.states)
    states.forget_dead(transaction, view, clock.now)
    table = done.changes.get(0)
    written = 0 if table is None or not write else _write(home.relations(transaction), transaction, view, plan, table)
    return Changed(rows, written, looked_at)


def _kinds(plan: Plan, changes: dict[int, Delta]) -> dict[int, Change]:
    """What the batch does to each object that it changes. With slack, objects are not read up to the same time."""
    found: dict[int, Change] = {}
    for number, delta in changes.items():
        item = plan.inputs[number]
        inserts = delta.inserts_only and item.log == "upsert" and not item.option("slack")
        found[item.id] = "inserts" if inserts else "updates"
    return found


def _write(relations: Relations, transaction: Transaction, view: Object, plan: Plan, table: pa.Table) -> int:
    if plan.grows:
        # What only comes is netted with who made it, and then not again.
        table = consolidate(table.combine_chunks())
        table = table.filter(pc.greater(table.column("__w"), 0))
    names = [*plan.root.names[: len(view.names)], "__t", "__w"]
    table = table.select(names).rename_columns([*view.names, "__t", "__w"])
    grid = grid_of(relations, view)
    if view.log == "state":
        table = table.drop_columns(["__t"])
    elif grid is not None and table.num_rows:
        times = table.column("__t").to_numpy()
        # The first point of a view is its birth, on the grid or not.
        born = np.iinfo(np.int64).min if view.option("born") is None else view.option("born")
        released = np.where(times <= born, born, grid.ceilings(times))
        table = table.set_column(len(view.names), "__t", pa.array(released))
    if view.log == "state" or grid is not None or not plan.grows:
        table = consolidate(table.combine_chunks())
    inserts = table.num_rows == 0 or bool(pc.all(pc.equal(table.column("__w"), 1)).as_py())
    return write_table(transaction, view, table, inserts_only=inserts)


def build_states(
    home: Home, transaction: Transaction, deltas: Deltas, view: Object, plan: Plan, point: int | None,
    reached: dict[int, int], stage: str,
) -> Built:  # fmt: skip
    """Make the view's states anew from what its inputs are now; `stage` is a folder for files on the way."""
    relations = home.relations(transaction)
    total = sum(part.rows for item in plan.inputs for part in relations.source.parts(item))
    buckets = int(view.option("buckets") or _fitting(total))
    deltas.current.keep(unique(plan.inputs), reached, columns_read(plan))
    held = states.create(transaction, view, plan.program, {"buckets": buckets})
    building = _building(home, transaction, view, plan, point, held, total, buckets)
    if home.files.local:
        pieces = {} if view.on_grid else _pieces(home, transaction, deltas, plan, reached)
        building = replace(building, stage=stage, pieces=pieces)
    made, content = building.run()
    states.apply(transaction, made)
    return Built(None if plan.grows else content.toDF(*view.names), building.read_back)


def content_of_states(home: Home, transaction: Transaction, view: Object, plan: Plan, point: int | None) -> Any:
    """The view's content, under its own names, as its states tell it."""
    held = states.held(transaction, view, plan.program)
    assert held is not None
    return _building(home, transaction, view, plan, point, held, 0, 1).content().toDF(*view.names)


def _building(
    home: Home, transaction: Transaction, view: Object, plan: Plan, point: int | None,
    held: dict[tuple[int, str], Held], total: int, buckets: int,
) -> Building:  # fmt: skip
    relations = home.relations(transaction)
    time = point if view.on_grid else None
    frames = {}
    known = {item.id: item for item in transaction.objects("table", "stream", "view")}
    for number, asked in enumerate(plan.reads):
        read = replace(asked, item=known.get(asked.item.id, asked.item))
        direct = needs(plan.program, number)[1]
        frames[number] = living(relations, read, point) if direct else _read(relations, read, time, point)
    return Building(
        home.engine, plan.program, held, frames, total, home.files.home, transaction.version, buckets, plan.lifetimes
    )


def _pieces(
    home: Home, transaction: Transaction, deltas: Deltas, plan: Plan, reached: Mapping[int, int]
) -> dict[int, Callable[[], Iterator[Piece]]]:
    """The relations whose rows lie in files that can be read in this process: keyed ones, and streams without a key."""
    relations, shown = home.relations(transaction), columns_read(plan)
    found: dict[int, Callable[[], Iterator[Piece]]] = {}
    for number, read in enumerate(plan.reads):
        item, upto = read.item, reached.get(read.item.id)
        if item.maintained or not read.reading.plain or read.ref.window is not None:
            continue
        if not shown.get(item.id, set()) <= {*item.names}:
            continue  # such as TS, which is made of the time
        if item.log == "upsert" and deltas.current.pieces(item, upto) is not None:
            found[number] = partial(_current_pieces, deltas, item, upto)
        if item.log == "append":
            paths = [home.files.spark_path(path) for part in relations.source.parts(item) for path in part.files]
            found[number] = partial(log_pieces, paths, (*item.columns, Field("__t", "BIGINT")), upto)
    return found


def _current_pieces(deltas: Deltas, item: Object, upto: int | None) -> Iterator[Piece]:
    return deltas.current.pieces(item, upto) or iter(())


def _read(relations: Relations, read: Read, time: int | None, point: int | None) -> Any:
    """A relation as a plan reads it."""
    item, ref, reading = read.item, read.ref, read.reading
    if reading.versions:
        parts = relations.source.parts(item)
        return relations.logs.versions(item, parts, least(time, relations.reach(item, parts)))
    extra = tuple("__t" if name == BORN else name for name in reading.hidden)
    if ref.window is None or ref.window.kind == "rows":
        frame = relations.at(item, time, extra)
    else:
        frame = relations.windowed(ref, item, point, extra)
    if reading.life is not None:
        frame = frame.where(reading.life.at(str(point or 0)))
    return frame.withColumnRenamed("__t", BORN) if "__t" in extra else frame


def unique(items: Sequence[Object]) -> list[Object]:
    return list({item.id: item for item in items}.values())


def _fitting(rows: int) -> int:
    wanted = _LEAST_BUCKETS
    while wanted < _MOST_BUCKETS and rows > wanted * _ROWS_A_BUCKET:
        wanted *= 2
    return wanted


def _buckets_of(transaction: Transaction, view: Object) -> int:
    found = [item.option("buckets") for item in states.states_of(transaction, view)]
    return int(found[0]) if found else _LEAST_BUCKETS
