"""Chapter 3 of the window thesis: update patterns as the change streams show them, and the meaning of windows.

The figures' drawings are not in the text we have, so the streams are ours; what happens to them is what the text says.
The labels of the same plans (Fig. 3.1, 3.3, 3.5-3.7) are tested in `tests/algebra/test_patterns.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from headrace.errors import HeadraceError
from headrace.session import Session
from tests.conftest import ordered, rows, tagged

LENGTH = 10


def streams(session: Session, *names: str) -> None:
    for name in names:
        session.sql(f"CREATE STREAM {name} (a STRING, v INT, at TIMESTAMP) ORDER BY at")


def feed(session: Session, name: str, *events: tuple[str, int]) -> None:
    """Rows (value, time); their `v` counts them."""
    session.feed(name, [(value, number + 1, time) for number, (value, time) in enumerate(events)])


def view(session: Session, name: str, query: str) -> None:
    session.sql(f"CREATE STREAMED VIEW {name} AS {query}")


def steps(session: Session, name: str) -> list[tuple[Any, ...]]:
    """The change stream, rows of one time in a fixed order."""
    return sorted(tagged(session.changes(name)), key=lambda row: (row[-1], [str(value) for value in row]))


def deaths(session: Session, name: str) -> list[tuple[float, float]]:
    """Births and deaths of the results, each value taken to be unique."""
    born = {row[1:-1]: row[-1] for row in steps(session, name) if row[0] == "+"}
    return [(born[row[1:-1]], row[-1]) for row in steps(session, name) if row[0] == "-"]


def refused(session: Session, text: str) -> str:
    with pytest.raises(HeadraceError) as raised:
        session.sql(text)
    return raised.value.condition


# -- 3.2: update patterns ----------------------------------------------------------------------------------------------


def test_figure_3_1a_selection_is_weakest_non_monotonic(session: Session) -> None:
    streams(session, "s1")
    view(session, "q", f"SELECT a, v FROM s1 [RANGE {LENGTH}] WHERE a <> 'x'")
    feed(session, "s1", ("a", 1), ("x", 2), ("b", 4), ("c", 9))
    session.advance(30)
    lives = deaths(session, "q")
    assert {death - birth for birth, death in lives} == {LENGTH}, "all lifetimes have one length"
    assert lives == sorted(lives), "first in, first out"
    assert len(lives) == 3
    assert rows(session.table("q")) == []


def test_figure_3_1b_join_is_weak_non_monotonic(session: Session) -> None:
    streams(session, "s1", "s2")
    view(session, "q", f"SELECT x.a, x.v, y.v AS w FROM s1 [RANGE {LENGTH}] x JOIN s2 [RANGE {LENGTH}] y ON x.a = y.a")
    feed(session, "s2", ("c", 1), ("a", 3))
    feed(session, "s1", ("a", 4), ("c", 10))
    session.advance(30)
    # The recent result c dies first, with the old c of s2.
    assert deaths(session, "q") == [(10.0, 11.0), (4.0, 13.0)]
    for _, values in (("c", (10, 1)), ("a", (4, 3))):
        assert min(time + LENGTH for time in values) in (11, 13), "the least of what made it"


def test_figure_3_1c_duplicate_elimination(session: Session) -> None:
    streams(session, "s1")
    view(session, "q", f"SELECT DISTINCT a FROM s1 [RANGE {LENGTH}]")
    feed(session, "s1", ("a", 1), ("b", 2), ("a", 5), ("c", 9), ("a", 10))
    session.advance(11)
    # The a of 1 has died and the youngest a takes its place; netted, nothing has changed.
    assert rows(session.table("q")) == [("a",), ("b",), ("c",)]
    session.advance(30)
    assert steps(session, "q") == [
        ("+", "a", 1.0),
        ("+", "b", 2.0),
        ("+", "c", 9.0),
        ("-", "b", 12.0),
        ("-", "c", 19.0),
        ("-", "a", 20.0),
    ]


def test_figure_3_1d_group_by_is_strict_non_monotonic(session: Session) -> None:
    streams(session, "s1")
    view(session, "q", f"SELECT a, count(*) AS n FROM s1 [RANGE {LENGTH}] GROUP BY a")
    feed(session, "s1", ("a", 1), ("b", 2), ("a", 5))
    session.advance(30)
    # The value (a, 1) is replaced when another a arrives, which nobody knew when it was reported.
    assert steps(session, "q") == [
        ("+", "a", 1, 1.0),
        ("+", "b", 1, 2.0),
        ("u", "a", 2, 5.0),
        ("u", "a", 1, 11.0),
        ("-", "b", None, 12.0),
        ("-", "a", None, 15.0),
    ]


def test_negation_dies_early_and_is_born_by_an_expiration(session: Session) -> None:
    """3.2.2: results of a negation may die by arrivals, die of age, or be born when a row of the other side dies."""
    streams(session, "s1", "s2")
    view(
        session,
        "q",
        f"SELECT a FROM s1 [RANGE {LENGTH}] x WHERE NOT EXISTS (SELECT * FROM s2 [RANGE 3] y WHERE y.a = x.a)",
    )
    feed(session, "s1", ("a", 1), ("b", 2))
    feed(session, "s2", ("a", 4))
    session.advance(30)
    assert steps(session, "q") == [
        ("+", "a", 1.0),
        ("+", "b", 2.0),
        ("-", "a", 4.0),
        ("+", "a", 7.0),
        ("-", "a", 11.0),
        ("-", "b", 12.0),
    ]


# -- 3.3.1: relations --------------------------------------------------------------------------------------------------


def test_section_3_3_1_stock_quotes_and_a_table_of_companies(session: Session) -> None:
    """A deleted company keeps the quotes it had; a new symbol meets no earlier quote."""
    session.sql("CREATE STREAM quotes (symbol STRING, price INT, at TIMESTAMP) ORDER BY at")
    session.sql("CREATE NON RETROACTIVE TABLE listed (symbol STRING PRIMARY KEY, company STRING)")
    session.sql("CREATE TABLE known (symbol STRING PRIMARY KEY, company STRING)")
    for name, table in (("by_listed", "listed"), ("by_known", "known")):
        text = f"SELECT q.price, t.company FROM quotes [RANGE {LENGTH}] q JOIN {table} t ON q.symbol = t.symbol"
        view(session, name, text)
        session.sql(f"INSERT INTO {table} VALUES ('old', 'Old Inc') AT 1")
    session.feed("quotes", [("old", 10, 2), ("new", 20, 3)])
    for name in ("listed", "known"):
        session.sql(f"DELETE FROM {name} WHERE symbol = 'old' AT 4; INSERT INTO {name} VALUES ('new', 'New Inc') AT 5")
    session.feed("quotes", [("new", 21, 6)])
    session.refresh()
    assert rows(session.table("by_listed")) == [(10, "Old Inc"), (21, "New Inc")]
    assert rows(session.table("by_known")) == [(20, "New Inc"), (21, "New Inc")]
    session.advance(30)
    lives = deaths(session, "by_listed")
    assert {death - birth for birth, death in lives} == {LENGTH}, "with a window, weakest non-monotonic"
    assert ("-", 10, "Old Inc", 4.0) in steps(session, "by_known"), "with a retroactive table, strict"


# -- 3.3.2: internal and external windows ------------------------------------------------------------------------------


def test_figure_3_2_a_sum_over_four_types_of_windows(session: Session) -> None:
    session.sql("CREATE STREAM s1 (v INT, at TIMESTAMP) ORDER BY at")
    view(session, "external_sliding", "SELECT sum(v) AS total FROM s1 [ROWS 5]")
    view(session, "internal_sliding", "SELECT sum(v) AS total FROM s1 [ROWS 5 INTERNAL]")
    view(session, "external_unbounded", "SELECT sum(v) AS total FROM s1")
    view(session, "internal_unbounded", "SELECT sum(v) AS total FROM s1 [RANGE UNBOUNDED INTERNAL]")
    values = [4, 1, 3, 5, 2, 6, 1]
    session.feed("s1", [(value, number + 1) for number, value in enumerate(values)])
    session.refresh()
    sliding = [sum(values[max(0, end - 5) : end]) for end in range(1, 8)]
    running = [sum(values[:end]) for end in range(1, 8)]
    assert sliding == [4, 5, 8, 13, 15, 17, 17]
    assert rows(session.table("external_sliding")) == [(17,)]
    assert rows(session.table("external_unbounded")) == [(22,)]
    # Internal windows never take a value back: 17 stands twice, for two contents of the window.
    assert Counter(rows(session.table("internal_sliding"))) == Counter((value,) for value in sliding)
    assert Counter(rows(session.table("internal_unbounded"))) == Counter((value,) for value in running)
    assert [row[:2] for row in steps(session, "internal_sliding")] == [("+", value) for value in sliding]
    replaced = [row[:2] for row in steps(session, "external_unbounded") if row[1] is not None]
    assert replaced == [("u", value) for value in running]


def test_section_3_3_2_a_join_of_internal_windows_is_monotonic(session: Session) -> None:
    """The same results in the same order as over external windows, and they stay."""
    streams(session, "s1", "s2")
    text = "SELECT x.a, x.v, y.v AS w FROM s1 [RANGE 5{0}] x JOIN s2 [RANGE 5{1}] y ON x.a = y.a"
    view(session, "external", text.format("", ""))
    view(session, "internal", text.format(" INTERNAL", " INTERNAL"))
    view(session, "mixed", text.format(" INTERNAL", ""))
    feed(session, "s1", ("a", 1), ("a", 4), ("b", 5), ("a", 12))
    feed(session, "s2", ("a", 3), ("b", 11), ("a", 13))
    session.advance(40)
    births = [row for row in steps(session, "external") if row[0] == "+"]
    assert births == [("+", "a", 1, 1, 3.0), ("+", "a", 2, 1, 4.0), ("+", "a", 4, 3, 13.0)]
    assert steps(session, "internal") == births
    # With one external window a result dies with its row of that window.
    assert [row for row in steps(session, "mixed") if row[0] == "+"] == births
    assert [row[-1] for row in steps(session, "mixed") if row[0] == "-"] == [8.0, 8.0, 18.0]


def test_figure_3_3_a_join_of_internal_windows_through_a_materialized_view(session: Session) -> None:
    streams(session, "s1", "s2", "s3")
    two = "SELECT x.a, x.v, y.v AS w FROM s1 [RANGE 5{0}] x JOIN s2 [RANGE 5{0}] y ON x.a = y.a"
    view(session, "dying", two.format(""))
    view(session, "staying", two.format(" INTERNAL"))
    three = "SELECT m.a, m.v, m.w, z.v AS u FROM {0} m JOIN s3 [RANGE 5 INTERNAL] z ON m.a = z.a"
    view(session, "right", three.format("dying"))
    view(session, "wrong", three.format("staying"))
    view(
        session,
        "direct",
        "SELECT x.a, x.v, y.v AS w, z.v AS u FROM s1 [RANGE 5 INTERNAL] x, s2 [RANGE 5 INTERNAL] y,"
        " s3 [RANGE 5 INTERNAL] z WHERE x.a = y.a AND y.a = z.a",
    )
    feed(session, "s1", ("a", 1), ("b", 6))
    feed(session, "s2", ("a", 2), ("b", 7))
    feed(session, "s3", ("a", 3), ("b", 8), ("a", 20))
    session.advance(40)
    wanted = [("a", 1, 1, 1), ("b", 2, 2, 2)]
    assert rows(session.table("direct")) == wanted
    assert rows(session.table("right")) == wanted, "the materialized sub-result lets go of what its windows let go of"
    assert rows(session.table("wrong")) == sorted([*wanted, ("a", 1, 1, 3)]), "otherwise new rows meet old results"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT a FROM s1 [RANGE 5 INTERNAL]",
        "SELECT a FROM s1 [RANGE 5 INTERNAL] WHERE a NOT IN (SELECT a FROM s2 [RANGE 5 INTERNAL])",
        "SELECT x.a FROM s1 [RANGE 5 INTERNAL] x LEFT ANTI JOIN s2 [RANGE 5 INTERNAL] y ON x.a = y.a",
        "SELECT a FROM s1 [RANGE 5 INTERNAL] EXCEPT SELECT a FROM s2 [RANGE 5 INTERNAL]",
    ],
)
def test_section_3_3_2_internal_windows_do_not_apply_to_duplicates_and_negation(session: Session, query: str) -> None:
    streams(session, "s1", "s2")
    assert refused(session, query) == "NEVER_DYING_RESULT"
    assert refused(session, f"CREATE VIEW q AS {query}") == "NEVER_DYING_RESULT"


# -- 3.3.3 and 3.4: windows on the output ------------------------------------------------------------------------------


def test_section_3_3_3_an_output_window_is_independent_of_the_input_windows(session: Session) -> None:
    streams(session, "s1", "s2")
    text = "SELECT x.a, x.v, y.v AS w FROM s1 [RANGE 8{0}] x, s2 [RANGE 8{0}] y WHERE x.a = y.a"
    view(session, "external", text.format(""))
    view(session, "short", f"SELECT * FROM ({text.format(' INTERNAL')}) [RANGE 3]")
    view(session, "same", f"SELECT * FROM ({text.format(' INTERNAL')}) [RANGE 8]")
    view(session, "last", f"SELECT * FROM ({text.format(' INTERNAL')}) [ROWS 1]")
    feed(session, "s1", ("a", 1), ("b", 2), ("b", 9))
    feed(session, "s2", ("a", 7), ("b", 8))
    session.advance(30)
    births = [("a", 1, 1, 7.0), ("b", 2, 2, 8.0), ("b", 3, 2, 9.0)]
    for name, length in (("short", 3.0), ("same", 8.0)):
        wanted = [("+", *row) for row in births] + [("-", *row[:-1], row[-1] + length) for row in births]
        assert steps(session, name) == sorted(wanted, key=lambda row: (row[-1], [str(value) for value in row]))
    assert rows(session.table("last")) == [("b", 3, 2)]
    # Results of a weak operator live at most as long as its windows, so a window of that length shows no fewer.
    for time in range(1, 20):
        shown = set(rows(session.table("same", as_of=time)))
        assert set(rows(session.table("external", as_of=time))) <= shown, time


def test_section_3_4_a_sliding_sum_from_chunks(session: Session) -> None:
    """One minute re-evaluated every six seconds is the sum of the last ten chunks of six seconds."""
    session.sql("CREATE STREAM stream1 (a INT, at TIMESTAMP) ORDER BY at")
    view(session, "direct", "SELECT SUM(a) AS total FROM stream1 [RANGE 1 min SLIDE 6 sec]")
    view(
        session,
        "chunks",
        "SELECT SUM(part) AS total FROM"
        " (SELECT SUM(a) AS part FROM Stream1[RANGE 6 sec SLIDE 6 sec INTERNAL]) [ROWS 10]",
    )
    session.feed("stream1", [(number % 3 + 1, 4 * number + 2) for number in range(24)])
    session.advance(96)
    assert rows(session.table("direct")) == rows(session.table("chunks"))
    assert len(steps(session, "direct")) > 10
    for time in range(6, 97, 6):
        assert rows(session.table("direct", as_of=time)) == rows(session.table("chunks", as_of=time)), time


def test_section_3_4_what_cannot_be_windowed(session: Session) -> None:
    streams(session, "s1")
    external = "SELECT SUM(c) FROM (SELECT SUM(v) AS c FROM s1 [RANGE 6 sec SLIDE 6 sec]) [ROWS 10]"
    assert refused(session, external) == "WINDOW_OVER_DYING_RESULTS"
    for query in (
        "SELECT Wstream(*)[ROWS 10] FROM s1 [RANGE 1 min]",
        "SELECT Rstream-restore(*) FROM s1 [RANGE 1 min SLIDE 10 sec]",
    ):
        assert refused(session, query) == "NOT_YET_MAINTAINED"


# -- 3.3.4: periodic re-evaluation -------------------------------------------------------------------------------------


def test_figure_3_4_drawbacks_of_periodic_re_evaluation(session: Session) -> None:
    """Between two re-evaluations births and deaths wait, and what lives only in between is never reported."""
    streams(session, "s1", "s2")
    text = "SELECT x.a FROM s1 [RANGE {0}] x JOIN s2 [RANGE {0}] y ON x.a = y.a"
    view(session, "continual", text.format("20"))
    view(session, "periodic", text.format("20") + " REFRESH EVERY 10 SECONDS")
    view(session, "sliding", text.format("20 SLIDE 10"))
    feed(session, "s1", ("t1", 2), ("t3", 3), ("t2", 25))
    feed(session, "s2", ("t1", 4), ("t3", 22), ("t2", 27))
    session.advance(60)
    assert steps(session, "continual") == [
        ("+", "t1", 4.0),
        ("+", "t3", 22.0),
        ("-", "t1", 22.0),
        ("-", "t3", 23.0),
        ("+", "t2", 27.0),
        ("-", "t2", 45.0),
    ]
    late = [("+", "t1", 10.0), ("+", "t2", 30.0), ("-", "t1", 30.0), ("-", "t2", 50.0)]
    assert steps(session, "periodic") == late
    assert steps(session, "sliding") == late


def test_section_3_3_4_weakest_non_monotonic_queries_miss_nothing(session: Session) -> None:
    streams(session, "s1")
    view(session, "periodic", "SELECT a FROM s1 [RANGE 20 SLIDE 10]")
    feed(session, "s1", *((f"t{time}", time) for time in range(1, 30, 3)))
    session.advance(60)
    born = [row[1] for row in steps(session, "periodic") if row[0] == "+"]
    assert sorted(born) == sorted(f"t{time}" for time in range(1, 30, 3))


# -- 3.5 and 3.6: the queries of the experiments -----------------------------------------------------------------------


@pytest.fixture
def links(session: Session) -> Session:
    for name in ("link1", "link2", "link3"):
        session.sql(f"CREATE STREAM {name} (source STRING, protocol STRING, at TIMESTAMP) ORDER BY at")
    session.feed("link1", [("a", "ftp", 1), ("b", "telnet", 2), ("c", "ftp", 3), ("a", "telnet", 8)])
    session.feed("link2", [("a", "ftp", 2), ("c", "telnet", 4), ("c", "ftp", 9)])
    session.feed("link3", [("a", "ftp", 5)])
    return session


def test_queries_1_to_3_of_the_experiments(links: Session) -> None:
    queries = (
        "SELECT link1.source FROM link1 [RANGE 10], link2 [RANGE 10] WHERE link1.source = link2.source"
        " AND link1.protocol = 'ftp' AND link2.protocol = 'ftp'",
        "SELECT DISTINCT source FROM link1 [RANGE 10]",
        "SELECT source FROM link1 [RANGE 10] WHERE NOT EXISTS"
        " (SELECT * FROM link2 [RANGE 10] WHERE link2.source = link1.source)",
    )
    assert [rows(links.sql(query)) for query in queries] == [
        [("a",), ("c",)],
        [("a",), ("b",), ("c",)],
        [("b",)],
    ]
    links.advance(12)
    assert [rows(links.sql(query)) for query in queries] == [[("c",)], [("a",), ("c",)], [("a",)]]


def test_query_4_in_both_rewritings_of_figure_3_5(links: Session) -> None:
    left = (
        "SELECT x.source, x.protocol FROM link1 [RANGE 10] x JOIN link2 [RANGE 10] y ON x.source = y.source"
        " WHERE y.protocol = 'ftp' AND NOT EXISTS (SELECT * FROM link3 [RANGE 10] z WHERE z.source = x.source)"
    )
    right = (
        "SELECT n.source, n.protocol FROM (SELECT * FROM link1 [RANGE 10] x WHERE NOT EXISTS"
        " (SELECT * FROM link3 [RANGE 10] z WHERE z.source = x.source)) n"
        " JOIN link2 [RANGE 10] y ON n.source = y.source WHERE y.protocol = 'ftp'"
    )
    view(links, "pulled_up", left)
    view(links, "pushed_down", right)
    links.advance(40)
    assert ordered(links.sql("SELECT count(*) FROM CHANGES(pulled_up)")) != [(0,)]
    assert steps(links, "pulled_up") == steps(links, "pushed_down")
