"""CREATE, DROP, SHOW, DESCRIBE and LOAD of aggregates."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import DefinitionError
from headrace.runtime import aggregates
from headrace.session import Session, connect

AVG = """CREATE AGGREGATE avg(Next Real) : Real {
TABLE state(tsum Real, cnt Int);
INITIALIZE : { INSERT INTO state VALUES (Next, 1); }
ITERATE : { UPDATE state SET tsum=tsum+Next, cnt=cnt+1; }
TERMINATE : { INSERT INTO RETURN SELECT tsum/cnt FROM state; }
}"""
WINDOW_AVG = """CREATE WINDOW AGGREGATE avg(Next Real) : Real {
TABLE inwindow(wnext Real);
INITIALIZE: ITERATE: { INSERT INTO RETURN SELECT avg(wnext) FROM inwindow; }
}"""
LAST = """CREATE AGGREGATE newest(x INT) : INT {
INITIALIZE: ITERATE: { INSERT INTO RETURN VALUES (x); }
}"""


@pytest.fixture
def home(tmp_path: Path) -> Session:
    """A home whose engine is never asked for."""
    return connect(str(tmp_path / "home"), engine="sail")


def names(session: Session) -> list[tuple[str, str]]:
    return [row[:2] for row in session.sql("SHOW AGGREGATES").rows]


def test_both_versions_of_one_name(home: Session) -> None:
    assert str(home.sql(AVG)) == "Created aggregate avg."
    home.sql(WINDOW_AVG)
    assert names(home) == [("avg", "aggregate"), ("avg", "window aggregate")]
    shown = home.sql("SHOW AGGREGATES").rows
    assert [row[2:] for row in shown] == [
        ("Next FLOAT", "avg FLOAT", "SQL", "the body of window aggregate avg"),
        ("Next FLOAT", "avg FLOAT", "SQL", ""),
    ]
    assert str(home.sql("DROP AGGREGATE AVG")) == "Dropped aggregate avg, window aggregate avg."
    assert names(home) == []


def test_it_is_there_after_a_restart(home: Session, tmp_path: Path) -> None:
    home.sql(AVG)
    home.close()
    again = connect(str(tmp_path / "home"), engine="sail")
    assert names(again) == [("avg", "aggregate")]


def test_a_name_is_taken_once_in_any_letters(home: Session) -> None:
    home.sql(AVG)
    with pytest.raises(DefinitionError) as error:
        home.sql(AVG.replace("avg(", "AVG("))
    assert error.value.condition == "NAME_TAKEN"
    home.sql(AVG.replace("CREATE", "CREATE OR REPLACE").replace("tsum/cnt", "cnt/tsum"))
    assert "cnt/tsum" in str(home.sql("DESCRIBE EXTENDED avg").rows)
    assert names(home) == [("avg", "aggregate")]


def test_a_relation_may_have_the_name(home: Session) -> None:
    home.sql(LAST)
    home.sql("CREATE TABLE newest (a INT)")
    assert home.sql("DESCRIBE newest").rows[0][0] == "a"
    assert home.sql("SHOW OBJECTS").rows == [("newest", "table", "", "a INT")]
    assert [item.name for item in home.status()] == ["newest"]


@pytest.mark.parametrize("head", ["string_agg(x STRING)", "max(x INT, y INT)", "sequence(x INT)", "avg(x INT, y INT)"])
def test_names_that_are_read_otherwise(home: Session, head: str) -> None:
    with pytest.raises(DefinitionError) as error:
        home.sql(f"CREATE AGGREGATE {head} : INT {{ INITIALIZE: ITERATE: {{ INSERT INTO RETURN VALUES (1); }} }}")
    assert error.value.condition == "NAME_RESERVED"


def test_describe(home: Session) -> None:
    home.sql(AVG)
    assert home.sql("DESCRIBE avg").rows == [
        ("Next", "FLOAT", "parameter of the aggregate"),
        ("avg", "FLOAT", "result of the aggregate"),
        ("state.tsum", "FLOAT", "state"),
        ("state.cnt", "INT", "state"),
        ("", "", "blocking: it tells its result when its input has ended"),
        ("", "", "compiled to machine code"),
    ]


def test_what_a_body_calls_stays(home: Session) -> None:
    home.sql(AVG)
    home.sql(WINDOW_AVG.replace("AGGREGATE avg", "AGGREGATE other"))
    for text in ("DROP AGGREGATE avg", AVG.replace("CREATE", "CREATE OR REPLACE").replace("tsum/cnt", "cnt/tsum")):
        with pytest.raises(DefinitionError) as error:
            home.sql(text)
        assert error.value.condition == "STILL_NEEDED"
        assert "window aggregate other" in error.value.message
    home.sql("DROP AGGREGATE other")
    home.sql("DROP AGGREGATE avg")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("CREATE WINDOW AGGREGATE f(x INT) : INT { ITERATE: { } TERMINATE: { SELECT 1; } }", "MISPLACED_BLOCK"),
        ("CREATE WINDOW AGGREGATE f(x INT) : INT { TABLE inwindow(a INT, b INT); ITERATE: { } }", "WRONG_COLUMN_COUNT"),
        ("CREATE AGGREGATE f(x INT) : INT { ITERATE: { INSERT INTO RETURN VALUES (y); } }", "UNKNOWN_COLUMN"),
    ],
)
def test_what_is_refused_says_where(home: Session, text: str, condition: str) -> None:
    with pytest.raises(DefinitionError) as error:
        home.sql(text)
    assert error.value.condition == condition
    assert error.value.place is not None
    assert str(error.value).startswith("line 1, column ")


def test_dropping_what_is_not_there(home: Session) -> None:
    assert str(home.sql("DROP AGGREGATE IF EXISTS nothing")) == "There was no nothing."
    home.sql(LAST)
    with pytest.raises(DefinitionError) as error:
        home.sql("DROP AGGREGATE nothing")
    assert error.value.condition == "UNKNOWN_AGGREGATE"
    assert "newest" in (error.value.hint or "")


def test_the_library_as_it_comes(home: Session) -> None:
    assert "window_variance" in str(home.sql("LOAD AGGREGATES"))
    assert str(home.sql("LOAD AGGREGATES")) == "They were there already."
    assert {name for name, _kind in names(home)} == set(aggregates.library())


def test_the_library(home: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    base = WINDOW_AVG.replace("AGGREGATE avg", "AGGREGATE smoothed_by_itself").replace("avg(wnext)", "mean(wnext)")
    texts = {"mean": AVG.replace(" avg(", " mean("), "smoothed_by_itself": base}
    monkeypatch.setattr(aggregates, "library", lambda: texts)
    with pytest.raises(DefinitionError) as error:
        home.sql("LOAD AGGREGATES median")
    assert error.value.condition == "UNKNOWN_AGGREGATE"
    assert "mean, smoothed_by_itself" in (error.value.hint or "")
    # What it calls comes along.
    assert str(home.sql("LOAD AGGREGATES smoothed_by_itself")) == "Loaded 2 aggregates: smoothed_by_itself, mean."
    assert str(home.sql("LOAD AGGREGATES")) == "They were there already."
    texts["mean"] = texts["mean"].replace("tsum/cnt", "cnt/tsum")
    with pytest.raises(DefinitionError) as error:
        home.sql("LOAD AGGREGATES mean")
    assert error.value.condition == "NAME_TAKEN"
