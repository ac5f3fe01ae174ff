"""Named points at which a test may kill the process.

Every durable step passes `reach` before and after it. Nothing happens there unless a test asks: with
`HEADRACE_KILL_AT=n` in the environment the process kills itself (SIGKILL, no clean-up of any kind) at the n-th point
it reaches; with `HEADRACE_FAULT_LOG=file` it writes the names of the points it passes.
"""

from __future__ import annotations

import itertools
import os
import signal

_count = itertools.count(1)
_kill_at = int(os.environ.get("HEADRACE_KILL_AT", "0"))
_log = os.environ.get("HEADRACE_FAULT_LOG")


def reach(point: str) -> None:
    """Pass the point named `point`."""
    if not _kill_at and not _log:
        return
    number = next(_count)
    if _log:
        with open(_log, "a", encoding="utf-8") as log:
            log.write(f"{number} {point}\n")
    if number == _kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
