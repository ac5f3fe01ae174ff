"""The ingest experiment at a size that only shows that it runs; its seconds mean nothing here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import harness, ingest

TINY = ingest.Sizes(rows=1_000, files=4, landings=1, landing_warm_ups=0, base_rows=200, refreshes=2, refresh_warm_ups=1)


def run(out: Path, engine: str | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(ingest, "QUICK", TINY)
    result = harness.run("ingest", quick=True, engine=engine, out=out, console=Console(file=io.StringIO()))
    return json.loads(result.json.read_text())


@pytest.mark.usefixtures("spark_engine")
@pytest.mark.slow
def test_ingest_on_both_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysail")
    kept = run(tmp_path, None, monkeypatch)
    assert [(aim["target"], aim["unit"]) for aim in kept["aims"]] == [
        (">= 0.6", "ratio"),
        ("< 0.6", "s"),
        ("< 0.1", "s"),
    ]
    assert all(aim["value"] > 0 for aim in kept["aims"])
    jobs = next(series for series in kept["series"] if series["unit"] == "jobs")
    assert jobs["x"] == ["spark", "sail"]
    assert all(len(runs) == TINY.refreshes for runs in jobs["runs"])
    assert min(jobs["y"]) >= 1
    assert {"rows/s", "ratio", "s", "jobs"} == {series["unit"] for series in kept["series"]}


@pytest.mark.slow
def test_ingest_on_the_engine_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysail")
    kept = run(tmp_path, "sail", monkeypatch)
    assert [aim["target"] for aim in kept["aims"]] == [">= 0.6", "< 0.1"]
    assert all("spark" not in aim["name"] for aim in kept["aims"])


def test_the_made_rows_are_never_late() -> None:
    times = [ingest._rows(10, number).column("at").cast("int64").to_pylist() for number in range(3)]
    flat = [time for one in times for time in one]
    assert flat == sorted(set(flat))


def test_changed_rows_are_versions_of_the_base_rows_and_later() -> None:
    base, change = ingest._orders(TINY, 0, TINY.base_rows), ingest._orders(TINY, 1, 20)
    assert set(base.column("id").to_pylist()) == set(range(TINY.base_rows))
    assert set(change.column("id").to_pylist()) < set(range(TINY.base_rows))
    assert min(change.column("at").to_pylist()) > max(base.column("at").to_pylist())
