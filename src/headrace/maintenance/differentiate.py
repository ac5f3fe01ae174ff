"""A view's change stream by recompute: its query at every point of time, and the differences between them.

With R(p) the result at point p, a row of R(p_i) counts +1 at p_i and -1 at p_(i+1); summed by row and time, what stays
is the change. Several points go into one Spark job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.engine import Engine
from headrace.language import Query
from headrace.language.types import arrow_type
from headrace.maintenance.logs import listed, log_fields
from headrace.maintenance.relations import Relations
from headrace.storage.records import Field, Object

#: Points evaluated by one job. A plan grows with each, and past some dozens planning costs more than a job.
POINTS_A_JOB = 16


def changes_at(
    relations: Relations, view: Object, query: Query, points: Sequence[int], previous: Any | None
) -> pa.Table:
    """Signed rows (the view's columns, `__t`, `__w`) that lead from `previous` through the results at `points`."""
    return differences(relations.logs.engine, view, points, previous, lambda point: relations.evaluate(query, point))


def differences(
    engine: Engine, view: Object, points: Sequence[int], previous: Any | None, evaluate: Callable[[int], Any]
) -> pa.Table:
    """As `changes_at`, for whatever `evaluate` gives at a point."""
    found = []
    for start in range(0, len(points), POINTS_A_JOB):
        chunk = points[start : start + POINTS_A_JOB]
        before = previous if start == 0 else evaluate(points[start - 1])
        found.append(_differences(engine, view, chunk, before, evaluate))
    wanted = pa.schema([(item.name, arrow_type(item.type)) for item in signed_fields(view)])
    return pa.concat_tables([table.cast(wanted) for table in found]) if found else wanted.empty_table()


def signed_fields(view: Object) -> tuple[Field, ...]:
    """The columns of a view's signed log, whatever it keeps itself."""
    return log_fields(replace(view, log="signed"))


def _differences(
    engine: Engine, view: Object, points: Sequence[int], before: Any | None, evaluate: Callable[[int], Any]
) -> Any:
    names = listed(view.names)
    ends = [*points[1:], None]
    frames: dict[str, Any] = {}
    selects = []
    for number, (point, end) in enumerate(zip(points, ends, strict=True)):
        name = f"result_{number}_"
        frames[name] = evaluate(point).toDF(*view.names)
        selects.append(f"SELECT {names}, {_lives(point, end)} AS __life FROM {name}")
    if before is not None:
        frames["result_before_"] = before.toDF(*view.names)
        selects.append(f"SELECT {names}, array({_step(points[0], -1)}) AS __life FROM result_before_")
    steps = f"SELECT {names}, explode(__life) AS __step FROM ({' UNION ALL '.join(selects)})"
    text = (
        f"SELECT {names}, __t, __n AS __w FROM (SELECT {names}, __step.t AS __t, sum(__step.w) AS __n FROM ({steps})"
        f" GROUP BY {names}, __step.t) WHERE __n <> 0"
    )
    return engine.arrow(engine.sql(text, frames))


def _lives(point: int, end: int | None) -> str:
    steps = [_step(point, 1)] + ([] if end is None else [_step(end, -1)])
    return f"array({', '.join(steps)})"


def _step(time: int, weight: int) -> str:
    return f"named_struct('t', CAST({time} AS BIGINT), 'w', CAST({weight} AS BIGINT))"
