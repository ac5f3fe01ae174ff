"""Running an experiment: progress while it runs, a table at the end, and its figures kept as JSON and as a picture."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import plots
from bench.experiments import Context, Experiment, all_experiments, find
from bench.findings import READING, Aim, Findings, Series
from bench.measure import machine

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Result:
    """What came of a run, and where it was kept; `plot` is None where nothing could be drawn."""

    name: str
    quick: bool
    findings: Findings
    json: Path
    plot: Path | None

    @property
    def aims(self) -> list[Aim]:
        return list(self.findings.aims)

    @property
    def met(self) -> bool:
        """Whether every aim was met."""
        return all(aim.met for aim in self.findings.aims)


def own_options() -> dict[str, dict[str, str]]:
    """By experiment, the options it has for itself, each with its meaning."""
    return {item.name: dict(item.options) for item in all_experiments() if item.options}


def main_list() -> list[tuple[str, str, str]]:
    """Every experiment: its name, the figure it reproduces, and what it does."""
    return [(item.name, item.figure, item.description) for item in all_experiments()]


def run(
    name: str,
    quick: bool = False,
    engine: str | None = None,
    out: Path | None = None,
    *,
    options: Mapping[str, str] | None = None,
    console: Console | None = None,
) -> Result:
    """Run an experiment with its baselines, print what it found and keep it.

    Parameters
    ----------
    name
        One of `main_list`.
    quick
        A small size, for a first look. Its results get a name of their own and never replace those of a full run.
    engine
        Run on this engine (``spark``, ``sail`` or ``sc://host:port``) instead of those the experiment is about. It
        becomes part of the results' name.
    out
        The folder for the results; `bench/results` when not given.
    options
        The experiment's own options, as text. They become part of the results' name.
    console
        Where to print; the terminal when not given.

    Raises
    ------
    DefinitionError
        ``UNKNOWN_EXPERIMENT``, with the names that come closest; ``BAD_OPTION``.
    """
    chosen = find(name)
    chosen.check(options or {})
    given = {key: (options or {})[key] for key in chosen.options if key in (options or {})}
    shown = console or Console()
    drawing = plots.can_plot()
    if not drawing:
        shown.print(
            "There will be no plot: matplotlib is not installed. pip install 'headrace\\[bench]'", style="yellow"
        )
    others = os.getloadavg()[0]
    if others > (os.cpu_count() or 1) / 2:
        shown.print(f"This machine is busy (load {others:.1f}): look at the ratios only.", style="yellow")
    findings, taken = _measure(chosen, quick, engine, given, shown)
    folder = out or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    stem = _stem(name, quick, engine, given)
    kept = folder / f"{stem}.json"
    kept.write_text(
        json.dumps(_as_json(chosen, quick, engine, given, findings, taken, others), indent=1) + "\n",
        encoding="utf-8",
    )
    picture = folder / f"{stem}.png" if drawing else None
    if picture is not None:
        plots.save(findings, f"{name}{' (quick)' if quick else ''}: {chosen.figure}", picture)
    result = Result(name, quick, findings, kept, picture)
    _show(shown, chosen, result)
    return result


def _stem(name: str, quick: bool, engine: str | None, options: Mapping[str, str]) -> str:
    """The name of a run's results, without an ending: all that was asked for, so that no other run replaces them."""
    asked = [*(["quick"] if quick else []), *([_plain(engine)] if engine else [])]
    return "-".join([name, *asked, *(f"{key}{_plain(value)}" for key, value in options.items())])


def _plain(text: str) -> str:
    """Text as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", text)


def _measure(
    chosen: Experiment, quick: bool, engine: str | None, options: Mapping[str, str], console: Console
) -> tuple[Findings, float]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as folder,
        Progress(*columns, console=console) as progress,
    ):
        started = time.perf_counter()
        findings = chosen.run(Context(quick, engine, Path(folder), progress, options))
        return findings, time.perf_counter() - started


def _as_json(
    chosen: Experiment,
    quick: bool,
    engine: str | None,
    options: Mapping[str, str],
    findings: Findings,
    taken: float,
    others: float,
) -> dict[str, Any]:
    return {
        "experiment": chosen.name,
        "figure": chosen.figure,
        "description": chosen.description,
        "quick": quick,
        "engine": engine,
        **({"options": dict(options)} if options else {}),
        "machine": {**machine(), "load_before": round(others, 1)},
        "seconds": round(taken, 1),
        **_rounded(findings.as_json()),
    }


def _rounded(value: Any) -> Any:
    """Figures to six digits: more is noise, and noise makes every run a large diff."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value


def _show(console: Console, chosen: Experiment, result: Result) -> None:
    for panel, series in plots.panels(result.findings).items():
        console.print(_panel_table(panel, series))
    if result.aims:
        console.print(_aims_table(result.aims))
    for note in result.findings.notes:
        console.print(note)
    console.print(READING, style="dim")
    kept = [result.json, *([result.plot] if result.plot is not None else [])]
    console.print(f"{chosen.name}: kept as {' and '.join(str(path) for path in kept)}", soft_wrap=True, markup=False)


def _panel_table(panel: str, series: list[Series]) -> Table:
    table = Table(title=panel, title_justify="left")
    table.add_column(series[0].x_label)
    for one in series:
        table.add_column(f"{one.name} ({one.unit})", justify="right")
    for x in dict.fromkeys(x for one in series for x in one.x):
        values = [dict(zip(one.x, one.y, strict=True)).get(x) for one in series]
        table.add_row(str(x), *("" if value is None else _figure(value) for value in values))
    return table


def _aims_table(aims: list[Aim]) -> Table:
    table = Table(title="Aims", title_justify="left")
    for name in ("aim", "target", "value", "met"):
        table.add_column(name, justify="right" if name == "value" else "left")
    for aim in aims:
        value = "not measured" if aim.value is None else f"{_figure(aim.value)} {aim.unit}"
        table.add_row(aim.name, aim.target, value, "[green]yes[/green]" if aim.met else "[red]no[/red]")
    return table


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
