"""Update patterns: the thesis' rules, its annotated plans (Fig. 3.1, 3.3, 3.5-3.7), and what it leaves open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlglot import exp, parse_one

from headrace.algebra.nodes import (
    Aggregate,
    Call,
    Column,
    Constant,
    Equal,
    Filter,
    Generate,
    Join,
    Node,
    Over,
    Project,
    Scan,
    SetOperation,
    TopK,
    Union,
)
from headrace.algebra.patterns import (
    KEYED_STREAM,
    NON_RETROACTIVE,
    ROW_WINDOW,
    STREAM,
    TABLE,
    Input,
    Pattern,
    explain,
    label,
    leaf,
    result_pattern,
    time_window,
)
from headrace.language import Window
from headrace.language import nodes as language

MON, WKS, WK, STR = Pattern.MON, Pattern.WKS, Pattern.WK, Pattern.STR

#: Leaves by name: `w` and `x` are windows of one length, `l` is a longer one.
LEAVES: dict[str, Input] = {
    "s": STREAM,
    "s2": STREAM,
    "k": KEYED_STREAM,
    "w": time_window(10),
    "x": time_window(10),
    "y": time_window(10),
    "l": time_window(99),
    "r": ROW_WINDOW,
    "t": TABLE,
    "n": NON_RETROACTIVE,
    "n2": NON_RETROACTIVE,
}


def given(scan: Scan) -> Input:
    return LEAVES[scan.name]


def scan(name: str) -> Scan:
    columns = (Column(f"{name}_a", "INT"), Column(f"{name}_b", "INT"))
    return Scan(list(LEAVES).index(name), name, columns, ("a", "b"))


def a(node: Node) -> str:
    return node.names[0]


def sigma(child: Node) -> Filter:
    return Filter(child, exp.column(a(child)).eq(1))


def join(kind: Any, left: Node, right: Node) -> Join:
    return Join(kind, left, right, (Equal(a(left), a(right)),))


def distinct(child: Node) -> Aggregate:
    return Aggregate(child, (a(child),))


def total(child: Node, *keys: str) -> Aggregate:
    return Aggregate(child, keys, (Call(Column("total", "BIGINT"), parse_one(f"sum({a(child)})")),))


def union(*inputs: Node) -> Union:
    return Union(inputs, inputs[0].columns)


def of(root: Node) -> Pattern:
    return label(root, given)[root]


def test_they_are_ordered() -> None:
    assert MON < WKS < WK < STR
    assert [pattern.dies_in_order for pattern in Pattern] == [True, True, False, False]
    assert [pattern.death_is_known for pattern in Pattern] == [True, True, True, False]


def test_leaves() -> None:
    assert [of(scan(name)) for name in ("s", "k", "w", "r", "t", "n")] == [MON, STR, WKS, STR, STR, STR]
    assert of(Constant("SELECT 1", (Column("one"),))) == MON


def test_leaves_as_a_query_reads_them() -> None:
    assert leaf(None) is STREAM
    assert leaf(None, keyed=True) is KEYED_STREAM
    assert leaf(None, table=True) is TABLE
    assert leaf(None, table=True, non_retroactive=True) is NON_RETROACTIVE
    assert leaf(Window("range", 10, internal=True)) == time_window(10)
    assert leaf(Window("range", None)) is STREAM
    assert leaf(Window("range", 10), keyed=True) is KEYED_STREAM  # a row may be replaced before it dies of age
    assert leaf(Window("rows", 5, partition=("k",))) is ROW_WINDOW


def test_figure_3_1_update_patterns_of_window_operators() -> None:
    window = scan("w")
    assert of(sigma(window)) == WKS  # (a) selection
    assert of(join("inner", window, scan("x"))) == WK  # (b) join
    assert of(distinct(window)) == WK  # (c) duplicate elimination
    assert of(total(window, a(window))) == STR  # (d) group-by with aggregation
    assert of(join("anti", window, scan("x"))) == STR  # 3.2.2, negation


def test_figure_3_3_a_join_of_internal_windows_keeps_weak_state() -> None:
    inner = join("inner", scan("w"), scan("x"))
    root = join("inner", inner, scan("y"))
    labels = label(root, given)
    assert labels[inner] == WK, "expirations from two windows must be reflected in the materialized sub-result"
    assert labels[root] == WK
    assert result_pattern(labels[root], internal=True) == MON
    assert result_pattern(labels[root], internal=False) == WK


def figure_3_5_left() -> tuple[Join, Join]:
    joined = join("inner", sigma(scan("w")), scan("x"))
    return join("anti", joined, scan("y")), joined


def figure_3_5_right() -> tuple[Join, Join]:
    negated = join("anti", sigma(scan("w")), scan("y"))
    return join("inner", negated, scan("x")), negated


def test_figure_3_5_two_plans_of_query_4() -> None:
    root, joined = figure_3_5_left()
    labels = label(root, given)
    assert (labels[joined.left], labels[joined.right], labels[root.right]) == (WKS, WKS, WKS)
    assert (labels[joined], labels[root]) == (WK, STR)
    root, negated = figure_3_5_right()
    labels = label(root, given)
    assert (labels[negated.left], labels[negated.right], labels[root.right]) == (WKS, WKS, WKS)
    assert (labels[negated], labels[root]) == (STR, STR)


def test_figure_3_6_what_the_calendar_queue_may_hold() -> None:
    """The left input to the negation on the left of Fig. 3.5: deaths are known, and not in the order of births."""
    root, joined = figure_3_5_left()
    stored = label(root, given)[joined]
    assert stored.death_is_known
    assert not stored.dies_in_order


def test_figure_3_7_the_plans_of_the_experiments() -> None:
    query_1 = join("inner", sigma(scan("w")), sigma(scan("x")))
    labels = label(query_1, given)
    assert [labels[node] for node in query_1.walk()] == [WKS, WKS, WKS, WKS, WK]
    assert of(distinct(scan("w"))) == WK  # query 2
    assert of(join("anti", scan("w"), scan("x"))) == STR  # query 3


PROJECT: Callable[[Node], Node] = lambda child: Project(child, child.columns[:1], (exp.column(a(child)),))  # noqa: E731
GENERATE: Callable[[Node], Node] = lambda child: Generate(  # noqa: E731
    child, (*child.columns, Column("item")), parse_one("explode(items)"), (Column("item"),)
)


@pytest.mark.parametrize("operator", [sigma, PROJECT, GENERATE])
def test_rule_1_row_by_row(operator: Callable[[Node], Node]) -> None:
    assert [of(operator(scan(name))) for name in ("s", "w", "r", "t")] == [MON, WKS, STR, STR]
    assert of(operator(join("inner", scan("w"), scan("x")))) == WK


@pytest.mark.parametrize(("name", "wanted"), [("s", MON), ("w", WKS), ("r", STR)])
def test_rule_1_non_retroactive_relations(name: str, wanted: Pattern) -> None:
    stream = scan(name)
    assert of(join("inner", stream, scan("n"))) == wanted
    assert of(join("inner", scan("n"), stream)) == wanted
    assert of(join("left", stream, scan("n"))) == wanted
    assert of(join("anti", stream, sigma(scan("n")))) == wanted
    assert of(join("inner", join("inner", stream, scan("n")), scan("n2"))) == wanted
    assert of(join("inner", stream, join("inner", scan("n"), scan("n2")))) == wanted


def test_rule_2_union() -> None:
    weak = join("inner", scan("w"), scan("x"))
    assert of(union(scan("w"), scan("x"))) == WKS
    assert of(union(scan("s"), scan("s2"))) == MON
    assert of(union(scan("w"), weak)) == WK
    assert of(union(weak, scan("r"))) == STR
    # Not WKS: rows of a long window outlive later ones of a short window, and those of a stream never die.
    assert of(union(scan("w"), scan("l"))) == WK
    assert of(union(scan("w"), scan("s"))) == WK


def test_rule_3_weak_operators() -> None:
    for operator in (
        lambda left, right: join("inner", left, right),
        lambda left, right: join("semi", left, right),
        lambda left, right: SetOperation("intersect", False, left, right, left.columns),
    ):
        assert of(operator(scan("w"), scan("x"))) == WK
        assert of(operator(scan("w"), scan("r"))) == STR
        assert of(operator(scan("s"), scan("s2"))) == MON
        # Thesis 3.3.2 says WKS here. By its own definition it is not: lifetimes differ.
        assert of(operator(scan("s"), scan("w"))) == WK
    assert [of(distinct(scan(name))) for name in ("s", "w", "r")] == [MON, WK, STR]


def test_rule_4_strict_operators() -> None:
    for name in ("s", "w", "r"):
        window = scan(name)
        assert of(total(window)) == STR
        assert of(total(window, a(window))) == STR
        assert of(SetOperation("except", True, window, scan("x"), window.columns)) == STR
        assert of(SetOperation("except", False, window, scan("x"), window.columns)) == STR
        assert of(TopK(window, (), 10)) == STR
        assert of(Over(window, (), (Call(Column("n"), parse_one("row_number() OVER ()")),))) == STR
        assert of(join("inner", window, scan("t"))) == STR  # a join with a retroactive relation
        for kind in ("anti", "left", "right", "full"):
            assert of(join(kind, window, scan("x"))) == STR
    assert of(SetOperation("intersect", True, scan("w"), scan("x"), scan("w").columns)) == STR
    assert of(TopK(scan("w"), (), None)) == WKS


def test_what_never_changes_is_transparent() -> None:
    still = Constant("VALUES (1)", (Column("one"),))
    for kind in ("inner", "left", "semi", "anti"):
        assert of(join(kind, scan("w"), still)) == WKS
    assert of(join("right", scan("w"), still)) == STR
    assert of(union(scan("w"), still)) == WK
    assert of(total(still)) == MON
    assert of(SetOperation("except", False, scan("w"), still, scan("w").columns)) == WK


def test_the_clock_in_an_expression() -> None:
    recent = Filter(scan("s"), exp.LT(this=language.Now(), expression=exp.column("s_a")))
    assert of(recent) == WK
    assert of(Project(scan("s"), (Column("now"),), (language.Now(),))) == STR


def test_every_label_has_its_reason() -> None:
    root, _ = figure_3_5_left()
    for node, found in explain(root, given).items():
        assert found.reason, node
    assert explain(root, given)[root].reason == "a negation takes a result back when a match arrives (rule 4)"
    assert label(scan("w"), lambda _: WKS)  # a bare pattern will do for a leaf


def test_an_unknown_operator_is_told() -> None:
    with pytest.raises(TypeError, match="Node"):
        label(Node(), given)
