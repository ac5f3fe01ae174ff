"""Sail's server, as a process of its own.

There it takes no Ctrl-C that is meant for us, shares no lock of the interpreter with us and cannot take us down with
it. And it can be replaced when it has grown: Sail 0.7 keeps some memory for every text it has parsed, for good.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

from headrace.errors import EngineError

# It ends when its input does, so that it never outlives us, however we end.
_PROGRAM = """
import os, sys
from pysail.spark import SparkConnectServer
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
print(server.listening_address[1], flush=True)
sys.stdin.read()
os._exit(0)
"""
_lock = threading.Lock()
_running: SailServer | None = None


class SailServer:
    """One server, from its start to its end."""

    def __init__(self) -> None:
        if find_spec("pysail") is None:
            raise EngineError(
                "SAIL_NOT_INSTALLED", "The engine sail is not installed.", hint="pip install 'headrace[sail]'"
            )
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.port = self._process.stdout.readline().strip()
        if not self.port:
            raise EngineError(
                "SAIL_NOT_STARTED",
                f"Sail did not start: its process ended with {self._process.wait()}.",
                hint="What it printed tells the reason; engine='spark' works without it.",
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def memory(self) -> int:
        """Bytes in memory; 0 where the system does not tell."""
        try:
            resident = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(resident) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def running_server(*, instead_of: SailServer | None = None) -> SailServer:
    """This process's server, started when there is none; never the one it should be `instead_of`."""
    global _running
    with _lock:
        if _running is not None and (_running is instead_of or not _running.alive):
            _running.stop()
            _running = None
        if _running is None:
            _running = SailServer()
        return _running


def _environment() -> dict[str, str]:
    wanted = {
        name: value for name, value in os.environ.items() if name not in ("HEADRACE_KILL_AT", "HEADRACE_FAULT_LOG")
    }
    # Tasks import what we can import.
    wanted["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    wanted.setdefault("RUST_LOG", "error")
    # Its allocator would keep what it freed: gigabytes after some thousand refreshes.
    wanted.setdefault("MIMALLOC_PURGE_DELAY", "0")
    return wanted


@atexit.register
def _stop() -> None:
    if _running is not None:
        _running.stop()
