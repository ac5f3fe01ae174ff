"""Each statement family: what its clauses become."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from headrace import language as hl
from headrace.errors import LanguageError

SECOND = 1_000_000


def one(text: str) -> hl.Statement:
    statement = hl.parse_one(text)
    assert hl.parse_one(statement.sql()) == statement
    assert statement.place is not None
    return statement


@pytest.mark.parametrize(
    ("text", "kind", "arguments"),
    [
        ("MEMORY", "MEMORY", {}),
        ("FILES 'd/*.json' FORMAT JSON", "FILES", {"glob": "d/*.json", "format": "json"}),
        ("PORT 5501", "PORT", {"port": 5501}),
        ("'port5501' HOST 'h' FORMAT csv", "PORT", {"port": 5501, "host": "h", "format": "csv"}),
        ("RATE 10", "RATE", {"rows_per_second": 10}),
        (
            "STREAMING 'rate' OPTIONS (rowsPerSecond 5, a.b = 'x')",
            "STREAMING",
            {"format": "rate", "options": {"rowsPerSecond": 5, "a.b": "x"}},
        ),
        (
            "KAFKA OPTIONS (kafka.bootstrap.servers = 'h:9092', subscribe 't')",
            "KAFKA",
            {"options": {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}},
        ),
        ("POSTGRES OPTIONS ()", "POSTGRES", {"options": {}}),
    ],
)
def test_connectors(text: str, kind: str, arguments: dict[str, object]) -> None:
    statement = one(f"REGISTER SOURCE s (a INT) FROM {text}")
    assert isinstance(statement, hl.RegisterSource)
    assert (statement.connector.kind, statement.connector.arguments) == (kind, arguments)


def test_columns_in_either_order() -> None:
    statement = one(
        "REGISTER SOURCE s (a INT NOT NULL, decimal(10, 2) b, c array<struct<x: int, y: string>>, date date) "
        "FROM MEMORY"
    )
    assert isinstance(statement, hl.RegisterSource)
    assert [(c.name, c.type, c.not_null) for c in statement.columns] == [
        ("a", "INT", True),
        ("b", "DECIMAL(10,2)", False),
        ("c", "ARRAY<STRUCT<x: INT, y: STRING>>", False),
        ("date", "DATE", False),
    ]


def test_stream_clauses_in_any_order_and_in_options() -> None:
    plain = one(
        "CREATE STREAM t OVER s RETAIN 7 DAYS KEY (a, b) LATE DROP SLACK 10 SECONDS "
        "PARTITION LENGTH 1 MINUTE ORDER BY ts"
    )
    given = one(
        "CREATE STREAM t OVER s KEY (a, b) ORDER BY ts PARTITION LENGTH 60 RETAIN 7 DAYS "
        "WITH (slack = 10, late = 'drop')"
    )
    assert plain == given
    assert isinstance(plain, hl.CreateStream)
    assert (plain.slack, plain.late, plain.partition_length) == (10 * SECOND, "DROP", 60)
    assert plain.retain == 7 * 86400 * SECOND
    quoted = one("CREATE STREAM t OVER s WITH (slack = '5 MINUTES', op = 'col', Max_Rows = 1000)")
    assert isinstance(quoted, hl.CreateStream)
    assert quoted.slack == 300 * SECOND
    assert quoted.key is None
    assert dict(quoted.options) == {"op": "col", "max_rows": 1000}


def test_options() -> None:
    statement = one("ALTER HOME SET (a = 1, b = -2.5, c = 'x', d = TRUE, e = word, f = 10 SECONDS)")
    assert isinstance(statement, hl.Alter)
    assert dict(statement.settings) == {"a": 1, "b": -2.5, "c": "x", "d": True, "e": "word", "f": "10 SECONDS"}


def test_table() -> None:
    statement = one(
        "CREATE NON RETROACTIVE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, u INT REFERENCES v (k), w INT, "
        "FOREIGN KEY (u, w) REFERENCES x) PARTITION LENGTH 60"
    )
    assert isinstance(statement, hl.CreateTable)
    assert statement.key == ("id",)
    assert not statement.retroactive
    assert statement.if_not_exists
    assert statement.foreign_keys == (hl.ForeignKey(("u",), "v", ("k",)), hl.ForeignKey(("u", "w"), "x"))


def test_foreign_keys_of_tables() -> None:
    whole = "CREATE TABLE o (k INT, c BIGINT, PRIMARY KEY (k), FOREIGN KEY (c) REFERENCES customer (c_custkey){})"
    for words in ("", " ENFORCED", " NOT ENFORCED", " RELY"):
        statement = one(whole.format(words))
        assert isinstance(statement, hl.CreateTable)
        assert statement.foreign_keys == (hl.ForeignKey(("c",), "customer", ("c_custkey",), words.strip() or None),)
        assert statement.sql() == whole.format(words)
        assert one(f"CREATE TABLE o (k INT PRIMARY KEY, c BIGINT REFERENCES customer(c_custkey){words})") == statement
    assert one(whole.format(" NOT ENFORCED RELY")) == one(whole.format(" RELY"))
    mixed = one("CREATE TABLE o (c INT REFERENCES p NOT ENFORCED NOT NULL, enforced INT, rely INT REFERENCES rely)")
    assert isinstance(mixed, hl.CreateTable)
    assert [(column.name, column.not_null) for column in mixed.columns] == [
        ("c", True), ("enforced", False), ("rely", False),
    ]  # fmt: skip
    assert mixed.foreign_keys == (hl.ForeignKey(("c",), "p", (), "NOT ENFORCED"), hl.ForeignKey(("rely",), "rely"))


def test_keys_of_streams() -> None:
    statement = one("CREATE STREAM t (a INT, b INT) KEY (a) FOREIGN KEY (b) REFERENCES s (k) ENFORCED ORDER BY b")
    assert isinstance(statement, hl.CreateStream)
    assert statement.key == ("a",)
    assert statement.foreign_keys == (hl.ForeignKey(("b",), "s", ("k",), "ENFORCED"),)
    inside = "CREATE STREAM t (a INT, b INT, PRIMARY KEY (a), FOREIGN KEY (b) REFERENCES s (k) ENFORCED) ORDER BY b"
    assert one(inside) == statement
    assert one("CREATE STREAM t (a INT PRIMARY KEY, b INT REFERENCES s(k) ENFORCED) ORDER BY b") == statement
    over = one("CREATE STREAM t OVER x FOREIGN KEY (a, b) REFERENCES s FOREIGN KEY (c) REFERENCES u RELY KEY (a)")
    assert isinstance(over, hl.CreateStream)
    assert [foreign.table for foreign in over.foreign_keys] == ["s", "u"]
    assert over.sql().endswith("KEY (a) FOREIGN KEY (a, b) REFERENCES s FOREIGN KEY (c) REFERENCES u RELY")


def test_insert_with_times() -> None:
    statement = one(
        "INSERT INTO s VALUES (1, 'a') AT 3, (2, NULL) AT 5.5, (3, 'c') AT TIMESTAMP '1970-01-01 00:00:10', (4, 'd')"
    )
    assert isinstance(statement, hl.Insert)
    assert statement.rows is not None
    assert [row.at for row in statement.rows] == [3 * SECOND, 5_500_000, 10 * SECOND, None]
    queried = one("INSERT INTO s (a) SELECT a FROM t AT 3")
    assert isinstance(queried, hl.Insert)
    assert queried.query is not None
    assert (queried.at, queried.query.sql()) == (3 * SECOND, "SELECT a FROM t")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("1.50", Decimal("1.50")),
        ("1e3", 1000.0),
        ("'it\\'s'", "it's"),
        ('"x"', "x"),
        ("NULL", None),
        ("TRUE", True),
        ("(2)", 2),
        ("10L", 10),
        ("1.5BD", Decimal("1.5")),
        ("DATE '2020-01-02'", date(2020, 1, 2)),
        ("TIMESTAMP '2020-01-02 03:04:05'", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ],
)
def test_literals(text: str, value: object) -> None:
    statement = one(f"INSERT INTO s VALUES ({text})")
    assert isinstance(statement, hl.Insert)
    assert statement.rows is not None
    known, found = statement.rows[0].values[0].literal()
    assert known
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["1 + 1", "a", "f(1)", "-a", "CAST('x' AS DATE)", "(SELECT 1)"])
def test_not_literals(text: str) -> None:
    statement = one(f"INSERT INTO s VALUES ({text})")
    assert isinstance(statement, hl.Insert)
    assert statement.rows is not None
    assert statement.rows[0].values[0].literal() == (False, None)


def test_update_delete_merge() -> None:
    update = one("UPDATE t x SET x.a = a + 1, b = 'q' WHERE x.a > 3 AT 4")
    assert isinstance(update, hl.Update)
    assert update.where is not None
    assert (update.alias, [name for name, _ in update.assignments], update.at) == ("x", ["a", "b"], 4 * SECOND)
    assert update.where.to_spark() == "x.a > 3"
    delete = one("DELETE FROM t AT 5")
    assert isinstance(delete, hl.Delete)
    assert (delete.where, delete.at) == (None, 5 * SECOND)
    merge = one(
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET t.a = s.a "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.a > 1 THEN UPDATE SET a = 0 AT 9"
    )
    assert isinstance(merge, hl.Merge)
    assert [(clause.kind, clause.action) for clause in merge.clauses] == [
        ("matched", "delete"),
        ("matched", "update"),
        ("not matched", "insert"),
        ("not matched by source", "update"),
    ]
    assert (merge.source, merge.at) == ("s", 9 * SECOND)


def test_view_clauses() -> None:
    statement = one(
        "CREATE OR REPLACE STREAMED MATERIALIZED VIEW v (k, n) AS SELECT k, count(*) FROM t GROUP BY k SYNC BY y "
        "REFRESH EVERY 10 SECONDS OR AFTER 1000 ROWS OR ON z OR ON DEMAND REFRESH POLICY INCREMENTAL STRICT "
        "PARTITION LENGTH 60 RETAIN INTERVAL 1 HOUR WITH (strategy = 'incremental')"
    )
    assert isinstance(statement, hl.CreateView)
    assert statement.refresh is not None
    assert statement.query.sql() == "SELECT k, COUNT(*) FROM t GROUP BY k"
    assert statement.refresh == hl.RefreshPolicy(
        (
            hl.Trigger("every", every=10 * SECOND),
            hl.Trigger("after", rows=1000),
            hl.Trigger("on", stream="z"),
            hl.Trigger("demand"),
        ),
        "INCREMENTAL STRICT",
    )
    assert (statement.columns, statement.sync_by, statement.retain) == (("k", "n"), "y", 3600 * SECOND)
    assert statement.or_replace
    assert statement.materialized
    assert statement.output == "STREAMED"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t",
        "SELECT a, b",
        "SELECT 1 AS a",
        "SELECT a FROM t x",
        "SELECT a FROM t WHERE a > 10",
        "SELECT a FROM t JOIN u ON t.a = u.a",
        "SELECT a FROM t JOIN u",
        "SELECT a FROM (SELECT * FROM t)",
        "SELECT a FROM t GROUP BY a HAVING count(*) > 1",
        "SELECT a FROM t ORDER BY a LIMIT 10",
        "SELECT a FROM t UNION SELECT b FROM u",
        "WITH q AS (SELECT 1 AS a) SELECT a FROM q",
        "SELECT a FROM t AS OF 3",
        "SELECT explode(a) FROM t LATERAL VIEW explode(b) x AS y",
        "SELECT count(*) n FROM CHANGES(v)",
    ],
)
@pytest.mark.parametrize(
    "tail",
    [
        "REFRESH ON DEMAND",
        "REFRESH EVERY 1 SECOND",
        "SYNC BY y",
        "PARTITION LENGTH 60",
        "RETAIN 7 DAYS",
        "WITH (a = 1)",
    ],
)
def test_query_ends_where_the_tail_begins(query: str, tail: str) -> None:
    alone, tailed = one(f"CREATE VIEW v AS {query}"), one(f"CREATE VIEW v AS {query} {tail}")
    assert isinstance(alone, hl.CreateView)
    assert isinstance(tailed, hl.CreateView)
    assert tailed.query == alone.query
    assert tailed != alone


def test_output_in_the_query_is_moved_to_the_view() -> None:
    assert one("CREATE VIEW v AS SELECT STREAMED DISTINCT a FROM t") == one(
        "CREATE STREAMED VIEW v AS SELECT DISTINCT a FROM t"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("REFRESH VIEW v", hl.Refresh(view="v")),
        ("REFRESH MATERIALIZED VIEW v", hl.Refresh(view="v")),
        ("REFRESH materialized", hl.Refresh(view="materialized")),
        ("REFRESH", hl.Refresh()),
        ("ADVANCE CLOCK TO '1970-01-01 00:01'", hl.AdvanceClock(to=60 * SECOND)),
        ("EXPLAIN v", hl.Explain(target="v")),
        ("EXPLAIN STATE v", hl.Explain(kind="STATE", target="v")),
        ("EXPLAIN sharing", hl.Explain(target="sharing")),
        ("EXPECT 1000 ROWS INTO t", hl.Expect(rows=1000, table="t")),
        ("SHOW refreshes FROM v", hl.Show(what="REFRESHES", target="v")),
        ("SHOW CLOCK", hl.Show(what="CLOCK")),
        ("DESCRIBE EXTENDED v", hl.Describe(name="v", extended=True)),
        ("DESC TABLE t", hl.Describe(name="t")),
        ("ALTER VIEW v SET (k = 1)", hl.Alter(kind="VIEW", name="v", settings=hl.Options({"k": 1}))),
        (
            "ALTER STREAM s SET k = 'a', m = 2",
            hl.Alter(kind="STREAM", name="s", settings=hl.Options([("k", "a"), ("m", 2)])),
        ),
        ("ALTER CLOCK SET manual", hl.Alter(kind="CLOCK", settings=hl.Options({"mode": "manual"}))),
        (
            "ALTER VIEW v SET REFRESH POLICY INCREMENTAL STRICT",
            hl.Alter(kind="VIEW", name="v", settings=hl.Options({"policy": "incremental strict"})),
        ),
        (
            "ALTER MATERIALIZED VIEW v SET REFRESH POLICY AUTO",
            hl.Alter(kind="VIEW", name="v", settings=hl.Options({"policy": "auto"})),
        ),
        ("ALTER VIEW v SET refresh = 1", hl.Alter(kind="VIEW", name="v", settings=hl.Options({"refresh": 1}))),
        ("DROP MATERIALIZED VIEW v", hl.Drop(kind="VIEW", name="v")),
        ("DROP VIEW IF EXISTS v CASCADE", hl.Drop(kind="VIEW", name="v", cascade=True, if_exists=True)),
        ("DROP STREAM s RESTRICT", hl.Drop(kind="STREAM", name="s")),
        ("LOAD AGGREGATES a, b", hl.LoadAggregates(names=("a", "b"))),
    ],
)
def test_commands(text: str, expected: hl.Statement) -> None:
    assert one(text) == expected


def test_explain_of_statements() -> None:
    statement = one("EXPLAIN MAINTENANCE CREATE VIEW v AS SELECT a FROM t")
    assert isinstance(statement, hl.Explain)
    assert (statement.kind, statement.statement) == ("MAINTENANCE", hl.parse_one("CREATE VIEW v AS SELECT a FROM t"))
    selected = one("EXPLAIN SELECT 1")
    assert isinstance(selected, hl.Explain)
    assert isinstance(selected.statement, hl.Select)


@pytest.mark.parametrize(
    "words", ["VIEW", "OR REPLACE VIEW", "MATERIALIZED VIEW", "OR REPLACE STREAMED MATERIALIZED VIEW", "COMPLETE VIEW"]
)
def test_explain_create_view(words: str) -> None:
    statement = one(f"EXPLAIN CREATE {words} v AS SELECT a FROM t WITH (buckets = 4)")
    assert isinstance(statement, hl.ExplainCreate)
    assert statement.statement == hl.parse_one(f"CREATE {words} v AS SELECT a FROM t WITH (buckets = 4)")
    assert statement.sql() == f"EXPLAIN {statement.statement.sql()}"


def test_explain_of_other_creations_is_plain() -> None:
    table = one("EXPLAIN CREATE TABLE t (a INT)")
    assert isinstance(table, hl.Explain)
    delta = "CREATE VIEW x AS INITIALIZE x[i] AS SELECT 1 UPDATE x[j] AS SELECT 2 PARTITION LENGTH 60"
    assert isinstance(one(f"EXPLAIN {delta}"), hl.Explain)


def test_script_with_comments_and_places() -> None:
    statements = hl.parse("-- first\nSHOW VIEWS; /* a ; b */\n\n  DROP VIEW v;;\n-- the end")
    assert [type(statement).__name__ for statement in statements] == ["Show", "Drop"]
    assert [(s.place.line, s.place.column) for s in statements if s.place] == [(2, 1), (4, 3)]


def test_statements_are_frozen_and_hashable() -> None:
    statement = hl.parse_one("ALTER VIEW v SET (k = 1)")
    assert len({statement, hl.parse_one("alter view v set k = 1")}) == 1
    with pytest.raises(AttributeError):
        statement.kind = "TABLE"  # type: ignore[attr-defined]


def test_external_aggregate() -> None:
    statement = one("CREATE WINDOW AGGREGATE f(x INT) : (a INT, b STRING) EXTERNAL 'pkg.mod:Class'")
    assert isinstance(statement, hl.CreateAggregate)
    assert (statement.external, statement.window) == ("pkg.mod:Class", True)


def test_unknown_slack_is_refused() -> None:
    with pytest.raises(LanguageError) as caught:
        hl.parse("CREATE STREAM s OVER x WITH (slack = 'soon')")
    assert caught.value.condition == "BAD_DURATION"


def test_public_names_exist() -> None:
    assert sorted(hl.__all__) == hl.__all__
    assert all(hasattr(hl, name) for name in hl.__all__)
