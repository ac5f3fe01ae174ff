"""The sharing-syncsql experiment at a size that only shows that it runs; its seconds mean nothing here."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import harness, sharing_syncsql

TINY = sharing_syncsql.Sizes(views=(1, 3), before=60_000, rows=500, refreshes=2, warm_ups=1)


def test_both_ways_give_the_same_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pysail")
    monkeypatch.setattr(sharing_syncsql, "QUICK", TINY)
    result = harness.run(
        "sharing-syncsql", quick=True, engine="sail", out=tmp_path, console=Console(file=io.StringIO())
    )
    kept = json.loads(result.json.read_text())
    assert {series["name"] for series in kept["series"]} == set(sharing_syncsql.WAYS)
    assert all(series["x"] == [1, 3] for series in kept["series"])
    assert set(kept["details"]["3"]) == set(sharing_syncsql.WAYS)
