"""The small relations, known to each engine once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.engine import Engine

from . import data


@pytest.fixture(scope="session")
def sail(sail_engine: Engine) -> Engine:
    """Sail, with the relations of `data`."""
    data.load(sail_engine)
    return sail_engine


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    """Gives Spark with the relations of `data`; it starts only when somebody asks."""
    started: list[Engine] = []

    def start() -> Engine:
        if not started:
            engine: Engine = request.getfixturevalue("spark_engine")
            data.load(engine)
            started.append(engine)
        return started[0]

    return start
