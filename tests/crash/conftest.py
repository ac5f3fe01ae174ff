"""Children that die: started two at a time from a copy of one declared home, on either catalog."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE

import pytest

from headrace.engine import Engine
from headrace.session import Session, connect
from tests.crash import story
from tests.storage import postgres

ROOT = Path(__file__).parents[2]
MOTHERS = 2


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    postgres.report_missed(terminalreporter)


@dataclass(frozen=True)
class Place:
    """A home with its files to land and its journal."""

    folder: Path
    catalog: str | None = None

    @property
    def incoming(self) -> Path:
        return self.folder / "incoming"

    def open(self, engine: Engine) -> Session:
        return connect(str(self.folder / "home"), engine="sail", spark=engine.spark, catalog=self.catalog)

    @property
    def errors(self) -> str:
        """What the children had to say."""
        return (self.folder / "stderr").read_text()


class Mother:
    """A process that bears children; see `worker`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.worker"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True)

    def bear(self, place: Place, **environment: str) -> int:
        """Let a child go on with the story at `place`, to its end or its death; how it ended."""
        order = {"folder": str(place.folder), "catalog": place.catalog, "environment": environment}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Stage:
    """The declared home, and copies of it on which children run, two at a time."""

    root: Path
    engine: Engine
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(MOTHERS))
    mothers: SimpleQueue[Mother] = field(default_factory=SimpleQueue)

    def declare(self, catalog: str | None) -> Path:
        folder = self.root / f"declared-{'sqlite' if catalog is None else 'postgres'}"
        place = Place(folder, catalog)
        place.incoming.mkdir(parents=True)
        with place.open(self.engine) as session:
            session.sql(story.DECLARED)
        return folder

    def copy(self, declared: Path, name: str, catalog: str | None = None) -> Place:
        shutil.copytree(declared, self.root / name)
        return Place(self.root / name, catalog)

    def child(self, place: Place, **environment: str) -> int:
        """One child, to its end."""
        mother = self.mothers.get()
        try:
            return mother.bear(place, **environment)
        finally:
            self.mothers.put(mother)

    def start(self, place: Place, *kill_at: int) -> Future[list[int]]:
        """One child after the other, each killed at its point."""
        return self.pool.submit(lambda: [self.child(place, HEADRACE_KILL_AT=str(point)) for point in kill_at])


@pytest.fixture(scope="module")
def stage(sail_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("crash"), sail_engine)
    mothers = [Mother() for _ in range(MOTHERS)]
    for mother in mothers:
        made.mothers.put(mother)
    yield made
    made.pool.shutdown(cancel_futures=True)
    for mother in mothers:
        mother.close()
