"""Findings as a picture: one chart a panel, bars over words and lines over numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.findings import Findings, Series


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def panels(findings: Findings) -> Mapping[str, list[Series]]:
    """The series of each panel, in the order they were given."""
    found: dict[str, list[Series]] = {}
    for series in findings.series:
        found.setdefault(series.panel, []).append(series)
    return found


def save(findings: Findings, title: str, path: Path) -> None:
    """Draw all panels side by side into a PNG."""
    # Not pyplot: it would choose a backend for the whole process.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    charts = panels(findings)
    figure = Figure(figsize=(5.2 * max(1, len(charts)), 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    for place, (name, series) in enumerate(charts.items(), start=1):
        axes = figure.add_subplot(1, len(charts), place)
        axes.set_title(name, fontsize="medium")
        axes.set_ylabel(series[0].unit)
        if all(isinstance(x, str) for one in series for x in one.x):
            _bars(axes, series)
        else:
            _lines(axes, series)
        if len(series) > 1:
            axes.legend(fontsize="small")
    figure.savefig(path)


def _bars(axes: Any, series: Sequence[Series]) -> None:
    places = list(dict.fromkeys(str(x) for one in series for x in one.x))
    width = 0.8 / len(series)
    for number, one in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * width
        drawn = axes.bar([places.index(str(x)) + offset for x in one.x], one.y, width, label=one.name)
        axes.bar_label(drawn, fmt="{:.3g}", fontsize="small")
    axes.set_xticks(range(len(places)), places)
    axes.margins(y=0.12)


def _lines(axes: Any, series: Sequence[Series]) -> None:
    for one in series:
        axes.plot(one.x, one.y, marker="o", label=one.name)
    axes.set_xlabel(series[0].x_label)
    axes.set_ylim(bottom=0)
