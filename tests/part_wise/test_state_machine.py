"""Algorithm 1: the edges of the machine and what it remembers."""

from __future__ import annotations

import pytest

from headrace.algebra.part_wise.patterns.pattern_query import Item, Variable, is_pattern_query
from headrace.algebra.part_wise.patterns.state_machine import describe_machine
from headrace.errors import DefinitionError
from tests.part_wise.tools import VIEW1, described, machine, query

SECOND = 1_000_000


def edges(text: str) -> dict[tuple[int, int], str]:
    return {(edge.source, edge.target): edge.condition() for edge in machine(text).edges}


def of_where(pattern: str, where: str) -> dict[tuple[int, int], str]:
    return edges(f"SELECT count(*) AS n FROM M PATTERN [{pattern}] WHERE {where}")


def test_figure_4() -> None:
    found = machine(VIEW1)
    assert found.variables == (Variable("a"), Variable("b"), Variable("c"), Variable("d", plus=True))
    assert found.accepting == 4
    assert found.auxlist == ()
    assert edges(VIEW1) == dict.fromkeys([(0, 1), (1, 2), (2, 3), (3, 4), (4, 4)], "New.loss > 10")
    assert describe_machine(found) == [
        "state 0: begin",
        "state 1: a",
        "state 2: b",
        "state 3: c",
        "state 4: d+, accepting",
        "edge 0 -> 1: New.loss > 10",
        "edge 1 -> 2: New.loss > 10",
        "edge 2 -> 3: New.loss > 10",
        "edge 3 -> 4: New.loss > 10",
        "edge 4 -> 4: New.loss > 10",
    ]


def test_the_description_of_view1() -> None:
    found = described(VIEW1)
    assert (found.source, found.groups, found.within, found.order_by) == ("M", ("src", "dest"), None, ())
    assert [it.sql() for it in found.predicates] == ["a.loss > 10", "b.loss > 10", "c.loss > 10", "d.loss > 10"]
    assert [(item.name, item.expression.sql()) for item in found.items] == [
        ("src", "src"), ("dest", "dest"), ("ct", "COUNT(*)"), ("sum_loss", "SUM(loss)"),
    ]  # fmt: skip
    assert isinstance(found.items[0], Item)
    assert is_pattern_query(query(VIEW1))
    assert not is_pattern_query(query("SELECT * FROM M"))


def test_a_predicate_on_two_variables_is_asked_on_entering_only() -> None:
    found = machine("SELECT count(*) AS n FROM M PATTERN [a, b+] WHERE b.loss > a.loss AND b.price < a.price")
    assert {(it.source, it.target): it.condition() for it in found.edges} == {
        (0, 1): "TRUE", (1, 2): "New.loss > Prev.loss AND New.price < Prev.price", (2, 2): "TRUE",
    }  # fmt: skip
    assert found.auxlist == ("loss", "price")
    assert "of the last row remembered: loss, price" in describe_machine(found)
    assert "edge 2 -> 2: any row" in describe_machine(found)


def test_more_predicates_are_joined() -> None:
    assert of_where("a", "a.loss > 10 AND (a.loss < 20 OR a.note = 'x')") == {
        (0, 1): "New.loss > 10 AND (New.loss < 20 OR New.note = 'x')"
    }
    assert of_where("a, b", "(a.loss > 1 OR b.loss > 2)") == {(0, 1): "TRUE", (1, 2): "(Prev.loss > 1 OR New.loss > 2)"}


def test_prev_is_the_row_before() -> None:
    assert of_where("a, b+", "b.loss > PREV(b.loss)") == {
        (0, 1): "TRUE", (1, 2): "New.loss > Prev.loss", (2, 2): "New.loss > Prev.loss",
    }  # fmt: skip
    assert of_where("a, b", "b.loss > LAST(a.loss)")[1, 2] == "New.loss > Prev.loss"


def test_fields_and_other_spellings() -> None:
    assert of_where("a, b", "B.pos.x > A.pos.x")[1, 2] == "(New.pos.x) > (Prev.pos.x)"
    assert of_where("a", "NOT a.loss IS NULL AND TRUE") == {(0, 1): "NOT New.loss IS NULL"}


def test_a_predicate_without_variable_chooses_the_input() -> None:
    found = described("SELECT count(*) AS n FROM M PATTERN [a] AS m2 WHERE loss > 1 AND m2.loss < 9 AND a.loss = 3")
    assert [it.sql() for it in found.filters] == ["loss > 1", "loss < 9"]
    assert [it.sql() for it in found.predicates] == ["a.loss = 3"]


def test_within() -> None:
    found = machine("SELECT count(*) AS n FROM M PATTERN [a, b] WITHIN 10 MINUTES")
    assert found.within == 600 * SECOND
    assert describe_machine(found)[-1] == "a run is over 600 SECONDS after its first row"


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("c.loss > a.loss", "BAD_PATTERN_PREDICATE"),
        ("a.loss + b.loss > c.loss", "BAD_PATTERN_PREDICATE"),
        ("x.loss > 1", "UNKNOWN_PATTERN_VARIABLE"),
        ("a.loss > loss", "BAD_PATTERN_PREDICATE"),
        ("a.loss > (SELECT max(x) FROM t)", "BAD_PATTERN_PREDICATE"),
        ("a.loss > max(b.loss)", "BAD_PATTERN_PREDICATE"),
        ("a.ts > Now - 5", "BAD_PATTERN_PREDICATE"),
        ("a.loss > rand()", "BAD_PATTERN"),
        ("a.loss > PREV(a.loss)", "BAD_PATTERN_PREDICATE"),
        ("c.loss > PREV(b.loss)", "BAD_PATTERN_PREDICATE"),
        ("c.loss > PREV(b.loss + c.loss)", "BAD_PATTERN_PREDICATE"),
        ("c.loss > PREV(c.loss, 2)", "BAD_PATTERN_PREDICATE"),
    ],
)
def test_predicates_that_no_machine_has(where: str, condition: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        of_where("a, b, c", where)
    assert raised.value.condition == condition
    assert raised.value.hint
    assert raised.value.place


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT count(*) AS n FROM M PATTERN [a, A]", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M PATTERN [a] JOIN t ON t.x = M.x", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M [RANGE 5] PATTERN [a]", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM (SELECT * FROM M PATTERN [a])", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM CHANGES(M) PATTERN [a]", "BAD_PATTERN"),
        ("SELECT DISTINCT count(*) AS n FROM M PATTERN [a]", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M PATTERN [a] ORDER BY n", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M PATTERN [a] LIMIT 1", "BAD_PATTERN"),
        ("WITH q AS (SELECT 1) SELECT count(*) AS n FROM M PATTERN [a]", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M PATTERN [a] UNION ALL SELECT 1", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M PATTERN [a] GROUP BY upper(src)", "BAD_PATTERN"),
        ("SELECT src, count(*) AS n FROM M PATTERN [a] GROUP BY ROLLUP (src)", "BAD_PATTERN"),
        ("SELECT src, count(*) AS n FROM M PATTERN [a] GROUP BY ALL", "BAD_PATTERN"),
        ("SELECT count(*) AS n FROM M PATTERN [a] GROUP BY src", "BAD_PATTERN_ITEM"),
        ("SELECT * FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT src FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT a.loss FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT count(DISTINCT loss) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT stddev(loss) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT sum(loss) FILTER (WHERE loss > 1) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT last(loss) IGNORE NULLS AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT LAST(loss, 1) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT sum(a.loss + b.loss) AS n FROM M PATTERN [a, b]", "BAD_PATTERN_ITEM"),
        ("SELECT sum(max(loss)) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT sum(loss) OVER (ORDER BY ts) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT count(*) AS n, sum(loss) AS N FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT count(*) AS n FROM M PATTERN [a] HAVING loss > 1", "BAD_PATTERN_ITEM"),
        ("SELECT count(x.loss) AS n FROM M PATTERN [a]", "UNKNOWN_PATTERN_VARIABLE"),
    ],
)
def test_queries_that_no_machine_means(text: str, condition: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        described(text)
    assert raised.value.condition == condition
    assert raised.value.hint
    assert raised.value.place
