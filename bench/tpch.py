"""The 22 queries of TPC-H kept as views: what a refresh costs after a delta, beside computing the query again.

One view at a time: it is made, warmed up with a delta, measured after deltas that change 0.1 % and 1 % of orders, lines
and customers, and dropped. Every delta is taken back before the next. The rival in the same session is the quicker of
the query over plain Parquet files and over cached tables, which Sail does not have; DuckDB stands beside both, with
tables of its own, and what a view holds after a delta is compared with what DuckDB finds.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.measure import seconds
from bench.stopping import until_stopped
from bench.tpch_data import DataSet, data_set, pieces
from bench.tpch_deltas import Delta, by_share
from bench.tpch_queries import NUMBERS, name_of, query
from bench.tpch_runs import NOTHING, Duck, Recompute, Step, best, check_alike, load, state_bytes, take
from headrace.engine import open_engine
from headrace.session import Session, connect

ENGINES = ("spark", "sail")
#: The smaller first: a change that is computed as a whole leaves the states behind.
SHARES = (0.001, 0.01)

#: How many times quicker than recompute a refresh should be, in the geometric mean of all queries: from a scale factor
#: on, by engine and delta.
AIMS = {
    0: {"spark": {"1 %": 1.0, "0.1 %": 1.0}, "sail": {"1 %": 1.0, "0.1 %": 1.0}},
    1: {"spark": {"1 %": 2.0, "0.1 %": 2.0}, "sail": {"1 %": 2.0, "0.1 %": 2.0}},
    10: {"spark": {"1 %": 5.0, "0.1 %": 10.0}, "sail": {"0.1 %": 15.0}},
}
#: What no query may fall below, from scale factor 1 on; and where and after which delta each should beat DuckDB.
LEAST = 0.8
BESIDE_DUCKDB = (10, "sail", "0.1 %")

OPTIONS = {
    "sf": "the scale factor of TPC-H; 1 unless told, with --quick 0.1",
    "queries": "which queries, such as 1,3,5; all unless told",
    "changes": "'inserts' (unless told): new rows; 'all': half of them, a quarter deletes and a quarter updates",
    "strategy": "how the views are maintained, such as differential; what the planner takes unless told",
    "repeats": "how often each delta is measured; 3 unless told, with --quick 1",
}


@dataclass
class Found:
    """What was measured of one query on one engine."""

    recompute: dict[str, list[float]]
    duckdb: list[float]
    create: float = 0
    steps: dict[str, list[Step]] = field(default_factory=dict)
    rows: int = 0
    state_bytes: int = 0

    def refresh(self, delta: str) -> float:
        return statistics.median(step.refresh for step in self.steps[delta])

    @property
    def changes(self) -> bool:
        """Whether the deltas change anything that the query reads."""
        return any(step.strategy != NOTHING for steps in self.steps.values() for step in steps)

    def ratio(self, delta: str) -> float:
        """How many times as long as the refresh the quickest recompute in the same session takes."""
        return best(self.recompute)[1] / self.refresh(delta)


@experiment(
    "tpch",
    figure="none: TPC-H, the common yardstick",
    description="a refresh of each of the 22 queries after deltas of 1 % and 0.1 %, beside recompute and DuckDB",
    options=OPTIONS,
)
def tpch(context: Context) -> Findings:
    """Measure every query on one engine or on both."""
    scale = context.option("sf", float, context.pick(1.0, 0.1))
    numbers = context.option("queries", _numbers, NUMBERS)
    changes = context.option("changes", _changes, "inserts")
    strategy = context.option("strategy", str, "auto")
    repeats = context.option("repeats", int, context.pick(3, 1))
    done = context.step(f"data of scale factor {scale:g}", pieces(scale))
    data = data_set(scale, done=done)
    deltas = by_share(data, SHARES, old=changes == "all")
    found: dict[str, dict[str, Found]] = {}
    landing: dict[str, float] = {}
    for engine in [context.engine] if context.engine else ENGINES:
        landing[engine], found[engine] = _on(
            context, engine, data, deltas, numbers, strategy, repeats, whole=changes == "inserts"
        )
    return Findings(
        parameters={
            "scale": scale,
            "queries": [name_of(number) for number in numbers],
            "changes": changes,
            "strategy": strategy,
            "repeats": repeats,
            "delta_rows": {delta.name: delta.rows for delta in deltas},
            "landing_seconds": landing,
        },
        series=_series(found, deltas),
        aims=_aims(found, deltas, scale),
        notes=_notes(found, numbers),
        details={engine: {name: _detail(one) for name, one in by_query.items()} for engine, by_query in found.items()},
    )


def _numbers(text: str) -> tuple[int, ...]:
    chosen = tuple(int(number) for number in text.split(","))
    if not set(chosen) <= set(NUMBERS):
        raise ValueError("there are 22 queries")
    return chosen


def _changes(text: str) -> str:
    if text not in ("all", "inserts"):
        raise ValueError("all or inserts")
    return text


def _on(
    context: Context,
    engine: str,
    data: DataSet,
    deltas: Sequence[Delta],
    numbers: Sequence[int],
    strategy: str,
    repeats: int,
    *,
    whole: bool,
) -> tuple[float, dict[str, Found]]:
    """All queries on one engine; with how many seconds the landing took."""
    folder = context.folder / engine[:5]
    folder.mkdir()
    spark = open_engine(engine).spark
    done = context.step(f"views on {engine}", len(numbers) + 1)
    with connect(str(folder / "home"), engine=engine, spark=spark) as session:
        landing = load(session, data, whole=whole)
        duck, recompute = Duck(folder, data), Recompute(session, data, cached=engine == "spark")
        done()
        found: dict[str, Found] = {}
        # At a large scale this takes hours: what is measured so far is kept when somebody has seen enough.
        for number in until_stopped(numbers):
            measured = _measure(session, recompute, duck, number, data.scale, deltas, strategy, repeats)
            found[name_of(number)] = measured
            done()
        if not found:
            raise KeyboardInterrupt
        recompute.close()
        duck.close()
    return landing, found


def _measure(
    session: Session,
    recompute: Recompute,
    duck: Duck,
    number: int,
    scale: float,
    deltas: Sequence[Delta],
    strategy: str,
    repeats: int,
) -> Found:
    name, text = name_of(number), query(number, scale)
    found = Found(recompute.times(text, repeats=repeats), duck.times(text, repeats=repeats))
    made = f"CREATE VIEW {name} AS {text} WITH (strategy = '{strategy}')"
    found.create = seconds(lambda: session.sql(made))
    smallest = min(deltas, key=lambda delta: delta.rows)
    take(session, smallest.forth)
    take(session, smallest.back)
    for delta in deltas:
        found.steps[delta.name] = []
        for run in range(repeats):
            found.steps[delta.name].append(take(session, delta.forth))
            if run == 0:
                kept = session.arrow(session.table(name))
                check_alike(f"{name} after {delta.name}", kept, duck.answer_after(delta.forth, text))
                found.rows, found.state_bytes = kept.num_rows, state_bytes(session, name)
            take(session, delta.back)
    session.sql(f"DROP VIEW {name}")
    return found


# --- What came of it -------------------------------------------------------------------------------------------------


def _series(found: dict[str, dict[str, Found]], deltas: Sequence[Delta]) -> list[Series]:
    series = [
        Series(
            "Recompute over refresh: geometric mean",
            engine,
            "ratio",
            [delta.name for delta in deltas],
            [_mean(by_query, delta) for delta in deltas],
        )
        for engine, by_query in found.items()
    ]
    for engine, by_query in found.items():
        names = list(by_query)
        panel = f"Recompute over refresh, on {engine}"
        for delta in deltas:
            ratios = [one.ratio(delta.name) for one in by_query.values()]
            series.append(Series(panel, f"after {delta.name}", "ratio", names, ratios, x_label="query"))
        panel = f"Seconds, on {engine}"
        timed = {f"refresh after {delta.name}": [f.refresh(delta.name) for f in by_query.values()] for delta in deltas}
        timed["recompute"] = [best(one.recompute)[1] for one in by_query.values()]
        timed["DuckDB"] = [statistics.median(one.duckdb) for one in by_query.values()]
        series += [Series(panel, what, "s", names, values, x_label="query") for what, values in timed.items()]
    return series


def _mean(by_query: dict[str, Found], delta: Delta) -> float:
    return statistics.geometric_mean(one.ratio(delta.name) for one in by_query.values() if one.changes)


def _aims(found: dict[str, dict[str, Found]], deltas: Sequence[Delta], scale: float) -> list[Aim]:
    wanted = AIMS[max(least for least in AIMS if scale >= least)]
    aims = [
        Aim.at_least(f"recompute over refresh after {delta.name} ({engine})", aim, _mean(by_query, delta))
        for engine, by_query in found.items()
        for delta in deltas
        if (aim := wanted.get(engine, {}).get(delta.name)) is not None
    ]
    least_scale, beside, after = BESIDE_DUCKDB
    for engine, by_query in found.items():
        moving = [one for one in by_query.values() if one.changes]
        if scale >= 1 and moving:
            slowest = min(one.ratio(delta.name) for one in moving for delta in deltas)
            aims.append(Aim.at_least(f"the slowest of all ({engine})", LEAST, slowest))
        if scale >= least_scale and engine == beside and moving:
            least = min(statistics.median(one.duckdb) / one.refresh(after) for one in moving)
            aims.append(Aim.at_least(f"DuckDB's recompute over the refresh after {after}, least ({engine})", 1, least))
    return aims


def _notes(found: dict[str, dict[str, Found]], numbers: Sequence[int]) -> list[str]:
    notes = []
    for engine, by_query in found.items():
        missing = [name_of(number) for number in numbers if name_of(number) not in by_query]
        notes += [f"Stopped before {', '.join(missing)} ({engine})."] if missing else []
        ways: dict[str, list[str]] = {}
        for name, one in by_query.items():
            for strategy in sorted({step.strategy for steps in one.steps.values() for step in steps}):
                ways.setdefault(strategy, []).append(name)
        still = ways.pop(NOTHING, [])
        notes += [f"Not in the means: {', '.join(still)} read nothing that changes ({engine})."] if still else []
        notes += [f"By {strategy} on {engine}: {', '.join(names)}." for strategy, names in ways.items()]
    return notes


def _detail(one: Found) -> dict[str, Any]:
    way, recompute = best(one.recompute)
    return {
        "create": one.create,
        "rows": one.rows,
        "state_bytes": one.state_bytes,
        "recompute": {"quickest": way, "seconds": recompute, "runs": one.recompute},
        "duckdb": one.duckdb,
        "refreshes": {delta: [asdict(step) for step in steps] for delta, steps in one.steps.items()},
    }
