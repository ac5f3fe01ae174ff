"""Broken text of any kind is refused as broken text, never with an error of the parser's insides."""

from __future__ import annotations

import contextlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.language import parse

SEEDS = (
    "REGISTER SOURCE s (a INT, b ARRAY<STRING>) FROM FILES 'x' FORMAT json WITH (k = 'v')",
    "CREATE STREAM s (a INT) ORDER BY a SOURCE 'port1' SLACK 10 SECONDS LATE DROP KEY (a)",
    "CREATE TABLE t (a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES u (b)) PARTITION LENGTH 60",
    "INSERT INTO t (a, b) VALUES (1, DATE '2020-01-01') AT 3, (2, NULL)",
    "UPDATE t SET a = a + 1 WHERE b IN (SELECT c FROM u) AT 3",
    "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    "CREATE STREAMED VIEW v AS SELECT a, sum(b) OVER (PARTITION BY c ROWS 9 PRECEDING SLIDE 10) FROM R[y](s) x "
    "JOIN m [i-3..i] PATTERN [p, q+] WITHIN 5 AS OF 3 ON x.a < m.a <= 3 REFRESH EVERY 10 SECONDS OR ON z RETAIN 1 DAY",
    "CREATE VIEW v AS INITIALIZE v[i] AS SELECT a FROM m[i] UPDATE v[j] AS SELECT a FROM m[j] PARTITION LENGTH 60",
    "CREATE AGGREGATE f(x REAL) : REAL { TABLE s(a REAL); INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (1); } }",
    "WITH q AS (SELECT Wstream(*)[ROWS 10] FROM s [RANGE 1 MIN SLIDE 2 SEC INTERNAL]) SELECT Now - 5, x[0] "
    "FROM q, CHANGES(v)",
    "SELECT * FROM m MATCH_RECOGNIZE (PARTITION BY a ORDER BY b MEASURES LAST(x.a) AS y ONE ROW PER MATCH AFTER MATCH "
    "SKIP PAST LAST ROW PATTERN (x (y | z)* w+) WITHIN 5 SECONDS SUBSET u = (x, y) DEFINE x AS x.a > 1) AS k",
    "EXPLAIN STATE SELECT * FROM v WHERE PART_TIMESTAMP = '2015/01/01 0:00'; SHOW PARTS FROM x; ALTER CLOCK SET manual",
)


@st.composite
def broken(draw: st.DrawFn) -> str:
    words = draw(st.sampled_from(SEEDS)).replace("(", " ( ").replace(")", " ) ").replace("[", " [ ").split()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.integers(0, 3)):
            case 0 if len(words) > 1:
                del words[at]
            case 1:
                words.insert(at, words[draw(st.integers(0, len(words) - 1))])
            case 2:
                words[at] = draw(
                    st.sampled_from(
                        [
                            "(",
                            ")",
                            "[",
                            "]",
                            "{",
                            "}",
                            ",",
                            ";",
                            ".",
                            "..",
                            ":",
                            "=",
                            "<",
                            ">",
                            "'x",
                            "1",
                            "-1",
                            "`b`",
                            "AS",
                            "OF",
                            "FROM",
                            "NULL",
                            "*",
                            "+",
                            "é",
                            "≤",
                            "\\",
                        ]
                    )
                )
            case _:
                words = words[: at + 1]
    return " ".join(words)


@settings(max_examples=400, deadline=None)
@given(st.one_of(broken(), st.text(max_size=30)))
@example("TABLE t")
@example("SELECT * FROM (")
@example("EXPLAIN EXPLAIN EXPLAIN")
@example("SELECT " + "(" * 300)
def test_only_our_errors(text: str) -> None:
    with contextlib.suppress(HeadraceError):
        parse(text)
