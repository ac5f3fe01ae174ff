"""Views that follow their changes where it is easiest to go wrong: each case by name, with changes made to hurt it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import pytest

from headrace.engine import Engine
from headrace.errors import HeadraceError
from headrace.session import Session
from tests.properties.differential_changes import DECLARED, check_strategy, check_view, last_refresh
from tests.properties.harness import bag, fresh

COUNTS = "SELECT g, count(*) AS n FROM u GROUP BY g"
#: Each is held against itself in batch.
QUERIES = {
    "global": "SELECT count(*) AS n, count(g) AS g, sum(k) AS s, min(d) AS lo, max(x) AS hi, avg(k) AS m FROM u",
    "global_floats": "SELECT sum(x) AS s, avg(x) AS a, stddev(x) AS sd, count(DISTINCT g) AS n FROM u",
    "global_of_groups": "SELECT max(n) AS n FROM (SELECT k, count(*) AS n FROM u GROUP BY k)",
    "global_having": "SELECT count(*) AS n FROM u HAVING count(*) > 4",
    "null_keys": "SELECT t.k, u.g FROM t JOIN u ON t.k = u.k",
    "null_safe_keys": "SELECT t.k, u.g, u.d FROM t JOIN u ON t.k <=> u.k",
    "left_null_keys": "SELECT t.k, t.g, u.d FROM t LEFT JOIN u ON t.g = u.g",
    "full_null_keys": "SELECT t.k, t.g, u.k AS uk, u.d FROM t FULL JOIN u ON t.g = u.g",
    "one_key_twice": "SELECT t.k, u.g FROM t JOIN u ON t.k = u.k AND t.k + 0 = u.k",
    "one_column_for_two": "SELECT s.k, s.v, u.g FROM s JOIN u ON s.k = u.k AND s.v = u.k",
    "semi_one_for_two": "SELECT s.k, s.v FROM s LEFT SEMI JOIN u ON s.k = u.k AND s.v = u.k",
    "left_one_for_two": "SELECT s.k, s.v, u.d FROM s LEFT JOIN u ON s.k = u.k AND s.v = u.k",
    "decimals_of_two_scales": "SELECT t.k, u.k AS uk FROM t JOIN u ON t.d = u.d",
    "float_keys": "SELECT t.k, u.k AS uk FROM t JOIN u ON t.x = u.x",
    "theta": "SELECT t.k, u.k AS uk FROM t JOIN u ON t.d < u.d",
    "theta_left": "SELECT t.k, u.k AS uk FROM t LEFT JOIN u ON t.d > u.d AND u.g IS NOT NULL",
    "cross": "SELECT t.k, r.k AS rk FROM t CROSS JOIN r",
    "self": "SELECT a.k, b.k AS bk FROM u a JOIN u b ON a.g = b.g AND a.k < b.k",
    "self_of_groups": f"WITH c AS ({COUNTS}) SELECT a.g, b.g AS o FROM c a JOIN c b ON a.n = b.n",
    "grouping_sets": "SELECT g, k, count(*) AS n, sum(d) AS s FROM u GROUP BY GROUPING SETS ((g), (k), (g, k))",
    "except": "SELECT k, g FROM u EXCEPT SELECT k, g FROM s",
    "except_all": "SELECT k, g FROM u EXCEPT ALL SELECT k, g FROM s",
    "intersect": "SELECT k, g FROM u INTERSECT SELECT k, g FROM s",
    "union": "SELECT k, g FROM u UNION SELECT k, g FROM t",
    "top": "SELECT k, g, d FROM u ORDER BY d DESC NULLS LAST, k, g LIMIT 2",
    "top_offset": "SELECT k, g, d FROM u ORDER BY g, k, d LIMIT 2 OFFSET 2",
    "all_but_the_first": "SELECT k, g, d FROM u ORDER BY g, k, d OFFSET 2",
    "top_of_groups": "SELECT g, count(*) AS n FROM u GROUP BY g ORDER BY n DESC, g LIMIT 1",
    "exists": "SELECT k, g FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.d > t.d)",
    "not_in": "SELECT k, g FROM s WHERE k NOT IN (SELECT k FROM u)",
    "correlated": "SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k) AS n, (SELECT max(v) FROM s) AS m FROM t",
    "correlated_above": "SELECT k, d FROM u o WHERE d > (SELECT avg(d) FROM u i WHERE i.g = o.g)",
    "case_exists": "SELECT k, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.k = t.k) THEN 'y' ELSE 'n' END AS c FROM t",
    "explode": "SELECT k, e FROM u LATERAL VIEW explode(a) l AS e",
    "explode_outer": "SELECT k, g, e FROM u LATERAL VIEW OUTER explode(a) l AS e",
    "explode_of_groups": f"SELECT g, e FROM ({COUNTS}) LATERAL VIEW explode(array(n, 0)) l AS e",
    "row_number": "SELECT k, d, row_number() OVER (PARTITION BY g ORDER BY k, d, x) AS n FROM u",
    "window_sums": "SELECT k, sum(k) OVER (PARTITION BY g) AS s, count(*) OVER () AS n FROM u",
    "lag": "SELECT k, v, lag(v) OVER (PARTITION BY g ORDER BY k, v) AS b FROM r",
    "arrays_distinct": "SELECT DISTINCT a FROM u",
    "arrays_kept": "SELECT t.k, u.a FROM t LEFT JOIN u ON t.k = u.k",
    "collected": "SELECT g, sort_array(collect_list(k)) AS ks FROM u GROUP BY g",
    "greatest_by": "SELECT k, max_by(v, at) AS v FROM (SELECT DISTINCT k, v, at FROM r) GROUP BY k",
}

U = "INSERT INTO u VALUES "
ROWS = (
    "(1, 'a', 1.500, 0.1, array(1, 2))",
    "(1, 'a', 1.500, 0.1, array(1, 2))",
    "(2, 'b', -1.500, 0.7, array(CAST(NULL AS INT)))",
    "(NULL, 'b', 7.100, NULL, NULL)",
    "(3, NULL, NULL, 3.3, CAST(array() AS ARRAY<INT>))",
    "(2, 'b', 1.250, 1e9, array(3))",
)
T = (
    "INSERT INTO t VALUES (1, 'a', 1.50, 0.1, DATE'2024-01-01'), (2, NULL, -1.50, 0.7, NULL),"
    " (NULL, 'b', 1.25, NULL, NULL)"
)

#: Statements and rows, with a refresh after each batch.
HURT: tuple[tuple[str | tuple[str, list[tuple[object, ...]]], ...], ...] = (
    (U + ", ".join(ROWS), T, ("s", [(1, "a", 1, 1), (2, "b", 2, 1), (None, "b", None, 2), (1, "a", 1, 3)])),
    (("r_in", [("+", 1, "a", 5, 1), ("+", 2, "a", 5, 2), ("+", None, "b", None, 2)]), "DELETE FROM u WHERE k = 1"),
    ("UPDATE u SET k = 1 WHERE k IS NULL", "UPDATE t SET d = d + 1", U + ", ".join(ROWS[:3])),
    ("UPDATE u SET g = 'b'", ("r_in", [("-", 1, None, None, 4), ("+", 2, "b", 1, 5)]), ("s", [(3, "b", 3, 5)])),
    ("DELETE FROM u",),
    ("DELETE FROM t", U + ROWS[0]),
    ("DELETE FROM u", U + ", ".join(ROWS), T, "DELETE FROM u WHERE d > 1"),
)


@pytest.fixture
def session(sail_engine: Engine) -> Iterator[Session]:
    """A home on Sail, with the relations of `differential_queries`."""
    with fresh(sail_engine) as home:
        home.session.sql(DECLARED)
        yield home.session


def follow(session: Session, name: str, query: str, output: str = "") -> None:
    session.sql(f"CREATE {output} VIEW {name} AS {query} REFRESH POLICY INCREMENTAL")


@pytest.mark.slow
def test_every_query_at_every_batch(session: Session) -> None:
    for name, query in QUERIES.items():
        follow(session, name, query)
    for batch in HURT:
        for change in batch:
            if isinstance(change, str):
                session.sql(change)
            else:
                session.feed(*change)
        session.refresh()
        for name, query in QUERIES.items():
            check_view(session, name, query)
            check_strategy(session, name)
    for name in QUERIES:
        assert last_refresh(session, name).strategy == "differential", name


def test_intersect_all_keeps_the_lesser_count(session: Session) -> None:
    # Sail's own INTERSECT ALL keeps every row on the left that has a match.
    follow(session, "v", "SELECT k, g FROM u INTERSECT ALL SELECT k, g FROM s")
    session.sql(U + ", ".join([ROWS[0]] * 3 + [ROWS[3]] * 2))
    session.feed("s", [(1, "a", 1, 1), (1, "a", 2, 1), (None, "b", 3, 1)])
    session.refresh()
    assert bag(session.table("v")) == Counter({(1, "a"): 2, (None, "b"): 1})
    session.sql("DELETE FROM u WHERE k = 1")
    session.sql(U + ROWS[0])
    session.refresh()
    assert bag(session.table("v")) == Counter({(1, "a"): 1, (None, "b"): 1})


def test_rollup_over_no_rows_has_none(session: Session) -> None:
    # As in Spark. Sail has the grand total there.
    follow(session, "v", "SELECT g, count(*) AS n FROM u GROUP BY ROLLUP (g)")
    session.sql(U + ROWS[0])
    session.refresh()
    assert bag(session.table("v")) == Counter([("a", 1), (None, 1)])
    session.sql("DELETE FROM u")
    session.refresh()
    assert bag(session.table("v")) == Counter()


def test_zeros_and_nans_are_one_value_each(session: Session) -> None:
    session.sql("CREATE TABLE f (id INT, x DOUBLE); CREATE TABLE h (x DOUBLE, n INT)")
    views = {
        "grouped": "SELECT x, count(*) AS n, stddev(id) AS sd FROM f GROUP BY x",
        "counted": "SELECT x, count(*) AS n FROM f GROUP BY x",
        "apart": "SELECT DISTINCT x FROM f",
        "joined": "SELECT f.id, h.n FROM f JOIN h ON f.x = h.x",
        "missing": "SELECT f.id FROM f LEFT ANTI JOIN h ON f.x = h.x",
        "less": "SELECT x FROM f EXCEPT SELECT x FROM h",
    }
    for name, query in views.items():
        follow(session, name, query)
    zero, minus, nan = "CAST('0.0' AS DOUBLE)", "CAST('-0.0' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"
    # Nothing but zeros: Sail panics when it has to hash a constant.
    session.sql(f"INSERT INTO f VALUES (10, {zero}), (11, {minus}); INSERT INTO h VALUES ({zero}, 9), ({minus}, 9)")
    session.refresh()
    assert bag(session.table("counted")) == Counter([(0.0, 2)])
    assert bag(session.table("joined")) == Counter({(10, 9): 2, (11, 9): 2})
    session.sql("DELETE FROM f; DELETE FROM h")
    session.sql(f"INSERT INTO f VALUES (1, {zero}), (2, {nan}), (3, NULL)")
    session.refresh()
    session.sql(
        f"INSERT INTO f VALUES (4, {minus}), (5, {nan}), (6, {zero}); INSERT INTO h VALUES ({minus}, 7), ({nan}, 8)"
    )
    session.refresh()
    assert bag(session.table("counted")) == Counter([(0.0, 3), ("NaN", 2), (None, 1)])
    assert bag(session.table("apart")) == Counter([(0.0,), ("NaN",), (None,)])
    assert bag(session.table("joined")) == Counter([(1, 7), (4, 7), (6, 7), (2, 8), (5, 8)])
    assert bag(session.table("missing")) == Counter([(3,)])
    assert bag(session.table("less")) == Counter([(None,)])
    assert {row[:2] for row in bag(session.table("grouped"))} == {(0.0, 3), ("NaN", 2), (None, 1)}
    session.sql("DELETE FROM f WHERE id IN (1, 2, 4, 6)")
    session.refresh()
    assert bag(session.table("counted")) == Counter([("NaN", 1), (None, 1)])
    assert bag(session.table("joined")) == Counter([(5, 8)])
    session.sql("DELETE FROM f; DELETE FROM h")
    session.refresh()
    assert not any(bag(session.table(name)) for name in views)


def test_floats_do_not_drift(session: Session) -> None:
    """Ten thousand rows of all sizes come and go; what is left is as if they had never been there."""
    session.sql("CREATE TABLE f (id INT, g INT, x DOUBLE)")
    follow(session, "v", "SELECT g, sum(x) AS s, avg(x) AS a FROM f GROUP BY g")
    follow(session, "whole", "SELECT sum(x) AS s, avg(x) AS a FROM f")
    made = random.Random(5)
    session.feed("f", [(0, 0, 0.1), (0, 0, 0.2), (0, 1, 0.3)])
    for turn in range(1, 6):
        rows = [(turn, made.randrange(2), made.uniform(-1, 1) * 10.0 ** made.randrange(-8, 16)) for _ in range(2_000)]
        session.feed("f", rows)
        session.refresh()
        session.sql(f"DELETE FROM f WHERE id = {turn}")
        session.refresh()
        found = sorted(bag(session.table("v")))
        assert [(g, _near(s, wanted)) for (g, s, _a), wanted in zip(found, (0.3, 0.3), strict=True)] == [
            (0, True),
            (1, True),
        ]
        ((s, a),) = bag(session.table("whole"))
        assert _near(s, 0.6)
        assert _near(a, 0.2)
        assert last_refresh(session, "v").strategy == last_refresh(session, "whole").strategy == "differential"
    session.sql("DELETE FROM f")
    session.refresh()
    assert bag(session.table("v")) == Counter()
    assert bag(session.table("whole")) == Counter([(None, None)])


def _near(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-12)


def test_decimals_are_exact_to_the_last_of_38_digits(session: Session) -> None:
    most = 10**38 - 1
    session.sql("CREATE TABLE n (k INT, d DECIMAL(38,0)); CREATE TABLE c (d DECIMAL(38,18))")
    follow(session, "sums", "SELECT k, sum(d) AS s, max(d) AS m FROM n GROUP BY k")
    follow(session, "total", "SELECT sum(d) AS s, count(*) AS n FROM n")
    follow(session, "cents", "SELECT sum(d) AS s FROM c")
    session.sql(f"INSERT INTO n VALUES (1, {most}), (1, -1), (2, -{most}); INSERT INTO c VALUES (0.000000000000000001)")
    session.refresh()
    assert bag(session.table("sums")) == Counter(
        [(1, Decimal(most - 1), Decimal(most)), (2, Decimal(-most), Decimal(-most))]
    )
    assert bag(session.table("total")) == Counter([(Decimal(-1), 3)])
    session.sql("INSERT INTO c VALUES (99999999999999999999.999999999999999998)")
    session.sql("DELETE FROM n WHERE d = -1")
    session.refresh()
    assert bag(session.table("cents")) == Counter([(Decimal("99999999999999999999.999999999999999999"),)])
    assert bag(session.table("total")) == Counter([(Decimal(0), 2)])
    assert last_refresh(session, "total").strategy == "differential"


@pytest.mark.parametrize(
    ("kind", "most", "then"), [("BIGINT", 2**63 - 1, 1 - 2**63), ("DECIMAL(38,0)", 10**38 - 1, 10**37)]
)
def test_a_sum_that_does_not_fit_is_an_error_and_changes_nothing(
    session: Session, kind: str, most: int, then: int
) -> None:
    session.sql(f"CREATE TABLE n (k INT, d {kind})")
    follow(session, "v", "SELECT k, CAST(sum(d) AS STRING) AS s, count(*) AS n FROM n GROUP BY k")
    follow(session, "other", "SELECT count(*) AS n FROM n")
    session.sql(f"INSERT INTO n VALUES (1, {most})")
    session.refresh()
    session.sql(f"INSERT INTO n VALUES (1, {most})")
    with pytest.raises(HeadraceError) as raised:
        session.refresh()
    assert raised.value.condition == "ARITHMETIC_OVERFLOW"
    assert bag(session.table("v")) == Counter([(1, str(most), 1)])
    assert bag(session.table("other")) == Counter([(1,)])
    # The difference to what was there before is greater than any of the numbers.
    session.sql(f"DELETE FROM n; INSERT INTO n VALUES (1, {then})")
    session.refresh()
    assert bag(session.table("v")) == Counter([(1, str(then), 1)])
    assert bag(session.table("other")) == Counter([(1,)])
    assert last_refresh(session, "v").strategy == "differential"


def test_averages_of_great_whole_numbers_do_not_overflow(session: Session) -> None:
    session.sql("CREATE TABLE n (d BIGINT)")
    follow(session, "v", "SELECT avg(d) AS a FROM n")
    session.sql(f"INSERT INTO n VALUES ({2**63 - 1}), ({2**63 - 1})")
    session.refresh()
    session.sql(f"INSERT INTO n VALUES ({2**63 - 1})")
    session.refresh()
    assert bag(session.table("v")) == Counter([(float(2**63),)])
    assert last_refresh(session, "v").strategy == "differential"


def test_a_top_is_filled_again_after_many_deletes(session: Session) -> None:
    session.sql("CREATE TABLE n (id INT, d INT)")
    query = "SELECT id, d FROM n ORDER BY d DESC, id LIMIT 3 OFFSET 1"
    follow(session, "v", query)
    session.feed("n", [(number, number // 7) for number in range(700)])
    session.refresh()
    for least in (690, 600, 595, 300, 100, 5, 2, 0):
        session.sql(f"DELETE FROM n WHERE id > {least}")
        session.refresh()
        check_view(session, "v", query)
        session.feed("n", [(least, -1), (least + 1, 1_000)])  # one far behind, one in front
        session.refresh()
        check_view(session, "v", query)
        session.sql("DELETE FROM n WHERE d = 1000")
        session.refresh()
        check_view(session, "v", query)
        assert last_refresh(session, "v").strategy == "differential"


def test_ties_that_a_top_cuts_through(session: Session) -> None:
    """Equal rows lie on both sides of the buffer's end, and are deleted one by one."""
    session.sql("CREATE TABLE n (d INT, e INT)")
    query = "SELECT d FROM (SELECT d FROM n) q ORDER BY d LIMIT 2"
    follow(session, "v", query)
    session.feed("n", [(0, 0), (0, 1), *((1, number) for number in range(200)), (2, 0)])
    session.refresh()
    for condition in ("e > 60", "d = 0", "d = 1 AND e > 0", "d = 1", "true"):
        session.sql(f"DELETE FROM n WHERE {condition}")
        session.refresh()
        check_view(session, "v", query)


@pytest.mark.slow
def test_columns_of_every_type_and_any_name(session: Session) -> None:
    kinds = {
        "bo": ("BOOLEAN", "true"),
        "ti": ("TINYINT", "CAST(3 AS TINYINT)"),
        "fl": ("FLOAT", "CAST(1.5 AS FLOAT)"),
        "bi": ("BINARY", "CAST('ab' AS BINARY)"),
        "ts": ("TIMESTAMP", "TIMESTAMP'2024-01-01 10:00:00'"),
        "tn": ("TIMESTAMP_NTZ", "CAST('2024-01-01 10:00:00' AS TIMESTAMP_NTZ)"),
        "iv": ("INTERVAL DAY TO SECOND", "INTERVAL '2' DAY"),
        "ar": ("ARRAY<STRING>", "array('x', NULL)"),
        "st": ("STRUCT<f:INT,g:STRING>", "named_struct('f', 1, 'g', 'q')"),
        "rows_": ("INT", "4"),
        "a b": ("DATE", "DATE'2024-01-01'"),
    }
    session.sql(f"CREATE TABLE y (id INT, {', '.join(f'`{name}` {kind}' for name, (kind, _value) in kinds.items())})")
    views = {}
    for number, name in enumerate(kinds):
        views[f"j{number}"] = f"SELECT l.id, r.id AS other, l.`{name}` FROM y l JOIN y r ON l.`{name}` = r.`{name}`"
        if name in ("fl", "tn", "iv", "st", "rows_"):
            views[f"g{number}"] = f"SELECT `{name}`, count(*) AS n, stddev(id) AS sd FROM y GROUP BY `{name}`"
    views["all"] = "SELECT *, count(*) OVER (PARTITION BY id) AS n FROM y"
    for name, query in views.items():
        follow(session, name, query)
    values = ", ".join(value for _kind, value in kinds.values())
    nothing = ", ".join(f"CAST(NULL AS {kind})" for kind, _value in kinds.values())
    texts = [f"(1, {values}), (2, {nothing})", f"(2, {values}), (1, {values})"]
    for text in (*(f"INSERT INTO y VALUES {rows}" for rows in texts), "DELETE FROM y WHERE id = 2"):
        session.sql(text)
        session.refresh()
        for name, query in views.items():
            check_view(session, name, query)
    assert all(last_refresh(session, name).strategy == "differential" for name in views)
