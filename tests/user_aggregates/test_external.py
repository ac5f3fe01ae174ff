"""Aggregates written in Python: the equals of those in SQL in every way of computing them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.algebra.user_aggregates.checking import check, lookup
from headrace.algebra.user_aggregates.definition import Versions, definition_of
from headrace.algebra.user_aggregates.forms import Form, Way, way_of
from headrace.engine import Engine
from headrace.errors import DefinitionError, EngineError
from headrace.language import Column, CreateAggregate, arrow_type, parse_one
from headrace.maintenance.user_aggregates.batches import BatchMachine, machine_of
from headrace.maintenance.user_aggregates.machine import Machine
from headrace.session import Session, connect
from tests.conftest import rows
from tests.user_aggregates import written_in_python as written

HERE = written.__name__

SQL = {
    "avg": """CREATE AGGREGATE f(x DOUBLE) : DOUBLE { TABLE s(t DOUBLE, c BIGINT);
        INITIALIZE: { INSERT INTO s VALUES (0, 0); UPDATE s SET t = t + x, c = c + 1 WHERE x IS NOT NULL; }
        ITERATE: { UPDATE s SET t = t + x, c = c + 1 WHERE x IS NOT NULL; }
        TERMINATE: { INSERT INTO RETURN SELECT CASE WHEN c > 0 THEN t / c END FROM s; } }""",
    "total": """CREATE AGGREGATE f(x DOUBLE) : DOUBLE { TABLE s(t DOUBLE);
        INITIALIZE: { INSERT INTO s VALUES (x); INSERT INTO RETURN VALUES (x); }
        ITERATE: { UPDATE s SET t = t + x; INSERT INTO RETURN SELECT t FROM s; } }""",
    "sliding": """CREATE WINDOW AGGREGATE f(x DOUBLE) : DOUBLE { TABLE s(t DOUBLE); TABLE inwindow(w DOUBLE);
        INITIALIZE: { INSERT INTO s VALUES (x); INSERT INTO RETURN VALUES (x); }
        ITERATE: { UPDATE s SET t = t + x; INSERT INTO RETURN SELECT t FROM s; }
        EXPIRE: { UPDATE s SET t = t - oldest(); INSERT INTO RETURN SELECT t FROM s; } }""",
    "in window": """CREATE WINDOW AGGREGATE f(x DOUBLE) : DOUBLE { TABLE inwindow(w DOUBLE);
        ITERATE: { INSERT INTO RETURN SELECT sum(w) FROM inwindow; } }""",
    "largest": """CREATE WINDOW AGGREGATE f(x DOUBLE) : DOUBLE { TABLE inwindow(w DOUBLE);
        ITERATE: { INSERT INTO RETURN SELECT max(w) FROM inwindow; } }""",
    "averages": """CREATE WINDOW AGGREGATE f(x DOUBLE) : DOUBLE { TABLE inwindow(w DOUBLE);
        ITERATE: { INSERT INTO RETURN SELECT avg(w) FROM inwindow; } }""",
}
WORDS = {"sliding": "WINDOW ", "in window": "WINDOW ", "largest": "WINDOW ", "averages": "WINDOW "}
PYTHON = {
    name: f"CREATE {WORDS.get(name, '')}AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:{kind}'"
    for name, kind in (
        ("avg", "Average"), ("total", "Total"), ("sliding", "SlidingTotal"), ("in window", "WindowTotal"),
        ("largest", "Largest"), ("averages", "SlidingAverage"), ("avg batch", "AverageByBatch"),
        ("total batch", "TotalByBatch"),
    )
}  # fmt: skip

FORMS = {
    "base": Form(),
    "rows": Form("rows", 3),
    "range": Form("range", 4),
    "unbounded": Form("rows", None),
    "unbounded slide": Form("rows", None, 2),
    "unbounded range slide": Form("range", None, 3),
    "rows slide": Form("rows", 4, 2),
    "range slide": Form("range", 4, 2),
    "tumbling rows": Form("rows", 2, 3),
    "tumbling range": Form("range", 3, 3),
    "active": Form("range", 4, active=True),
}

Row = tuple[int, int, float | None]


def defined(*texts: str) -> Versions:
    versions = Versions("f")
    for text in texts:
        statement = parse_one(text)
        assert isinstance(statement, CreateAggregate)
        versions = versions.with_version(definition_of(statement))
    return versions


def machine(versions: Versions, form: Form, types: Sequence[str] = ("DOUBLE",)) -> Machine:
    way = way_of(versions, form, streaming=False)
    passed = [Column("id", "BIGINT")]
    return machine_of(versions, form, way, lambda name, given: lookup({}, name, given), types, passed, ends=True)


def told(one: Machine, batches: Sequence[Sequence[Row]], type_: str = "DOUBLE") -> list[tuple[Any, ...]]:
    """What is told of groups 0 and 1 (a row is its group, its time, its value) in some batches."""
    states, found, number = None, [], 0
    every = [row for batch in batches for row in batch]
    for batch in batches:
        ordered = sorted(enumerate(batch), key=lambda item: item[1][0])
        ids = [number + at for at, _row in ordered]
        number += len(batch)
        mine = [row for _at, row in ordered]
        counts = [sum(row[0] == group for row in mine) for group in (0, 1)]
        times = np.array([row[1] for row in mine], dtype=np.int64)
        upto = max((row[1] for row in batch), default=-1) if batch is not batches[-1] else 10_000
        arguments = [pa.chunked_array([pa.array([row[2] for row in mine], arrow_type(type_))])]
        passed = pa.table({"id": pa.array(ids, pa.int64())})
        ran = one.run(arguments, passed, np.cumsum([0, *counts]), times, states, upto)
        states = ran.states
        assert states.schema == one.no_states(0).schema
        shown = ran.shown.column("id").to_pylist()
        values = zip(*(column.to_pylist() for column in ran.values.columns), strict=True)
        found += [
            (every[shown[place]][0], int(time), shown[place], *cells)
            for time, place, cells in zip(ran.times, ran.places, values, strict=True)
        ]
    return sorted(found, key=lambda row: (row[0], row[1], row[2]))


def near(rows_: list[tuple[Any, ...]]) -> Any:
    return [tuple(pytest.approx(cell) if isinstance(cell, float) else cell for cell in row) for row in rows_]


BATCHES: list[list[Row]] = [
    [(0, 1, 5.0), (1, 1, 7.0), (0, 2, 1.0), (0, 2, 4.0)],
    [(0, 5, 2.0), (1, 6, 3.0)],
    [(1, 7, 9.0)],
    [(0, 8, 8.0), (0, 9, 6.0), (0, 9, 7.0), (1, 12, 1.0), (0, 30, 3.0)],
]

WHOLE = [row for batch in BATCHES for row in batch]

#: Versions in Python, and their equals in SQL.
PAIRS = {
    "at the end": (("avg",), ("avg",)),
    "after every row": (("total",), ("total",)),
    "by what leaves": (("sliding",), ("sliding",)),
    "by the window": (("in window",), ("in window",)),
    "its own pickle": (("largest",), ("largest",)),
    "both": (("total", "sliding"), ("total", "sliding")),
    "batches at the end": (("avg batch",), ("avg",)),
    "batches after every row": (("total batch",), ("total",)),
    "batches of windows": (("averages",), ("averages",)),
    "batches and rows": (("total batch", "sliding"), ("total", "sliding")),
}


@pytest.mark.parametrize("algebraic", [False, True], ids=["plain", "algebraic"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pair", PAIRS)
def test_every_way_equals_the_one_in_sql(pair: str, form: str, algebraic: bool) -> None:
    python, sql = PAIRS[pair]
    texts = [PYTHON[name] for name in python], [SQL[name] for name in sql]
    if algebraic:
        texts = tuple([one.replace("CREATE", "CREATE ALGEBRAIC", 1) for one in each] for each in texts)  # type: ignore
    ours, theirs = (defined(*each) for each in texts)
    if ours.base is None and FORMS[form].kind == "base":
        with pytest.raises(DefinitionError):
            machine(ours, FORMS[form])
        return
    assert told(machine(ours, FORMS[form]), [WHOLE]) == near(told(machine(theirs, FORMS[form]), [WHOLE]))
    if FORMS[form].kind != "base":
        assert told(machine(ours, FORMS[form]), BATCHES) == near(told(machine(theirs, FORMS[form]), BATCHES))


def test_all_ways_are_there() -> None:
    ways: set[Way] = set()
    for python, _sql in PAIRS.values():
        for word in ("CREATE", "CREATE ALGEBRAIC"):
            versions = defined(*(PYTHON[name].replace("CREATE", word, 1) for name in python))
            forms = [form for form in FORMS.values() if versions.base is not None or form.kind != "base"]
            ways |= {way_of(versions, form, streaming=False) for form in forms}
    assert ways == {"base", "cumulative", "window", "naive", "tumble", "panes", "active"}


def test_versions_of_both_languages_together() -> None:
    both = (PYTHON["total"], PYTHON["sliding"]), (SQL["total"], SQL["sliding"])
    mixed = (both[0][0], both[1][1]), (both[1][0], both[0][1])
    for one in mixed:
        texts = [text.replace("CREATE", "CREATE ALGEBRAIC", 1) for text in one]
        for form in ("base", "rows", "rows slide", "range slide", "active"):
            expected = told(machine(defined(*both[1]), FORMS[form]), BATCHES)
            assert told(machine(defined(*texts), FORMS[form]), BATCHES) == near(expected), form


def test_a_body_in_sql_calls_a_class() -> None:
    text = "CREATE WINDOW AGGREGATE f(x DOUBLE) : DOUBLE { TABLE inwindow(w DOUBLE); ITERATE: { INSERT INTO RETURN"
    caller = f"{text} SELECT f(w) FROM inwindow; }} }}"
    form = FORMS["rows"]
    assert told(machine(defined(PYTHON["avg"], caller), form), BATCHES) == near(
        told(machine(defined(SQL["avg"], caller), form), BATCHES)
    )


_ROWS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(-9, 9)), max_size=12)


@given(_ROWS, st.lists(st.integers(0, 12), max_size=4), st.sampled_from(["rows", "range", "unbounded", "rows slide"]))
def test_batches_equal_rows_wherever_they_are_cut(steps: list[Any], cuts: list[int], form: str) -> None:
    time, whole = 0, []
    for group, more, value in steps:
        time += more
        whole.append((group, time, float(value)))
    ends = sorted({*cuts, len(whole)})
    cut = [whole[low:high] for low, high in zip([0, *ends], ends, strict=False)]
    for ours, theirs in (("averages", "averages"), ("total batch", "total"), ("in window", "in window")):
        one = machine(defined(PYTHON[ours]), FORMS[form])
        assert told(one, cut) == near(told(machine(defined(SQL[theirs]), FORMS[form]), [whole]))


def test_which_are_computed_in_batches() -> None:
    def is_batch(name: str, form: str) -> bool:
        return isinstance(machine(defined(PYTHON[name]), FORMS[form]), BatchMachine)

    assert [form for form in FORMS if is_batch("total batch", form)] == ["base", "unbounded", "unbounded slide"]
    # What is told at the end is told after every row of a window.
    assert [form for form in FORMS if is_batch("avg batch", form)] == ["base"]
    assert [form for form in FORMS if form != "base" and is_batch("averages", form)] == [
        "rows", "range", "unbounded", "unbounded slide", "rows slide", "tumbling rows",
    ]  # fmt: skip


def test_rows_and_batches_keep_the_same() -> None:
    """What batches left can be gone on with row by row."""
    versions = defined(PYTHON["averages"])
    batches = machine(versions, FORMS["rows"])
    way = way_of(versions, FORMS["rows"], streaming=False)
    by_row = Machine(versions, FORMS["rows"], way, lambda _name, _given: None, ["DOUBLE"], [], ends=True)
    starts, times = np.array([0, 4]), np.arange(4)
    given_, passed = [pa.chunked_array([[1.0, 2.0, 3.0, 4.0]])], pa.table({"id": [1, 2, 3, 4]})
    one = batches.run(given_, passed, starts, times, None, 0)
    two = by_row.run(given_, passed, starts, times, None, 0)
    assert one.states == two.states
    assert one.values == two.values
    assert (
        by_row.run(given_, passed, starts, times, one.states, 0).values
        == batches.run(given_, passed, starts, times, two.states, 0).values
    )


def test_null_is_none() -> None:
    batch: list[Row] = [(0, 1, None), (0, 2, 3.0), (1, 1, None)]
    for name in ("avg", "avg batch"):
        one = machine(defined(PYTHON[name]), FORMS["base"])
        assert [row[3] for row in told(one, [batch])] == [3.0, None]
        assert [row[3] for row in told(machine(defined(PYTHON[name]), FORMS["rows"]), [batch])] == [None, 3.0, None]


def test_values_are_pythons_own() -> None:
    types = ["TIMESTAMP", "DECIMAL(6,2)", "STRING", "BINARY", "INTERVAL DAY TO SECOND", "BOOLEAN"]
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(types))
    versions = defined(f"CREATE AGGREGATE f({columns}) : ({columns}) EXTERNAL '{HERE}:Kinds'")
    values = [datetime(2024, 1, 2, 3, tzinfo=UTC), Decimal("1.50"), "ä", b"\x00", timedelta(seconds=1), True]
    arguments = [
        pa.chunked_array([pa.array([value, None], arrow_type(type_))])
        for value, type_ in zip(values, types, strict=True)
    ]
    one = machine(versions, Form(), types)
    ran = one.run(arguments, pa.table({"id": [1, 2]}), np.array([0, 2]), np.arange(2), None, 0)
    assert [column.to_pylist() for column in ran.values.columns] == [[value, None] for value in values]


def test_several_rows_and_columns() -> None:
    batch: list[list[Row]] = [[(0, 1, 2.0), (0, 2, -1.0)]]
    twice = defined(f"CREATE AGGREGATE f(x DOUBLE) : (a DOUBLE, b STRING) EXTERNAL '{HERE}:Twice'")
    assert told(machine(twice, Form()), batch) == [(0, 1, 0, 2.0, "once"), (0, 1, 0, 2.0, "twice")]
    pair = defined(f"CREATE AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:Pair'")
    assert [row[3] for row in told(machine(pair, Form()), batch)] == [2.0, None, -1.0, None]
    moments = defined(f"CREATE AGGREGATE f(x DOUBLE) : (one DOUBLE, two DOUBLE) EXTERNAL '{HERE}:Moments'")
    assert [row[3:] for row in told(machine(moments, Form()), batch)] == [(2.0, 4.0), (-1.0, 1.0)]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("Failing", 13.0, "iterate(13.0) of the aggregate f failed: ValueError: unlucky"),
        ("Failing", 14.0, "'text'"),
        ("Failing", 15.0, "2 values"),
        ("FailingBatch", 1.0, "0 results for 1 rows"),
        ("Unkept", 1.0, "__getstate__"),
    ],
)
def test_what_fails_is_told(kind: str, value: float, words: str) -> None:
    versions = defined(f"CREATE AGGREGATE f(x DOUBLE) : BIGINT EXTERNAL '{HERE}:{kind}'")
    with pytest.raises(EngineError) as error:
        told(machine(versions, Form()), [[(0, 1, value)]])
    assert error.value.condition == "AGGREGATE_FAILED"
    assert words in error.value.message
    assert f"{HERE}:{kind}" in (error.value.detail or "")


@pytest.mark.parametrize(
    ("text", "condition", "words"),
    [
        ("AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL 'nowhere'", "AGGREGATE_NOT_IMPORTED", "'nowhere'"),
        ("AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL 'no_such_module:A'", "AGGREGATE_NOT_IMPORTED", "no_such_module"),
        (f"AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:Nothing'", "AGGREGATE_NOT_IMPORTED", "Nothing"),
        (f"AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:NOT_A_CLASS'", "BAD_AGGREGATE_CLASS", "no class"),
        (f"AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:NoMethods'", "BAD_AGGREGATE_CLASS", "none of the methods"),
        (f"AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:WrongArguments'", "BAD_AGGREGATE_CLASS", "iterate"),
        (f"AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:NeedsArguments'", "BAD_AGGREGATE_CLASS", "size"),
        (f"WINDOW AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:BothEnds'", "MISPLACED_BLOCK", "terminate"),
        (f"WINDOW AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:Moments'", "BAD_AGGREGATE_CLASS", "windows"),
        (f"AGGREGATE f(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:SlidingAverage'", "BAD_AGGREGATE_CLASS", "without a window"),
    ],
)
def test_bad_classes_are_refused(text: str, condition: str, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        check(defined(f"CREATE {text}").any, {})
    assert error.value.condition == condition
    assert words in error.value.message


# --- In a home --------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, sail_engine: Engine) -> Session:
    session = connect(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark)
    session.sql("CREATE STREAM bids (item INT, price INT, at TIMESTAMP) ORDER BY at")
    session.feed("bids", [(1, 10, 1), (2, 20, 2), (1, 5, 3)])
    return session


def test_in_a_home(home: Session, tmp_path: Path, sail_engine: Engine) -> None:
    home.sql(f"CREATE AGGREGATE mean(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:Average'")
    # What has expire is a window version, whether it is said or not.
    home.sql(f"CREATE AGGREGATE mean(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:SlidingTotal'")
    home.sql(f"CREATE AGGREGATE smooth(x DOUBLE) : DOUBLE EXTERNAL '{HERE}:SlidingAverage'")
    kinds = [row[:2] for row in home.sql("SHOW AGGREGATES").rows]
    assert kinds == [("mean", "aggregate"), ("mean", "window aggregate"), ("smooth", "window aggregate")]
    assert "blocking" in str(home.sql("DESCRIBE mean").rows)
    with pytest.raises(DefinitionError) as error:
        home.sql("SELECT mean(price) FROM bids")
    assert error.value.condition == "BLOCKING_AGGREGATE"
    assert rows(home.sql("SELECT item, mean(price) AS m FROM bids [ROWS 9] GROUP BY item")) == [(1, 7.5), (2, 20.0)]
    home.sql("CREATE STREAM means AS SELECT item, smooth(price) OVER (PARTITION BY item ROWS 1 PRECEDING) m FROM bids")
    home.sql("CREATE STREAM sums AS SELECT item, mean(price) OVER (ROWS 1 PRECEDING) AS s FROM bids")
    home.feed("bids", [(1, 7, 4)])
    home.refresh()
    home.close()
    again = connect(str(tmp_path / "home"), engine="sail", spark=sail_engine.spark)
    again.feed("bids", [(2, 10, 5)])
    again.refresh()
    assert rows(again.table("means")) == [(1, 10.0), (1, 6.0), (1, 7.5), (2, 15.0), (2, 20.0)]
    assert rows(again.table("sums")) == [(1, 10.0), (1, 12.0), (1, 25.0), (2, 17.0), (2, 30.0)]
    again.close()


def test_a_failure_changes_nothing(home: Session) -> None:
    home.sql(f"CREATE AGGREGATE counted(x DOUBLE) : BIGINT EXTERNAL '{HERE}:Failing'")
    home.sql("CREATE STREAM counts AS SELECT counted(price) OVER (ROWS UNBOUNDED PRECEDING) AS c FROM bids")
    before = rows(home.table("counts"))
    home.feed("bids", [(1, 13, 4)])
    with pytest.raises(EngineError) as error:
        home.refresh()
    assert error.value.condition == "AGGREGATE_FAILED"
    assert "iterate(13.0) of the aggregate counted" in error.value.message
    assert rows(home.table("counts")) == before == [(1,), (2,), (3,)]
    with pytest.raises(DefinitionError):
        home.sql("CREATE AGGREGATE other(x DOUBLE) : DOUBLE EXTERNAL 'no_such_module:A'")
    assert len(home.sql("SHOW AGGREGATES").rows) == 1


def test_declared_where_it_is_written(home: Session) -> None:
    with pytest.raises(DefinitionError) as error:
        home.sql("LOAD AGGREGATES declared_here")
    assert error.value.condition == "UNKNOWN_AGGREGATE"

    @headrace.aggregate("declared_here(x DOUBLE) : DOUBLE")
    class Doubled:
        def iterate(self, x: float) -> float:
            return x * 2

    @headrace.aggregate("declared_here(x DOUBLE) : DOUBLE")
    class Left:
        def iterate(self, x: float) -> float:
            return x

        def expire(self, x: float) -> None:
            """Nothing is kept."""

    assert (Doubled.__name__, Left.__name__) == ("Doubled", "Left")
    assert str(home.sql("LOAD AGGREGATES declared_here")) == "Loaded 1 aggregate: declared_here."
    assert str(home.sql("LOAD AGGREGATES DECLARED_HERE")) == "They were there already."
    kinds = [row[:2] for row in home.sql("SHOW AGGREGATES").rows]
    assert kinds == [("declared_here", "aggregate"), ("declared_here", "window aggregate")]
    assert rows(home.sql("SELECT declared_here(price) AS p FROM bids")) == [(10.0,), (20.0,), (40.0,)]
    with pytest.raises(DefinitionError) as error:
        headrace.aggregate("wrong(x DOUBLE) : DOUBLE")(written.NoMethods)
    assert error.value.condition == "BAD_AGGREGATE_CLASS"


def test_a_class_that_is_gone(home: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passing_by.py").write_text("class A:\n    def iterate(self, x):\n        return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    home.sql("CREATE AGGREGATE same(x DOUBLE) : DOUBLE EXTERNAL 'passing_by:A'")
    assert rows(home.sql("SELECT same(price) AS p FROM bids")) == [(10.0,), (20.0,), (5.0,)]
    (tmp_path / "passing_by.py").unlink()
    monkeypatch.delitem(sys.modules, "passing_by")
    importlib.invalidate_caches()
    assert home.sql("SHOW AGGREGATES").rows[0][4] == "passing_by:A"
    assert "cannot be imported" in str(home.sql("DESCRIBE same").rows)
    assert rows(home.sql("SELECT max(price) AS p FROM bids")) == [(20,)]
    with pytest.raises(DefinitionError) as error:
        home.sql("SELECT same(item) AS p FROM bids")
    assert error.value.condition == "AGGREGATE_NOT_IMPORTED"
    home.sql("DROP AGGREGATE same")
