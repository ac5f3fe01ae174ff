"""A sum over 40,000 rows that slides by more and more: with panes, and with every row of the window kept."""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from dataclasses import dataclass
from typing import Any

from bench.esl_window import _Rows, _stream
from bench.experiments import Context, experiment
from bench.findings import Aim, Findings, Series
from headrace.engine import open_engine
from headrace.session import connect

PANES, ROWS = "panes (ALGEBRAIC)", "every row"
WINDOW = 40_000

_BASE = """CREATE ALGEBRAIC AGGREGATE total(x DOUBLE) : DOUBLE {
    TABLE state(s DOUBLE);
    INITIALIZE: { INSERT INTO state VALUES (x); }
    ITERATE: { UPDATE state SET s = s + x; }
    TERMINATE: { INSERT INTO RETURN SELECT s FROM state; } };"""
_OVER = """CREATE ALGEBRAIC WINDOW AGGREGATE total(x DOUBLE) : DOUBLE {
    TABLE state(s DOUBLE); TABLE inwindow(wx DOUBLE);
    INITIALIZE: { INSERT INTO state VALUES (x); INSERT INTO RETURN VALUES (x); }
    ITERATE: { UPDATE state SET s = s + x; INSERT INTO RETURN SELECT s FROM state; }
    EXPIRE: { UPDATE state SET s = s - oldest(); } };"""


@dataclass(frozen=True)
class Sizes:
    """Slides in rows, rows a batch, and how many refreshes."""

    slides: tuple[int, ...] = (1, 10, 100, 1_000, 5_000, 10_000, 20_000, 40_000)
    rows: int = 1_000_000
    refreshes: int = 3


FULL = Sizes()
QUICK = Sizes(slides=(1, 1_000, 40_000), rows=60_000, refreshes=2)


@experiment(
    "esl-slide",
    figure="Stream Mill figures 6 and 7",
    description="SUM over 40,000 rows with slides of 1 to 40,000: what is kept, and rows a second",
)
def esl_slide(context: Context) -> Findings:
    """Measure both ways at every slide."""
    sizes = context.pick(FULL, QUICK)
    engine = context.engine or "spark"
    spark = open_engine(engine).spark
    rates: dict[str, dict[int, list[float]]] = {}
    kept: dict[str, dict[int, int]] = {}
    for way in (PANES, ROWS):
        done = context.step(way, len(sizes.slides))
        rates[way], kept[way] = {}, {}
        for slide in sizes.slides:
            rates[way][slide], kept[way][slide] = _measured(context, engine, spark, way, slide, sizes)
            done()
    series = []
    for way, by_slide in rates.items():
        medians = [statistics.median(runs) for runs in by_slide.values()]
        series.append(Series("rows a second", way, "rows/s", list(by_slide), medians, "slide", list(by_slide.values())))
    for way, sizes_ in kept.items():
        series.append(
            Series("bytes of state", way, "bytes", list(sizes_), [float(one) for one in sizes_.values()], "slide")
        )
    most = sizes.slides[-1]
    return Findings(
        parameters={"engine": engine, "window": WINDOW, "rows": sizes.rows, "slides": sizes.slides},
        series=series,
        aims=[
            Aim.at_least(
                "bytes kept with a slide of one row / with the largest", 100, kept[PANES][1] / kept[PANES][most]
            ),
            Aim.at_least(
                "rows a second with the largest slide: panes / every row",
                1,
                statistics.median(rates[PANES][most]) / statistics.median(rates[ROWS][most]),
            ),
        ],
    )


def _measured(context: Context, engine: str, spark: Any, way: str, slide: int, sizes: Sizes) -> tuple[list[float], int]:
    home = context.folder / "home"
    rows = _Rows()
    found = []
    with connect(str(home), engine=engine, spark=spark) as session:
        _stream(session)
        # Without a base version there is nothing that panes could be summed up by.
        session.sql(_BASE + _OVER if way == PANES else _OVER)
        session.sql(f"CREATE STREAM v AS SELECT total(x) OVER (ROWS {WINDOW - 1} PRECEDING SLIDE {slide}) AS r FROM s")
        # Not at the end of a pane, so that one is half full.
        session.feed("s", rows.batch(max(sizes.rows, WINDOW) + 7))
        session.refresh()
        for _ in range(sizes.refreshes):
            session.feed("s", rows.batch(sizes.rows))
            gc.collect()
            started = time.perf_counter()
            session.refresh()
            found.append(sizes.rows / (time.perf_counter() - started))
        told = session.sql("EXPLAIN STATE v")
        size = sum(row[told.columns.index("bytes")] for row in told.rows)
    shutil.rmtree(home)
    return found, size
