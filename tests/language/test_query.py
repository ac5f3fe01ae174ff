"""Queries: what they read, what they print for Spark, and their shape."""

from __future__ import annotations

import pytest

from headrace.algebra.keys import infer_key
from headrace.errors import LanguageError, NotYetMaintained
from headrace.language import AsOf, Query, RelationRef, Select, Source, parse_one


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


def names(text: str) -> list[str]:
    return [ref.name for ref in query(text).relations()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", ["t"]),
        (
            "SELECT (SELECT max(x) FROM m) FROM t JOIN u ON t.a = u.a WHERE EXISTS (SELECT 1 FROM w)",
            ["m", "t", "u", "w"],
        ),
        ("WITH q AS (SELECT * FROM t) SELECT * FROM q JOIN Q ON true JOIN u ON true", ["t", "u"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH q AS (SELECT * FROM a), r AS (SELECT * FROM q) SELECT * FROM r, b", ["a", "b"]),
        ("SELECT * FROM (WITH q AS (SELECT * FROM a) SELECT * FROM q) x JOIN q ON true", ["a", "q"]),
        ("WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM q) SELECT * FROM q", []),
        ("SELECT a FROM t UNION ALL SELECT a FROM t EXCEPT SELECT a FROM u", ["t", "t", "u"]),
        ("SELECT * FROM range(10) r JOIN VALUES (1) AS v(x) ON true", []),
        ("SELECT x FROM t LATERAL VIEW explode(xs) e AS x", ["t"]),
        ("SELECT * FROM `odd name` JOIN `a.b` ON true", ["odd name", "a.b"]),
        ("VALUES (1), (2)", []),
    ],
)
def test_relations(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_relation_details() -> None:
    found = query("SELECT * FROM v AS OF 3 x JOIN CHANGES(w) ON true\nJOIN y VERSION AS OF 7 ON true").relations()
    assert found == (
        RelationRef("v", as_of=AsOf(time=3_000_000)),
        RelationRef("w", kind="changes"),
        RelationRef("y", as_of=AsOf(snapshot=7)),
    )
    assert [(ref.place.line, ref.place.column) for ref in found if ref.place] == [(1, 15), (1, 40), (2, 6)]


@pytest.mark.parametrize(
    "text",
    ["AS OF '2024-01-01'", "AS OF TIMESTAMP '2024-01-01 00:00'", "TIMESTAMP AS OF '2024-01-01'", "AS OF 1704067200"],
)
def test_as_of_spellings(text: str) -> None:
    assert query(f"SELECT * FROM v {text} AS x") == query("SELECT * FROM v AS OF 1704067200 x")


def test_to_spark_keeps_aliases() -> None:
    found = query("SELECT t.a, x.b FROM t JOIN u x ON t.a = x.a WHERE t.a IN (SELECT t.a FROM t)")
    assert found.to_spark(["n1", "n2", "n3"]) == (
        "SELECT t.a, x.b FROM `n1` AS t JOIN `n2` AS x ON t.a = x.a WHERE t.a IN (SELECT t.a FROM `n3` AS t)"
    )
    assert found.sql().startswith("SELECT t.a, x.b FROM t JOIN u AS x")  # the query itself has not changed


def test_to_spark_of_changes_and_as_of() -> None:
    found = query("SELECT STREAMED * FROM CHANGES(v) JOIN w AS OF 3 USING (a)")
    assert found.to_spark(["c", "d"]) == "SELECT * FROM `c` AS v JOIN `d` AS w USING (a)"


def test_to_spark_keeps_ctes() -> None:
    found = query("WITH t AS (SELECT * FROM t) SELECT * FROM t JOIN u ON t.a = u.a")
    assert found.to_spark(["n", "m"]) == (
        "WITH t AS (SELECT * FROM `n` AS t) SELECT * FROM t JOIN `m` AS u ON t.a = u.a"
    )


def test_to_spark_needs_as_many_names() -> None:
    with pytest.raises(ValueError):
        query("SELECT * FROM t").to_spark([])


def test_what_is_synchronized_is_read_from_its_regulator() -> None:
    found = query("SELECT s.a, z.b FROM s SYNC y JOIN R[y](t) z ON s.a = z.a")
    assert [(ref.name, ref.sync) for ref in found.relations()] == [("s", "y"), ("t", "y")]
    regulated = found.through_regulators()
    assert regulated.sql() == ("SELECT s.a, z.b FROM `s__sync__y` AS `s` JOIN `t__sync__y` AS z ON s.a = z.a")
    assert found.through_regulators(lambda name: name == "t__sync__y").sql() == (
        "SELECT s.a, z.b FROM s JOIN `t__sync__y` AS z ON s.a = z.a"
    )
    plain = query("SELECT * FROM s")
    assert plain.through_regulators() is plain


def test_to_spark_refuses_what_is_not_executed() -> None:
    with pytest.raises(NotYetMaintained):
        query("SELECT a, count(*) FROM s PATTERN [x, y+] WHERE x.b > 1 GROUP BY a").to_spark(["s"])
    with pytest.raises(NotYetMaintained):
        query("SELECT Now FROM s").to_spark(["s"])  # a query is given the time before Spark is
    with pytest.raises(NotYetMaintained):
        query("SELECT * FROM (SELECT * FROM s) [ROWS 10]").to_spark(["s"])


def test_window_frames_with_units_become_intervals() -> None:
    found = query("SELECT sum(a) OVER (ORDER BY ts RANGE 5 SECONDS PRECEDING) FROM t")
    assert "RANGE BETWEEN INTERVAL '5' SECONDS PRECEDING AND CURRENT ROW" in found.to_spark(["t"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT v.*, w.a FROM v JOIN w ON v.a = w.a WHERE v.PART_TIMESTAMP BETWEEN 0 AND '1970-01-01 0:01'",
            "SELECT v.* EXCEPT (PART_TIMESTAMP), w.a FROM `n0` AS v JOIN `n1` AS w ON v.a = w.a WHERE v.PART_TIMESTAMP "
            "BETWEEN CAST('1970-01-01T00:00:00Z' AS TIMESTAMP) AND CAST('1970-01-01T00:01:00Z' AS TIMESTAMP)",
        ),
        (
            "SELECT * FROM v x JOIN w ON x.a = w.a WHERE x.part_timestamp IN (60, TIMESTAMP '1970-01-01 1:00')",
            "SELECT * EXCEPT (x.PART_TIMESTAMP) FROM `n0` AS x JOIN `n1` AS w ON x.a = w.a WHERE x.part_timestamp IN "
            "(CAST('1970-01-01T00:01:00Z' AS TIMESTAMP), CAST('1970-01-01T01:00:00Z' AS TIMESTAMP))",
        ),
        (
            "SELECT a, PART_TIMESTAMP FROM v WHERE 60 <= PART_TIMESTAMP",
            "SELECT a, PART_TIMESTAMP FROM `n0` AS v WHERE CAST('1970-01-01T00:01:00Z' AS TIMESTAMP) <= PART_TIMESTAMP",
        ),
    ],
)
def test_part_timestamp(text: str, expected: str) -> None:
    found = query(text)
    refs = found.relations()
    assert [ref.part_timestamp for ref in refs] == [ref.name == "v" for ref in refs]
    assert found.to_spark([f"n{i}" for i in range(len(refs))]) == expected


def test_part_timestamp_of_an_inner_scope_only() -> None:
    found = query("SELECT * FROM t WHERE a IN (SELECT a FROM v WHERE PART_TIMESTAMP = 0)").relations()
    assert [(ref.name, ref.part_timestamp) for ref in found] == [("t", False), ("v", True)]


def test_part_timestamp_with_a_bad_time() -> None:
    with pytest.raises(LanguageError) as caught:
        query("SELECT * FROM v WHERE PART_TIMESTAMP = 'noon'").to_spark(["v"])
    assert caught.value.condition == "BAD_TIME"


def test_words_that_are_also_columns() -> None:
    assert query("SELECT complete, streamed FROM t").output is None
    assert query("SELECT complete * 2 FROM t").output is None
    assert query("SELECT COMPLETE * FROM t").output == "COMPLETE"
    assert query("SELECT `now` FROM t").features() == ()
    assert query("SELECT now() FROM t").features() == ()
    assert query("SELECT mod(a, 2), a mod FROM t").features() == ()


def test_match_recognize_is_understood() -> None:
    found = query(
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY b MEASURES x.a AS y "
        "PATTERN (x y+) DEFINE y AS y.a > 1)"
    )
    assert found.features() == ("MATCH_RECOGNIZE",)
    assert query(found.sql()) == found


@pytest.mark.parametrize(
    "text",
    [
        "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (x y+)",
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (x y+)",
        "AFTER MATCH SKIP TO LAST y PATTERN (x (y | `a b`)* {- z -} w{2,3} v+? u??)",
        "PATTERN (PERMUTE(x, y)) WITHIN 600 SECONDS",
        "PATTERN (^ x y+ $) SUBSET u = (x, y), v = (y) DEFINE x AS TRUE, y AS y.a > PREV(y.a)",
    ],
)
def test_all_of_match_recognize_is_read_and_printed(text: str) -> None:
    found = query(
        f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY b MEASURES FINAL LAST(x.a, 1) AS n, y.b AS m {text}) AS k"
    )
    assert query(found.sql()) == found
    assert "LAST(x.a, 1) AS n" in found.sql()
    assert found.features() == ("MATCH_RECOGNIZE",)


def test_match_recognize_with_slips() -> None:
    for text in ("MEASURES count(*) PATTERN (x)", "PATTERN ()", "ORDER BY a", "PATTERN (x) WITHIN 0", "PATTERN (x"):
        with pytest.raises(LanguageError):
            query(f"SELECT * FROM t MATCH_RECOGNIZE ({text})")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("WITHIN 10 MINUTES", "WITHIN 600 SECONDS"),
        ("WITHIN 600", "WITHIN 600 SECONDS"),
        ("WITHIN 0.5", "WITHIN 0.5 SECONDS"),
        ("WITHIN INTERVAL '1' HOUR AS x", "WITHIN 3600 SECONDS AS x"),
        ("within '10 minutes' x", "WITHIN 600 SECONDS AS x"),
        ("within", "AS within"),
    ],
)
def test_within(text: str, printed: str) -> None:
    found = query(f"SELECT count(*) FROM M PATTERN [a, b+] {text}")
    assert found.sql() == f"SELECT COUNT(*) FROM M PATTERN [a, b+] {printed}"
    assert query(found.sql()) == found


def test_within_what() -> None:
    for text in ("0", "5 parsecs WHERE", "'soon'", "-1"):
        with pytest.raises(LanguageError):
            query(f"SELECT count(*) FROM M PATTERN [a] WITHIN {text}")


def test_lambdas_and_structs_survive() -> None:
    found = query(
        "SELECT AGGREGATE(x.rows_, NAMED_STRUCT('n', 0, 's', CAST(NULL AS BIGINT)), (run, one) -> "
        "CASE WHEN run.n <=> one.k THEN STRUCT(run.n + 1 AS n, one.v AS s) ELSE run END) AS folded FROM t AS x"
    )
    assert query(found.sql()) == found
    assert found.to_spark(["t1"]) == (
        "SELECT AGGREGATE(x.rows_, STRUCT(0 AS n, CAST(NULL AS BIGINT) AS s), (run, one) -> "
        "CASE WHEN run.n <=> one.k THEN STRUCT(run.n + 1 AS n, one.v AS s) ELSE run END) AS folded "
        "FROM `t1` AS x"
    )


def test_shape() -> None:
    shape = query(
        "SELECT t.a AS k, b, count(*) AS n, u.* FROM t LEFT JOIN u USING (a), (SELECT 1) s GROUP BY t.a, 2"
    ).shape()
    assert shape is not None
    assert shape.sources == (Source(0, "t", "FROM"), Source(1, "u", "LEFT"), Source(None, "s", "CROSS"))
    assert shape.group_by == ("t.a", "b")
    assert [(p.output_name, p.column, p.is_star) for p in shape.projections] == [
        ("k", ("t", "a"), False), ("b", (None, "b"), False), ("n", None, False), (None, ("u", "*"), True),
    ]  # fmt: skip
    assert shape.aggregates
    assert not shape.distinct


@pytest.mark.parametrize(
    ("text", "joins"),
    [
        ("SELECT * FROM a JOIN b ON a.x = b.x", ["FROM", "INNER"]),
        ("SELECT * FROM a RIGHT OUTER JOIN b ON a.x = b.x FULL JOIN c ON true", ["FROM", "RIGHT", "FULL"]),
        ("SELECT * FROM a LEFT SEMI JOIN b ON a.x = b.x LEFT ANTI JOIN c ON true", ["FROM", "LEFT SEMI", "LEFT ANTI"]),
        ("SELECT * FROM a CROSS JOIN b NATURAL JOIN c", ["FROM", "CROSS", "NATURAL INNER"]),
    ],
)
def test_join_kinds(text: str, joins: list[str]) -> None:
    shape = query(text).shape()
    assert shape is not None
    assert [source.join for source in shape.sources] == joins


@pytest.mark.parametrize(
    "grouping",
    [
        "ROLLUP (a, b)",
        "a, ROLLUP (b)",
        "a, b WITH ROLLUP",
        "CUBE (a, b)",
        "a, b WITH CUBE",
        "GROUPING SETS ((a), (a, b), ())",
        "a, b GROUPING SETS ((a), (b))",
    ],
)
def test_grouping_sets_have_no_key(grouping: str) -> None:
    found = query(f"SELECT a, b, count(*) AS n FROM t GROUP BY {grouping}")
    shape = found.shape()
    assert shape is not None
    assert shape.grouping_sets
    assert infer_key(found, [("a",)], ["a", "b", "n"]) is None


def test_a_plain_grouping_has_its_key() -> None:
    found = query("SELECT a, b, count(*) AS n FROM t GROUP BY a, b")
    assert infer_key(found, [None], ["a", "b", "n"]) == ("a", "b")


def test_shape_of_other_queries() -> None:
    assert query("SELECT a FROM t UNION SELECT b FROM u").shape() is None
    assert query("VALUES (1)").shape() is None
    distinct = query("(SELECT DISTINCT a FROM t)").shape()
    assert distinct is not None
    assert distinct.distinct
    assert distinct.group_by is None
    total = query("SELECT max(a) + 1 FROM t").shape()
    assert total is not None
    assert total.aggregates
    window = query("SELECT max(a) OVER (PARTITION BY b) FROM t").shape()
    assert window is not None
    assert not window.aggregates


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        # Each of these once changed its meaning, or its text, on the way through sqlglot.
        ("length(s)", "LENGTH(s)"),
        ("'it''s'", "'it\\'s'"),
        ("to_char(a, '9')", "to_char(a, '9')"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a)"),
        ("percentile(a, 0.5, n)", "percentile(a, 0.5, n)"),
        ("window(ts, '5 seconds')", "window(ts, '5 seconds')"),
        ("my_Function(a)", "my_Function(a)"),
    ],
)
def test_expressions_keep_their_meaning(expression: str, printed: str) -> None:
    found = query(f"SELECT {expression} AS x FROM t GROUP BY {expression}")
    assert found.to_spark(["t"]) == f"SELECT {printed} AS x FROM `t` AS t GROUP BY {printed}"


@pytest.mark.parametrize("tail", ["PARTITION LENGTH 60", "RETAIN 3600 SECONDS", "REFRESH ON DEMAND"])
def test_group_by_all_before_a_tail_clause(tail: str) -> None:
    statement = parse_one(f"CREATE VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY ALL {tail}")
    assert statement.sql() == f"CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY ALL {tail}"


def test_hints_and_samples() -> None:
    found = query("SELECT /*+ BROADCAST(u) */ 1 FROM t TABLESAMPLE (50 PERCENT) REPEATABLE (1) JOIN u ON t.a = u.a")
    assert found.to_spark(["n", "m"]) == (
        "SELECT /*+ BROADCAST(u) */ 1 FROM `n` TABLESAMPLE (50 PERCENT) REPEATABLE (1) AS t JOIN `m` AS u ON t.a = u.a"
    )
