"""Views that are refreshed at different times over the same keyed tables, held against their queries."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.runtime.deltas import Deltas
from headrace.session import Session
from tests.properties.differential_changes import DECLARED, check_view, in_batch
from tests.properties.harness import fresh, hold
from tests.properties.test_differential import Case, cases


@dataclass(frozen=True)
class Lagging:
    """A case, what kind of view each query is, and which is refreshed after each batch: all that are due for None."""

    case: Case
    streamed: tuple[bool, ...]
    lags: tuple[bool, ...]
    asked: tuple[int | None, ...]


@st.composite
def lagging(draw: st.DrawFn) -> Lagging:
    case = draw(cases(views=3, most=5))
    number = st.one_of(st.none(), st.none(), st.integers(0, 2))
    return Lagging(
        case,
        tuple(draw(st.lists(st.booleans(), min_size=3, max_size=3))),
        tuple(draw(st.lists(st.booleans(), min_size=3, max_size=3))),
        tuple(draw(st.lists(number, min_size=len(case.batches), max_size=len(case.batches)))),
    )


def a_view_equals_its_query_whenever_it_is_refreshed(engine: Engine, drawn: Lagging) -> None:
    with fresh(engine) as home:
        session = home.session
        session.sql(f"{DECLARED}{drawn.case.home}")
        for change in drawn.case.before:
            change.take(session)
        made = [
            _made(session, f"v{number}", text, streamed, lags)
            for number, (text, streamed, lags) in enumerate(
                zip(drawn.case.queries, drawn.streamed, drawn.lags, strict=True)
            )
        ]
        for batch, asked in zip((*drawn.case.batches, ()), (*drawn.asked, None), strict=True):
            for change in batch:
                change.take(session)
            if asked is None:
                session.refresh()
                current = [number for number, lags in enumerate(drawn.lags) if not lags]
            else:
                current = [asked]
                if made[asked]:
                    session.sql(f"REFRESH VIEW v{asked}")
            for number in current:
                if made[number]:
                    check_view(session, f"v{number}", drawn.case.queries[number])
        for number in range(len(made)):
            if made[number]:
                session.sql(f"REFRESH VIEW v{number}")
                check_view(session, f"v{number}", drawn.case.queries[number])


def _made(session: Session, name: str, text: str, streamed: bool, lags: bool) -> bool:
    if in_batch(session, text) is None:
        return False  # the engine cannot run it at all
    output, demand = "STREAMED" if streamed else "", "REFRESH ON DEMAND" if lags else ""
    session.sql(f"CREATE {output} VIEW {name} AS {text} {demand} REFRESH POLICY INCREMENTAL")
    return True


@pytest.mark.slow
def test_a_view_equals_its_query_whenever_it_is_refreshed(sail_engine: Engine) -> None:
    hold(a_view_equals_its_query_whenever_it_is_refreshed, sail_engine, lagging(), 20)


def _left(session: Session) -> list[int]:
    """How many changes are left behind, in each piece."""
    snapshot = session._home.snapshot()
    kept = [item for item in snapshot.objects("state") if item.option("state") == "left"]
    return [part.rows for item in kept for part in snapshot.parts(item)]


def test_changes_are_left_for_those_who_come_later(sail_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_it(*_given: object, **_named: object) -> None:
        raise AssertionError("the whole log was read")

    monkeypatch.setattr(Deltas, "_from_log", all_of_it)
    with fresh(sail_engine) as home:
        session = home.session
        session.sql("CREATE TABLE t (k INT PRIMARY KEY, g STRING, v INT)")
        session.sql("INSERT INTO t SELECT id, id % 3, id FROM range(100)")
        sums, counts = "SELECT g, sum(v) AS v FROM t GROUP BY g", "SELECT v, count(*) AS n FROM t GROUP BY v"
        session.sql(f"CREATE VIEW now AS {sums} REFRESH POLICY INCREMENTAL")
        session.sql(f"CREATE VIEW later AS {counts} REFRESH ON DEMAND REFRESH POLICY INCREMENTAL")
        session.sql("ALTER HOME SET (rollup_parts = 1, keep_snapshots = 1, keep_seconds = 0)")
        assert _left(session) == []
        for turn in range(3):
            session.sql(f"UPDATE t SET v = v + 1000 WHERE k = {turn}")
            session.sql(f"INSERT INTO t VALUES ({200 + turn}, 'new', {turn})")
            session.refresh()
            assert _left(session) == [3] * (turn + 1)
            assert session.refresh().views == []
        session.sql("DELETE FROM t WHERE k = 5")
        home.reopen()
        session = home.session
        session.sql("REFRESH VIEW later")
        check_view(session, "later", counts)
        assert [item.strategy for item in session.status() if item.name == "later"] == ["differential"]
        # Now it is the other view that has yet to read the last change.
        assert _left(session) == [1]
        assert "yet to read" in session.sql("EXPLAIN later").message
        session.refresh()
        check_view(session, "now", sums)
        assert _left(session) == []


def test_a_view_made_in_between_costs_others_nothing(sail_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh(sail_engine) as home:
        session = home.session
        session.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
        session.sql("INSERT INTO t SELECT id, id FROM range(100)")
        query = "SELECT v % 7 AS g, count(*) AS n FROM t GROUP BY v % 7"
        session.sql(f"CREATE STREAMED VIEW first AS {query} REFRESH POLICY INCREMENTAL STRICT")
        session.sql("UPDATE t SET v = v + 1 WHERE k < 10")
        session.sql(f"CREATE VIEW second AS {query} REFRESH POLICY INCREMENTAL STRICT")
        monkeypatch.setattr(Deltas, "_from_log", None)
        session.refresh()
        for name in ("first", "second"):
            check_view(session, name, query)
        assert _left(session) == []
