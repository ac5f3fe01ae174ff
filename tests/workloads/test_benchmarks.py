"""The TPC-H experiments at sizes that only show that they run and measure the right thing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench.__main__ import main
from bench.tpch_changes import Content
from bench.tpch_data import RELATIONS, DataSet, codes, data_set
from bench.tpch_deltas import by_rows, by_share
from bench.tpch_runs import check_alike
from rich.console import Console

from bench import caches, growth, harness
from headrace.errors import DefinitionError


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def data(cache: Path) -> DataSet:
    return data_set(0.002, cache)


def run(name: str, out: Path, **options: str) -> dict[str, Any]:
    result = harness.run(name, quick=True, engine="sail", out=out, options=options, console=Console(file=io.StringIO()))
    return json.loads(result.json.read_text())


def test_tpch_measures_both_deltas_beside_its_rivals(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(caches.VARIABLE, str(cache))
    kept = run("tpch", tmp_path, sf="0.001", queries="1,13")
    assert (tmp_path / "tpch-quick-sail-sf0.001-queries1_13.json").exists()
    assert (tmp_path / "tpch-quick-sail-sf0.001-queries1_13.png").exists()
    assert kept["options"] == {"sf": "0.001", "queries": "1,13"}
    assert str(cache) not in json.dumps(kept)
    names = {(series["panel"], series["name"]) for series in kept["series"]}
    assert ("Recompute over refresh, on sail", "after 0.1 %") in names
    assert {name for panel, name in names if panel == "Seconds, on sail"} == {
        "refresh after 1 %",
        "refresh after 0.1 %",
        "recompute",
        "DuckDB",
    }
    assert [aim["value"] > 0 for aim in kept["aims"]] == [True, True]
    detail = kept["details"]["sail"]["q13"]
    assert detail["rows"] > 0
    assert detail["recompute"]["quickest"] == "Parquet"
    assert {len(steps) for steps in detail["refreshes"].values()} == {1}


def test_growth_measures_every_scale(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(caches.VARIABLE, str(cache))
    monkeypatch.setattr(growth, "DELTA_ROWS", 100)
    monkeypatch.setattr(growth, "REPEATS", 1)
    kept = run("growth", tmp_path, scales="0.001,0.002")
    assert [series["x"] for series in kept["series"]] == [[0.001, 0.002]] * 4
    assert all(value > 0 for series in kept["series"] for value in series["y"])
    assert len(kept["aims"]) == 2


@pytest.mark.parametrize("old", [False, True])
def test_a_delta_can_be_taken_back(data: DataSet, old: bool) -> None:
    large, small = by_share(data, [0.01, 0.001], old=old)
    content = Content({name: data.read(name) for name in RELATIONS})
    before = {name: keyed(content, name) for name in RELATIONS}
    for delta in (large, small):
        for name, rows in delta.forth.items():
            content.take(RELATIONS[name], rows)
        assert keyed(content, "lineitem") != before["lineitem"]
        for name, rows in delta.back.items():
            content.take(RELATIONS[name], rows)
        assert {name: keyed(content, name) for name in RELATIONS} == before
    assert large.name == "1 %"
    assert large.rows > 5 * small.rows


def keyed(content: Content, name: str) -> dict[int, Any]:
    rows = content.tables[name]
    return dict(zip(codes(rows, RELATIONS[name].key).tolist(), rows.to_pylist(), strict=True))


def test_half_of_a_delta_are_old_orders(data: DataSet) -> None:
    (delta,) = by_share(data, [0.01])
    ops = delta.forth["orders"].column("op").to_pylist()
    assert (ops.count("+"), ops.count("-"), ops.count("u")) == (15, 7, 8)
    lines = delta.forth["lineitem"]
    old = set(delta.forth["orders"].column("o_orderkey").to_pylist())
    assert set(lines.column("l_orderkey").to_pylist()) <= old
    assert len(np.unique(codes(lines, RELATIONS["lineitem"].key))) == lines.num_rows


def test_a_delta_of_a_number_of_rows(data: DataSet) -> None:
    assert by_rows(data, 200).rows == pytest.approx(200, rel=0.15)
    with pytest.raises(ValueError, match="held back"):
        by_rows(data, 100_000)


def test_answers_are_compared_as_bags() -> None:
    ours = pa.table({"a": ["x", "y", "y"], "b": [1.0, 2.0, 3.0]})
    check_alike("same", ours, ours.take([2, 0, 1]))
    for other in (ours.slice(1), pa.table({"a": ["x", "y", "y"], "b": [1.0, 2.0, 3.1]})):
        with pytest.raises(RuntimeError):
            check_alike("other", ours, other)


def test_an_option_no_experiment_has_is_refused(tmp_path: Path) -> None:
    for options in ({"sff": "1"}, {"queries": "23"}):
        with pytest.raises(DefinitionError) as caught:
            run("tpch", tmp_path, **options)
        assert caught.value.condition == "BAD_OPTION"


def test_the_command_names_all_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "growth:" in capsys.readouterr().out
    assert main(["tpch", "--queries", "x"]) == 1
    assert "BAD_OPTION" in capsys.readouterr().err


def test_what_was_not_finished_is_not_kept(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        caches.kept(tmp_path / "a" / "b", fail)
    assert list((tmp_path / "a").iterdir()) == []
    assert caches.folder(tmp_path) == tmp_path


def test_nexmark_measures_refreshes_beside_recompute(tmp_path: Path) -> None:
    kept = run("nexmark", tmp_path, events="2000", batch="100", queries="q1,q4,q12")
    assert kept["series"][0]["x"] == ["q1", "q4", "q12"]
    assert all(value > 0 for series in kept["series"] for value in series["y"])
    assert {len(steps) for steps in kept["details"].values()} == {3}
