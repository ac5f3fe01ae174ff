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
from headrace.algebra.nodes import Column
from headrace.algebra.pushdown import optimise
from headrace.algebra.user_aggregates.block_of_calls import with_hidden
from headrace.algebra.user_aggregates.calls import is_row_wise
from headrace.errors import EngineError
from headrace.language import Query, RelationRef
from headrace.language.types import arrow_type, ddl_type
from headrace.maintenance.evaluating import Evaluation, evaluation
from headrace.maintenance.kept import BucketChange, Held, KeptBuckets, read_note
from headrace.maintenance.kernels.ordering import sort_codes
from headrace.maintenance.kernels.scalars import NotHere
from headrace.maintenance.logs import quoted, relation_fields
from headrace.maintenance.operators.base import State, hash_sql
from headrace.maintenance.relations import Relations
from headrace.maintenance.user_aggregates.blocks import ID, Block
from headrace.maintenance.user_aggregates.evaluating import Work, apart_of
from headrace.maintenance.user_aggregates.known import KIND
from headrace.maintenance.user_aggregates.machine import Machine
from headrace.maintenance.user_aggregates.stepping import Task, given_schema, state_of, take_step
from headrace.maintenance.windows import order_of
from headrace.runtime import states
from headrace.runtime.home import Home
from headrace.runtime.plans import types_of
from headrace.runtime.whole import as_stored
from headrace.storage.bags import take
from headrace.storage.hashing import can_hash
from headrace.storage.records import Field, Object, Part, RefreshRecord
from headrace.storage.transactions import Transaction
from headrace.storage.writer import MICROS, write_table

#: Buckets of what the groups keep.
_BUCKETS = 4


#: Parts of a log, and after which time their rows are meant.
_Some = tuple[Sequence[Part], int | None]


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
    if len(taken.inner.relations()) != 1:
        return "which rows its aggregates are called over depends on other relations"
    if taken.inner.reads_clock or apart.outer.reads_clock:
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
        return self._step([(parts, None)], reached, point, None)

    def go_on(self, last: RefreshRecord, point: int | None, reached: int | None) -> Stepped:
        """The rows that have come, and what the clock has brought about, since a refresh. Raises `NoStep`."""
        if self._held() is None:
            raise NoStep("what its groups keep was not there")
        item = self._steps.item
        seen = last.reaches.get(str(item.id))
        parts = self._relations.source.parts(item)
        came = [part for part in parts if part.arrived_in > last.read_snapshot]
        if item.log == "signed" and not all(part.inserts_only for part in came):
            raise NoStep(f"rows of {item.name} were taken back")
        # Rows of one time follow each other by their numbers; without numbers, all of a time have to be there.
        first = seen if item.log == "append" or seen is None else seen + 1
        if self._steps.goes_by_clock and last.point is not None:
            first = last.point if first is None else max(first, last.point)
        oldest = min((part.oldest for part in came if part.oldest is not None), default=None)
        if first is not None and oldest is not None and oldest < first:
            raise NoStep(f"rows of {item.name} came late, for {oldest / MICROS:g} s")
        waiting = [
            part
            for part in parts
            if part.arrived_in <= last.read_snapshot and (seen is None or part.newest is None or part.newest > seen)
        ]
        return self._step([(waiting, seen), (came, None)], reached, point, last.point)

    # --- The rows ------------------------------------------------------------------------------------------------

    @property
    def _hidden(self) -> tuple[str, ...]:
        return ("__t", "__seq") if self._steps.item.log == "append" else ("__t",)

    def _rows_here(self, some: Sequence[_Some], upto: int | None) -> pa.Table | None:
        """The rows of the log as a query sees them; None where only the engine can tell."""
        item, steps = self._steps.item, self._steps
        known = self._evaluation(steps.inner, item.name, self._fields)
        wanted = None
        # Without numbers, rows of one time stand in the order of all their columns.
        if known is not None and item.log == "append":
            wanted = [name for scan in known[0].scans for name in scan.sources]
        found = []
        for parts, since in some:
            columns = None if wanted is None else [name for name in wanted if name not in self._hidden]
            forgotten = None if since is None else since + 1
            table = self._home.logs.table(
                item, parts, upto, forgotten_before=forgotten, extra=self._hidden, columns=columns
            )
            if table is None:
                return None
            found.append(table)
        rows = pa.concat_tables(found)
        return self._ordered(rows)

    def _ordered(self, rows: pa.Table) -> pa.Table:
        """Rows in the order of the stream, NULLs first as the engines have them."""
        if "__seq" in rows.column_names:
            if _in_order(rows):
                return rows
            keys = ["__t", "__seq"]
        else:
            fields = [(field.name, field.type) for field in self._steps.item.columns]
            by = order_of(fields, False).split(", ")
            keys = ["__t", *(name for name in rows.column_names if quoted(name) in by)]
        return take(rows, sort_codes(rows, [(name, False, True) for name in keys]))

    def _rows_of_engine(self, some: Sequence[_Some], upto: int | None) -> Any:
        """The same as a frame, in no order."""
        frame = None
        for parts, since in some:
            forgotten = None if since is None else since + 1
            one = self._home.logs.relation(
                self._steps.item, parts, upto, forgotten_before=forgotten, extra=self._hidden
            )
            frame = one if frame is None else frame.unionByName(one)
        return frame

    @property
    def _fields(self) -> list[Field]:
        return [*relation_fields(self._steps.item), *(Field(name, "BIGINT") for name in self._hidden)]

    def _made_of(self, rows: pa.Table) -> pa.Table:
        """What the block's calls read of rows: its WHERE, and its expressions."""
        steps = self._steps
        found = self._row_wise(steps.inner, steps.item.name, self._fields, rows)
        if ID in steps.schema.names:
            found = found.append_column(ID, pa.array(self._ids(found.num_rows)))
        found = found.select(steps.schema.names).cast(steps.schema)
        if steps.item.log != "append" or _in_order(found):
            return found
        return found.sort_by([("__t", "ascending"), ("__seq", "ascending")])

    def _ids(self, count: int) -> np.ndarray:
        """Numbers of rows that are not met again in any other refresh."""
        return (self._transaction.version << 32) + np.arange(count, dtype=np.int64)

    def _row_wise(self, query: Query, name: str, fields: Sequence[Field], rows: pa.Table) -> pa.Table:
        """A choice of rows and columns: made here if it is surely the same here, else by the engine."""
        known = self._evaluation(query, name, fields)
        if known is not None and self._home.files.local:
            try:
                return known[0].over(dict.fromkeys(known[0].scans, rows)).rename_columns(known[1])
            except NotHere:
                pass
        return self._home.engine.arrow(self._asked(query, name, fields, self._home.engine.frame(rows)))

    def _asked(self, query: Query, name: str, fields: Sequence[Field], frame: Any) -> Any:
        """What a query is over a frame that stands for its one relation."""
        item = Object(-1, name, "table", "given", "", tuple(fields), None)
        seen = replace(self._relations, source=_Only(self._relations.source, item), given={name: frame})
        return seen.rows(query, None)

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

    def _step(self, some: Sequence[_Some], reached: int | None, point: int | None, after: int | None) -> Stepped:
        upto = point if point is not None else 0
        held = self._held()
        assert held is not None
        count = sum(part.rows for parts, _since in some for part in parts)
        found = None
        if self._home.fits_here(count) or not self._taskable:
            rows = self._rows_here(some, reached)
            if rows is None:
                rows = self._ordered(self._home.engine.arrow(self._rows_of_engine(some, reached)))
            found, changes = self._here(self._made_of(rows), held, upto, after)
        else:
            found, changes = self._in_tasks(self._rows_of_engine(some, reached), held, upto, after)
        states.apply(self._transaction, changes)
        return Stepped(count, self._write(found), sum(change.looked_at for change in changes))

    @property
    def _taskable(self) -> bool:
        """Whether tasks can be cut by group: all calls are partitioned alike, and by what engines hash as we do."""
        partitions = {call.partition for call in self._steps.block.calls}
        kinds = [self._steps.schema.field(name).type for name in next(iter(partitions))]
        versions = [call.versions for call in self._steps.block.calls]
        classes = [one.external for pair in versions for one in (pair.base, pair.window) if one is not None]
        # A class of a notebook is nowhere else. Rows of one time that have no numbers are put in order here.
        found = not any(name is not None and name.startswith("__main__:") for name in classes)
        return len(partitions) == 1 and can_hash(kinds) and self._steps.item.log == "append" and found

    def _here(
        self, rows: pa.Table, held: Sequence[Held], upto: int, after: int | None
    ) -> tuple[pa.Table, list[BucketChange]]:
        root, version = self._home.files.home, self._transaction.version
        kept = [KeptBuckets(root, version, one, range(_BUCKETS), _BUCKETS) for one in held]
        found = take_step(self._steps.block, self._steps.machines, rows, kept, upto, after)
        return found, [change for one in kept for change in one.changes()]

    def _in_tasks(
        self, frame: Any, held: Sequence[Held], upto: int, after: int | None
    ) -> tuple[pa.Table, list[BucketChange]]:
        """The same in tasks, each with the groups of a bucket."""
        steps, engine = self._steps, self._home.engine
        inner = self._asked(steps.inner, steps.item.name, self._fields, frame)
        key = steps.block.calls[0].partition
        grouped = [Column(name, ddl_type(steps.schema.field(name).type)) for name in key]
        bucket = f"pmod({hash_sql(key, grouped)}, {_BUCKETS})"
        own = [name for name in steps.schema.names if name != ID]
        columns = [
            f"CAST({quoted(name)} AS {ddl_type(steps.schema.field(name).type)}) AS {quoted(name)}" for name in own
        ]
        if ID in steps.schema.names:
            # Rows are told apart by their numbers, which no two rows of one time share.
            columns.append("xxhash64(`__t`, `__seq`) AS `__id`")
        text = f"SELECT {', '.join(columns)}, CAST({bucket} AS BIGINT) AS `__b` FROM inner_rows"
        if steps.goes_by_clock:
            # A row for each bucket that has nothing but that, so that the clock is looked at there too.
            nothing = ", ".join(
                f"CAST(NULL AS {ddl_type(steps.schema.field(name).type)})" for name in steps.schema.names
            )
            text += f" UNION ALL SELECT {nothing}, CAST(id AS BIGINT) FROM range({_BUCKETS})"
        given = given_schema(steps.block, steps.machines, steps.schema)
        task = Task(
            steps.block, steps.schema, given, self._home.files.home, self._transaction.version, tuple(held), upto, after
        )
        kinds = [(field.name, ddl_type(field.type)) for field in given]
        told = engine.arrow(engine.stage(engine.sql(text, {"inner_rows": inner}), task, kinds, "__b", _BUCKETS)).cast(
            given
        )
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


def _in_order(rows: pa.Table) -> bool:
    """Whether rows stand in the order of the stream already."""
    times, numbers = (rows.column(name).to_numpy() for name in ("__t", "__seq"))
    return bool(((times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (numbers[1:] >= numbers[:-1]))).all())
