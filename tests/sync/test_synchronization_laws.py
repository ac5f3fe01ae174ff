"""SyncSQL's propositions and theorems over random streams, synchronization streams, queries and batches.

- Propositions 1 and 2: at each of its points a view is its query over every input at that input's last point; the full
  points are those of all synchronization streams.
- Theorem 1 and Corollary 1: what a coarser stream shows of a relation, it shows of the relation by a finer one.
- Theorem 2, Corollaries 2 and 3: a view and its skinned form agree at every full point.
- And the tagged streams of all of them do not depend on how arrivals were batched.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.session import Session
from tests.conftest import rows, tagged
from tests.properties.harness import fresh, hold

END = 14
STREAMS = {
    "y2": "SELECT C.Timepoint FROM R(clockStr) C WHERE C.Timepoint mod 2 = 0",
    "y3": "SELECT C.Timepoint FROM R(clockStr) C WHERE C.Timepoint mod 3 = 1",
    "y4": "SELECT C.Timepoint FROM R(clockStr) C WHERE C.Timepoint mod 4 = 0",
    "hot": "SELECT T.TS FROM R(T) T WHERE T.v > 3",
    "either": "SELECT DISTINCT Timepoint FROM (SELECT Timepoint FROM y2 UNION ALL SELECT Timepoint FROM y3)",
    "shared": "SELECT Timepoint FROM y2 INTERSECT SELECT Timepoint FROM y3",
}
#: Queries over K and T, the one keyed by k and the other not; `{K}` and `{T}` stand for how they are read.
QUERIES = {
    "chosen": "SELECT k, v FROM {K} A WHERE v > 1",
    "counted": "SELECT v, count(*) AS n, sum(k) AS total FROM {T} B GROUP BY v",
    "joined": "SELECT A.k AS k, A.v AS v, B.v AS w FROM {K} A, {T} B WHERE A.k = B.k",
    "missing": "SELECT k, v FROM {K} A WHERE NOT EXISTS (SELECT 1 FROM {T} B WHERE B.k = A.k)",
    "stacked": "SELECT k, v FROM {K} A UNION ALL SELECT k, v FROM {T} B WHERE v < 3",
}
Row = tuple[str, int, int | None, int]


@dataclass(frozen=True)
class Case:
    """Rows by their times; two ways to cut them into batches; a query, and by what its inputs are synchronized."""

    arrivals: tuple[Row, ...]
    cuts: tuple[frozenset[int], frozenset[int]]
    query: str
    by: tuple[str | None, str | None]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    times = sorted(draw(st.lists(st.integers(1, END - 2), min_size=1, max_size=14)))
    value = st.one_of(st.integers(0, 5), st.none())
    arrivals = tuple((draw(st.sampled_from("KT")), draw(st.integers(1, 3)), draw(value), time) for time in times)
    cut = st.frozensets(st.integers(1, END - 1), max_size=3)
    stream = st.one_of(st.none(), st.sampled_from(list(STREAMS)))
    return Case(arrivals, (draw(cut), draw(cut)), draw(st.sampled_from(list(QUERIES))), (draw(stream), draw(stream)))


def declare_inputs(session: Session) -> None:
    for name, key in (("K", "k"), ("T", "NULL")):
        session.sql(f"REGISTER SOURCE {name}_in (k INT, v INT) FROM MEMORY")
        session.sql(f"CREATE STREAM {name} OVER {name}_in KEY {key}")
    session.sql("ADVANCE CLOCK TO 0")


def declared(session: Session, case: Case) -> None:
    declare_inputs(session)
    for name, query in STREAMS.items():
        session.sql(f"CREATE STREAMED VIEW {name} AS {query}")
    session.sql(f"CREATE STREAMED VIEW V AS {read(case)}")
    plain = read(Case(case.arrivals, case.cuts, case.query, (None, None)))
    session.sql(f"CREATE STREAMED VIEW Data AS {plain}")
    read_by = zip("KT", case.by, strict=True)
    used = list(dict.fromkeys(by for name, by in read_by if by is not None and f"{{{name}}}" in QUERIES[case.query]))
    if len(used) == 2:
        both = " INTERSECT ".join(f"SELECT {session.table(name).columns[0]} AS at FROM {name}" for name in used)
        session.sql(f"CREATE STREAMED VIEW global AS {both}")
    skin = {0: "", 1: f" SYNC {used[0] if used else ''}", 2: " SYNC global"}[len(used)]
    session.sql(f"CREATE STREAMED VIEW Skinned AS SELECT * FROM Data{skin}")


def read(case: Case) -> str:
    named = {
        name: name if stream is None else f"{name} SYNC {stream}" for name, stream in zip("KT", case.by, strict=True)
    }
    return QUERIES[case.query].format(**named)


def fed(session: Session, case: Case, cuts: frozenset[int]) -> None:
    for upto, since in zip([*sorted(cuts), END], [-1, *sorted(cuts)], strict=True):
        for name in "KT":
            mine = [(k, v, at) for stream, k, v, at in case.arrivals if stream == name and since < at <= upto]
            if mine:
                session.feed(f"{name}_in", [row[:2] for row in mine], at=[row[2] for row in mine])
        session.sql(f"ADVANCE CLOCK TO {upto}")


def stream(session: Session, name: str) -> list[tuple[Any, ...]]:
    return sorted(tagged(session.changes(name)), key=lambda row: (row[-1], repr(row)))


def points(session: Session, name: str) -> list[int]:
    return sorted({int(row[-1]) for row in tagged(session.changes(name))})


def last(known: list[int] | None, time: int) -> int:
    if known is None:
        return time
    place = bisect_right(known, time)
    return known[place - 1] if place else -1


def laws_hold(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        session = home.session
        declared(session, case)
        fed(session, case, case.cuts[0])
        known = [None if name is None else points(session, name) for name in case.by]
        reads = QUERIES[case.query]
        for time in range(END + 1):
            at = [last(one, time) for one in known]
            oracle = reads.format(K=f"K AS OF {at[0]}", T=f"T AS OF {at[1]}")
            found = rows(session.sql(f"SELECT * FROM V AS OF {time}"))
            assert found == rows(session.sql(oracle)), (time, at)
        for at, kind in rows(session.sql("SELECT * FROM SYNC_POINTS(V)")):
            time = int(at.timestamp())
            used = [one for one, name in zip(known, "KT", strict=True) if one is not None and f"{{{name}}}" in reads]
            full = all(time in one for one in used)
            assert kind == ("full" if full else "partial"), time
            if full:
                skinned, own = (rows(session.sql(f"SELECT * FROM {view} AS OF {time}")) for view in ("Skinned", "V"))
                assert skinned == own, time
        once = {name: stream(session, name) for name in ("V", "Data", "Skinned", *STREAMS)}
    with fresh(engine) as home:
        declared(home.session, case)
        fed(home.session, case, case.cuts[1])
        assert {name: stream(home.session, name) for name in once} == once


def test_laws_of_synchronization(engine: Engine) -> None:
    hold(laws_hold, engine, cases(), 40)


def coarser_follows_from_finer(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        session = home.session
        declare_inputs(session)
        for name in ("y2", "y4"):
            session.sql(f"CREATE STREAMED VIEW {name} AS {STREAMS[name]}")
        session.sql("CREATE STREAMED VIEW Fine AS SELECT * FROM K SYNC y2")
        session.sql("CREATE STREAMED VIEW Coarse AS SELECT * FROM K SYNC y4")
        session.sql("CREATE STREAMED VIEW Again AS SELECT * FROM Fine SYNC y4")
        fed(session, case, case.cuts[0])
        assert stream(session, "Again") == stream(session, "Coarse")
        for time in points(session, "y4"):
            fine, coarse = (rows(session.sql(f"SELECT * FROM {view} AS OF {time}")) for view in ("Fine", "Coarse"))
            assert fine == coarse, time


def test_theorem_1_and_corollary_1(engine: Engine) -> None:
    hold(coarser_follows_from_finer, engine, cases(), 15)
