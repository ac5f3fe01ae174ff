"""What a window query is described as, and what is refused or left to recompute, with the cause."""

from __future__ import annotations

import pytest

from headrace.algebra.expressions import text
from headrace.algebra.part_wise.windows.window_functions import possible_strategies, window_functions
from headrace.algebra.part_wise.windows.window_query import WindowSource, windowed_relation
from headrace.errors import HeadraceError
from headrace.language import CreateView, parse_one
from tests.part_wise.window_cases import SOURCE, described

MINUTE = 60


def test_description() -> None:
    query = described(
        "SELECT upper(T.g) AS big, h, sum(a) / count(*) AS mean FROM S [WINDOW 10 MINUTES SLIDE 4 MINUTES] AS T "
        "WHERE T.a > 0 GROUP BY big, T.h HAVING mean > 1 AND big <> 'X' AND max(b) < 9",
        4 * MINUTE,
    )
    assert (query.window, query.slide, query.pane, query.source_parts) == (600, 240, 120, 10)
    made = query.aggregate
    assert made is not None
    assert [(key.name, text(key.expression)) for key in made.keys] == [("big", "UPPER(g)"), ("h", "h")]
    assert [output.name for output in made.outputs] == ["big", "h", "mean"]
    assert [text(call) for call in made.calls] == ["SUM(a)", "COUNT(*)", "MAX(b)"]
    assert made.where is not None
    assert made.having is not None
    assert text(made.where) == "a > 0"
    assert text(made.having) == "(SUM(a) / COUNT(*)) > 1 AND UPPER(g) <> 'X' AND MAX(b) < 9"


def test_a_column_of_the_source_goes_before_an_alias() -> None:
    made = described("SELECT upper(g) AS g, count(*) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g", MINUTE).aggregate
    assert made is not None
    assert [text(key.expression) for key in made.keys] == ["g"]


@pytest.mark.parametrize(
    ("select", "names"),
    [
        ("G, max(A)", ["G", "max(A)"]),
        ("g, count(*), 1 + sum(a)", ["g", "count(1)", "1 + sum(a)"]),
    ],
)
def test_names_of_outputs_without_alias(select: str, names: list[str]) -> None:
    made = described(f"SELECT {select} FROM S [WINDOW 4 MINUTES] GROUP BY G", MINUTE).aggregate
    assert made is not None
    assert [output.name for output in made.outputs] == names


@pytest.mark.parametrize(
    ("from_", "slide", "condition"),
    [
        ("S", 60, "WINDOW_MISSING"),
        ("S [WINDOW 4 MINUTES] JOIN T [WINDOW 1 MINUTE] ON S.g = T.g", 60, "SEVERAL_WINDOWS"),
        ("(SELECT * FROM S) [WINDOW 4 MINUTES]", 60, "WINDOW_NOT_PARTED"),
        ("S [ROWS 100]", 60, "WINDOW_NOT_PARTED"),
        ("S [RANGE UNBOUNDED]", 60, "WINDOW_NOT_PARTED"),
        ("S [RANGE 4 MINUTES INTERNAL]", 60, "WINDOW_NOT_PARTED"),
        ("S [WINDOW 500 MILLISECONDS]", 60, "WINDOW_NOT_PARTED"),
        ("S [WINDOW 4 MINUTES SLIDE 2 MINUTES]", 60, "SLIDE_NOT_PART_LENGTH"),
        ("S [WINDOW 90 SECONDS]", 60, "NOT_WHOLE_PARTS"),
        ("S [WINDOW 4 MINUTES]", 90, "NOT_WHOLE_PARTS"),
    ],
)
def test_refused(from_: str, slide: int, condition: str) -> None:
    with pytest.raises(HeadraceError) as refused:
        described(f"SELECT count(*) AS n FROM {from_}", slide)
    assert refused.value.condition == condition
    assert refused.value.hint


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("g, a FROM S [WINDOW 4 MINUTES]", "neither groups nor aggregates"),
        ("DISTINCT g, count(*) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g", "DISTINCT"),
        ("g, count(*) AS n FROM S [WINDOW 4 MINUTES] GROUP BY ROLLUP (g)", "ROLLUP"),
        ("g, count(*) AS n FROM S [WINDOW 4 MINUTES] JOIN t ON g = k GROUP BY g", "a join"),
        ("g, count(*) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g ORDER BY n LIMIT 3", "has"),
        ("g, my_total(a) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g", "neither grouped by nor inside an aggregate"),
        ("g, sum(nothing) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g", "no column"),
        ("g, sum(a) OVER () AS n FROM S [WINDOW 4 MINUTES]", "OVER"),
        ("g, sum(rand()) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g", "another value each time"),
        ("g, count(*) AS n FROM S [WINDOW 4 MINUTES] WHERE a IN (SELECT k FROM t) GROUP BY g", "a subquery"),
        ("count(*) AS n FROM CHANGES(t) WHERE EXISTS (SELECT 1 FROM S [WINDOW 4 MINUTES])", "windowed relation"),
        ("n FROM (SELECT count(*) AS n FROM S [WINDOW 4 MINUTES]) AS x", "windowed relation"),
        ("1 AS one, count(*) AS n FROM S [WINDOW 4 MINUTES] GROUP BY 1", "constant"),
        ("g, collect_list(a) AS l FROM S [WINDOW 4 MINUTES] GROUP BY g", "all rows"),
        ("g, first(a) AS l FROM S [WINDOW 4 MINUTES] GROUP BY g", "all rows"),
        ("g, count(*) AS n FROM S [WINDOW 1 MINUTES] GROUP BY g", "share no rows"),
        (
            "g, percentile_disc(0.5) WITHIN GROUP (ORDER BY a) AS p FROM S [WINDOW 4 MINUTES] GROUP BY g",
            "all rows",
        ),
    ],
)
def test_only_recompute(select: str, reason: str) -> None:
    told = possible_strategies(described(f"SELECT {select}", MINUTE))
    assert told.pop("recompute") is None
    for sentence in told.values():
        assert sentence is not None
        assert reason in sentence
        assert sentence[0].isupper() or not sentence[0].isalpha()
        assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("max(a)", "cannot be subtracted"),
        ("sum(f)", "DOUBLE"),
        ("avg(f)", "DOUBLE"),
        ("stddev(b)", "BIGINT"),
        ("sum(coalesce(a, 0))", "not known"),
        ("sum(CAST(a AS DECIMAL(30, 2)))", "28 digits"),
        ("bit_xor(a)", "cannot be subtracted"),
    ],
)
def test_not_subtractable(call: str, reason: str) -> None:
    told = possible_strategies(described(f"SELECT g, {call} AS c FROM S [WINDOW 4 MINUTES] GROUP BY g", MINUTE))
    for strategy in ("subtractable", "differential"):
        sentence = told[strategy]
        assert sentence is not None
        assert reason in sentence
    assert told["recompute"] is None


def test_an_engine_tells_types() -> None:
    asked: list[str] = []

    def describe(sql: str) -> tuple[str, ...]:
        asked.append(sql)
        return ("int",)

    source = WindowSource("S", SOURCE.columns, SOURCE.length, describe)
    query = described("SELECT g, sum(coalesce(a, 0)) AS c FROM S [WINDOW 4 MINUTES] GROUP BY g", MINUTE, source)
    assert set(possible_strategies(query).values()) == {None}
    assert asked[0].startswith("SELECT COALESCE(a, 0) AS c FROM (SELECT CAST(NULL AS STRING) AS g")


def test_a_window_deep_in_the_query_is_recomputed() -> None:
    query = described(
        "WITH x AS (SELECT g, count(*) AS n FROM S [WINDOW 4 MINUTES] GROUP BY g) SELECT max(n) AS m FROM x", MINUTE
    )
    (view,) = window_functions(query, "recompute", "v")
    assert "WITH x AS (SELECT g, COUNT(*) AS n FROM S[j - 3 .. j] GROUP BY g) SELECT MAX(n) AS m FROM x" in view


def test_no_keys() -> None:
    told = possible_strategies(described("SELECT count(*) AS n FROM S [WINDOW 4 MINUTES]", MINUTE))
    assert [strategy for strategy, reason in told.items() if reason is None] == ["recompute", "distributive"]


def test_windowed_relation() -> None:
    view = parse_one("CREATE VIEW v AS SELECT count(*) AS n FROM t JOIN s [WINDOW 1 MINUTE] ON t.k = s.k")
    assert isinstance(view, CreateView)
    assert windowed_relation(view.query).name == "s"
