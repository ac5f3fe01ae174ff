"""The view maintainer: which parts are made and made again, what waits, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from headrace.errors import HeadraceError
from headrace.session import Session
from tests.conftest import rows

STREAM = "CREATE STREAM M (ts TIMESTAMP, k INT, v INT) ORDER BY ts LATE MERGE PARTITION LENGTH 60"


def view(name: str, query: str, length: int = 60, first: str | None = None) -> str:
    """A view delta function whose two queries are alike; `#` stands for the part variable."""
    initialize = (first or query).replace("#", "i")
    return (
        f"CREATE VIEW {name} AS INITIALIZE {name}[i] AS {initialize} "
        f"UPDATE {name}[j] AS {query.replace('#', 'j')} PARTITION LENGTH {length}"
    )


def sums(source: str = "M", parts: str = "#") -> str:
    return f"SELECT k, sum(v) AS v FROM {source}[{parts}] GROUP BY k"


def made(session: Session) -> dict[str, str]:
    """What the next refresh tells of each view it touches."""
    names = {item.id: item.name for item in session._home.snapshot().objects("view")}
    return {names[record.object_id]: record.reason for record in session.refresh().views}


def refused(session: Session, text: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        session.sql(text)
    return raised.value


def test_exactly_the_parts_a_late_row_touches_are_made_again(session: Session) -> None:
    """Three levels: minutes, a window of three over them, and five minutes of those."""
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1)])
    session.sql(view("Minute", sums()))
    session.sql(view("Three", sums("Minute", "#-2..#")))
    session.sql(view("Five", "SELECT max(v) AS v FROM Three[#*5..#*5+4]", 300))
    session.feed("M", [(60 * n, 1 + n % 2, n) for n in range(1, 30)])
    assert made(session) == {
        "Minute": "made parts 1 to 29",
        "Three": "made parts 2 to 29",
        "Five": "made parts 1 to 5",
    }
    session.feed("M", [(60 * 12 + 5, 1, 100)])
    assert made(session) == {
        "Minute": "made part 12 again, of which part 12 changed",
        "Three": "made parts 12 to 14 again, of which parts 12 to 14 changed",
        "Five": "made part 2 again, of which part 2 changed",
    }
    session.feed("M", [(60 * 13 + 5, 1, 0)])
    assert made(session) == {
        "Minute": "made part 13 again, of which part 13 changed",
        "Three": "made parts 13 to 15 again, of which none changed",
    }, "where nothing changed, nothing follows"
    session.feed("M", [(60 * 20 + 5, 3, 7), (60 * 30, 1, 1)])
    assert made(session) == {
        "Minute": "made part 30; made part 20 again, of which part 20 changed",
        "Three": "made part 30; made parts 20 to 22 again, of which parts 20 to 22 changed",
        "Five": "made part 4 again, of which none changed",
    }


def test_last_updated_moves_only_where_content_changed(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1)])
    session.sql(view("Seen", "SELECT DISTINCT k FROM M[#]"))
    session.feed("M", [(60, 1, 1), (120, 2, 1)])
    session.refresh()

    def updated() -> dict[int, str]:
        return {row[0]: row[6] for row in session.sql("SHOW PARTS FROM Seen").rows}

    before = updated()
    session.feed("M", [(65, 1, 5)])
    assert made(session) == {"Seen": "made part 1 again, of which none changed"}
    assert updated() == before
    session.feed("M", [(66, 9, 5)])
    assert made(session) == {"Seen": "made part 1 again, of which part 1 changed"}
    after = updated()
    assert [number for number in after if after[number] != before[number]] == [1]


def test_a_part_that_follows_from_the_last_is_made_again_as_long_as_it_differs(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1)])
    running = "SELECT k, sum(v) AS v FROM (SELECT k, v FROM M[#] UNION ALL SELECT k, v FROM Total[#-1]) GROUP BY k"
    session.sql(view("Total", running, first=sums()))
    session.sql(view("High", "SELECT k FROM Total[#] WHERE v >= 5"))
    session.feed("M", [(60 * n, 1, 1) for n in range(1, 8)])
    session.refresh()
    session.feed("M", [(60 * 4 + 1, 1, 1)])
    assert made(session) == {
        "Total": "made parts 4 to 7 again, of which parts 4 to 7 changed",
        "High": "made parts 4 to 7 again, of which none changed",
    }
    session.feed("M", [(60 * 2 + 1, 1, 2), (60 * 5 + 1, 1, -2)])
    assert made(session) == {
        "Total": "made parts 2 to 5 again, of which parts 2 to 4 changed",
        "High": "made parts 2 to 4 again, of which parts 2 to 3 changed",
    }
    assert rows(session.sql("SELECT v FROM Total[7]")) == [(9,)]


def test_an_empty_part_is_a_part(session: Session) -> None:
    session.sql(STREAM)
    session.sql(view("Minute", sums()))
    session.sql(view("Two", "SELECT count(*) AS n FROM Minute[#-1..#]"))
    session.feed("M", [(0, 1, 1), (60 * 6, 1, 1)])
    assert made(session) == {"Minute": "made parts 0 to 6", "Two": "made parts 1 to 6"}
    assert rows(session.sql("SELECT n FROM Two")) == [(0,), (0,), (0,), (0,), (1,), (1,)]


def test_a_slower_source_is_waited_for_and_the_clock_ends_the_wait(session: Session) -> None:
    session.sql(STREAM)
    session.sql("CREATE STREAM N (ts TIMESTAMP, k INT, w INT) ORDER BY ts PARTITION LENGTH 60")
    session.feed("M", [(0, 1, 1)])
    session.feed("N", [(0, 1, 2)])
    session.sql(view("Pairs", "SELECT M.k, v, w FROM M[#] AS M JOIN N[#] AS N ON M.k = N.k"))
    session.feed("M", [(60, 1, 1), (120, 1, 1)])
    assert made(session) == {}
    assert "It waits for N[1]; M[1] is there." in session.explain("Pairs")
    session.feed("N", [(70, 1, 3)])
    assert made(session) == {"Pairs": "made part 1"}
    done = session.advance(240)
    assert [record.reason for record in done.views] == ["made parts 2 to 3"], "time has passed, whatever arrived"


def test_lengths_of_several_sources(session: Session) -> None:
    """A ten-second source, a minute view and an hourly source: each reference by the ratio of lengths."""
    session.sql(
        """
        CREATE STREAM Fine (ts TIMESTAMP, v INT) ORDER BY ts PARTITION LENGTH 10;
        CREATE STREAM Coarse (ts TIMESTAMP, name STRING) ORDER BY ts PARTITION LENGTH 3600;
        """
    )
    session.feed("Coarse", [(0, "a"), (3600, "b")])
    session.feed("Fine", [(5, 1), (55, 2), (65, 4)])
    session.sql(view("Mixed", "SELECT name, sum(v) AS v FROM Fine[#*6..#*6+5] AS F, Coarse[#/60] AS C GROUP BY name"))
    assert rows(session.sql("SELECT * FROM Mixed[0]")) == [("a", 3)]
    session.feed("Fine", [(119, 8), (3605, 16), (3650, 32)])
    session.refresh()
    assert rows(session.sql("SELECT * FROM Mixed[1]")) == [("a", 12)]
    assert rows(session.sql("SELECT * FROM Mixed[60]")) == [("b", 48)]


@pytest.mark.parametrize("retroactive", [True, False])
def test_a_table_without_parts(session: Session, retroactive: bool) -> None:
    """A change of it is met by all parts; of one that is not retroactive, only by rows that arrive later."""
    session.sql(STREAM)
    kind = "TABLE" if retroactive else "NON RETROACTIVE TABLE"
    session.sql(f"CREATE {kind} D (k INT PRIMARY KEY, name STRING); INSERT INTO D VALUES (1, 'a') AT 0")
    session.feed("M", [(10, 1, 5)])
    session.sql(view("Named", "SELECT name, sum(v) AS v FROM M[#] AS M JOIN D ON M.k = D.k GROUP BY name"))
    session.feed("M", [(60, 1, 6)])
    session.refresh()
    session.sql("DELETE FROM D AT 99; INSERT INTO D VALUES (1, 'b') AT 100")
    session.feed("M", [(130, 1, 7)])
    session.refresh()
    found = rows(session.sql("SELECT name, v FROM Named"))
    names = ("b", "b", "b") if retroactive else ("a", "a", "b")
    assert sorted(found) == sorted(zip(names, (5, 6, 7), strict=True))


def test_other_views_follow_a_view_of_parts(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1), (60, 1, 2), (120, 2, 3)])
    session.sql(view("Minute", sums()))
    session.sql("CREATE VIEW Whole AS SELECT k, sum(v) AS v FROM Minute GROUP BY k REFRESH POLICY INCREMENTAL")
    session.feed("M", [(60 * n, n % 3, n) for n in range(3, 12)])
    session.refresh()
    session.feed("M", [(61, 1, 100), (300, 5, 5)])
    session.refresh()
    expected = rows(session.sql("SELECT k, sum(v) FROM M WHERE ts >= TIMESTAMP '1970-01-01 00:02:00' GROUP BY k"))
    assert rows(session.table("Whole")) == expected


def test_a_session_begins_where_the_last_ended(connect: Callable[..., Session], tmp_path: object) -> None:
    home = str(tmp_path) + "/home"
    with connect(home) as session:
        session.sql(STREAM)
        session.feed("M", [(0, 1, 1)])
        session.sql(view("Minute", sums()))
        session.feed("M", [(60, 1, 2)])
        session.refresh()
    with connect(home) as session:
        session.feed("M", [(61, 1, 5), (120, 1, 2)])
        assert made(session) == {"Minute": "made part 2; made part 1 again, of which part 1 changed"}
        assert rows(session.sql("SELECT v FROM Minute[1]")) == [(7,)]


def test_retain_keeps_what_the_next_part_is_made_of(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1)])
    session.sql(view("Minute", sums()) + " RETAIN 120 SECONDS")
    session.sql(view("Ten", sums("Minute", "#-9..#")))
    for n in range(1, 40):
        session.feed("M", [(60 * n, 1, 1)])
        session.refresh()
    assert rows(session.sql("SELECT v FROM Ten[39]")) == [(10,)]
    kept = [row[0] for row in session.sql("SHOW PARTS FROM Minute").rows]
    assert len(kept) < 30
    assert rows(session.sql("SELECT count(*) FROM Minute")) == [(3,)], "only what RETAIN keeps is to be seen"
    session.feed("M", [(60, 1, 50)])
    assert made(session) == {}, "what is forgotten is not made again"


def test_or_replace_and_drop(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1)])
    session.sql(view("Minute", sums()))
    replaced = view("Minute", "SELECT k, max(v) AS v FROM M[#] GROUP BY k")
    session.sql(replaced.replace("CREATE", "CREATE OR REPLACE", 1))
    session.feed("M", [(1, 1, 5)])
    session.refresh()
    assert rows(session.sql("SELECT v FROM Minute")) == [(5,)]
    session.sql(view("Over", sums("Minute")))
    assert refused(session, "DROP VIEW Minute").condition == "STILL_NEEDED"
    session.sql("DROP VIEW Minute CASCADE")
    assert refused(session, "SELECT * FROM Over").condition == "UNKNOWN_OBJECT"


REFUSED = [
    (view("V", "SELECT k FROM M[#+1]"), "PARTS_NEVER_THERE", "future"),
    (view("V", "SELECT k FROM M[#..#-3]"), "PARTS_NEVER_THERE", "backwards"),
    (view("V", "SELECT k FROM M[#]", 90), "PARTS_NEVER_THERE", "neither divides"),
    (view("V", "SELECT k FROM M[#]", 3600), "PARTS_NEVER_THERE", r"M\[i\*60 \.\. i\*60\+59\]"),
    (view("V", "SELECT k FROM M[#*60..#*60+60]", 3600), "PARTS_NEVER_THERE", "future"),
    (
        view("V", "SELECT k FROM M[#] UNION SELECT k FROM V[#]", first="SELECT k FROM M[#]"),
        "PARTS_NEVER_THERE",
        "later",
    ),
    (view("V", "SELECT k FROM V[#-1]"), "READS_ITSELF", "INITIALIZE"),
    (view("V", "SELECT k FROM V[#-1]", first="SELECT k FROM M[#]"), "NO_PART_REFERENCE", "due"),
    (view("V", "SELECT k FROM M"), "PARTS_NOT_TOLD", r"M\[i\]"),
    (view("V", "SELECT k FROM Bare[#]"), "NO_PARTS", "PARTITION LENGTH"),
    (view("V", "SELECT k FROM D[#]"), "NO_PARTS", "PARTITION LENGTH"),
    (view("V", "SELECT k FROM M[#-W]"), "BAD_PART", "one variable"),
    (view("V", "SELECT k FROM M[k]"), "BAD_PART", "told by k"),
    (view("V", "SELECT k FROM M[#*#]"), "BAD_PART", "whole numbers"),
    (view("V", "SELECT k FROM M[#] WHERE ts > Now - 5"), "CLOCK_IN_PART", "Now"),
    (view("V", "SELECT k, rand() AS r FROM M[#]"), "NOT_DETERMINISTIC", "rand"),
    (view("V", "SELECT k, v FROM M[#]", first="SELECT k FROM M[#]"), "WRONG_COLUMN_COUNT", "UPDATE 2"),
    (view("V", "SELECT ts FROM M[#]", first="SELECT k FROM M[#]"), "WRONG_COLUMN_TYPE", "TIMESTAMP"),
    (view("V", "SELECT a FROM M[#] LEFT JOIN Bare"), "JOIN_WITHOUT_CONDITION", "ON"),
    ("CREATE VIEW V AS SELECT k FROM M[3]", "PART_IN_VIEW", "INITIALIZE"),
    ("SELECT k FROM M[i]", "PART_WITHOUT_VALUE", r"M\[0\]"),
    ("SELECT k FROM D[1]", "NO_PARTS", "PARTITION LENGTH"),
]


def test_what_cannot_be_is_refused_and_changes_nothing(session: Session) -> None:
    session.sql(STREAM)
    session.sql("CREATE STREAM Bare (a INT, at TIMESTAMP) ORDER BY at; CREATE TABLE D (k INT PRIMARY KEY, name STRING)")
    session.feed("M", [(0, 1, 1)])
    before = session._home.snapshot().id
    for text, condition, words in REFUSED:
        error = refused(session, text)
        assert error.condition == condition, (text, error)
        assert re.search(words, str(error)), (text, str(error))
    assert session._home.snapshot().id == before
    assert [row[0] for row in session.sql("SHOW VIEWS").rows] == []


def window(name: str, call: str = "sum(v) AS v", minutes: int = 3, options: str = "") -> str:
    query = f"SELECT k, {call} FROM M [WINDOW {minutes} MINUTES] GROUP BY k"
    return f"CREATE VIEW {name} AS {query} PARTITION LENGTH 60{options}"


def test_a_strategy_that_was_guessed_is_chosen_anew(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any rows sizes are guessed. The first parts tell better, and what was made stays."""
    monkeypatch.setattr("headrace.planner.window_costs.JOB", 0.0)
    session.sql(STREAM)
    session.sql(window("W", minutes=10))
    assert "sizes are guessed" in session.explain("W")
    session.feed("M", [(60 * n + m, m, n) for n in range(12) for m in range(2)])
    session.refresh()
    told = session.explain("W")
    assert "sizes are guessed" not in told
    assert "costs least" in told
    before = rows(session.sql("SELECT PART_TIMESTAMP AS at, * FROM W"))
    assert len(before) == 6
    session.feed("M", [(60 * n + m, m, n) for n in range(12, 16) for m in range(2)])
    session.refresh()
    found = rows(session.sql("SELECT k, v FROM W[15]"))
    assert found == [(0, sum(range(6, 16))), (1, sum(range(6, 16)))]
    assert [row for row in rows(session.sql("SELECT PART_TIMESTAMP AS at, * FROM W")) if row in before] == before


def test_helpers_come_and_go_with_their_view(session: Session) -> None:
    session.sql(STREAM)
    session.feed("M", [(60 * n, 1, n) for n in range(6)])
    session.sql(window("W", options=" WITH (strategy = 'subtractable')"))
    assert rows(session.sql("SELECT v FROM W[5]")) == [(12,)]
    assert [row[0] for row in session.sql("SHOW VIEWS").rows] == ["W"]
    assert refused(session, "DROP VIEW W__helper").condition == "BELONGS_TO_ANOTHER"
    assert refused(session, "DROP STREAM M").condition == "STILL_NEEDED"
    assert refused(session, "CREATE VIEW x__helper AS SELECT k FROM M").condition == "NAME_RESERVED"
    session.sql(window("W", "max(v) AS v", options=" WITH (strategy = 'distributive')").replace("VIEW", "VIEW", 1)
                .replace("CREATE", "CREATE OR REPLACE", 1))  # fmt: skip
    assert rows(session.sql("SELECT v FROM W[5]")) == [(5,)]
    session.sql("DROP VIEW W")
    assert session._home.snapshot().objects("view") == []


def test_helper_parts_that_nothing_needs_are_dropped(session: Session) -> None:
    """Rows can be no later than the slack, so only a window's worth of the helper stays."""
    session.sql("CREATE STREAM M (ts TIMESTAMP, k INT, v INT) ORDER BY ts PARTITION LENGTH 60")
    session.sql(window("W", options=" WITH (strategy = 'subtractable')"))
    for n in range(30):
        session.feed("M", [(60 * n, 1, 1), (60 * n + 59, 1, 1)])
        session.refresh()
    helper = session._home.snapshot().find("W__helper")
    kept = [part.first for part in session._home.snapshot().parts(helper)]
    assert len(kept) <= 3 + 1 + 8
    assert rows(session.sql("SELECT v FROM W[29]")) == [(6,)]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (window("W", options=" WITH (strategy = 'distributed')"), "BAD_OPTION"),
        (window("W", "first(v) AS v", options=" WITH (strategy = 'distributive')"), "STRATEGY_NOT_POSSIBLE"),
        ("CREATE VIEW W AS SELECT k, sum(v) AS v FROM M [WINDOW 90 SECONDS] GROUP BY k PARTITION LENGTH 60", None),
        (window("W").replace("PARTITION", "REFRESH EVERY 5 SECONDS PARTITION"), "MISPLACED_CLAUSE"),
        ("CREATE VIEW P AS SELECT k, count(*) AS n FROM Bare PATTERN [a, b] GROUP BY k", "NO_PARTS"),
        ("CREATE VIEW P AS SELECT k, count(*) AS n FROM Timeless PATTERN [a, b] GROUP BY k", "NO_ORDER"),
        ("CREATE VIEW P AS SELECT k, count(*) AS n FROM M PATTERN [a, b] WHERE c.v > 1 GROUP BY k", None),
    ],
)
def test_translations_that_cannot_be(session: Session, text: str, condition: str | None) -> None:
    session.sql(STREAM)
    session.sql(
        "CREATE STREAM Bare (k INT, at TIMESTAMP) ORDER BY at; CREATE STREAM Timeless (k INT) PARTITION LENGTH 60"
    )
    error = refused(session, text)
    assert condition is None or error.condition == condition, error
    assert error.hint, error
    assert session._home.snapshot().objects("view") == []


def test_a_long_time_without_rows(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Years of empty parts are known to be empty without looking; but a run of counts goes through each of them."""
    session.sql(STREAM)
    session.feed("M", [(0, 1, 1)])
    session.sql(view("Minute", sums()))
    session.sql(window("W", "max(v) AS v", options=" WITH (strategy = 'distributive')"))
    session.feed("M", [(1_700_000_000, 1, 2)])
    newest = 1_700_000_000 // 60
    reasons = made(session)
    assert reasons["Minute"] == f"made parts 1 to {newest}"
    assert rows(session.sql(f"SELECT v FROM Minute[{newest}]")) == [(2,)]
    assert rows(session.sql(f"SELECT v FROM W[{newest}]")) == [(2,)]
    assert rows(session.sql("SELECT count(*) FROM W")) == [(2,)]
    running = "SELECT k, sum(v) AS v FROM (SELECT k, v FROM M[#] UNION ALL SELECT k, v FROM Total[#-1]) GROUP BY k"
    monkeypatch.setattr("headrace.runtime.maintainer.MOST_PARTS", 3)
    session.sql(view("Total", running, first=sums()))
    session.feed("M", [(1_700_000_000 + 600, 1, 2)])
    with pytest.raises(HeadraceError) as raised:
        session.refresh()
    assert raised.value.condition == "TOO_MANY_PARTS"
