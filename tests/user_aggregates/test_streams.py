"""What ESL says of streams made of others (2.2)."""

from __future__ import annotations

import pytest

from headrace.errors import DefinitionError
from headrace.session import Session
from tests.conftest import tagged


@pytest.fixture
def streams(session: Session) -> Session:
    for name in ("a", "b"):
        session.sql(f"CREATE STREAM {name} (x INT, at TIMESTAMP) ORDER BY at")
    session.sql("CREATE TABLE t (x INT)")
    return session


@pytest.mark.parametrize("word", ["EXCEPT", "INTERSECT"])
def test_set_operations_that_are_not_monotonic(streams: Session, word: str) -> None:
    with pytest.raises(DefinitionError) as error:
        streams.sql(f"CREATE STREAM c AS SELECT x FROM a {word} SELECT x FROM b")
    assert error.value.condition == "NOT_MONOTONIC"
    # Of tables and windows, and for views, which may lose rows, they are allowed.
    streams.sql(f"CREATE VIEW v AS SELECT x FROM a {word} SELECT x FROM b")
    streams.sql(f"CREATE STREAM w AS SELECT x FROM a [ROWS 2] {word} SELECT x FROM t")


def test_union_eliminates_what_is_equal_with_its_time(streams: Session) -> None:
    streams.sql("CREATE STREAM u AS SELECT x, at FROM a UNION SELECT x, at FROM b")
    streams.feed("a", [(1, 1), (1, 2)])
    streams.feed("b", [(1, 2), (1, 3)])
    streams.refresh()
    assert [row[-1] for row in tagged(streams.changes("u"))] == [1, 2, 3]
