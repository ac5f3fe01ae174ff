"""ESL's Figure 1: every production of the grammar of calls over windows, and what is none of it.

window_function        ::= aggregate_function OVER <window_spec>
window_spec            ::= ([<window_partition_clause>] <window_frame_clause> [<slide_clause>])
window_partition_clause ::= PARTITION BY <column_list>
window_frame_clause    ::= <window_frame_units> <window_frame_start>
window_frame_units     ::= ROWS | RANGE
window_frame_start     ::= UNBOUNDED PRECEDING | <window_frame_preceding>
window_frame_preceding ::= <value_spec> PRECEDING
value_spec             ::= INTEGER [UNITS]
slide_clause           ::= SLIDE value_spec | ACTIVE EXPIRATION
"""

from __future__ import annotations

from itertools import product

import pytest
from sqlglot import exp

from headrace.algebra.user_aggregates.forms import Form
from headrace.algebra.user_aggregates.windows_of_calls import form_of
from headrace.errors import DefinitionError, LanguageError
from headrace.language import Select, parse_one

SECOND = 1_000_000


def window_of(text: str) -> exp.Window:
    """The window of a call, which is the same when it is written out and read again."""
    statement = parse_one(f"SELECT f(x, y) OVER ({text}) FROM s")
    assert isinstance(statement, Select)
    again = parse_one(statement.sql())
    assert isinstance(again, Select)
    assert again.query == statement.query
    found = statement.query.tree.find(exp.Window)
    assert found is not None
    return found


FRAMES = {
    "ROWS UNBOUNDED PRECEDING": Form("rows"),
    "ROWS 0 PRECEDING": Form("rows", 1),
    "ROWS 9 PRECEDING": Form("rows", 10),
    "RANGE UNBOUNDED PRECEDING": Form("range"),
    "RANGE 5 PRECEDING": Form("range", 5 * SECOND),
    "RANGE 5 SECONDS PRECEDING": Form("range", 5 * SECOND),
    "RANGE 1 MINUTE PRECEDING": Form("range", 60 * SECOND),
    "RANGE 2 HOURS PRECEDING": Form("range", 7200 * SECOND),
    "RANGE 1 DAY PRECEDING": Form("range", 86400 * SECOND),
    "RANGE 10 MILLISECONDS PRECEDING": Form("range", SECOND // 100),
}
PARTITIONS = {"": [], "PARTITION BY a ": ["a"], "PARTITION BY a, s.b ": ["a", "b"]}
SLIDES = {
    "rows": {"": None, " SLIDE 10": 10, " SLIDE 1": 1},
    "range": {"": None, " SLIDE 10": 10 * SECOND, " SLIDE 1 MINUTE": 60 * SECOND},
}


@pytest.mark.parametrize(("frame", "partition"), list(product(FRAMES, PARTITIONS)))
def test_every_production(frame: str, partition: str) -> None:
    form = FRAMES[frame]
    for slide, length in SLIDES[form.kind].items():
        window = window_of(f"{partition}{frame}{slide}")
        assert [column.name for column in window.args.get("partition_by") or ()] == PARTITIONS[partition]
        assert form_of(window, None) == Form(form.kind, form.length, length)
        # Words are read in any letters.
        assert form_of(window_of(f"{partition}{frame}{slide}".lower()), None) == Form(form.kind, form.length, length)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_active_expiration_replaces_the_slide(partition: str) -> None:
    window = window_of(f"{partition}RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION")
    assert form_of(window, None) == Form("range", 5 * SECOND, None, True)
    with pytest.raises(LanguageError):
        parse_one(f"SELECT f(x) OVER ({partition}RANGE 5 PRECEDING SLIDE 2 ACTIVE EXPIRATION) FROM s")


def test_what_sql_has_besides() -> None:
    """ESL leaves ORDER BY out; it and BETWEEN are SQL's, and can be written."""
    assert form_of(window_of("ORDER BY at ROWS 2 PRECEDING"), None) == Form("rows", 3)
    assert form_of(window_of("ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"), None) == Form("rows", 3)
    statement = parse_one("SELECT count(*) OVER (ROWS 2 PRECEDING SLIDE 3) AS n FROM s")
    assert isinstance(statement, Select)


@pytest.mark.parametrize(
    "text",
    [
        "2 PRECEDING",
        "ROWS 2 PRECEDING SLIDE",
        "ROWS 2 PRECEDING ACTIVE",
        "SLIDE 2",
        "ROWS 2 PRECEDING SLIDE 2 SLIDE 3",
        "ROWS 2 PRECEDING PARTITION BY a",
    ],
)
def test_what_is_no_window(text: str) -> None:
    with pytest.raises(LanguageError):
        parse_one(f"SELECT f(x) OVER ({text}) FROM s")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PARTITION BY a",
        "ROWS 2",
        "ROWS PRECEDING",
        "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        "ROWS 2 SECONDS PRECEDING",
        "ROWS 2 PRECEDING SLIDE 0",
        "ROWS 2 PRECEDING SLIDE 2 SECONDS",
        "RANGE 0 SECONDS PRECEDING",
        "ROWS 2 PRECEDING ACTIVE EXPIRATION",
        "RANGE UNBOUNDED PRECEDING ACTIVE EXPIRATION",
    ],
)
def test_what_is_no_window_of_a_stream(text: str) -> None:
    with pytest.raises(DefinitionError) as error:
        form_of(window_of(text), None)
    assert error.value.condition == "BAD_WINDOW"
