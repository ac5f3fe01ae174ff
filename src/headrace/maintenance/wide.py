"""The rows that travel through a job: of all edges at once, each row filling the columns of its own edge.

A stage's result can be read only once, or its work would be done twice. So the changes of all edges are rows of one
frame: `__e` says which edge a row is of, and what an edge's steps compute is a CASE over it. Names are unique in a
query's tree, so edges never quarrel about a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.algebra.deaths import DEATH
from headrace.algebra.nodes import Column, Filter, Generate, Node, Project
from headrace.engine import Engine
from headrace.language.dialect import headrace_sql
from headrace.maintenance.operators.base import hash_sql, quote
from headrace.maintenance.program import TICK, Edge

#: A row of an edge has these beside its own columns; a row with a note has nothing else.
MARKS = (Column("__e", "INT"), Column("__t", "BIGINT"), Column("__w", "BIGINT"), Column("__note", "STRING"))
ROUTE = (Column("__h", "BIGINT"), Column("__b", "INT"))
NOTE_EDGE = -2


def union_of(column_lists: Iterable[Iterable[Column]]) -> tuple[Column, ...]:
    """All columns, each once."""
    return tuple({column.name: column for columns in column_lists for column in columns}.values())


def typed(columns: Iterable[Column]) -> list[tuple[str, str]]:
    """Columns as an engine wants to hear of them."""
    return [(column.name, column.type) for column in columns]


def enter(engine: Engine, frame: Any, edge: Edge, wide: Sequence[Column], *, through: bool) -> Any:
    """An edge's own changes as wide rows; `through` its steps first, if they have not been taken yet."""
    if through:
        for step in edge.steps:
            frame = _stepped(engine, frame, step)
    make = _Columns(engine)
    mine = {column.name for column in edge.columns}
    marks = [make.value(edge.number, MARKS[0]), make.same("__t"), make.same("__w"), make.value(None, MARKS[3])]
    values = [make.cast(column) if column.name in mine else make.value(None, column) for column in wide]
    return frame.select(*marks, *values)


def widened(engine: Engine, chain: Any, known: set[str], wide: Sequence[Column]) -> Any:
    """Rows on their way with all columns of `wide`, of which they have the `known` ones."""
    make = _Columns(engine)
    values = [make.same(column.name) if column.name in known else make.value(None, column) for column in wide]
    return chain.select(*make.marks(), *values)


def renamed(engine: Engine, frame: Any, names: Iterable[tuple[str, str]], *, dying: bool) -> Any:
    """A relation's changes under other names, given as pairs of an old and a new one."""
    make = _Columns(engine)
    kept = [*([DEATH.name] if dying else []), "__t", "__w"]
    return frame.select(*(make.same(old).alias(new) for old, new in names), *map(make.same, kept))


class _Columns:
    """The columns of a frame to be. Only what is computed is given as text: each text is parsed by itself, which costs
    more than the column does (and Sail 0.7 keeps some 70 KB of memory for each for good)."""

    def __init__(self, engine: Engine) -> None:
        self._functions = engine.functions

    def same(self, name: str) -> Any:
        return self._functions.col(quote(name))

    def cast(self, column: Column) -> Any:
        return self.same(column.name).cast(column.type).alias(column.name)

    def value(self, value: int | None, column: Column) -> Any:
        return self._functions.lit(value).cast(column.type).alias(column.name)

    def computed(self, text: str, name: str) -> Any:
        return self._functions.expr(text).alias(name)

    def marks(self) -> list[Any]:
        return [self.same(column.name) for column in MARKS]


def _stepped(engine: Engine, frame: Any, step: Node) -> Any:
    """Signed rows after one row-wise step. Frames are built without asking the engine, which each `sql` would do."""
    if isinstance(step, Filter):
        return frame.where(headrace_sql(step.predicate))
    if isinstance(step, Project):
        make = _Columns(engine)
        items = [
            make.cast(column)
            if (text := headrace_sql(item)) == quote(column.name)
            else make.computed(f"CAST({text} AS {column.type})", column.name)
            for column, item in zip(step.columns, step.items, strict=True)
        ]
        return frame.select(*items, make.same("__t"), make.same("__w"))
    if isinstance(step, Generate):
        return engine.sql(generate_sql(step, "changes_"), {"changes_": frame})
    raise TypeError(f"{type(step).__name__} is not done row by row")


def generate_sql(step: Generate, source: str) -> str:
    """A generator over signed rows."""
    made = ", ".join(quote(column.name) for column in step.made)
    kept = ", ".join([quote(column.name) for column in step.child.columns] + ["__t", "__w"])
    return (
        f"SELECT {kept}, {made} FROM {source} LATERAL VIEW {'OUTER ' if step.outer else ''}"
        f"{headrace_sql(step.generator)} generated_ AS {made}"
    )


def step_through(engine: Engine, chain: Any, edges: Sequence[Edge], others: Sequence[Column]) -> Any:
    """Take the rows of some edges through their steps, and leave all other rows as they are.

    `others` are the columns of the other edges that travel along.
    """
    make = _Columns(engine)
    present = {edge.number: edge.start for edge in edges}
    for depth in range(max((len(edge.steps) for edge in edges), default=0)):
        moving = [(edge, edge.steps[depth]) for edge in edges if depth < len(edge.steps)]
        after = {**present, **{edge.number: step.columns for edge, step in moving}}
        known = {column.name for column in union_of([others, *present.values()])}
        wide = union_of([others, *after.values()])
        filters = [(edge, step) for edge, step in moving if isinstance(step, Filter)]
        if filters:
            cases = " ".join(f"WHEN {edge.number} THEN {headrace_sql(step.predicate)}" for edge, step in filters)
            chain = chain.where(f"CASE __e {cases} ELSE TRUE END")
        if len(filters) < len(moving):
            chain = chain.select(*make.marks(), *(_moved(make, column, moving, known) for column in wide))
        present = after
    return chain


def _moved(make: _Columns, column: Column, moving: Sequence[tuple[Edge, Node]], known: set[str]) -> Any:
    """A column after one step of some edges."""
    cases = []
    for edge, step in moving:
        if isinstance(step, Project) and column.name in step.names:
            item = headrace_sql(step.items[step.names.index(column.name)])
            if item != quote(column.name):
                cases.append(f"WHEN {edge.number} THEN CAST({item} AS {column.type})")
    if not cases:
        return make.same(column.name) if column.name in known else make.value(None, column)
    rest = quote(column.name) if column.name in known else f"CAST(NULL AS {column.type})"
    return make.computed(f"CASE __e {' '.join(cases)} ELSE {rest} END", column.name)


def routed(engine: Engine, chain: Any, edges: Sequence[Edge], wide: Sequence[Column], buckets: int) -> Any:
    """The rows with `__h`, the hash of their edge's key, and `__b`, the place where their operator meets them."""
    hashes = {edge.number: hash_sql(edge.key, edge.columns) for edge in edges}
    cases = " ".join(f"WHEN {edge.number} THEN {hashes[edge.number]}" for edge in edges)
    places = " ".join(f"WHEN {edge.number} THEN {_place_sql(edge, hashes[edge.number], buckets)}" for edge in edges)
    make = _Columns(engine)
    return chain.select(
        *make.marks(),
        *(make.same(column.name) for column in wide),
        make.computed(f"CASE __e {cases} ELSE CAST(0 AS BIGINT) END", "__h"),
        make.computed(f"CAST(CASE __e {places} ELSE -1 END AS INT)", "__b"),
    )


def _place_sql(edge: Edge, hash_: str, buckets: int) -> str:
    if edge.is_tick:
        return f"{edge.target * buckets} + {TICK.name}"
    place = edge.target * buckets
    return f"{place} + pmod({hash_}, {edge.buckets or buckets})" if edge.key else str(place)
