"""Arrangements: any sequence of appends, read back, is the sum of what was appended; files never change."""

from __future__ import annotations

import os
import shutil
from collections import Counter, OrderedDict
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs

from headrace.storage import arrangements, runs
from headrace.storage.arrangements import ALIKE, Appended, Bucket, Run
from tests.kernels import tools

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("__h", pa.int64()), ("__w", pa.int64())])
NAMES = ["k", "s", "__h"]


class Kept:
    """A bucket that lives through many appends, and what its folder held."""

    def __init__(
        self, root: Path | str, schema: pa.Schema = SCHEMA, measures: tuple[str, ...] = ("__w",), **options: Any
    ) -> None:
        self.root, self.schema, self.measures, self.options = str(root), schema, measures, options
        self.runs: tuple[Run, ...] = ()
        self.names = count()
        self.written = 0

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.root, self.runs, self.schema, self.measures, **self.options)

    def append(self, table: pa.Table) -> Appended:
        done = self.bucket.append(table, lambda: f"state/b0/{next(self.names)}.arrow")
        self.runs = done.runs(self.runs)
        self.written += done.new.rows if done.new else 0
        return done


def batch(lines: list[tuple[int | None, str | None, int, int]]) -> pa.Table:
    columns = list(zip(*lines, strict=True)) if lines else [()] * 4
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


LINES = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)),
        st.sampled_from([None, "", "a"]),
        st.sampled_from([-(2**63), -1, 0, 0, 2, 2**63 - 1]),
        st.sampled_from([1, 1, 2, -1]),
    ),
    max_size=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(LINES, max_size=8), asked=st.lists(st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63 - 1]), max_size=8)
)
def test_appends_add_up(tmp_path_factory: pytest.TempPathFactory, steps: list[Any], asked: list[int]) -> None:
    kept = Kept(tmp_path_factory.mktemp("runs"))
    expected: Counter[tuple[Any, ...]] = Counter()
    contents: dict[str, bytes] = {}
    for lines in steps:
        table = batch(lines)
        before = kept.runs
        done = kept.append(table)
        assert set(done.replaced) <= set(before)
        for run in kept.runs:
            data = Path(kept.root, run.path).read_bytes()
            assert contents.setdefault(run.path, data) == data
            assert run.bytes == len(data)
        expected.update(tools.counted(table, NAMES))
        everything = kept.bucket.scan()
        assert everything.schema == SCHEMA
        assert tools.counted(everything, NAMES) == tools.nonzero(expected)
        found = kept.bucket.lookup(np.array(asked, dtype=np.int64))
        assert found.schema == SCHEMA
        some = Counter({row: weight for row, weight in expected.items() if row[2] in asked})
        assert tools.counted(found, NAMES) == tools.nonzero(some)
        if not all(run.inserts_only for run in kept.runs):
            assert everything.num_rows == len(tools.nonzero(expected))
    for run in kept.runs:
        hashes = pa.ipc.open_file(pa.memory_map(f"{kept.root}/{run.path}")).read_all().column("__h").to_pylist()
        assert hashes == sorted(hashes)
        assert len(hashes) == run.rows > 0
    assert not [name for name in os.listdir(kept.root) if "unfinished" in name]


def test_several_batches_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrangements, "ROWS_A_BATCH", 7)
    random = np.random.default_rng(3)
    kept = Kept(tmp_path)
    hashes = np.repeat(random.integers(-50, 50, 60), 5)
    table = pa.table(
        {"k": np.arange(300), "s": pa.array([str(n) for n in range(300)]), "__h": hashes, "__w": np.ones(300, np.int64)}
    )
    kept.append(table)
    (run,) = kept.runs
    assert pa.ipc.open_file(f"{tmp_path}/{run.path}").num_record_batches == 43
    for wanted in (np.arange(-60, 60), np.array([3, 3, 999]), np.arange(-10, 10), np.repeat(np.arange(5), 100)):
        found = kept.bucket.lookup(wanted)
        expected = [(k, str(k), h) for k, h in enumerate(hashes.tolist()) if h in set(wanted.tolist())]
        assert sorted(tools.rows(found, NAMES)) == expected


def numbered(keys: np.ndarray, hashes: np.ndarray) -> pa.Table:
    """Inserts of rows that differ by their keys alone."""
    text = pa.array(keys).cast(pa.string())
    return pa.table({"k": keys, "s": text, "__h": hashes, "__w": np.ones(len(keys), np.int64)})


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("most_text", [0, 1 << 30])
def test_many_inserts_are_put_together_where_many_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copies: int, most_text: int
) -> None:
    monkeypatch.setattr(arrangements, "_SAMPLE", 16)
    monkeypatch.setattr(arrangements, "_MOST_TEXT", most_text)
    kept = Kept(tmp_path)
    keys = np.tile(np.arange(50), copies)
    for _step in range(2):
        kept.append(numbered(keys, keys * 7919 % 101))
        keys = keys + 50
    (run,) = kept.runs
    assert run.rows == 100
    assert run.inserts_only
    assert kept.bucket.scan().schema == SCHEMA
    assert tools.counted(kept.bucket.scan(), ["k"]) == {(key,): copies for key in range(100)}


def test_few_runs_and_little_rewriting(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    kept = Kept(tmp_path)
    total, most = 0, 0
    for _step in range(400):
        size = int(random.integers(1, 40))
        keys = np.arange(total, total + size)
        kept.append(
            pa.table(
                {
                    "k": keys,
                    "s": pa.nulls(size, pa.string()),
                    "__h": random.permutation(keys),
                    "__w": np.ones(size, np.int64),
                }
            )
        )
        total += size
        most = max(most, len(kept.runs))
        rows = [run.rows for run in kept.runs]
        assert sum(rows) == total
        assert sum(rows[1:]) < rows[0]
    orders = np.log(total) / np.log(ALIKE)
    assert most <= (ALIKE - 1) * orders + 1
    assert kept.written <= total * (orders + 1)


def test_a_small_change_leaves_a_large_run_alone(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.append(batch([(n, "a", n, 1) for n in range(1000)]))
    (large,) = kept.runs
    for n in range(100):
        done = kept.append(batch([(n, "a", n, -1), (n, "b", n, 1)]))
        assert large in kept.runs
        assert done.new is not None
    assert tools.counted(kept.bucket.scan(), ["s"]) == {("a",): 900, ("b",): 100}


def test_nothing_is_written_for_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    assert kept.append(batch([])) == Appended(None, ())
    assert kept.append(batch([(1, "a", 1, 1), (1, "a", 1, -1)])) == Appended(None, ())
    assert list(tmp_path.iterdir()) == []
    assert kept.bucket.scan().schema == kept.bucket.lookup(np.array([1])).schema == SCHEMA


def test_a_merge_may_leave_nothing(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    first = kept.append(batch([(1, "a", 1, 1)])).new
    assert first is not None
    assert first.inserts_only
    assert kept.append(batch([(1, "a", 1, -1)])) == Appended(None, (first,))
    assert kept.runs == ()


def test_measures_of_aggregates_add_up(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("__h", pa.int64()), ("__n", pa.int64()), ("__s", pa.decimal128(38, 2))])
    kept = Kept(tmp_path, schema, ("__n", "__s"))
    for step in range(5):
        table = pa.table({"k": [1, 2], "__h": [7, 7], "__n": [1, 1], "__s": [1, step]})
        kept.append(table.cast(pa.schema([*list(schema)[:3], ("__s", pa.decimal128(38, 2))])))
    assert not any(run.inserts_only for run in kept.runs)
    found = {line["k"]: (line["__n"], int(line["__s"])) for line in kept.bucket.lookup(np.array([7])).to_pylist()}
    assert found == {1: (5, 5), 2: (5, 10)}


def test_extra_columns_and_near_types_are_fitted(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    near = pa.table(
        {"__t": [5], "__w": [1], "__h": [3], "s": pa.array(["a"], pa.large_string()), "k": pa.array([1], pa.int32())}
    )
    kept.append(near)
    assert kept.bucket.scan().to_pylist() == [{"k": 1, "s": "a", "__h": 3, "__w": 1}]


def test_runs_elsewhere_are_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that is not this machine's: one in memory would do, a sub-folder of it does as well."""
    (tmp_path / "far").mkdir()
    far = fs.SubTreeFileSystem(str(tmp_path / "far"), fs.LocalFileSystem())
    monkeypatch.setattr(runs, "_file_system", lambda root: (far, root.removeprefix("far://")))
    kept = Kept("far://home", cache=str(tmp_path / "near"))
    kept.append(batch([(n, "a", n, 1) for n in range(100)]))
    assert kept.bucket.lookup(np.array([5, 200])).num_rows == 1
    (copy,) = (tmp_path / "near").rglob("*.arrow")
    before = copy.stat()
    for name in (tmp_path / "far").rglob("*.arrow"):
        name.unlink()
    assert kept.bucket.scan().num_rows == 100
    assert copy.stat() == before


def test_copies_that_killed_processes_left_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = fs.SubTreeFileSystem(str(tmp_path / "far"), fs.LocalFileSystem())
    monkeypatch.setattr(runs, "_file_system", lambda root: (far, root.removeprefix("far://")))
    left, growing = (tmp_path / "near" / "0f" / f"0f.arrow.{name}.unfinished" for name in ("left", "growing"))
    left.parent.mkdir(parents=True)
    for path in (left, growing):
        path.write_bytes(b"half")
    os.utime(left, (0, 0))
    kept = Kept("far://home", cache=str(tmp_path / "near"))
    kept.append(batch([(1, "a", 1, 1)]))
    assert kept.bucket.scan().num_rows == 1
    assert growing.exists()
    assert not left.exists()


def test_a_run_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path)
    kept.append(batch([(1, "a", 1, 1)]))
    assert kept.bucket.scan().num_rows == 1
    opened: list[str] = []
    monkeypatch.setattr(runs, "OpenRun", opened.append)
    assert kept.bucket.lookup(np.array([1])).num_rows == 1
    assert opened == []


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_sync", lambda path: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        Kept(tmp_path).append(batch([(1, "a", 1, 1)]))
    assert list(tmp_path.rglob("*.arrow*")) == []


def test_only_so_many_runs_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_MOST_OPEN", 2)
    kept = Kept(tmp_path)
    for size in (1000, 100, 10, 1):
        kept.append(numbered(np.arange(size), np.arange(size)))
    assert len(kept.runs) == 4
    for _again in range(2):
        assert tools.counted(kept.bucket.lookup(np.array([0, 500])), ["k"]) == {(0,): 4, (500,): 1}
        assert len(runs._open) <= 2


def test_open_runs_take_no_handles_and_deleted_ones_are_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_open", OrderedDict())
    monkeypatch.setattr(runs, "_SWEPT_EVERY", 1)
    before = len(os.listdir("/proc/self/fd"))
    for key in range(3):
        kept = Kept(tmp_path / str(key))
        kept.append(batch([(key, "a", 1, 1)]))
        assert kept.bucket.scan().column("k").to_pylist() == [key]
    assert len(runs._open) == 3
    assert len(os.listdir("/proc/self/fd")) == before
    shutil.rmtree(tmp_path / "0")
    assert kept.bucket.scan().num_rows == 1
    assert len(runs._open) == 3  # nothing was opened
    kept.append(batch([(9, "a", 1, 1)]))
    assert kept.bucket.scan().num_rows == 2
    assert not [path for path, _inode, _time in runs._open if not Path(path).exists()]


def test_a_name_that_is_used_again(tmp_path: Path) -> None:
    """A task that runs twice writes the same name: the file that was written last counts."""
    for key in (1, 2):
        done = Bucket(str(tmp_path), (), SCHEMA).append(batch([(key, "a", 1, 1)]), lambda: "same.arrow")
        assert done.new is not None
        assert Bucket(str(tmp_path), [done.new], SCHEMA).scan().column("k").to_pylist() == [key]


# One row a key: the newest run decides


UPSERTS = st.lists(
    st.dictionaries(st.one_of(st.none(), st.integers(0, 6)), st.tuples(st.text("ab", max_size=2), st.integers(0, 3))),
    max_size=8,
)


@pytest.mark.parametrize("hashed", [lambda _key: 5, lambda key: -1 if key is None else key % 2, lambda key: key or 99])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=UPSERTS, asked=st.lists(st.one_of(st.none(), st.integers(0, 8)), max_size=4))
def test_of_a_unique_bucket_the_newest_row_of_a_key_is_there(
    tmp_path_factory: pytest.TempPathFactory, hashed: Any, steps: list[dict[Any, Any]], asked: list[Any]
) -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("n", pa.int64()), ("__h", pa.int64())])
    kept = Kept(tmp_path_factory.mktemp("runs"), schema, (), unique=("k",))
    expected: dict[Any, Any] = {}
    for step in steps:
        lines = [(key, text, number, hashed(key)) for key, (text, number) in step.items()]
        columns = list(zip(*lines, strict=True)) if lines else [()] * 4
        kept.append(pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema))
        expected |= step
        found = kept.bucket.scan()
        assert {row["k"]: (row["s"], row["n"]) for row in found.to_pylist()} == expected
        assert found.num_rows == len(expected)
        hashes = np.array([hashed(key) for key in asked], dtype=np.int64)
        wanted = {key: row for key, row in expected.items() if hashed(key) in hashes}
        some = kept.bucket.lookup(hashes, ["k", "n", "__h"])
        assert some.column_names == ["k", "n", "__h"]
        assert sorted(map(str, some.column("k").to_pylist())) == sorted(map(str, wanted))
        assert {row["k"]: row["n"] for row in some.to_pylist()} == {key: number for key, (_s, number) in wanted.items()}
