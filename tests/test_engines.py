"""The engines: what each can do is told, two of them agree, and a Spark Connect server is enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import headrace
from headrace import HeadraceError
from headrace.engine import CAPABILITIES, LACKS, Engine, _asking_again, open_engine
from headrace.session import Session
from tests.conftest import rows, tagged

SCRIPT = """
CREATE STREAM s (k INT, v DECIMAL(10, 2), ts TIMESTAMP) KEY (k) ORDER BY ts;
CREATE TABLE names (k INT, name STRING, PRIMARY KEY (k));
INSERT INTO names VALUES (1, 'one'), (2, NULL) AT 0;
CREATE STREAMED VIEW named AS SELECT s.k, n.name, s.v FROM s LEFT JOIN names AS n ON s.k = n.k;
CREATE VIEW totals AS SELECT name, sum(v) AS total, avg(v) AS mean, count(*) AS n FROM named GROUP BY name;
INSERT INTO s VALUES (1, 1.10, 1), (2, 2.25, 2), (1, 3.30, 3), (NULL, 0.05, 4);
REFRESH;
UPDATE names SET name = 'two' WHERE k = 2 AT 5;
DELETE FROM s WHERE k = 1 AT 6;
REFRESH
"""


def outcome(session: Session) -> tuple[object, ...]:
    session.sql(SCRIPT)
    return (
        rows(session.table("s")),
        rows(session.table("totals")),
        sorted(map(str, tagged(session.changes("named")))),
        sorted(map(str, tagged(session.changes("totals")))),
        rows(session.sql("SELECT * FROM named AS OF 3")),
    )


@pytest.fixture(scope="module")
def expected(spark_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    home = str(tmp_path_factory.mktemp("reference") / "home")
    with headrace.connect(home, spark=spark_engine.spark) as session:
        return outcome(session)


def test_two_engines_agree(expected: tuple[object, ...], sail_engine: Engine, tmp_path: Path) -> None:
    with headrace.connect(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark) as session:
        assert outcome(session) == expected


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server from the pyspark package, in a process of its own."""
    folder = tmp_path_factory.mktemp("connect")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ["spark.ui.enabled=false", "spark.connect.grpc.binding.port=0", "spark.sql.shuffle.partitions=2"]
    settings += ["spark.connect.grpc.binding.address=127.0.0.1", "spark.driver.host=127.0.0.1"]
    command = [
        str(submit),
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for setting in settings:
        command += ["--conf", setting]
    log = folder / "server.log"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(submit.parent.parent)}
    with log.open("w") as sink:
        server = subprocess.Popen(
            [*command, "spark-internal"], stdout=sink, stderr=subprocess.STDOUT, cwd=folder, env=environment
        )
    try:
        yield f"sc://127.0.0.1:{_port(server, log)}"
    finally:
        server.terminate()
        server.wait(timeout=30)


def _port(server: subprocess.Popen[bytes], log: Path) -> int:
    for _ in range(600):
        found = re.search(r"Spark Connect server started at: \S*?:(\d+)", log.read_text())
        if found:
            return int(found.group(1))
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"the Spark Connect server did not start:\n{log.read_text()[-3000:]}")


@pytest.mark.slow
def test_spark_connect(expected: tuple[object, ...], connect_server: str, tmp_path: Path) -> None:
    with headrace.connect(str(tmp_path / "home"), engine=connect_server) as session:
        assert outcome(session) == expected
        with pytest.raises(HeadraceError, match="On the engine connect"):
            session.sql(
                "REGISTER SOURCE r (value BIGINT) FROM STREAMING 'rate'; CREATE STREAM x OVER r KEY NULL; REFRESH"
            )


def test_what_an_engine_lacks_is_said(sail_engine: Engine, tmp_path: Path) -> None:
    with headrace.connect(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark) as session:
        session.sql("REGISTER SOURCE r (value BIGINT) FROM STREAMING 'rate'; CREATE STREAM s OVER r KEY NULL")
        with pytest.raises(HeadraceError) as raised:
            session.refresh()
    assert raised.value.condition == "ENGINE_LACKS"
    assert "On the engine sail, Structured Streaming sources" in str(raised.value)
    assert "engine='spark'" in str(raised.value)


def test_every_lack_is_a_named_capability() -> None:
    assert set().union(*LACKS.values()) <= set(CAPABILITIES)
    assert not LACKS["spark"]


def test_claimed_lacks_are_real(sail_engine: Engine) -> None:
    """When an engine learns something, this fails and the table is brought up to date."""
    overflow = sail_engine.spark.sql("SELECT CAST(2147483647 AS INT) + CAST(x AS INT) AS y FROM (SELECT 1 AS x)")
    assert overflow.toArrow().to_pylist() == [{"y": -2147483648}]


@pytest.mark.parametrize("spec", ["flink", "", "sc//x"])
def test_unknown_engine(spec: str) -> None:
    with pytest.raises(HeadraceError) as raised:
        open_engine(spec)
    assert raised.value.condition == "UNKNOWN_ENGINE"


def test_no_server_there(free_port: int) -> None:
    with pytest.raises(HeadraceError) as raised:
        open_engine(f"sc://127.0.0.1:{free_port}/;grpc_max_message_size=1000000")
    assert raised.value.condition == "CONNECT_FAILED"


def test_importing_starts_nothing() -> None:
    code = "import sys, headrace; assert 'pyspark' not in sys.modules and 'pysail' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    class Failure(Exception):
        def __init__(self, told: str) -> None:
            self.told = told

        def details(self) -> str:
            return self.told

    policy = _asking_again()
    assert policy.can_retry(Failure("Exception deserializing response!"))
    assert not policy.can_retry(Failure("failed to connect to all addresses"))
    assert not policy.can_retry(ValueError("of another kind"))
    assert policy.max_retries == 3
