"""The same on Spark, where types count too: every strategy gives the rows and the column types that recompute gives."""

from __future__ import annotations

import pytest

from headrace.engine import Engine
from tests.part_wise.brute_window import EXACT, MERGED, VALUES, Row, random_rows
from tests.part_wise.part_runner import PartRunner
from tests.part_wise.spark_store import SparkStore
from tests.part_wise.window_cases import Case

pytestmark = pytest.mark.slow

FIRST, PARTS = 101, 11
CASES = {
    "exact": (Case([*EXACT]), (3, 1)),
    "exact, panes": (
        Case([*EXACT], where="h >= 0 AND g IS DISTINCT FROM 'often'", keep=lambda r: r.g != "often"),
        (5, 2),
    ),
    "values": (
        Case([*VALUES, "count(*)", "sum(d)"], having="count(*) > 1", pass_on=lambda rows: len(rows) > 1),
        (3, 1),
    ),
    "merged": (Case([*MERGED, "count(DISTINCT a)"], keys="h * 2 AS twice, g", key=lambda r: (r.h * 2, r.g)), (5, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_strategies_agree_with_brute_force_and_each_other(spark_engine: Engine, name: str) -> None:
    case, shape = CASES[name]
    rows = random_rows(len(name), FIRST, PARTS)
    store = SparkStore(spark_engine.spark)
    functions = case.functions(*shape)
    case.check(PartRunner(store, "S", rows, FIRST, PARTS), rows, functions, *shape)
    for strategy in functions:
        assert store.types(f"v_{strategy}") == store.types("v_recompute"), strategy


def test_sums_since_the_beginning_do_not_overflow(spark_engine: Engine) -> None:
    """A BIGINT that is near its end in every part: a window of two parts holds it, all parts together would not."""
    large = 2**62 - 1
    rows = [Row(FIRST + n, "x", 0, None, large, None, None, None) for n in range(6)]
    case = Case(["sum(b)", "avg(b)", "count(*)"])
    functions = case.functions(2, 1)
    case.check(PartRunner(SparkStore(spark_engine.spark), "S", rows, FIRST, 6), rows, functions, 2, 1)
    assert len(functions) == 4
