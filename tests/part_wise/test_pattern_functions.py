"""Algorithms 2 and 3: the text of the helper and of the final view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.algebra.part_wise.patterns.pattern_columns import PatternSource
from headrace.algebra.part_wise.patterns.pattern_functions import pattern_functions
from headrace.errors import DefinitionError
from headrace.language import CreateViewDelta
from tests.part_wise.tools import VIEW1, M, delta, query


def functions(
    text: str, length: int = 60, source: PatternSource = M, one_row: bool = False
) -> tuple[CreateViewDelta, CreateViewDelta]:
    helper, view = pattern_functions(query(text), "View1", "View1__helper", source, length, one_row=one_row)
    assert (delta(helper).sql(), delta(view).sql()) == (helper, view)
    assert (delta(helper).name, delta(view).name) == ("View1__helper", "View1")
    assert {delta(helper).partition_length, delta(view).partition_length} == {length}
    return delta(helper), delta(view)


def one(select: str, tail: str = "", pattern: str = "a, b+") -> tuple[str, str]:
    """The helper's INITIALIZE in the joined form, and the final view's."""
    helper, view = functions(f"SELECT {select} FROM M PATTERN [{pattern}] {tail}", one_row=True)
    return helper.initialize.sql(), view.initialize.sql()


def test_view4_of_the_paper() -> None:
    _, view = functions(VIEW1)
    assert view.initialize.sql() == "SELECT src, dest, ct, sum_loss FROM View1__helper[i] WHERE state = 4"
    assert view.update.sql() == "SELECT src, dest, ct, sum_loss FROM View1__helper[j] WHERE state = 4"


def test_the_helper_of_the_paper() -> None:
    helper, _ = functions(VIEW1, one_row=True)
    assert helper.initialize.sql() == (
        "SELECT New.src AS src, New.dest AS dest, CAST(1 AS BIGINT) AS ct, CAST(New.loss AS BIGINT) AS sum_loss, "
        "1 AS state FROM M[i] AS New WHERE New.loss > 10"
    )
    assert helper.update.sql() == (
        "SELECT src, dest, "
        "CASE move WHEN 0 THEN CAST(1 AS BIGINT) ELSE prev_ct + 1 END AS ct, "
        "CASE move WHEN 0 THEN CAST(new_loss AS BIGINT) ELSE prev_sum_loss + new_loss END AS sum_loss, "
        "CASE move WHEN 0 THEN 1 ELSE move END AS state "
        "FROM (SELECT New.src AS src, New.dest AS dest, "
        "New.loss AS new_loss, Prev.ct AS prev_ct, Prev.sum_loss AS prev_sum_loss, Prev.state AS prev_state, "
        "CASE WHEN Prev.state = 1 AND New.loss > 10 THEN 2 WHEN Prev.state = 2 AND New.loss > 10 THEN 3 "
        "WHEN Prev.state IN (3, 4) AND New.loss > 10 THEN 4 WHEN New.loss > 10 THEN 0 END AS move "
        "FROM M[j] AS New LEFT OUTER JOIN View1__helper[j - 1] AS Prev "
        "ON New.src <=> Prev.src AND New.dest <=> Prev.dest) "
        "WHERE NOT move IS NULL UNION ALL "
        "SELECT Prev.src, Prev.dest, Prev.ct, Prev.sum_loss, Prev.state FROM View1__helper[j - 1] AS Prev "
        "LEFT ANTI JOIN (SELECT New.src, New.dest FROM M[j] AS New LEFT SEMI JOIN View1__helper[j - 1] AS Prev "
        "ON New.src <=> Prev.src AND New.dest <=> Prev.dest) AS New "
        "ON New.src <=> Prev.src AND New.dest <=> Prev.dest"
    )


def test_rows_of_a_group_are_taken_in_order() -> None:
    helper, _ = functions(VIEW1)
    text = helper.update.sql()
    assert "ARRAY_SORT(COLLECT_LIST(STRUCT(ts AS ts, loss AS loss))) AS arrived FROM M[j] GROUP BY src, dest" in text
    assert (
        "AGGREGATE(New.arrived, STRUCT(Prev.ct AS ct, Prev.sum_loss AS sum_loss, COALESCE(Prev.state, 0) AS state)"
        in text
    )
    assert "(Prev, New) -> CASE WHEN Prev.state = 1 AND New.loss > 10 THEN STRUCT(Prev.ct + 1 AS ct" in text
    assert text.endswith("WHERE run.state > 0")
    assert "Prev.state = " not in helper.initialize.sql().split("->")[0]
    assert "View1__helper" not in helper.initialize.sql()


def test_which_relations_and_parts_are_read() -> None:
    helper, view = functions(VIEW1, one_row=True)
    assert {(ref.name, ref.part_timestamp) for ref in helper.update.relations()} == {
        ("M", False), ("View1__helper", False),
    }  # fmt: skip
    assert [ref.name for ref in view.update.relations()] == ["View1__helper"]
    wide, _ = functions(VIEW1, length=300)
    assert "FROM M[i * 5 .. i * 5 + 4] GROUP BY" in wide.initialize.sql()
    assert "FROM M[j * 5 .. j * 5 + 4] GROUP BY" in wide.update.sql()
    assert "View1__helper[j - 1]" in wide.update.sql()


def test_within_needs_the_start_of_the_part_before() -> None:
    text = "SELECT src, count(*) AS n FROM M PATTERN [a, b+] WITHIN 90 WHERE a.loss > 1 GROUP BY src"
    for one_row in (False, True):
        helper, _ = functions(text, one_row=one_row)
        update = helper.update.sql()
        assert "New.ts <= Prev.first_ts + INTERVAL '90' SECOND" in update
        assert "Prev.first_ts + INTERVAL '90' SECOND >= Prev.PART_TIMESTAMP + INTERVAL '60' SECOND" in update
        assert any(ref.name == "View1__helper" and ref.part_timestamp for ref in helper.update.relations())


def test_accumulators() -> None:
    assert one("sum(price) AS a, sum(share) AS b, sum(loss) AS c")[0] == (
        "SELECT CAST(New.price AS DECIMAL(20, 2)) AS sum_price, New.share AS sum_share, "
        "CAST(New.loss AS BIGINT) AS sum_loss, 1 AS state FROM M[i] AS New"
    )
    assert one("count(b) AS a, sum(b.loss) AS c, count(loss) AS d, first(a.ts) AS e, last(b.ts) AS f")[0] == (
        "SELECT CAST(0 AS BIGINT) AS ct_b, CAST(NULL AS BIGINT) AS sum_b_loss, "
        "CAST(NOT New.loss IS NULL AS BIGINT) AS count_loss, New.ts AS first_ts, CAST(NULL AS TIMESTAMP) AS last_b_ts, "
        "1 AS state FROM M[i] AS New"
    )


def test_results_over_accumulators() -> None:
    assert one("avg(loss) AS a")[1] == (
        "SELECT sum_loss / NULLIF(count_loss, 0) AS a FROM View1__helper[i] WHERE state = 2"
    )
    assert one("avg(price) AS a")[1].startswith(
        "SELECT CAST(sum_price / CAST(NULLIF(count_price, 0) AS DECIMAL(20, 0)) AS DECIMAL(14, 6)) AS a FROM"
    )
    assert one("sum(loss) / count(*) AS a, count(*), min(loss)", "HAVING a > 3 AND max(loss) < 9")[1] == (
        "SELECT sum_loss / ct AS a, ct, min_loss FROM View1__helper[i] "
        "WHERE state = 2 AND ((sum_loss / ct) > 3 AND max_loss < 9)"
    )


def test_what_edges_remember_is_shared_with_what_is_selected() -> None:
    helper, _ = one("last(loss) AS a, first(ts) AS b", "WITHIN 60 WHERE b.loss > a.loss")
    assert helper == "SELECT New.loss AS last_loss, New.ts AS first_ts, 1 AS state FROM M[i] AS New"


def test_names_that_are_taken() -> None:
    source = PatternSource("M", (("state", "INT"), ("ct", "INT"), ("new_x", "INT"), ("a b", "INT")), None, 60)
    for one_row in (False, True):
        helper, view = functions(
            "SELECT state, ct, new_x, count(*) AS n, sum(`a b`) AS s FROM M PATTERN [a, b] "
            "WHERE b.`a b` > a.`a b` GROUP BY state, ct, new_x",
            source=source,
            one_row=one_row,
        )
        assert "AS ct_2" in helper.initialize.sql()
        assert "ct_2 AS n, sum_a_b AS s FROM View1__helper[j] WHERE state_2 = 2" in view.update.sql()


def test_filters_stand_before_the_machine() -> None:
    text = "SELECT src, count(*) AS n FROM M PATTERN [a] WHERE a.loss > 1 AND (note = 'x' OR note = 'y') GROUP BY src"
    folded, _ = functions(text)
    assert "FROM M[j] WHERE (note = 'x' OR note = 'y') GROUP BY src" in folded.update.sql()
    joined, _ = functions(text, one_row=True)
    assert "FROM M[j] WHERE (note = 'x' OR note = 'y')) AS New" in joined.update.sql()
    assert joined.initialize.sql().endswith("WHERE (note = 'x' OR note = 'y') AND New.loss > 1")


def test_types_of_expressions() -> None:
    assert "CAST((New.loss * 2) AS BIGINT) AS sum_loss_2" in one("sum(loss * 2) AS s")[0]
    assert "CAST(NULL AS DOUBLE)" in functions("SELECT max(CAST(note AS DOUBLE)) AS s FROM M PATTERN [a]")[0].sql()
    with pytest.raises(DefinitionError) as raised:
        one("max(upper(note)) AS s")
    assert raised.value.condition == "BAD_PATTERN_ITEM"
    asked: list[str] = []

    def describe(text: str) -> tuple[str, ...]:
        asked.append(text)
        return ("string",)

    helper, _ = pattern_functions(
        query("SELECT max(upper(note)) AS s FROM M PATTERN [a]"), "v", "h", M, 60, one_row=True, describe=describe
    )
    assert "CAST(UPPER(New.note) AS STRING) AS max_upper_note" in helper
    assert asked == ["SELECT UPPER(i0) AS c0 FROM (SELECT CAST(NULL AS string) AS i0)"]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT count(*) AS n FROM M PATTERN [a] WHERE a.los > 1", "UNKNOWN_COLUMN"),
        ("SELECT sum(los) AS n FROM M PATTERN [a]", "UNKNOWN_COLUMN"),
        ("SELECT s, count(*) AS n FROM M PATTERN [a] GROUP BY s", "UNKNOWN_COLUMN"),
        ("SELECT sum(ts) AS n FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT sum(loss) + 1 FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT count(*), sum(loss) AS ct FROM M PATTERN [a]", "BAD_PATTERN_ITEM"),
        ("SELECT count(*) AS n FROM M PATTERN [a] WHERE a.tags['x'] > 1", "BAD_PATTERN"),
        ("SELECT n FROM M MATCH_RECOGNIZE (ORDER BY loss MEASURES count(*) AS n PATTERN (a))", "BAD_MATCH_RECOGNIZE"),
    ],
)
def test_refusals(text: str, condition: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        functions(text)
    assert raised.value.condition == condition
    assert raised.value.hint


def test_lengths_and_times() -> None:
    for length in (0, 90):
        with pytest.raises(DefinitionError) as raised:
            functions(VIEW1, length=length)
        assert raised.value.condition == "BAD_PARTITION_LENGTH"
    within = "SELECT count(*) AS n FROM M PATTERN [a, b] WITHIN 60"
    for order_by in (None, "note"):
        with pytest.raises(DefinitionError) as raised:
            functions(within, source=replace(M, order_by=order_by))
        assert raised.value.condition == "BAD_PATTERN"
    helper, _ = functions(within, source=replace(M, order_by="LOSS"))
    assert (
        "CAST(New.loss AS TIMESTAMP) <= CAST(Prev.first_loss AS TIMESTAMP) + INTERVAL '60' SECOND"
        in helper.update.sql()
    )


def test_columns_without_null_make_simpler_text() -> None:
    text = "SELECT src, dest, sum(price) AS s FROM M PATTERN [a] WHERE a.loss > 1 AND note = 'x' GROUP BY src, dest"
    helper, _ = functions(text, source=replace(M, not_null=("DEST", "price")), one_row=True)
    update = helper.update.sql()
    assert "ON New.src <=> Prev.src AND New.dest = Prev.dest" in update
    assert "PART_TIMESTAMP" not in update
    assert "ELSE CAST(prev_sum_price + new_price AS DECIMAL(20, 2)) END AS sum_price" in update


def test_a_sum_of_a_later_variable_begins_with_null() -> None:
    helper, _ = functions(VIEW1.replace("sum(loss)", "sum(d.loss)"), one_row=True)
    assert "CAST(NULL AS BIGINT) AS sum_d_loss" in helper.initialize.sql()
    assert "COALESCE(prev_sum_d_loss + new_loss, prev_sum_d_loss, CAST(new_loss AS BIGINT))" in helper.update.sql()
