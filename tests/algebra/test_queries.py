"""The oracle: the operator tree of a query gives the same bag of rows as the query itself.

The tree runs on Sail. The query itself runs on Sail where Sail can run it and agrees, and else on Spark, whose word is
the last one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.engine import Engine

from . import data, queries, tpch

EVERY = [pytest.param(text, id=f"{kind}-{n}") for kind, texts in queries.ALL.items() for n, text in enumerate(texts)]
# A sample of each kind also runs as a tree on Spark.
SAMPLE = EVERY[::9]


@pytest.mark.parametrize("text", EVERY)
def test_tree_is_the_query(text: str, sail: Engine, spark: Callable[[], Engine]) -> None:
    plain, written = data.answer(sail, text, raw=True)
    assert data.judged(text, plain, [sail, spark]) is None, written
    better, written = data.answer(sail, text)
    assert better == plain, written


@pytest.mark.parametrize("text", queries.BANDS)
def test_band_joins_by_cells(text: str, sail: Engine) -> None:
    wanted, _written = data.answer(sail, text, raw=True)
    found, written = data.answer(sail, text, cut=True)
    assert found == wanted, written


@pytest.mark.parametrize("text", queries.BANDS[::4])
def test_band_joins_by_cells_on_spark(text: str, spark: Callable[[], Engine]) -> None:
    found, written = data.answer(spark(), text, cut=True)
    assert data.judged(text, found, [spark]) is None, written


@pytest.mark.parametrize("text", queries.BEYOND)
def test_tree_beyond_the_engines(text: str, sail: Engine) -> None:
    wanted = data.sqlite_bag(text)
    for raw in (True, False):
        found, written = data.answer(sail, text, raw=raw)
        assert found == wanted, written


@pytest.mark.parametrize("text", SAMPLE)
def test_tree_on_spark(text: str, spark: Callable[[], Engine]) -> None:
    found, written = data.answer(spark(), text)
    assert data.judged(text, found, [spark]) is None, written


@pytest.mark.parametrize("name", sorted(tpch.queries()))
def test_tpch(name: str, sail: Engine) -> None:
    text = tpch.queries()[name]
    found, written = data.answer(sail, text)
    assert data.judged(text, found, [sail]) is None, written
    assert found, "the query should find rows"


@pytest.mark.parametrize("name", ["q02", "q13", "q16", "q18", "q21", "q22"])
def test_tpch_on_spark(name: str, spark: Callable[[], Engine]) -> None:
    text = tpch.queries()[name]
    found, written = data.answer(spark(), text)
    assert data.judged(text, found, [spark]) is None, written
