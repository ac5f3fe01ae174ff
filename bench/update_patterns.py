"""The thesis' Queries 1 to 4 over growing windows: by update patterns, with negative tuples, and directly (3.6).

All ways keep the same view over the same packets and are refreshed one after another each time a thousand packets have
come on every link. Windows are full before anything is measured, as in the thesis.

Two things would otherwise be measured in place of the ways. Whoever is refreshed first after a feed, or last, has it
harder or easier: so the order rotates, and every way stands in every place equally often. And negative tuples are found
in the streams' logs, whose small files are rolled up to one: re-reading that to find the few rows that leave doubles a
refresh at 200,000 rows, and says nothing about negative tuples. So the logs are cut by PARTITION LENGTH.

Query 3 is the control: by its update patterns it is the same program as with negative tuples. What differs between
those two is noise, and smaller differences elsewhere mean nothing.
"""

from __future__ import annotations

import gc
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from bench.measure import seconds
from bench.packets import COLUMNS, LINKS, Trace
from headrace.engine import open_engine
from headrace.runtime.plan_text import state_bytes
from headrace.session import Session, connect

PATTERNS, NEGATIVE, DIRECT = "pattern-aware", "negative tuples", "direct"
_WAYS = {PATTERNS: "tuples = 'auto'", NEGATIVE: "tuples = 'negative'", DIRECT: "tuples = 'direct'"}
#: Fig. 3.15: the negation on top of the join, or below it; there is nothing left to be direct about below a negation.
_REWRITINGS = {
    f"{PATTERNS}, negation up": "tuples = 'auto', rewriting = 'pull up'",
    f"{NEGATIVE}, negation up": "tuples = 'negative', rewriting = 'pull up'",
    f"{NEGATIVE}, join up": "tuples = 'negative', rewriting = 'push down'",
}


@dataclass(frozen=True)
class Case:
    """A query with its figure, and the ways to keep it; {w} stands for the window."""

    name: str
    figure: str
    links: int
    query: str
    ways: Mapping[str, str] = field(default_factory=lambda: _WAYS)
    space: str = ""


def _join(protocol: str) -> str:
    return (
        "SELECT a.src, a.dst, a.payload, b.dst AS other_dst, b.payload AS other_payload FROM link1 {w} a, link2 {w} b"
        f" WHERE a.src = b.src AND a.protocol = '{protocol}' AND b.protocol = '{protocol}'"
    )


CASES = (
    Case("query 1, ftp", "Fig. 3.8", 2, _join("ftp")),
    Case("query 1, telnet", "Fig. 3.9", 2, _join("telnet")),
    Case("query 2, sources", "Fig. 3.10", 1, "SELECT DISTINCT src FROM link1 {w}", space="Fig. 3.12"),
    Case("query 2, pairs", "Fig. 3.11", 1, "SELECT DISTINCT src, dst FROM link1 {w}", space="Fig. 3.13"),
    Case(
        "query 3",
        "Fig. 3.14",
        2,
        "SELECT a.src, a.dst, a.payload FROM link1 {w} a"
        " WHERE NOT EXISTS (SELECT 1 FROM link2 {w} b WHERE b.src = a.src AND b.protocol = 'ftp')",
    ),
    Case(
        "query 4",
        "Fig. 3.15",
        3,
        "SELECT a.src, a.dst, a.payload, c.payload AS other_payload FROM link1 {w} a JOIN link3 {w} c ON a.src = c.src"
        " WHERE a.protocol = 'ftp' AND c.protocol = 'ftp'"
        " AND NOT EXISTS (SELECT 1 FROM link2 {w} b WHERE b.src = a.src AND b.protocol = 'ftp')",
        _REWRITINGS,
    ),
)


@dataclass(frozen=True)
class Sizes:
    """Window lengths in seconds, which are rows a link; rows a link between refreshes; and how many refreshes.

    Refreshes are a multiple of three, the number of ways, so that each stands in each place equally often.
    """

    windows: tuple[int, ...] = (2_000, 10_000, 50_000, 200_000)
    rows: int = 1_000
    refreshes: int = 9
    warm_ups: int = 3


FULL = Sizes()
QUICK = Sizes(windows=(2_000, 10_000), refreshes=3, warm_ups=2)
#: Parts that a window's log is cut into.
PARTS = 20
CONTROL = "query 3"


@dataclass(frozen=True)
class Measured:
    """One case at one window: by way, the seconds of each refresh, and bytes of state and rows of the view after."""

    seconds: Mapping[str, list[float]]
    bytes: Mapping[str, int]
    rows: int


OPTIONS = {"windows": "window lengths in seconds, which are rows a link: 2000,10000,50000,200000 unless told"}


@experiment(
    "update-patterns",
    figure="thesis Fig. 3.8-3.15",
    description="Queries 1-4 over windows by their update patterns, with negative tuples and directly",
    options=OPTIONS,
)
def update_patterns(context: Context) -> Findings:
    """Measure every query over every window, all ways side by side."""
    sizes = context.pick(FULL, QUICK)
    windows = context.option("windows", _windows, sizes.windows)
    engine = context.engine or "sail"
    spark = open_engine(engine).spark
    found: dict[str, dict[int, Measured]] = {case.name: {} for case in CASES}
    runs = sum(len(case.ways) for case in CASES) * (sizes.refreshes + sizes.warm_ups)
    for window in windows:
        done = context.step(f"windows of {window:,} rows on {engine}", runs)
        for case in CASES:
            home = context.folder / f"{case.name.replace(' ', '_').replace(',', '')}-{window}"
            with connect(str(home), engine=engine, spark=spark) as session:
                found[case.name][window] = _measured(session, case, window, sizes, done)
            shutil.rmtree(home, ignore_errors=True)
    return Findings(
        parameters={
            "engine": engine,
            "windows": windows,
            "rows_a_refresh": sizes.rows,
            "refreshes": sizes.refreshes,
            "queries": {case.name: case.query for case in CASES},
        },
        series=[*_times(found), *_space(found)],
        aims=_aims(found, windows[-1]),
        notes=[_control(found[CONTROL])],
        details={
            case.name: {
                str(window): {"rows": one.rows, "state_bytes": dict(one.bytes)}
                for window, one in found[case.name].items()
            }
            for case in CASES
        },
    )


def _windows(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(part) for part in text.split(",")))


def _measured(session: Session, case: Case, window: int, sizes: Sizes, done: Callable[[], None]) -> Measured:
    trace, links = Trace(window), LINKS[: case.links]
    for link in links:
        session.sql(f"CREATE STREAM {link} ({COLUMNS}) ORDER BY at PARTITION LENGTH {max(1, window // PARTS)}")
        session.feed(link, trace.packets(link, 0, window))
    views = {way: f"way_{number}" for number, way in enumerate(case.ways)}
    text = case.query.format(w=f"[RANGE {window} SECONDS]")
    for way, name in views.items():
        policy = "REFRESH ON DEMAND REFRESH POLICY INCREMENTAL"
        session.sql(f"CREATE VIEW {name} AS {text} {policy} WITH ({case.ways[way]})")
    times: dict[str, list[float]] = {way: [] for way in views}
    for number in range(sizes.warm_ups + sizes.refreshes):
        for link in links:
            session.feed(link, trace.packets(link, window + number * sizes.rows, sizes.rows))
        place = number % len(views)
        for way in [*list(views)[place:], *list(views)[:place]]:
            gc.collect()
            taken = seconds(lambda name=views[way]: session.refresh(name))  # type: ignore[misc]
            times[way] += [taken] if number >= sizes.warm_ups else []
            done()
    _check(session, list(views.values()))
    snapshot = session._home.snapshot()
    sized = {way: state_bytes(snapshot, snapshot.find(name)) for way, name in views.items()}
    return Measured(times, sized, session.table(views[next(iter(views))]).count())


def _check(session: Session, names: Sequence[str]) -> None:
    """A wrong answer has no speed, and neither has a refresh that went another way."""
    snapshot = session._home.snapshot()
    for name in names:
        last = snapshot.last_refresh(snapshot.find(name))
        if last is None or last.strategy != "differential":
            raise RuntimeError(f"{name} was not refreshed by its changes: {last and last.reason}")
    first = session.table(names[0])
    for other in names[1:]:
        differs = session.table(other).exceptAll(first).count() + first.exceptAll(session.table(other)).count()
        if differs:
            raise RuntimeError(f"{other} differs from {names[0]} in {differs} rows")


def _times(found: Mapping[str, Mapping[int, Measured]]) -> list[Series]:
    series = []
    for case in CASES:
        for way in case.ways:
            runs = [one.seconds[way] for one in found[case.name].values()]
            panel, medians = f"{case.figure}: {case.name}", [statistics.median(run) for run in runs]
            series.append(Series(panel, way, "s a refresh", list(found[case.name]), medians, "rows a window", runs))
    return series


def _space(found: Mapping[str, Mapping[int, Measured]]) -> list[Series]:
    return [
        Series(
            f"{case.space or case.figure}: state of {case.name}",
            way,
            "MB",
            list(found[case.name]),
            [one.bytes[way] / 1e6 for one in found[case.name].values()],
            "rows a window",
        )
        for case in CASES
        for way in case.ways
    ]


def _aims(found: Mapping[str, Mapping[int, Measured]], window: int) -> list[Aim]:
    """What the thesis found at its largest windows: who is faster than whom, and by more than the control's noise."""
    bound = min(1.0, *_control_ratios(found[CONTROL]))
    aims = []
    for case in CASES:
        if case.name == CONTROL:
            continue
        one = found[case.name][window]
        first, *others = case.ways
        for other in others:
            ratio = statistics.median(one.seconds[first]) / statistics.median(one.seconds[other])
            aims.append(Aim.under(f"{case.name}: {first} / {other}, {window:,} rows a window", bound, ratio))
    return aims


def _control_ratios(found: Mapping[int, Measured]) -> list[float]:
    """How two names of one program compare, at each window."""
    return [
        statistics.median(one.seconds[PATTERNS]) / statistics.median(one.seconds[NEGATIVE]) for one in found.values()
    ]


def _control(found: Mapping[int, Measured]) -> str:
    ratios = _control_ratios(found)
    return (
        f"Control: {CONTROL} is one program under two names, and their times differ by factors of {min(ratios):.2f} to "
        f"{max(ratios):.2f}. Ratios within that are no difference, and an aim is met only below it."
    )
