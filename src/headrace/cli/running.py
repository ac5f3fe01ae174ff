"""`headrace run`: all sources and views kept going until a signal says stop.

The loop runs in a thread of its own. So the main thread is always free to take a signal, and an engine that starts in
the loop cannot put its own handler in place of ours (PySpark does when it starts in the main thread).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from headrace.session import Session

log = logging.getLogger("headrace")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_until_stopped(session: Session, every: float) -> None:
    """Land and refresh every `every` seconds. SIGTERM or Ctrl-C lets the refresh in flight finish and returns."""
    stop = threading.Event()
    failure: list[BaseException] = []

    def work() -> None:
        try:
            session.run(stop, every)
        except BaseException as error:
            failure.append(error)

    with _logged(), _stopping(stop):
        log.info("keeping %s going, a round every %g s; Ctrl-C stops", _what(session), every)
        worker = threading.Thread(target=work, name="headrace-run")
        worker.start()
        while worker.is_alive():
            worker.join(0.2)
        if failure:
            raise failure[0]
        log.info("stopped; everything received has landed")


def _what(session: Session) -> str:
    kinds = [item.kind for item in session.status()]
    return ", ".join(f"{kinds.count(kind)} {kind}s" for kind in ("source", "view") if kind in kinds) or "an empty home"


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Log lines on standard error, with the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextlib.contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    def asked(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # Asked twice: somebody is in a hurry. A killed refresh leaves the previous snapshot whole.
            os._exit(130)
        stop.set()
        log.info("stopping after the refresh in flight; once more stops at once")

    before = {number: signal.signal(number, asked) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
