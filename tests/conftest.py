"""One Spark session and one Sail session for a whole run, and homes in temporary folders on either.

A test that asks for `session` (or `connect`) runs on Apache Spark and again on Sail. What an engine lacks is marked on
the test with `needs(capability)`: there the test is left out, and `test_engines.py` checks that the engine says so.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from headrace.engine import LACKS, Engine, open_engine
from headrace.session import Session
from headrace.session import connect as connect_home

# Deadlines would fail on a busy machine; too-slow checks too.
settings.register_profile(
    "fast",
    max_examples=int(os.environ.get("HEADRACE_EXAMPLES", "100")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
# The same cases in every run, so that a change is judged by itself; HEADRACE_RANDOM=1 looks for new ones.
settings.register_profile("same", parent=settings.get_profile("fast"), derandomize=True)
settings.load_profile("fast" if os.environ.get("HEADRACE_RANDOM") else "same")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--needing", choices=["spark", "others", "all"], default="all", help="only tests that need Apache Spark, or not"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests, those that need Apache Spark or the others, where only these are asked for."""
    needing = config.getoption("--needing")
    if needing == "all":
        return
    left = [item for item in items if _needs_spark(item) == (needing == "spark")]
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = left


def _needs_spark(item: pytest.Item) -> bool:
    """Whether a test asks for Apache Spark, by a fixture or as the engine it is run on."""
    callspec = getattr(item, "callspec", None)
    chosen = [] if callspec is None else [one for one in callspec.params.values() if isinstance(one, str)]
    return "spark" in chosen or bool({"spark_engine", "spark"} & set(getattr(item, "fixturenames", ())))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(capability): the engine must have it")


@pytest.fixture(scope="session")
def spark_engine() -> Engine:
    """Apache Spark, embedded: one for all tests."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.default.parallelism", "2")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
    return open_engine("spark", spark)


@pytest.fixture(scope="session")
def sail_engine(request: pytest.FixtureRequest) -> Engine:
    """Sail: one engine for all tests."""
    # Starting Java forks this process, which does not go well any more once it speaks to a server.
    if any(map(_needs_spark, request.session.items)):
        request.getfixturevalue("spark_engine")
    return open_engine("sail")


@pytest.fixture(autouse=True)
def _a_server_that_does_not_grow(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    # The tests of the algebra name relations to the server once and for all.
    if "sail_engine" in request.fixturenames and request.path.parent.name != "algebra":
        request.getfixturevalue("sail_engine").renew(grown_to=2 << 30)


@pytest.fixture(params=["spark", "sail"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    for mark in request.node.iter_markers("needs"):
        if mark.args[0] in LACKS[request.param]:
            pytest.skip(f"{request.param} has no {mark.args[0]}; test_engines.py checks that it says so")
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found


Connect = Callable[..., Session]


@pytest.fixture
def connect(engine: Engine, tmp_path: Path) -> Iterator[Connect]:
    """A function that opens the test's home (again), closing what was left open at the end."""
    opened: list[Session] = []

    def open_session(home: str | Path | None = None, catalog: str | None = None) -> Session:
        session = connect_home(str(home or tmp_path / "home"), engine=engine.kind, spark=engine.spark, catalog=catalog)
        opened.append(session)
        return session

    yield open_session
    for session in opened:
        session.close()


@pytest.fixture
def session(connect: Connect) -> Session:
    """A session on a new home."""
    return connect()


def rows(frame: Any) -> list[tuple[Any, ...]]:
    """A DataFrame's rows as tuples, in an order that does not depend on the engine."""
    table = frame.toArrow()
    found = list(zip(*[column.to_pylist() for column in table.columns], strict=True)) if table.num_columns else []
    return sorted(found, key=_order)


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is None, str(type(value)), str(value)) for value in row)


def ordered(frame: Any) -> list[tuple[Any, ...]]:
    """A DataFrame's rows as tuples, in the frame's own order."""
    table = frame.toArrow()
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


def tagged(frame: Any) -> list[tuple[Any, ...]]:
    """Tagged tuples as the papers print them: op, values..., seconds."""
    return [(*row[:-1], row[-1].timestamp()) for row in ordered(frame)]


@pytest.fixture
def free_ports() -> list[int]:
    """Ports nobody listens on."""
    probes = [socket.socket() for _ in range(3)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture
def free_port(free_ports: list[int]) -> int:
    return free_ports[0]
