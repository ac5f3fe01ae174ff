"""States made without the engine: of rows that lie in files, and of what operators give by the states they have.

Both states of a join are cut into the same buckets by the join's key, so a bucket of the one meets no other bucket of
the other; and a group is in one bucket. What comes out goes along an operator's edges as changes do, and may fill the
states above.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.language.types import arrow_type
from headrace.maintenance.filling import Piece, fill
from headrace.maintenance.kept import BucketChange, Held, bucket_of
from headrace.maintenance.kernels.plain import join
from headrace.maintenance.kernels.scalars import NotHere, through
from headrace.maintenance.operators.aggregate import AdditiveAggregate
from headrace.maintenance.operators.base import State
from headrace.maintenance.operators.emitted import EmittedOperator
from headrace.maintenance.operators.join import JoinOperator
from headrace.maintenance.program import Edge, Placed, Program
from headrace.storage.arrangements import Run

_WEIGHTS = ("__w_left", "__w_right")


@dataclass
class FromFiles:
    """The states of a program that are made here; `pieces` are the relations whose rows can be read here."""

    engine: str
    program: Program
    held: Mapping[tuple[int, str], Held]
    pieces: Mapping[int, Callable[[], Iterator[Piece]]]
    root: str
    version: int
    buckets: int
    _filled: dict[tuple[int, str], Held] = field(default_factory=dict)

    def fill(self, placed: Placed, state: State, folder: str) -> list[BucketChange] | None:
        """Make a state that holds its input's rows, or sums of them; None where the engine has to be asked for it."""
        if isinstance(placed.operator, EmittedOperator) or state.calendar is not None:
            return None
        edges = [edge for edge in self.program.into(placed.number) if edge.slot == state.input]
        made = self._made(placed, state, edges)
        if made is None:
            return None
        found = [self._along(edge) for edge in edges]
        known = [pieces for pieces in found if pieces is not None]
        if len(known) < len(found):
            return None
        held = self.held[placed.number, state.name]
        coming = (partial(made, piece) for piece in chain(*known))
        try:
            return fill(held, self.root, self.version, self.buckets, coming, folder)
        except (NotHere, pa.ArrowException, ArithmeticError):
            return None

    def _made(self, placed: Placed, state: State, edges: Sequence[Edge]) -> Callable[[Piece], pa.Table] | None:
        """What makes a state's columns and measures of some rows that come to it."""
        if state.holds_rows:
            shown = [*(column.name for column in state.columns), "__w"]
            return lambda piece: piece().select(shown)
        # Of what lies in files, an engine finds sums sooner than it is found here.
        if isinstance(placed.operator, AdditiveAggregate) and all(edge.scan is None for edge in edges):
            return partial(_summed, placed.operator)
        return None

    def note(self, placed: Placed, state: State, changes: Sequence[BucketChange]) -> None:
        """Remember what a state was filled with, by whomever."""
        runs = {change.bucket: change.new for change in changes}
        self._filled[placed.number, state.name] = replace(self.held[placed.number, state.name], runs=runs)

    def _along(self, edge: Edge) -> Iterator[Piece] | None:
        """What comes to the end of an edge."""
        came = self._given(edge) if edge.scan is None else self._scanned(edge)
        way = through(edge.steps, edge.start, self.engine)
        if came is None or way is None or edge.direct:
            return None
        return (partial(_taken, piece, way) for piece in came)

    def _scanned(self, edge: Edge) -> Iterator[Piece] | None:
        scan = edge.scan
        if scan is None or scan.relation not in self.pieces:
            return None
        names = [column.name for column in scan.columns]
        return (partial(_as_changes, piece, scan.sources, names) for piece in self.pieces[scan.relation]())

    def _given(self, edge: Edge) -> Iterator[Piece] | None:
        """What an operator gives by its states, if they have been filled."""
        if edge.source is None:
            return None
        placed = self.program.operators[edge.source]
        if isinstance(placed.operator, JoinOperator) and placed.after is None:
            return self._joined(placed, placed.operator)
        return self._grouped(placed)

    def _joined(self, placed: Placed, operator: JoinOperator) -> Iterator[Piece] | None:
        left, right = self._filled.get((placed.number, "left")), self._filled.get((placed.number, "right"))
        if left is None or right is None or not (left.state.columns and right.state.columns):
            return None  # Arrow does not know how many rows a table without columns has.
        there = sorted({*left.runs, *right.runs})
        return (
            partial(_join, self.root, operator, left, right, left.runs.get(b, ()), right.runs.get(b, ())) for b in there
        )

    def _grouped(self, placed: Placed) -> Iterator[Piece] | None:
        operator, held = placed.operator, self._filled.get((placed.number, "groups"))
        if not isinstance(operator, AdditiveAggregate) or placed.after is not None or held is None:
            return None
        if not operator.keys:
            return None  # Over no rows there is a row all the same.
        return (partial(_rows_of_groups, self.root, operator, held, runs) for runs in held.runs.values())

    def given_out(self, placed: Placed, folder: str) -> list[str] | None:
        """Files of what an aggregate gives out, so that the engine need not find it again; None where it has to."""
        pieces = self._grouped(placed)
        if pieces is None:
            return None
        names, paths = list(placed.node.names), []
        kinds = [arrow_type(column.type) for column in placed.node.columns]
        schema = pa.schema(list(zip(names, kinds, strict=True)))
        os.makedirs(place := f"{folder}/{uuid.uuid4().hex}")
        try:
            for number, piece in enumerate(pieces):
                pq.write_table(piece().select(names).cast(schema), path := f"{place}/{number}.parquet")
                paths.append(path)
        except (pa.ArrowException, ArithmeticError):
            return None
        return paths


def _taken(piece: Piece, way: Callable[[pa.Table], pa.Table]) -> pa.Table:
    return way(piece())


def _summed(operator: AdditiveAggregate, piece: Piece) -> pa.Table:
    """The measures of each group of some rows."""
    rows = piece()
    return operator.moved(rows.append_column("__h", _all(0, rows.num_rows))).drop_columns(["__h", "__t"])


def _as_changes(piece: Piece, sources: Sequence[str], names: Sequence[str]) -> pa.Table:
    """Rows of a relation as what has come to it, under the names of a scan."""
    rows = piece()
    columns = [*(rows.column(name) for name in sources), _all(0, rows.num_rows), _all(1, rows.num_rows)]
    return pa.table(columns, names=[*names, "__t", "__w"])


def _join(
    root: str, operator: JoinOperator, left: Held, right: Held, left_runs: Sequence[Run], right_runs: Sequence[Run]
) -> pa.Table:
    """A bucket of a join, as what has come to it."""
    sides = []
    for held, runs, weight in ((left, left_runs, _WEIGHTS[0]), (right, right_runs, _WEIGHTS[1])):
        rows = bucket_of(root, held.state, runs).scan().drop_columns(["__h"])
        sides.append(rows.rename_columns([weight if name == "__w" else name for name in rows.column_names]))
    found = join(operator.kind, sides[0], sides[1], operator.equal)
    # Where a row has no partner, the other side counts once.
    counts = [pc.fill_null(found.column(name), 1) for name in _WEIGHTS if name in found.column_names]
    weights = pc.multiply_checked(*counts) if len(counts) == 2 else counts[0]
    found = found.select([column.name for column in operator.columns])
    return found.append_column("__t", _all(0, found.num_rows)).append_column("__w", weights)


def _rows_of_groups(root: str, operator: AdditiveAggregate, held: Held, runs: Sequence[Run]) -> pa.Table:
    return operator.of_groups(bucket_of(root, held.state, runs).scan())


def _all(value: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, value, dtype=np.int64))
