"""Many similar selections over one stream: declared together, so that they share what they have in common, or apart.

Every count of views has a home for each way. Both are fed the same rows and refreshed one after the other; who goes
first alternates. What is held against the aim is all of one refresh: the common view is part of it.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from headrace.engine import open_engine
from headrace.session import Session, connect

SHARED, APART = "sharing", "sharing off"
WAYS = (SHARED, APART)
#: Rooms, and degrees up to which readings are spread evenly.
ROOMS, DEGREES = 1_000, 1_000


@dataclass(frozen=True)
class Sizes:
    """How many views; rows that are there, rows a batch; and how many refreshes."""

    views: tuple[int, ...] = (1, 10, 30, 100)
    before: int = 1_000_000
    rows: int = 1_000_000
    refreshes: int = 4
    warm_ups: int = 1


FULL = Sizes()
QUICK = Sizes(views=(1, 5, 10), before=200_000, rows=50_000, refreshes=2)


@dataclass
class Measured:
    """Of each refresh: its seconds and its jobs."""

    seconds: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)


OPTIONS = {
    "views": "how many views, 1 among them: 1,10,30,100 unless told",
    "rows": "rows a batch, 1,000,000 unless told",
}


@experiment(
    "sharing-syncsql",
    figure="SyncSQL section 5",
    description="one to a hundred similar selections over one stream, declared together or each by itself",
    options=OPTIONS,
)
def sharing_syncsql(context: Context) -> Findings:
    """Measure every number of views, both ways side by side."""
    sizes = context.pick(FULL, QUICK)
    counts = context.option("views", _counts, sizes.views)
    rows = context.option("rows", int, sizes.rows)
    engine = context.engine or "spark"
    spark = open_engine(engine).spark
    found: dict[int, dict[str, Measured]] = {}
    for count in counts:
        done = context.step(f"{count} views on {engine}", 2 * (sizes.refreshes + sizes.warm_ups))
        found[count] = _measured(context, engine, spark, count, rows, sizes, done)
    return Findings(
        parameters={"engine": engine, "views": counts, "rows": rows, "rows_before": sizes.before, "query": _query(0)},
        series=_series(found),
        aims=_aims(found, counts),
        details={str(count): {way: one.jobs for way, one in ways.items()} for count, ways in found.items()},
    )


def _counts(text: str) -> tuple[int, ...]:
    return tuple(sorted({1, *(int(part) for part in text.split(","))}))


def _query(number: int) -> str:
    """One in 25 readings or fewer, and never the room of that number."""
    return f"SELECT room, degrees FROM readings WHERE degrees >= {960 + number % 40} AND room <> 'r{number}'"


class _Readings:
    """Readings, a batch at a time, ten seconds each."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(7)
        self.names = pa.array([f"r{number}" for number in range(ROOMS)])
        self.batches = 0

    def batch(self, rows: int) -> pa.Table:
        rooms = self.random.integers(0, ROOMS, rows)
        times = self.batches * 10_000_000 + np.sort(self.random.integers(0, 10_000_000, rows))
        self.batches += 1
        return pa.table({
            "room": self.names.take(pa.array(rooms)),
            "degrees": pa.array(self.random.integers(0, DEGREES, rows).astype(np.int32)),
            "at": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        })  # fmt: skip


def _measured(
    context: Context, engine: str, spark: object, count: int, rows: int, sizes: Sizes, done: Callable[[], None]
) -> dict[str, Measured]:
    readings = _Readings()
    first = readings.batch(sizes.before)
    homes = {way: context.folder / f"{way.replace(' ', '_')}-{count}" for way in WAYS}
    sessions = {way: connect(str(home), engine=engine, spark=spark) for way, home in homes.items()}
    found = {way: Measured() for way in WAYS}
    try:
        for way, session in sessions.items():
            _declare(session, way, count, first)
        for number in range(sizes.warm_ups + sizes.refreshes):
            batch = readings.batch(rows)
            for way in WAYS if number % 2 == 0 else WAYS[::-1]:
                _refreshed(sessions[way], batch, found[way], counted=number >= sizes.warm_ups)
                done()
        _check(sessions, count)
    finally:
        for way, session in sessions.items():
            session.close()
            shutil.rmtree(homes[way], ignore_errors=True)
    return found


def _declare(session: Session, way: str, count: int, first: pa.Table) -> None:
    session.sql("CREATE STREAM readings (room STRING, degrees INT, at TIMESTAMP) ORDER BY at")
    session.feed("readings", first)
    session.refresh()
    if way == APART:
        session.sql("ALTER HOME SET (sharing = false)")
    views = "; ".join(f"CREATE VIEW v{number} AS {_query(number)}" for number in range(count))
    session.sql(f"CREATE VIEWS ({views})")


def _refreshed(session: Session, batch: pa.Table, found: Measured, *, counted: bool) -> None:
    session.feed("readings", batch)
    gc.collect()
    started = time.perf_counter()
    done = session.refresh()
    taken = time.perf_counter() - started
    if counted:
        found.seconds.append(taken)
        found.jobs.append(sum(view.jobs for view in done.views))


def _check(sessions: dict[str, Session], count: int) -> None:
    """A wrong answer has no speed."""
    for number in {0, count // 2, count - 1}:
        shared, apart = (sessions[way].arrow(sessions[way].table(f"v{number}")) for way in WAYS)
        keys = [("room", "ascending"), ("degrees", "ascending")]
        if shared.sort_by(keys) != apart.sort_by(keys):
            raise RuntimeError(f"v{number} is not the same where it shares and where it does not")


def _series(found: dict[int, dict[str, Measured]]) -> list[Series]:
    counts = list(found)
    series = []
    for way in WAYS:
        runs = [found[count][way].seconds for count in counts]
        medians = [statistics.median(run) for run in runs]
        series.append(Series("a refresh of all views", way, "s", counts, medians, "views", runs))
    for way in WAYS:
        over = [_over_one(found, count, way) for count in counts]
        series.append(Series("a refresh over that of one view", way, "times", counts, over, "views"))
    for way in WAYS:
        jobs = [float(max(found[count][way].jobs)) for count in counts]
        series.append(Series("jobs a refresh", way, "jobs", counts, jobs, "views"))
    return series


def _over_one(found: dict[int, dict[str, Measured]], count: int, way: str) -> float:
    """What many take over what one takes: that one shares with nobody."""
    return statistics.median(found[count][way].seconds) / statistics.median(found[1][APART].seconds)


def _aims(found: dict[int, dict[str, Measured]], counts: Sequence[int]) -> list[Aim]:
    most = counts[-1]
    jobs, one = max(found[most][SHARED].jobs), max(found[1][APART].jobs)
    return [
        Aim.under(f"{most} views that share / one view, time", 5, _over_one(found, most, SHARED)),
        Aim.under(f"{most} views that share / one view, jobs", 5, jobs / one if one else float(jobs)),
        Aim.at_least(
            f"{most} views: sharing off / sharing",
            1,
            statistics.median(found[most][APART].seconds) / statistics.median(found[most][SHARED].seconds),
        ),
    ]
