"""SUM and MAX over sliding windows of minutes, kept as views: by each strategy, recompute and hand-written code.

All windows are views over the same stream, and each is refreshed by itself, so that what is measured of one is not
helped by another. Structured Streaming keeps the same sliding sums over the same files, a batch at a time. Catching up
with many missed parts in one refresh stands beside refreshing after each.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.measure import seconds
from bench.viewdf_data import readings, write
from headrace.engine import Engine, open_engine
from headrace.session import Session, connect

STREAM = "CREATE STREAM S (ts TIMESTAMP, G INT, A INT) ORDER BY ts PARTITION LENGTH 60"
CALLS = {"sum": ("subtractable", "distributive"), "max": ("distributive",)}
#: Where parts are made while catching up, with the most rows that are worked on in this process: none of a home that
#: lies elsewhere than on this machine.
MADE = {"in this process": 3_000_000, "by the engine": 0}
OPTIONS = {
    "rows": "rows a batch; 5,000,000 unless told, with --quick 50,000",
    "windows": "minutes in a window, such as 5,10,50,100",
    "calls": "sum, max or both",
    "distributive": "windows whose sums are kept by the distributive strategy too; 50 unless told",
    "recompute": "windows up to so many minutes are computed again; 100 unless told",
    "repeats": "batches that are measured; 3 unless told",
    "streaming": "minutes in a window of Structured Streaming, measured on Spark; 0 (unless told) for none",
    "missed": "parts of 10,000 rows to catch up with; 500 unless told, with --quick 20; 0 for none",
}


@dataclass(frozen=True)
class Sizes:
    rows: int = 5_000_000
    windows: tuple[int, ...] = (5, 10, 50, 100)
    repeats: int = 3
    missed: int = 500


QUICK = Sizes(rows=50_000, windows=(3, 6), repeats=1, missed=20)


@experiment(
    "viewdf-window",
    figure="ViewDF Fig. 9-12",
    description="SUM and MAX over sliding windows by each strategy, beside recompute and hand-written code",
    options=OPTIONS,
)
def viewdf_window(context: Context) -> Findings:
    """Measure batch after batch over windows of growing length; then catching up."""
    sizes = context.pick(Sizes(), QUICK)
    rows = context.option("rows", int, sizes.rows)
    windows = context.option("windows", _numbers, sizes.windows)
    calls = context.option("calls", _words, tuple(CALLS))
    repeats = context.option("repeats", int, sizes.repeats)
    missed = context.option("missed", int, sizes.missed)
    unless_told: tuple[int, ...] = windows[-1:] if context.quick else (50,)
    beside = context.option("distributive", _numbers, unless_told)
    recomputed = context.option("recompute", int, 100)
    engine = open_engine(context.engine or "spark")
    found: dict[str, dict[int, dict[str, list[float]]]] = {}
    for call in calls:
        before = max(windows) + 1
        done = context.step(f"windows of {call}", before + repeats)
        views = {window: CALLS[call] if window in beside else CALLS[call][:1] for window in windows}
        with _Run(context.folder / call, engine, call, views, recomputed, rows) as run:
            for _ in range(before):
                run.fill()
                done()
            taken = []
            for _ in range(repeats):
                taken.append(run.measure())
                done()
        found[call] = {
            window: {name: [one[window][name] for one in taken] for name in taken[0][window]} for window in windows
        }
    streamed = context.option("streaming", int, 0)
    slides = _streaming(context, engine, streamed, rows) if streamed and engine.kind == "spark" else []
    caught = _catch_up(context, engine, missed) if missed else {}
    return Findings(
        parameters={"engine": engine.kind, "rows": rows, "windows": windows, "repeats": repeats, "missed": missed},
        series=_series(found),
        aims=[*_aims(found, caught), *_beside_streaming(found, streamed, slides)],
        details={"catching_up": caught, "structured_streaming": slides},
    )


@dataclass
class _Run:
    """One stream of batches, views over it by window and strategy, and the same by recompute and by hand."""

    folder: Path
    engine: Engine
    call: str
    views: dict[int, tuple[str, ...]]
    recomputed: int
    rows: int
    minute: int = 0
    files: list[str] = field(default_factory=list)
    partials: list[str] = field(default_factory=list)

    def __enter__(self) -> _Run:
        self.folder.mkdir()
        kind = self.engine.kind
        self.session: Session = connect(str(self.folder / "home"), engine=kind, spark=self.engine.spark)
        self.session.sql("ALTER HOME SET (sharing = 'never')")
        self.session.sql(STREAM)
        for window, strategies in self.views.items():
            for strategy in strategies:
                self.session.sql(window_view(f"{strategy}{window}", self.call, window, strategy))
        return self

    def __exit__(self, *_error: object) -> None:
        self.session.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(self) -> None:
        """Let the next minute come, before the windows are full."""
        self._next()
        self.session.refresh()
        self._part_by_hand()
        self.minute += 1

    def measure(self) -> dict[int, dict[str, float]]:
        """Let the next minute come: the seconds of each view, and of what stands beside it, by window."""
        self._next()
        found: dict[int, dict[str, float]] = {
            window: {
                strategy: seconds(lambda name=f"{strategy}{window}": self.session.refresh(name))  # type: ignore[misc]
                for strategy in strategies
            }
            for window, strategies in self.views.items()
        }
        part = seconds(self._part_by_hand)
        for window, taken in found.items():
            taken["by hand"] = part + seconds(lambda window=window: self._window_by_hand(window))  # type: ignore[misc]
            if window <= self.recomputed:
                taken["recompute"] = seconds(lambda window=window: self._recompute(window))  # type: ignore[misc]
        self.minute += 1
        return found

    def _next(self) -> None:
        table = readings(self.rows, self.minute)
        self.files.append(write(self.folder / "batches", self.minute, table))
        self.session.feed("S", table)

    def _recompute(self, window: int) -> None:
        frame = self.engine.spark.read.parquet(*self.files[-window:])
        self._save(frame.groupBy("G").agg({"A": self.call}), "recomputed")

    def _part_by_hand(self) -> None:
        """What is made of a minute: sums that go on from the last ones, or the maximum."""
        new = self.engine.spark.read.parquet(self.files[-1]).groupBy("G").agg({"A": self.call})
        new = new.toDF("G", "part")
        if self.call == "sum":
            kept = self.engine.read(self.partials[-1:], "G INT, part BIGINT")
            new = new.unionByName(kept).groupBy("G").agg({"part": "sum"}).toDF("G", "part")
        self.partials.append(self._save(new, "kept"))

    def _window_by_hand(self, window: int) -> None:
        if self.call == "max":
            merged = self.engine.read(self.partials[-window:], "G INT, part INT")
            self._save(merged.groupBy("G").agg({"part": "max"}), f"result{window}-")
            return
        now = self.engine.read(self.partials[-1:], "G INT, part BIGINT")
        before = self.engine.read([self.partials[-1 - window]], "G INT, part BIGINT")
        both = now.unionByName(before.selectExpr("G", "-part AS part"))
        self._save(both.groupBy("G").agg({"part": "sum"}).where("`sum(part)` > 0"), f"result{window}-")

    def _save(self, frame: Any, name: str) -> str:
        path = str(self.folder / f"{name}{self.minute}")
        frame.write.mode("overwrite").parquet(path)
        return path


def window_view(name: str, call: str, window: int, strategy: str) -> str:
    """A view over a window of so many minutes."""
    return (
        f"CREATE VIEW {name} AS SELECT G, {call}(A) AS {call}_A FROM S [WINDOW {window} MINUTES] GROUP BY G "
        f"PARTITION LENGTH 60 WITH (strategy = '{strategy}')"
    )


def _streaming(context: Context, engine: Engine, window: int, rows: int) -> list[float]:
    """Seconds of each batch of Structured Streaming's own sliding sums over the same files, the first ones left out."""
    batches = 10
    done = context.step("Structured Streaming", batches)
    folder = context.folder / "streaming"
    for minute in range(batches):
        write(folder / "batches", minute, readings(rows, minute))
        done()
    functions, spark = engine.functions, engine.spark
    read = spark.readStream.schema("ts TIMESTAMP, G INT, A INT").option("maxFilesPerTrigger", 1)
    slid = functions.window("ts", f"{window} minutes", "1 minute")
    sums = read.parquet(str(folder / "batches")).withWatermark("ts", "1 minute").groupBy(slid, "G")
    query = (
        sums.agg(functions.sum("A").alias("sum_A"))
        .writeStream.outputMode("update").format("noop").trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint")).start()
    )  # fmt: skip
    query.awaitTermination()
    progress = [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress if one["numInputRows"]]
    shutil.rmtree(folder, ignore_errors=True)
    return [float(taken) for taken in progress[3:]]


def _beside_streaming(
    found: dict[str, dict[int, dict[str, list[float]]]], window: int, slides: list[float]
) -> list[Aim]:
    by_window = found.get("sum", {})
    if not slides or window not in by_window:
        return []
    taken = min(by_window[window]["subtractable"])
    return [Aim.at_least(f"Structured Streaming at W={window} over the view", 8, min(slides) / taken)]


def _catch_up(context: Context, engine: Engine, missed: int) -> dict[str, dict[str, float]]:
    """Seconds for parts of 10,000 rows, by where they are made: all in one refresh, and each in one of its own."""
    done = context.step("catching up", 2 * len(MADE))
    found: dict[str, dict[str, float]] = {}
    for where, rows_here in MADE.items():
        found[where] = {}
        for name in ("one refresh", "single refreshes"):
            folder = context.folder / f"{where} {name}".replace(" ", "-")
            with connect(str(folder), engine=engine.kind, spark=engine.spark) as session:
                session.sql(f"ALTER HOME SET (rows_here = {rows_here})")
                session.sql(STREAM)
                session.feed("S", readings(10_000, 0))
                session.sql(window_view("W", "sum", 10, "auto"))
                session.refresh()
                taken = 0.0
                for minute in range(1, missed + 1):
                    session.feed("S", readings(10_000, minute))
                    if name == "single refreshes":
                        taken += seconds(session.refresh)
                if name == "one refresh":
                    taken = seconds(session.refresh)
                found[where][name] = taken
            shutil.rmtree(folder, ignore_errors=True)
            done()
    return found


def _series(found: dict[str, dict[int, dict[str, list[float]]]]) -> list[Series]:
    made = []
    for call, by_window in found.items():
        figure = "Fig. 12" if call == "sum" else "Fig. 10"
        for name in dict.fromkeys(name for runs in by_window.values() for name in runs):
            measured = {float(window): runs[name] for window, runs in by_window.items() if name in runs}
            one = Series.of_runs(f"{call} by window ({figure})", name, "s", measured)
            made.append(Series(one.panel, one.name, one.unit, one.x, one.y, "minutes", one.runs))
    return made


def _aims(found: dict[str, dict[int, dict[str, list[float]]]], caught: dict[str, dict[str, float]]) -> list[Aim]:
    aims = []
    for call, by_window in found.items():
        first = CALLS[call][0]
        for window, bound in ((10, 5), (50, 20)):
            if "recompute" in (runs := by_window.get(window, {})):
                aims.append(Aim.at_least(
                    f"recompute of {call} at W={window} over the view", bound, min(runs["recompute"]) / min(runs[first])
                ))  # fmt: skip
        by_hand = max(min(runs[first]) / min(runs["by hand"]) for runs in by_window.values())
        aims.append(Aim.under(f"the view of {call} over hand-written code", 1.15, by_hand))
        if call == "sum":
            flat = [min(runs[first]) for window, runs in by_window.items() if window >= 10]
            if len(flat) > 1:
                aims.append(Aim.under("SUM at the longest window over W=10", 1.3, flat[-1] / flat[0]))
            if "distributive" in (runs := by_window.get(50, {})):
                ratio = min(runs["distributive"]) / min(runs["subtractable"])
                aims.append(Aim.at_least("distributive over subtractable at W=50", 1.3, ratio))
    for where, taken in caught.items():
        ratio = taken["single refreshes"] / taken["one refresh"]
        aims.append(Aim.at_least(f"single refreshes over one that catches up, {where}", 20, ratio))
    return aims


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if not set(chosen) <= set(CALLS):
        raise ValueError("sum and max")
    return chosen
