"""Options, variables, help, version, status, explain and bench: everything that starts no engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli import app, benching
from headrace.cli.settings import Settings

runner = CliRunner()


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home with a few objects, made without any engine."""
    path = str(tmp_path / "home")
    with headrace.connect(path, engine="sail") as session:
        session.sql("CREATE STREAM losses (src INT, loss INT, at TIMESTAMP) ORDER BY at")
        session.feed("losses", [(1, 5, 10), (2, 7, 20), (3, 1, 5)])
    return path


def test_version() -> None:
    assert runner.invoke(app, ["--version"]).stdout == f"headrace {headrace.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_says_what_to_do_next(arguments: list[str]) -> None:
    text = runner.invoke(app, arguments).output
    assert "New here? headrace demo" in text
    for command in ("sql", "run", "status", "explain", "demo", "bench"):
        assert f"│ {command} " in text


def test_the_nearest_setting_wins(tmp_path: Path, home: str) -> None:
    other = str(tmp_path / "other")
    with headrace.connect(other) as session:
        session.sql("CREATE STREAM elsewhere (a INT)")
    for arguments, variables in (
        (["--home", home, "status", "--home", other], {}),
        (["--home", other, "status"], {"HEADRACE_HOME": home}),
        (["status"], {"HEADRACE_HOME": other}),
        (["status"], {"HEADRACE_STATUS_HOME": other, "HEADRACE_STATUS_JSON": "1"}),
    ):
        result = runner.invoke(app, arguments, env=variables)
        assert result.exit_code == 0, result.output
        assert "elsewhere" in result.stdout
        assert result.stdout.startswith("[") == ("HEADRACE_STATUS_JSON" in variables)


def test_settings_have_defaults() -> None:
    assert Settings().home_path == "./headrace-home"
    assert Settings().engine_name == "spark"
    assert Settings(engine="sail", debug=True).overridden() == Settings(engine="sail", debug=True)


def test_status_in_words(home: str) -> None:
    lines = runner.invoke(app, ["status", "--home", home]).stdout.splitlines()
    header, losses = (
        next(line for line in lines if "object" in line),
        next(line for line in lines if " losses " in line),
    )
    assert "rows stored" in header
    assert "late" in header
    assert losses.split()[:4] == ["losses", "stream", "2", "1"]


def test_status_starts_no_engine(home: str) -> None:
    program = (
        "import sys; from headrace.cli import app\n"
        "try: app(['status', '--json'])\n"
        "finally: assert 'pyspark' not in sys.modules and 'pysail' not in sys.modules"
    )
    environment = {**os.environ, "HEADRACE_HOME": home, "HEADRACE_ENGINE": "sc://nowhere.invalid:1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = next(item for item in json.loads(done.stdout) if item["name"] == "losses")
    assert (losses["rows"], losses["late"], losses["reaches"]) == (2, 1, "1970-01-01T00:00:20Z")


def test_status_of_an_empty_home(tmp_path: Path) -> None:
    headrace.connect(str(tmp_path)).close()
    assert "Nothing is declared yet" in runner.invoke(app, ["status", "--home", str(tmp_path)]).stdout


def test_explain(home: str) -> None:
    result = runner.invoke(app, ["explain", "losses", "--home", home])
    assert "losses is a stream with no key." in result.stdout


class FakeHarness:
    def __init__(self) -> None:
        self.ran: list[tuple[object, ...]] = []

    def main_list(self) -> list[tuple[str, str, str]]:
        return [("ingest", "Fig. 1", "rows a second"), ("q3", "Fig. 3", "a join")]

    def run(
        self, name: str, quick: bool, engine: str | None, out: Path, *, options: Mapping[str, str] | None = None
    ) -> None:
        self.ran.append((name, quick, engine, out))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> FakeHarness:
    fake = FakeHarness()
    monkeypatch.setattr(benching, "_imported", lambda: fake)
    return fake


def test_bench_lists_and_runs(bench: FakeHarness, tmp_path: Path) -> None:
    assert "Fig. 3" in runner.invoke(app, ["bench", "--list"]).stdout
    runner.invoke(app, ["bench", "q3", "--quick", "--engine", "sail", "--out", str(tmp_path)], catch_exceptions=False)
    runner.invoke(app, ["bench", "ingest"], catch_exceptions=False)
    assert bench.ran == [
        ("q3", True, "sail", tmp_path),
        ("ingest", False, None, benching.ROOT / "bench" / "results"),
    ]


def test_bench_names_what_comes_near(bench: FakeHarness) -> None:
    result = runner.invoke(app, ["bench", "ingets"])
    assert result.exit_code == 1
    assert "[UNKNOWN_BENCHMARK]" in result.stderr
    assert "Did you mean ingest?" in result.stderr
    assert runner.invoke(app, ["bench"]).exit_code == 2


def test_bench_without_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise ModuleNotFoundError("No module named 'bench'", name="bench")

    monkeypatch.setattr(benching, "_imported", missing)
    monkeypatch.setattr(benching, "ROOT", tmp_path)
    result = runner.invoke(app, ["bench", "--list"])
    assert result.exit_code == 1
    assert "[NO_BENCHMARKS]" in result.stderr
