"""Parts made in this process: without a job, and the same as the engine makes them."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from headrace.errors import EngineError
from headrace.session import Session
from tests.conftest import rows
from tests.part_wise.test_maintainer import STREAM, view

QUERIES = {
    "Sums": "SELECT k, sum(v) AS total, count(v) AS n, count(*) AS every, min(v) AS least FROM M[#] GROUP BY k",
    "Averages": "SELECT k, avg(v) AS mean, max(v) FILTER (WHERE v > 1) AS most FROM M[#] GROUP BY k",
    "Everything": "SELECT count(*) AS n, sum(v) AS total FROM M[#]",
    "Once": "SELECT DISTINCT v FROM M[#]",
    "Pairs": "SELECT New.k AS k, New.v AS v, Old.v AS w FROM M[#] AS New JOIN M[#-1] AS Old ON New.k = Old.k",
    "Full_": "SELECT New.k AS k, Old.v AS w FROM M[#] AS New FULL OUTER JOIN M[#-1] AS Old ON New.k = Old.k",
    "Either": "SELECT N.k AS k, coalesce(Old.v, 0) + 1 AS w FROM M[#] AS N LEFT JOIN M[#-1] AS Old ON N.k = Old.k",
    "Safe": "SELECT New.k AS k FROM M[#] AS New LEFT SEMI JOIN M[#-1] AS Old ON New.k <=> Old.k",
    "Gone": "SELECT Old.k AS k FROM M[#-1] AS Old LEFT ANTI JOIN M[#] AS New ON New.k = Old.k AND New.v > 0",
    "Stacked": "SELECT k, v FROM M[#] WHERE v > 0 UNION ALL SELECT k, CAST(-v AS INT) FROM M[#-1] WHERE NOT v IS NULL",
    "Timed": "SELECT k, max(PART_TIMESTAMP) AS at FROM M[#-1..#] WHERE ts > PART_TIMESTAMP + INTERVAL 5 SECONDS "
    "GROUP BY k",
}
FIRST = [(0, 1, 1), (3, 1, None), (20, 2, 5)]
LATER: list[list[tuple[Any, ...]]] = [
    [(61, 1, 4), (62, None, 2), (70, 2, 3), (71, 2, 3)],
    [(130, None, 1), (131, 3, 7)],
    [(250, 1, 0), (251, 2, 9)],
    [(65, 3, 8), (132, None, None)],
]


def contents(session: Session) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, rows(session.sql(f"SELECT PART_TIMESTAMP AS at, * FROM {name}")))) for name in QUERIES
    }


def grown(session: Session, rows_here: int) -> tuple[list[dict[str, list[str]]], int]:
    """What the views hold after each batch, and how many jobs their refreshes ran."""
    session.sql(f"ALTER HOME SET (rows_here = {rows_here})")
    session.sql(STREAM)
    session.feed("M", FIRST)
    for name, query in QUERIES.items():
        session.sql(view(name, query))
    found, jobs = [contents(session)], 0
    for batch in LATER:
        session.feed("M", batch)
        jobs += sum(record.jobs for record in session.refresh().views)
        found.append(contents(session))
    for name in QUERIES:
        session.sql(f"DROP VIEW {name}")
    session.sql("DROP STREAM M")
    return found, jobs


def test_parts_are_the_same_wherever_they_are_made(session: Session) -> None:
    here, _none = grown(session, 1_000)
    there, _some = grown(session, 0)
    assert here == there


def test_no_job_is_run_for_what_can_be_made_here(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", FIRST)
    session.sql(
        "CREATE VIEW Runs AS SELECT k, count(*) AS n, sum(v) AS total FROM M PATTERN [a, b+] WHERE a.v > 0 AND b.v > 0 "
        "GROUP BY k"
    )
    for strategy in ("distributive", "subtractable", "differential", "recompute"):
        session.sql(
            f"CREATE VIEW {strategy} AS SELECT k, sum(v) AS total FROM M [WINDOW 2 MINUTES] GROUP BY k "
            f"PARTITION LENGTH 60 WITH (strategy = '{strategy}')"
        )
    for minute in range(1, 4):
        session.feed("M", [(60 * minute, 1, minute), (60 * minute + 1, 2, 1)])
        assert [record.jobs for record in session.refresh().views if record.jobs] == []
    assert rows(session.sql("SELECT k, n, total FROM Runs[3] ORDER BY k")) == [(1, 3, 6), (2, 4, 8)]


@pytest.mark.parametrize(("rows_here", "most"), [(1_000_000, 0), (0, 2)])
def test_missed_parts_are_made_at_once(session: Session, rows_here: int, most: int) -> None:
    """Rows that lie in several windows are put together by part before they are multiplied, by the engine too."""
    session.sql(STREAM)
    session.sql(f"ALTER HOME SET (rows_here = {rows_here})")
    session.feed("M", FIRST)
    calls = "sum(v) AS total, count(*) AS n, max(v) AS most" + ("" if rows_here else ", avg(v) AS mean")
    for strategy in ("recompute", "distributive"):
        session.sql(
            f"CREATE VIEW {strategy} AS SELECT k, {calls} FROM M [WINDOW 3 MINUTES] GROUP BY k HAVING count(*) > 1 "
            f"PARTITION LENGTH 60 WITH (strategy = '{strategy}')"
        )
    arrived = [*FIRST, *((60 * m + s, k, v) for m in range(1, 12) for s, k, v in ((1, 1, m), (2, m % 3, None)))]
    session.feed("M", arrived[len(FIRST) :])
    # A helper's parts are made by a query of their own.
    assert max(record.jobs for record in session.refresh().views) <= most
    expected = {}
    for part in range(2, 12):
        groups: dict[int, list[int | None]] = {}
        for at, k, v in arrived:
            if part - 3 < at // 60 <= part:
                groups.setdefault(k, []).append(v)
        known = {k: [v for v in values if v is not None] for k, values in groups.items() if len(values) > 1}
        told = [
            (k, sum(some) if some else None, len(groups[k]), max(some, default=None), mean(some) if some else None)
            for k, some in known.items()
        ]
        expected[part] = sorted(row[:4] if rows_here else row for row in told)
    for strategy in ("recompute", "distributive"):
        found = {part: sorted(rows(session.sql(f"SELECT * FROM {strategy}[{part}]"))) for part in expected}
        assert found == expected


SEVERAL = {
    "Once": "SELECT DISTINCT v FROM M[#-2..#]",
    "Spread": "SELECT k, min(v) AS least, max(ts) AS last, count(DISTINCT v) AS kinds FROM M[#-2..#] GROUP BY k",
    "Ends": "SELECT k + 1 AS k, min(v) AS least, max(ts) AS last, every(v > 1) AS large FROM M[#-3..#] "
    "WHERE v <> 3 GROUP BY k + 1",
    "Floats": "SELECT k, sum(CAST(v AS DOUBLE)) AS total FROM M[#-2..#] GROUP BY k",
    "Against": "SELECT N.k AS k, N.t AS t, O.t AS u FROM (SELECT k, sum(v) AS t FROM M[#-1..#] GROUP BY k) N "
    "LEFT JOIN (SELECT k, count(*) AS t FROM M[#-3..#-1] GROUP BY k) O ON N.k = O.k",
    "Beside": "SELECT N.k AS k, N.v AS v, O.t AS t FROM M[#] N "
    "JOIN (SELECT k, max(v) AS t FROM M[#-3..#-1] GROUP BY k) O ON N.k = O.k",
    "Stacked": "SELECT k, sum(v) AS t FROM M[#-2..#] GROUP BY k UNION ALL SELECT k, v FROM M[#-1..#]",
}


def missed(session: Session, rows_here: int) -> dict[str, list[str]]:
    """What the views hold after many parts came at once."""
    session.sql(f"ALTER HOME SET (rows_here = {rows_here})")
    session.sql(STREAM)
    session.feed("M", FIRST)
    for name, query in SEVERAL.items():
        session.sql(view(name, query))
    session.feed(
        "M", [(60 * m + s, k, v) for m in range(1, 15) for s, k, v in ((1, 1, m), (2, m % 4, None), (3, m % 3, 5))]
    )
    session.refresh()
    found = {
        name: sorted(map(repr, rows(session.sql(f"SELECT PART_TIMESTAMP AS at, * FROM {name}")))) for name in SEVERAL
    }
    for name in SEVERAL:
        session.sql(f"DROP VIEW {name}")
    session.sql("DROP STREAM M")
    return found


def test_missed_parts_are_the_same_wherever_they_are_made(session: Session) -> None:
    here, there = missed(session, 1_000), missed(session, 0)
    assert here == there
    assert all(len(found) > 10 for found in here.values())


def test_rows_of_one_group_are_taken_in_order(session: Session) -> None:
    """In one part, in the order of time and then of all else that is read, whatever the order of arrival."""
    session.sql(STREAM)
    session.feed("M", [(5, 1, 3), (2, 1, 2), (2, 1, 1), (9, None, 7), (8, None, 6), (7, 2, 5)])
    session.sql(
        "CREATE VIEW Rising AS SELECT k, first(a.v) AS least, last(b.v) AS most, count(*) AS n FROM M PATTERN [a, b+] "
        "WHERE b.v > a.v GROUP BY k"
    )
    assert rows(session.sql("SELECT * FROM Rising[0]")) == [(1, 1, 3, 3), (None, 6, 7, 2)]
    session.feed("M", [(62, 1, 9), (61, 1, 8), (63, None, 1), (64, None, 2), (100, 2, 6), (130, 3, 1)])
    assert [record.jobs for record in session.refresh().views if record.jobs] == []
    assert rows(session.sql("SELECT * FROM Rising[1]")) == [(1, 1, 9, 5), (2, 5, 6, 2), (None, 6, 2, 4)]


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_a_sum_that_overflows_fails_as_on_the_engine(session: Session) -> None:
    session.sql("CREATE STREAM M (ts TIMESTAMP, k INT, v BIGINT) ORDER BY ts PARTITION LENGTH 60")
    session.feed("M", [(0, 1, 1)])
    session.sql(view("Total", "SELECT k, sum(v) AS total FROM M[#] GROUP BY k"))
    session.feed("M", [(60, 1, 2**63 - 1), (61, 1, 2**63 - 1), (120, 1, 1)])
    with pytest.raises(EngineError):
        session.refresh()
    assert rows(session.sql("SELECT * FROM Total")) == [(1, 1)]
