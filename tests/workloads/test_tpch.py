"""The 22 queries of TPC-H as views in one home, after every batch of changes equal to the queries run in batch.

All eight relations change, by every public way: fed with operations into tables and into keyed streams, merged, and
written by hand. The data is tiny and steered towards what the queries ask for, so that no view is empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bench.tpch_changes import Batch, Content, changes, feed, focused, merge, operate, with_op, write_by_hand
from bench.tpch_data import RELATIONS, DataSet, codes, data_set, declare_streams, declare_tables
from bench.tpch_queries import NUMBERS, queries, query

from headrace.engine import Engine
from headrace.session import Session, connect
from tests.workloads.answers import Bag, check, create, strategies

#: Whether every view must be maintained by its changes.
EXPECT_DIFFERENTIAL = True

SCALE = 0.002
QUERIES = queries()

Apply = Callable[[Session, Batch], None]

#: Feeding a table with operations is quicker than a MERGE, and newer.
IN_BULK: Apply = operate if "ops" in inspect.signature(Session.feed).parameters else merge


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataSet:
    return data_set(SCALE, tmp_path_factory.mktemp("tpch"))


def test_in_tables_on_sail(sail_engine: Engine, tmp_path: Path, data: DataSet) -> None:
    rounds: list[tuple[Apply, int]] = [(merge, 60), (write_by_hand, 3), (IN_BULK, 300)]
    still = keep_up(sail_engine, tmp_path, Content(base(data)), declare_tables, rounds)
    assert not still, "the changes touched none of these"


def test_in_keyed_streams_on_sail(sail_engine: Engine, tmp_path: Path, data: DataSet) -> None:
    keep_up(sail_engine, tmp_path, Content(base(data)), declare_streams, [(feed, 300)])


@pytest.mark.slow
def test_in_tables_on_spark(spark_engine: Engine, tmp_path: Path, data: DataSet) -> None:
    # A join, one that keeps rows without a match, a CTE read twice, DISTINCT and NOT IN, a LIMIT, EXISTS.
    some = {name: QUERIES[name] for name in ("q05", "q13", "q15", "q16", "q18", "q21")}
    keep_up(spark_engine, tmp_path, Content(base(data)), declare_tables, [(IN_BULK, 300)], some)


def base(data: DataSet) -> dict[str, pa.Table]:
    return focused(np.random.default_rng(1), {name: data.read(name) for name in RELATIONS})


def keep_up(
    engine: Engine,
    home: Path,
    content: Content,
    declare: Callable[[Session], None],
    rounds: list[tuple[Apply, int]],
    texts: Mapping[str, str] = QUERIES,
) -> set[str]:
    """Load, make all views, and hold them against their queries after each round of changes.

    Returns the views that never changed.
    """
    rng = np.random.default_rng(2)
    with connect(str(home / "home"), engine=engine.kind, spark=engine.spark) as session:
        declare(session)
        for name, rows in content.tables.items():
            session.feed(name, with_op(rows, "+") if declare is declare_streams else rows)
        create(session, texts, by_changes=EXPECT_DIFFERENTIAL)
        before = check(session, texts)
        assert [name for name, rows in before.items() if is_empty(rows)] == []
        still = set(texts)
        for apply, most in rounds:
            apply(session, changes(rng, content, most=most))
            session.refresh()
            assert sizes(session) == {name: rows.num_rows for name, rows in content.tables.items()}
            after = check(session, texts)
            still -= {name for name in texts if after[name] != before[name]}
            if EXPECT_DIFFERENTIAL:
                assert strategies(session, texts) == dict.fromkeys(texts, "differential")
            before = after
    return still


def sizes(session: Session) -> dict[str, int]:
    return {name: session.table(name).count() for name in RELATIONS}


def is_empty(rows: Bag) -> bool:
    return not rows or set(rows) == {(None,)}


# --- The workload itself ---------------------------------------------------------------------------------------------


def test_every_query_has_its_text_and_names_all_its_columns(sail_engine: Engine, data: DataSet) -> None:
    assert list(QUERIES) == [f"q{number:02}" for number in NUMBERS]
    assert "* 0.00001\n" in query(11, scale=10)
    assert "* 0.0001\n" in query(11)
    for name in RELATIONS:
        sail_engine.spark.read.parquet(*map(str, data.base(name))).createOrReplaceTempView(name)
    for number, text in QUERIES.items():
        columns = sail_engine.spark.sql(text).columns
        assert all(column.isidentifier() for column in columns), (number, columns)
    for name in RELATIONS:
        sail_engine.spark.catalog.dropTempView(name)


def test_data_is_generated_once_and_cut_in_two(data: DataSet, tmp_path: Path) -> None:
    orders, lines, customers = (data.held(name) for name in ("orders", "lineitem", "customer"))
    assert (orders.num_rows, customers.num_rows) == (30, 3)
    assert set(lines.column("l_orderkey").to_pylist()) == set(orders.column("o_orderkey").to_pylist())
    assert min(orders.column("o_orderkey").to_pylist()) > max(data.read("orders").column("o_orderkey").to_pylist())
    assert data.rows("orders") == 2970
    for name, relation in RELATIONS.items():
        rows = data.read(name)
        assert rows.schema.equals(relation.schema)
        assert len(np.unique(codes(rows, relation.key))) == rows.num_rows
    made = (data.folder / "base" / "region" / "001.parquet").stat().st_mtime_ns
    again = data_set(SCALE, data.folder.parent.parent)
    assert (again.folder / "base" / "region" / "001.parquet").stat().st_mtime_ns == made


def test_changes_keep_keys_unique_and_touch_all_relations(data: DataSet) -> None:
    rng, content = np.random.default_rng(3), Content(base(data))
    for _round in range(5):
        before = dict(content.tables)
        batch = changes(rng, content)
        for name, relation in RELATIONS.items():
            ops = batch[name].column("op").to_pylist()
            old = np.isin(codes(batch[name], relation.key), codes(before[name], relation.key))
            assert old.tolist() == [op != "+" for op in ops]
            assert {"-", "u"} <= set(ops)
            assert len(np.unique(codes(content.tables[name], relation.key))) == content.tables[name].num_rows
    assert content.tables["lineitem"].column("l_comment").null_count > 0


def test_the_same_seed_gives_the_same_changes(data: DataSet) -> None:
    batches = [changes(np.random.default_rng(4), Content(base(data))) for _time in range(2)]
    assert all(batches[0][name].equals(batches[1][name]) for name in RELATIONS)
