"""Homes for one Hypothesis example, and results in a form that can be compared."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from hypothesis import Phase, example, given, settings
from hypothesis.strategies import SearchStrategy

from headrace.engine import Engine
from headrace.maintenance import building
from headrace.session import Session
from headrace.session import connect as connect_home

SCALE = int(os.environ.get("HEADRACE_EXAMPLES", "100")) / 100
#: A statement on Sail takes a tenth of the time.
SPARK_SHARE = 10
#: A case takes seconds, so making a failing one smaller takes minutes: it is done when asked for.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate] + ([Phase.shrink] if os.environ.get("HEADRACE_SHRINK") else [])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000

_in_tasks: ContextVar[bool] = ContextVar("_in_tasks", default=False)

Row = tuple[Any, ...]
Bag = Counter[Row]


def hold(
    property_: Callable[[Engine, Any], None],
    engine: Engine,
    cases: SearchStrategy[Any],
    sail_examples: int,
    *known: Any,
) -> None:
    """Check a property for many random cases on `engine`, and first for the `known` ones that once failed."""
    wanted = sail_examples if engine.kind == "sail" else sail_examples // SPARK_SHARE

    def check(case: Any) -> None:
        # Half of the cases, always the same ones, follow their changes in tasks, and a third fill their states as large
        # ones are filled.
        number = zlib.crc32(repr(case).encode())
        token, small = _in_tasks.set(number % 2 == 0), building.SMALL
        building.SMALL = small if number % 3 else 0
        try:
            property_(engine, case)
        finally:
            _in_tasks.reset(token)
            building.SMALL = small

    check.__name__ = check.__qualname__ = property_.__name__
    test = given(case=cases)(check)
    for case in known:
        test = example(case=case)(test)
    settings(max_examples=max(1, round(wanted * SCALE)), phases=PHASES)(test)()


class Fresh:
    """A home in a temporary folder, which can be closed and opened again."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.folder = tempfile.mkdtemp(prefix="headrace-property-")
        self.session = self._open()
        if _in_tasks.get():
            self.session.sql("ALTER HOME SET (rows_here = 0)")

    def _open(self) -> Session:
        return connect_home(self.folder, engine=self.engine.kind, spark=self.engine.spark)

    def reopen(self) -> None:
        """As a process that ends and another that starts."""
        self.session.close()
        self.session = self._open()

    def close(self) -> None:
        self.session.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def fresh(engine: Engine) -> Iterator[Fresh]:
    """A new home for one example."""
    home = Fresh(engine)
    try:
        yield home
    finally:
        home.close()


def plain(value: Any) -> Any:
    """A value that equals itself: NaN and -0.0 as SQL groups them, times in UTC."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, list):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in value.items())
    return value


def plain_row(row: Iterable[Any]) -> Row:
    return tuple(plain(value) for value in row)


def listing(frame: Any) -> list[Row]:
    """A DataFrame's rows in its own order."""
    table = frame.toArrow()
    return [plain_row(row) for row in zip(*[column.to_pylist() for column in table.columns], strict=True)]


def bag(frame: Any) -> Bag:
    """A DataFrame's rows with how often each occurs."""
    return Counter(listing(frame))


def micros(moment: datetime) -> int:
    return round((moment - EPOCH).total_seconds() * SECOND)


def moment(seconds: float) -> datetime:
    """A number of seconds since the epoch as a datetime."""
    from datetime import timedelta

    return EPOCH + timedelta(microseconds=round(seconds * SECOND))


def changes(session: Session, name: str) -> list[Row]:
    """Tagged tuples as (op, values..., seconds), checked to be in the order of time."""
    found = [(*row[:-1], micros(row[-1]) / SECOND) for row in listing(session.changes(name))]
    times = [row[-1] for row in found]
    assert times == sorted(times), f"CHANGES({name}) is not in the order of time: {found}"
    return found


def integrate(tuples: Iterable[Row], upto: float, key: tuple[int, ...] | None) -> Bag:
    """The relation that tagged tuples up to a time make; `key` are the positions of the key's columns.

    Every tuple must make sense where it stands: `+` adds what was not there, `u` and `-` touch what was.
    """
    if key is None:
        weights: Bag = Counter()
        last: float | None = None
        for op, *values, time in tuples:
            if time > upto:
                break
            if last is not None and time > last:
                assert min(weights.values(), default=0) >= 0, f"negative weight at {last}: {weights}"
            assert op in "+-"
            weights[tuple(values)] += 1 if op == "+" else -1
            last = time
        assert min(weights.values(), default=0) >= 0, f"negative weight at {last}: {weights}"
        return +weights
    rows: dict[Row, Row] = {}
    for op, *values, time in tuples:
        if time > upto:
            break
        found = tuple(values[position] for position in key)
        assert (found in rows) == (op != "+"), f"{op} {values} at {time} meets {rows.get(found)}"
        if op == "-":
            del rows[found]
        else:
            rows[found] = tuple(values)
    return Counter(rows.values())
