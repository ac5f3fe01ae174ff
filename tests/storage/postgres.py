"""A real PostgreSQL server for the tests, started once from Debian's package and stopped when the run ends.

The server refuses to run as root, so root runs it as the package's user `postgres`. It listens on a free loopback port
only, trusts every connection and does not sync: it holds nothing but test catalogs.
"""

from __future__ import annotations

import atexit
import functools
import glob
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

#: Debian keeps the server's programs out of the path, one folder a version.
PROGRAMS = "/usr/lib/postgresql/*/bin/initdb"

_missed: list[str] = []


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """The URL of a fresh database, a copy of `template`."""
        name = f"t{uuid.uuid4().hex}"
        engine = sa.create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        engine.dispose()
        return self.url(name)


def new_database(template: str | None = None) -> str:
    """The URL of a fresh database; skips the test, loudly, where there is no server to be had."""
    reason = missing()
    if reason is not None:
        _missed.append(os.environ.get("PYTEST_CURRENT_TEST", "a test").split(" ")[0])
        pytest.skip(reason)
    return server().new_database(template or "template1")


def missing() -> str | None:
    """Why no PostgreSQL server can be started here, or None."""
    if not glob.glob(PROGRAMS):
        return "POSTGRESQL NOT TESTED: no server is installed. Run: apt-get install postgresql"
    if os.getuid() == 0 and shutil.which("runuser") is None:
        return "POSTGRESQL NOT TESTED: the server does not run as root, and there is no runuser to change user with."
    return None


def report_missed(terminal: pytest.TerminalReporter) -> None:
    """Say at the end of a run, where nobody can miss it, that PostgreSQL was not tested."""
    if _missed:
        terminal.write_line("")
        terminal.write_line(f"WARNING: {missing()} ({len(_missed)} tests skipped)", red=True, bold=True)
        _missed.clear()


@functools.cache
def server() -> Server:
    """The one server of this run."""
    programs = Path(sorted(glob.glob(PROGRAMS))[-1]).parent
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
    data, port = folder / "data", _free_port()

    _run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
    settings = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} "
        "-c fsync=off -c full_page_writes=off -c synchronous_commit=off -c shared_buffers=16MB"
    )
    _run(programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-t", "120", "-o", settings, "start")
    atexit.register(_stop, programs, folder)
    return Server(port)


def _stop(programs: Path, folder: Path) -> None:
    _run(programs / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def _run(program: Path, *arguments: object) -> None:
    command = [str(program), *map(str, arguments)]
    if os.getuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    # The server inherits its starter's output, so that must be a file: a pipe would never end.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/", check=False
        )
        if done.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{output.read()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
