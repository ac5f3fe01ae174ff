"""The harness on toy experiments: no engine starts."""

from __future__ import annotations

import io
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.experiments import Context, Experiment
from bench.findings import READING, Aim, Findings, Series
from bench.measure import machine, seconds, side_by_side
from rich.console import Console

from bench import experiments, harness, plots
from headrace.errors import DefinitionError

FOLDERS: list[Path] = []


def toy(context: Context) -> Findings:
    FOLDERS.append(context.folder)
    rows = context.pick(1000, 10)
    done = context.step("toying", 2)
    done()
    (context.folder / "scratch").write_text("x")
    done()
    return Findings(
        parameters={"rows": rows},
        series=[
            Series.of_runs("By engine", "ours", "s", {"spark": [3.0, 1.0, 2.0], "sail": [0.1]}),
            Series("By engine", "theirs", "s", ["spark"], [4.0]),
            Series("By size", "ours", "ratio", [1, 10, 100], [0.5, 0.51, 0.123456789], x_label="rows"),
        ],
        aims=[
            Aim.at_least("fast enough", 0.5, 0.5),
            Aim.under("quick enough", 0.1, 0.2, "s"),
            Aim.under("not here", 1, None),
        ],
        notes=["A toy."],
    )


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    # An experiment registers itself when its module is imported, which happens once: do that before the list is kept.
    experiments.all_experiments()
    before = dict(experiments._registered)
    experiments._registered["toy"] = Experiment("toy", "figure 0", "plays", toy)
    yield
    experiments._registered.clear()
    experiments._registered.update(before)


def run(out: Path, *, quick: bool = False, engine: str | None = None) -> tuple[harness.Result, str]:
    text = io.StringIO()
    return harness.run("toy", quick, engine, out=out, console=Console(file=text, width=200)), text.getvalue()


def test_the_list_names_each_experiment_once_with_its_figure() -> None:
    listed = harness.main_list()
    names = [name for name, _figure, _description in listed]
    assert ("toy", "figure 0", "plays") in listed
    assert "ingest" in names
    assert names == sorted(set(names))


def test_an_unknown_name_is_refused_with_what_was_probably_meant(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        harness.run("ingets", out=tmp_path)
    assert caught.value.condition == "UNKNOWN_EXPERIMENT"
    assert "ingest" in (caught.value.hint or "")


def test_a_run_keeps_its_figures(tmp_path: Path) -> None:
    result, _printed = run(tmp_path)
    kept = json.loads((tmp_path / "toy.json").read_text())
    assert result.json == tmp_path / "toy.json"
    assert kept["experiment"] == "toy"
    assert kept["figure"] == "figure 0"
    assert kept["quick"] is False
    assert kept["parameters"] == {"rows": 1000}
    assert kept["reading"] == READING
    assert [series["y"] for series in kept["series"]] == [[2.0, 0.1], [4.0], [0.5, 0.51, 0.123457]]
    assert kept["series"][0]["runs"] == [[3.0, 1.0, 2.0], [0.1]]
    assert kept["aims"] == [
        {"name": "fast enough", "target": ">= 0.5", "value": 0.5, "met": True, "unit": "ratio"},
        {"name": "quick enough", "target": "< 0.1", "value": 0.2, "met": False, "unit": "s"},
        {"name": "not here", "target": "< 1", "value": None, "met": False, "unit": "ratio"},
    ]
    assert not result.met


def test_a_run_draws_and_prints(tmp_path: Path) -> None:
    result, printed = run(tmp_path)
    assert result.plot is not None
    assert result.plot.read_bytes().startswith(b"\x89PNG")
    for word in ("By engine", "By size", "ours (s)", "fast enough", "not measured", "A toy.", READING):
        assert word in printed


def test_a_quick_run_leaves_the_full_results_alone(tmp_path: Path) -> None:
    run(tmp_path)
    full = (tmp_path / "toy.json").read_text()
    result, _printed = run(tmp_path, quick=True)
    assert (tmp_path / "toy.json").read_text() == full
    assert result.json.name == "toy-quick.json"
    assert json.loads(result.json.read_text())["parameters"] == {"rows": 10}


def test_a_run_on_another_engine_leaves_the_results_of_the_first_alone(tmp_path: Path) -> None:
    asked = (None, "spark", "sail", "sc://localhost:15002")
    kept = [run(tmp_path, engine=engine)[0] for engine in asked]
    names = [result.json.stem for result in kept]
    assert names == ["toy", "toy-spark", "toy-sail", "toy-sc_localhost_15002"]
    assert [json.loads(result.json.read_text())["engine"] for result in kept] == list(asked)
    assert run(tmp_path, quick=True, engine="sail")[0].json.name == "toy-quick-sail.json"


def test_without_matplotlib_everything_but_the_plot_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "can_plot", lambda: False)
    result, printed = run(tmp_path)
    assert result.plot is None
    assert result.json.exists()
    assert "pip install 'headrace[bench]'" in printed


def test_the_scratch_folder_is_removed(tmp_path: Path) -> None:
    run(tmp_path)
    assert not FOLDERS[-1].exists()


def test_results_name_neither_the_machine_nor_its_folders(tmp_path: Path) -> None:
    result, _printed = run(tmp_path)
    text = result.json.read_text()
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert platform.node() not in json.dumps(machine()).split('"')
    assert json.loads(text)["machine"]["cores"] == os.cpu_count()


def test_things_side_by_side_take_turns_at_going_first() -> None:
    order: list[str] = []

    def timed(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = side_by_side({"a": lambda: timed("a"), "b": lambda: timed("b")}, repeats=2, warm_ups=1)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [4.0, 5.0], "b": [3.0, 6.0]}
    assert seconds(lambda: None) >= 0


def test_a_series_has_a_value_for_each_x() -> None:
    with pytest.raises(ValueError):
        Series("p", "n", "s", [1, 2], [1.0])
