"""What a user holds: a session on a home, which takes SQL, rows and time, and answers with DataFrames.

Examples
--------
>>> import headrace
>>> with headrace.connect("/tmp/headrace-doc") as session:        # doctest: +SKIP
...     session.sql("CREATE STREAM temps (room STRING, degrees INT, at TIMESTAMP) KEY (room) ORDER BY at")
...     session.sql("CREATE VIEW hot AS SELECT room, degrees FROM temps WHERE degrees > 80")
...     session.feed("temps", [("a", 105, 1), ("b", 70, 2)])
...     session.refresh()
...     session.table("hot").show()
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from headrace.language import Statement, parse, parse_time
from headrace.runtime import explain, loop, status
from headrace.runtime.changes import tagged
from headrace.runtime.execute import execute
from headrace.runtime.feeding import feed
from headrace.runtime.home import Home
from headrace.runtime.info import Info
from headrace.runtime.ingest import Listeners
from headrace.runtime.refresh import Refreshed
from headrace.runtime.refreshing import advance, refresh


def connect(home: str, engine: str = "spark", spark: Any = None, catalog: str | None = None) -> Session:
    """Open a home, making it if it is new.

    Parameters
    ----------
    home
        A folder, or any path Spark and Arrow can read.
    engine
        ``"spark"`` (embedded, the default), ``"sail"``, or a Spark Connect address ``"sc://host:port"``.
    spark
        A SparkSession of yours to use instead of starting one.
    catalog
        A SQLAlchemy URL for the catalog; by default an SQLite file in the home.
    """
    return Session(Home(home, engine=engine, spark=spark, catalog=catalog))


class Session:
    """An open home. Use it as a context manager, or call `close`."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._listeners = Listeners()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def spark(self) -> Any:
        """The PySpark session that does the data work."""
        return self._home.engine.spark

    def sql(self, text: str) -> Any:
        """Run a statement or a script; the last one's answer.

        A query gives a DataFrame, anything else an `Info`. A statement that fails raises and changes nothing; those
        before it in the script stand.
        """
        answer: Any = Info("", "Nothing to do.")
        for statement in parse(text):
            answer = self.execute(statement)
        return answer

    def execute(self, statement: Statement) -> Any:
        """Run one parsed statement."""
        return execute(self._home, self._listeners, statement)

    def feed(self, name: str, rows: Any, at: Any | Sequence[Any] | None = None, *, ops: Any = None) -> int:
        """Put rows into a source, stream or table; they are durable when this returns.

        Parameters
        ----------
        name
            A source, stream or table.
        rows
            Mappings or tuples, a pandas or Spark DataFrame, or an Arrow table.
        at
            When they arrive: one time for all, or one for each row. Numbers are seconds since the epoch.
        ops
            For a table with a primary key: what the rows do, ``"+"`` (insert or replace) or ``"-"`` (delete). One
            operation for all rows, one for each, or the name of the column of the rows that has them.

        Returns
        -------
        int
            How many rows were taken in.
        """
        return feed(self._home, name, rows, at, ops)

    def refresh(self, view: str | None = None) -> Refreshed:
        """Land what has arrived and refresh every view that is due, or `view` and what it reads."""
        return refresh(self._home, self._listeners, view)

    def advance(self, time: Any) -> Refreshed:
        """Move the clock (a number of seconds, a datetime or ISO text) and refresh what falls due."""
        return advance(self._home, _micros(time))

    def run(self, stop: threading.Event | None = None, every: float = 0.5) -> None:
        """Keep all sources and views going until `stop` is set; a refresh in flight is finished first."""
        loop.run(self._home, self._listeners, stop or threading.Event(), every)

    def table(self, name: str, as_of: Any = None) -> Any:
        """An object's rows as a DataFrame: now, or as they were at a time."""
        relations = self._home.relations()
        return relations.at(relations.source.find(name), None if as_of is None else _micros(as_of))

    def changes(self, name: str, since: Any = None, *, old: bool = False) -> Any:
        """An object's tagged stream (`op`, the row, `ts`) as a DataFrame, after the time `since`.

        With `old`, the row that was there before an update or a deletion is in columns beside: `old_x` for `x`.
        """
        relations = self._home.relations()
        after = None if since is None else _micros(since)
        return tagged(relations, relations.source.find(name), after, None, old=old)

    def explain(self, name: str) -> str:
        """How an object is kept, in words."""
        return explain.explain_object(self._home, self._home.snapshot().find(name))

    def status(self) -> list[status.ObjectStatus]:
        """Every object: rows, parts, freshness, last refresh, strategy, and what went astray."""
        return status.of_home(self._home, self._listeners)

    def arrow(self, frame: Any) -> pa.Table:
        """All rows of a DataFrame this session gave, as an Arrow table."""
        return self._home.engine.arrow(frame)

    def close(self) -> None:
        """Stop listening, let go of the home and of a remote engine."""
        self._listeners.close_all()
        self._home.close()


def _micros(time: Any) -> int:
    if hasattr(time, "isoformat"):
        time = time.isoformat()
    return parse_time(time)
