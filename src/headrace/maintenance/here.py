"""Running a delta program in this process: for changes that fit, over states that lie on this machine.

The kernels are those of tasks, and so are the files they write; what is spared is the engine's way of getting rows to
them. What the steps of edges compute is computed here where that is surely the same (`kernels.scalars`), and else asked
of the engine, in one job for all edges that leave a level.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.deaths import DEATH
from headrace.algebra.nodes import Column
from headrace.engine import Engine
from headrace.errors import EngineError, HeadraceError
from headrace.language.types import arrow_type
from headrace.maintenance.after import finish
from headrace.maintenance.execution import Outcome, scan_frame
from headrace.maintenance.kernels.scalars import NotHere, through
from headrace.maintenance.operators.base import Clock
from headrace.maintenance.program import ROOT, TICK, Edge, Placed, Program, schedule
from headrace.maintenance.stages import BucketChange, Held, KeptBucket, wide_schema
from headrace.maintenance.ticks import tick_table, told
from headrace.maintenance.wide import MARKS, enter, renamed, routed, union_of
from headrace.storage.hashing import can_hash, hashes
from headrace.storage.runs import written_together


@dataclass
class Here:
    """One run of one program; see `execution.Execution`, which does the same in tasks."""

    engine: Engine
    program: Program
    held: Mapping[tuple[int, str], Held]
    root: str
    version: int
    buckets: int
    clock: Clock | None = None
    _arrived: dict[int, pa.Table] = field(default_factory=dict)
    _notes: list[BucketChange] = field(default_factory=list)

    def run(
        self,
        changes: Mapping[int, Any],
        dying: Mapping[int, Any] | None = None,
        ticks: Mapping[int, Sequence[int]] | None = None,
    ) -> Outcome:
        """Each relation's changes are a table, or a frame where only the engine can tell them."""
        direct, due = dying or {}, ticks or {}
        active = self.program.active({*changes, *direct}, due)
        coming: dict[int, Any] = {}
        for edge in self.program.edges:
            if edge.number not in active:
                continue
            if edge.scan is not None:
                coming[edge.number] = self._scanned(edge, (direct if edge.direct else changes)[edge.scan.relation])
            elif edge.is_tick:
                self._arrived[edge.number] = tick_table(due[edge.target])
        with _told_as_tasks_do(), written_together():
            self._arrive(coming)
            for segment in schedule(self.program, active).segments:
                for level in segment:
                    leaving: dict[int, Any] = {}
                    for number in level:
                        leaving.update(self._operate(self.program.operators[number], active))
                    self._arrive(leaving)
        return Outcome({edge.slot: self._result(edge) for edge in self.program.into(ROOT)}, tuple(self._notes))

    def _result(self, edge: Edge) -> pa.Table:
        schema = wide_schema((*edge.columns, *MARKS[1:3]))
        into = [other.number for other in self.program.into(ROOT) if other.slot == edge.slot]
        found = [self._arrived[number] for number in into if number in self._arrived]
        return pa.concat_tables([table.select(schema.names).cast(schema) for table in found] or [schema.empty_table()])

    def _scanned(self, edge: Edge, rows: Any) -> Any:
        """A relation's changes under the names that the query's tree has for its columns."""
        assert edge.scan is not None
        names = list(zip(edge.scan.sources, (column.name for column in edge.scan.columns), strict=True))
        if not isinstance(rows, pa.Table):
            return renamed(self.engine, rows, names, dying=edge.direct)
        kept = [*([DEATH.name] if edge.direct else []), "__t", "__w"]
        columns = [rows.column(old) for old, _new in names] + [rows.column(name) for name in kept]
        return pa.table(columns, names=[*(new for _old, new in names), *kept])

    # --- Along edges ---------------------------------------------------------------------------------------------

    def _arrive(self, coming: Mapping[int, Any]) -> None:
        """Take rows through the steps of their edges."""
        edges = {edge.number: edge for edge in self.program.edges}
        asked: dict[int, Any] = {}
        for number, rows in coming.items():
            if isinstance(rows, pa.Table):
                if not rows.num_rows:
                    continue
                passed = _passed(edges[number], rows)
                if passed is not None:
                    if passed.num_rows:
                        self._arrived[number] = passed
                    continue
                rows = self.engine.frame(rows)
            asked[number] = rows
        if asked:
            self._ask([edges[number] for number in asked], asked)

    def _ask(self, edges: Sequence[Edge], frames: Mapping[int, Any]) -> None:
        wide = union_of(edge.columns for edge in edges)
        joined: Any = None
        for edge in edges:
            frame = enter(self.engine, frames[edge.number], edge, wide, through=True)
            joined = frame if joined is None else joined.unionAll(frame)
        hashed = [edge for edge in edges if not _can_route(edge)]
        if hashed:
            joined = routed(self.engine, joined, hashed, wide, self.buckets)
        table = self.engine.arrow(joined)
        marks = table.column("__e")
        for edge in edges:
            schema = wide_schema((*edge.columns, *MARKS[1:3], *([Column("__h", "BIGINT")] if edge in hashed else [])))
            mine = table if len(edges) == 1 else table.filter(pc.equal(marks, edge.number))
            if mine.num_rows:
                self._arrived[edge.number] = mine.select(schema.names).cast(schema).combine_chunks()

    # --- In operators --------------------------------------------------------------------------------------------

    def _operate(self, placed: Placed, active: set[int]) -> dict[int, Any]:
        """What an operator gives for the changes that came to it, by the edge it leaves by."""
        came = [edge for edge in self.program.into(placed.number) if edge.number in self._arrived]
        tables = [self._routed(edge, self._arrived.pop(edge.number)) for edge in came]
        if not tables:
            return {}
        operator = told(placed.operator, self.clock)
        slots = defaultdict(list)
        for edge, (table, places) in zip(came, tables, strict=True):
            slots[edge.slot].append((table, places))
        found = []
        for bucket in np.unique(np.concatenate([places for _table, places in tables])):
            changes = []
            for slot, read in enumerate(operator.inputs):
                schema = wide_schema((*read.columns, *MARKS[1:3], Column("__h", "BIGINT")))
                mine = [_only(table, places == bucket).select(schema.names) for table, places in slots[slot]]
                here = [table.cast(schema) for table in mine] or [schema.empty_table()]
                changes.append(pa.concat_tables(here).combine_chunks())
            kept = {
                state.name: KeptBucket(self.root, self.version, self.held[placed.number, state.name], int(bucket))
                for state in operator.states
            }
            found.append(operator.delta(changes, kept))
            self._notes += [note for one in kept.values() if (note := one.change()) is not None]
        schema = wide_schema((*operator.columns, *MARKS[1:3]))
        given = pa.concat_tables([table.select(schema.names).cast(schema) for table in found]).combine_chunks()
        leaving = [edge.number for edge in self.program.out_of(placed.number) if edge.number in active]
        if placed.after is None or not given.num_rows:
            return dict.fromkeys(leaving, given)
        return dict.fromkeys(leaving, self._finished(placed, given))

    def _routed(self, edge: Edge, rows: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """The rows with the hash of their key, and the bucket of each."""
        if edge.is_tick:
            return rows, rows.column(TICK.name).to_numpy()
        found = rows.column("__h").to_numpy() if "__h" in rows.column_names else hashes(rows, edge.key)
        if "__h" not in rows.column_names:
            rows = rows.append_column("__h", pa.array(found))
        return rows, found % (edge.buckets or self.buckets) if edge.key else np.zeros(len(found), dtype=np.int64)

    def _finished(self, placed: Placed, rows: pa.Table) -> Any:
        assert placed.after is not None

        def scans(name: str) -> Any:
            return scan_frame(self.engine, self.root, self.held[placed.number, name])

        return finish(self.engine, placed.after, self.engine.frame(rows), scans)


#: What takes rows through the steps of an edge; None where that is the engine's. Programs are kept, so this is too.
_ways: WeakKeyDictionary[Edge, Callable[[pa.Table], pa.Table] | None] = WeakKeyDictionary()


def _passed(edge: Edge, rows: pa.Table) -> pa.Table | None:
    """Rows after an edge's steps, where these can be taken here; None where the engine has to compute something."""
    if not _can_route(edge):
        return None
    if edge not in _ways:
        _ways[edge] = through(edge.steps, edge.start)
    way = _ways[edge]
    if way is None:
        return None
    try:
        return way(rows).select([*(column.name for column in edge.columns), "__t", "__w"])
    except NotHere:
        return None


def _can_route(edge: Edge) -> bool:
    """Whether the hash of an edge's key can be told here."""
    types = {column.name: column.type for column in edge.columns}
    return edge.target == ROOT or can_hash(arrow_type(types[name]) for name in edge.key)


def _only(table: pa.Table, mask: np.ndarray) -> pa.Table:
    return table if mask.all() else table.filter(pa.array(mask))


@contextlib.contextmanager
def _told_as_tasks_do() -> Iterator[None]:
    """What goes wrong in a kernel is told as if a task had failed."""
    try:
        yield
    except HeadraceError:
        raise
    except ArithmeticError as error:
        raise EngineError("ARITHMETIC_OVERFLOW", str(error)) from error
    except Exception as error:
        raise EngineError("TASK_FAILED", str(error) or type(error).__name__) from error
