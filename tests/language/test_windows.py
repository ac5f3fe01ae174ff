"""Windows in FROM as plain data."""

from __future__ import annotations

import pytest

from headrace.errors import LanguageError
from headrace.language import Query, Select, Window, parse_one

SECOND = 1_000_000


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("[RANGE 1 MINUTE]", Window("range", 60 * SECOND)),
        ("[RANGE 90]", Window("range", 90 * SECOND)),
        ("[RANGE 0.5 SLIDE 0.25]", Window("range", SECOND // 2, SECOND // 4)),
        ("[RANGE 1 MINUTE SLIDE 10 SECONDS INTERNAL]", Window("range", 60 * SECOND, 10 * SECOND, internal=True)),
        ("[RANGE UNBOUNDED INTERNAL]", Window("range", None, internal=True)),
        ("[WINDOW 10 min SLIDE 2 min]", Window("range", 600 * SECOND, 120 * SECOND)),
        ("[ROWS 100]", Window("rows", 100)),
        ("[ROWS 100 SLIDE 10]", Window("rows", 100, 10)),
        ("[PARTITION BY k, l ROWS 5]", Window("rows", 5, partition=("k", "l"))),
    ],
)
def test_windows(text: str, window: Window) -> None:
    found = query(f"SELECT * FROM s {text} AS x JOIN t ON x.a = t.a")
    assert [ref.window for ref in found.relations()] == [window, None]
    assert found.reads_clock
    assert found.features() == ()
    assert query(found.sql()) == found


def test_a_window_over_a_subquery_is_none_of_its_relations() -> None:
    found = query("SELECT sum(c) FROM (SELECT sum(a) AS c FROM s [RANGE 6 SLIDE 6 INTERNAL]) [ROWS 10]")
    (ref,) = found.relations()
    assert ref.window == Window("range", 6 * SECOND, 6 * SECOND, internal=True)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("[ROWS 1 MINUTE]", "BAD_WINDOW"),
        ("[ROWS 0]", "BAD_WINDOW"),
        ("[ROWS 1.5]", "BAD_WINDOW"),
        ("[ROWS 5 SLIDE 0]", "BAD_WINDOW"),
        ("[RANGE 0]", "BAD_WINDOW"),
        ("[RANGE n]", "BAD_DURATION"),
        ("[RANGE 5] [ROWS 5]", "DUPLICATE_CLAUSE"),
    ],
)
def test_mistakes(text: str, condition: str) -> None:
    with pytest.raises(LanguageError) as raised:
        query(f"SELECT * FROM s {text}").relations()
    assert raised.value.condition == condition


def test_what_reads_the_clock() -> None:
    assert query("SELECT * FROM s WHERE Now - 5 < at").reads_clock
    assert query("SELECT * FROM s WHERE a IN (SELECT a FROM t [ROWS 5])").reads_clock
    assert not query("SELECT sum(a) OVER (ORDER BY b ROWS 5 PRECEDING) FROM s").reads_clock
