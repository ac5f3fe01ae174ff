"""The text of view delta functions: View5 and View6 of the paper, part references, and that all of it reads back."""

from __future__ import annotations

import pytest

from headrace.algebra.part_wise.windows.window_functions import STRATEGIES, possible_strategies, window_functions
from headrace.errors import DefinitionError
from headrace.language import CreateViewDelta, parse_one
from tests.part_wise.brute_window import EXACT, LENGTH, MERGED, VALUES
from tests.part_wise.window_cases import SHAPES, Case, described

FOUR_MINUTES = "SELECT g, {call} FROM S [WINDOW 4 MINUTES] GROUP BY g HAVING {having}"


def test_view_5() -> None:
    """Figure 5, maximum over four minutes: a helper of maxima each minute, and the maximum of four of its parts."""
    query = described(FOUR_MINUTES.format(call="max(a) AS max_a", having="max_a > 10"), LENGTH)
    helper, view = window_functions(query, "distributive", "View5", helper="Helper")
    assert helper == (
        "CREATE VIEW Helper AS "
        "INITIALIZE Helper[i] AS SELECT g, MAX(a) AS max_a FROM S[i] GROUP BY g "
        "UPDATE Helper[j] AS SELECT g, MAX(a) AS max_a FROM S[j] GROUP BY g "
        "PARTITION LENGTH 60"
    )
    assert view == (
        "CREATE VIEW View5 AS "
        "INITIALIZE View5[i] AS SELECT Pane.g AS g, MAX(Pane.max_a) AS max_a FROM Helper[i - 3 .. i] AS Pane "
        "GROUP BY Pane.g HAVING MAX(Pane.max_a) > 10 "
        "UPDATE View5[j] AS SELECT Pane.g AS g, MAX(Pane.max_a) AS max_a FROM Helper[j - 3 .. j] AS Pane "
        "GROUP BY Pane.g HAVING MAX(Pane.max_a) > 10 "
        "PARTITION LENGTH 60"
    )


def test_view_6() -> None:
    """Figure 5, sum over four minutes: cumulative sums, those of now less those of four minutes ago.

    Presence is decided by the count n, not by the sum as the paper prints it; `since` and `last` help to forget.
    """
    query = described(FOUR_MINUTES.format(call="sum(a) AS sum_a", having="sum_a > 10"), LENGTH)
    helper, view = window_functions(query, "subtractable", "View6", helper="Helper")
    made = (
        "SELECT g, MIN(PART_TIMESTAMP) AS since, MAX(PART_TIMESTAMP) AS last, "
        "CAST(COALESCE(SUM(a), 0) AS BIGINT) AS sum_a, COUNT(a) AS count_a, COUNT(*) AS n FROM S[{}] GROUP BY g"
    )
    assert helper == (
        f"CREATE VIEW Helper AS INITIALIZE Helper[i] AS {made.format('i')} "
        "UPDATE Helper[j] AS SELECT Temp.g AS g, MIN(Temp.since) AS since, MAX(Temp.last) AS last, "
        "SUM(Temp.sum_a) AS sum_a, SUM(Temp.count_a) AS count_a, SUM(Temp.n) AS n "
        f"FROM ({made.format('j')} UNION ALL "
        "SELECT Prev.g, Prev.since, Prev.last, Prev.sum_a, Prev.count_a, Prev.n FROM Helper[j - 1] AS Prev "
        "WHERE Prev.last >= Prev.PART_TIMESTAMP - INTERVAL '120' SECONDS) AS Temp GROUP BY Temp.g "
        "PARTITION LENGTH 60"
    )
    total = "CASE WHEN SUM(Temp.count_a) > 0 THEN SUM(Temp.sum_a) END"
    window = (
        f"SELECT Temp.g AS g, {total} AS sum_a FROM (SELECT g, since, sum_a, count_a, n FROM Helper[{{0}}] UNION ALL "
        "SELECT g, since, -sum_a AS sum_a, -count_a AS count_a, -n AS n FROM Helper[{0} - 4]) AS Temp "
        f"GROUP BY Temp.g, Temp.since HAVING SUM(Temp.n) > 0 AND ({total} > 10)"
    )
    assert view == (
        f"CREATE VIEW View6 AS INITIALIZE View6[i] AS {window.format('i')} "
        f"UPDATE View6[j] AS {window.format('j')} PARTITION LENGTH 60"
    )


def test_differential() -> None:
    query = described("SELECT g, count(*) AS n FROM S [WINDOW 6 MINUTES] GROUP BY g", 2 * LENGTH)
    helper, view = window_functions(query, "differential", "v")
    assert helper == (
        "CREATE VIEW v_window AS "
        "INITIALIZE v_window[i] AS SELECT g, COUNT(*) AS n FROM S[i * 2 - 4 .. i * 2 + 1] GROUP BY g "
        "UPDATE v_window[j] AS SELECT Temp.g AS g, SUM(Temp.n) AS n FROM (SELECT g, n FROM v_window[j - 1] "
        "UNION ALL SELECT g, COUNT(*) AS n FROM S[j * 2 .. j * 2 + 1] GROUP BY g "
        "UNION ALL SELECT g, -COUNT(*) AS n FROM S[j * 2 - 6 .. j * 2 - 5] GROUP BY g) AS Temp "
        "GROUP BY Temp.g HAVING SUM(Temp.n) > 0 PARTITION LENGTH 120"
    )
    assert view.endswith(
        "UPDATE v[j] AS SELECT Present.g AS g, Present.n AS n FROM v_window[j] AS Present PARTITION LENGTH 120"
    )


def test_recompute_keeps_the_query() -> None:
    """Whatever reads one window can be recomputed: here a join with a table, and an aggregate that merges with none."""
    query = described(
        "SELECT t.name, collect_list(x.a) AS list FROM S [WINDOW 10 MINUTES] AS x JOIN t ON x.g = t.g GROUP BY t.name",
        5 * LENGTH,
    )
    (view,) = window_functions(query, "recompute", "v")
    assert "FROM S[j * 5 - 5 .. j * 5 + 4] AS x JOIN t ON x.g = t.g GROUP BY t.name PARTITION LENGTH 300" in view


@pytest.mark.parametrize(
    ("shape", "panes", "end", "before"),
    [
        ((10, 5), "[j - 1 .. j]", "[j]", "[j - 2]"),
        ((7, 5), "[j * 5 - 2 .. j * 5 + 4]", "[j * 5 + 4]", "[j * 5 - 3]"),
        ((10, 4), "[j * 2 - 3 .. j * 2 + 1]", "[j * 2 + 1]", "[j * 2 - 4]"),
    ],
)
def test_references_to_panes(shape: tuple[int, int], panes: str, end: str, before: str) -> None:
    functions = Case(["sum(a)"]).functions(*shape)
    assert f"FROM v_distributive_panes{panes} AS Pane" in functions["distributive"][-1]
    assert f"FROM v_subtractable_sums{end} UNION ALL" in functions["subtractable"][-1]
    assert f"FROM v_subtractable_sums{before})" in functions["subtractable"][-1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("calls", [EXACT, VALUES, MERGED], ids=["exact", "values", "merged"])
def test_all_text_reads_back(calls: dict, shape: tuple[int, int]) -> None:
    for statements in Case(list(calls), keys="g, h * 2 AS `an odd name`").functions(*shape).values():
        for statement in statements:
            function = parse_one(statement)
            assert isinstance(function, CreateViewDelta)
            assert function.sql() == statement
        assert len(statements) <= 2


@pytest.mark.parametrize(
    ("call", "kept", "result"),
    [
        ("sum(a)", "CAST(COALESCE(SUM(a), 0) AS BIGINT)", "THEN SUM(Temp.sum_a) END"),
        ("sum(b)", "CAST(COALESCE(SUM(b), 0) AS DECIMAL(38, 0))", "CAST(SUM(Temp.sum_b) AS BIGINT)"),
        ("sum(d)", "CAST(COALESCE(SUM(d), 0) AS DECIMAL(38, 2))", "CAST(SUM(Temp.sum_d) AS DECIMAL(18, 2))"),
        ("avg(d)", "CAST(COALESCE(SUM(d), 0) AS DECIMAL(38, 2))", "AS DECIMAL(12, 6))"),
    ],
)
def test_kept_sums_are_wide_and_results_are_of_sparks_type(call: str, kept: str, result: str) -> None:
    helper, view = Case([call]).functions(4, 1)["subtractable"]
    assert kept in helper
    assert result in view


def test_names_do_not_clash() -> None:
    query = described(
        "SELECT g AS n, h AS since, a AS `max a`, max(a) AS last, count(*) AS PART_TIMESTAMP FROM S [WINDOW 4 MINUTES] "
        "GROUP BY g, h, a",
        LENGTH,
    )
    for strategy in ("distributive", "subtractable"):
        if possible_strategies(query)[strategy] is None:
            helper, _ = window_functions(query, strategy, "v")
            assert "g AS n, h AS since_2, a AS max_a, " in helper
            assert "AS n_2" in helper


def test_a_strategy_that_cannot_be_used_is_refused() -> None:
    query = described("SELECT g, max(a) AS m FROM S [WINDOW 4 MINUTES] GROUP BY g", LENGTH)
    with pytest.raises(DefinitionError, match="cannot be subtracted") as refused:
        window_functions(query, "subtractable", "v")
    assert refused.value.condition == "STRATEGY_NOT_POSSIBLE"
    assert refused.value.hint
    with pytest.raises(ValueError, match="no strategy"):
        window_functions(query, "luck", "v")
    assert set(possible_strategies(query)) == set(STRATEGIES)
