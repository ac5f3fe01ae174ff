"""SELECTs with calls of aggregates, taken apart; no engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.algebra.user_aggregates.calls import TakenApart, has_blocks, taken_apart
from headrace.algebra.user_aggregates.definition import Versions, definition_of
from headrace.algebra.user_aggregates.forms import Form
from headrace.errors import DefinitionError
from headrace.language import CreateAggregate, Query, Select, parse_one

BODY = "{ INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x); } }"


def versions(*texts: str) -> Versions:
    found: Versions | None = None
    for text in texts:
        statement = parse_one(text)
        assert isinstance(statement, CreateAggregate)
        definition = definition_of(statement)
        found = (found or Versions(definition.name)).with_version(definition)
    assert found is not None
    return found


KNOWN = {
    "f": versions(f"CREATE AGGREGATE f(x DOUBLE) : DOUBLE {BODY}"),
    "pair": versions(f"CREATE AGGREGATE pair(x DOUBLE, y) : (low DOUBLE, high DOUBLE) {BODY}"),
    "max": versions(f"CREATE WINDOW AGGREGATE max(x Real) : Real {BODY}"),
}


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


def shown(of: Query) -> Sequence[str]:
    return ["k", "x", "t"]


def apart(text: str) -> TakenApart:
    found = taken_apart(query(text), KNOWN, lambda name: name.lower() == "s", shown)
    assert found is not None
    return found


def refused(text: str) -> str:
    with pytest.raises(DefinitionError) as error:
        apart(text)
    assert error.value.hint
    return error.value.condition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT f(x) FROM t", True),
        ("SELECT F(x) FROM t", True),
        ("SELECT sum(x) FROM t GROUP BY k", False),
        ("SELECT max(x) FROM t GROUP BY k", False),  # the user's is for windows alone
        ("SELECT max(x) OVER (ORDER BY t ROWS 3 PRECEDING) FROM t", True),
        ("SELECT sum(x) OVER (ORDER BY t ROWS 3 PRECEDING) FROM t", False),
        ("SELECT sum(x) OVER (ROWS 3 PRECEDING SLIDE 2) FROM t", True),
        ("SELECT sum(x) OVER (ROWS 3 PRECEDING) FROM s", True),
        ("SELECT sum(x) OVER (ROWS 3 PRECEDING) FROM t", False),
        ("SELECT sum(x) OVER (ORDER BY x ROWS 3 PRECEDING) FROM s", False),
        ("SELECT sum(x) OVER w FROM s WINDOW w AS (ROWS 3 PRECEDING)", True),
        ("SELECT sum(x) OVER (PARTITION BY k) FROM s", False),
        ("SELECT k FROM t WHERE x > (SELECT f(x) FROM t)", True),
        ("WITH c AS (SELECT f(x) AS y FROM t) SELECT * FROM c", True),
        ("SELECT k FROM t UNION ALL SELECT f(x) FROM t", True),
        ("WITH s AS (SELECT 1 AS x) SELECT sum(x) OVER (ROWS 3 PRECEDING) FROM s", False),
    ],
)
def test_which_selects_are_blocks(text: str, expected: bool) -> None:
    assert has_blocks(query(text), KNOWN, lambda name: name.lower() == "s") is expected


def test_base_call_with_groups() -> None:
    found = apart("SELECT k, f(x + 1) AS y FROM s WHERE x > 0 GROUP BY s.k HAVING y > 2 ORDER BY y LIMIT 3")
    (block,) = found.blocks
    assert block.inner.sql() == "SELECT s.k AS `__p0`, CAST(x + 1 AS DOUBLE) AS `__a0` FROM s WHERE x > 0"
    assert block.passed == ("__p0",)
    (call,) = block.calls
    assert (call.arguments, call.partition, call.results) == (("__a0",), ("__p0",), ("__r0_0",))
    assert call.form == Form("base")
    assert found.outer.sql() == (
        "SELECT `__p0` AS `k`, `__r0_0` AS `y` FROM __block_0 WHERE (`__r0_0`) > 2 ORDER BY y LIMIT 3"
    )
    assert block.alone
    assert block.base


def test_call_over_a_window() -> None:
    found = apart("SELECT itemID, price * 2, sum(s.price) OVER (PARTITION BY itemID ROWS 49 PRECEDING SLIDE 10) FROM s")
    (block,) = found.blocks
    assert block.inner.sql() == ("SELECT itemID AS `__c0`, price AS `__c1`, s.price AS `__a0`, itemID AS `__p0` FROM s")
    assert block.calls[0].form == Form("rows", 50, 10)
    assert block.calls[0].versions is None
    assert block.calls[0].name == "sum"
    assert found.outer.sql() == (
        "SELECT `__c0` AS `itemID`, `__c1` * 2 AS `price * 2`, `__r0_0` AS `sum` FROM __block_0"
    )


@pytest.mark.parametrize(
    ("over", "form"),
    [
        ("ROWS 9 PRECEDING", Form("rows", 10)),
        ("ROWS 0 PRECEDING", Form("rows", 1)),
        ("ROWS BETWEEN 9 PRECEDING AND CURRENT ROW", Form("rows", 10)),
        ("ROWS UNBOUNDED PRECEDING", Form("rows", None)),
        ("RANGE UNBOUNDED PRECEDING", Form("range", None)),
        ("RANGE 5 PRECEDING", Form("range", 5_000_000)),
        ("RANGE 5 MINUTES PRECEDING SLIDE 1 MINUTE", Form("range", 300_000_000, 60_000_000)),
        ("RANGE INTERVAL 5 MINUTES PRECEDING", Form("range", 300_000_000)),
        ("RANGE INTERVAL '5' MINUTE PRECEDING", Form("range", 300_000_000)),
        ("RANGE 10 PRECEDING ACTIVE EXPIRATION", Form("range", 10_000_000, None, True)),
        ("ROWS 9 PRECEDING SLIDE 28", Form("rows", 10, 28)),
    ],
)
def test_windows(over: str, form: Form) -> None:
    (block,) = apart(f"SELECT f(x) OVER ({over}) FROM s").blocks
    assert block.calls[0].form == form
    # A view's text is printed and read again.
    again = query(query(f"SELECT f(x) OVER ({over}) FROM s").sql())
    assert taken_apart(again, KNOWN, lambda name: True, shown).blocks[0].calls[0].form == form  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "over",
    [
        "",
        "PARTITION BY k",
        "ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING",
        "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
        "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        "ROWS 1.5 PRECEDING",
        "ROWS 9 PRECEDING SLIDE 0",
        "ROWS 9 PRECEDING SLIDE 1 MINUTE",
        "RANGE 0 PRECEDING",
        "ROWS 9 PRECEDING ACTIVE EXPIRATION",
        "RANGE UNBOUNDED PRECEDING ACTIVE EXPIRATION",
    ],
)
def test_windows_that_are_none(over: str) -> None:
    assert refused(f"SELECT f(x) OVER ({over}) FROM s") == "BAD_WINDOW"


def test_several_columns() -> None:
    found = apart("SELECT pair(x, k), pair(x, k).High + 1 AS up, pair(x, k).low FROM t")
    (block,) = found.blocks
    assert len(block.calls) == 1
    assert block.inner.sql() == "SELECT CAST(x AS DOUBLE) AS `__a0`, k AS `__a1` FROM t"
    assert found.outer.sql() == (
        "SELECT `__r0_0` AS `low`, `__r0_1` AS `high`, `__r0_1` + 1 AS `up`, `__r0_0` AS `low` FROM __block_0"
    )


def test_stars_and_joins_and_orders() -> None:
    found = apart(
        "SELECT s.*, f(x) OVER (ORDER BY t DESC ROWS 3 PRECEDING) AS y FROM s JOIN r ON s.k = r.k QUALIFY y > 1"
    )
    (block,) = found.blocks
    assert block.inner.sql() == (
        "SELECT s.`k` AS `__c0`, s.`x` AS `__c1`, s.`t` AS `__c2`, CAST(x AS DOUBLE) AS `__a0`, t AS `__o0` FROM s "
        "JOIN r ON s.k = r.k"
    )
    assert block.order == ("`__o0` DESC NULLS LAST",)
    assert block.order_by == ("t",)
    assert [(one.number, one.alias) for one in block.sources] == [(0, "s"), (1, "r")]
    assert not block.alone
    assert found.outer.sql().endswith("FROM __block_0 WHERE (`__r0_0`) > 1")


def test_blocks_inside_others_are_left_to_them() -> None:
    found = apart("WITH c AS (SELECT f(x) AS y FROM t), d AS (SELECT f(y) AS z FROM c) SELECT * FROM d JOIN c ON true")
    assert [block.inner.sql() for block in found.blocks] == [
        "SELECT CAST(x AS DOUBLE) AS `__a0` FROM t",
        "WITH c AS (SELECT f(x) AS y FROM t) SELECT CAST(y AS DOUBLE) AS `__a0` FROM c",
    ]
    nested = apart("SELECT f(y) FROM (SELECT f(x) AS y FROM t) AS c")
    assert len(nested.blocks) == 1
    assert "f(x)" in nested.blocks[0].inner.sql()


def test_grouping_by_numbers_aliases_and_expressions() -> None:
    for group in ("1", "day", "x % 7", "ALL"):
        (block,) = apart(f"SELECT x % 7 AS day, f(x) FROM t GROUP BY {group}").blocks
        assert block.inner.sql() == "SELECT x % 7 AS `__p0`, CAST(x AS DOUBLE) AS `__a0` FROM t"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT k, f(x) FROM t", "NOT_GROUPED"),
        ("SELECT k, f(x) FROM t GROUP BY x", "NOT_GROUPED"),
        ("SELECT f(x), f(x) OVER (ROWS 3 PRECEDING) FROM s", "MIXED_CALLS"),
        ("SELECT f(x) OVER (ROWS 3 PRECEDING) FROM s GROUP BY x", "GROUPED_WINDOW"),
        ("SELECT f(DISTINCT x) FROM t", "BAD_CALL"),
        ("SELECT f(x) FILTER (WHERE x > 1) FROM t", "BAD_CALL"),
        ("SELECT f(x, 1) FROM t", "WRONG_ARGUMENTS"),
        ("SELECT f(*) FROM t", "WRONG_ARGUMENTS"),
        ("SELECT f(f(x)) FROM t", "NESTED_CALL"),
        ("SELECT pair(x, k) + 1 FROM t", "SEVERAL_COLUMNS"),
        ("SELECT pair(x, k).middle FROM t", "UNKNOWN_COLUMN"),
        ("SELECT f(x) FROM t WHERE f(x) > 1", "MISPLACED_CALL"),
        ("SELECT f(x), (SELECT 1) FROM t", "SUBQUERY_BESIDE_CALL"),
        (
            "SELECT f(x) OVER (ORDER BY a ROWS 3 PRECEDING), f(x) OVER (ORDER BY b ROWS 3 PRECEDING) FROM t",
            "DIFFERENT_ORDERS",
        ),
        ("SELECT * FROM (SELECT f(x) FROM s) [ROWS 10]", "WINDOW_OVER_AGGREGATE"),
        ("SELECT f(x) OVER nothing FROM s", "BAD_WINDOW"),
    ],
)
def test_what_is_refused(text: str, condition: str) -> None:
    assert refused(text) == condition
