"""Signed changes of keyed tables and streams: all of a refresh in one job, for all views that read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.algebra.nodes import Column, Constant, Scan
from headrace.engine import Engine
from headrace.language.types import arrow_type
from headrace.maintenance.execution import Execution
from headrace.maintenance.filling import Piece
from headrace.maintenance.here import Here
from headrace.maintenance.kept import BucketChange, Held, bucket_of
from headrace.maintenance.operators.base import quote
from headrace.maintenance.operators.current_rows import CurrentRows
from headrace.maintenance.program import ROOT, Edge, Placed, Program
from headrace.storage.arrangements import Run
from headrace.storage.records import Object


@dataclass(frozen=True)
class Upserted:
    """A keyed object with new rows in its log: how many, and the runs of its current rows, in how many buckets.

    `kept` are the columns that its current rows have, `shown` those that are wanted of its changes.
    """

    item: Object
    rows: Any
    count: int
    held: Held
    buckets: int
    kept: frozenset[str]
    shown: frozenset[str]


@dataclass(frozen=True)
class Tagged:
    """Signed rows (the columns shown, `__at`, `__t`, `__w`) of each object in turn, and what became of their states."""

    changes: tuple[pa.Table, ...]
    states: tuple[BucketChange, ...]


def current_rows(item: Object, kept: Set[str], shown: Set[str] | None = None) -> CurrentRows:
    """The operator of one object, that keeps some of its columns and its key.

    Several run in one program, so their columns have names of their own.
    """
    types = {column.name: column.type for column in item.columns}
    row = tuple(Column(_own(item, name), types[name]) for name in stored_columns(item, kept))
    wanted = None if shown is None else {_own(item, name) for name in shown}
    some = None if wanted is None else tuple(own for own in row if own.name in wanted)
    return CurrentRows(row, tuple(_own(item, name) for name in item.key or ()), some)


def stored_columns(item: Object, kept: Set[str]) -> list[str]:
    """Some columns and the key of an object, in its order."""
    return [name for name in item.names if name in kept or name in (item.key or ())]


def upserts(engine: Engine, item: Object, rows: Any, kept: Set[str]) -> Any:
    """Rows of an upsert log as the operator reads them: a table, or a frame."""
    stored = stored_columns(item, kept)
    if isinstance(rows, pa.Table):
        marks = {"__at": rows.column("__t"), "__seq": rows.column("__seq"), "__op": rows.column("__op")}
        columns = {_own(item, name): rows.column(name) for name in stored}
        ones = pa.array(np.ones(rows.num_rows, dtype=np.int64))
        return pa.table({**columns, **marks, "__t": rows.column("__t"), "__w": ones})
    names = ", ".join(f"{quote(name)} AS {quote(_own(item, name))}" for name in stored)
    text = f"SELECT {names}, __t AS __at, __seq, __op, __t, CAST(1 AS BIGINT) AS __w FROM log_rows"
    return engine.sql(text, {"log_rows": rows})


def _own(item: Object, name: str) -> str:
    return f"t{item.id}_{name}"


def tag(engine: Engine, given: Sequence[Upserted], root: str, version: int, *, here: bool) -> Tagged:
    """What the new rows of some keyed objects change: worked out in this process, or in tasks."""
    operators, edges, frames = [], [], {}
    for number, upserted in enumerate(given):
        operator = current_rows(upserted.item, upserted.kept, upserted.shown)
        read = operator.inputs[0]
        scan = Scan(number, upserted.item.name, read.columns, tuple(read.names))
        operators.append(Placed(number, scan, operator))
        edge = Edge(2 * number, scan, None, (), read.columns, read.columns, number, 0, read.key)
        edges.append(replace(edge, buckets=upserted.buckets))
        columns = operator.columns
        edges.append(Edge(2 * number + 1, None, number, (), columns, columns, ROOT, number))
        frames[number] = upserts(engine, upserted.item, upserted.rows, upserted.kept)
    held = {(number, "current"): upserted.held for number, upserted in enumerate(given)}
    program = Program(Constant("", ()), tuple(operators), tuple(edges))
    buckets = max(item.buckets for item in given)
    rows = sum(item.count for item in given)
    told = (engine, program, held, root, version, buckets)
    run = Here(*told) if here else Execution(*told, rows=rows)
    done = run.run(frames)
    changes = []
    for number, upserted in enumerate(given):
        table = done.changes[number]
        stored = stored_columns(upserted.item, upserted.kept)
        shown = [name for name in stored if name in upserted.shown]
        changes.append(table.rename_columns([*shown, "__at", "__t", "__w"]))
    return Tagged(tuple(changes), done.states)


def current_program(item: Object, kept: Set[str]) -> Program:
    """The operator alone, for its states to be made."""
    nothing = Constant("", ())
    return Program(nothing, (Placed(0, nothing, current_rows(item, kept)),), ())


def current_pieces(item: Object, kept: Set[str], held: Held, root: str) -> Iterator[Piece]:
    """The rows that are there by an object's current rows, under its own names: a bucket at a time."""
    operator = current_rows(item, kept)
    stored = stored_columns(item, kept)
    read = [*(column.name for column in operator.row), "__op", "__h"]

    def rows(runs: Sequence[Run]) -> pa.Table:
        found = bucket_of(root, held.state, runs).scan(read)
        there = pc.equal(found.column("__op"), "+")
        found = found if pc.all(there).as_py() else found.filter(there)
        return found.drop_columns(["__op", "__h"]).rename_columns(stored)

    return (partial(rows, runs) for runs in held.runs.values())


def no_changes(item: Object) -> pa.Table:
    """What an object that did not change has become."""
    columns = [(column.name, arrow_type(column.type)) for column in item.columns]
    marks = [(name, pa.int64()) for name in ("__at", "__t", "__w")]
    return pa.schema([*columns, *marks]).empty_table()
