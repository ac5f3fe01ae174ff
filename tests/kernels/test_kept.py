"""Buckets of a state that are worked on together hold what each by itself would."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.algebra.nodes import Column
from headrace.maintenance.kept import BucketChange, Held, KeptBucket, KeptBuckets, bucket_of, state_schema
from headrace.maintenance.operators.base import State
from headrace.storage import arrangements
from headrace.storage.files import file_of
from tests.kernels import tools

COLUMNS = (Column("k", "BIGINT"), Column("s", "STRING"))
BAG = State("bag", 0, COLUMNS, ("k",), "", purpose="rows")
UNIQUE = State("unique", 0, COLUMNS, ("k",), "", (), "the current row of each key", unique=True)
OF = 3

LINES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from([None, "", "a"]), st.sampled_from([1, 1, 2, -1])), max_size=12
)


def rows_of(state: State, lines: list[tuple[int, str | None, int]]) -> pa.Table:
    if state.unique:  # one row a key comes at a time
        lines = list({line[0]: line for line in lines}.values())
    keys = np.array([line[0] for line in lines], dtype=np.int64)
    columns = {"k": keys, "s": pa.array([line[1] for line in lines], pa.string()), "__h": keys * 7 - 20}
    if not state.unique:
        columns["__w"] = np.array([line[2] for line in lines], dtype=np.int64)
    return pa.table(columns).cast(state_schema(state))


def applied(held: Held, changes: list[BucketChange]) -> Held:
    runs = dict(held.runs)
    for change in changes:
        kept = tuple(run for run in runs.get(change.bucket, ()) if run.path not in change.gone)
        runs[change.bucket] = kept + change.new
    return replace(held, runs=runs)


def content(root: str, held: Held) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for bucket, runs in held.runs.items():
        table = bucket_of(root, held.state, runs).scan()
        assert set((table.column("__h").to_numpy() % OF).tolist()) <= {bucket}
        found.update(tools.counted(table, ["k", "s"]) if "__w" in table.column_names else tools.rows(table, ["k", "s"]))
    return tools.nonzero(found)


@pytest.mark.parametrize("state", [BAG, UNIQUE], ids=lambda state: state.name)
@pytest.mark.parametrize("at_once", [1 << 20, 5], ids=["in one file", "too many for one"])
@settings(deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(st.booleans(), LINES), max_size=8), asked=st.lists(st.integers(0, 9), max_size=5))
def test_together_as_apart(
    tmp_path_factory: pytest.TempPathFactory, state: State, at_once: int, steps: list[Any], asked: list[int]
) -> None:
    root = str(tmp_path_factory.mktemp("state"))
    wanted = np.unique(np.array(asked, dtype=np.int64) * 7 - 20)
    one, other = Held(state, 1, "one", {}), Held(state, 2, "other", {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrangements, "ROWS_A_BATCH", at_once)
        for version, (together, lines) in enumerate(steps):
            rows = rows_of(state, lines)
            places = rows.column("__h").to_numpy() % OF
            numbers = [int(number) for number in np.unique(places)] or [0]
            all_ = KeptBuckets(root, version, one, range(OF), OF)
            apart = {number: KeptBucket(root, version, other, number) for number in numbers}
            found = all_.lookup(wanted, None if not state.unique else ["k", "s", "__h"])
            assert found.num_rows == len(found.group_by(["k", "s"]).aggregate([])) or not state.unique
            assert set(found.column("__h").to_pylist()) <= set(wanted.tolist())
            if together:
                all_.add(rows)
                one = applied(one, all_.changes())
            else:  # buckets that were worked on together can be worked on one by one, and the other way round
                for number in numbers:
                    kept = KeptBucket(root, version, one, number)
                    kept.add(rows.filter(pa.array(places == number)))
                    one = applied(one, kept.changes())
            for number, kept in apart.items():
                kept.add(rows.filter(pa.array(places == number)))
                other = applied(other, kept.changes())
            assert content(root, one) == content(root, other)


def test_a_change_to_many_buckets_is_one_file(tmp_path: Path) -> None:
    held = Held(BAG, 1, "one", {})
    for version in range(4):
        kept = KeptBuckets(str(tmp_path), version, held, range(OF), OF)
        kept.add(rows_of(BAG, [(number, "a", 1) for number in range(9)]))
        changes = kept.changes()
        assert [change.bucket for change in changes] == [0, 1, 2]
        assert len({file_of(run.path) for change in changes for run in change.new}) == 1
        held = applied(held, changes)
    assert content(str(tmp_path), held) == {(number, "a"): 4 for number in range(9)}


def test_only_the_buckets_asked_for_are_looked_into(tmp_path: Path) -> None:
    kept = KeptBuckets(str(tmp_path), 0, Held(BAG, 1, "one", {}), range(OF), OF)
    kept.add(rows_of(BAG, [(number, "a", 1) for number in range(9)]))
    held = applied(Held(BAG, 1, "one", {}), kept.changes())
    some = KeptBuckets(str(tmp_path), 1, held, [0, 2], OF)
    assert some.scan().num_rows == sum(run.rows for number in (0, 2) for run in held.runs[number])
    (change, *_others) = some.changes()
    assert (change.new, change.looked_at) == ((), some.scan().num_rows)
