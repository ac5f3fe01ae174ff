"""Streams against a model in plain Python: relation, AS OF, CHANGES and late rows, the same for every batching."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from tests.properties.harness import (
    Bag,
    Fresh,
    Row,
    bag,
    changes,
    fresh,
    hold,
    moment,
    plain,
    plain_row,
)
from tests.properties.values import POOLS, cuts, values_of

DAY = 86_400.0
#: How an event time in seconds looks in a column of each type.
TIMES: dict[str, Any] = {
    "BIGINT": int,
    "INT": int,
    "TIMESTAMP": moment,
    "DOUBLE": float,
    "DECIMAL(12,3)": lambda seconds: Decimal(str(seconds)).quantize(Decimal("0.001")),
    "DATE": lambda seconds: date(1970, 1, 1) + timedelta(seconds=seconds),
}


@dataclass(frozen=True)
class Arrival:
    """A row on its way in: its values, its operation, and its time in seconds."""

    values: Row
    op: str | None
    time: float


@dataclass(frozen=True)
class Advance:
    """ADVANCE CLOCK TO `time`, which must not be behind the clock."""

    time: float


@dataclass(frozen=True)
class StreamCase:
    """A stream, what happens to it, and where that is cut into batches."""

    types: tuple[str, ...]
    key: tuple[int, ...]
    op: bool
    time_type: str | None  # None: over a source, the time of arrival counts
    unit: float
    slack: int
    late: str | None
    events: tuple[Arrival | Advance, ...]
    batches: tuple[int, ...]
    tidy: bool

    @property
    def names(self) -> list[str]:
        return [f"c{number}" for number in range(len(self.types))]


@st.composite
def stream_cases(draw: st.DrawFn) -> StreamCase:
    types = tuple(draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=4)))
    key = tuple(draw(st.lists(st.sampled_from(range(len(types))), max_size=2, unique=True)))
    op = bool(key) and draw(st.booleans())
    time_type = draw(st.sampled_from([None, *TIMES]))
    unit = DAY if time_type == "DATE" else draw(st.sampled_from([1.0, 0.5])) if time_type in FINE else 1.0
    row = st.builds(
        Arrival,
        st.tuples(*[values_of(kind) for kind in types]),
        st.sampled_from(["+", "-", "u", None, "D", "Insert"]) if op else st.none(),
        st.integers(0, 9).map(lambda step: step * unit),
    )
    events: list[Arrival | Advance] = [*draw(st.lists(row, max_size=12))]
    slack = draw(st.integers(0, 4))
    advances: bool = draw(st.booleans())
    if events and advances:
        events.insert(draw(st.integers(0, len(events))), Advance(0.0))
    late = draw(st.sampled_from([None, "divert", "drop", "merge"]))
    case = StreamCase(types, key, op, time_type, unit, slack, late, tuple(events), (), False)
    events = [
        Advance(clock_before(case, number) + draw(st.integers(0, 5)) * unit) if isinstance(event, Advance) else event
        for number, event in enumerate(events)
    ]
    batches = cuts(draw, len(events), 6)
    return StreamCase(types, key, op, time_type, unit, slack, late, tuple(events), tuple(batches), draw(st.booleans()))


FINE = ("TIMESTAMP", "DOUBLE", "DECIMAL(12,3)")


def clock_before(case: StreamCase, number: int) -> float:
    """Where the clock stands before an event: the newest time in order, less slack."""
    times = [event.time for event in case.events[:number] if isinstance(event, Arrival)]
    return max(0.0, max(times, default=0.0) - case.slack * case.unit)


# The model


class Model:
    """The log in order of arrival, what went astray, and how far the stream can be read."""

    def __init__(self, case: StreamCase) -> None:
        self.case = case
        self.log: list[Arrival] = []
        self.late: list[Arrival] = []
        slack = case.slack * case.unit
        newest: float | None = None
        closed: float | None = None
        for event in case.events:
            if isinstance(event, Advance):
                closed = event.time
                continue
            behind = closed is not None and event.time < closed
            if case.time_type is not None and newest is not None and event.time < newest - slack:
                behind = True
            if behind:
                self.late.append(event)
            else:
                newest = event.time if newest is None else max(newest, event.time)
            if not behind or case.late == "merge":
                self.log.append(event)
        ends = [event.time - slack for event in self.log] + ([] if closed is None else [closed])
        self.horizon = max(ends, default=-1.0) if slack else float("inf")

    def deletes(self, event: Arrival) -> bool:
        return self.case.op and event.op in ("-", "D")

    def shown(self, event: Arrival) -> Row:
        """A row as the relation shows it, with its time of arrival for a stream over a source."""
        time = event.time
        column = (moment(time),) if self.case.time_type is None else (plain(TIMES[self.case.time_type](time)),)
        return (*plain_row(event.values), *column)

    def relation(self, at: float) -> Bag:
        rows = sorted((event for event in self.log if event.time <= min(at, self.horizon)), key=lambda e: e.time)
        if not self.case.key:
            return Counter(self.shown(event) for event in rows)
        found: dict[Row, Arrival] = {}
        for event in rows:
            found[self.key_of(event)] = event
        return Counter(self.shown(event) for event in found.values() if not self.deletes(event))

    def key_of(self, event: Arrival) -> Row:
        return tuple(plain(event.values[number]) for number in self.case.key)

    def changes(self) -> list[Row]:
        timed = sorted((event for event in self.log if event.time <= self.horizon), key=lambda e: e.time)
        if not self.case.key:
            return [("+", *self.tagged(event), event.time) for event in timed]
        last_of = {(self.key_of(event), event.time): event for event in timed}
        present: set[Row] = set()
        found: list[Row] = []
        for event in timed:
            key = self.key_of(event)
            if last_of[key, event.time] is not event:
                continue
            if not self.deletes(event):
                found.append(("u" if key in present else "+", *self.tagged(event), event.time))
                present.add(key)
            elif key in present:
                found.append(("-", *self.tagged(event, only_key=True), event.time))
                present.remove(key)
        return found

    def tagged(self, event: Arrival, only_key: bool = False) -> Row:
        values = plain_row(event.values)
        if only_key:
            values = tuple(value if number in self.case.key else None for number, value in enumerate(values))
        if self.case.time_type is None:
            return values
        return (*values, None if only_key else plain(TIMES[self.case.time_type](event.time)))


# The system


def declare(home: Fresh, case: StreamCase) -> None:
    columns = [f"{name} {kind}" for name, kind in zip(case.names, case.types, strict=True)]
    options = f" SLACK {case.slack * case.unit:g}" if case.slack else ""
    options += f" LATE {case.late}" if case.late else ""
    options += " WITH (op = 'o')" if case.op else ""
    operation = ["o STRING"] if case.op else []
    key = f"KEY ({', '.join(f'c{number}' for number in case.key)})" if case.key else "KEY NULL"
    if case.time_type is None:
        home.session.sql(f"REGISTER SOURCE src ({', '.join(columns + operation)}) FROM MEMORY")
        home.session.sql(f"CREATE STREAM s OVER src {key}{options}")
    else:
        columns += [f"at {case.time_type}"]
        home.session.sql(f"CREATE STREAM s ({', '.join(columns + operation)}) {key} ORDER BY at{options}")
    if case.tidy:
        home.session.sql("ALTER HOME SET (rollup_parts = 2)")


def deliver(home: Fresh, case: StreamCase, events: list[Arrival]) -> None:
    operation = [[event.op] if case.op else [] for event in events]
    if case.time_type is None:
        rows = [(*event.values, *op) for event, op in zip(events, operation, strict=True)]
        home.session.feed("src", rows, at=[event.time for event in events])
    else:
        in_time = TIMES[case.time_type]
        rows = [(*e.values, in_time(e.time), *op) for e, op in zip(events, operation, strict=True)]
        home.session.feed("s", rows)


def play(home: Fresh, case: StreamCase, cuts_at: tuple[int, ...]) -> None:
    """Let everything happen, with a refresh after each batch."""
    edges = [0, *cuts_at, len(case.events)]
    for start, end in pairwise(edges):
        waiting: list[Arrival] = []
        for event in case.events[start:end]:
            if isinstance(event, Advance):
                deliver(home, case, waiting)
                waiting = []
                home.session.advance(event.time)
            else:
                waiting.append(event)
        deliver(home, case, waiting)
        home.session.refresh()


def check(home: Fresh, case: StreamCase) -> None:
    model = Model(case)
    session = home.session
    assert bag(session.table("s")) == model.relation(float("inf"))
    times = sorted({event.time for event in case.events})
    for time in {times[0], times[len(times) // 2], times[-1], times[0] - 0.5} if times else {0.0}:
        assert bag(session.table("s", as_of=time)) == model.relation(time), f"AS OF {time}"
    assert changes(session, "s") == model.changes()
    status = {item.name: item for item in session.status()}["s"]
    assert status.late == len(model.late)
    assert status.dropped == (len(model.late) if case.late == "drop" else 0)
    if case.late in (None, "divert"):
        assert bag(session.table("s__late")) == Counter(model.shown(event) for event in model.late)


def a_stream_equals_its_model(engine: Engine, case: StreamCase) -> None:
    for batches in {(), case.batches}:
        with fresh(engine) as home:
            declare(home, case)
            play(home, case, batches)
            check(home, case)


@pytest.mark.slow
def test_a_stream_equals_its_model_in_every_batching(engine: Engine) -> None:
    hold(a_stream_equals_its_model, engine, stream_cases(), 30)
