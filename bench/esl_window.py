"""Aggregates over windows that grow: with EXPIRE, by hand, with a window of their own, and computed from anew.

Every way has a home and a stream of its own, since the slow ones are given fewer rows; what is compared is the time for
a thousand of them. The window is full before anything is measured.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bench.esl_classes import HASHES, WIDTH
from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from headrace.engine import open_engine
from headrace.session import Session, connect

EXPIRE, BY_HAND, OWN_WINDOW, NAIVE = "A: ESL with EXPIRE", "B: by hand", "C: ESL without EXPIRE", "D: naive"
ITEMS, GROUPS = 10_000, 1_000


@dataclass(frozen=True)
class Way:
    """How an aggregate is written, and how many rows a batch it is given, up to which window."""

    definition: str
    call: str
    rows: int
    most: int = 1_000_000


def _average_state(head: str, more: str, back: str) -> str:
    return f"""CREATE {head} f(x DOUBLE) : DOUBLE {{
        TABLE state(s DOUBLE, n BIGINT); {more}
        INITIALIZE: {{ INSERT INTO state VALUES (x, 1); INSERT INTO RETURN VALUES (x); }}
        ITERATE: {{ UPDATE state SET s = s + x, n = n + 1; INSERT INTO RETURN SELECT s / n FROM state; }}
        {back} }}"""


AVERAGE = {
    EXPIRE: Way(
        _average_state(
            "WINDOW AGGREGATE", "TABLE inwindow(wx DOUBLE);",
            "EXPIRE: { UPDATE state SET s = s - oldest(), n = n - 1; }",
        ),
        "f(x) OVER (ROWS {before} PRECEDING)",
        1_000_000,
    ),
    BY_HAND: Way(
        "CREATE WINDOW AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL 'bench.esl_classes:SlidingAverage'",
        "f(x) OVER (ROWS {before} PRECEDING)",
        1_000_000,
    ),
    OWN_WINDOW: Way(
        """CREATE AGGREGATE f(x DOUBLE, size BIGINT) : DOUBLE {
        TABLE state(s DOUBLE, n BIGINT, seen BIGINT); TABLE mine(number BIGINT, mx DOUBLE);
        INITIALIZE: { INSERT INTO state VALUES (x, 1, 1); INSERT INTO mine VALUES (1, x);
            INSERT INTO RETURN VALUES (x); }
        ITERATE: { UPDATE state SET s = s + x, n = n + 1, seen = seen + 1;
            INSERT INTO mine SELECT seen, x FROM state;
            UPDATE state SET s = s - (SELECT mx FROM mine WHERE number = state.seen - size), n = n - 1
                WHERE seen > size;
            DELETE FROM mine WHERE number <= (SELECT seen FROM state) - size;
            INSERT INTO RETURN SELECT s / n FROM state; } }""",
        "f(x, {size})",
        20_000,
        10_000,
    ),
    NAIVE: Way(
        """CREATE AGGREGATE f(x DOUBLE) : DOUBLE {
        TABLE state(s DOUBLE, n BIGINT);
        INITIALIZE: { INSERT INTO state VALUES (x, 1); }
        ITERATE: { UPDATE state SET s = s + x, n = n + 1; }
        TERMINATE: { INSERT INTO RETURN SELECT s / n FROM state; } }""",
        "f(x) OVER (ROWS {before} PRECEDING)",
        20_000,
        10_000,
    ),
}  # fmt: skip


def _counters() -> str:
    """All counters, by doubling."""
    doubled = [f"INSERT INTO counters SELECT n + {step}, place, 0 FROM counters;" for step in (1, 2)]
    doubled += [f"INSERT INTO counters SELECT n, place + {2**power}, 0 FROM counters;" for power in range(6)]
    return " ".join(["INSERT INTO counters VALUES (0, 0, 0);", *doubled])


#: An item's counters; HASHES is 4 and WIDTH 64, as the doubling makes them.
_ITS = f"place = abs(hash64({{}}, n) % {WIDTH})"
_COUNT = f"UPDATE counters SET cnt = cnt + 1 WHERE {_ITS.format('item')};"
_LEAST = f"INSERT INTO RETURN SELECT min(cnt) FROM counters WHERE {_ITS.format('item')};"

FREQUENT = {
    EXPIRE: Way("LOAD AGGREGATES frequent_items",
                f"frequent_items(item, {HASHES}, {WIDTH}) OVER (ROWS {{before}} PRECEDING)", 200_000),
    BY_HAND: Way(
        "CREATE WINDOW AGGREGATE f(item BIGINT) : BIGINT EXTERNAL 'bench.esl_classes:FrequentItems'",
        "f(item) OVER (ROWS {before} PRECEDING)",
        50_000,
    ),
    OWN_WINDOW: Way(
        f"""CREATE AGGREGATE f(item BIGINT, size BIGINT) : BIGINT {{
        TABLE counters(n INT, place BIGINT, cnt BIGINT); TABLE mine(number BIGINT, mitem BIGINT);
        TABLE state(seen BIGINT, gone BIGINT);
        INITIALIZE: {{ {_counters()} INSERT INTO state VALUES (1, NULL); INSERT INTO mine VALUES (1, item);
            {_COUNT} {_LEAST} }}
        ITERATE: {{ UPDATE state SET seen = seen + 1;
            UPDATE state SET gone = (SELECT mitem FROM mine WHERE number = state.seen - size);
            INSERT INTO mine SELECT seen, item FROM state;
            DELETE FROM mine WHERE number <= (SELECT seen FROM state) - size;
            UPDATE counters SET cnt = cnt - 1 WHERE {_ITS.format("(SELECT gone FROM state)")};
            {_COUNT} {_LEAST} }} }}""",
        "f(item, {size})",
        20_000,
        10_000,
    ),
    NAIVE: Way(
        f"""CREATE AGGREGATE f(item BIGINT) : BIGINT {{
        TABLE counters(n INT, place BIGINT, cnt BIGINT); TABLE newest(nitem BIGINT);
        INITIALIZE: {{ {_counters()} INSERT INTO newest VALUES (item); {_COUNT} }}
        ITERATE: {{ UPDATE newest SET nitem = item; {_COUNT} }}
        TERMINATE: {{ INSERT INTO RETURN SELECT min(cnt) FROM counters
            WHERE {_ITS.format("(SELECT nitem FROM newest)")}; }} }}""",
        "f(item) OVER (ROWS {before} PRECEDING)",
        20_000,
        1_000,
    ),
}  # fmt: skip
AGGREGATES = {"average": AVERAGE, "frequent items": FREQUENT}


@dataclass(frozen=True)
class Sizes:
    """Windows in rows, how many refreshes, and by how much fewer rows."""

    windows: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
    refreshes: int = 5
    fewer: int = 1
    compared: int = 1_000_000


FULL = Sizes()
QUICK = Sizes(windows=(10, 1_000), refreshes=2, fewer=20, compared=50_000)

OPTIONS = {
    "windows": "windows in rows: 10,100,1000,10000,100000,1000000 unless told",
    "aggregates": "average, frequent items or both (average,frequent items), which is what holds unless told",
}


@experiment(
    "esl-window",
    figure="Stream Mill figures 4 and 5",
    description="user-defined aggregates over windows of 10 to 1,000,000 rows, written in four ways",
    options=OPTIONS,
)
def esl_window(context: Context) -> Findings:
    """Measure every way over every window that it bears, then a compiled aggregate beside Spark's own."""
    sizes = context.pick(FULL, QUICK)
    windows = context.option("windows", _numbers, sizes.windows)
    names = context.option("aggregates", lambda text: tuple(text.split(",")), tuple(AGGREGATES))
    engine = context.engine or "spark"
    spark = open_engine(engine).spark
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    for name in names:
        found[name] = {}
        for way, how in AGGREGATES[name].items():
            bears = [window for window in windows if window <= how.most]
            done = context.step(f"{name}, {way}", len(bears) * (sizes.refreshes + 1))
            found[name][way] = {window: _measured(context, engine, spark, how, window, sizes, done) for window in bears}
    beside = _beside_spark(context, engine, spark, sizes)
    return Findings(
        parameters={"engine": engine, "windows": windows, "aggregates": names, "rows_compared": sizes.compared},
        series=[*_series(found), _compared_series(beside)],
        aims=[*_aims(found), *_compared_aims(beside)],
        notes=["C and D are not run over windows in which one refresh would take minutes."],
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


@dataclass
class _Rows:
    """Rows of the stream, one a microsecond."""

    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    time: int = 0

    def batch(self, rows: int) -> pa.Table:
        times = self.time + np.arange(rows)
        self.time += rows
        # A few items are frequent and many are rare.
        items = np.minimum(self.random.zipf(1.3, rows), ITEMS)
        return pa.table({
            "item": pa.array(items.astype(np.int64)),
            "k": pa.array(self.random.integers(0, GROUPS, rows)),
            "x": pa.array(self.random.random(rows)),
            "at": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        })  # fmt: skip


def _stream(session: Session) -> None:
    session.sql("CREATE STREAM s (item BIGINT, k BIGINT, x DOUBLE, at TIMESTAMP) ORDER BY at")


def _measured(
    context: Context, engine: str, spark: Any, how: Way, window: int, sizes: Sizes, done: Callable[[], None]
) -> list[float]:
    """Seconds for a thousand rows, of each refresh."""
    rows = _Rows()
    count = how.rows // sizes.fewer
    home = context.folder / "home"
    found = []
    with connect(str(home), engine=engine, spark=spark) as session:
        _stream(session)
        session.sql(how.definition)
        call = how.call.format(before=window - 1, size=window)
        session.sql(f"CREATE STREAM v AS SELECT {call} AS r FROM s")
        session.feed("s", rows.batch(max(window, count)))
        session.refresh()
        done()
        for _ in range(sizes.refreshes):
            session.feed("s", rows.batch(count))
            gc.collect()
            started = time.perf_counter()
            session.refresh()
            found.append((time.perf_counter() - started) / count * 1_000)
            done()
    shutil.rmtree(home)
    return found


# --- Beside Spark's own ----------------------------------------------------------------------------------------------

OURS, SPARKS, PANDAS = "compiled aggregate", "Spark's avg OVER", "pandas grouped map"


def _beside_spark(context: Context, engine: str, spark: Any, sizes: Sizes) -> dict[str, list[float]]:
    """The average of the last 100 rows of each of a thousand groups, over the same files."""
    home = context.folder / "compared"
    done = context.step("beside Spark's own", 3 * (sizes.refreshes + 1))
    found: dict[str, list[float]] = {OURS: [], SPARKS: [], PANDAS: []}
    with connect(str(home), engine=engine, spark=spark) as session:
        _stream(session)
        session.sql(AVERAGE[EXPIRE].definition)
        rows = _Rows().batch(sizes.compared)
        session.feed("s", rows)
        session.refresh()
        frame = spark.createDataFrame(rows.select(["k", "x", "at"]))
        path = str(context.folder / "rows.parquet")
        frame.write.parquet(path)
        stored = spark.read.parquet(path)
        things: dict[str, Callable[[], Any]] = {
            OURS: lambda: session.sql("CREATE OR REPLACE VIEW v AS SELECT k, f(x) OVER (PARTITION BY k"
                                      " ROWS 99 PRECEDING) AS r FROM s"),
            SPARKS: lambda: _written(context, stored.selectExpr(
                "k", "avg(x) OVER (PARTITION BY k ORDER BY at ROWS 99 PRECEDING) AS r")),
            PANDAS: lambda: _written(context, stored.groupBy("k").applyInPandas(_rolling, "k BIGINT, r DOUBLE")),
        }  # fmt: skip
        for number in range(sizes.refreshes + 1):
            for name, work in things.items():
                gc.collect()
                started = time.perf_counter()
                work()
                if number:
                    found[name].append(time.perf_counter() - started)
                done()
    shutil.rmtree(home)
    return found


def _written(context: Context, frame: Any) -> None:
    frame.write.mode("overwrite").parquet(str(context.folder / "out.parquet"))


def _rolling(rows: Any) -> Any:
    """The same aggregate as a user would write it for Spark: a loop over a group's rows."""
    rows = rows.sort_values("at")
    total, held, results = 0.0, [], []
    for value in rows["x"]:
        total += value
        held.append(value)
        if len(held) > 100:
            total -= held.pop(0)
        results.append(total / len(held))
    return rows[["k"]].assign(r=results)


# --- What came of it -------------------------------------------------------------------------------------------------


def _series(found: dict[str, dict[str, dict[int, list[float]]]]) -> list[Series]:
    series = []
    for name, ways in found.items():
        for way, by_window in ways.items():
            runs = list(by_window.values())
            medians = [statistics.median(run) * 1_000 for run in runs]
            series.append(
                Series(f"{name}: a thousand rows", way, "ms", list(by_window), medians, "rows of the window",
                       [[one * 1_000 for one in run] for run in runs])
            )  # fmt: skip
    return series


def _compared_series(beside: dict[str, list[float]]) -> Series:
    return Series.of_runs("the last 100 rows of each group", "1,000,000 rows", "s", beside)


def _aims(found: dict[str, dict[str, dict[int, list[float]]]]) -> list[Aim]:
    aims = []
    for name, ways in found.items():
        own = {window: statistics.median(run) for window, run in ways[EXPIRE].items()}
        aims.append(Aim.under(f"{name}: A over the largest window / over the smallest", 1.3, _flat(own)))
        hand = {window: statistics.median(run) for window, run in ways[BY_HAND].items()}
        slower = max(own[window] / hand[window] for window in own)
        aims.append(Aim.under(f"{name}: A / B, at worst", 1.0, slower))
    return aims


def _flat(by_window: dict[int, float]) -> float:
    windows: Sequence[int] = sorted(by_window)
    return by_window[windows[-1]] / by_window[windows[0]]


def _compared_aims(beside: dict[str, list[float]]) -> list[Aim]:
    ours = statistics.median(beside[OURS])
    return [
        Aim.at_least("pandas grouped map / compiled aggregate", 5, statistics.median(beside[PANDAS]) / ours),
        Aim.at_least("Spark's avg OVER / compiled aggregate", 1, statistics.median(beside[SPARKS]) / ours),
    ]
