"""Four or more minutes of high loss in a row (View1), kept as a view: beside recompute and hand-written code.

Recompute finds the runs in the last *scope* minutes with window functions, as one would on Spark without a view; it is
right only for runs that are no longer. The hand-written code keeps what the paper's Helper keeps, in files of its own.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.measure import seconds
from bench.viewdf_data import pairs, write
from headrace.engine import Engine, open_engine
from headrace.session import Session, connect

VIEW = """CREATE VIEW View1 AS
  SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss
  FROM M PATTERN [a, b, c, d+]
  WHERE a.loss>10 AND b.loss>10 AND c.loss>10 AND d.loss>10
  GROUP BY src, dest"""
STREAM = "CREATE STREAM M (ts TIMESTAMP, src INT NOT NULL, dest INT NOT NULL, loss INT) ORDER BY ts PARTITION LENGTH 60"

#: Runs of high loss that last until now: a run begins anew after each row that is not high.
RECOMPUTE = """
SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss FROM (
  SELECT *, sum(CASE WHEN loss > 10 THEN 0 ELSE 1 END) OVER later AS lows FROM batches
  WINDOW later AS (PARTITION BY src, dest ORDER BY ts DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
) WHERE lows = 0 GROUP BY src, dest HAVING count(*) >= 4
"""
BY_HAND = """
SELECT New.src, New.dest, coalesce(Prev.ct, 0) + 1 AS ct, coalesce(Prev.sum_loss, 0) + New.loss AS sum_loss,
  least(coalesce(Prev.state, 0) + 1, 4) AS state
FROM new_batch AS New LEFT JOIN kept AS Prev ON New.src = Prev.src AND New.dest = Prev.dest WHERE New.loss > 10
"""
OPTIONS = {
    "rows": "pairs a batch; 1,000,000 unless told, with --quick 20,000",
    "scopes": "minutes that recompute looks back, such as 5,20,100",
    "shares": "percent of the pairs that have high loss, such as 10,50,100",
    "repeats": "batches that are measured; 3 unless told",
}


@dataclass(frozen=True)
class Sizes:
    rows: int = 1_000_000
    scopes: tuple[int, ...] = (5, 10, 20, 50, 100)
    shares: tuple[int, ...] = (10, 40, 70, 100)
    repeats: int = 3


QUICK = Sizes(rows=20_000, scopes=(5, 20), shares=(10, 100), repeats=1)
NAMES = ("view", "recompute", "by hand")


@experiment(
    "viewdf-pattern",
    figure="ViewDF Fig. 6-8",
    description="a pattern over a million pairs a minute, beside recompute and hand-written state",
    options=OPTIONS,
)
def viewdf_pattern(context: Context) -> Findings:
    """Measure batch after batch: the view, recompute over the scope, and the hand-written code."""
    sizes = context.pick(Sizes(), QUICK)
    rows = context.option("rows", int, sizes.rows)
    scopes = context.option("scopes", _numbers, sizes.scopes)
    shares = context.option("shares", _numbers, sizes.shares)
    repeats = context.option("repeats", int, sizes.repeats)
    engine = open_engine(context.engine or "spark")
    longest = max(scopes)
    done = context.step("scopes", longest + repeats * len(scopes))
    with _Run(context.folder / "scopes", engine, rows, 0.1) as run:
        for _ in range(longest):
            run.next_batch()
            done()
        by_scope: dict[int, dict[str, list[float]]] = {}
        for scope in scopes:
            by_scope[scope] = {name: [] for name in NAMES}
            for _ in range(repeats):
                for name, taken in run.next_batch(scope).items():
                    by_scope[scope][name].append(taken)
                done()
    done = context.step("shares of high loss", len(shares) * (4 + repeats))
    by_share: dict[int, dict[str, list[float]]] = {}
    for share in shares:
        with _Run(context.folder / f"share{share}", engine, rows, share / 100) as run:
            for _ in range(4):
                run.next_batch()
                done()
            by_share[share] = {name: [] for name in NAMES}
            for _ in range(repeats):
                for name, taken in run.next_batch(4).items():
                    by_share[share][name].append(taken)
                done()
    return Findings(
        parameters={"engine": engine.kind, "rows": rows, "scopes": scopes, "shares": shares, "repeats": repeats},
        series=[*_series(by_scope, "scope (Fig. 7)", "minutes"), *_series(by_share, "high loss (Fig. 8)", "percent")],
        aims=_aims(by_scope),
        notes=["Fig. 6, growing batches: run with several --rows."],
    )


@dataclass
class _Run:
    """One stream of batches, and the three ways to follow it."""

    folder: Path
    engine: Engine
    rows: int
    share: float
    minute: int = 0
    files: list[str] = field(default_factory=list)
    kept: str | None = None

    def __enter__(self) -> _Run:
        self.folder.mkdir()
        kind = self.engine.kind
        self.session: Session = connect(str(self.folder / "home"), engine=kind, spark=self.engine.spark)
        self.session.sql(STREAM)
        self.session.sql(VIEW)
        return self

    def __exit__(self, *_error: object) -> None:
        self.session.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def next_batch(self, scope: int | None = None) -> dict[str, float]:
        """Let the next minute come and measure what it takes; recompute only where a scope is given."""
        table = pairs(self.rows, self.share, self.minute)
        self.files.append(write(self.folder / "batches", self.minute, table))
        self.session.feed("M", table)
        found = {"view": seconds(self.session.refresh), "by hand": seconds(self._by_hand)}
        if scope is not None:
            found["recompute"] = seconds(lambda: self._recompute(scope))
        self.minute += 1
        return found

    def _recompute(self, scope: int) -> None:
        frame = self.engine.spark.read.parquet(*self.files[-scope:])
        self._save(self.engine.sql(RECOMPUTE, {"batches": frame}), "recomputed")

    def _by_hand(self) -> None:
        new = self.engine.spark.read.parquet(self.files[-1])
        schema = "src INT, dest INT, ct BIGINT, sum_loss BIGINT, state INT"
        kept = self.engine.read([] if self.kept is None else [self.kept], schema)
        self.kept = self._save(self.engine.sql(BY_HAND, {"new_batch": new, "kept": kept}), "kept")
        result = self.engine.sql("SELECT src, dest, ct, sum_loss FROM kept WHERE state = 4", {
            "kept": self.engine.read([self.kept], schema)
        })  # fmt: skip
        self._save(result, "result")

    def _save(self, frame: Any, name: str) -> str:
        path = str(self.folder / f"{name}{self.minute}")
        frame.write.mode("overwrite").parquet(path)
        return path


def _series(found: dict[int, dict[str, list[float]]], panel: str, label: str) -> list[Series]:
    made = []
    for name in NAMES:
        runs = {float(x): values[name] for x, values in found.items()}
        one = Series.of_runs(panel, name, "s", runs)
        made.append(Series(one.panel, one.name, one.unit, one.x, one.y, label, one.runs))
    return made


def _aims(found: dict[int, dict[str, list[float]]]) -> list[Aim]:
    def least(scope: int, name: str) -> float:
        return min(found[scope][name])

    near = min(found, key=lambda scope: abs(scope - 20))
    first, last = min(found), max(found)
    by_hand = max(least(scope, "view") / least(scope, "by hand") for scope in found)
    return [
        Aim.at_least(f"recompute at scope {near} over the view", 15, least(near, "recompute") / least(near, "view")),
        Aim.under("the view at the longest scope over the shortest", 1.3, least(last, "view") / least(first, "view")),
        Aim.under("the view over hand-written code", 1.15, by_hand),
    ]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))
