"""What the tests of patterns share."""

from __future__ import annotations

from headrace.algebra.part_wise.patterns.pattern_columns import PatternSource
from headrace.algebra.part_wise.patterns.pattern_query import PatternQuery, describe_pattern
from headrace.algebra.part_wise.patterns.state_machine import StateMachine, state_machine
from headrace.language import CreateView, CreateViewDelta, Query, Select, parse_one

VIEW1 = """
    CREATE VIEW View1 AS
    SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss
    FROM M PATTERN [a, b, c, d+]
    WHERE a.loss>10 AND b.loss>10 AND c.loss>10 AND d.loss>10
    GROUP BY src, dest
"""
M = PatternSource(
    "M",
    (
        ("ts", "TIMESTAMP"), ("src", "STRING"), ("dest", "STRING"), ("loss", "INT"), ("price", "DECIMAL(10,2)"),
        ("share", "DOUBLE"), ("note", "STRING"), ("tags", "MAP<STRING, INT>"), ("pos", "STRUCT<x: INT>"),
    ),
    "ts",
    60,
)  # fmt: skip


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select | CreateView)
    return statement.query


def described(text: str) -> PatternQuery:
    return describe_pattern(query(text))


def machine(text: str) -> StateMachine:
    return state_machine(described(text))


def delta(text: str) -> CreateViewDelta:
    statement = parse_one(text)
    assert isinstance(statement, CreateViewDelta)
    return statement
