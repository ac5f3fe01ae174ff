"""Findings as a picture: one chart a panel, bars over words and lines over numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.findings import Findings, Series

#: A chart with bars at more places than this has a line to itself.
MANY = 8


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def panels(findings: Findings) -> Mapping[str, list[Series]]:
    """The series of each panel, in the order they were given."""
    found: dict[str, list[Series]] = {}
    for series in findings.series:
        found.setdefault(series.panel, []).append(series)
    return found


def save(findings: Findings, title: str, path: Path) -> None:
    """Draw all panels into a PNG: side by side, those with many bars each over the whole width."""
    # Not pyplot: it would choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    charts = panels(findings)
    lines = _lines_of(charts)
    across = max((len(line) for line in lines), default=1)
    figure = Figure(
        figsize=(max(5.2 * across, 10.4 * (len(lines) > 1)), 4.2 * len(lines)), dpi=120, layout="constrained"
    )
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for row, line in enumerate(lines):
        for place, name in enumerate(line):
            # Rows and columns count from 1: this is the chart's place in a grid of its row's own width.
            axes = figure.add_subplot(len(lines), len(line), row * len(line) + place + 1)
            _draw(axes, name, charts[name])
    figure.savefig(path)


def _lines_of(charts: Mapping[str, list[Series]]) -> list[list[str]]:
    """The panels' names, line by line: one with many bars has a line to itself."""
    lines: list[list[str]] = []
    crowded = {name: len({x for one in series for x in one.x}) > MANY for name, series in charts.items()}
    for name in charts:
        if lines and not crowded[name] and not crowded[lines[-1][0]]:
            lines[-1].append(name)
        else:
            lines.append([name])
    return lines or [[]]


def _draw(axes: Any, name: str, series: Sequence[Series]) -> None:
    axes.set_title(name, fontsize="medium")
    axes.set_ylabel(series[0].unit)
    if all(isinstance(x, str) for one in series for x in one.x):
        _bars(axes, series)
    else:
        _lines(axes, series)
    if len(series) > 1:
        axes.legend(fontsize="small")


def _bars(axes: Any, series: Sequence[Series]) -> None:
    places = list(dict.fromkeys(str(x) for one in series for x in one.x))
    width = 0.8 / len(series)
    for number, one in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * width
        drawn = axes.bar([places.index(str(x)) + offset for x in one.x], one.y, width, label=one.name)
        axes.bar_label(drawn, fmt="{:.3g}", fontsize="small" if len(places) <= MANY else 5)
    axes.set_xticks(range(len(places)), places)
    axes.margins(y=0.12)


def _lines(axes: Any, series: Sequence[Series]) -> None:
    for one in series:
        axes.plot(one.x, one.y, marker="o", label=one.name)
    axes.set_xlabel(series[0].x_label)
    if _is_wide([x for one in series for x in one.x]):
        axes.set_xscale("log")
    if _is_wide([y for one in series for y in one.y]):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def _is_wide(values: Sequence[Any]) -> bool:
    """Whether values are so far apart that all but the largest would lie on one spot."""
    return min(values) > 0 and max(values) >= 30 * min(values)
