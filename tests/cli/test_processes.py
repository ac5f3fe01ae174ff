"""The command as a process: signals, standard input, the demo, the examples."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.session import connect

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HEADRACE = [sys.executable, "-m", "headrace.cli"]


def headrace(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADRACE_ENGINE": "sail"}
    return subprocess.run(
        [*HEADRACE, *arguments], input=stdin, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def connected(port: int, seconds: float = 60) -> socket.socket:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_lands_what_was_sent_and_exits_with_0(tmp_path: Path, number: signal.Signals) -> None:
    home, port = str(tmp_path / "home"), free_port()
    script = f"""
        REGISTER SOURCE sensors (room STRING, degrees INT) FROM PORT {port};
        CREATE STREAM temperatures OVER sensors KEY (room);
        CREATE VIEW hot AS SELECT room, degrees FROM temperatures WHERE degrees > 30
    """
    with connect(home, engine="sail") as session:
        session.sql(script)
    process = subprocess.Popen(
        [*HEADRACE, "--engine", "sail", "run", "--home", home, "--every", "0.1"], stderr=subprocess.PIPE, text=True
    )
    try:
        with connected(port) as sender:
            sender.sendall(b'{"room": "a", "degrees": 35}\nb,20\nc,40\n')
            time.sleep(0.2)
            process.send_signal(number)
            _out, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, told
    assert "Traceback" not in told
    assert "refreshed 1 view," in told
    with connect(home, engine="sail") as session:
        assert session.arrow(session.sql("SELECT room, degrees FROM hot ORDER BY room")).to_pylist() == [
            {"room": "a", "degrees": 35},
            {"room": "c", "degrees": 40},
        ]


def test_a_script_from_standard_input(tmp_path: Path) -> None:
    done = headrace("sql", "--home", str(tmp_path), "--format", "csv", stdin="SELECT 1 AS a;\nSHOW CLOCK;")
    assert (done.returncode, done.stdout) == (0, "a\n1\n\nmode,clock\ndata,\n")


def test_run_says_why_it_cannot(tmp_path: Path) -> None:
    runner, home = CliRunner(), str(tmp_path / "home")
    with connect(home) as session:
        session.sql("CREATE TABLE t (a INT)")
        busy = runner.invoke(app, ["run", "--home", home])
    assert busy.exit_code == 1
    assert "[HOME_HAS_A_WRITER]" in busy.stderr
    assert "Traceback" not in busy.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with connect(home) as session:
            session.sql(f"REGISTER SOURCE s (a INT) FROM PORT {port}")
        made = runner.invoke(app, ["sql", "--home", home, "-e", "CREATE STREAM r OVER s KEY NULL"])
    assert made.exit_code == 1
    assert "[PORT_IN_USE]" in made.stderr


def test_a_pipe_that_closes_early_is_no_crash(tmp_path: Path) -> None:
    command = f"{sys.executable} -m headrace.cli --engine sail sql --home {tmp_path} --format csv -e '{{}}' | head -1"
    text = "SELECT id FROM range(200000)"
    done = subprocess.run(command.format(text), shell=True, capture_output=True, text=True, check=False)
    assert done.stdout == "id\n"
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_demo() -> None:
    done = headrace("demo")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal to its query run in batch") == 3
    assert done.stdout.count(" arrived, refreshed in ") == 10
    assert "by hand: " in done.stdout


def test_the_demo_keeps_its_home_when_asked(tmp_path: Path) -> None:
    from rich.console import Console

    from headrace.cli.showing import show_demo

    home = tmp_path / "kept"
    with open(os.devnull, "w") as nowhere:
        assert show_demo(Console(file=nowhere, force_terminal=True), "sail", str(home), pace=0)
    assert (home / "catalog.db").exists()


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.sql")))
def test_the_examples_run(tmp_path: Path, script: str) -> None:
    done = headrace("sql", "--home", str(tmp_path), "-f", str(EXAMPLES / script), "--format", "json")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line)["rows"] for line in done.stdout.splitlines()]
    assert LAST_ROWS[script] in answers


#: For each example, an answer that only comes out right when all before it did.
LAST_ROWS = {
    "hot_rooms.sql": [
        ["+", "a", 105, "1970-01-01T00:00:02Z"],
        ["+", "c", 95, "1970-01-01T00:00:04Z"],
        ["-", "a", None, "1970-01-01T00:00:05Z"],
        ["u", "c", 103, "1970-01-01T00:00:06Z"],
    ],
    "auctions.sql": [[1, 150.0], [3, 600.0]],
    "network.sql": [["core-1", 12], ["edge-1", 12]],
    "stock.sql": [["A", 1, 150, "19.50"], ["B", 2, 25, "145.75"]],
}


def test_the_python_example() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "fleet.py"), "sail"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "due is a view with the key (bus)." in done.stdout
