"""The same delta on ever more data: a refresh should cost what the change costs, and recompute what the data costs.

Q3 and Q5 as views at scale factors that grow tenfold, each refreshed after a delta of 10,000 rows.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.tpch_data import data_set, pieces
from bench.tpch_deltas import Delta, by_rows
from bench.tpch_queries import name_of, query
from bench.tpch_runs import Duck, Recompute, Step, best, check_alike, load, state_bytes, take
from headrace.engine import open_engine
from headrace.session import Session, connect

QUERIES = (3, 5)
DELTA_ROWS = 10_000
REPEATS = 3

#: How many times as long a refresh may take when the data have grown tenfold, from the last scale but one to the last.
MOST_GROWTH = 1.5

OPTIONS = {
    "scales": "the scale factors, such as 0.1,1,10, which it is unless told; with --quick 0.1,1",
    "strategy": "how the views are maintained, such as differential; what the planner takes unless told",
}


@experiment(
    "growth",
    figure="none: a refresh costs what the change costs",
    description="a refresh after the same 10,000 rows of change while the data grows tenfold, beside recompute",
    options=OPTIONS,
)
def growth(context: Context) -> Findings:
    """Measure both queries at every scale."""
    engine = context.engine or "sail"
    scales = context.option("scales", _scales, context.pick((0.1, 1.0, 10.0), (0.1, 1.0)))
    strategy = context.option("strategy", str, "auto")
    refreshes: dict[str, dict[float, list[Step]]] = {name_of(number): {} for number in QUERIES}
    recomputes: dict[str, dict[float, float]] = {name_of(number): {} for number in QUERIES}
    states: dict[str, dict[float, int]] = {name_of(number): {} for number in QUERIES}
    for scale in scales:
        data = data_set(scale, done=context.step(f"data of scale factor {scale:g}", pieces(scale)))
        delta = by_rows(data, DELTA_ROWS)
        folder = context.folder / f"sf{scale:g}"
        folder.mkdir()
        done = context.step(f"scale factor {scale:g} on {engine}", len(QUERIES) + 1)
        with connect(str(folder / "home"), engine=engine, spark=open_engine(engine).spark) as session:
            load(session, data)
            duck, recompute = Duck(folder, data), Recompute(session, data, cached=engine == "spark")
            done()
            for number in QUERIES:
                name, text = name_of(number), query(number)
                recomputes[name][scale] = best(recompute.times(text, repeats=REPEATS))[1]
                session.sql(f"CREATE VIEW {name} AS {text} WITH (strategy = '{strategy}')")
                refreshes[name][scale], states[name][scale] = _refreshes(session, duck, name, text, delta)
                session.sql(f"DROP VIEW {name}")
                done()
            recompute.close()
            duck.close()
        shutil.rmtree(folder, ignore_errors=True)
    medians = {name: {scale: _median(steps) for scale, steps in found.items()} for name, found in refreshes.items()}
    return Findings(
        parameters={"engine": engine, "scales": scales, "strategy": strategy, "delta_rows": DELTA_ROWS},
        series=_series(medians, recomputes),
        aims=[_aim(name, medians[name], scales) for name in medians] if len(scales) > 1 else [],
        notes=[f"{name}: by {_strategies(found)}." for name, found in refreshes.items()],
        details=_details(refreshes, states),
    )


def _scales(text: str) -> tuple[float, ...]:
    return tuple(float(scale) for scale in text.split(","))


def _refreshes(session: Session, duck: Duck, name: str, text: str, delta: Delta) -> tuple[list[Step], int]:
    """What each refresh took, and the bytes kept for it."""
    take(session, delta.forth)
    check_alike(name, session.arrow(session.table(name)), duck.answer_after(delta.forth, text))
    take(session, delta.back)
    steps = []
    for _run in range(REPEATS):
        steps.append(take(session, delta.forth))
        take(session, delta.back)
    return steps, state_bytes(session, name)


def _median(steps: Sequence[Step]) -> float:
    return statistics.median(step.refresh for step in steps)


def _series(refreshes: dict[str, dict[float, float]], recomputes: dict[str, dict[float, float]]) -> list[Series]:
    return [
        Series(f"{name}: seconds after {DELTA_ROWS:,} rows of change", what, "s", list(by), list(by.values()), "scale")
        for name in refreshes
        for what, by in (("refresh", refreshes[name]), ("recompute", recomputes[name]))
    ]


def _aim(name: str, refresh: dict[float, float], scales: Sequence[float]) -> Aim:
    before, last = sorted(scales)[-2:]
    what = f"a refresh of {name} at scale factor {last:g}, of that at {before:g}"
    return Aim.under(what, MOST_GROWTH, refresh[last] / refresh[before])


def _strategies(found: dict[float, list[Step]]) -> str:
    return ", ".join(sorted({step.strategy for steps in found.values() for step in steps}))


def _details(refreshes: dict[str, dict[float, list[Step]]], states: dict[str, dict[float, int]]) -> dict[str, Any]:
    return {
        name: {
            f"{scale:g}": {"state_bytes": states[name][scale], "refreshes": [asdict(step) for step in steps]}
            for scale, steps in found.items()
        }
        for name, found in refreshes.items()
    }
