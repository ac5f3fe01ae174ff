"""Faults that a review found, each as it was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.algebra.user_aggregates.builtins import builtin
from headrace.algebra.user_aggregates.checking import check, lookup
from headrace.algebra.user_aggregates.definition import Versions, definition_of
from headrace.algebra.user_aggregates.forms import Form, way_of
from headrace.errors import DefinitionError, HeadraceError
from headrace.language import CreateAggregate, parse_one
from headrace.language.types import arrow_type
from headrace.maintenance.user_aggregates.machine import Machine
from headrace.session import Session
from tests.conftest import rows


def versions_of(text: str) -> Versions:
    statement = parse_one(text)
    assert isinstance(statement, CreateAggregate)
    definition = definition_of(statement)
    check(definition, {})
    return Versions(definition.name).with_version(definition)


def told(
    versions: Versions, values: Sequence[Any], type_: str = "BIGINT", form: Form | None = None, *, native: bool = False
) -> list[Any]:
    form = form or Form()
    known = {versions.name.lower(): versions}
    machine = Machine(
        versions, form, way_of(versions, form, streaming=False), lambda name, types: lookup(known, name, types),
        [type_], (), ends=True, native=native,
    )  # fmt: skip
    column = pa.chunked_array([pa.array(values, arrow_type(type_))])
    ran = machine.run([column], pa.table({"a": values}), np.array([0, len(values)]), np.arange(len(values)), None, 0)
    return ran.values.column(0).to_pylist()


def body(
    statements: str, tables: str = "TABLE t(a BIGINT, b BIGINT);", returns: str = "BIGINT", x: str = "BIGINT"
) -> Versions:
    return versions_of(f"CREATE AGGREGATE f(x {x}) : {returns} {{ {tables} INITIALIZE: ITERATE: {{ {statements} }} }}")


@pytest.mark.parametrize("native", [False, True])
def test_null_in_a_comparison_does_not_go_on(native: bool) -> None:
    grouped = body("INSERT INTO t VALUES (7, 2); INSERT INTO RETURN SELECT count(*) FROM t GROUP BY a % b;")
    assert told(grouped, [1, 2, 3], native=native) == [1, 2, 3]
    if native:
        return
    same = body(
        "INSERT INTO t VALUES (1, 1); INSERT INTO RETURN SELECT (max(a) IS NULL) = (max(b) IS NULL) FROM t;",
        returns="BOOLEAN",
    )
    assert told(same, [1]) == [True]
    assert told(
        body("INSERT INTO t VALUES (1, 1); INSERT INTO RETURN SELECT count(*) FROM t GROUP BY ln(a);"), [1]
    ) == [1]


@pytest.mark.parametrize("native", [False, True])
def test_an_update_is_computed_from_the_old_row(native: bool) -> None:
    text = """CREATE AGGREGATE f(x DOUBLE) : DOUBLE { TABLE state(s DOUBLE);
        INITIALIZE: { INSERT INTO state VALUES (10); } ITERATE: { UPDATE state SET s = x / s;
        INSERT INTO RETURN SELECT s FROM state; } }"""
    assert told(versions_of(text), [1.0, 0.0], "DOUBLE", native=native) == [0.0]
    if not native:
        zero = text.replace("(10)", "(0)")
        assert told(versions_of(zero), [1.0, 5.0], "DOUBLE") == [None]


def test_delete_of_all_in_expire() -> None:
    text = """CREATE WINDOW AGGREGATE f(x BIGINT) : BIGINT { TABLE t(v BIGINT);
        INITIALIZE: ITERATE: { INSERT INTO t VALUES (x); INSERT INTO RETURN SELECT count(*) FROM t; }
        EXPIRE: { DELETE FROM t; } }"""
    assert told(versions_of(text), [1, 2, 3, 4, 5], form=Form("rows", 2)) == [1, 2, 1, 1, 1]


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_is_larger_than_all_others(name: str) -> None:
    values = [1.0, math.nan, 2.0, 0.0, 3.0, math.nan, math.nan]
    pick = max if name == "max" else min

    def best(window: list[float]) -> float:
        return pick(window, key=lambda one: (math.isnan(one), one))

    versions = builtin(name, ["DOUBLE"])
    assert versions is not None
    for form in (Form("rows", 3), Form("rows", None), Form("rows", 3, 1)):
        low = 0 if form.length is None else -form.length
        expected = [best(values[: number + 1][low:]) for number in range(len(values))]
        assert list(map(str, told(versions, values, "DOUBLE", form))) == list(map(str, expected))


def test_decimals_keep_their_digits() -> None:
    added = body("INSERT INTO RETURN VALUES (x + 0.1);", returns="DECIMAL(32,2)", x="DECIMAL(30,2)")
    assert told(added, [Decimal("12345678901234567890.25")], "DECIMAL(30,2)") == [Decimal("12345678901234567890.35")]
    total = builtin("sum", ["DECIMAL(38,2)"])
    assert total is not None
    large = Decimal("12345678901234567890123456789012.25")
    assert told(total, [large, large], "DECIMAL(38,2)", Form("rows", 2)) == [
        large, Decimal("24691357802469135780246913578024.50"),
    ]  # fmt: skip
    with pytest.raises(OverflowError):
        told(
            body("INSERT INTO RETURN VALUES (x * 2);", returns="DECIMAL(4,2)", x="DECIMAL(4,2)"),
            [Decimal("99")],
            "DECIMAL(4,2)",
        )


@pytest.mark.parametrize("native", [False, True])
def test_whole_numbers_are_rounded_whole(native: bool) -> None:
    text = "INSERT INTO RETURN VALUES (round(x) + round(x, -2));"
    assert told(body(text, ""), [2**53 + 1, -149], native=native) == [2**53 + 1 + (2**53 + 1 - 93 + 100), -249]


def test_text_that_is_no_number_is_null() -> None:
    cast = body("INSERT INTO RETURN VALUES (CAST(x AS BIGINT));", "", x="STRING")
    assert told(cast, [None, "a", " 7 ", "-3"], "STRING") == [None, None, 7, -3]


def test_subqueries_of_text_and_beside_aggregates() -> None:
    tables = "TABLE t(a STRING); TABLE u(b BIGINT);"
    largest = body(
        "INSERT INTO t VALUES (x); INSERT INTO RETURN VALUES ((SELECT max(a) FROM t));", tables, "STRING", "STRING"
    )
    assert told(largest, ["b", "a"], "STRING") == ["b", "b"]
    both = "INSERT INTO t VALUES ('x'); INSERT INTO RETURN SELECT count(*) * 10 + (SELECT count(*) FROM u) FROM t;"
    assert told(body(both, tables), [1, 2]) == [10, 20]


def test_odd_numbers() -> None:
    assert told(body("INSERT INTO RETURN VALUES (x % 0);", "", "INT"), [2**40]) == [None]
    assert (
        str(told(body("INSERT INTO RETURN VALUES (x % 2);", "", "DOUBLE", "DOUBLE"), [math.inf], "DOUBLE")[0]) == "nan"
    )
    with pytest.raises(OverflowError):
        told(body("INSERT INTO RETURN VALUES (x DIV 2);", "", "BIGINT", "DOUBLE"), [math.nan], "DOUBLE")
    for text in ("INSERT INTO RETURN VALUES (1e400);", "INSERT INTO RETURN SELECT a FROM t ORDER BY 3;"):
        with pytest.raises(DefinitionError) as error:
            body(text)
        assert error.value.place is not None


def test_small_things_a_body_can_say() -> None:
    alias = "INSERT INTO t VALUES (x, 0); UPDATE t AS q SET a = q.a + 1; INSERT INTO RETURN SELECT max(a) FROM t;"
    assert told(body(alias), [1, 5]) == [2, 6]
    assert told(body("INSERT INTO t VALUES (x, 0); INSERT INTO RETURN SELECT DISTINCT count(*) FROM t;"), [1, 5]) == [
        1,
        2,
    ]


def test_rows_of_one_time_stand_as_in_the_query(session: Session) -> None:
    session.sql("CREATE STREAM base(a INT, b INT, at TIMESTAMP) ORDER BY at")
    session.sql("CREATE STREAM d AS SELECT a, b FROM base")
    queries = {
        "dv": "SELECT b, sum(b) OVER (ROWS 1 PRECEDING) AS s FROM d",
        "dn": "SELECT b, count(*) OVER (ROWS UNBOUNDED PRECEDING) AS n FROM d",
    }
    for name, query in queries.items():
        session.sql(f"CREATE VIEW {name} AS {query}")
    session.feed("base", [(1, 9, 1), (2, 5, 1), (3, 7, 1), (None, 4, 1), (0, None, 2)])
    session.refresh()
    for name, query in queries.items():
        assert rows(session.table(name)) == rows(session.sql(query))


def test_views_that_read_more_than_the_stream(session: Session) -> None:
    session.sql("CREATE STREAM o(k INT, v INT, at TIMESTAMP) ORDER BY at")
    session.sql("CREATE TABLE tt(k INT)")
    query = "SELECT v, sum(v) OVER (ROWS UNBOUNDED PRECEDING) AS s FROM o WHERE k IN (SELECT k FROM tt)"
    recent = "SELECT at, sum(v) OVER (ROWS 1 PRECEDING) AS s FROM o QUALIFY at > Now - INTERVAL 5 SECONDS"
    session.sql(f"CREATE VIEW ov AS {query}")
    session.sql(f"CREATE VIEW late AS {recent}")
    session.feed("o", [(1, 1, 1), (2, 2, 2)])
    session.sql("INSERT INTO tt VALUES (1)")
    session.refresh()
    assert rows(session.table("ov")) == [(1, 1)]
    session.sql("INSERT INTO tt VALUES (2)")
    session.feed("o", [(1, 4, 9)])
    session.refresh()
    assert rows(session.table("ov")) == rows(session.sql(query)) == [(1, 1), (2, 3), (4, 7)]
    assert rows(session.table("late")) == rows(session.sql(recent))
    assert len(rows(session.table("late"))) == 1


def test_several_calls_beside_an_array(session: Session) -> None:
    session.sql("CREATE STREAM ar(a ARRAY<INT>, v INT, at TIMESTAMP) ORDER BY at")
    session.feed("ar", [([1], 1, 1), ([2, 3], 2, 2)])
    found = session.sql("SELECT a, sum(v) OVER (ROWS 1 PRECEDING) AS s, max(v) OVER (ROWS 1 PRECEDING) AS m FROM ar")
    assert rows(found) == [([1], 1, 1), ([2, 3], 3, 2)]


def test_the_last_slot_of_a_table(session: Session) -> None:
    session.sql("CREATE TABLE ta(v INT, at TIMESTAMP)")
    session.sql("INSERT INTO ta VALUES (1, TIMESTAMP '1970-01-01 00:00:01'), (2, TIMESTAMP '1970-01-01 00:00:05')")
    found = session.sql("SELECT sum(v) OVER (ORDER BY at RANGE 4 SECONDS PRECEDING SLIDE 4 SECONDS) AS s FROM ta")
    assert rows(found) == [(1,), (2,)]


def test_filter_over_a_window_of_a_stream_is_refused_by_name(session: Session) -> None:
    session.sql("CREATE STREAM o(v INT, at TIMESTAMP) ORDER BY at")
    with pytest.raises(HeadraceError) as error:
        session.sql("SELECT sum(v) FILTER (WHERE v > 1) OVER (ROWS 1 PRECEDING) FROM o")
    assert error.value.condition == "BAD_CALL"


def test_groups_that_are_not_due_are_not_read(session: Session) -> None:
    session.sql("CREATE STREAM s (k INT, v INT, at TIMESTAMP) ORDER BY at")
    over = "PARTITION BY k RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION"
    session.sql(f"CREATE STREAM w AS SELECT k, sum(v) OVER ({over}) AS s FROM s")
    session.feed("s", [(key, 1, 1 + key) for key in range(50)])
    session.refresh()
    session.feed("s", [(99, 1, 52)])
    session.refresh()
    (found,) = [item.reason for item in session.status() if item.name == "w"]
    # 46 and 47 leave at 51 and 52 s and those before did when the last of the first rows came.
    assert found == "1 new row, 2 groups of state looked at"


def test_a_name_that_is_a_column_and_a_parameter() -> None:
    with pytest.raises(DefinitionError) as error:
        body("INSERT INTO t VALUES (x); UPDATE t SET x = x + 1;", "TABLE t(x BIGINT);")
    assert error.value.condition == "AMBIGUOUS_COLUMN"
    assert error.value.hint is not None
    assert "t.x" in error.value.hint
    told_ = body("INSERT INTO t VALUES (x); INSERT INTO RETURN SELECT max(t.x) FROM t;", "TABLE t(x BIGINT);")
    assert told(told_, [1, 5, 2]) == [1, 5, 5]


def test_calls_that_only_choose_rows(session: Session) -> None:
    session.sql("CREATE STREAM o(k INT, v INT, at TIMESTAMP) ORDER BY at")
    session.feed("o", [(1, 1, 1), (2, 5, 2), (3, 1, 3)])
    found = session.sql("SELECT k FROM o QUALIFY sum(v) OVER (ROWS 1 PRECEDING) > 5")
    assert rows(found) == [(2,), (3,)]
