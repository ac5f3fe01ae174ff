"""The engines that do the data work, and what each of them lacks.

This is the one module that knows which engine is in use. All other data work is PySpark DataFrame and SQL calls that
Spark Connect also offers. Three things here are not, each with its reason:

- the embedded session is made with `SparkSession.builder.master`: somebody has to start the JVM;
- the embedded session's SparkContext counts the jobs of a refresh: no Connect call tells their number;
- Connect sessions are made from `pyspark.sql.connect` directly: the public builder would switch the whole process to
  Connect, and a process may hold an embedded session and a remote one at once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from headrace.errors import DefinitionError, EngineError
from headrace.language.types import arrow_type, ddl_type
from headrace.sail import SailServer, running_server

#: What an engine may lack, and the sentence that tells the user so.
CAPABILITIES: Mapping[str, str] = {
    "structured_streaming": "Structured Streaming sources (FROM STREAMING) cannot be landed",
    "job_counts": "the number of Spark jobs is not told; actions are counted instead",
    "overflow_errors": "integer overflow wraps around instead of being an error",
}

#: Engine by engine, the capabilities it does not have.
LACKS: Mapping[str, frozenset[str]] = {
    "spark": frozenset(),
    "connect": frozenset({"job_counts", "structured_streaming"}),
    "sail": frozenset({"structured_streaming", "job_counts", "overflow_errors"}),
}

_LOGGING = Path(__file__).with_name("log4j2.properties")


#: Names of columns with their types.
Columns = Sequence[tuple[str, str]]


@dataclass
class Count:
    """How many jobs ran while it was open."""

    jobs: int = 0


@dataclass
class Engine:
    """A PySpark session and the little we need of it, with errors in our own words."""

    kind: str
    spark: Any
    owned: bool = False
    server: SailServer | None = None
    _actions: Iterator[int] = field(default_factory=itertools.count, repr=False)
    _done: int = 0
    _group: str | None = None

    def has(self, capability: str) -> bool:
        return capability not in LACKS[self.kind]

    def need(self, capability: str) -> None:
        """Raise unless the engine has `capability`."""
        if not self.has(capability):
            raise EngineError(
                "ENGINE_LACKS",
                f"On the engine {self.kind}, {CAPABILITIES[capability]}.",
                hint="Apache Spark has it: connect(home, engine='spark').",
            )

    @property
    def in_utc(self) -> bool:
        """Whether the session's days all have 24 hours: one that is given to us may be of any time zone."""
        return self.spark.conf.get("spark.sql.session.timeZone") in ("UTC", "Etc/UTC", "GMT", "Z")

    def sql(self, text: str, frames: Mapping[str, Any] | None = None) -> Any:
        """A DataFrame for `text`, in which each name of `frames` stands for that DataFrame."""
        escaped = _named(text.replace("{", "{{").replace("}", "}}"), list(frames or {}))
        with self.translated():
            return self.spark.sql(escaped, **(frames or {})) if frames else self.spark.sql(text)

    def checked(self, frame: Any) -> Any:
        """The same frame, its query checked: Connect does that only when its schema is asked for."""
        with self.translated():
            frame.schema  # noqa: B018
            return frame

    def read(self, paths: Sequence[str], ddl: str) -> Any:
        """The rows of Parquet files of a known schema."""
        with self.translated():
            if not paths:
                return self.spark.createDataFrame([], ddl)
            return self.spark.read.schema(ddl).parquet(*paths)

    def frame(self, table: pa.Table) -> Any:
        """A DataFrame of a small table."""
        with self.translated():
            if table.num_rows == 0:
                ddl = ", ".join(f"`{item.name}` {ddl_type(item.type)}" for item in table.schema)
                return self.spark.createDataFrame([], ddl)
            frame = self.spark.createDataFrame(table)
            # PySpark takes a timestamp without a time zone for one with: in UTC it is the same moment.
            if not any(pa.types.is_timestamp(item.type) and item.type.tz is None for item in table.schema):
                return frame
            kinds = {item.name: ddl_type(item.type) for item in table.schema}
            return frame.selectExpr(*(f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in kinds.items()))

    def arrow(self, frame: Any) -> pa.Table:
        """All rows of a DataFrame that is known to be small."""
        self._done += 1
        with self.translated():
            return frame.toArrow()

    @property
    def functions(self) -> Any:
        """PySpark's functions for this engine's kind of columns."""
        if self.kind == "spark":
            from pyspark.sql import functions
        else:
            from pyspark.sql.connect import functions
        return functions

    def stage(
        self, frame: Any, function: Any, given: Columns, by: str, tasks: int | None, taken: Columns | None = None
    ) -> Any:
        """What `function`, from Arrow batches to Arrow batches, makes of each of `tasks` partitions by `by`.

        `given` are the names and types of the columns it gives, `taken` of those it takes, where the caller knows.
        """
        with self.translated():
            parted = frame.repartition(tasks or self.parallelism, by)
            known = None if taken is None or self.kind == "spark" else _struct(tuple(taken))
            if known is not None and not isinstance(known, str):
                # Connect would ask the server for the columns of every stage of a plan, each time for a longer one.
                parted._cached_schema = known
            return parted.mapInArrow(function, _struct(tuple(given)))

    @property
    def levels_a_job(self) -> int:
        """How many of our stages one job may have: a Connect server refuses plans that are nested too deeply."""
        return 1_000 if self.kind == "spark" else 4

    @property
    def parallelism(self) -> int:
        """How many tasks a stage of ours is cut into: the machine's cores, or a cluster's shuffle partitions."""
        if self.kind == "connect":
            return int(self.spark.conf.get("spark.sql.shuffle.partitions", "200"))
        return os.cpu_count() or 2

    def write(self, frame: Any, path: str) -> None:
        """Write a DataFrame as Parquet into a new folder."""
        self._done += 1
        with self.translated():
            frame.write.mode("append").parquet(path)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Count]:
        """Count the jobs that run inside: Spark's own where it tells, else our actions."""
        count, before = Count(), self._done
        if self.kind != "spark":
            yield count
            count.jobs = self._done - before
            return
        group = f"headrace-{os.urandom(6).hex()}"
        # Spark is told of the group when it is first asked for something: often that is never.
        self._group = group
        try:
            yield count
        finally:
            if self._group is None:
                context = self.spark.sparkContext
                count.jobs = len(context.statusTracker().getJobIdsForGroup(group))
                context.setLocalProperty("spark.jobGroup.id", None)
            self._group = None

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Give the engine's exceptions our class and one readable sentence."""
        from pyspark.errors import PySparkException

        if self._group is not None:
            group, self._group = self._group, None
            self.spark.sparkContext.setJobGroup(group, "headrace")
        try:
            yield
        except Exception as error:
            # A broken connection shows as an error of grpc, which an embedded Spark need not have.
            if isinstance(error, PySparkException) or type(error).__module__.startswith("grpc"):
                raise EngineError(*_translate(error)) from error
            raise

    def renew(self, grown_to: int) -> bool:
        """A new server of our own once the old one is gone, or has grown to so many bytes.

        Frames that were made before are void then.
        """
        if self.server is None or (self.server.alive and self.server.memory < grown_to):
            return False
        self.close()
        self.server = running_server(instead_of=self.server)
        self.spark = session_with(self.server)
        return True

    def close(self) -> None:
        """Let go of a session we opened to a server; the embedded Spark lives as long as the process."""
        if not self.owned:
            return
        with contextlib.suppress(Exception):
            if self.kind == "connect":
                self.spark.stop()
            # Otherwise the client would speak to its server once more when the process ends, and wait for an answer.
            self.spark.client.close()


def open_engine(spec: str = "spark", spark: Any = None) -> Engine:
    """The engine for `spec`: ``spark``, ``sail`` or a Spark Connect address ``sc://host:port``.

    A session given as `spark` is used as it is.
    """
    # PySpark logs every failed query with its whole Java stack; we raise it as one readable error.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    if spark is not None:
        connect = type(spark).__module__.startswith("pyspark.sql.connect")
        kind = ("sail" if spec == "sail" else "connect") if connect else "spark"
        return Engine(kind, spark)
    if spec == "spark":
        return Engine("spark", _embedded())
    if spec == "sail":
        server = running_server()
        return Engine("sail", session_with(server), owned=True, server=server)
    if spec.startswith("sc://"):
        return Engine("connect", _remote(spec), owned=True)
    raise DefinitionError(
        "UNKNOWN_ENGINE",
        f"There is no engine called {spec!r}.",
        hint="Use 'spark' (embedded, the default), 'sail', or a Spark Connect address such as 'sc://host:15002'.",
    )


def _embedded() -> Any:
    from pyspark.sql import SparkSession

    _find_java()
    # Workers must run in our environment, whatever `python3` means on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    cores = os.cpu_count() or 2
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_driver_memory()}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(max(2, cores)),
        # Refreshes are small and many: adaptive execution would cut each into several jobs.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Listing a log's files must not start a job of its own.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOGGING}",
    }
    builder = SparkSession.builder.master("local[*]").appName("headrace")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j raises plain exceptions when the JVM does not start
        raise EngineError(
            "SPARK_NOT_STARTED",
            f"Apache Spark did not start: {str(error).splitlines()[0] if str(error) else type(error).__name__}.",
            hint="Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless, or set JAVA_HOME.",
        ) from error


def session_with(server: SailServer) -> Any:
    """A new session with a server of ours."""
    session = _remote(f"sc://127.0.0.1:{server.port}")
    # A server of ours that does not answer is gone: asking it again would be in vain.
    session.client.set_retry_policies([_asking_again()])
    return session


def _asking_again() -> Any:
    """Ask again where an answer came that cannot be read: on a busy machine that happens, once in a thousand tests."""
    from pyspark.sql.connect.client.retries import RetryPolicy

    class Unreadable(RetryPolicy):  # type: ignore[misc]
        def can_retry(self, exception: BaseException) -> bool:
            details = getattr(exception, "details", None)
            return callable(details) and "Exception deserializing response" in str(details())

    return Unreadable(max_retries=3, initial_backoff=20)


def _remote(address: str) -> Any:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    try:
        # The client would try again for minutes; a port nobody listens on is told at once.
        place = urlsplit(address)
        socket.create_connection((place.hostname or "", place.port or 15002), timeout=10).close()
        session = ConnectSession.builder.remote(address).create()
        session.conf.set("spark.sql.session.timeZone", "UTC")  # the first call is what connects
        return session
    except Exception as error:  # grpc and PySpark raise several unrelated classes here
        raise EngineError(
            "CONNECT_FAILED",
            f"No Spark Connect server answers at {address}.",
            detail=str(error).splitlines()[0] if str(error) else None,
            hint="Check the address, and that the server runs (port 15002 by default).",
        ) from error


def _find_java() -> None:
    """Point JAVA_HOME at a Java of 17 or newer when the path has none."""
    if os.environ.get("JAVA_HOME") or _java_version(shutil.which("java")) >= 17:
        return
    folder = "/usr/lib/jvm"
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if _java_version(f"{folder}/{name}/bin/java") >= 17:
            os.environ["JAVA_HOME"] = f"{folder}/{name}"
            return


def _java_version(java: str | None) -> int:
    if java is None or not os.access(java, os.X_OK):
        return 0
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    return int(found.group(1)) if found else 0


def _driver_memory() -> int:
    """Megabytes for the embedded JVM: a third of the machine, between 1 and 8 GB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(1024, min(8192, total // 3))


@lru_cache(maxsize=1_000)
def _struct(columns: tuple[tuple[str, str], ...]) -> Any:
    """Columns as PySpark has them; or as text, which it lets the engine read, where it knows no type of that kind."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    try:
        kinds = [from_arrow_type(arrow_type(kind), prefer_timestamp_ntz=True) for _name, kind in columns]
    except Exception:  # which one depends on the version of PySpark
        return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns)
    return StructType([StructField(name, kind) for (name, _kind), kind in zip(columns, kinds, strict=True)])


def apart(name: str, *texts: str) -> str:
    """A name like the given one that stands in none of the texts.

    `Engine.sql` takes every bare word that is a frame's name for the frame. Where a text is the user's, a column of
    that name would become a relation, so the frames get names that do not stand there.
    """
    while any(name in text for text in texts):
        name += "_"
    return name


def _named(text: str, names: Sequence[str]) -> str:
    """SQL with each of the names in braces, where it is a relation's and not a column's or part of a text.

    What follows a point is a column, or a field of one.
    """
    if not names:
        return text
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    tokens = re.compile(rf"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|(?<![.\w])(?:{listed})\b""", re.DOTALL)
    # Our own SQL quotes columns and no relations, so a quoted name is a relation's only where it never stands bare.
    bare = {found for found in tokens.findall(text) if found in names}
    quoted = {f"`{name}`": name for name in names if name not in bare}

    def put(found: re.Match[str]) -> str:
        name = found[0] if found[0] in bare else quoted.get(found[0])
        return found[0] if name is None else f"{{{name}}}"

    return tokens.sub(put, text)


def _translate(error: Any) -> tuple[str, str]:
    text = str(error).strip()
    if "StatusCode.UNAVAILABLE" in text:
        return "ENGINE_GONE", "The engine's server does not answer any more."
    if "Traceback (most recent call last)" in text:
        # A task of ours failed: what its Python said last is the reason.
        name, _colon, said = text.split("JVM stacktrace")[0].strip().splitlines()[-1].partition(": ")
        if name == "ArithmeticError":
            return "ARITHMETIC_OVERFLOW", said or name
        return "TASK_FAILED", said or name
    # Spark appends the logical plan and a Java stack; the first paragraph is what helps.
    first = re.split(r"\n\s*(?:;|\n|'?[A-Z][A-Za-z]+ |JVM stacktrace|== SQL)", text)[0].strip()
    condition = None
    with contextlib.suppress(Exception):
        condition = error.getCondition()
    return condition or "QUERY_FAILED", first.rstrip(";") or type(error).__name__
