"""Nexmark's queries kept as views: what a refresh costs after a batch of events, beside computing the query again.

One view at a time, over streams that hold many events already. Each refresh brings in as many new ones as the last, so
the data grows while it is measured; the rival reads a plain Parquet file of the rows that were there at first.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.measure import seconds
from bench.nexmark_data import declare, events, side_input
from bench.nexmark_queries import QUERIES
from bench.tpch_runs import Step, take
from headrace.engine import open_engine
from headrace.session import Session, connect

#: What Sail has no function for.
SPARK_ONLY = ("q11",)

#: Events come at this rate, so that windows of seconds hold some hundred thousand.
RATE = 10_000

OPTIONS = {
    "events": "how many events are there at first; 2000000 unless told, with --quick 100000",
    "batch": "how many come between two refreshes; 20000 unless told, with --quick 1000",
    "queries": "which queries, such as q3,q5; all the engine has functions for unless told",
    "strategy": "how the views are maintained, such as differential; what the planner takes unless told",
}


@experiment(
    "nexmark",
    figure="none: Nexmark, the yardstick of stream processors",
    description="a refresh of each of Nexmark's queries after a batch of events, beside recompute",
    options=OPTIONS,
)
def nexmark(context: Context) -> Findings:
    """Measure every query on one engine."""
    engine = context.engine or "sail"
    count = context.option("events", int, context.pick(2_000_000, 100_000))
    batch = context.option("batch", int, context.pick(20_000, 1_000))
    strategy = context.option("strategy", str, "auto")
    names = context.option("queries", _names, [name for name in QUERIES if engine != "sail" or name not in SPARK_ONLY])
    repeats = context.pick(5, 3)
    refreshes: dict[str, list[Step]] = {}
    recomputes: dict[str, list[float]] = {}
    done = context.step(f"views on {engine}", len(names) + 1)
    spark = open_engine(engine).spark
    with connect(str(context.folder / "home"), engine=engine, spark=spark) as session:
        # What is compared with a view is its query, not the view again.
        session.sql("ALTER HOME SET (sharing = 'never')")
        files = _load(session, context.folder, count)
        more = _events_after(count, batch)
        done()
        for name in names:
            recomputes[name] = _recompute(spark, files, QUERIES[name], repeats)
            session.sql(f"CREATE VIEW {name} AS {QUERIES[name]} WITH (strategy = '{strategy}')")
            take(session, more())
            refreshes[name] = [take(session, more()) for _run in range(repeats)]
            _check(session, name)
            session.sql(f"DROP VIEW {name}")
            done()
    ratios = {name: statistics.median(recomputes[name]) / _median(refreshes[name]) for name in names}
    mean = statistics.geometric_mean(ratios.values())
    return Findings(
        parameters={"engine": engine, "events": count, "batch": batch, "strategy": strategy, "repeats": repeats},
        series=[
            Series("Recompute over refresh", engine, "ratio", names, list(ratios.values()), x_label="query"),
            Series("Seconds", "refresh", "s", names, [_median(refreshes[name]) for name in names], x_label="query"),
            Series.of_runs("Seconds", "recompute", "s", recomputes),
        ],
        aims=[Aim.at_least(f"recompute over refresh, geometric mean ({engine})", 1, mean)],
        notes=[f"By {strategy}: {', '.join(found)}." for strategy, found in _strategies(refreshes).items()],
        details={name: [asdict(step) for step in steps] for name, steps in refreshes.items()},
    )


def _names(text: str) -> list[str]:
    chosen = text.split(",")
    if not set(chosen) <= set(QUERIES):
        raise ValueError("no such query")
    return chosen


def _load(session: Session, folder: Path, count: int) -> dict[str, Path]:
    """Feed the first events and the side input; the same rows as files, for the rival."""
    declare(session)
    tables = {**events(count, rate=RATE).tables(), "side_input": side_input()}
    files = {}
    for name, rows in tables.items():
        session.feed(name, rows)
        files[name] = folder / f"{name}.parquet"
        pq.write_table(rows, files[name])
    return files


def _events_after(first: int, batch: int) -> Callable[[], dict[str, Any]]:
    """A function that gives the next batch each time."""

    def more() -> dict[str, Any]:
        nonlocal first
        first += batch
        return events(batch, first=first - batch, rate=RATE).tables()

    return more


def _recompute(spark: Any, files: dict[str, Path], text: str, repeats: int) -> list[float]:
    for name, path in files.items():
        spark.read.parquet(str(path)).createOrReplaceTempView(name)
    times = [seconds(lambda: spark.sql(text).toArrow()) for _run in range(repeats + 1)][1:]
    for name in files:
        spark.catalog.dropTempView(name)
    return times


def _check(session: Session, name: str) -> None:
    """A wrong answer has no speed: the view has as many rows as its query gives, and none that it does not."""
    kept, wanted = session.table(name), session.sql(QUERIES[name])
    if kept.count() != wanted.count() or kept.exceptAll(wanted).count():
        raise RuntimeError(f"{name} is not what its query gives")


def _median(steps: Sequence[Step]) -> float:
    return statistics.median(step.refresh for step in steps)


def _strategies(refreshes: dict[str, list[Step]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, steps in refreshes.items():
        for strategy in sorted({step.strategy for step in steps}):
            found.setdefault(strategy, []).append(name)
    return found
