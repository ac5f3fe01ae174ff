"""Which conditions are bands, and in which units; the cell of every number, also next to the limits of BIGINT."""

from __future__ import annotations

import pytest

from headrace.algebra.bands import Band, Unit, band_of
from headrace.algebra.cells import _cell, join_by_cells
from headrace.algebra.core import to_core
from headrace.algebra.expressions import cast, ref, text
from headrace.algebra.join_order import Rates
from headrace.algebra.nodes import Column, Generate, Join, Node, Scan
from headrace.algebra.pushdown import optimise
from headrace.algebra.snippets import select_of
from headrace.algebra.trees import all_nodes
from headrace.engine import Engine

from . import data, queries

LEFT = {
    "a": "INT", "la": "BIGINT", "da": "DECIMAL(10,2)", "ta": "TIMESTAMP", "ya": "DATE", "fa": "DOUBLE",
    "na": "TIMESTAMP_NTZ", "wa": "DECIMAL(30,2)",
}  # fmt: skip
RIGHT = {
    "b": "INT", "lb": "BIGINT", "db": "DECIMAL(12,3)", "tb": "TIMESTAMP", "yb": "DATE", "fb": "DOUBLE",
    "nb": "TIMESTAMP_NTZ", "c": "INT",
}  # fmt: skip
SECOND, DAY = 1_000_000, 86_400_000_000


def band(condition: str) -> Band | None:
    return band_of(select_of(f"SELECT 1 WHERE {condition}").args["where"].this, LEFT, RIGHT)


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("a BETWEEN b - 5 AND b + 5", -5, 5),
        ("b BETWEEN a - 5 AND a + 3", -3, 5),
        ("a >= b - 3 AND a < b + 4", -3, 3),
        ("b - 5 < a AND a < b + 5", -4, 4),
        ("a > b + -5 AND 5 + b >= a", -4, 5),
        ("a - b > 1 AND a - b <= 2", 2, 2),
        ("b - a <= 7 AND (b - a) >= (-7)", -7, 7),
        ("a - 2 <= b AND a + 2 >= b", -2, 2),
        ("-a + b <= 3 AND -(a - b) >= 0", -3, 0),
        ("abs(a - b) <= 5", -5, 5),
        ("abs(b - a) < 5", -4, 4),
        ("5 >= abs(a - b)", -5, 5),
        ("abs(a - b - 1) <= 5", -4, 6),
        ("a - b = 5", 5, 5),
        ("a <= b + 1.5 AND a >= b - 1.5", -1, 1),
        ("a < b + 2.0 AND a > b", 1, 1),
        ("a <= b + 5 AND a >= b AND a <= b + 2 AND c > 1 AND a <> b", 0, 2),
        ("la BETWEEN lb - 5L AND lb + CAST(5 AS BIGINT)", -5, 5),
        ("a BETWEEN lb - 2 * 3 AND lb + 2 * 3", -6, 6),
        # Nothing is in these.
        ("a > b + 5 AND a < b", 6, -1),
        ("abs(a - b) <= -1", 1, -1),
    ],
)
def test_whole_numbers(condition: str, low: int, high: int) -> None:
    found = band(condition)
    assert found is not None
    assert (found.low, found.high, found.unit) == (low, high, Unit("number"))
    assert found.left in LEFT
    assert found.right in RIGHT


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("da BETWEEN db - 0.5 AND db + 0.25", Band("da", "db", -500, 250, Unit("number", 3))),
        ("abs(da - db) < 1", Band("da", "db", -999, 999, Unit("number", 3))),
        ("da >= b AND da < b + 1", Band("da", "b", 0, 99, Unit("number", 2))),
        ("da < b + 1.5BD AND da > b", Band("da", "b", 1, 149, Unit("number", 2))),
        ("ya BETWEEN yb - 2 AND date_add(yb, 3)", Band("ya", "yb", -2, 3, Unit("day"))),
        ("ya > date_sub(yb, 3) AND ya <= yb + INTERVAL 2 DAYS", Band("ya", "yb", -2, 2, Unit("day"))),
        ("datediff(ya, yb) BETWEEN 0 AND 6", Band("ya", "yb", 0, 6, Unit("day"))),
        ("abs(datediff(yb, ya)) < 6", Band("ya", "yb", -5, 5, Unit("day"))),
        (
            "ta >= tb - INTERVAL 5 SECONDS AND ta < tb + INTERVAL 1 MINUTE",
            Band("ta", "tb", -5 * SECOND, 60 * SECOND - 1, Unit("time")),
        ),
        (
            "tb - ta BETWEEN INTERVAL '0' SECOND AND INTERVAL '1' DAY",
            Band("ta", "tb", -DAY, 0, Unit("time")),
        ),
        (
            "ta <= timestampadd(SECOND, 5, tb) AND ta >= tb - INTERVAL 2 MINUTES 3 SECONDS",
            Band("ta", "tb", -123 * SECOND, 5 * SECOND, Unit("time")),
        ),
        ("na >= nb AND na <= nb + INTERVAL '0.5' SECOND", Band("na", "nb", 0, SECOND // 2, Unit("time"))),
    ],
)
def test_other_types(condition: str, wanted: Band) -> None:
    assert band(condition) == wanted


@pytest.mark.parametrize(
    "condition",
    [
        "a < b",
        "a >= b - 5",
        "a BETWEEN b - c AND b + c",
        "a >= b - 5 AND a <= c + 5",
        "a BETWEEN b - 5 AND la",
        "fa BETWEEN fb - 5 AND fb + 5",
        "a BETWEEN fb - 5 AND fb + 5",
        "a BETWEEN b - 5e0 AND b + 5e0",
        "lb - 1.5 < la AND la < lb + 1.5",
        "wa BETWEEN db - 1 AND db + 1",
        "la BETWEEN db - 1 AND db + 1",
        "a * 2 BETWEEN b - 5 AND b + 5",
        "a + b BETWEEN -5 AND 5",
        "abs(a - b) >= 5",
        "abs(a) - abs(b) <= 5",
        "a NOT BETWEEN b - 5 AND b + 5",
        "a >= b - 5 OR a <= b + 5",
        "ta BETWEEN tb - INTERVAL 1 MONTH AND tb + INTERVAL 1 MONTH",
        "ta BETWEEN yb AND date_add(yb, 1)",
        "ta BETWEEN date_sub(tb, 1) AND date_add(tb, 1)",
        "datediff(ta, tb) BETWEEN 0 AND 1",
        "ya BETWEEN yb AND yb + INTERVAL 5 HOURS",
        "a BETWEEN '1' AND b + 5",
        f"la BETWEEN lb - {2**62} AND lb + {2**62}",
    ],
)
def test_what_is_no_band(condition: str) -> None:
    assert band(condition) is None


def test_units_in_words() -> None:
    assert Unit("number").words(10) == "10"
    assert Unit("number", 3).words(1_500) == "1.5"
    assert Unit("number", 3).words(20_000) == "20"
    assert Unit("number", 3).words(20) == "0.02"
    assert Unit("day").words(2) == "2 days"
    assert Unit("time").words(5 * SECOND) == "5 seconds"


# Cells


def test_the_cell_of_every_number(engine: Engine) -> None:
    least, most = -(2**63), 2**63 - 1
    numbers = [least, least + 1, least + 7, -21, -11, -10, -9, -1, 0, 1, 9, 10, 19, most - 7, most - 1, most]
    rows = " UNION ALL ".join(f"SELECT {_literal(number)} AS x" for number in numbers)
    far = 2**61 - 1
    asked = [(offset, width) for width in (2, 3, 10, far) for offset in (-far, -11, -1, 0, 1, 10, far)]
    items = [text(_cell(cast(ref("x"), "bigint"), *pair)) for pair in asked]
    shown = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items))
    table = engine.arrow(engine.sql(f"SELECT x, {shown} FROM ({rows})"))
    for row in table.to_pylist():
        for number, (offset, width) in enumerate(asked):
            assert row[f"c{number}"] == (row["x"] + offset) // width, (row["x"], offset, width)


def _literal(number: int) -> str:
    return f"CAST('{number}' AS BIGINT)"


def tree(engine: Engine, query: str, rates: Rates | None = None) -> Node:
    return join_by_cells(to_core(optimise(data.bound(engine, query).root)), rates)


@pytest.mark.parametrize("query", queries.BANDS)
def test_band_joins_are_joins_on_cells(query: str, sail: Engine) -> None:
    joins = [node for node in all_nodes(tree(sail, query)) if isinstance(node, Join)]
    assert all(join.equal for join in joins)
    assert any(join.cells is not None for join in joins)


@pytest.mark.parametrize(
    "query",
    [
        "select t.v, u.w from t join u on t.k = u.k and t.v between u.w - 5 and u.w + 5",
        "select t.v, u.w from t join u on t.v < u.w",
        "select t.v from t cross join u",
    ],
)
def test_other_joins_stay_as_they_are(query: str, sail: Engine) -> None:
    assert not any(isinstance(node, Join) and node.cells is not None for node in all_nodes(tree(sail, query)))


def test_times_of_other_zones_have_no_constant_distance(sail: Engine) -> None:
    for query, cut in (
        ("select a.id, b.id from m a join m b on a.at >= b.at and a.at < b.at + interval 1 day", False),
        ("select a.dt, b.dt from t a join t b on a.dt between b.dt - 1 and b.dt + 1", True),
    ):
        root = join_by_cells(to_core(optimise(data.bound(sail, query).root)), in_utc=False)
        assert any(isinstance(node, Join) and node.cells is not None for node in all_nodes(root)) == cut


def test_what_changes_less_is_copied(sail: Engine) -> None:
    query = "select t.v, u.w from t join u on t.v between u.w - 5 and u.w + 5"
    grouped = "select v, w from t join (select max(w) as w from u group by k) on v between w - 5 and w + 5"

    def copied(query: str, **fast: float) -> str:
        rates = Rates(lambda scan: fast.get(scan.name, 0.0), lambda _scan: None) if fast else None
        (found,) = [node for node in all_nodes(tree(sail, query, rates)) if isinstance(node, Generate)]
        (scan,) = [node for node in all_nodes(found) if isinstance(node, Scan)]
        return scan.name

    assert copied(query) == "u"
    assert copied(query, t=1, u=2) == "t"
    assert copied(query, t=2, u=1) == "u"
    # Above an operator, copying would be a job of its own.
    assert copied(grouped, t=2, u=1) == "t"


def test_names_are_new_and_the_columns_the_same(sail: Engine) -> None:
    query = "select * from t join u on t.v between u.w - 5 and u.w + 5 join c on c.y between t.v and t.v + 3"
    plain = to_core(optimise(data.bound(sail, query).root))
    cut = join_by_cells(plain)
    assert cut.columns == plain.columns
    made = [column for node in all_nodes(cut) if isinstance(node, Generate) for column in node.made]
    assert all(column == Column(column.name, "BIGINT") for column in made)
    assert len({column.name for column in made}) == len(made) == 2
