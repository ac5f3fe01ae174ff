"""SUM and MAX over sliding windows of minutes, kept as views: by each strategy, recompute and hand-written code.

Structured Streaming keeps the same sliding sums over the same files, a batch at a time. Catching up with many missed
parts in one refresh stands beside refreshing after each.
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
OPTIONS = {
    "rows": "rows a batch; 5,000,000 unless told, with --quick 50,000",
    "windows": "minutes in a window, such as 5,10,50,100",
    "calls": "sum, max or both",
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
    engine = open_engine(context.engine or "spark")
    found: dict[str, dict[int, dict[str, list[float]]]] = {}
    for call in calls:
        found[call] = {}
        done = context.step(f"windows of {call}", sum(windows) + len(windows) * (1 + repeats))
        for window in windows:
            with _Run(context.folder / f"{call}{window}", engine, call, window, rows) as run:
                for _ in range(window + 1):
                    run.next_batch(measured=False)
                    done()
                taken = [run.next_batch() for _ in range(repeats)]
                done()
            found[call][window] = {name: [one[name] for one in taken] for name in taken[0]}
    streamed = context.option("streaming", int, 0)
    slides = _streaming(context, engine, streamed, rows) if streamed and engine.kind == "spark" else []
    caught = _catch_up(context, engine, missed) if missed else None
    return Findings(
        parameters={"engine": engine.kind, "rows": rows, "windows": windows, "repeats": repeats, "missed": missed},
        series=_series(found),
        aims=[*_aims(found, caught), *_beside_streaming(found, streamed, slides)],
        details={"catching_up": caught, "structured_streaming": slides},
    )


@dataclass
class _Run:
    """One stream of batches, views over it by each strategy, and the same by recompute and by hand."""

    folder: Path
    engine: Engine
    call: str
    window: int
    rows: int
    minute: int = 0
    files: list[str] = field(default_factory=list)
    partials: list[str] = field(default_factory=list)

    def __enter__(self) -> _Run:
        self.folder.mkdir()
        kind = self.engine.kind
        self.session: Session = connect(str(self.folder / "home"), engine=kind, spark=self.engine.spark)
        self.session.sql(STREAM)
        for strategy in CALLS[self.call]:
            self.session.sql(window_view(strategy, self.call, self.window, strategy))
        return self

    def __exit__(self, *_error: object) -> None:
        self.session.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def next_batch(self, *, measured: bool = True) -> dict[str, float]:
        """Let the next minute come; each view is refreshed by itself, so that each is measured alone."""
        table = readings(self.rows, self.minute)
        self.files.append(write(self.folder / "batches", self.minute, table))
        self.session.feed("S", table)
        found = {
            strategy: seconds(lambda name=strategy: self.session.refresh(name))  # type: ignore[misc]
            for strategy in CALLS[self.call]
        }
        found["by hand"] = seconds(self._by_hand)
        if measured:
            found["recompute"] = seconds(self._recompute)
        self.minute += 1
        return found

    def _recompute(self) -> None:
        frame = self.engine.spark.read.parquet(*self.files[-self.window :])
        self._save(frame.groupBy("G").agg({"A": self.call}), "recomputed")

    def _by_hand(self) -> None:
        """What the first strategy does: cumulative sums, or the maximum of each minute."""
        new = self.engine.spark.read.parquet(self.files[-1]).groupBy("G").agg({"A": self.call})
        new = new.toDF("G", "part")
        if self.call == "sum":
            kept = self.engine.read(self.partials[-1:], "G INT, part BIGINT")
            new = new.unionByName(kept).groupBy("G").agg({"part": "sum"}).toDF("G", "part")
        self.partials.append(self._save(new, "kept"))
        if self.call == "max":
            merged = self.engine.read(self.partials[-self.window :], "G INT, part INT")
            self._save(merged.groupBy("G").agg({"part": "max"}), "result")
        elif len(self.partials) > self.window:
            now = self.engine.read(self.partials[-1:], "G INT, part BIGINT")
            before = self.engine.read([self.partials[-1 - self.window]], "G INT, part BIGINT")
            both = now.unionByName(before.selectExpr("G", "-part AS part"))
            self._save(both.groupBy("G").agg({"part": "sum"}).where("`sum(part)` > 0"), "result")

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


def _catch_up(context: Context, engine: Engine, missed: int) -> dict[str, float]:
    """Seconds for parts of 10,000 rows: all in one refresh, and each in one of its own (some, and the rest by rule)."""
    done = context.step("catching up", 2)
    found: dict[str, float] = {}
    single = min(missed, 40)
    for name, parts in (("one refresh", missed), ("single refreshes", single)):
        folder = context.folder / name.replace(" ", "-")
        with connect(str(folder), engine=engine.kind, spark=engine.spark) as session:
            session.sql(STREAM)
            session.feed("S", readings(10_000, 0))
            session.sql(window_view("W", "sum", 10, "auto"))
            session.refresh()
            taken = 0.0
            for minute in range(1, parts + 1):
                session.feed("S", readings(10_000, minute))
                if name == "single refreshes":
                    taken += seconds(session.refresh)
            if name == "one refresh":
                taken = seconds(session.refresh)
            found[name] = taken * missed / parts
        shutil.rmtree(folder, ignore_errors=True)
        done()
    return found


def _series(found: dict[str, dict[int, dict[str, list[float]]]]) -> list[Series]:
    made = []
    for call, by_window in found.items():
        figure = "Fig. 12" if call == "sum" else "Fig. 10"
        for name in next(iter(by_window.values())):
            one = Series.of_runs(
                f"{call} by window ({figure})", name, "s", {float(w): runs[name] for w, runs in by_window.items()}
            )
            made.append(Series(one.panel, one.name, one.unit, one.x, one.y, "minutes", one.runs))
    return made


def _aims(found: dict[str, dict[int, dict[str, list[float]]]], caught: dict[str, float] | None) -> list[Aim]:
    aims = []
    for call, by_window in found.items():
        first = CALLS[call][0]
        for window, bound in ((10, 5), (50, 20)):
            if window in by_window:
                runs = by_window[window]
                aims.append(Aim.at_least(
                    f"recompute of {call} at W={window} over the view", bound, min(runs["recompute"]) / min(runs[first])
                ))  # fmt: skip
        by_hand = max(min(runs[first]) / min(runs["by hand"]) for runs in by_window.values())
        aims.append(Aim.under(f"the view of {call} over hand-written code", 1.15, by_hand))
        if call == "sum":
            flat = [min(runs[first]) for window, runs in by_window.items() if window >= 10]
            if len(flat) > 1:
                aims.append(Aim.under("SUM at the longest window over W=10", 1.3, flat[-1] / flat[0]))
            if 50 in by_window:
                runs = by_window[50]
                ratio = min(runs["distributive"]) / min(runs["subtractable"])
                aims.append(Aim.at_least("distributive over subtractable at W=50", 1.3, ratio))
    if caught is not None:
        ratio = caught["single refreshes"] / caught["one refresh"]
        aims.append(Aim.at_least("single refreshes over one that catches up", 20, ratio))
    return aims


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if not set(chosen) <= set(CALLS):
        raise ValueError("sum and max")
    return chosen
