"""Nexmark's queries as views over three streams, after every batch of events equal to the queries run in batch.

Rows come out of order, within the slack. So at each refresh some of them wait, and some fall before others that had
been there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bench.nexmark_data import FIRST_ID, ROUND, declare, events, out_of_order, side_input
from bench.nexmark_queries import QUERIES

from headrace.engine import Engine
from headrace.session import Session, connect
from tests.workloads.answers import check, create, strategies

#: Whether every view must be maintained by its changes.
EXPECT_DIFFERENTIAL = True

#: What Sail has no function for.
SPARK_ONLY = ("q11",)
RATE, SLACK = 100, 2


def test_on_sail(sail_engine: Engine, tmp_path: Path) -> None:
    texts = {name: text for name, text in QUERIES.items() if name not in SPARK_ONLY}
    keep_up(sail_engine, tmp_path, texts, batches=[2000, 700, 1, 1300])


@pytest.mark.slow
def test_sessions_on_spark(spark_engine: Engine, tmp_path: Path) -> None:
    # Fewer bids a second, so that somebody pauses for more than ten.
    keep_up(spark_engine, tmp_path, {name: QUERIES[name] for name in SPARK_ONLY}, batches=[400, 200], rate=5)


def keep_up(engine: Engine, home: Path, texts: Mapping[str, str], *, batches: list[int], rate: float = RATE) -> None:
    """Make all views over the first batch and hold them against their queries after each further one."""
    rng = np.random.default_rng(1)
    with connect(str(home / "home"), engine=engine.kind, spark=engine.spark) as session:
        declare(session, slack=SLACK)
        session.feed("side_input", side_input(1_500))
        first = 0
        for number, count in enumerate(batches):
            feed(session, rng, first, count, rate)
            first += count
            if number == 0:
                create(session, texts, by_changes=EXPECT_DIFFERENTIAL)
            else:
                # What q13 looks up changes too: it is a table.
                session.sql(f"DELETE FROM side_input WHERE key % 7 = {number}")
                session.sql(f"UPDATE side_input SET value = 'changed {number}' WHERE key % 5 = {number}")
            session.refresh()
            held = check(session, texts)
            if EXPECT_DIFFERENTIAL and number:
                assert strategies(session, texts) == dict.fromkeys(texts, "differential")
        assert [name for name, rows in held.items() if not rows] == []
        session.advance("2016-01-01")
        assert session.table("bid").count() == sum(batches) // ROUND * 46 + max(0, sum(batches) % ROUND - 4)
        check(session, texts)


def feed(session: Session, rng: np.random.Generator, first: int, count: int, rate: float) -> None:
    for name, rows in events(count, first=first, rate=rate).tables().items():
        assert session.feed(name, out_of_order(rng, rows, SLACK)) == rows.num_rows


# --- The workload itself ---------------------------------------------------------------------------------------------


def test_events_have_the_published_proportions_and_hot_keys() -> None:
    made = events(50_000)
    assert [table.num_rows for table in made.tables().values()] == [1_000, 3_000, 46_000]
    assert made.person.column("id").to_pylist() == list(range(FIRST_ID, FIRST_ID + 1_000))
    assert made.auction.column("id").to_pylist() == list(range(FIRST_ID, FIRST_ID + 3_000))
    hot = {
        "auction": share(made.bid.column("auction"), 0),
        "bidder": share(made.bid.column("bidder"), 1),
        "seller": share(made.auction.column("seller"), 0),
    }
    assert hot["auction"] == pytest.approx(1 / 2, abs=0.03)
    assert hot["bidder"] == pytest.approx(3 / 4, abs=0.03)
    assert hot["seller"] == pytest.approx(3 / 4, abs=0.03)
    assert pc.all(pc.greater(made.auction.column("expires"), made.auction.column("dateTime"))).as_py()


def share(keys: pa.ChunkedArray, rest: int) -> float:
    """How many keys are the first or second of a hundred, which is where the hot ones are."""
    return float(np.mean((keys.to_numpy() - FIRST_ID) % 100 == rest))


def test_events_go_up_in_time_and_can_be_made_in_pieces() -> None:
    whole, later = events(500, seed=3), events(250, first=250, seed=3)
    times = whole.bid.column("dateTime").to_pylist()
    assert times == sorted(times)
    assert later.auction.column("id").to_pylist() == whole.auction.column("id").to_pylist()[-15:]
    assert later.bid.column("dateTime").to_pylist() == times[-230:]
    assert events(250, first=250, seed=3).bid.equals(later.bid)


def test_rows_out_of_order_are_within_the_slack() -> None:
    rows = out_of_order(np.random.default_rng(2), events(1_000, rate=RATE).bid, SLACK)
    times = rows.column("dateTime").cast("int64").to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 0 < behind.max() <= SLACK * 1_000_000
