"""Plans by their shape. No engine: types come from a few rules that suffice for these queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

import pytest

from headrace.algebra.binder import Bound, NotBound, bind
from headrace.algebra.determinism import nondeterministic, order_dependent
from headrace.algebra.expressions import columns_of_all, is_ref
from headrace.algebra.nodes import Aggregate, Constant, Filter, Generate, Join, Node, Over, Project, Scan, TopK
from headrace.algebra.pushdown import optimise
from headrace.algebra.text import node_sql, to_sql
from headrace.algebra.trees import all_nodes, free_columns, parents, references

from . import tpch
from .data import SCHEMA, query
from .queries import ALL
from .shapes import picture


def guess(text: str) -> tuple[str, ...]:
    """As many types as the text has columns: all the same but for counts, which is enough for shapes."""
    if "UNION" in text or "coalesce(a, b)" in text:
        return ("bigint",)
    return ("bigint",) * max(1, len(re.findall(r" AS c\d+", text)))


def shaped(text: str) -> Bound:
    parsed = query(text)
    stored = [(ref.name, tuple(SCHEMA[ref.name.lower()].items())) for ref in parsed.relations()]
    return bind(parsed, stored, guess)


def plan(text: str) -> Node:
    return optimise(shaped(text).root)


def found(root: Node, kind: type[Node]) -> list[Node]:
    return [node for node in all_nodes(root) if isinstance(node, kind)]


def joins(root: Node) -> list[str]:
    return [node.kind for node in all_nodes(root) if isinstance(node, Join)]


def scanned(root: Node) -> dict[str, tuple[str, ...]]:
    return {node.name: node.sources for node in all_nodes(root) if isinstance(node, Scan)}


def test_output_names_are_the_users() -> None:
    assert shaped("select k as Key, S, t.v, t.* from t").output == ("Key", "S", "v", "k", "v", "s", "p", "dt")


def test_only_needed_columns_are_read() -> None:
    root = plan("select t.k, max(u.w) from t join u on t.k = u.k where t.s = 'x' group by t.k")
    assert scanned(root) == {"t": ("k", "s"), "u": ("k", "w")}


def test_count_star_reads_one_column() -> None:
    assert scanned(plan("select count(*) from t")) == {"t": ("k",)}


def test_equality_in_where_is_a_key() -> None:
    (join,) = found(plan("select t.k, w from t, u where t.k = u.k and w > 5"), Join)
    assert isinstance(join, Join)
    assert len(join.equal) == 1
    assert join.residual is None
    assert isinstance(join.right, Filter)


def test_no_cross_product_where_equalities_connect() -> None:
    root = plan("select a.k from t a, u b, b c where a.k = c.k and b.k = c.k")
    assert all(join.equal for join in found(root, Join) if isinstance(join, Join))


def test_keys_have_one_type() -> None:
    (join,) = found(plan("select t.k from t join b on t.k = b.k"), Join)
    assert isinstance(join, Join)
    types = {column.name: column.type for column in join.columns}
    assert {types[join.equal[0].left], types[join.equal[0].right]} == {"bigint"}


def test_theta_join_keeps_its_condition() -> None:
    (join,) = found(plan("select t.k from t left join u on t.v < u.w"), Join)
    assert isinstance(join, Join)
    assert not join.equal
    assert join.residual is not None


def test_outer_join_that_a_filter_makes_inner() -> None:
    assert joins(plan("select t.k, w from t left join u on t.k = u.k where w > 5")) == ["inner"]
    assert joins(plan("select t.k, w from t left join u on t.k = u.k where w is null")) == ["left"]
    assert joins(plan("select t.k, w from t full join u on t.k = u.k where v > 5")) == ["left"]


def test_filter_on_the_preserved_side_is_pushed() -> None:
    (join,) = found(plan("select t.k, w from t left join u on t.k = u.k where t.v > 5 and t.k = 1"), Join)
    assert isinstance(join, Join)
    assert isinstance(join.left, Filter | Project)
    assert "= 1" in picture(join.right)  # the key's condition holds on the other side too


def test_filter_on_keys_goes_below_the_groups() -> None:
    root = plan("select * from (select k, sum(v) as n from t group by k) x where k = 1 and n > 2")
    (group,) = found(root, Aggregate)
    assert "k_1 = 1" in picture(group)
    assert "> 2" not in picture(group)


def test_filter_on_the_partition_goes_below_the_window() -> None:
    root = plan("select * from (select k, v, sum(v) over (partition by k) as n from t) x where k = 1 and v = 2")
    (over,) = found(root, Over)
    assert "= 1" in picture(over)
    assert "= 2" not in picture(over)


def test_disjunctions_are_factored() -> None:
    root = plan("select t.k from t, u where (t.k = u.k and t.v = 1 and u.w = 2) or (t.k = u.k and t.v = 3 and u.w = 4)")
    (join,) = found(root, Join)
    assert isinstance(join, Join)
    assert len(join.equal) == 1
    assert "v_2 = 1 OR v_2 = 3" in picture(join.left)
    assert "w_7 = 2 OR w_7 = 4" in picture(join.right)


def test_expressions_are_computed_before_the_join() -> None:
    root = plan("select sum(t.v * t.p) from t join u on t.k = u.k")
    (join,) = found(root, Join)
    assert isinstance(join, Join)
    assert "v_2 * p_4" in picture(join.left)


def test_a_division_stays_above_the_join() -> None:
    root = plan("select sum(t.v / t.p) from t join u on t.k = u.k")
    (join,) = found(root, Join)
    assert "/" not in picture(join)


def test_distinct_count_is_two_aggregates() -> None:
    root = plan("select k, count(distinct s) from t group by k")
    upper, lower = [node for node in reversed(all_nodes(root)) if isinstance(node, Aggregate)]
    assert not lower.calls
    assert len(lower.keys) == 2
    assert upper.keys == lower.keys[:1]


def test_exists_and_in_are_semi_joins() -> None:
    assert joins(plan("select k from t where exists (select 1 from u where u.k = t.k)")) == ["semi"]
    assert joins(plan("select k from t where not exists (select 1 from u where u.k = t.k)")) == ["anti"]
    assert joins(plan("select k from t where k in (select k from u)")) == ["semi"]
    assert joins(plan("select k from t where k not in (select k from u)")) == ["anti", "anti"]


def test_residual_of_a_semi_join_stays_in_it() -> None:
    root = plan("select k from t where exists (select 1 from u where u.k = t.k and u.w <> t.v)")
    (join,) = found(root, Join)
    assert isinstance(join, Join)
    assert join.kind == "semi"
    assert len(join.equal) == 1
    assert join.residual is not None


def test_scalar_aggregate_is_grouped_by_its_correlation() -> None:
    root = plan("select k, (select max(w) from u where u.k = t.k) as m from t")
    assert joins(root) == ["left"]
    (group,) = found(root, Aggregate)
    assert isinstance(group, Aggregate)
    assert len(group.keys) == 1


def test_compared_scalar_is_an_inner_join() -> None:
    assert joins(plan("select k from t where v < (select avg(w) from u where u.k = t.k)")) == ["inner"]


def test_count_of_nothing_is_made_up() -> None:
    root = plan("select k, (select count(*) from u where u.k = t.k) as m from t")
    assert "ELSE CAST(0 AS BIGINT)" in picture(root)


def test_query_read_twice_is_one_node() -> None:
    root = plan("with c as (select k, count(*) as n from t group by k) select a.k from c a join c b on a.k = b.n")
    assert len(found(root, Aggregate)) == 1
    assert [count for count in parents(root).values() if count > 1] == [2]


def test_order_alone_is_dropped() -> None:
    assert not found(plan("select k from t order by v"), TopK)
    (top,) = found(plan("select k from t order by v limit 2 offset 1"), TopK)
    assert isinstance(top, TopK)
    assert (top.limit, top.offset, len(top.order)) == (2, 1, 1)


def test_grouping_sets_repeat_the_rows() -> None:
    root = plan("select k, s, count(*) from t group by rollup (k, s)")
    assert len(found(root, Generate)) == 1
    (group,) = found(root, Aggregate)
    assert isinstance(group, Aggregate)
    assert len(group.keys) == 3


def test_constants_are_folded_into_one_node() -> None:
    assert isinstance(plan("select 1 as x, 'a' as y"), Constant)


def test_union_all_is_one_node() -> None:
    root = plan("select k from t union all select k from u union all select k from e")
    assert len(root.children) == 3


def every_text() -> Sequence[str]:
    return [text for texts in ALL.values() for text in texts] + list(tpch.queries().values())


def test_normal_form() -> None:
    """Only filters, projections and generators compute; every name is given where it is used, and given once."""
    for text in every_text():
        try:
            bound = shaped(text)
        except (NotBound, ValueError):
            continue  # the guessed types do not fit
        for root in (bound.root, optimise(bound.root)):
            assert not free_columns(root), text
            for node in all_nodes(root):
                given = [name for child in node.children for name in child.names]
                assert references(node) <= set(given), text
                assert len(set(node.names)) == len(node.names) > 0, text
                if isinstance(node, Aggregate | Over):
                    for call in node.calls:
                        assert columns_of_all([call.expression]) <= set(given), text
                if isinstance(node, Join):
                    assert not set(node.left.names) & set(node.right.names), text


def test_names_are_defined_once() -> None:
    for text in every_text():
        try:
            root = optimise(shaped(text).root)
        except (NotBound, ValueError):
            continue
        made: dict[str, Node] = {}
        for node in all_nodes(root):
            for name in _defined(node):
                assert name not in made, (text, name)
                made[name] = node


def _defined(node: Node) -> list[str]:
    """The names that a node gives and that are not its children's."""
    given = {name for child in node.children for name in child.names}
    if isinstance(node, Project):
        pairs = zip(node.names, node.items, strict=True)
        return [name for name, item in pairs if not (is_ref(item) and item.name == name)]
    return [name for name in node.names if name not in given]


def test_text_of_one_node() -> None:
    root = plan("select k from t where v > 5")
    assert node_sql(root, ["x"]).startswith("SELECT k_1 AS k_6 FROM x")
    whole = to_sql(root, {0: "somewhere"})
    assert "FROM somewhere" in whole
    assert whole.count(" AS (") == len(all_nodes(root))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select k from t tablesample (10 percent)", "TABLESAMPLE"),
        ("select k, (select w from u where u.k = t.k) from t", "more than one row"),
        ("select k from t where v = (select w from u)", "more than one row"),
        ("with recursive r as (select 1 as x union all select x + 1 from r) select x from r", "RECURSIVE"),
        ("select * from t pivot (sum(v) for k in (1, 2))", "PIVOT"),
        ("select nope from t", "not found"),
        ("select k from t join u on t.k = u.k", "ambiguous"),
        ("select k, v from t group by k", "neither grouped"),
        ("select k from t limit 1 + 1", "plain number"),
        ("select t.k from t left join u on t.k = u.k and exists (select 1 from b where b.k = t.k + u.w)", "both sides"),
    ],
)
def test_what_is_not_bound_says_why(text: str, words: str) -> None:
    with pytest.raises(NotBound) as caught:
        shaped(text)
    assert words in caught.value.what


def test_one_row_is_enough_for_a_scalar() -> None:
    plan("select k, (select w from u order by w limit 1) as x from t")
    plan("select k, (select max(w) from u where u.k = t.k group by u.k) as x from t")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("select rand() from t", "rand"),
        ("select k from t where dt < current_date()", "current_date"),
        ("select current_timestamp() from t", "current_timestamp"),
        ("select now() from t", "now"),
        ("select uuid() from t", "uuid"),
        ("select shuffle(a) from n", "shuffle"),
        ("select monotonically_increasing_id() from t", "monotonically_increasing_id"),
        ("select k from t where k in (select k from u where rand() > 0.5)", "rand"),
        ("select date_add(dt, 1), unix_timestamp(dt) from t", None),
    ],
)
def test_nondeterministic(text: str, name: str | None) -> None:
    assert nondeterministic(query(text)) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("select first(v) from t", "first"),
        ("select collect_list(v) from t", "array_agg"),
        ("select any_value(v) from t", "any_value"),
        ("select first_value(v) over (order by k) from t", None),
        ("select max(v) from t", None),
    ],
)
def test_order_dependent(text: str, name: str | None) -> None:
    assert order_dependent(query(text)) == name


def test_nodes_are_values() -> None:
    assert {field.name for field in fields(Filter)} == {"child", "predicate"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("select t.v, max(u.w) from t join u on t.k = u.k where t.s = 'x' group by t.v", ["v", "w"]),
        ("select t.v, count(*) from t left join u on t.k = u.k and t.p < u.w group by t.v", ["v"]),
        ("select t.k, sum(u.w) from t join u on t.k = u.k group by t.k", ["k", "w"]),
        ("select distinct t.v from t join u on t.k = u.k", ["v"]),
    ],
)
def test_an_aggregate_reads_no_more_of_a_join_than_it_needs(text: str, read: list[str]) -> None:
    """Whatever comes to an aggregate may be kept with the rows of its groups, and is sent to where they lie."""
    (aggregate,) = found(plan(text), Aggregate)
    assert sorted(re.sub(r"_\d+$", "", name) for name in aggregate.children[0].names) == read


def test_an_aggregate_that_needs_no_column_reads_one() -> None:
    (aggregate,) = found(plan("select count(*) from t join u on t.k = u.k"), Aggregate)
    assert len(aggregate.children[0].names) == 1
