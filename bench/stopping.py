"""Long runs that somebody has seen enough of: what is measured so far is kept."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def until_stopped(things: Iterable[T]) -> Iterator[T]:
    """The things one by one; after Ctrl-C the one that is being measured is finished, and no other begun.

    A second Ctrl-C stops at once. An interrupt in the middle of a call to the engine would end in any error.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            signal.default_int_handler(number, frame)
        asked = True

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not in the main thread, which is where interrupts go
        yield from things
        return
    try:
        for thing in things:
            if asked:
                return
            yield thing
    finally:
        signal.signal(signal.SIGINT, before)
