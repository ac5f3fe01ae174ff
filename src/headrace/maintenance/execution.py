"""Running a delta program: the changes of the relations in, the changes of the view and new runs of its states out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.algebra.nodes import Column
from headrace.engine import Engine
from headrace.maintenance.after import finish
from headrace.maintenance.kept import BucketChange, Held, bucket_of, read_note, state_schema
from headrace.maintenance.operators.base import Clock, State
from headrace.maintenance.program import ROOT, Edge, Placed, Program, schedule
from headrace.maintenance.stages import Exit, Slot, Stage, Work, wide_schema
from headrace.maintenance.ticks import tick_table, told
from headrace.maintenance.wide import (
    MARKS,
    NOTE_EDGE,
    ROUTE,
    enter,
    renamed,
    routed,
    step_through,
    typed,
    union_of,
    widened,
)
from headrace.storage.arrangements import Run

#: Rows that operators hand to the engine to be finished leave by edges of their own, numbered from here.
_RAW = 100_000
#: A change of so few rows is not worth a second task.
_FEW = 5_000
#: A state of up to so many rows is read here.
_SMALL = 200_000


@dataclass(frozen=True)
class Outcome:
    """The changes of each result (its columns, `__t`, `__w`; a view has one, number 0) and those of the states."""

    changes: Mapping[int, pa.Table]
    states: tuple[BucketChange, ...]


@dataclass
class Running:
    """One run of one program, wherever it runs. `held`: each state's runs, by operator and name."""

    engine: Engine
    program: Program
    held: Mapping[tuple[int, str], Held]
    root: str
    version: int
    buckets: int
    clock: Clock | None = None
    _notes: list[BucketChange] = field(default_factory=list)

    def finished(self, placed: Placed, rows: pa.Table) -> Any:
        """Let the engine make changes of what an operator gave, as a frame."""
        assert placed.after is not None

        def scans(name: str) -> Any:
            return scan_frame(self.engine, self.root, self.held[placed.number, name])

        return finish(self.engine, placed.after, self.engine.frame(rows), scans)


@dataclass
class Execution(Running):
    """A run in tasks, over about so many `rows` of changes."""

    rows: int = 0
    _ready: dict[int, tuple[Any, bool]] = field(default_factory=dict)
    _found: dict[int, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    def run(
        self,
        changes: Mapping[int, Any],
        dying: Mapping[int, Any] | None = None,
        ticks: Mapping[int, Sequence[int]] | None = None,
    ) -> Outcome:
        """`changes[i]` are signed rows of the query's i-th relation, a frame or a table; left out if it did not change.

        `dying[i]` are those that came, with their death, for direct edges. `ticks` names the buckets of each operator
        in which something falls due.
        """
        direct, due = dying or {}, ticks or {}
        active = self.program.active({*changes, *direct}, due)
        for edge in self.program.edges:
            if edge.number not in active:
                continue
            if edge.scan is not None:
                frame = (direct if edge.direct else changes)[edge.scan.relation]
                self._ready[edge.number] = (self._scanned(edge, frame), True)
            elif edge.is_tick:
                self._ready[edge.number] = (self.engine.frame(tick_table(due[edge.target])), False)
        segments = schedule(self.program, active, self.engine.levels_a_job).segments or ((),)
        for number, levels in enumerate(segments):
            self._segment(levels, active, last=number == len(segments) - 1)
        if any(edge.number in self._ready for edge in self.program.into(ROOT)):
            self._segment((), active, last=True)  # what the engine finished after the last operator
        results = {edge.slot: self._result(edge) for edge in self.program.into(ROOT)}
        return Outcome(results, tuple(self._notes))

    def _result(self, edge: Edge) -> pa.Table:
        schema = wide_schema((*edge.columns, *MARKS[1:3]))
        found = [table.cast(schema) for table in self._found[edge.slot]]
        return pa.concat_tables(found).combine_chunks() if found else schema.empty_table()

    def _scanned(self, edge: Edge, frame: Any) -> Any:
        """A relation's changes under the names that the query's tree has for its columns."""
        assert edge.scan is not None
        names = zip(edge.scan.sources, (column.name for column in edge.scan.columns), strict=True)
        frame = self.engine.frame(frame) if isinstance(frame, pa.Table) else frame
        return renamed(self.engine, frame, names, dying=edge.direct)

    def _segment(self, levels: Sequence[Sequence[int]], active: set[int], *, last: bool) -> None:
        """One job: the levels one after another, and at its end all rows that are still on their way."""
        chain: Any = None
        present: dict[int, Sequence[Column]] = {}
        for level in levels:
            chain, present = self._level(chain, present, level, active)
        if last:
            bound = [edge for edge in self.program.into(ROOT) if edge.number in self._ready]
            chain, present = self._joined_by(chain, present, bound)
        if chain is None:
            return
        self._collect(self.engine.arrow(chain), present)

    def _level(
        self, chain: Any, present: dict[int, Sequence[Column]], level: Sequence[int], active: set[int]
    ) -> tuple[Any, dict[int, Sequence[Column]]]:
        edges = {edge.number: edge for edge in self.program.edges}
        entering = [edges[number] for number in list(self._ready) if edges[number].target in level]
        chain, present = self._joined_by(chain, present, entering)
        consumed = [edges[number] for number in present if number < _RAW and edges[number].target in level]
        wide = union_of(present.values())
        stay = {number: columns for number, columns in present.items() if number not in {e.number for e in consumed}}
        works = [self._work(self.program.operators[number], consumed, active) for number in level]
        leaving = {leave.edge: leave.columns for work in works for leave in work.exits}
        given = union_of([*stay.values(), *leaving.values()])
        stage = Stage(self.root, self.version, self.buckets, tuple(works), tuple(wide), given)
        frame = routed(self.engine, chain, consumed, wide, self.buckets)
        tasks = 1 if self.rows <= _FEW else None
        taken = typed((*MARKS, *wide, *ROUTE))
        chain = self.engine.stage(frame, stage, typed((*MARKS, *given)), "__b", tasks, taken)
        stepping = [edges[number] for number in leaving if number < _RAW]
        raw = [columns for number, columns in leaving.items() if number >= _RAW]
        chain = step_through(self.engine, chain, stepping, union_of([*stay.values(), *raw]))
        after = {number: edges[number].columns if number < _RAW else leaving[number] for number in leaving}
        return chain, {**stay, **after}

    def _joined_by(
        self, chain: Any, present: dict[int, Sequence[Column]], entering: Sequence[Edge]
    ) -> tuple[Any, dict[int, Sequence[Column]]]:
        """The rows on their way, and those of edges that come in now."""
        if not entering:
            return chain, present
        carried = list(present.values())
        present = {**present, **{edge.number: edge.columns for edge in entering}}
        wide = union_of(present.values())
        frames = []
        if chain is not None:
            known = {column.name for columns in carried for column in columns}
            frames.append(widened(self.engine, chain, known, wide))
        for edge in entering:
            frame, through = self._ready.pop(edge.number)
            frames.append(enter(self.engine, frame, edge, wide, through=through))
        joined = frames[0]
        for frame in frames[1:]:
            joined = joined.unionAll(frame)
        return joined, present

    def _work(self, placed: Placed, consumed: Iterable[Edge], active: set[int]) -> Work:
        slots = tuple(Slot(edge.number, edge.slot, edge.columns) for edge in consumed if edge.target == placed.number)
        if placed.after is not None:
            exits: tuple[Exit, ...] = (Exit(_RAW + placed.number, placed.operator.columns),)
        else:
            exits = tuple(
                Exit(edge.number, placed.operator.columns)
                for edge in self.program.out_of(placed.number)
                if edge.number in active
            )
        names = {state.name for state in placed.operator.states}
        states = {name: self.held[placed.number, name] for name in names}
        return Work(placed.number, told(placed.operator, self.clock), slots, exits, states)

    def _collect(self, table: pa.Table, present: Mapping[int, Sequence[Column]]) -> None:
        """Sort what a job gave: notes of its states, changes of the view, and changes that others still wait for."""
        table = table.combine_chunks()
        marks = table.column("__e")
        for note in table.filter(pa.compute.equal(marks, NOTE_EDGE)).column("__note").to_pylist():
            self._notes.append(read_note(note))
        edges = {edge.number: edge for edge in self.program.edges}
        for number, columns in present.items():
            names = [*(column.name for column in columns), "__t", "__w"]
            mine = table.filter(pa.compute.equal(marks, number)).select(names)
            if number >= _RAW:
                self._finish(self.program.operators[number - _RAW], mine)
            elif edges[number].target == ROOT:
                self._found[edges[number].slot].append(mine)
            else:
                self._ready[number] = (self.engine.frame(mine), False)

    def _finish(self, placed: Placed, rows: pa.Table) -> None:
        """What the engine makes of what an operator gave, for whoever reads that operator."""
        done = self.finished(placed, rows)
        for edge in self.program.out_of(placed.number):
            self._ready[edge.number] = (done, True)


def scan_frame(engine: Engine, root: str, held: Held) -> Any:
    """All rows of a state, with their measures; a large one is read by tasks."""
    reader = Scanning(root, held.state)
    runs = [(bucket, some) for bucket, some in held.runs.items() if some]
    if sum(run.rows for _bucket, some in runs for run in some) <= _SMALL:
        tables = [reader.read(some) for _bucket, some in runs]
        return engine.frame(pa.concat_tables(tables) if tables else state_schema(held.state).empty_table())
    listed = pa.table(
        {
            "bucket": pa.array([bucket for bucket, _some in runs], pa.int32()),
            "runs": pa.array([json.dumps([vars(run) for run in some]) for _bucket, some in runs]),
        }
    )
    columns = (*held.state.columns, Column("__h", "BIGINT"), *held.state.measures)
    return engine.stage(engine.frame(listed), reader, typed(columns), "bucket", None)


@dataclass(frozen=True)
class Scanning:
    """The task that reads whole buckets of a state."""

    root: str
    state: State

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("runs").to_pylist():
                yield from self.read([Run(**run) for run in json.loads(text)]).to_batches(max_chunksize=1 << 16)

    def read(self, runs: Sequence[Run]) -> pa.Table:
        return bucket_of(self.root, self.state, runs).scan()
