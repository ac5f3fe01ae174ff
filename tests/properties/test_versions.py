"""Joins with a non-retroactive table against a model in plain Python: every row meets the version at its arrival."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from tests.properties.harness import Bag, Fresh, Row, bag, changes, fresh, hold, integrate
from tests.properties.scenarios import literal
from tests.properties.values import cuts

QUERIES = {
    "inner": "SELECT s.k, s.v, p.price FROM s JOIN p ON s.k = p.k",
    "left": "SELECT s.k, s.v, p.price FROM s LEFT JOIN p ON s.k = p.k",
    "semi": "SELECT s.k, s.v FROM s LEFT SEMI JOIN p ON s.k = p.k",
    "anti": "SELECT s.k, s.v FROM s LEFT ANTI JOIN p ON s.k = p.k",
    "group": "SELECT p.price, count(*) AS n FROM s JOIN p ON s.k = p.k GROUP BY p.price",
    "where": "SELECT s.k, s.v FROM s, p WHERE s.k = p.k AND p.price > 1",
}


@dataclass(frozen=True)
class Event:
    """A row of the stream (`value`), or a price set or taken away, at a time."""

    kind: str  # row, set, drop
    key: int | None
    value: int | None
    time: int


@dataclass(frozen=True)
class VersionCase:
    query: str
    keyed: bool
    output: str
    events: tuple[Event, ...]
    batches: tuple[int, ...]


@st.composite
def version_cases(draw: st.DrawFn) -> VersionCase:
    keys = st.sampled_from([None, 1, 2])
    found: list[Event] = []
    changed = 0
    for _ in range(draw(st.integers(0, 9))):
        kind = draw(st.sampled_from(["row", "row", "row", "set", "set", "drop"]))
        if kind == "row":
            found.append(Event(kind, draw(keys), draw(st.sampled_from([None, 0, 1])), draw(st.integers(0, 9))))
        else:
            changed += draw(st.integers(0, 3))
            found.append(Event(kind, draw(keys), draw(st.sampled_from([None, 1, 2])), changed))
    return VersionCase(
        draw(st.sampled_from(sorted(QUERIES))),
        draw(st.booleans()),
        draw(st.sampled_from(["STREAMED", "COMPLETE"])),
        tuple(found),
        tuple(cuts(draw, len(found), 4)),
    )


def result(case: VersionCase, at: float) -> Bag:
    """The query's result at a time, row by row."""
    rows = sorted((event for event in case.events if event.kind == "row" and event.time <= at), key=lambda e: e.time)
    if case.keyed:
        rows = list({row.key: row for row in rows}.values())
    found: Bag = Counter()
    prices: Bag = Counter()
    for row in rows:
        price = _price(case, row)
        matched = row.key is not None and price is not None
        amount = price[0] if price is not None and matched else None
        if case.query == "group" and matched:
            prices[amount,] += 1
        elif case.query in ("inner", "left") and (matched or case.query == "left"):
            found[row.key, row.value, amount] += 1
        elif {"semi": matched, "anti": not matched, "where": matched and (amount or 0) > 1}.get(case.query):
            found[row.key, row.value] += 1
    found.update((*price, count) for price, count in prices.items())
    return found


def _price(case: VersionCase, row: Event) -> Row | None:
    """The version of the table that held when a row arrived, as a tuple: the price itself may be NULL."""
    changed = [e for e in case.events if e.kind != "row" and e.key == row.key and e.time <= row.time]
    if not changed:
        return None
    last = max(changed, key=lambda event: event.time)
    last = [event for event in changed if event.time == last.time][-1]
    return (last.value,) if last.kind == "set" else None


def play(home: Fresh, case: VersionCase, batches: tuple[int, ...]) -> None:
    session = home.session
    key = "KEY (k)" if case.keyed else "KEY NULL"
    session.sql(f"CREATE STREAM s (k INT, v INT, at BIGINT) {key} ORDER BY at LATE MERGE")
    session.sql("CREATE NON RETROACTIVE TABLE p (k INT PRIMARY KEY, price INT)")
    session.sql(f"CREATE {case.output} VIEW joined AS {QUERIES[case.query]}")
    for number, event in enumerate(case.events):
        if number in batches:
            session.refresh()
        if event.kind == "row":
            session.feed("s", [(event.key, event.value, event.time)])
        elif event.kind == "drop":
            session.sql(f"DELETE FROM p WHERE k <=> {literal(event.key)} AT {event.time}")
        else:
            source = f"SELECT CAST({literal(event.key)} AS INT) AS k, CAST({literal(event.value)} AS INT) AS price"
            session.sql(
                f"MERGE INTO p USING ({source}) n ON p.k <=> n.k WHEN MATCHED THEN UPDATE SET *"
                f" WHEN NOT MATCHED THEN INSERT * AT {event.time}"
            )
    session.refresh()


def a_row_meets_the_version_at_its_arrival(engine: Engine, case: VersionCase) -> None:
    found = []
    for batches in ((), case.batches):
        with fresh(engine) as home:
            play(home, case, batches)
            session = home.session
            assert bag(session.table("joined")) == result(case, 99)
            tuples = changes(session, "joined")
            found.append(Counter(tuples))
            item = session._home.snapshot().find("joined")
            key = None if item.key is None else tuple(item.names.index(name) for name in item.key)
            for time in {event.time for event in case.events}:
                assert integrate(tuples, time, key) == result(case, time), f"CHANGES up to {time}: {tuples}"
            for time in {3, 6}:
                assert bag(session.table("joined", as_of=time)) == result(case, time), f"AS OF {time}"
    assert found[0] == found[1], "CHANGES depend on the batching"


@pytest.mark.slow
def test_a_row_meets_the_version_at_its_arrival(engine: Engine) -> None:
    hold(a_row_meets_the_version_at_its_arrival, engine, version_cases(), 10)
