"""Filling the states of a program from the relations themselves: when a view is made, or its states were lost."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.algebra.deaths import Lifetime, with_deaths
from headrace.algebra.nodes import Column, Node, Scan, SetOperation
from headrace.algebra.text import to_sql
from headrace.algebra.trees import with_children
from headrace.engine import Engine, apart
from headrace.language.types import arrow_type
from headrace.maintenance.execution import scan_frame
from headrace.maintenance.filling import Piece, can_fill, fill, parquet_pieces
from headrace.maintenance.from_files import FromFiles
from headrace.maintenance.kept import BucketChange, Held, KeptBucket, read_note, state_schema
from headrace.maintenance.operators.base import State, hash_sql, quote
from headrace.maintenance.operators.direct_distinct import DirectDistinct
from headrace.maintenance.operators.direct_join import DirectJoin
from headrace.maintenance.operators.emitted import EmittedOperator
from headrace.maintenance.operators.expire import Expire
from headrace.maintenance.operators.expiring_join import ExpiringJoin
from headrace.maintenance.program import Placed, Program
from headrace.maintenance.stages import wide_schema
from headrace.maintenance.wide import MARKS, ROUTE, union_of

#: Up to so many rows to read, states are collected and written here; beyond, tasks write them.
SMALL = 200_000
#: Relations that are made on the way have numbers of their own.
_GIVEN_OUT, _READ_BACK = 1_000, 2_000


@dataclass(frozen=True)
class Filling:
    """The task that writes fresh states: rows with `__e` = the number of their state, routed like changes."""

    root: str
    version: int
    buckets: int
    held: tuple[Held, ...]
    columns: tuple[Column, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        came = [batch for batch in batches if batch.num_rows]
        if not came:
            return
        rows = pa.Table.from_batches(came).cast(wide_schema((*MARKS, *self.columns, *ROUTE))).combine_chunks()
        places = rows.column("__b").to_numpy()
        order = np.argsort(places, kind="stable")
        edges = np.searchsorted(places[order], np.unique(places))
        for start, end in zip(edges, [*edges[1:], len(order)], strict=True):
            place = int(places[order[start]])
            held = self.held[place // self.buckets]
            kept = KeptBucket(self.root, self.version, held, place % self.buckets)
            mine = rows.take(pa.array(order[start:end]))
            kept.add(mine.select(state_schema(held.state).names))
            note = kept.note()
            if note is not None:
                yield from _noted(note)


def _noted(note: str) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"__note": pa.array([note], pa.string())})


@dataclass
class Building:
    """Filling all states of a program; `relations[i]` is the query's i-th relation, `rows` how many they have.

    Results that operators have given out are kept as they are (see `operators.emitted`), so whatever is above them must
    be made from these and not from a second evaluation. They are filled first, from the innermost on.

    `stage` is a folder for files on their way, on this machine: large states are then filled here and not in tasks.
    `pieces` are relations whose rows can be read here, some at a time: states of such rows do without the engine.
    """

    engine: Engine
    program: Program
    held: Mapping[tuple[int, str], Held]
    relations: dict[int, Any]
    rows: int
    root: str
    version: int
    buckets: int
    lifetimes: Mapping[Node, Lifetime] = field(default_factory=dict)
    stage: str | None = None
    pieces: Mapping[int, Callable[[], Iterator[Piece]]] = field(default_factory=dict)
    #: Seconds of the longest evaluation whose result was read back instead of being evaluated again; None where some
    #: result was never evaluated by the engine.
    read_back: float | None = 0.0

    @cached_property
    def _from_files(self) -> FromFiles:
        return FromFiles(self.engine.kind, self.program, self.held, self.pieces, self.root, self.version, self.buckets)

    def run(self) -> tuple[list[BucketChange], Any]:
        """What became of the states, and the program's result as a frame."""
        given = {id(it.node): it for it in self.program.operators if isinstance(it.operator, EmittedOperator)}
        done: dict[int, Scan] = {}
        changes: list[BucketChange] = []
        waiting = [(placed, state) for placed in self.program.operators for state in placed.operator.states]
        while waiting:
            open_ = set(given) - set(done)
            now = [item for item in waiting if not _inside(self._read_by(*item), open_)]
            made = self._fill(now, done)
            changes += made
            waiting = [item for item in waiting if item not in now]
            for placed, _state in now:
                if isinstance(placed.operator, EmittedOperator):
                    held = self.held[placed.number, "emitted"]
                    runs = {change.bucket: change.new for change in made if change.state == held.id}
                    done[id(placed.node)] = self._given_out(placed, replace(held, runs=runs))
        return changes, self._evaluated(self.program.root, done)

    def content(self) -> Any:
        """The program's result as a frame, over the states as they are."""
        given = [placed for placed in self.program.operators if isinstance(placed.operator, EmittedOperator)]
        done = {id(placed.node): self._given_out(placed, self.held[placed.number, "emitted"]) for placed in given}
        return self._evaluated(self.program.root, done)

    def _read_by(self, placed: Placed, state: State) -> tuple[Node, ...]:
        """The nodes a state is made of. What was given out is the node itself, but for the node's own evaluation."""
        if isinstance(placed.operator, EmittedOperator):
            return placed.node.children
        if placed.expires is not None and state.name == "alive":
            return (placed.expires,)
        return ((placed.reads or placed.node.children)[state.input],)

    def _given_out(self, placed: Placed, held: Held) -> Scan:
        number = _GIVEN_OUT + placed.number
        kept = scan_frame(self.engine, self.root, held)
        # Equal results are kept once, with how often they are there.
        times = "explode(sequence(CAST(1 AS BIGINT), __w)) AS __i"
        self.relations[number] = self.engine.sql(f"SELECT *, {times} FROM given_", {"given_": kept}).drop("__i")
        return Scan(number, "given out", placed.node.columns, placed.node.names)

    def _evaluated(self, node: Node, done: Mapping[int, Scan]) -> Any:
        tree = _put(node, done)
        read = {scan.relation: scan for scan in tree.walk() if isinstance(scan, Scan)}
        base = apart("relation_", *(source for scan in read.values() for source in scan.sources))
        names = {number: f"{base}{number}_" for number in read}
        return self.engine.sql(to_sql(tree, names), {name: self.relations[number] for number, name in names.items()})

    def _fill(self, wanted: Sequence[tuple[Placed, State]], done: dict[int, Scan]) -> list[BucketChange]:
        if self.stage is None or self.rows <= SMALL:
            return self._fill_in_tasks(wanted, done)
        here = [(placed, state) for placed, state in wanted if can_fill(state)]
        others = [item for item in wanted if item not in here]
        made = self._fill_in_tasks(others, done) if others else []
        for placed, state in here:
            changes = self._from_files.fill(placed, state, str(self.stage))
            began = time.perf_counter()
            asked = changes is None
            if changes is None:
                changes = self._fill_here(placed, state, done)
            self._from_files.note(placed, state, changes)
            made += changes
            paths = self._from_files.given_out(placed, str(self.stage))
            if paths is not None:
                done[id(placed.node)] = self._scan_of(placed, paths)
                if not asked or self.read_back is None:
                    self.read_back = None
                else:
                    self.read_back = max(self.read_back, time.perf_counter() - began)
        return made

    def _scan_of(self, placed: Placed, paths: Sequence[str]) -> Scan:
        """What an aggregate gives out, read from files: it stands for the node and all that is below it."""
        number = _READ_BACK + placed.number
        columns = ", ".join(f"{quote(column.name)} {column.type}" for column in placed.node.columns)
        self.relations[number] = self.engine.read(paths, columns)
        return Scan(number, "read back", placed.node.columns, placed.node.names)

    def _fill_here(self, placed: Placed, state: State, done: Mapping[int, Scan]) -> list[BucketChange]:
        """Let the engine write a state's content as it comes, and read that back."""
        content = self.engine.sql(state.content, {"input_": self._input(placed, state, done)})
        columns = (*state.columns, *state.measures)
        shown = ", ".join(f"CAST({quote(column.name)} AS {column.type}) AS c{n}" for n, column in enumerate(columns))
        folder = f"{self.stage}/{uuid.uuid4().hex}"
        self.engine.write(self.engine.sql(f"SELECT {shown} FROM content_", {"content_": content}), folder)
        schema = pa.schema([(f"c{n}", arrow_type(column.type)) for n, column in enumerate(columns)])
        paths = sorted(str(path) for path in Path(folder).rglob("*.parquet"))
        names = [column.name for column in columns]
        pieces = parquet_pieces(paths, schema, lambda rows: rows.rename_columns(names))
        held = self.held[placed.number, state.name]
        return fill(held, self.root, self.version, self.buckets, pieces, str(self.stage))

    def _fill_in_tasks(self, wanted: Sequence[tuple[Placed, State]], done: Mapping[int, Scan]) -> list[BucketChange]:
        kept = list(self.held.values())
        wide = union_of((*state.columns, *state.measures) for _placed, state in wanted)
        wide = tuple(column for column in wide if column.name not in {mark.name for mark in MARKS})
        names = {}
        for count, (placed, state) in enumerate(wanted):
            content = self.engine.sql(state.content, {"input_": self._input(placed, state, done)})
            number = kept.index(self.held[placed.number, state.name])
            names[f"state_{count}_"] = _routed(self.engine, content, state, number, wide, self.buckets)
        frame = self.engine.sql(" UNION ALL ".join(f"SELECT * FROM {name}" for name in names), names)
        work = Filling(self.root, self.version, self.buckets, tuple(kept), wide)
        return run_filling(self.engine, frame, work, self.rows)

    def _input(self, placed: Placed, state: State, done: Mapping[int, Scan]) -> Any:
        if isinstance(placed.operator, EmittedOperator):
            children = [_put(child, done) for child in placed.node.children]
            return self._evaluated(with_children(placed.node, children), {})
        (read,) = self._read_by(placed, state)
        if isinstance(placed.operator, Expire | ExpiringJoin | DirectJoin | DirectDistinct):
            return self._evaluated(with_deaths(read, self.lifetimes), done)
        frame = self._evaluated(read, done)
        return frame.toDF(*placed.node.names) if isinstance(placed.node, SetOperation) else frame


def run_filling(engine: Engine, frame: Any, work: Filling, rows: int) -> list[BucketChange]:
    """Write states, here when they are small."""
    if rows <= SMALL:
        batches = list(work(iter(engine.arrow(frame).to_batches())))
        notes = [note for batch in batches for note in batch.column("__note").to_pylist()]
    else:
        notes = (
            engine.arrow(engine.stage(frame, work, [("__note", "STRING")], "__b", None)).column("__note").to_pylist()
        )
    return [read_note(note) for note in notes]


def _inside(nodes: Sequence[Node], wanted: set[int]) -> bool:
    return any(id(below) in wanted for node in nodes for below in node.walk())


def _put(root: Node, instead: Mapping[int, Scan]) -> Node:
    """The tree with some of its nodes replaced."""
    if id(root) in instead:
        return instead[id(root)]
    return with_children(root, [_put(child, instead) for child in root.children])


def _routed(engine: Engine, frame: Any, state: State, number: int, wide: tuple[Column, ...], buckets: int) -> Any:
    mine = {column.name for column in (*state.columns, *state.measures)}
    shown = [f"CAST({number} AS INT) AS __e", "CAST(0 AS BIGINT) AS __t"]
    shown.append("__w" if "__w" in mine else "CAST(0 AS BIGINT) AS __w")
    shown.append("CAST(NULL AS STRING) AS __note")
    for column in wide:
        value = quote(column.name) if column.name in mine else "NULL"
        shown.append(f"CAST({value} AS {column.type}) AS {quote(column.name)}")
    place = f"{number * buckets} + pmod(__h, {buckets})" if state.key else str(number * buckets)
    hashed = state.calendar.hashed if state.calendar is not None else ""
    hash_ = quote(hashed) if hashed else hash_sql(state.key, state.columns)
    text = f"SELECT {', '.join(shown)}, __h, CAST({place} AS INT) AS __b FROM (SELECT *, {hash_} AS __h FROM content_)"
    return engine.sql(text, {"content_": frame})
