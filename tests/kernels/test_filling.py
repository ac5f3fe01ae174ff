"""States filled here: whatever the pieces, they hold what was given, bucket by bucket."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.algebra.nodes import Column
from headrace.maintenance.filling import can_fill, fill
from headrace.maintenance.kept import Held, bucket_of
from headrace.maintenance.operators.base import State
from headrace.storage.hashing import hashes

COLUMNS = (Column("k", "INT"), Column("s", "STRING"), Column("at", "BIGINT"))
BAG = State("kept", 0, COLUMNS, ("k", "s"), "")
UNIQUE = State("kept", 0, COLUMNS, ("k",), "", (), unique=True)
WHOLE = State("kept", 0, COLUMNS, (), "")
BUCKETS = 3

Line = tuple[int | None, str | None, int]
LINES = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 9)), st.sampled_from([None, "", "a", "bb"]), st.integers(0, 50)),
    max_size=30,
)


def _pieces(state: State, pieces: list[list[Line]]) -> list[pa.Table]:
    found = []
    for lines in pieces:
        columns = list(zip(*lines, strict=True)) if lines else [()] * 3
        types = (pa.int32(), pa.string(), pa.int64())
        table = pa.table({c.name: pa.array(v, t) for c, v, t in zip(COLUMNS, columns, types, strict=True)})
        weights = pa.array(np.ones(len(lines), dtype=np.int64))
        found.append(table.append_column("__w", weights) if state.measures else table)
    return found


def _same(piece: pa.Table) -> pa.Table:
    return piece


def _filled(root: Path, state: State, pieces: list[list[Line]], newest: tuple[str, ...] = ()) -> list[pa.Table]:
    held = Held(state, 1, "state", {})
    coming = [partial(_same, piece) for piece in _pieces(state, pieces)]
    done = fill(held, str(root), 7, BUCKETS, coming, str(root / "stage"), newest)
    assert [path for path in (root / "stage").rglob("*") if path.is_file()] == []
    tables = []
    for change in done:
        assert (change.state, change.gone) == (1, ())
        table = bucket_of(str(root), state, change.new).scan()
        assert sorted(table.column("__h").to_pylist()) == table.column("__h").to_pylist()
        assert np.array_equal(hashes(table, state.key), table.column("__h").to_numpy())
        assert not state.key or set(table.column("__h").to_numpy() % BUCKETS) == {change.bucket}
        tables.append(table)
    return tables


def _lines(tables: list[pa.Table]) -> list[Any]:
    return [row for table in tables for row in zip(*(table.column(c.name).to_pylist() for c in COLUMNS), strict=True)]


@pytest.mark.parametrize("state", [BAG, WHOLE])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(LINES, max_size=4))
def test_a_bag_holds_all_that_came(
    tmp_path_factory: pytest.TempPathFactory, state: State, pieces: list[list[Line]]
) -> None:
    tables = _filled(tmp_path_factory.mktemp("fill"), state, pieces)
    held: Counter[Line] = Counter()
    for table in tables:
        for line, weight in zip(_lines([table]), table.column("__w").to_pylist(), strict=True):
            held[line] += weight
    assert held == Counter(line for lines in pieces for line in lines)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(LINES, max_size=4))
def test_a_unique_state_holds_the_newest_row_of_each_key(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[Line]]
) -> None:
    found = _lines(_filled(tmp_path_factory.mktemp("fill"), UNIQUE, pieces, ("at",)))
    newest: dict[int | None, Line] = {}
    for line in (line for lines in pieces for line in lines):
        if line[0] not in newest or line[2] >= newest[line[0]][2]:
            newest[line[0]] = line
    assert Counter(found) == Counter(newest.values())


def test_what_cannot_be_filled_here() -> None:
    assert can_fill(BAG)
    assert can_fill(WHOLE)
    for kind in ("ARRAY<INT>", "INTERVAL DAY TO SECOND", "STRUCT<a: INT>"):
        assert not can_fill(State("kept", 0, (*COLUMNS, Column("v", kind)), ("k",), ""))
    assert not can_fill(State("kept", 0, (Column("k", "BINARY"),), ("k",), ""))
