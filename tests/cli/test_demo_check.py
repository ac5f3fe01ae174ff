"""The demo's own check must be able to fail, and its rows must be told apart on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace import demo
from headrace.cli import app
from headrace.cli.showing import _styled


def test_a_view_that_lags_behind_is_found(tmp_path: Path) -> None:
    with headrace.connect(str(tmp_path), engine="sail") as session:
        demo.declare(session)
        session.feed("thermometers", [("lab", 35)], at=demo.START + 1)
        verdicts = {verdict.view: verdict for verdict in demo.check(session)}
    assert not verdicts["hot_rooms"].equal
    assert "DIFFERENT" in str(verdicts["hot_rooms"])
    assert verdicts["lossy_sites"].equal


def test_a_difference_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "STEPS", 1)
    monkeypatch.setattr(demo, "check", lambda _session: [demo.Verdict("hot_rooms", 1, False)])
    result = CliRunner().invoke(app, ["demo", "--engine", "sail"])
    assert result.exit_code == 1
    assert "hot_rooms: 1 row, DIFFERENT from its query run in batch" in result.stdout


def test_changed_rows_are_marked() -> None:
    before = [("a", 1), ("b", 2), ("c", 3)]
    found = {row[0]: style for row, style in _styled([("a", 1), ("b", 5), ("d", 4)], before, 1)}
    assert found["a"] == ""
    assert len({found["b"], found["c"], found["d"], ""}) == 4
