"""A long run that is interrupted keeps what it has."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from bench.stopping import until_stopped


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """A process that is started in the background may ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_is_begun_is_finished_and_nothing_else() -> None:
    done = []
    for number in until_stopped(range(5)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(number)
    assert done == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_stops_at_once() -> None:
    def twice() -> None:
        for _number in until_stopped(range(5)):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()
