"""Update-pattern simplification: both plans of Fig. 3.5 from either, the same results on any rows, and their costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from headrace.algebra.nodes import Aggregate, Call, Column, Equal, Filter, Join, Node, Project, Scan, SetOperation
from headrace.algebra.pattern_costs import Statistics, cheaper, cost, key_of
from headrace.algebra.patterns import Pattern, label, time_window
from headrace.algebra.simplify import pull_up_negation, push_down_negation, push_down_weakest

Row = tuple[Any, ...]
Tables = Mapping[str, list[Row]]


def scan(name: str) -> Scan:
    columns = (Column(f"{name}_a", "INT"), Column(f"{name}_b", "INT"))
    return Scan("stuv".index(name), name, columns, ("a", "b"))


def sigma(child: Node, column: str, value: int = 1) -> Filter:
    return Filter(child, exp.column(column).eq(value))


def join(kind: Any, left: Node, right: Node, *pairs: tuple[str, str], null_safe: bool = False) -> Join:
    return Join(kind, left, right, tuple(Equal(a, b, null_safe) for a, b in pairs))


def project(child: Node, **names: str) -> Project:
    return Project(child, tuple(Column(new, "INT") for new in names), tuple(exp.column(old) for old in names.values()))


# -- an evaluation in plain Python -------------------------------------------------------------------------------------


def rows_of(node: Node, tables: Tables) -> list[Row]:
    if isinstance(node, Scan):
        return tables[node.name]
    place = {name: number for number, name in enumerate(node.children[0].names)}
    if isinstance(node, Filter):
        assert isinstance(node.predicate, exp.EQ)
        column, value = place[node.predicate.this.name], int(node.predicate.expression.name)
        return [row for row in rows_of(node.child, tables) if row[column] == value]
    if isinstance(node, Project):
        return [tuple(row[place[item.name]] for item in node.items) for row in rows_of(node.child, tables)]
    if isinstance(node, Aggregate):
        return list({tuple(row[place[key]] for key in node.keys) for row in rows_of(node.child, tables)})
    if isinstance(node, SetOperation):
        return list(set(rows_of(node.left, tables)) - set(rows_of(node.right, tables)))
    assert isinstance(node, Join)
    left, right = rows_of(node.left, tables), rows_of(node.right, tables)
    found: list[Row] = []
    for row in left:
        matches = [other for other in right if _meet(node, row, other)]
        if node.kind in ("semi", "anti"):
            found += [row] if bool(matches) == (node.kind == "semi") else []
        else:
            found += [row + other for other in matches]
            found += [row + (None,) * len(node.right.names)] if node.kind == "left" and not matches else []
    return found


def _meet(node: Join, row: Row, other: Row) -> bool:
    for pair in node.equal:
        a, b = row[node.left.names.index(pair.left)], other[node.right.names.index(pair.right)]
        if a != b or (a is None and not pair.null_safe):
            return False
    if node.residual is None:
        return True
    assert isinstance(node.residual, exp.LT)
    a = row[node.left.names.index(node.residual.this.name)]
    b = other[node.right.names.index(node.residual.expression.name)]
    return a is not None and b is not None and a < b


def told(node: Node) -> str:
    """A tree in one line."""
    if isinstance(node, Scan):
        return node.name
    name = node.kind if isinstance(node, Join | SetOperation) else type(node).__name__.lower()
    return f"{name}({', '.join(told(child) for child in node.children)})"


# -- the plans of Fig. 3.5 ---------------------------------------------------------------------------------------------


def negation_on_top() -> Node:
    joined = join("inner", sigma(scan("s"), "s_b"), scan("t"), ("s_a", "t_a"))
    return join("anti", joined, scan("u"), ("s_a", "u_a"))


def join_on_top() -> Node:
    negated = join("anti", sigma(scan("s"), "s_b"), scan("u"), ("s_a", "u_a"))
    return join("inner", negated, scan("t"), ("s_a", "t_a"))


LEFT = "anti(inner(filter(s), t), u)"
RIGHT = "inner(anti(filter(s), u), t)"


def test_figure_3_5_both_plans_from_either() -> None:
    assert (told(negation_on_top()), told(join_on_top())) == (LEFT, RIGHT)
    for plan in (negation_on_top(), join_on_top()):
        assert told(pull_up_negation(plan)) == LEFT
        assert told(push_down_negation(plan)) == RIGHT


def test_pulling_up_simplifies_the_patterns() -> None:
    strict = [
        sum(pattern == Pattern.STR for pattern in label(plan, lambda _: time_window(10)).values())
        for plan in (pull_up_negation(join_on_top()), join_on_top())
    ]
    assert strict == [1, 2]


def trees() -> dict[str, Node]:
    s, t, u, v = scan("s"), scan("t"), scan("u"), scan("v")
    residual = Join("anti", s, u, (Equal("s_a", "u_a"),), exp.LT(this=exp.column("s_b"), expression=exp.column("u_b")))
    renamed = project(join("anti", s, u, ("s_a", "u_a")), x="s_b", y="s_a")
    return {
        "left of 3.5": negation_on_top(),
        "right of 3.5": join_on_top(),
        "on the right side": join("inner", t, join("anti", s, u, ("s_a", "u_a")), ("t_a", "s_a")),
        "semi": join("semi", join("anti", s, u, ("s_a", "u_a")), t, ("s_b", "t_b")),
        "left join": join("left", join("anti", s, u, ("s_a", "u_a")), t, ("s_b", "t_b")),
        "two negations": join(
            "inner", join("anti", join("anti", s, u, ("s_a", "u_a")), v, ("s_b", "v_b")), t, ("s_a", "t_a")
        ),
        "negations on both sides": join(
            "inner", join("anti", s, u, ("s_a", "u_a")), join("anti", t, v, ("t_b", "v_b")), ("s_a", "t_a")
        ),
        "residual": join("inner", residual, t, ("s_a", "t_a")),
        "filter above": sigma(join("inner", join("anti", s, u, ("s_a", "u_a")), t, ("s_a", "t_a")), "t_b"),
        "projected": join("inner", renamed, t, ("y", "t_a")),
        "projected away": project(join("anti", s, u, ("s_a", "u_a")), x="s_b"),
        "projected residual": project(residual, x="s_b", y="s_a"),
        "distinct": Aggregate(join("anti", s, u, ("s_a", "u_a")), ("s_a",)),
        "distinct of others": Aggregate(join("anti", s, u, ("s_a", "u_a")), ("s_b",)),
        "except": join("inner", SetOperation("except", False, s, u, (Column("x"), Column("y"))), t, ("x", "t_a")),
        "null safe": join("inner", join("anti", s, u, ("s_a", "u_a"), null_safe=True), t, ("s_a", "t_a")),
        "negated twice": join("anti", s, join("anti", u, v, ("u_a", "v_a")), ("s_a", "u_a")),
        "asks both sides": join("anti", join("inner", s, t, ("s_a", "t_a")), u, ("s_b", "u_a"), ("t_b", "u_b")),
    }


value = st.sampled_from([None, 0, 1, 2])
table = st.lists(st.tuples(value, value), max_size=6)


@pytest.mark.parametrize("name", sorted(trees()))
@given(tables=st.fixed_dictionaries({"s": table, "t": table, "u": table, "v": table}))
def test_rewritings_change_no_result(name: str, tables: Tables) -> None:
    plan = trees()[name]
    wanted = Counter(rows_of(plan, tables))
    for rewrite in (
        pull_up_negation,
        push_down_weakest,
        push_down_negation,
        lambda root: push_down_negation(pull_up_negation(root)),
    ):
        found = rewrite(plan)
        assert found.names == plan.names
        assert Counter(rows_of(found, tables)) == wanted, told(found)


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("on the right side", "anti(inner(t, s), u)", "inner(t, anti(s, u))"),
        ("two negations", "anti(anti(inner(s, t), u), v)", "inner(anti(anti(s, u), v), t)"),
        ("filter above", "anti(filter(inner(s, t)), u)", "filter(inner(anti(s, u), t))"),
        ("projected", "anti(inner(project(s), t), u)", "inner(project(anti(s, u)), t)"),
        ("projected away", "project(anti(s, u))", "project(anti(s, u))"),
        ("distinct", "anti(aggregate(s), u)", "aggregate(anti(s, u))"),
        ("distinct of others", "aggregate(anti(s, u))", "aggregate(anti(s, u))"),
        ("except", "anti(inner(aggregate(project(s)), t), u)", "inner(anti(aggregate(project(s)), u), t)"),
        ("asks both sides", "anti(inner(s, t), u)", "anti(inner(s, t), u)"),
    ],
)
def test_where_negation_goes(name: str, up: str, down: str) -> None:
    plan = trees()[name]
    assert (told(pull_up_negation(plan)), told(push_down_negation(plan))) == (up, down)


def test_only_selections_and_duplicates_go_below() -> None:
    assert told(push_down_weakest(sigma(join("anti", scan("s"), scan("u"), ("s_a", "u_a")), "s_b"))) == (
        "anti(filter(s), u)"
    )
    assert told(push_down_weakest(join_on_top())) == RIGHT, "joins stay where they are"


def test_a_join_with_a_table_gets_no_strict_input() -> None:
    assert told(push_down_negation(negation_on_top(), lambda one: one.name == "t")) == LEFT


def test_what_does_not_change_is_the_same_tree() -> None:
    plan = join("inner", scan("s"), scan("t"), ("s_a", "t_a"))
    assert pull_up_negation(plan) is plan
    assert push_down_negation(plan) is plan
    total = Aggregate(negation_on_top(), ("s_b",), (Call(Column("n"), parse_one("count(s_a)")),))
    assert told(pull_up_negation(total)) == f"aggregate({LEFT})", "an aggregate needs what negation leaves"


# -- costs -------------------------------------------------------------------------------------------------------------

LINKS = {"s": 1.0, "t": 1.0, "u": 1.0}


def statistics(pairs: float, kept: float) -> Statistics:
    """One row of each link a unit of time, windows of 1,000 units; a join keeps `pairs`, the negation `kept`."""
    return Statistics(
        LINKS,
        dict.fromkeys(LINKS, 1000.0),
        {"inner s_a = t_a": pairs, "anti s_a = u_a": kept, "s_b = 1": 0.5},
    )


def test_a_selective_join_is_cheaper_below_the_negation() -> None:
    few = statistics(pairs=0.0005, kept=0.9)
    up, down = pull_up_negation(join_on_top()), push_down_negation(join_on_top())
    assert cheaper(up, down, lambda _: time_window(1000), few) is up


def test_a_selective_negation_is_cheaper_below_a_large_join() -> None:
    many = statistics(pairs=0.1, kept=0.05)
    up, down = pull_up_negation(join_on_top()), push_down_negation(join_on_top())
    assert cheaper(up, down, lambda _: time_window(1000), many) is down


def test_costs_by_hand() -> None:
    known = statistics(pairs=0.001, kept=0.5)
    # filter: 1 in, 0.5 out. join: 0.5 and 1 in, 0.001 * (0.5 * 1000 + 1 * 500) = 1 out. negation: 1 and 1 in, then 0.5
    # out and as many negative rows.
    assert cost(negation_on_top(), lambda _: time_window(1000), known) == pytest.approx(1.5 + 2.5 + 3.0)
    # filter 1.5. negation: 0.5 and 1 in, 0.25 and 0.25 negative out. join: those and 1 in, and out
    # 0.001 * (0.25 * 1000 + 1 * 250) = 0.5 with as many negative rows.
    assert cost(join_on_top(), lambda _: time_window(1000), known) == pytest.approx(1.5 + 2.0 + 2.5)
    assert key_of(negation_on_top()) == "anti s_a = u_a"
