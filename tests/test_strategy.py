"""Which way a view is refreshed, that it says so, and that a refresh by changes costs what the change costs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace import HeadraceError
from headrace.engine import Engine
from headrace.maintenance.tagging import tag
from headrace.runtime import strategy
from headrace.runtime.books import Book, Way
from headrace.runtime.states import states_of
from headrace.runtime.status import ObjectStatus
from headrace.session import Session
from tests.conftest import rows

TABLES = """
CREATE TABLE customer (custkey INT PRIMARY KEY, segment STRING);
CREATE TABLE orders (orderkey INT PRIMARY KEY, custkey INT, day INT);
CREATE TABLE lineitem (orderkey INT, line INT, price DECIMAL(12,2), PRIMARY KEY (orderkey, line));
"""
QUERY = """
SELECT o.orderkey, sum(price) AS revenue, day
FROM customer c JOIN orders o ON c.custkey = o.custkey JOIN lineitem l ON l.orderkey = o.orderkey
WHERE segment = 'a' GROUP BY o.orderkey, day
"""


def load(session: Session, orders: int) -> None:
    """Every order has four items, every tenth customer is of segment a."""
    session.sql(TABLES)
    session.sql(
        "INSERT INTO customer SELECT CAST(id AS INT), CASE WHEN id % 10 = 0 THEN 'a' ELSE 'b' END"
        f" FROM range({orders // 5});"
        f"INSERT INTO orders SELECT CAST(id AS INT), CAST(id % {orders // 5} AS INT), 1 FROM range({orders});"
        f"INSERT INTO lineitem SELECT CAST(id DIV 4 AS INT), CAST(id % 4 AS INT), CAST(1.5 AS DECIMAL(12,2))"
        f" FROM range({4 * orders})"
    )


@pytest.fixture
def loaded(session: Session) -> Session:
    load(session, 100)
    return session


def view(session: Session, policy: str, name: str = "v") -> None:
    session.sql(f"CREATE VIEW {name} AS {QUERY} REFRESH POLICY {policy}")


def change(session: Session, order: int = 0) -> None:
    session.sql(f"UPDATE lineitem SET price = price + 1 WHERE orderkey = {order} AND line = 0")


def status(session: Session, name: str = "v") -> ObjectStatus:
    return next(item for item in session.status() if item.name == name)


def check(session: Session, name: str = "v") -> None:
    assert rows(session.table(name)) == rows(session.sql(QUERY))


def test_auto_recomputes_what_is_tiny_and_says_why(loaded: Session) -> None:
    view(loaded, "AUTO")
    change(loaded)
    (record,) = loaded.refresh().views
    assert record.strategy == "recompute"
    assert record.reason
    told = status(loaded)
    assert (told.strategy, told.reason, told.state_bytes) == ("recompute", record.reason, 0)
    assert f"Strategy: recompute, because {record.reason}." in loaded.explain("v")
    assert "rows in all AUTO computes it as a whole" in loaded.explain("v")
    check(loaded)


def test_incremental_is_differential(loaded: Session) -> None:
    view(loaded, "INCREMENTAL")
    assert status(loaded).reason == "it was computed for the first time"
    change(loaded)
    (record,) = loaded.refresh().views
    assert record.strategy == "differential"
    assert "of state looked at" in record.reason
    assert status(loaded).state_bytes > 0
    assert loaded.sql("SHOW VIEWS").rows[0][4:6] == ("differential", record.reason)
    check(loaded)


def test_full_recomputes_and_keeps_nothing(loaded: Session) -> None:
    view(loaded, "FULL")
    change(loaded)
    (record,) = loaded.refresh().views
    assert (record.strategy, record.reason) == ("recompute", "that was asked for")
    assert status(loaded).state_bytes == 0
    check(loaded)


@pytest.mark.parametrize("asked", ["REFRESH POLICY INCREMENTAL STRICT", "WITH (strategy = 'incremental')"])
def test_strict_refuses_what_has_no_plan(loaded: Session, asked: str) -> None:
    before = loaded.sql("SHOW SNAPSHOTS").rows
    with pytest.raises(HeadraceError) as raised:
        loaded.sql(f"CREATE VIEW v AS SELECT count(*) AS n FROM CHANGES(orders) {asked}")
    assert raised.value.condition == "NOT_INCREMENTAL"
    assert "CHANGES(orders)" in raised.value.message
    assert loaded.sql("SHOW SNAPSHOTS").rows == before
    assert loaded.sql("SHOW VIEWS").rows == []
    loaded.sql(f"CREATE VIEW v AS {QUERY} {asked}")
    change(loaded)
    assert [record.strategy for record in loaded.refresh().views] == ["differential"]


def test_strict_cannot_be_set_where_there_is_no_plan(loaded: Session) -> None:
    loaded.sql("CREATE VIEW v AS SELECT count(*) AS n FROM CHANGES(orders)")
    with pytest.raises(HeadraceError) as raised:
        loaded.sql("ALTER VIEW v SET REFRESH POLICY INCREMENTAL STRICT")
    assert raised.value.condition == "NOT_INCREMENTAL"
    loaded.sql("ALTER VIEW v SET REFRESH POLICY INCREMENTAL")
    loaded.sql("INSERT INTO orders VALUES (1000, 1, 1)")
    (record,) = loaded.refresh().views
    assert record.strategy == "recompute"
    assert record.reason.startswith("CHANGES(orders)")


def test_a_change_of_strategy_is_told(loaded: Session) -> None:
    view(loaded, "INCREMENTAL")
    change(loaded)
    first = loaded.refresh()
    assert status(loaded).strategy_changed is None  # the first filling is no strategy to come from
    loaded.sql("ALTER VIEW v SET REFRESH POLICY FULL")
    change(loaded)
    (record,) = loaded.refresh().views
    assert record.reason == f"that was asked for (before: differential, until snapshot {first.snapshot})"
    told = f"was differential until snapshot {first.snapshot}: that was asked for"
    assert status(loaded).strategy_changed == told
    assert f"It {told}." in loaded.explain("v")
    assert ("strategy changed", told, "") in loaded.sql("DESCRIBE EXTENDED v").rows
    change(loaded)
    loaded.refresh()
    assert status(loaded).strategy_changed is None
    check(loaded)


def test_auto_follows_changes_once_there_is_much(loaded: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all thresholds at their least, AUTO keeps states, and takes the way that it estimates to be the cheaper."""
    monkeypatch.setattr(strategy, "FEW_ROWS", dict.fromkeys(strategy.FEW_ROWS, 0))
    monkeypatch.setattr("headrace.runtime.refresh.FEW_ROWS", dict.fromkeys(strategy.FEW_ROWS, 0))
    view(loaded, "AUTO")
    assert status(loaded).state_bytes > 0
    for cheaper, wanted in ((1e9, "differential"), (0.0, "recompute")):
        monkeypatch.setattr("headrace.runtime.refresh.book_of", lambda *_, cheaper=cheaper: Book(whole=cheaper))
        change(loaded)
        (record,) = loaded.refresh().views
        assert record.strategy == wanted
        if wanted == "recompute":
            assert "as a whole it takes about" in record.reason
            assert "(before: differential, until snapshot" in record.reason
        check(loaded)


def test_states_stand_still_while_a_change_is_dearer_to_follow(
    loaded: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.runtime.refresh.FEW_ROWS", dict.fromkeys(strategy.FEW_ROWS, 0))
    view(loaded, "AUTO")

    def kept() -> list[int]:
        snapshot = loaded._home.snapshot()
        return [item.id for item in states_of(snapshot, snapshot.find("v"))]

    before = kept()
    assert before
    ways = [Way.FOLLOW, Way.STAND, Way.STAND, Way.CATCH_UP, Way.FOLLOW]
    found = []
    for number, way in enumerate(ways):
        monkeypatch.setattr(Book, "choose", lambda self, *_, way=way: (way, self))
        change(loaded, 10 * number)
        (record,) = loaded.refresh().views
        found.append((record.strategy, record.reason))
        assert ("What it keeps stands where the view was at snapshot" in loaded.explain("v")) == (way is Way.STAND)
        check(loaded)
    assert [strategy for strategy, _reason in found] == ["differential", *["recompute"] * 3, "differential"]
    assert "as a whole it takes about" in found[1][1]
    assert found[3][1].startswith("what it keeps to follow changes was brought up to date: ")
    assert kept() == before  # none was made anew


def test_a_view_made_later_finds_the_current_rows_where_it_stands(
    loaded: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    view(loaded, "INCREMENTAL", "v")
    loaded.sql("DROP VIEW v")
    change(loaded)  # nobody follows this
    loaded.refresh()
    view(loaded, "INCREMENTAL", "w")

    def never(*_given: Any, **_told: Any) -> Any:
        raise AssertionError("the whole log was compared")

    monkeypatch.setattr("headrace.runtime.deltas.Deltas._from_log", never)
    change(loaded, 10)
    assert [record.strategy for record in loaded.refresh().views] == ["differential"]
    check(loaded, "w")


# -- what a refresh costs -------------------------------------------------------------------------------------------


@pytest.mark.needs("job_counts")
@pytest.mark.parametrize(("rows_here", "most"), [(0, 2), (1_000_000, 0)])
def test_one_change_runs_few_jobs(session: Session, rows_here: int, most: int) -> None:
    session.sql(f"ALTER HOME SET (rows_here = {rows_here})")
    load(session, 2_000)
    view(session, "INCREMENTAL")
    tracker = session.spark.sparkContext.statusTracker()
    for order in (0, 10):
        change(session, order)
        before = len(tracker.getJobIdsForGroup())  # what belongs to no view
        (record,) = session.refresh().views
        untold = len(tracker.getJobIdsForGroup()) - before
        assert record.strategy == "differential"
        assert record.jobs <= most
        assert untold == 0
    check(session)


def test_the_first_view_tells_the_job_that_all_share(loaded: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes of keyed tables are worked out once: the first view that reads them counts that, no other does."""
    view(loaded, "INCREMENTAL", "v")
    view(loaded, "INCREMENTAL", "w")

    def slowly(*given: Any, **told: Any) -> Any:
        time.sleep(0.5)
        return tag(*given, **told)

    monkeypatch.setattr("headrace.runtime.current.tag", slowly)
    for only in (None, "w"):
        change(loaded)
        # A view that is refreshed alone tells it itself.
        first, *others = loaded.refresh(only).views
        assert {record.strategy for record in (first, *others)} == {"differential"}
        assert first.jobs == 0  # all of it was done here
        assert first.seconds > 0.5
        assert [record.jobs for record in others] == ([0] if only is None else [])
    check(loaded, "w")


def test_no_base_table_is_read_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept takes the place of the tables: a refresh reads the new parts of their logs and nothing else."""
    load(session, 2_000)
    view(session, "INCREMENTAL")
    old = log_files(session)
    change(session)
    new = log_files(session) - old
    read: list[str] = []
    for_engine, here = Engine.read, type(session._home.files).read

    def engine_read(self: Engine, paths: Any, ddl: str) -> Any:
        read.extend(paths)
        return for_engine(self, paths, ddl)

    def files_read(self: Any, paths: Any, *more: Any, **options: Any) -> Any:
        paths = list(paths)
        read.extend(paths)
        return here(self, paths, *more, **options)

    recent = type(session._home.logs.recent)
    from_memory = recent.read

    def recent_read(self: Any, paths: Any, *more: Any, **options: Any) -> Any:
        paths = list(paths)
        read.extend(paths)  # what it still has in memory is not read from a file, and counts all the same
        return from_memory(self, paths, *more, **options)

    monkeypatch.setattr(recent, "read", recent_read)
    monkeypatch.setattr(Engine, "read", engine_read)
    monkeypatch.setattr(type(session._home.files), "read", files_read)
    (record,) = session.refresh().views
    monkeypatch.undo()
    assert record.strategy == "differential"
    found = {path for path in read if any(path.endswith(name) for name in old | new)}
    assert found, "the new part must be seen to be read, or nothing here proves anything"
    assert all(any(path.endswith(name) for name in new) for path in found), found
    check(session)


def log_files(session: Session) -> set[str]:
    snapshot = session._home.snapshot()
    tables = [snapshot.find(name) for name in ("customer", "orders", "lineitem")]
    return {path for item in tables for part in snapshot.parts(item) for path in part.files}


def test_what_is_written_follows_the_change(session: Session) -> None:
    load(session, 5_000)
    view(session, "INCREMENTAL")
    change(session)
    done = session.refresh()
    snapshot = session._home.snapshot()
    owners = [snapshot.find(name) for name in ("v", "customer", "orders", "lineitem")]
    kept = [part for owner in owners for state in states_of(snapshot, owner) for part in snapshot.parts(state)]
    written = [part for part in kept if part.added_in == done.snapshot]
    assert written
    total = sum(part.bytes for part in kept)
    assert sum(part.rows for part in written) <= 10
    assert sum(part.bytes for part in written) < total / 20
    own = [part for part in snapshot.parts(owners[0]) if part.added_in == done.snapshot]
    assert sum(part.rows for part in own) == done.views[0].rows_out == 2
