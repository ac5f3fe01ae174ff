"""Views whose query calls aggregates over a stream, followed row by row: each row is looked at once.

A view is followed so when its query is one SELECT with calls over one stream that only grows. What each group keeps is
committed with the view (`maintenance.user_aggregates.stepping`). Any other such view is computed as a whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.binder import NotBound, bind
from headrace.algebra.core import to_core
from headrace.algebra.pushdown import optimise
from headrace.algebra.user_aggregates.block_of_calls import with_hidden
from headrace.algebra.user_aggregates.calls import is_row_wise
from headrace.errors import EngineError
from headrace.language import Query, RelationRef
from headrace.language.types import arrow_type, ddl_type
from headrace.maintenance.evaluating import Evaluation, evaluation
from headrace.maintenance.kept import BucketChange, Held, KeptBuckets, read_note
from headrace.maintenance.kernels.scalars import NotHere
from headrace.maintenance.logs import log_fields, relation_fields
from headrace.maintenance.operators.base import State
from headrace.maintenance.relations import Relations
from headrace.maintenance.small_logs import resolve
from headrace.maintenance.user_aggregates.blocks import ID, Block
from headrace.maintenance.user_aggregates.evaluating import Work, apart_of
from headrace.maintenance.user_aggregates.known import KIND
from headrace.maintenance.user_aggregates.machine import Machine
from headrace.maintenance.user_aggregates.stepping import Bucketing, Task, given_schema, state_of, take_step
from headrace.runtime import states
from headrace.runtime.home import Home
from headrace.runtime.plans import types_of
from headrace.runtime.whole import as_stored
from headrace.storage.records import Field, Object, RefreshRecord
from headrace.storage.transactions import Transaction
from headrace.storage.writer import write_table

#: Buckets of what the groups keep.
_BUCKETS = 4


class NoStep(Exception):
    """Why new rows cannot be taken in by themselves, in words that end a sentence."""


@dataclass(frozen=True)
class Steps:
    """How a view is followed: its block over `item`, the query of its rows, and what is made of the results."""

    block: Block
    machines: tuple[Machine, ...]
    inner: Query
    outer: Query
    relation: str
    item: Object
    #: What the inner query gives, with `__t` and, of numbered rows, `__seq`.
    schema: pa.Schema

    @property
    def states(self) -> tuple[State, ...]:
        """What is kept for each call."""
        calls = zip(self.block.calls, self.machines, strict=True)
        return tuple(state_of(call, one, self.schema, number) for number, (call, one) in enumerate(calls))

    @property
    def goes_by_clock(self) -> bool:
        return any(machine.goes_by_clock for machine in self.machines)


@dataclass(frozen=True)
class Stepped:
    """What a step did."""

    rows_in: int
    rows_out: int
    groups: int


def steps_of(home: Home, relations: Relations, view: Object, query: Query) -> Steps | str | None:
    """How a view is followed, or why it cannot be; None where its query calls no aggregates over streams."""
    source = relations.source
    inputs = tuple((item.id, item.columns, item.option("retain"), item.log) for item in _read(relations, query))
    aggregates = tuple(item.id for item in source.objects(KIND))
    key = ("steps", query.sql(), aggregates, inputs, view.on_grid)
    if key not in home.plans:
        home.plans[key] = _worked_out(relations, view, query)
    found: Steps | str | None = home.plans[key]
    return found


def _read(relations: Relations, query: Query) -> list[Object]:
    return [relations.source.find(ref.name) for ref in query.relations()]


def _worked_out(relations: Relations, view: Object, query: Query) -> Steps | str | None:
    apart = apart_of(relations, query)
    if apart is None:
        return None
    if len(apart.blocks) != 1:
        return "several of its SELECTs call aggregates over streams"
    taken = apart.blocks[0]
    if view.on_grid:
        return "it calls aggregates over a stream, and is refreshed at points of its own"
    if not is_row_wise(apart.outer):
        return "what it makes of the results of its aggregates is more than a choice of rows and columns"
    work = Work(relations, taken, None)
    timed = work.timed
    if timed is None or not taken.alone or timed.ref != RelationRef(timed.ref.name):
        return "its aggregates are called over more than a stream as it comes"
    if timed.item.log not in ("append", "signed") or not work.streaming:
        return f"its aggregates are called over {timed.item.name}, whose rows may change"
    if timed.item.option("retain") is not None:
        return f"{timed.item.name} forgets rows"
    if taken.inner.reads_clock:
        return "which rows its aggregates are called over changes with time"
    block, inner, types = work.resolved()
    if any(kind == "void" for kind in types.values()):
        return "an argument of its aggregates is always NULL"
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
    if len(block.calls) > 1:
        schema = schema.append(pa.field(ID, pa.int64()))
    machines = tuple(block.machines(schema, ends=False))
    return Steps(block, machines, inner, apart.outer, taken.name, timed.item, schema)


class Stepping:
    """One refresh of one view, by steps."""

    def __init__(self, home: Home, transaction: Transaction, relations: Relations, view: Object, steps: Steps) -> None:
        self._home, self._transaction, self._relations = home, transaction, relations
        self._view, self._steps = view, steps

    def begin(self, point: int | None, reached: int | None) -> Stepped:
        """All rows there are: the view and what its groups keep are made anew."""
        self._create_states()
        self._transaction.remove_parts(self._transaction.parts(self._view))
        parts = self._relations.source.parts(self._steps.item)
        rows = self._in_order(self._logged(parts), None, reached)
        return self._step(rows, point, None)

    def go_on(self, last: RefreshRecord, point: int | None, reached: int | None) -> Stepped:
        """The rows that have come, and what the clock has brought about, since a refresh. Raises `NoStep`."""
        if self._held() is None:
            raise NoStep("what its groups keep was not there")
        return self._step(self._new_rows(last, reached), point, last.point)

    # --- The rows ------------------------------------------------------------------------------------------------

    def _new_rows(self, last: RefreshRecord, reached: int | None) -> pa.Table:
        item = self._steps.item
        seen = last.reaches.get(str(item.id))
        parts = self._relations.source.parts(item)
        came = [part for part in parts if part.arrived_in > last.read_snapshot]
        if item.log == "signed" and not all(part.inserts_only for part in came):
            raise NoStep(f"rows of {item.name} were taken back")
        fresh = self._logged(came)
        # Rows of one time follow each other by their numbers; without numbers, all of a time have to be there.
        first = seen if item.log == "append" or seen is None else seen + 1
        if self._steps.goes_by_clock and last.point is not None:
            first = last.point if first is None else max(first, last.point)
        if first is not None and fresh.num_rows and (oldest := pc.min(fresh.column("__t")).as_py()) < first:
            raise NoStep(f"rows of {item.name} came late, for {oldest / 1_000_000:g} s")
        older = [part for part in parts if part.arrived_in <= last.read_snapshot]
        waiting = [part for part in older if seen is None or part.newest is None or part.newest > seen]
        kept = self._logged(waiting)
        if seen is not None:
            kept = kept.filter(pc.greater(kept.column("__t"), seen))
        return self._in_order(pa.concat_tables([kept, fresh]), None, reached)

    def _logged(self, parts: Sequence[Any]) -> pa.Table:
        schema = pa.schema([(field.name, arrow_type(field.type)) for field in log_fields(self._steps.item)])
        paths = [path for part in parts for path in part.files]
        if not paths:
            return schema.empty_table()
        return self._home.files.read(paths, schema.names).select(schema.names).cast(schema)

    def _in_order(self, rows: pa.Table, since: int | None, upto: int | None) -> pa.Table:
        """Rows of the log as a query sees them, in the order of the stream."""
        item = self._steps.item
        numbered = item.log == "append"
        if not numbered and rows.num_rows:
            weights = rows.column("__w").to_numpy()
            if (weights < 0).any():
                rows = resolve(item, rows, upto, since, False, ("__t",))
            elif (weights > 1).any():
                rows = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), weights)))
        if "__w" in rows.column_names or numbered:
            rows = resolve(item, rows, upto, since, True, ("__t", "__seq") if numbered else ("__t",))
        columns = [name for name in rows.column_names if name not in ("__t", "__seq")]
        keys = ["__seq"] if numbered else [name for name in columns if _sorts(rows.schema.field(name).type)]
        return rows.sort_by([(name, "ascending") for name in ("__t", *keys)])

    def _made_of(self, rows: pa.Table) -> pa.Table:
        """What the block's calls read of the rows: its WHERE, and its expressions."""
        steps = self._steps
        hidden = [Field("__t", "BIGINT"), *([Field("__seq", "BIGINT")] if steps.item.log == "append" else [])]
        fields = [*relation_fields(steps.item), *hidden]
        found = self._row_wise(steps.inner, steps.item.name, fields, rows)
        if ID in steps.schema.names:
            # Not met again in any other refresh.
            ids = (self._transaction.version << 32) + np.arange(found.num_rows, dtype=np.int64)
            found = found.append_column(ID, pa.array(ids))
        order = [("__t", "ascending"), *([("__seq", "ascending")] if "__seq" in found.column_names else [])]
        found = found.select(steps.schema.names).cast(steps.schema)
        return found if found.column("__t").null_count or _is_sorted(found) else found.sort_by(order)

    def _row_wise(self, query: Query, name: str, fields: Sequence[Field], rows: pa.Table) -> pa.Table:
        """A choice of rows and columns: made here if it is surely the same here, else by the engine."""
        known = self._evaluation(query, name, fields)
        names = [field.name for field in fields]
        rows = rows.select(names)
        if known is not None and self._home.files.local:
            try:
                return known[0].over(dict.fromkeys(known[0].scans, rows)).rename_columns(known[1])
            except NotHere:
                pass
        item = Object(-1, name, "table", "given", "", tuple(fields), None)
        seen = replace(
            self._relations, source=_Only(self._relations.source, item), given={name: self._home.engine.frame(rows)}
        )
        return self._home.engine.arrow(seen.rows(query, None))

    def _evaluation(self, query: Query, name: str, fields: Sequence[Field]) -> tuple[Evaluation, list[str]] | None:
        key = ("rowwise", query.sql(), name, tuple(fields))
        if key not in self._home.plans:
            stored = [(name, [(field.name, field.type) for field in fields])]
            try:
                bound = bind(query, stored, lambda text: types_of(self._home, text))
                found = evaluation(to_core(optimise(bound.root)), self._home.engine.kind)
                self._home.plans[key] = None if found is None else (found, list(bound.output))
            except (NotBound, EngineError):
                self._home.plans[key] = None
        known: tuple[Evaluation, list[str]] | None = self._home.plans[key]
        return known

    # --- The step ------------------------------------------------------------------------------------------------

    def _step(self, rows: pa.Table, point: int | None, after: int | None) -> Stepped:
        upto = point if point is not None else 0
        held = self._held()
        assert held is not None
        mine = self._made_of(rows)
        if self._home.fits_here(mine.num_rows) or not self._alike:
            found, changes = self._here(mine, held, upto, after)
        else:
            found, changes = self._in_tasks(mine, held, upto, after)
        states.apply(self._transaction, changes)
        written = self._write(found)
        return Stepped(rows.num_rows, written, sum(change.looked_at for change in changes))

    @property
    def _alike(self) -> bool:
        """Whether all calls are partitioned alike, so that tasks can be cut by that."""
        return len({call.partition for call in self._steps.block.calls}) == 1

    def _here(
        self, rows: pa.Table, held: Sequence[Held], upto: int, after: int | None
    ) -> tuple[pa.Table, list[BucketChange]]:
        root, version = self._home.files.home, self._transaction.version
        kept = [KeptBuckets(root, version, one, range(_BUCKETS), _BUCKETS) for one in held]
        found = take_step(self._steps.block, self._steps.machines, rows, kept, upto, after)
        return found, [change for one in kept for change in one.changes()]

    def _in_tasks(
        self, rows: pa.Table, held: Sequence[Held], upto: int, after: int | None
    ) -> tuple[pa.Table, list[BucketChange]]:
        steps, engine = self._steps, self._home.engine
        key = tuple(steps.block.calls[0].partition)
        if "__seq" not in rows.column_names:
            rows = rows.append_column("__seq", pa.array(np.arange(rows.num_rows, dtype=np.int64)))
        given = given_schema(steps.block, steps.machines, steps.schema)
        task = Task(
            steps.block, steps.schema, given, self._home.files.home, self._transaction.version, tuple(held), upto, after
        )
        placed = pa.Table.from_batches(Bucketing(key, _BUCKETS)(iter(rows.combine_chunks().to_batches())))
        if steps.goes_by_clock:
            placed = pa.concat_tables([placed, _looks(placed.schema)])
        columns = [(field.name, ddl_type(field.type)) for field in given]
        told = engine.arrow(engine.stage(engine.frame(placed), task, columns, "__b", _BUCKETS)).cast(given)
        notes = told.filter(pc.is_valid(told.column("__note"))).column("__note").to_pylist()
        found = told.filter(pc.is_null(told.column("__note"))).drop_columns(["__note"])
        return found, [read_note(note) for note in notes]

    def _write(self, found: pa.Table) -> int:
        """The results as the view shows them, into its log or its content."""
        steps, view = self._steps, self._view
        fields = [Field(name, ddl_type(found.schema.field(name).type)) for name in found.column_names]
        shown = with_hidden(steps.outer, [(steps.relation, "__t", "__t")])
        table = self._row_wise(shown, steps.relation, fields, found).rename_columns([*view.names, "__t"])
        table = as_stored(view, table)
        born = view.option("born")
        if view.log == "state":
            table = table.drop_columns(["__t"])
        elif born is not None:
            # All that a view has at first is released at its birth.
            times = np.maximum(table.column("__t").to_numpy(), int(born))
            table = table.set_column(len(view.names), "__t", pa.array(times))
        table = table.append_column("__w", pa.array(np.ones(table.num_rows, dtype=np.int64)))
        return write_table(self._transaction, view, table, inserts_only=True)

    # --- What is kept --------------------------------------------------------------------------------------------

    def _held(self) -> list[Held] | None:
        kept = {item.option("state"): item for item in states.states_of(self._transaction, self._view)}
        found = []
        for state in self._steps.states:
            item = kept.get(state.name)
            if item is None or item.option("print") != repr(state):
                return None
            found.append(states.held_one(self._transaction, item, state))
        return found

    def _create_states(self) -> None:
        states.drop(self._transaction, self._view)
        for state in self._steps.states:
            name = f"__state_{self._view.id}_{state.name}_{self._transaction.version}_{uuid.uuid4().hex[:4]}"
            fields = tuple(Field(column.name, column.type) for column in state.columns)
            options = {"of": self._view.id, "operator": 0, "state": state.name, "print": repr(state)}
            options["buckets"] = _BUCKETS
            self._transaction.create(
                Object(0, name, states.KIND, "none", state.purpose, fields, state.key, options=options, system=True)
            )


class _Only:
    """A source in which one name means something else."""

    def __init__(self, source: Any, item: Object) -> None:
        self._source, self._item = source, item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def find(self, name: str, *kinds: str) -> Object:
        return self._item if name.lower() == self._item.name.lower() else self._source.find(name, *kinds)

    def parts(self, item: Object) -> Any:
        return () if item.log == "given" else self._source.parts(item)


def _looks(schema: pa.Schema) -> pa.Table:
    """A row for each bucket that has nothing but that, so that the clock is looked at there too."""
    columns = [
        pa.array(np.arange(_BUCKETS, dtype=np.int64)) if field.name == "__b" else pa.nulls(_BUCKETS, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _sorts(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _is_sorted(rows: pa.Table) -> bool:
    times = rows.column("__t").to_numpy()
    return bool((times[1:] >= times[:-1]).all())
