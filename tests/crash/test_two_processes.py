"""Two processes on one home: one writes, any number read, and each reader sees one snapshot at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.engine import Engine
from headrace.errors import StorageError
from headrace.session import Session, connect
from tests.conftest import rows
from tests.crash.conftest import ROOT
from tests.storage import postgres

pytestmark = pytest.mark.slow


@dataclass
class Writing:
    """A home that another process is writing to."""

    folder: Path
    catalog: str | None
    engine: Engine
    process: subprocess.Popen[str]
    landed: int = 0

    def open(self) -> Session:
        return connect(str(self.folder / "home"), engine="sail", spark=self.engine.spark, catalog=self.catalog)

    def wait_for_another(self) -> None:
        """Until the writer has landed one more file."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the writer ended: {(self.folder / 'stderr').read_text()}"
        self.landed = int(line)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        assert self.process.wait() == -signal.SIGKILL
        assert self.process.stdout is not None
        # What it had said before it died.
        for line in self.process.stdout.read().splitlines():
            self.landed = int(line)


@pytest.fixture(params=["sqlite", "postgres"])
def writing(request: pytest.FixtureRequest, sail_engine: Engine, tmp_path: Path) -> Iterator[Writing]:
    catalog = postgres.new_database() if request.param == "postgres" else None
    command = [sys.executable, "-m", "tests.crash.writer", str(tmp_path)] + ([catalog] if catalog else [])
    with (tmp_path / "stderr").open("w") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    made = Writing(tmp_path, catalog, sail_engine, process)
    made.wait_for_another()
    yield made
    if process.poll() is None:
        made.kill()
    assert process.stdout is not None
    process.stdout.close()


def agree(session: Session, number: int) -> int:
    """Check that views and base are of one state in snapshot `number`; how many rows it has."""

    def read(query: str) -> list[tuple[Any, ...]]:
        return rows(session.sql(query.format(f"AS OF SNAPSHOT {number}")))

    assert read("SELECT n, amount FROM sums {}") == read("SELECT count(*), sum(amount) FROM orders {}")
    assert read("SELECT part, n FROM counts {}") == read("SELECT id % 3, count(*) FROM orders {} GROUP BY 1")
    assert read("SELECT n FROM counted {}") == read("SELECT sum(n) FROM counts {}")
    ((count,),) = read("SELECT count(*) FROM orders {}")
    files = {row[0] for row in read("SELECT DISTINCT id FROM orders {}")}
    # Whole files, in order, each once.
    assert files == set(range(1, len(files) + 1))
    assert count == sum(number % 5 + 1 for number in files)
    return len(files)


def test_readers_see_whole_snapshots_while_another_process_writes(writing: Writing) -> None:
    with writing.open() as one, writing.open() as other:
        held = one._home.snapshot().id
        seen = [agree(one, held)]
        for _round in range(6):
            writing.wait_for_another()
            seen += [agree(reader, reader._home.snapshot().id) for reader in (one, other)]
        assert seen == sorted(seen)
        assert seen[-1] > seen[0]
        # The snapshot held from the start has not changed, whatever was committed and rolled up since.
        assert agree(one, held) == seen[0]


def test_a_second_writer_is_told_and_takes_over_when_the_first_is_killed(writing: Writing) -> None:
    with writing.open() as session:
        with pytest.raises(StorageError) as error:
            session.refresh()
        assert error.value.condition == "HOME_HAS_A_WRITER"
        assert f"process {writing.process.pid} on " in error.value.message
        assert "One process writes at a time; any number may read." in str(error.value)
        writing.wait_for_another()  # it has not been disturbed
        before = agree(session, session._home.snapshot().id)
        assert before >= writing.landed
        writing.kill()
        after = agree(session, session._home.snapshot().id)
        assert after in (writing.landed, writing.landed + 1)
        session.refresh()
        dropped = len(list((writing.folder / "incoming").glob("*.csv")))
        assert agree(session, session._home.snapshot().id) == dropped >= after
        assert set(session._home.files.all()) == session._home.catalog.named_files()
        assert rows(session.table("counted")) == rows(session.sql("SELECT count(*) FROM orders"))
