"""What the body of an aggregate can say, worked out by hand, and what it cannot."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from headrace.algebra.user_aggregates.forms import Form
from headrace.errors import DefinitionError, EngineError
from headrace.maintenance.user_aggregates.blocks import Block
from tests.user_aggregates.running import call_of, defined, pieces, rows_over, same, table_of, whole


def results(text: str, values: list[Any], type_: str = "BIGINT", form: Form | None = None) -> list[Any]:
    """What an aggregate of one argument tells of these values, a second apart; the pieces tell the same."""
    versions = defined(text)
    names = [f"r{number}" for number in range(len(versions.any.returns))]
    rows = [(number, value) for number, value in enumerate(values)]
    table = table_of(rows, {"x": type_})
    block = Block((call_of(versions, form or Form(), ["x"], (), names),), (), streaming=False)
    found = whole(block, table, len(rows))
    if versions.base is None or not versions.base.blocking:
        same(pieces(block, table, len(rows), [min(cut, len(rows)) for cut in (1, 2, 2)]), found)
    told = [row[:-1] for row in found]
    return [row[0] for row in told] if len(names) == 1 else told


def every_row(statements: str, tables: str = "", type_: str = "BIGINT", returns: str = "BIGINT") -> str:
    """An aggregate that does the same with every row."""
    return f"CREATE AGGREGATE f(x {type_}) : {returns} {{ {tables} INITIALIZE: ITERATE: {{ {statements} }} }}"


def of_a_value(expression: str, type_: str = "BIGINT", returns: str = "BIGINT") -> str:
    return every_row(f"INSERT INTO RETURN VALUES ({expression});", "", type_, returns)


# --- Statements ----------------------------------------------------------------------------------------------------

SEEN = "TABLE seen(v BIGINT, n BIGINT);"


def test_update_where_and_insert_where() -> None:
    text = every_row(
        "UPDATE seen SET n = n + 1 WHERE v = x;"
        "INSERT INTO seen VALUES (x, 1) WHERE NOT EXISTS (SELECT v FROM seen WHERE v = x);"
        "INSERT INTO RETURN SELECT n FROM seen WHERE v = x;",
        SEEN,
    )
    assert results(text, [5, 6, 5, 5, 6]) == [1, 1, 2, 3, 2]


def test_an_update_sees_the_table_as_it_was() -> None:
    """Each row gets the sum of all: were rows changed one by one, later ones would see other sums."""
    text = every_row(
        "INSERT INTO seen VALUES (x, 0); UPDATE seen SET v = (SELECT sum(s.v) FROM seen AS s);"
        "INSERT INTO RETURN SELECT max(v) FROM seen;",
        SEEN,
    )
    assert results(text, [1, 2, 3]) == [1, 3, 9]
    # Columns of one row are set at once.
    swap = every_row(
        "INSERT INTO seen VALUES (x, 7); UPDATE seen SET v = n, n = v; INSERT INTO RETURN SELECT v FROM seen;", SEEN
    )
    assert results(swap, [1]) == [7]


def test_delete() -> None:
    text = every_row(
        "INSERT INTO seen VALUES (x, 0); DELETE FROM seen WHERE v < (SELECT max(s.v) FROM seen AS s);"
        "INSERT INTO RETURN SELECT count(*) FROM seen;",
        SEEN,
    )
    assert results(text, [2, 2, 1, 3, 3]) == [1, 2, 2, 1, 2]
    emptied = every_row(
        "INSERT INTO seen VALUES (x, 0); INSERT INTO RETURN SELECT count(*) FROM seen; DELETE FROM seen;", SEEN
    )
    assert results(emptied, [1, 1]) == [1, 1]


def test_insert_select_and_named_columns() -> None:
    doubled = every_row(
        "INSERT INTO seen SELECT v + 1, n FROM seen; INSERT INTO seen (n) VALUES (x);"
        "INSERT INTO RETURN SELECT count(*) * 100 + count(v) FROM seen;",
        SEEN,
    )
    # A select reads the table as it was before: 0, 1, 3, 7 rows double. v, which is not named, is NULL for ever.
    assert results(doubled, [1, 1, 1]) == [100, 300, 700]
    assert results(every_row("INSERT INTO RETURN VALUES (x, 1), (x, 2);", returns="(a BIGINT, b BIGINT)"), [4]) == [
        (4, 1), (4, 2),
    ]  # fmt: skip


def test_joins() -> None:
    text = every_row(
        "INSERT INTO one VALUES (x); INSERT INTO two VALUES (x, 10 * x);"
        "INSERT INTO RETURN SELECT sum(t.w) FROM one AS o JOIN two AS t ON o.v < t.v;",
        "TABLE one(v BIGINT); TABLE two(v BIGINT, w BIGINT);",
    )
    # Pairs (1,2); then (1,2), (1,3), (2,3).
    assert results(text, [1, 2, 3]) == [None, 20, 80]
    crossed = text.replace("JOIN two AS t ON o.v < t.v", ", two AS t WHERE o.v < t.v")
    assert results(crossed, [1, 2, 3]) == [None, 20, 80]


def test_group_by_having_order_limit() -> None:
    text = """CREATE AGGREGATE f(x BIGINT) : (v BIGINT, n BIGINT) { TABLE seen(v BIGINT);
        INITIALIZE: ITERATE: { INSERT INTO seen VALUES (x); }
        TERMINATE: { INSERT INTO RETURN SELECT v, count(*) FROM seen GROUP BY v HAVING count(*) > 1
            ORDER BY count(*) DESC, v LIMIT 2; } }"""
    assert results(text, [3, 1, 2, 2, 1, 1, 3, 9]) == [(1, 3), (2, 2)]
    distinct = text.replace("v, count(*) FROM seen GROUP BY v HAVING count(*) > 1", "DISTINCT v, 0 FROM seen").replace(
        "count(*) DESC, v LIMIT 2", "v DESC"
    )
    assert results(distinct, [1, 3, 1, None, 3]) == [(3, 0), (1, 0), (None, 0)]


def test_subqueries() -> None:
    text = every_row(
        "INSERT INTO RETURN SELECT CASE WHEN x IN (SELECT v FROM seen) THEN (SELECT count(*) FROM seen)"
        " WHEN EXISTS (SELECT v FROM seen WHERE v > x) THEN -1 ELSE 0 END; INSERT INTO seen VALUES (x, 0);",
        SEEN,
    )
    assert results(text, [5, 3, 5, 9]) == [0, -1, 2, 0]
    # A subquery without a row is NULL.
    assert results(every_row("INSERT INTO RETURN VALUES ((SELECT v FROM seen));", SEEN), [1]) == [None]


def test_another_aggregate_inside() -> None:
    text = """CREATE AGGREGATE total(x BIGINT) : BIGINT { TABLE s(t BIGINT);
        INITIALIZE: { INSERT INTO s VALUES (x); } ITERATE: { UPDATE s SET t = t + x; }
        TERMINATE: { INSERT INTO RETURN SELECT t FROM s; } };
        CREATE WINDOW AGGREGATE f(x BIGINT) : BIGINT { TABLE inwindow(wx BIGINT);
        INITIALIZE: ITERATE: { INSERT INTO RETURN SELECT total(wx) FROM inwindow; } }"""
    total = defined(text.split(";\n        CREATE WINDOW")[0])
    versions = defined(text)
    block = Block((call_of(versions, rows_over(2), ["x"]),), (), streaming=True, known={"total": total})
    assert [row[0] for row in whole(block, table_of([(0, 1), (1, 2), (2, 5)], {"x": "BIGINT"}), 0)] == [1, 3, 7]


def test_the_window_as_a_table() -> None:
    text = """CREATE WINDOW AGGREGATE f(x BIGINT) : (least BIGINT, most BIGINT, oldest BIGINT) {
        TABLE inwindow(wx BIGINT);
        INITIALIZE: ITERATE: { INSERT INTO RETURN SELECT min(wx), max(wx), oldest().wx FROM inwindow; } }"""
    assert results(text, [5, 1, 3, 2], form=rows_over(2)) == [(5, 5, 5), (1, 5, 5), (1, 3, 1), (2, 3, 3)]


def test_deleting_from_the_window() -> None:
    """Compared with the row that comes, rows before it are meant (Example 13); else that row too (Example 18)."""
    text = """CREATE WINDOW AGGREGATE f(x BIGINT) : BIGINT { TABLE inwindow(wx BIGINT);
        INITIALIZE: ITERATE: { DELETE FROM inwindow WHERE %s;
            INSERT INTO RETURN SELECT count(*) FROM inwindow; } }"""
    assert results(text % "wx <= x", [3, 1, 2, 4], form=rows_over(9)) == [1, 2, 2, 1]
    assert results(text % "wx = 2", [3, 1, 2, 4], form=rows_over(9)) == [1, 2, 2, 3]


# --- Values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x = 1", [True, False, None]),
        ("x = 1 OR x > 1", [True, True, None]),
        ("x = 1 OR TRUE", [True, True, True]),
        ("x = 1 AND FALSE", [False, False, False]),
        ("x = 1 AND x IS NULL", [False, False, None]),
        ("NOT (x = 1)", [False, True, None]),
        ("x IS NULL", [False, False, True]),
        ("x IS NOT NULL", [True, True, False]),
        ("x <=> NULL", [False, False, True]),
        ("x IN (1, NULL)", [True, None, None]),
        ("x NOT IN (1, NULL)", [False, None, None]),
        ("x BETWEEN 2 AND 3", [False, True, None]),
        ("x <> 1", [False, True, None]),
    ],
)
def test_truth_has_three_values(expression: str, expected: list[bool | None]) -> None:
    assert results(of_a_value(expression, returns="BOOLEAN"), [1, 2, None]) == expected


def test_null_is_not_true_in_where() -> None:
    text = every_row("INSERT INTO RETURN VALUES (x) WHERE x <> 1;")
    assert results(text, [1, None, 2]) == [2]
    assert results(text.replace("x <> 1", "NOT (x = 1)"), [1, None, 2]) == [2]


@pytest.mark.parametrize(
    ("expression", "given", "expected"),
    [
        ("CASE WHEN x > 1 THEN 10 WHEN x = 1 THEN 20 END", 1, 20),
        ("CASE WHEN x > 1 THEN 10 WHEN x = 1 THEN 20 END", None, None),
        ("CASE x WHEN 1 THEN 5 ELSE 6 END", 1, 5),
        ("IF(x > 1, 1, 2)", 1, 2),
        ("coalesce(x, 7)", None, 7),
        ("nullif(x, 3)", 3, None),
        ("greatest(x, 4, NULL)", 3, 4),
        ("least(x, 4)", 3, 3),
        ("x % 3", -7, -1),
        ("x DIV 2", -7, -3),
        ("x / 0", 1, None),
        ("x % 0", 1, None),
        ("abs(x)", -3, 3),
        ("round(x / 2)", 5, 3),
        ("floor(x / 2)", -5, -3),
        ("ceil(x / 2)", -5, -2),
        ("CAST(x / 2 AS INT)", 5, 2),
        ("x & 6", 11, 2),
        ("-x + 2 * 3", 4, 2),
        ("power(x, 2)", 5, 25),
    ],
)
def test_numbers(expression: str, given: int | None, expected: int | None) -> None:
    assert results(of_a_value(expression), [given]) == [expected]


def test_division_is_real() -> None:
    assert results(of_a_value("x / 2", returns="DOUBLE"), [5]) == [2.5]


def test_text() -> None:
    def told(expression: str, returns: str = "STRING") -> Any:
        return results(of_a_value(expression, "STRING", returns), ["Straße "], "STRING")[0]

    assert told("upper(trim(x)) || '!'") == "STRASSE!"
    assert told("length(x)", "INT") == 7
    assert told("substring(x, 2, 3)") == "tra"
    assert told("substring(x, -3)") == "ße "
    assert told("concat(x, 1, TRUE)") == "Straße 1true"
    assert told("x < 'T'", "BOOLEAN") is True
    assert told("lower(NULL || x)") is None


def test_times() -> None:
    at = datetime(2024, 2, 28, 23, 59, tzinfo=UTC)

    def told(expression: str, returns: str) -> Any:
        return results(of_a_value(expression, "TIMESTAMP", returns), [at], "TIMESTAMP")[0]

    assert told("x + INTERVAL 2 MINUTES", "TIMESTAMP") == at + timedelta(minutes=2)
    assert told("x - 60", "TIMESTAMP") == at - timedelta(minutes=1)
    assert told("x - TIMESTAMP '2024-02-28 00:00:00' > INTERVAL '23 HOURS'", "BOOLEAN") is True
    assert told("x < '2024-02-29 00:00:00'", "BOOLEAN") is True
    assert told("CAST(x AS BIGINT)", "BIGINT") == int(at.timestamp())
    days = results(of_a_value("x + 2", "DATE", "DATE"), [date(2024, 2, 28)], "DATE")
    assert days == [date(2024, 3, 1)]


def test_decimals_are_exact() -> None:
    text = """CREATE AGGREGATE f(x DECIMAL(10,2)) : DECIMAL(20,2) { TABLE s(t DECIMAL(20,2));
        INITIALIZE: { INSERT INTO s VALUES (x); } ITERATE: { UPDATE s SET t = t + x; }
        TERMINATE: { INSERT INTO RETURN SELECT t FROM s; } }"""
    assert results(text, [Decimal("0.10")] * 3, "DECIMAL(10,2)") == [Decimal("0.30")]


def test_numbers_that_do_not_fit() -> None:
    for text, value in ((of_a_value("x", returns="TINYINT"), 200), (of_a_value("x + 1"), 2**63 - 1)):
        with pytest.raises(EngineError) as error:
            results(text, [value])
        assert error.value.condition == "ARITHMETIC_OVERFLOW"


# --- What is refused -----------------------------------------------------------------------------------------------

WINDOW = "CREATE WINDOW AGGREGATE f(x BIGINT) : BIGINT { TABLE inwindow(wx BIGINT); INITIALIZE: ITERATE: { %s } }"


@pytest.mark.parametrize(
    ("text", "condition", "spot"),
    [
        (of_a_value("x + y"), "UNKNOWN_COLUMN", "y"),
        (every_row("UPDATE seen SET z = 1;", SEEN), "UNKNOWN_COLUMN", None),
        (every_row("INSERT INTO seen (v, z) VALUES (1, 2);", SEEN), "UNKNOWN_COLUMN", None),
        (every_row("INSERT INTO other VALUES (x);"), "UNKNOWN_TABLE", "other"),
        (every_row("INSERT INTO RETURN SELECT v FROM other;"), "UNKNOWN_TABLE", "other"),
        (of_a_value("frobnicate(x)"), "UNKNOWN_FUNCTION", None),
        (of_a_value("x + 'a'"), "WRONG_TYPE", None),
        (of_a_value("'a'"), "WRONG_TYPE", None),
        (every_row("INSERT INTO seen VALUES ('a', 1);", SEEN), "WRONG_TYPE", None),
        (every_row("INSERT INTO RETURN VALUES (1) WHERE x;"), "WRONG_TYPE", "x"),
        (every_row("INSERT INTO seen VALUES (x);", SEEN), "WRONG_COLUMN_COUNT", None),
        (every_row("INSERT INTO RETURN VALUES (x, x);"), "WRONG_COLUMN_COUNT", None),
        (every_row("INSERT INTO RETURN SELECT v FROM seen AS a, seen AS b;", SEEN), "AMBIGUOUS_COLUMN", "v"),
        (of_a_value("oldest()"), "NO_INWINDOW", None),
        (of_a_value("hash64(x, 1, 2)"), "WRONG_ARGUMENTS", None),
        (of_a_value("(SELECT v, n FROM seen)").replace("{  I", f"{{ {SEEN} I"), "WRONG_ARGUMENTS", None),
        (every_row("INSERT INTO RETURN SELECT f(v) FROM seen;", SEEN), "RECURSIVE_AGGREGATE", None),
        (WINDOW % "INSERT INTO inwindow VALUES (x);", "WINDOW_IS_KEPT", "inwindow"),
        (WINDOW % "UPDATE inwindow SET wx = 1;", "WINDOW_IS_KEPT", "inwindow"),
        (WINDOW % "INSERT INTO RETURN VALUES (oldest().other);", "UNKNOWN_COLUMN", None),
    ],
)
def test_what_a_body_cannot_say(text: str, condition: str, spot: str | None) -> None:
    with pytest.raises(DefinitionError) as error:
        defined(text)
    assert error.value.condition == condition
    assert "of f)" in error.value.message
    place = error.value.place
    assert place is not None
    # The place is in the statement, which is shown with the spot underlined.
    assert place.text in text
    if spot is not None:
        line = place.text.splitlines()[place.line - 1]
        assert line[place.column - 1 : place.column - 1 + place.length] == spot
    assert "^" in str(error.value)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("CREATE WINDOW AGGREGATE f(x INT) : INT { INITIALIZE: { } TERMINATE: { SELECT 1; } }", "MISPLACED_BLOCK"),
        (WINDOW.replace("inwindow(wx BIGINT)", "inwindow(a BIGINT, b BIGINT)") % "", "WRONG_COLUMN_COUNT"),
        (WINDOW.replace("inwindow(wx BIGINT)", "inwindow(wx STRING)") % "", "WRONG_TYPE"),
        ("CREATE AGGREGATE f(x INT, x INT) : INT { ITERATE: { } }", "DUPLICATE_COLUMN"),
        ("CREATE AGGREGATE f(x INT) : INT { TABLE s(a INT); TABLE s(b INT); ITERATE: { } }", "DUPLICATE_TABLE"),
        ("CREATE AGGREGATE f(x INT) : INT { TABLE s(a); ITERATE: { } }", "MISSING_TYPE"),
        (every_row("INSERT INTO RETURN VALUES (;"), "BAD_STATEMENT"),
        (every_row("SELECT v FROM seen LEFT JOIN seen AS b ON TRUE;", SEEN), "NOT_IN_A_BODY"),
    ],
)
def test_what_an_aggregate_cannot_be(text: str, condition: str) -> None:
    with pytest.raises(DefinitionError) as error:
        defined(text)
    assert error.value.condition == condition


@pytest.mark.parametrize(
    ("base", "window", "condition"),
    [
        ("AGGREGATE f(x INT) : INT", "WINDOW AGGREGATE f(x INT, y INT) : INT", "VERSIONS_DIFFER"),
        ("AGGREGATE f(x INT) : INT", "WINDOW AGGREGATE f(x INT) : (a INT, b INT)", "VERSIONS_DIFFER"),
        (
            "ALGEBRAIC AGGREGATE f(x INT) : (a INT, b INT)", "ALGEBRAIC WINDOW AGGREGATE f(x INT) : (a INT, b INT)",
            "NOT_ALGEBRAIC",
        ),
    ],
)  # fmt: skip
def test_versions_go_together(base: str, window: str, condition: str) -> None:
    with pytest.raises(DefinitionError) as error:
        defined(f"CREATE {base} {{ ITERATE: {{ }} }}; CREATE {window} {{ ITERATE: {{ }} }}")
    assert error.value.condition == condition


def test_two_that_call_each_other() -> None:
    """The first is made without the second, so it is the second that is refused."""
    first = every_row("INSERT INTO RETURN SELECT f(v) FROM seen;", SEEN).replace("f(x", "g(x")
    one = defined(every_row("INSERT INTO RETURN VALUES (x);"))
    other = defined(first, {"f": one})
    with pytest.raises(DefinitionError) as error:
        defined(every_row("INSERT INTO RETURN SELECT g(v) FROM seen;", SEEN), {"g": other})
    assert error.value.condition == "RECURSIVE_AGGREGATE"
