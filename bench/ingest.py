"""How fast rows land from files, and what a warm refresh costs before there is anything much to do.

Landing stands beside a bare Spark read-and-write of the same files in the same session. A refresh of three views stands
beside the same three queries run by hand: read, query, bring to the driver, write as Parquet. Those read one plain file
of the base rows, with no log to resolve and no change taken in, so they are a floor and not a rival.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.measure import seconds, side_by_side
from headrace.engine import open_engine
from headrace.errors import EngineError
from headrace.session import Session, connect

COLUMNS = "id BIGINT, account INT, kind STRING, note STRING, amount DOUBLE, rate DOUBLE, quantity INT, at TIMESTAMP"
START = 1_700_000_000_000_000

#: Seconds a warm refresh should stay under, by engine.
REFRESH_AIMS = {"spark": 0.6, "sail": 0.1}

VIEWS = {
    "large": "SELECT id, customer, amount FROM orders WHERE amount > 500",
    "totals": "SELECT customer, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY customer",
    "placed": "SELECT o.id, c.region, o.amount FROM orders o JOIN customers c ON o.customer = c.customer",
}


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rows: int = 5_000_000
    files: int = 10
    landings: int = 5
    landing_warm_ups: int = 1
    base_rows: int = 1_000
    customers: int = 50
    changed_rows: int = 100
    refreshes: int = 30
    refresh_warm_ups: int = 15


FULL = Sizes()
QUICK = Sizes(rows=500_000, landings=3, refreshes=9, refresh_warm_ups=10)


@dataclass
class Refreshes:
    """What the warm refreshes of one engine took, run by run."""

    refresh: list[float] = field(default_factory=list)
    views: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    feed: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)


@experiment(
    "ingest",
    figure="none: a floor under all others",
    description="rows a second landed from files beside a bare read-and-write, and the fixed cost of a warm refresh",
)
def ingest(context: Context) -> Findings:
    """Measure landing on one engine and the fixed cost of a refresh on all that were asked for."""
    sizes = context.pick(FULL, QUICK)
    landing_engine = context.engine or "spark"
    landed = _landing(context, sizes, landing_engine)
    refreshes: dict[str, Refreshes] = {}
    notes: list[str] = []
    for engine in [context.engine] if context.engine else list(REFRESH_AIMS):
        try:
            refreshes[engine] = _fixed_cost(context, sizes, engine)
        except EngineError as error:
            if error.condition != "SAIL_NOT_INSTALLED":
                raise
            notes.append(f"{error.message} {error.hint}")
    ratio = statistics.median(landed["bare"]) / statistics.median(landed["landing"])
    aims = [Aim.at_least(f"rows a second landed, of a bare read-and-write ({landing_engine})", 0.6, ratio)]
    for engine, bound in REFRESH_AIMS.items():
        if context.engine in (None, engine):
            value = statistics.median(refreshes[engine].refresh) if engine in refreshes else None
            aims.append(Aim.under(f"warm refresh of three views on {engine}", bound, value, "s"))
    return Findings(
        parameters={**asdict(sizes), "columns": COLUMNS, "views": VIEWS, "landing_engine": landing_engine},
        series=[*_landing_series(sizes, landed), *_refresh_series(refreshes)],
        aims=aims,
        notes=notes,
    )


# --- Landing ---------------------------------------------------------------------------------------------------------


def _landing(context: Context, sizes: Sizes, engine: str) -> dict[str, list[float]]:
    folder = context.folder / "files"
    folder.mkdir()
    done = context.step("making files", sizes.files)
    for number in range(sizes.files):
        pq.write_table(_rows(sizes.rows // sizes.files, number), folder / f"rows-{number:03}.parquet")
        done()
    paths = sorted(str(path) for path in folder.iterdir())
    spark = open_engine(engine).spark
    done = context.step(f"landing on {engine}", 2 * (sizes.landings + sizes.landing_warm_ups))
    try:
        return side_by_side(
            {
                "landing": lambda: _land(context.folder / "home", folder, engine, spark, sizes),
                "bare": lambda: _read_and_write(context.folder / "bare", paths, spark),
            },
            repeats=sizes.landings,
            warm_ups=sizes.landing_warm_ups,
            done=done,
        )
    finally:
        shutil.rmtree(folder)


def _rows(count: int, number: int) -> pa.Table:
    """Mixed columns whose times go up from row to row and from file to file, so that nothing is late."""
    random = np.random.default_rng(number)
    ids = np.arange(count, dtype=np.int64) + number * count
    kinds = pa.array(["deposit", "withdrawal", "transfer", "fee", "interest"])
    return pa.table(
        {
            "id": ids,
            "account": random.integers(0, 100_000, count, dtype=np.int32),
            "kind": kinds.take(pa.array(random.integers(0, len(kinds), count))),
            "note": pa.array(np.char.add("note ", random.integers(0, 1_000_000, count).astype(str))),
            "amount": random.uniform(0, 1_000, count).round(2),
            "rate": random.normal(0, 1, count),
            "quantity": random.integers(0, 100, count, dtype=np.int32),
            "at": pa.array(START + ids * 1_000, pa.timestamp("us", tz="UTC")),
        }
    )


def _land(home: Path, folder: Path, engine: str, spark: Any, sizes: Sizes) -> float:
    try:
        with connect(str(home), engine=engine, spark=spark) as session:
            session.sql(
                f"REGISTER SOURCE files ({COLUMNS}) FROM FILES '{folder}/*.parquet' FORMAT parquet;"
                "CREATE STREAM rows_in OVER files KEY NULL ORDER BY at"
            )
            landed = 0

            def refresh() -> None:
                nonlocal landed
                landed = session.refresh().landed

            taken = seconds(refresh)
            _check(landed, sizes.rows // sizes.files * sizes.files)
            return taken
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _read_and_write(out: Path, paths: list[str], spark: Any) -> float:
    try:
        return seconds(lambda: spark.read.schema(COLUMNS).parquet(*paths).write.parquet(str(out)))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _check(found: int, wanted: int) -> None:
    """A wrong answer has no speed."""
    if found != wanted:
        raise RuntimeError(f"{found} rows came out where {wanted} were expected")


def _landing_series(sizes: Sizes, landed: dict[str, list[float]]) -> list[Series]:
    names = {"landing": "landed from FILES", "bare": "bare read-and-write"}
    rates = {names[name]: [sizes.rows / taken for taken in runs] for name, runs in landed.items()}
    return [
        Series.of_runs("Rows landed a second", "median", "rows/s", rates),
        Series.of_ratios(
            "Landing, of a bare read-and-write", "rows/s", {"landing / bare": (landed["bare"], landed["landing"])}
        ),
    ]


# --- The fixed cost of a refresh -------------------------------------------------------------------------------------


def _fixed_cost(context: Context, sizes: Sizes, engine: str) -> Refreshes:
    found = Refreshes()
    session_spark = open_engine(engine).spark
    home, bare = context.folder / f"home-{engine[:5]}", context.folder / f"bare-{engine[:5]}"
    done = context.step(f"warm refreshes on {engine}", 2 * (sizes.refreshes + sizes.refresh_warm_ups))
    by_hand = _by_hand(bare, sizes, session_spark)
    with connect(str(home), engine=engine, spark=session_spark) as session:
        _declare(session, sizes)
        changes = iter(range(1, sizes.refreshes + sizes.refresh_warm_ups + 1))

        def feed_and_refresh() -> float:
            number = next(changes)
            rows = _orders(sizes, number, sizes.changed_rows)
            found.feed.append(seconds(lambda: session.feed("orders", rows)))
            refreshed: list[Any] = []
            taken = seconds(lambda: refreshed.append(session.refresh()))
            _check(len(refreshed[0].views), len(VIEWS))
            found.jobs.append(sum(view.jobs for view in refreshed[0].views))
            found.views.append(sum(view.seconds for view in refreshed[0].views))
            return taken

        runs = side_by_side(
            {"refresh": feed_and_refresh, "bare": by_hand},
            repeats=sizes.refreshes,
            warm_ups=sizes.refresh_warm_ups,
            done=done,
        )
        _check(session.arrow(session.table("totals")).column("orders").to_pandas().sum(), sizes.base_rows)
    found.refresh, found.bare = runs["refresh"], runs["bare"]
    for name in ("feed", "jobs", "views"):
        setattr(found, name, getattr(found, name)[sizes.refresh_warm_ups :])
    return found


def _declare(session: Session, sizes: Sizes) -> None:
    session.sql(
        "CREATE STREAM orders (id BIGINT, customer INT, amount DOUBLE, at TIMESTAMP) KEY (id) ORDER BY at;"
        "CREATE TABLE customers (customer INT PRIMARY KEY, region STRING)"
    )
    session.feed("customers", _customers(sizes))
    session.feed("orders", _orders(sizes, 0, sizes.base_rows))
    for name, query in VIEWS.items():
        session.sql(f"CREATE VIEW {name} AS {query}")


def _orders(sizes: Sizes, number: int, count: int) -> pa.Table:
    """The base rows, or new versions of some of them, later than all before."""
    random = np.random.default_rng(number)
    ids = random.choice(sizes.base_rows, count, replace=False).astype(np.int64)
    times = START + number * 1_000_000 + np.arange(count)
    return pa.table(
        {
            "id": ids,
            "customer": (ids % sizes.customers).astype(np.int32),
            "amount": random.uniform(0, 1_000, count).round(2),
            "at": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def _customers(sizes: Sizes) -> pa.Table:
    ids = np.arange(sizes.customers, dtype=np.int32)
    return pa.table({"customer": ids, "region": [f"region {number % 7}" for number in ids]})


def _by_hand(folder: Path, sizes: Sizes, spark: Any) -> Callable[[], float]:
    """The three queries without us: over plain files of the base rows, each result brought here and written."""
    folder.mkdir()
    inputs = {"orders": _orders(sizes, 0, sizes.base_rows), "customers": _customers(sizes)}
    for name, table in inputs.items():
        pq.write_table(table, folder / f"{name}.parquet")

    def run() -> None:
        for name in inputs:
            spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(name)
        for name, query in VIEWS.items():
            pq.write_table(spark.sql(query).toArrow(), folder / f"{name}.parquet")

    return lambda: seconds(run)


def _refresh_series(refreshes: dict[str, Refreshes]) -> list[Series]:
    panel, floor = "Warm refresh of three views", "Warm refresh, of the queries by hand"
    pairs = {engine: (one.refresh, one.bare) for engine, one in refreshes.items()}
    return [
        Series.of_runs(panel, "refresh", "s", {engine: one.refresh for engine, one in refreshes.items()}),
        Series.of_runs(panel, "in its views", "s", {engine: one.views for engine, one in refreshes.items()}),
        Series.of_runs(panel, "feed before it", "s", {engine: one.feed for engine, one in refreshes.items()}),
        Series.of_runs(panel, "queries by hand", "s", {engine: one.bare for engine, one in refreshes.items()}),
        Series.of_ratios(floor, "refresh / queries by hand", pairs),
        Series.of_runs("Jobs a refresh", "jobs", "jobs", {engine: one.jobs for engine, one in refreshes.items()}),
    ]
