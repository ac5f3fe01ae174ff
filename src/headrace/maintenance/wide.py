"""The rows that travel through a job: of all edges at once, each row filling the columns of its own edge.

A stage's result can be read only once, or its work would be done twice. So the changes of all edges are rows of one
frame: `__e` says which edge a row is of, and what an edge's steps compute is a CASE over it. Names are unique in a
query's tree, so edges never quarrel about a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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


def ddl(columns: Iterable[Column]) -> str:
    return ", ".join(f"{quote(column.name)} {column.type}" for column in columns)


def enter(engine: Engine, frame: Any, edge: Edge, wide: Sequence[Column], *, through: bool) -> Any:
    """An edge's own changes as wide rows; `through` its steps first, if they have not been taken yet."""
    if through:
        for step in edge.steps:
            frame = _stepped(engine, frame, step)
    mine = {column.name for column in edge.columns}
    shown = [f"CAST({edge.number} AS INT) AS __e", "__t", "__w", "CAST(NULL AS STRING) AS __note"]
    for column in wide:
        value = quote(column.name) if column.name in mine else "NULL"
        shown.append(f"CAST({value} AS {column.type}) AS {quote(column.name)}")
    return frame.selectExpr(*shown)


def _stepped(engine: Engine, frame: Any, step: Node) -> Any:
    """Signed rows after one row-wise step. Frames are built without asking the engine, which each `sql` would do."""
    if isinstance(step, Filter):
        return frame.where(headrace_sql(step.predicate))
    if isinstance(step, Project):
        items = [
            f"CAST({headrace_sql(item)} AS {column.type}) AS {quote(column.name)}"
            for column, item in zip(step.columns, step.items, strict=True)
        ]
        return frame.selectExpr(*items, "__t", "__w")
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


def step_through(chain: Any, edges: Sequence[Edge], others: Sequence[Column]) -> Any:
    """Take the rows of some edges through their steps, and leave all other rows as they are.

    `others` are the columns of the other edges that travel along.
    """
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
            chain = chain.selectExpr(*_marks(), *(_moved(column, moving, known) for column in wide))
        present = after
    return chain


def _marks() -> list[str]:
    return [column.name for column in MARKS]


def _moved(column: Column, moving: Sequence[tuple[Edge, Node]], known: set[str]) -> str:
    """A column after one step of some edges."""
    cases = []
    for edge, step in moving:
        if isinstance(step, Project) and column.name in step.names:
            item = headrace_sql(step.items[step.names.index(column.name)])
            if item != quote(column.name):
                cases.append(f"WHEN {edge.number} THEN CAST({item} AS {column.type})")
    name = quote(column.name)
    rest = name if column.name in known else f"CAST(NULL AS {column.type})"
    return f"CASE __e {' '.join(cases)} ELSE {rest} END AS {name}" if cases else f"{rest} AS {name}"


def routed(chain: Any, edges: Sequence[Edge], wide: Sequence[Column], buckets: int) -> Any:
    """The rows with `__h`, the hash of their edge's key, and `__b`, the place where their operator meets them."""
    hashes = {edge.number: hash_sql(edge.key, edge.columns) for edge in edges}
    cases = " ".join(f"WHEN {edge.number} THEN {hashes[edge.number]}" for edge in edges)
    places = " ".join(f"WHEN {edge.number} THEN {_place_sql(edge, hashes[edge.number], buckets)}" for edge in edges)
    return chain.selectExpr(
        *_marks(),
        *(quote(column.name) for column in wide),
        f"CASE __e {cases} ELSE CAST(0 AS BIGINT) END AS __h",
        f"CAST(CASE __e {places} ELSE -1 END AS INT) AS __b",
    )


def _place_sql(edge: Edge, hash_: str, buckets: int) -> str:
    if edge.is_tick:
        return f"{edge.target * buckets} + {TICK.name}"
    place = edge.target * buckets
    return f"{place} + pmod({hash_}, {edge.buckets or buckets})" if edge.key else str(place)
