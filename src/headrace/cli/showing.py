"""The demo on the screen: three tables that change as rows arrive, or plain lines where there is no terminal."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace import demo
from headrace.cli.results import table_of
from headrace.session import Session, connect

#: On a terminal a step takes at least this long, so that the eye can follow a fast engine.
PACE_SECONDS = 1.2

_CHANGED, _NEW, _GONE = "bold yellow", "bold green", "red strike"


def show_demo(console: Console, engine: str, keep: str | None = None, *, pace: float = PACE_SECONDS) -> bool:
    """Run the demo; whether every view was equal to its query run in batch."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        home = keep or f"{folder}/home"
        console.print(f"Starting {engine} and declaring two streams, a table and three views ...")
        with connect(home, engine=engine) as session:
            demo.declare(session)
            _show_steps(console, session, pace)
            console.print("\nEach view against its query, run in batch over the same relations:")
            equal = [_show_verdict(console, verdict) for verdict in demo.check(session)]
    console.print(f"{time.perf_counter() - began:.0f} s in all, the start of {engine} included.", style="dim")
    if keep is not None:
        console.print(f"Look around: headrace sql --home {keep} --engine {engine}")
    return all(equal)


def _show_verdict(console: Console, verdict: demo.Verdict) -> bool:
    console.print(Text(str(verdict), style="green" if verdict.equal else "bold red"))
    return verdict.equal


def _show_steps(console: Console, session: Session, pace: float) -> None:
    before: dict[str, list[tuple[Any, ...]]] = {}
    if not console.is_terminal:
        for step in demo.play(session):
            console.print(_line(step, before))
            before = {name: rows for name, (_names, rows) in step.views.items()}
        return
    with Live(console=console, auto_refresh=False) as live:
        shown_at = time.perf_counter()
        for step in demo.play(session):
            time.sleep(max(0.0, pace - (time.perf_counter() - shown_at)))
            live.update(_screen(step, before), refresh=True)
            shown_at = time.perf_counter()
            before = {name: rows for name, (_names, rows) in step.views.items()}


def _line(step: demo.Step, before: dict[str, list[tuple[Any, ...]]]) -> str:
    words = []
    for view in demo.VIEWS:
        rows = step.views[view.name][1]
        changed = sum(bool(style) for _row, style in _styled(rows, before.get(view.name, []), view.key_width))
        words.append(f"{view.name} {len(rows)} rows, {changed} changed")
    text = f"{step.clock}  {step.arrived} arrived, refreshed in {step.seconds:.2f} s: {'; '.join(words)}"
    return text if step.by_hand is None else f"{text}\n    by hand: {step.by_hand}"


def _screen(step: demo.Step, before: dict[str, list[tuple[Any, ...]]]) -> RenderableType:
    head = Text.assemble(
        (f"{step.clock}  ", "bold cyan"),
        f"refresh {step.number} of {demo.STEPS}: {step.arrived} rows arrived, views up to date in ",
        (f"{step.seconds:.2f} s", "bold"),
    )
    by_hand = Text(f"by hand: {step.by_hand}" if step.by_hand else " ", style="magenta")
    legend = Text.assemble(("new", _NEW), "  ", ("changed", _CHANGED), "  ", ("gone", _GONE))
    tables = {view.name: _table(view, step, before.get(view.name, [])) for view in demo.VIEWS}
    grid = Table.grid(padding=(0, 4))
    grid.add_row(tables["link_losses"], Group(tables["hot_rooms"], tables["lossy_sites"]))
    return Group(head, by_hand, grid, legend)


def _table(view: demo.DemoView, step: demo.Step, before: Sequence[tuple[Any, ...]]) -> Table:
    names, rows = step.views[view.name]
    styled = _styled(rows, before, view.key_width)
    shown, styles = [row for row, _style in styled], [style for _row, style in styled]
    return table_of(names, shown, styles=styles, title=f"{view.name}: {view.says}")


def _styled(
    rows: Sequence[tuple[Any, ...]], before: Sequence[tuple[Any, ...]], key_width: int
) -> list[tuple[tuple[Any, ...], str]]:
    """The rows now and those that went, in order, each with how it changed; an empty style: it did not."""
    old = {row[:key_width]: row for row in before}
    new = {row[:key_width] for row in rows}
    found = [(row, _style(row, old.get(row[:key_width]))) for row in rows]
    gone = [(row, _GONE) for key, row in old.items() if key not in new]
    return sorted([*found, *gone], key=lambda pair: [str(value) for value in pair[0][:key_width]])


def _style(row: tuple[Any, ...], before: tuple[Any, ...] | None) -> str:
    if before is None:
        return _NEW
    return "" if row == before else _CHANGED
