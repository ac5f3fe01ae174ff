"""The children that are killed, and a mother that bears them quickly.

`python -m tests.crash.worker` reads orders from its input, one JSON object a line: a `folder` (with the home, the files
to be landed and the journal of what was accepted), a `catalog` URL or null, and the `environment` that says where to
die. For each it forks a child, which goes on with the story in that folder, and answers with how the child ended. The
mother has everything imported and nothing started in her own process: no thread, no open home. The engine's server is
a process beside all of them, as on a cluster, and outlives those it works for: what a task still writes when its child
is dead must not count.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

# What opening the engine imports: once here instead of once a child.
import pyspark.sql.connect.dataframe
import pyspark.sql.connect.session  # noqa: F401

from headrace.engine import session_with
from headrace.sail import SailServer, running_server
from headrace.session import connect
from headrace.storage import faults
from tests.crash.story import accepted, go_on, position


def main() -> None:
    server = running_server()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            live(order, server)
        _pid, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def live(order: dict[str, Any], server: SailServer) -> None:
    """A child's whole life."""
    folder = Path(order["folder"])
    with open(folder / "stderr", "a") as errors:
        os.dup2(errors.fileno(), 2)
        os.dup2(errors.fileno(), 1)
    os.environ.update(order["environment"])
    importlib.reload(faults)  # it reads the environment when it is imported
    try:
        act(folder, order["catalog"], server)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def act(folder: Path, catalog: str | None, server: SailServer) -> None:
    journal = folder / "journal"
    with connect(str(folder / "home"), engine="sail", spark=session_with(server), catalog=catalog) as session:
        done = accepted(journal)
        start = position(session, done) if done else 0
        go_on(session, folder / "incoming", journal, start)


if __name__ == "__main__":
    main()
