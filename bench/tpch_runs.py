"""What the TPC-H experiments share: a home with the data in it, steps of changes, and the rivals beside it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.measure import seconds
from bench.tpch_changes import Batch
from bench.tpch_data import RELATIONS, DataSet, declare_streams
from headrace.errors import EngineError
from headrace.session import Session

#: Above this scale factor the embedded Spark has no room for cached tables.
MOST_CACHED = 1

#: Enough for what the queries need at scale factor 10, beside the tables' pages.
MOST_OF_DUCKDB = "6GB"

#: The strategy of a refresh that finds nothing changed.
NOTHING = "nothing"


@dataclass(frozen=True)
class Step:
    """One batch of changes taken in: the seconds of the feed and of the refresh, and what the view's refresh says."""

    feed: float
    refresh: float
    view: float
    jobs: int
    strategy: str


def load(session: Session, data: DataSet, *, whole: bool = False) -> float:
    """Declare the eight streams, land the base files in one transaction and say how many seconds that took.

    `whole`: the changes to come break no foreign key, so these are declared.
    """
    # What is compared with a view is its query, not the view again.
    session.sql("ALTER HOME SET (max_rows_per_batch = 1000000000, sharing = 'never')")
    declare_streams(session, data, whole=whole)
    landed = []
    taken = seconds(lambda: landed.append(session.refresh().landed))
    _check(landed[0], sum(data.rows(name) for name in RELATIONS))
    return taken


def take(session: Session, batch: Batch) -> Step:
    """Feed changes and refresh the one view there is."""
    fed = seconds(lambda: [session.feed(name, rows) for name, rows in batch.items()])
    done: list[Any] = []
    refreshed = seconds(lambda: done.append(session.refresh()))
    if not done[0].views:
        return Step(fed, refreshed, 0.0, 0, NOTHING)
    (record,) = done[0].views
    return Step(fed, refreshed, record.seconds, record.jobs, record.strategy)


def state_bytes(session: Session, view: str) -> int:
    """What is kept for a view, with its own rows."""
    item = next(item for item in session.status() if item.name == view)
    return item.bytes + item.state_bytes


def _check(found: int, wanted: int) -> None:
    """A wrong answer has no speed."""
    if found != wanted:
        raise RuntimeError(f"{found} came out where {wanted} were expected")


# --- Recompute in the same session -----------------------------------------------------------------------------------


class Recompute:
    """The queries over plain Parquet files, and where there is room over cached tables: no log, no changes, no key.

    They read the base rows, whatever the home holds. So they are a floor under what recomputing could cost.
    """

    def __init__(self, session: Session, data: DataSet, *, cached: bool) -> None:
        self._spark = session.spark
        self._data = data
        self._cached: dict[str, Any] = {}
        if cached and data.scale <= MOST_CACHED:
            for name in RELATIONS:
                # Another option makes it another relation: Spark would answer the plain one from the cache too.
                self._cached[name] = self._read(name, purpose="cached").cache()
                self._cached[name].count()

    def _read(self, name: str, **options: str) -> Any:
        columns = ", ".join(f"{column} {kind}" for column, kind in RELATIONS[name].columns.items())
        paths = [str(path) for path in self._data.base(name)]
        return self._spark.read.options(**options).schema(columns).parquet(*paths)

    def times(self, text: str, *, repeats: int) -> dict[str, list[float]]:
        """Seconds of each run, by the way the tables are read; one more run before warms up."""
        ways = {"Parquet": {name: self._read(name) for name in RELATIONS}}
        if self._cached:
            ways["cached"] = self._cached
        found = {}
        for way, frames in ways.items():
            for name, frame in frames.items():
                frame.createOrReplaceTempView(name)
            found[way] = [seconds(lambda: self._spark.sql(text).toArrow()) for _run in range(repeats + 1)][1:]
        return found

    def close(self) -> None:
        for frame in self._cached.values():
            frame.unpersist()
        for name in RELATIONS:
            self._spark.catalog.dropTempView(name)


# --- DuckDB ----------------------------------------------------------------------------------------------------------


class Duck:
    """DuckDB with tables of its own in a file: a rival, and a second opinion on what the answer is."""

    def __init__(self, folder: Path, data: DataSet) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise EngineError(
                "BENCH_NOT_INSTALLED", "The benchmarks need duckdb.", hint="pip install 'headrace[bench]'"
            ) from error
        # Without a limit it takes most of the memory there is, from the files of the others too.
        self._base = duckdb.connect(str(folder / "rival.duckdb"), config={"memory_limit": MOST_OF_DUCKDB})
        for name in RELATIONS:
            self._base.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{data.glob(name)}')")

    def times(self, text: str, *, repeats: int) -> list[float]:
        """Seconds of each run, after one that warms up."""
        return [seconds(lambda: self._answer(text)) for _run in range(repeats + 1)][1:]

    def answer_after(self, batch: Batch, text: str) -> pa.Table:
        """What the query gives once the changes have happened. They are taken back again."""
        self._base.execute("BEGIN")
        try:
            for name, rows in batch.items():
                key = RELATIONS[name].key
                same = " AND ".join(f"{name}.{column} = changes.{column}" for column in key)
                self._base.register("changes", rows)
                self._base.execute(f"DELETE FROM {name} USING changes WHERE {same}")
                self._base.execute(f"INSERT INTO {name} SELECT * EXCLUDE (op) FROM changes WHERE op <> '-'")
                self._base.unregister("changes")
            return self._answer(text)
        finally:
            self._base.execute("ROLLBACK")

    def _answer(self, text: str) -> pa.Table:
        return self._base.sql(text).to_arrow_table()

    def close(self) -> None:
        self._base.close()


def check_alike(name: str, kept: pa.Table, wanted: pa.Table) -> None:
    """Raise unless both are the same bag of rows. Quotients are decimals here and floating point there: nearly."""
    ours, theirs = _comparable(kept), _comparable(wanted)
    if [words for words, _numbers in ours] != [words for words, _numbers in theirs] or not all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-4)
        for (_words, mine), (_same, other) in zip(ours, theirs, strict=True)
        for a, b in zip(mine, other, strict=True)
    ):
        raise RuntimeError(f"{name} holds {len(ours)} rows, DuckDB finds {len(theirs)}, and they are not the same")


def _comparable(table: pa.Table) -> list[tuple[tuple[str, ...], tuple[float, ...]]]:
    rows = zip(*[column.to_pylist() for column in table.columns], strict=True)
    return sorted((_words(row), tuple(float(value) for value in row if _is_number(value))) for row in rows)


def _words(row: Iterable[Any]) -> tuple[str, ...]:
    return tuple("" if _is_number(value) else str(value) for value in row)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool | date)


def best(times: Mapping[str, list[float]]) -> tuple[str, float]:
    """The quickest way, and the median of its runs."""
    medians = {way: statistics.median(runs) for way, runs in times.items()}
    way = min(medians, key=lambda name: medians[name])
    return way, medians[way]
