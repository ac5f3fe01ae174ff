"""Malformed text: each error has its condition, its place, and where it helps a hint."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError, HeadraceError, LanguageError
from headrace.language import parse, parse_one

CASES = [
    ("CREAT VIEW v AS SELECT 1", "UNKNOWN_STATEMENT", 1, 1),
    ("SHOW VIEWS;\n  SELEKT a FROM t", "UNKNOWN_STATEMENT", 2, 3),
    ("CREATE STREEM s OVER x", "UNKNOWN_THING_TO_CREATE", 1, 8),
    ("CREATE", "UNEXPECTED_END", 1, 7),
    ("REGISTER SOURCE s (a INT) FROM KAFFKA", "UNKNOWN_CONNECTOR", 1, 32),
    ("REGISTER SOURCE s (a INT)", "UNEXPECTED_END", 1, 26),
    ("REGISTER SOURCE s (a INTT) FROM MEMORY", "UNKNOWN_TYPE", 1, 22),
    ("REGISTER SOURCE s (a INT, A STRING) FROM MEMORY", "DUPLICATE_COLUMN", 1, 35),
    ("REGISTER SOURCE s (a INT) FROM FILES 'x' FORMAT xml", "UNKNOWN_FORMAT", 1, 49),
    ("REGISTER SOURCE s (a INT) FROM MEMORY WITH (x = 1, X = 2)", "DUPLICATE_OPTION", 1, 52),
    ("CREATE STREAM s (a INT) OVER x", "MISPLACED_CLAUSE", 1, 17),
    ("CREATE STREAM s (a, b INT)", "MISSING_TYPE", 1, 17),
    ("CREATE STREAM s OVER x KEY a KEY b", "DUPLICATE_CLAUSE", 1, 30),
    ("CREATE STREAM s OVER x LATE IGNORE", "UNKNOWN_POLICY_FOR_LATE_ROWS", 1, 29),
    ("CREATE STREAM s OVER x SLACK 10 PARSECS", "UNEXPECTED_TOKEN", 1, 33),
    ("CREATE TABLE t (a INT, PRIMARY KEY (b))", "UNKNOWN_COLUMN", 1, 16),
    ("INSERT INTO t (a, b) VALUES (1, 2), (3)", "WRONG_NUMBER_OF_VALUES", 1, 37),
    ("INSERT INTO t VALUES (1) AT 'tomorrow'", "BAD_TIME", 1, 29),
    ("UPDATE t WHERE a = 1", "UNEXPECTED_TOKEN", 1, 16),
    ("CREATE VIEW v AS SELECT a FROM", "UNEXPECTED_END", 1, 31),
    ("CREATE VIEW v AS\nSELECT a FROM t WHERE (a > 1", "UNEXPECTED_END", 2, 29),
    ("SELECT a FROM t WHERE a >", "UNEXPECTED_END", 1, 26),
    ("SELECT a FROM t [ROWS 10 FROM u", "SYNTAX_ERROR", 1, 26),
    ("SELECT a FROM t AS OF SNAPSHOT 'x'", "SYNTAX_ERROR", 1, 32),
    ("SELECT a FROM cat.db.t", "QUALIFIED_NAME", 1, 22),
    ("DROP VIEW a.b", "QUALIFIED_NAME", 1, 12),
    ("CREATE VIEW v AS SELECT a FROM t REFRESH EVERY 0 SECONDS", "BAD_DURATION", 1, 48),
    ("CREATE VIEW v AS SELECT a FROM t REFRESH EVERY 1 SECOND REFRESH ON y", "DUPLICATE_CLAUSE", 1, 57),
    ("CREATE VIEW v AS SELECT a FROM t REFRESH POLICY SOMETIMES", "UNKNOWN_REFRESH_POLICY", 1, 49),
    ("CREATE VIEW v AS SELECT a FROM t PARTITION LENGTH 0", "BAD_PARTITION_LENGTH", 1, 51),
    ("CREATE STREAMED VIEW v AS SELECT COMPLETE a FROM t", "MISPLACED_OUTPUT", 1, 1),
    ("SELECT a FROM (SELECT STREAMED a FROM t) x", "MISPLACED_OUTPUT", 1, 1),
    ("CREATE VIEW v AS INITIALIZE w[i] AS SELECT 1", "WRONG_VIEW", 1, 29),
    ("CREATE VIEW v AS INITIALIZE v[i] AS SELECT 1 UPDATE v[j] AS SELECT 2", "UNEXPECTED_END", 1, 69),
    ("CREATE AGGREGATE f(x INT) : INT { ITERATE: { INSERT INTO RETURN VALUES (1);", "UNCLOSED_BRACE", 1, 44),
    ("CREATE AGGREGATE f(x INT) : INT { ITERATTE: { } }", "UNKNOWN_BLOCK", 1, 35),
    ("CREATE AGGREGATE f(x INT) { }", "UNEXPECTED_TOKEN", 1, 27),
    ("SELECT 'abc FROM t", "UNCLOSED_QUOTE", 1, 8),
    ("SELECT 1 /* never closed", "UNCLOSED_COMMENT", 1, 10),
    ("SHOW VEIWS", "UNKNOWN_THING_TO_SHOW", 1, 6),
    ("CREATE VIEW v AS SELECT a FROM t REFRESH EVRY 10 SECONDS", "UNEXPECTED_TOKEN", 1, 42),
    ("CREATE VIEW v AS SELECT a FROM t RETAIN", "UNEXPECTED_END", 1, 40),
    ("DROP VIEW v w", "UNEXPECTED_TOKEN", 1, 13),
    ("ADVANCE CLOCK TO soon", "UNEXPECTED_TOKEN", 1, 18),
    ("EXPECT many ROWS INTO t", "UNEXPECTED_TOKEN", 1, 8),
    ("SELECT a, FROM t WHERE", "UNEXPECTED_END", 1, 23),
    ("CREATE TABLE t (a INT, FOREIGN KEY (b) REFERENCES u)", "UNKNOWN_COLUMN", 1, 16),
    ("CREATE TABLE t (a INT, FOREIGN KEY a REFERENCES u)", "UNEXPECTED_TOKEN", 1, 36),
    ("CREATE TABLE t (a INT, FOREIGN KEY (a) u)", "UNEXPECTED_TOKEN", 1, 40),
    ("CREATE TABLE t (a INT REFERENCES)", "UNEXPECTED_TOKEN", 1, 33),
    ("CREATE TABLE t (a INT REFERENCES u (k) NOT CHECKED)", "UNEXPECTED_TOKEN", 1, 40),
    ("CREATE TABLE t (a INT REFERENCES u ENFORCED RELY)", "UNEXPECTED_TOKEN", 1, 45),
    ("CREATE STREAM s (a INT, FOREIGN KEY (b) REFERENCES u)", "UNKNOWN_COLUMN", 1, 17),
    ("CREATE STREAM s (a INT) FOREIGN KEY (b) REFERENCES u", "UNKNOWN_COLUMN", 1, 17),
    ("CREATE STREAM s (a INT PRIMARY KEY) KEY (a)", "DUPLICATE_CLAUSE", 1, 37),
    ("CREATE STREAM s (a INT PRIMARY KEY, b INT PRIMARY KEY)", "DUPLICATE_CLAUSE", 1, 17),
    ("CREATE STREAM s (PRIMARY KEY (a))", "UNEXPECTED_TOKEN", 1, 17),
    ("CREATE STREAM s (a, FOREIGN KEY (a) REFERENCES u) AS SELECT a FROM t", "MISPLACED_CLAUSE", 1, 17),
    ("ALTER VIEW v SET REFRESH POLICY SOMETIMES", "UNKNOWN_REFRESH_POLICY", 1, 33),
    ("ALTER VIEW v SET REFRESH POLICY", "UNEXPECTED_END", 1, 32),
    ("ALTER VIEW v SET REFRESH EVERY 10 SECONDS", "UNEXPECTED_TOKEN", 1, 26),
    ("ALTER TABLE t SET REFRESH POLICY AUTO", "UNEXPECTED_TOKEN", 1, 27),
    ("ALTER VIEW v SET REFRESH POLICY AUTO STRICT", "UNEXPECTED_TOKEN", 1, 38),
    ("DROP MATERIALIZED TABLE t", "UNEXPECTED_TOKEN", 1, 19),
    ("ALTER MATERIALIZED STREAM s SET (a = 1)", "UNEXPECTED_TOKEN", 1, 20),
    ("REFRESH MATERIALIZED v", "UNEXPECTED_TOKEN", 1, 22),
    ("EXPLAIN CREATE VIEW", "UNEXPECTED_END", 1, 20),
    ("EXPLAIN CREATE VIEW v AS", "UNEXPECTED_END", 1, 25),
    ("SELECT PART_TIMESTAMP FROM a, b", "AMBIGUOUS_PART_TIMESTAMP", 1, 1),
]


@pytest.mark.parametrize(("text", "condition", "line", "column"), CASES, ids=[case[0][:40] for case in CASES])
def test_malformed(text: str, condition: str, line: int, column: int) -> None:
    with pytest.raises(HeadraceError) as caught:
        parse(text)
    error = caught.value
    assert isinstance(error, LanguageError | DefinitionError)
    assert error.place is not None
    assert (error.condition, error.place.line, error.place.column) == (condition, line, column), str(error)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("CREAT VIEW v", "CREATE"), ("REFRSH VIEW v", "REFRESH"), ("SHOW VEIWS", "VIEWS"), ("DROP STRAEM s", "STREAM")],
)
def test_nearest_word_is_suggested(text: str, hint: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text)
    assert caught.value.hint == f"Did you mean {hint}?"


def test_message_shows_the_line() -> None:
    with pytest.raises(LanguageError) as caught:
        parse("SHOW VIEWS;\nDROP VEIW v")
    assert "line 2, column 6" in str(caught.value)
    assert "  DROP VEIW v\n       ^^^^" in str(caught.value)


def test_exactly_one() -> None:
    with pytest.raises(LanguageError) as none:
        parse_one(" -- nothing\n ; ")
    assert none.value.condition == "EMPTY_TEXT"
    with pytest.raises(LanguageError) as two:
        parse_one("SHOW VIEWS; SHOW TABLES")
    assert two.value.condition == "MORE_THAN_ONE_STATEMENT"
