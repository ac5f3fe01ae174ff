"""SyncSQL 5.2 over random streams: a view that is read from another agrees with its own query at every full point.

Both are declared beside the view that may contain them. Nothing is accepted that does not follow: whatever is matched
is held against the same view unshared, with rows that lie on either side of every predicate.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from headrace.engine import Engine
from headrace.runtime.shared_views import SHARED
from headrace.session import Session
from tests.conftest import rows
from tests.properties.harness import fresh, hold
from tests.sync.test_synchronization_laws import END, STREAMS, declare_inputs, points, stream

CHOSEN = "SELECT k, v FROM {K} A WHERE v > 0"
ALL = "SELECT k, v FROM {K} A"
JOINED = "SELECT A.k AS k, A.v AS v, B.v AS w FROM {K} A, {T} B WHERE A.k = B.k"
GROUPED = "SELECT v, k, count(*) AS n, sum(k) AS total, min(v) AS least FROM {T} B GROUP BY v, k"
DISTINCT = "SELECT DISTINCT k, v FROM {T} B WHERE v IN (0, 1, 2, 3) OR v IS NULL"
BASES = (CHOSEN, ALL, JOINED, GROUPED, DISTINCT)
#: Queries, each with views that may contain it, or a part of it.
QUERIES = {
    "SELECT k FROM {K} A WHERE v > 1": (CHOSEN, ALL),
    "SELECT v, k FROM {K} A WHERE v BETWEEN 1 AND 3 AND k <> 2": (CHOSEN, ALL),
    "SELECT v, count(*) AS n, sum(k) AS total FROM {K} A WHERE v > 0 GROUP BY v HAVING count(*) > 1": (CHOSEN, ALL),
    "SELECT A.k AS k, B.v AS w FROM {K} A, {T} B WHERE A.k = B.k AND A.v >= 2": (CHOSEN, ALL, JOINED),
    "SELECT A.k AS k, count(*) AS n FROM {T} B JOIN {K} A ON A.k = B.k GROUP BY A.k": (ALL, JOINED),
    "SELECT v, sum(t) AS t FROM (SELECT v, k, sum(k) AS t FROM {T} B GROUP BY v, k) x GROUP BY v": (GROUPED,),
    "SELECT k, count(*) AS n, sum(k) AS total FROM {T} B WHERE v <= 3 GROUP BY k": (GROUPED,),
    "SELECT count(*) AS n, min(v) AS least FROM {T} B": (GROUPED,),
    "SELECT DISTINCT v FROM {T} B WHERE v > 1 AND v < 4": (DISTINCT, GROUPED),
    "SELECT k, v FROM {K} A WHERE v > 2 UNION ALL SELECT k, v FROM {T} B WHERE v < 3": (CHOSEN, ALL),
}  # fmt: skip
#: Streams that a synchronization stream's points are all of.
WITHIN = {None: (None,), "y2": (None, "y2", "either"), "y4": (None, "y2", "y4"), "hot": (None,), "shared": (None, "y2")}


@dataclass(frozen=True)
class Case:
    """Rows by their times, batches, and two views with what they are synchronized by; `gone` drops the first."""

    arrivals: tuple[tuple[str, int, int | None, int], ...]
    cuts: frozenset[int]
    base: str
    base_by: tuple[str | None, str]
    query: str
    by: tuple[str | None, str]
    streamed: tuple[bool, bool]
    policy: str
    gone: int | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    times = sorted(draw(st.lists(st.integers(1, END - 2), min_size=1, max_size=14)))
    value = st.one_of(st.integers(0, 5), st.none())
    arrivals = tuple((draw(st.sampled_from("KT")), draw(st.integers(1, 3)), draw(value), time) for time in times)
    way = st.sampled_from(["each", "whole", "mixed"])
    query = draw(st.sampled_from(list(QUERIES)))
    by = draw(st.sampled_from(list(WITHIN)))
    return Case(
        arrivals,
        draw(st.frozensets(st.integers(1, END - 1), max_size=3)),
        draw(st.one_of(*[st.sampled_from(QUERIES[query])] * 3, st.sampled_from(BASES))),
        (draw(st.one_of(*[st.sampled_from(WITHIN[by])] * 3, st.sampled_from([None, "y2", "either"]))), draw(way)),
        query,
        (by, draw(way)),
        (draw(st.sampled_from([True, True, False])), draw(st.booleans())),
        draw(st.sampled_from(["", "REFRESH POLICY INCREMENTAL"])),
        draw(st.sampled_from([None, None, 3, 8])),
    )


def written(query: str, by: tuple[str | None, str]) -> tuple[str, str]:
    """A query and its tail, synchronized in each input, as a whole, or in one input by another stream."""
    name, way = by
    if name is None or way == "whole":
        return query.format(K="K", T="T"), "" if name is None else f"SYNC BY {name}"
    other = "y2" if way == "mixed" else name
    return query.format(K=f"K SYNC {name}", T=f"T SYNC {other}"), ""


def declared(session: Session, case: Case) -> None:
    declare_inputs(session)
    for name, query in STREAMS.items():
        session.sql(f"CREATE STREAMED VIEW {name} AS {query}")
    text, tail = written(case.base, case.base_by)
    kinds = ["STREAMED " if streamed else "" for streamed in case.streamed]
    session.sql(f"CREATE {kinds[0]}VIEW Base AS {text} {tail} {case.policy}")
    text, tail = written(case.query, case.by)
    for name, sharing in (("Other", "always"), ("Own", "never")):
        session.sql(f"CREATE {kinds[1]}VIEW {name} AS {text} {tail} {case.policy} WITH (sharing = '{sharing}')")


def agree(session: Session, case: Case) -> None:
    home = session._home
    read = home.snapshot().find("Other").option(SHARED)
    joint = read is not None and "__and__" in read
    if not joint:
        assert rows(session.table("Other")) == rows(session.table("Own")), read
    if case.streamed[1] and not joint:
        assert stream(session, "Other") == stream(session, "Own"), read


def shared_agrees(engine: Engine, case: Case) -> None:
    with fresh(engine) as home:
        session = home.session
        declared(session, case)
        since = -1
        for upto in [*sorted(case.cuts), END]:
            for name in "KT":
                mine = [(k, v, at) for one, k, v, at in case.arrivals if one == name and since < at <= upto]
                if mine:
                    session.feed(f"{name}_in", [row[:2] for row in mine], at=[row[2] for row in mine])
            session.sql(f"ADVANCE CLOCK TO {upto}")
            agree(session, case)
            since = upto
            if case.gone is not None and upto > case.gone and session._home.snapshot().get("Base") is not None:
                session.sql("DROP VIEW Base")
                assert session._home.snapshot().find("Other").option(SHARED) is None
        at_full_points(session, case)


def at_full_points(session: Session, case: Case) -> None:
    """Where all that it is synchronized by has a point, both show the query over what is there."""
    if not case.streamed[1] or case.by[0] is None:
        return
    used = [case.by[0]] if case.by[1] != "mixed" else [case.by[0], "y2"]
    full = set.intersection(*(set(points(session, name)) for name in used))
    for time in sorted(full):
        plain = case.query.format(K=f"K AS OF {time}", T=f"T AS OF {time}")
        oracle = rows(session.sql(plain))
        for view in ("Other", "Own"):
            assert rows(session.sql(f"SELECT * FROM {view} AS OF {time}")) == oracle, (view, time)


def test_a_matched_rewriting_agrees_with_the_unshared_view(engine: Engine) -> None:
    hold(shared_agrees, engine, cases(), 60)
