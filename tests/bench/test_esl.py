"""The ESL experiments at sizes that only show that they run; their seconds mean nothing here."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import esl_slide, esl_window, harness


def test_all_ways_over_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysail")
    monkeypatch.setattr(esl_window, "QUICK", esl_window.Sizes((5, 20), refreshes=1, fewer=2_000, compared=2_000))
    result = harness.run("esl-window", quick=True, engine="sail", out=tmp_path, console=Console(file=io.StringIO()))
    kept = json.loads(result.json.read_text())
    ways = {series["name"] for series in kept["series"] if series["panel"].startswith("average")}
    assert ways == set(esl_window.AVERAGE)
    assert len(kept["aims"]) == 6


def test_slides_with_panes_keep_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysail")
    monkeypatch.setattr(esl_slide, "WINDOW", 4_000)
    monkeypatch.setattr(esl_slide, "QUICK", esl_slide.Sizes((1, 1_000), rows=500, refreshes=1))
    result = harness.run("esl-slide", quick=True, engine="sail", out=tmp_path, console=Console(file=io.StringIO()))
    kept = json.loads(result.json.read_text())
    sizes = {series["name"]: series["y"] for series in kept["series"] if series["panel"] == "bytes of state"}
    assert sizes[esl_slide.PANES][1] < sizes[esl_slide.PANES][0] / 10
    assert sizes[esl_slide.ROWS][1] > sizes[esl_slide.PANES][1] * 10
