"""MATCH_RECOGNIZE and PATTERN are two spellings of one description."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import DefinitionError
from tests.part_wise.tools import VIEW1, described


def clause(
    measures: str = "count(*) AS ct, sum(loss) AS sum_loss",
    pattern: str = "(a b c d+)",
    define: str = "a AS a.loss > 10, b AS b.loss > 10, c AS c.loss > 10, d AS d.loss > 10",
    rows: str = "ONE ROW PER MATCH",
    select: str = "*",
    tail: str = "",
) -> str:
    return (
        f"SELECT {select} FROM M MATCH_RECOGNIZE (PARTITION BY src, dest ORDER BY ts MEASURES {measures} "
        f"{rows} PATTERN {pattern} DEFINE {define}) AS m {tail}"
    )


def test_view1_in_both_spellings() -> None:
    found = described(clause())
    assert found.order_by == ("ts",)
    assert replace(found, order_by=()) == described(VIEW1)
    assert described(clause(select="src, dest, ct, m.sum_loss")) == found
    assert described(clause(rows="ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW")) == found
    assert described(clause(rows="")) == found


def test_a_column_without_variable_is_one_of_the_row_tried() -> None:
    assert described(
        clause(define="a AS loss > 10, b AS M.loss > 10, c AS c.loss > 10 AND TRUE, d AS (loss > 10)")
    ) == (described(clause()))


def test_measures_of_all_kinds() -> None:
    found = described(
        clause(
            "count(*) AS ct, sum(d.loss) AS s, LAST(d.loss) AS l, d.price AS p, loss AS x, FINAL FIRST(a.ts) AS f",
            define="d AS d.loss > 10, b AS b.loss > a.loss OR b.loss > 7",
            pattern="(a b d+) WITHIN INTERVAL '10' MINUTE",
        )
    )
    assert found == replace(
        described(
            """
            SELECT src, dest, count(*) AS ct, sum(d.loss) AS s, LAST(d.loss) AS l, LAST(d.price) AS p, LAST(loss) AS x,
                   FIRST(a.ts) AS f
            FROM M PATTERN [a, b, d+] WITHIN 10 MINUTES
            WHERE d.loss > 10 AND (b.loss > a.loss OR b.loss > 7)
            GROUP BY src, dest
            """
        ),
        order_by=("ts",),
    )


def test_the_select_around_it() -> None:
    found = described(clause(select="dest AS d, src, sum_loss / ct AS mean", tail="WHERE ct > 5"))
    assert [(item.name, item.expression.sql()) for item in found.items] == [
        ("d", "dest"), ("src", "src"), ("mean", "SUM(loss) / COUNT(*)"),
    ]  # fmt: skip
    assert found.having is not None
    assert found.having.sql() == "COUNT(*) > 5"


def test_prev_in_define() -> None:
    found = described(clause(pattern="(a b+)", define="b AS b.loss > PREV(b.loss)"))
    assert [it.sql() for it in found.predicates] == ["b.loss > PREV(b.loss)"]
    assert described(clause(pattern="(a b+)", define="b AS loss > PREV(loss)")) == found


@pytest.mark.parametrize(
    "text",
    [
        clause(rows="ALL ROWS PER MATCH"),
        clause(rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS"),
        clause(rows="AFTER MATCH SKIP TO NEXT ROW"),
        clause(rows="AFTER MATCH SKIP TO LAST d"),
        clause(pattern="(a | b c d+)"),
        clause(pattern="(a b* c d+)"),
        clause(pattern="(a b? c d+)"),
        clause(pattern="(a b{2} c d+)"),
        clause(pattern="(a {- b -} c d+)"),
        clause(pattern="((a b)+ c d)"),
        clause(pattern="(^ a b c d $)"),
        clause(pattern="(a b c d+?)"),
        clause(pattern="(PERMUTE(a, b, c, d))"),
        clause(pattern="(a b c d+) SUBSET u = (a, b)"),
        clause(define="x AS x.loss > 10"),
        clause(define="b AS a.loss > 10"),
        clause(define="d AS d.loss > c.loss"),
        clause(measures="count(*) AS src"),
        clause(select="src, dest, nothing"),
        clause(select="src, dest, sum(ct) AS s"),
        clause(select="src, count(*) AS n", tail="GROUP BY src"),
        clause().replace("ORDER BY ts", "ORDER BY ts DESC"),
        clause().replace("ORDER BY ts", "ORDER BY ts + 1"),
        clause().replace("FROM M", "FROM (SELECT * FROM M)"),
    ],
)
def test_what_no_machine_means(text: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        described(text)
    assert raised.value.condition == "BAD_MATCH_RECOGNIZE"
    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (clause(select="src, ct"), "BAD_PATTERN_ITEM"),
        (clause(measures="stddev(loss) AS s"), "BAD_PATTERN_ITEM"),
        (clause(define="c AS c.loss > a.loss"), "BAD_PATTERN_PREDICATE"),
        (clause(tail="ORDER BY ct"), "BAD_PATTERN"),
        (clause(pattern="(a a)", define="a AS a.loss > 1"), "BAD_PATTERN"),
    ],
)
def test_what_is_refused_in_either_spelling(text: str, condition: str) -> None:
    from tests.part_wise.tools import machine

    with pytest.raises(DefinitionError) as raised:
        machine(text)
    assert raised.value.condition == condition
