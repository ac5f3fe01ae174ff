"""Running a delta program in this process: for changes that fit, over states that lie on this machine.

The kernels are those of tasks, and so are the files they write; what is spared is the engine's way of getting rows to
them. What the steps of edges compute is computed here where that is surely the same (`kernels.scalars`), and else asked
of the engine, in one job for all edges that leave a level.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.deaths import DEATH
from headrace.algebra.nodes import Column
from headrace.errors import EngineError, HeadraceError
from headrace.language.types import arrow_type
from headrace.maintenance.execution import Outcome, Running
from headrace.maintenance.kept import KeptBucket, KeptBuckets
from headrace.maintenance.kernels.scalars import NotHere, through
from headrace.maintenance.operators.base import Operator, State
from headrace.maintenance.program import ROOT, TICK, Edge, Placed, schedule
from headrace.maintenance.stages import wide_schema
from headrace.maintenance.ticks import tick_table, told
from headrace.maintenance.wide import MARKS, enter, renamed, routed, union_of
from headrace.storage.hashing import can_hash, hashes
from headrace.storage.runs import written_together

#: Changes of more rows are worth several threads.
_MANY = 20_000
_THREADS = os.cpu_count() or 2


@dataclass
class Here(Running):
    """A run in this process; see `execution.Execution`, which does the same in tasks."""

    _arrived: dict[int, pa.Table] = field(default_factory=dict)

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
                    self._arrive(self._operate(level, active))
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
                passed = _passed(edges[number], self.engine.kind, rows)
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

    def _operate(self, level: Sequence[int], active: set[int]) -> dict[int, Any]:
        """What the operators of a level give for the changes that came to them, by the edge it leaves by."""
        came = [edge.number for number in level for edge in self.program.into(number) if edge.number in self._arrived]
        rows = sum(self._arrived[number].num_rows for number in came)
        work = [task for number in level for task in self._tasks(self.program.operators[number])]
        if rows > _MANY:
            with ThreadPoolExecutor(_THREADS) as threads:
                done = list(threads.map(_run, work, [copy_context() for _task in work]))
        else:
            done = [task.run() for task in work]
        leaving: dict[int, Any] = {}
        for number in level:
            placed = self.program.operators[number]
            found = [given for task, given in zip(work, done, strict=True) if task.number == number]
            if found:
                leaving.update(self._leaving(placed, found, active))
        self._notes += [change for task in work for kept in task.states.values() for change in kept.changes()]
        return leaving

    def _tasks(self, placed: Placed) -> list[_Task]:
        """The buckets that changes came to, several at a time."""
        came = [edge for edge in self.program.into(placed.number) if edge.number in self._arrived]
        slots: dict[int, list[tuple[pa.Table, np.ndarray]]] = defaultdict(list)
        for edge in came:
            slots[edge.slot].append(self._routed(edge, self._arrived.pop(edge.number)))
        places = [some for tables in slots.values() for _table, some in tables]
        operator = told(placed.operator, self.clock)
        of = next((edge.buckets for edge in came if edge.buckets), None) or self.buckets
        tasks = []
        for group in _groups(operator, np.concatenate(places)) if places else ():
            states = {state.name: self._kept(placed, state, group, of) for state in operator.states}
            tasks.append(_Task(placed.number, operator, slots, group, states))
        return tasks

    def _kept(self, placed: Placed, state: State, group: Sequence[int], of: int) -> KeptBucket | KeptBuckets:
        held = self.held[placed.number, state.name]
        if len(group) == 1:
            return KeptBucket(self.root, self.version, held, group[0])
        return KeptBuckets(self.root, self.version, held, group, of)

    def _leaving(self, placed: Placed, found: Sequence[pa.Table], active: set[int]) -> dict[int, Any]:
        schema = wide_schema((*placed.operator.columns, *MARKS[1:3]))
        given = pa.concat_tables([table.select(schema.names).cast(schema) for table in found]).combine_chunks()
        edges = [edge.number for edge in self.program.out_of(placed.number) if edge.number in active]
        if placed.after is None or not given.num_rows:
            return dict.fromkeys(edges, given)
        return dict.fromkeys(edges, self.finished(placed, given))

    def _routed(self, edge: Edge, rows: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """The rows with the hash of their key, and the bucket of each."""
        if edge.is_tick:
            return rows, rows.column(TICK.name).to_numpy()
        found = rows.column("__h").to_numpy() if "__h" in rows.column_names else hashes(rows, edge.key)
        if "__h" not in rows.column_names:
            rows = rows.append_column("__h", pa.array(found))
        return rows, found % (edge.buckets or self.buckets) if edge.key else np.zeros(len(found), dtype=np.int64)


@dataclass(frozen=True)
class _Task:
    """An operator and some buckets; what came to it, with the bucket of each row, by the input it came to."""

    number: int
    operator: Operator
    came: Mapping[int, Sequence[tuple[pa.Table, np.ndarray]]]
    group: Sequence[int]
    states: Mapping[str, KeptBucket | KeptBuckets]

    def run(self) -> pa.Table:
        return self.operator.delta([self._changes(slot) for slot in range(len(self.operator.inputs))], self.states)

    def _changes(self, slot: int) -> pa.Table:
        schema = wide_schema((*self.operator.inputs[slot].columns, *MARKS[1:3], Column("__h", "BIGINT")))
        mine = [_only(table.select(schema.names), np.isin(some, self.group)) for table, some in self.came.get(slot, ())]
        here = [table.cast(schema) for table in mine] or [schema.empty_table()]
        return pa.concat_tables(here).combine_chunks()


def _run(task: _Task, context: Context) -> pa.Table:
    return context.run(task.run)


#: What takes rows through the steps of an edge; None where that is the engine's. Programs are kept, so this is too.
_ways: WeakKeyDictionary[Edge, dict[str, Callable[[pa.Table], pa.Table] | None]] = WeakKeyDictionary()


def asks_engine(edge: Edge, engine: str) -> bool:
    """Whether an engine of that kind alone can take rows through an edge's steps."""
    return not edge.is_tick and _way(edge, engine) is None


def _way(edge: Edge, engine: str) -> Callable[[pa.Table], pa.Table] | None:
    known = _ways.setdefault(edge, {})
    if engine not in known:
        known[engine] = through(edge.steps, edge.start, engine) if _can_route(edge) else None
    return known[engine]


def _passed(edge: Edge, engine: str, rows: pa.Table) -> pa.Table | None:
    """Rows after an edge's steps, where these can be taken here; None where the engine has to compute something."""
    way = _way(edge, engine)
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


def _groups(operator: Operator, places: np.ndarray) -> list[list[int]]:
    """The buckets of changed rows, as they are worked on together. The pages of a calendar are kept by bucket."""
    numbers = [int(number) for number in np.unique(places)]
    if any(state.calendar is not None for state in operator.states):
        return [[number] for number in numbers]
    # Kernels spend their time in Arrow and NumPy, which let others run meanwhile.
    count = min(len(numbers), _THREADS) if len(places) > _MANY else 1
    return [numbers[start::count] for start in range(count)]


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
