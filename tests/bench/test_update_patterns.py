"""The update-patterns experiment at a size that only shows that it runs; its seconds mean nothing here."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import harness, packets, update_patterns

TINY = update_patterns.Sizes(windows=(60, 120), rows=20, refreshes=2, warm_ups=1)


@pytest.mark.slow
def test_all_queries_in_all_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysail")
    monkeypatch.setattr(update_patterns, "QUICK", TINY)
    result = harness.run(
        "update-patterns", quick=True, engine="sail", out=tmp_path, console=Console(file=io.StringIO())
    )
    kept = json.loads(result.json.read_text())
    panels = {series["panel"] for series in kept["series"]}
    for figure in range(8, 16):
        assert any(panel.startswith(f"Fig. 3.{figure}:") for panel in panels), figure
    assert all(series["x"] == [60, 120] for series in kept["series"])
    assert all(aim["value"] > 0 for aim in kept["aims"])
    assert kept["details"]["query 1, ftp"]["120"]["state_bytes"]["pattern-aware"] > 0


def test_a_trace_is_the_same_each_time_and_never_late() -> None:
    trace = packets.Trace(1_000)
    one, other = trace.packets("link1", 0, 50), trace.packets("link1", 0, 50)
    assert one.equals(other)
    assert not one.equals(trace.packets("link2", 0, 50))
    tables = (one, trace.packets("link1", 50, 50))
    times = [time for table in tables for time in table.column("at").cast("int64").to_pylist()]
    assert times == sorted(set(times))
    assert sum(trace.shares) == pytest.approx(1)


def test_larger_windows_have_fewer_ftp_packets() -> None:
    shares = [packets.Trace(window).shares[0] for window in (2_000, 20_000, 200_000)]
    assert shares == sorted(shares, reverse=True)
