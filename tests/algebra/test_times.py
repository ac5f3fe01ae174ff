"""Numbers that mean seconds, and when comparisons with Now turn over."""

from __future__ import annotations

import pytest

from headrace.algebra.births import births, same_moment
from headrace.algebra.clock_reads import ClockReads, Crossing, clock_reads
from headrace.algebra.kinds import kind_of_type
from headrace.algebra.seconds import at_time, mean_seconds
from headrace.algebra.windowed_subqueries import lift
from headrace.errors import HeadraceError
from headrace.language import AsOf, Query, Select, Window, parse_one

FIELDS = (("a", "INT"), ("TS", "TIMESTAMP"), ("sec", "BIGINT"), ("len", "INTERVAL DAY TO SECOND"), ("d", "DATE"))


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


def meant(text: str) -> Query:
    found = query(text)
    return mean_seconds(found, [FIELDS] * len(found.relations()))


def condition(text: str) -> str:
    return meant(f"SELECT 1 FROM r WHERE {text}").sql().removeprefix("SELECT 1 FROM r WHERE ")


FIVE = "INTERVAL '5' SECOND"
POINT = "CAST('1970-01-01T00:00:05Z' AS TIMESTAMP)"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Now - 5 < TS", f"Now - {FIVE} < TS"),
        ("TS + 5 < Now", f"TS + {FIVE} < Now"),
        ("Now - r.TS < 5", f"Now - r.TS < {FIVE}"),
        ("len > 5", f"len > {FIVE}"),
        ("TS > 5 AND 5 <> TS", f"TS > {POINT} AND {POINT} <> TS"),
        ("TS BETWEEN 5 AND Now - 5", f"TS BETWEEN {POINT} AND Now - {FIVE}"),
        ("TS IN (5, TIMESTAMP '2020-01-01')", f"TS IN ({POINT}, CAST('2020-01-01' AS TIMESTAMP))"),
        ("TS > -1.5", "TS > CAST('1969-12-31T23:59:58.500000Z' AS TIMESTAMP)"),
        ("sec < Now", "timestamp_micros(CAST((sec) * 1000000 AS BIGINT)) < Now"),
        ("TS + a < Now", "TS + ((a) * INTERVAL '1' SECOND) < Now"),
        ("TS % 2 = 0", "(unix_micros(TS) / 1000000) % 2 = 0"),
        ("max(TS) - 5 < Now", f"MAX(TS) - {FIVE} < Now"),
        # Spark knows what these mean, or nobody does.
        ("sec + 5 < a", "sec + 5 < a"),
        ("d > 5", "d > 5"),
        ("TS > 'x'", "TS > 'x'"),
        ("TS - INTERVAL 5 MINUTES < Now", "TS - INTERVAL '5' MINUTES < Now"),
    ],
)
def test_numbers_mean_seconds(text: str, wanted: str) -> None:
    assert condition(text) == wanted


def test_columns_of_subqueries_and_around_them() -> None:
    inner = meant("SELECT * FROM (SELECT TS AS t, a FROM r) q WHERE t > 5")
    assert POINT in inner.sql()
    common = meant("WITH c AS (SELECT TS AS t FROM r UNION ALL SELECT TS FROM r) SELECT * FROM c x WHERE x.t > 5")
    assert POINT in common.sql()
    correlated = meant("SELECT * FROM r x WHERE EXISTS (SELECT 1 FROM r y WHERE y.a = x.a AND x.TS > 5)")
    assert POINT in correlated.sql()


def test_the_time_is_put_in() -> None:
    found = at_time(meant("SELECT Now, a FROM r WHERE TS < Now"), 5_000_000)
    assert found.sql() == f"SELECT {POINT} AS Now, a FROM r WHERE TS < {POINT}"
    unchanged = query("SELECT a FROM r")
    assert at_time(unchanged, 5) is unchanged


def reads(text: str) -> ClockReads:
    found = meant(f"SELECT 1 FROM r WHERE {text}")
    return clock_reads(found, [FIELDS] * len(found.relations()))


TS = "unix_micros(CAST(`TS` AS TIMESTAMP))"
LATER = f"unix_micros(CAST(`TS` + ({FIVE}) AS TIMESTAMP))"


@pytest.mark.parametrize(
    ("text", "crossing"),
    [
        ("Now - 5 < TS", Crossing(0, LATER, at=True, after=False)),
        ("TS > Now - 5", Crossing(0, LATER, at=True, after=False)),
        ("Now - TS < 5", Crossing(0, LATER, at=True, after=False)),
        ("NOT (Now - TS >= 5)", Crossing(0, LATER, at=True, after=False)),
        ("Now - 5 <= TS", Crossing(0, LATER, at=False, after=True)),
        ("r.TS + 5 < Now", Crossing(0, LATER, at=False, after=True)),
        ("TS + 5 = Now", Crossing(0, LATER, at=True, after=True)),
        ("TS <= Now", Crossing(0, TS, at=True, after=False)),
        ("CASE WHEN a = 1 THEN TS <= Now ELSE TRUE END", Crossing(0, TS, at=True, after=False)),
    ],
)
def test_a_comparison_turns_over_once_for_each_row(text: str, crossing: Crossing) -> None:
    assert reads(text) == ClockReads((crossing,))


def test_both_ends_of_between() -> None:
    found = reads("TS BETWEEN Now - 5 AND Now")
    assert set(found.crossings) == {Crossing(0, LATER, at=False, after=True), Crossing(0, TS, at=True, after=False)}


@pytest.mark.parametrize(
    "text",
    ["hour(Now) = 3", "Now = Now", "a IN (SELECT a FROM r HAVING max(TS) < Now)", "Now < TIMESTAMP '2020-01-01'"],
)
def test_other_uses_float(text: str) -> None:
    assert reads(text).floats


def test_columns_of_two_relations_float() -> None:
    found = meant("SELECT 1 FROM r x, r y WHERE x.TS + y.len < Now")
    assert clock_reads(found, [FIELDS] * 2).floats


def test_no_use_of_now() -> None:
    assert reads("TS > 5") == ClockReads()


def test_kinds_of_types() -> None:
    kinds = [kind_of_type(name) for name in ("TIMESTAMP", "decimal(10,2)", "INTERVAL DAY TO SECOND", "DATE", "STRING")]
    assert kinds == ["time", "number", "length", None, None]


def test_windowed_subqueries_are_lifted() -> None:
    outer, (lifted,) = lift(query("SELECT sum(c) FROM (SELECT a AS c FROM r) [ROWS 2] x JOIN s ON x.c = s.a"))
    assert outer.sql() == "SELECT SUM(c) FROM __windowed_0 AS x JOIN s ON x.c = s.a"
    assert lifted.inner.sql() == "SELECT a AS c FROM r"
    assert lifted.window == Window("rows", 2)


def test_births_tell_who_made_them() -> None:
    both = {0: ("__t", "__seq"), 1: ("__t",)}
    columns = {0: ["a"], 1: ["b"]}
    joined = births(query("SELECT * FROM r [RANGE 5 INTERNAL], s [RANGE 6] WHERE a = b"), columns, both)
    assert joined.query.sql() == (
        "SELECT `r`.`a`, `s`.`b`, s.__t AS __time_1, concat_ws(',', r.__t, r.__seq, s.__t) AS __made_of"
        " FROM r [RANGE 5] CROSS JOIN s [RANGE 6] WHERE a = b"
    )
    assert joined.outlived == (("__time_1", Window("range", 6_000_000)),)
    summed = births(query("SELECT sum(a) FROM r [ROWS 5 INTERNAL]"), columns, both)
    assert summed.aggregates
    assert "sort_array(COLLECT_LIST(concat_ws(',', r.__t, r.__seq)))" in summed.query.sql()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT a FROM r [ROWS 5 INTERNAL] LIMIT 3", "NEVER_DYING_RESULT"),
        ("SELECT row_number() OVER (ORDER BY a) FROM r [ROWS 5 INTERNAL]", "NEVER_DYING_RESULT"),
        ("SELECT a, count(*) FROM r [ROWS 5 INTERNAL] GROUP BY ROLLUP (a)", "NEVER_DYING_RESULT"),
        ("SELECT a FROM r [ROWS 5 INTERNAL] LEFT JOIN s ON a = b", "NEVER_DYING_RESULT"),
        ("SELECT a FROM r [ROWS 5 INTERNAL], s [ROWS 5]", "MIXED_WINDOWS"),
        ("SELECT count(*) FROM r [ROWS 5 INTERNAL], s [RANGE 5]", "MIXED_WINDOWS"),
    ],
)
def test_what_has_no_births(text: str, condition: str) -> None:
    found = query(text)
    extras = dict.fromkeys(range(len(found.relations())), ("__t",))
    with pytest.raises(HeadraceError) as raised:
        births(found, {number: ["a"] for number in extras}, extras)
    assert raised.value.condition == condition


def test_as_of_moves_a_growing_result_as_a_whole() -> None:
    found, moment = same_moment(query("SELECT 1 FROM r AS OF 5 [ROWS 5 INTERNAL], s AS OF 5"))
    assert (found.sql(), moment) == ("SELECT 1 FROM r [ROWS 5 INTERNAL] CROSS JOIN s", AsOf(time=5_000_000))
    with pytest.raises(HeadraceError):
        same_moment(query("SELECT 1 FROM r AS OF 5 [ROWS 5 INTERNAL], s"))
