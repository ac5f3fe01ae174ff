"""The generated view delta functions on Spark and Sail, part by part, against brute force.

Fixed seeds, few and rich cases: several rows of a group in a part, groups without rows, NULLs in groups and in values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from headrace.algebra.part_wise.patterns.pattern_columns import PatternSource
from headrace.algebra.part_wise.patterns.pattern_functions import pattern_functions
from headrace.engine import Engine
from headrace.language import arrow_type
from tests.part_wise.brute_pattern import BrutePattern, Run, known, of, total
from tests.part_wise.harness import Parts, start_of
from tests.part_wise.tools import delta, query

LENGTH = 60
_SCHEMA = "ts TIMESTAMP, src STRING, dest STRING, loss INT, price DECIMAL(10,2), share DOUBLE, note STRING"
M = PatternSource("M", tuple(tuple(it.split(" ")) for it in _SCHEMA.split(", ")), "ts", LENGTH)  # type: ignore[misc]


def above(limit: int) -> Callable[[Any, Any], bool | None]:
    return lambda new, _: None if new["loss"] is None else new["loss"] > limit


def below(limit: int) -> Callable[[Any, Any], bool | None]:
    return lambda new, _: None if new["loss"] is None else new["loss"] < limit


def rises(new: Any, last: Any) -> bool | None:
    return None if new["loss"] is None or last["loss"] is None else new["loss"] > last["loss"]


def falls(new: Any, last: Any) -> bool | None:
    return None if new["loss"] is None or last["loss"] is None else new["loss"] < last["loss"]


def anything(new: Any, last: Any) -> bool:
    return True


def mean(values: Sequence[Any]) -> float | None:
    found = known(values)
    return sum(found) / len(found) if found else None


def mean_price(values: Sequence[Any]) -> Decimal | None:
    found = known(values)
    # DECIMAL(10,2) has averages of type DECIMAL(14,6).
    return (sum(found) / len(found)).quantize(Decimal("0.000001"), ROUND_HALF_UP) if found else None


@dataclass(frozen=True)
class Case:
    text: str
    pattern: BrutePattern
    row: Callable[[Run], tuple[Any, ...]]
    having: Callable[[Run], bool] = lambda run: True


def group_of(run: Run) -> tuple[Any, Any]:
    return run[0][1]["src"], run[0][1]["dest"]


BY = ("src", "dest")
CASES = {
    "view1": Case(
        "SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss FROM M PATTERN [a, b, c, d+] "
        "WHERE a.loss > 3 AND b.loss > 3 AND c.loss > 3 AND d.loss > 3 GROUP BY src, dest",
        BrutePattern([above(3)] * 4, [None, None, None, above(3)], BY),
        lambda run: (*group_of(run), len(run), total(of(run, "loss"))),
    ),
    "a rise and a fall": Case(
        "SELECT src, dest, count(b) AS up, first(a.loss) AS low, max(b.loss) AS high, last(loss) AS now "
        "FROM M PATTERN [a, b+, c] WHERE a.loss < 6 AND b.loss > a.loss AND b.loss > PREV(b.loss) AND c.loss < b.loss "
        "GROUP BY src, dest",
        BrutePattern([below(6), rises, falls], [None, rises, None], BY),
        lambda run: (
            *group_of(run),
            len(of(run, "loss", 2)),
            of(run, "loss", 1)[0],
            max(known(of(run, "loss", 2))),
            run[-1][1]["loss"],
        ),
    ),
    "entering only": Case(
        "SELECT src, dest, count(*) AS n, min(loss) AS low, min(b.loss) AS b_low FROM M PATTERN [a+, b+] "
        "WHERE a.loss > 4 AND b.loss < a.loss GROUP BY dest, src",
        BrutePattern([above(4), falls], [above(4), anything], BY),
        lambda run: (*group_of(run), len(run), min(known(of(run, "loss"))), min(known(of(run, "loss", 2)))),
    ),
    "within": Case(
        "SELECT src, dest, count(*) AS n, first(ts) AS since, last(b.ts) AS till, sum(b.loss) AS lost "
        "FROM M PATTERN [a, b+] WITHIN 150 SECONDS WHERE a.loss > 3 AND b.loss > 1 GROUP BY src, dest",
        BrutePattern([above(3), above(1)], [None, above(1)], BY, timedelta(seconds=150)),
        lambda run: (*group_of(run), len(run), run[0][1]["ts"], run[-1][1]["ts"], total(of(run, "loss", 2))),
    ),
    "all aggregates": Case(
        "SELECT src, dest, count(*) AS n, count(loss) AS nl, count(a) AS na, count(c.loss) AS nc, sum(loss) AS sl, "
        "sum(price) AS sp, sum(share) AS ss, sum(c.price) AS scp, min(note) AS mn, max(c.note) AS mx, avg(loss) AS al, "
        "avg(b.price) AS ap, avg(share) AS as_, first(note) AS fn, last(b.note) AS ln, last(c.loss) AS ll, "
        "sum(loss + 1) AS sl1, sum(price) / count(*) AS ratio "
        "FROM M PATTERN [a+, b, c+] "
        "WHERE a.loss > 2 AND (b.loss > a.loss OR b.note IS NULL) AND (c.note = 'x' OR c.loss IS NULL) AND share < 9.5 "
        "GROUP BY src, dest HAVING n > 3 OR count(c) > 1",
        BrutePattern(
            [
                above(2),
                lambda new, last: rises(new, last) or new["note"] is None,
                lambda new, last: new["note"] == "x" or new["loss"] is None,
            ],
            [above(2), None, lambda new, last: new["note"] == "x" or new["loss"] is None],
            BY,
            keep=lambda row: row["share"] is not None and row["share"] < 9.5,
        ),
        lambda run: (
            *group_of(run),
            len(run),
            len(known(of(run, "loss"))),
            len(of(run, "loss", 1)),
            len(known(of(run, "loss", 3))),
            total(of(run, "loss")),
            total(of(run, "price")),
            total(of(run, "share")),
            total(of(run, "price", 3)),
            min(known(of(run, "note")), default=None),
            max(known(of(run, "note", 3)), default=None),
            mean(of(run, "loss")),
            mean_price(of(run, "price", 2)),
            mean(of(run, "share")),
            of(run, "note")[0],
            of(run, "note", 2)[-1],
            of(run, "loss", 3)[-1],
            total([None if it is None else it + 1 for it in of(run, "loss")]),
            "ratio",
        ),
        lambda run: len(run) > 3 or len(of(run, "loss", 3)) > 1,
    ),
    "no groups": Case(
        "SELECT count(*) AS n, last(src) AS s FROM M PATTERN [a, b+] WITHIN 100 WHERE a.loss > 5 AND b.loss > 2",
        BrutePattern([above(5), above(2)], [None, above(2)], (), timedelta(seconds=100)),
        lambda run: (len(run), run[-1][1]["src"]),
    ),
    "one variable": Case(
        "SELECT src, dest, last(loss) AS l FROM M PATTERN [a] WHERE a.loss > 6 GROUP BY src, dest",
        BrutePattern([above(6)], [None], BY),
        lambda run: (*group_of(run), run[-1][1]["loss"]),
    ),
    "any rows": Case(
        "SELECT src, dest, count(*) AS n FROM M PATTERN [a, b, c] GROUP BY src, dest",
        BrutePattern([anything] * 3, [None] * 3, BY),
        lambda run: (*group_of(run), len(run)),
    ),
}


def made_parts(seed: int, count: int, length: int, most: int, groups: int) -> list[list[dict[str, Any]]]:
    """Rows of `count` parts: of each group up to `most` in a part, at different times; one group is NULL."""
    dice = random.Random(seed)
    names = [(None, "p"), ("u", "p"), ("u", None), ("v", "q"), ("w", "q")][:groups]
    parts = []
    for part in range(count):
        seconds = dice.sample(range(length), len(names) * most)
        parts.append(
            [
                _made_row(dice, start_of(part, length) + timedelta(seconds=seconds.pop()), src, dest)
                for src, dest in names
                for _ in range(dice.choice([0, *range(most + 1)]))
            ]
        )
    return parts


def _made_row(dice: random.Random, ts: datetime, src: str | None, dest: str | None) -> dict[str, Any]:
    return {
        "ts": ts,
        "src": src,
        "dest": dest,
        "loss": dice.choice([None, *range(9), *range(3, 9)]),
        "price": dice.choice([None, Decimal(dice.randrange(-999, 9999)) / 100]),
        "share": dice.choice([None, *(it / 4 for it in range(20, 40))]),
        "note": dice.choice([None, "x", "x", "y"]),
    }


def frame_of(spark: Any, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows of M as a frame; through Arrow, so that Spark needs no Python of its own."""
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in M.columns])
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema), _SCHEMA)


def check(spark: Any, case: Case, parts: list[list[dict[str, Any]]], length: int, one_row: bool) -> int:
    """Compare all parts of the view, and tell how many rows it had; `parts` are those of M, which span LENGTH."""
    source = replace(M, length=LENGTH)
    texts = pattern_functions(query(case.text), "v", "v__helper", source, length, one_row=one_row)
    helper, view = map(delta, texts)
    held = Parts(spark)
    for number, rows in enumerate(parts):
        held.put("M", number, frame_of(spark, rows), LENGTH)
    many = length // LENGTH
    whole = [list(chain(*parts[at : at + many])) for at in range(0, len(parts), many)]
    expected = case.pattern.accepting([(start_of(at, length), rows) for at, rows in enumerate(whole)])
    seen = 0
    for part, runs in enumerate(expected):
        held.fill(helper, part, first=part == 0)
        found = held.fill(view, part, first=part == 0)
        wanted = [_ratio(case.row(run), run) for run in runs if case.having(run)]
        assert _sorted(found) == _sorted(wanted), f"part {part}"
        seen += len(wanted)
    return seen


def _ratio(row: tuple[Any, ...], run: Run) -> tuple[Any, ...]:
    """DECIMAL(20,2) by a BIGINT, which is DECIMAL(20,0), gives 18 digits before the point and leaves 20 behind."""
    if "ratio" not in row:
        return row
    found = total(of(run, "price"))
    return (*row[:-1], None if found is None else _Near(float(found) / len(run)))


class _Near:
    """Equal to what is nearly the same: how many digits a quotient has is the engine's business."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decimal) and abs(float(other) - self.value) < 1e-6

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"about {self.value}"


def _sorted(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    plain = [tuple(it.timestamp() if hasattr(it, "timestamp") else it for it in row) for row in rows]
    return sorted(plain, key=lambda row: [(it is None, str(it)) for it in row[:3]])


# The seeds are such that every case has some matches.


@pytest.mark.parametrize("name", CASES)
def test_many_rows_of_a_group_in_a_part(engine: Engine, name: str) -> None:
    assert check(engine.spark, CASES[name], made_parts(591, 6, LENGTH, 4, 5), LENGTH, one_row=False) > 3


@pytest.mark.parametrize("name", CASES)
def test_one_row_of_a_group_in_a_part(engine: Engine, name: str) -> None:
    parts = made_parts(1420, 10, LENGTH, 1, 1) if name == "no groups" else made_parts(1472, 10, LENGTH, 1, 5)
    assert check(engine.spark, CASES[name], parts, LENGTH, one_row=True) > 2


@pytest.mark.parametrize("name", ["a rise and a fall", "within", "all aggregates"])
def test_parts_of_the_view_that_are_longer(engine: Engine, name: str) -> None:
    assert check(engine.spark, CASES[name], made_parts(45, 9, LENGTH, 2, 5), 3 * LENGTH, one_row=False) > 2


@pytest.mark.parametrize("one_row", [False, True])
def test_a_run_stays_until_within_has_run_out(engine: Engine, one_row: bool) -> None:
    """The run begins at second 10 and is over after second 160: part 2 begins before that, part 3 after it."""
    blank = dict.fromkeys(name for name, _ in M.columns)
    rows = [{**blank, "ts": start_of(second, 1), "src": "u", "loss": 5} for second in (10, 70)]
    parts: list[list[dict[str, Any]]] = [rows[:1], rows[1:], [], [], []]
    assert check(engine.spark, CASES["within"], parts, LENGTH, one_row) == 2


def test_rows_of_one_time_do_not_depend_on_their_arrival(engine: Engine) -> None:
    case = CASES["all aggregates"]
    rows = [{**row, "ts": start_of(0, LENGTH)} for part in made_parts(5, 3, LENGTH, 6, 3) for row in part]
    texts = pattern_functions(query(case.text), "v", "v__helper", M, LENGTH)
    found = []
    for order in (rows, rows[::-1], sorted(rows, key=lambda row: str(row["price"]))):
        held = Parts(engine.spark)
        held.put("M", 0, frame_of(engine.spark, order), LENGTH)
        found.append(_sorted(held.fill(delta(texts[0]), 0, first=True)))
    assert found[0]
    assert found[0] == found[1] == found[2]


def test_types_are_those_that_spark_gives(spark_engine: Engine) -> None:
    case = CASES["all aggregates"]
    plain = case.text.split(" FROM M ")[0] + " FROM m_typed GROUP BY src, dest"
    for variable in "abc":
        plain = plain.replace(f"{variable}.", "").replace(f"count({variable})", "count(*)")
    frame_of(spark_engine.spark, []).createOrReplaceTempView("m_typed")
    wanted = dict(spark_engine.spark.sql(plain).dtypes)
    for one_row in (False, True):
        held = Parts(spark_engine.spark)
        for part in (0, 1):
            held.put("M", part, frame_of(spark_engine.spark, []), LENGTH)
        texts = pattern_functions(query(case.text), "v", "v__helper", M, LENGTH, one_row=one_row)
        for part in (0, 1):
            for text in texts:
                held.fill(delta(text), part, first=part == 0)
        assert held.schema("v", 1) == held.schema("v", 0) == wanted
        assert held.schema("v__helper", 1) == held.schema("v__helper", 0)


@pytest.mark.parametrize("one_row", [False, True])
def test_odd_types(spark_engine: Engine, one_row: bool) -> None:
    """Time as a number of seconds, sums of as many digits as there are, structs and arrays in a run."""
    columns = (
        ("at", "BIGINT"), ("order", "INT"), ("d", "DECIMAL(38,8)"), ("i", "INTERVAL DAY TO SECOND"),
        ("pos", "STRUCT<x: INT>"), ("n", "TIMESTAMP_NTZ"), ("l", "ARRAY<INT>"), ("f", "FLOAT"),
    )  # fmt: skip
    source = PatternSource("odd", columns, "at", LENGTH, not_null=("order", "at"))
    text = (
        "SELECT `order`, sum(d) AS sd, avg(d) AS ad, sum(i) AS si, last(pos) AS lp, max(n) AS mn, last(b.l) AS ll, "
        "sum(f) AS sf, avg(f) AS af FROM odd {} GROUP BY `order`"
    )
    pattern = "PATTERN [a, b+] WITHIN 70 WHERE b.pos.x > a.pos.x"
    helper, view = map(delta, pattern_functions(query(text.format(pattern)), "v", "h", source, LENGTH, one_row=one_row))
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in columns])
    held = Parts(spark_engine.spark)
    seen = []
    for part in range(3):
        moment = start_of(part, LENGTH).replace(tzinfo=None)
        row = (
            part * LENGTH + 5, 1, Decimal("1234567890123456789.00000001"), timedelta(seconds=part), {"x": part}, moment,
            [part], 0.5,
        )  # fmt: skip
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True))] if part < 2 else [], schema)
        ddl = ", ".join(f"`{name}` {type_}" for name, type_ in columns)
        held.put("odd", part, spark_engine.spark.createDataFrame(table, ddl), LENGTH)
        held.fill(helper, part, first=part == 0)
        seen.append(held.fill(view, part, first=part == 0))
        assert held.schema("h", part) == held.schema("h", 0)
    total_ = Decimal("2469135780246913578.00000002")
    # The run began at second 5, so that it is over before part 2, which begins at second 120.
    assert seen == [
        [],
        [(1, total_, total_ / 2, timedelta(seconds=1), {"x": 1}, datetime(1970, 1, 1, 0, 1), [1], 1.0, 0.5)],
        [],
    ]
    held._named("odd", [0], with_timestamp=False)
    plain = text.format("").replace("b.l", "l").replace("FROM odd", "FROM odd_0_0_p")
    assert held.schema("v", 1) == dict(spark_engine.spark.sql(plain).dtypes)
