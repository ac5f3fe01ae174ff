"""Rows that carry their death, through operators and their calendars, against the same rows with their deaths sent."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.algebra.deaths import DEATH, NEVER
from headrace.algebra.nodes import Column, Equal
from headrace.maintenance import kept
from headrace.maintenance.kept import Held, KeptBucket
from headrace.maintenance.operators.base import Clock, Input
from headrace.maintenance.operators.direct_distinct import DirectDistinct
from headrace.maintenance.operators.direct_join import DirectJoin
from headrace.maintenance.operators.expire import Expire
from headrace.storage.arrangements import Run
from headrace.storage.bags import consolidate

#: value, birth, death
Row = tuple[int | None, int, int]
Operator = DirectDistinct | DirectJoin | Expire
END = 30


def column(name: str) -> Column:
    return Column(name, "BIGINT")


@dataclass
class Place:
    """An operator with one bucket of each of its states, through several refreshes."""

    operator: Operator
    root: str
    runs: dict[str, tuple[Run, ...]] = field(default_factory=dict)

    def step(self, changes: Sequence[pa.Table], clock: Clock) -> pa.Table:
        kept = {}
        for number, state in enumerate(self.operator.states):
            held = Held(state, number, f"{id(self)}_{state.name}", {0: self.runs.get(state.name, ())})
            kept[state.name] = KeptBucket(self.root, 1, held, 0)
        found = replace(self.operator, clock=clock).delta(changes, kept)
        for name, bucket in kept.items():
            note = json.loads(bucket.note() or '{"new": [], "gone": []}')
            stay = [run for run in self.runs.get(name, ()) if run.path not in note["gone"]]
            runs = [*stay, *(Run(**run) for run in note["new"])]
            self.runs[name] = tuple(run for run in runs if run.newest is None or run.newest > clock.now)
        return found

    def rows(self, name: str) -> int:
        return sum(run.rows for run in self.runs.get(name, ()))


def births(rows: Iterable[Row], name: str = "k") -> pa.Table:
    """Rows as a window gives them."""
    values, times, deaths = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    columns = {name: values, DEATH.name: deaths, "__t": times, "__w": [1] * len(rows)}
    return hashed(pa.table({key: pa.array(value, pa.int64()) for key, value in columns.items()}), name)


def hashed(table: pa.Table, name: str) -> pa.Table:
    hashes = [0 if value is None else value % 2 for value in table.column(name).to_pylist()]  # they collide
    return table.append_column("__h", pa.array(hashes, pa.int64()))


def signed(table: pa.Table, names: Sequence[str]) -> Counter[tuple[int | None, ...]]:
    table = consolidate(table.select([*names, "__t", "__w"]).combine_chunks())
    columns = [table.column(name).to_pylist() for name in [*names, "__t"]]
    return Counter(dict(zip(zip(*columns, strict=True), table.column("__w").to_pylist(), strict=True)))


def present(rows: Iterable[Row], time: int) -> Counter[int | None]:
    return Counter(value for value, birth, death in rows if birth <= time < death)


def changes(contents: Sequence[Counter[tuple[int | None, ...]]]) -> Counter[tuple[int | None, ...]]:
    """What leads from each moment's content to the next one's; before time 0 there is nothing."""
    found: Counter[tuple[int | None, ...]] = Counter()
    before: Counter[tuple[int | None, ...]] = Counter()
    for time, content in enumerate(contents):
        for value in content.keys() | before.keys():
            if content[value] != before[value]:
                found[*value, time] = content[value] - before[value]
        before = content
    return found


@st.composite
def windows(draw: st.DrawFn, length: int) -> list[Row]:
    rows = draw(st.lists(st.tuples(st.sampled_from([1, 2, 3, None]), st.integers(1, END)), max_size=12))
    return [(value, time, time + length) for value, time in sorted(rows, key=lambda row: row[1])]


cuts = st.lists(st.integers(1, END), max_size=6).map(lambda times: sorted({0, *times, END}))
patient = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def folder() -> str:
    return tempfile.mkdtemp(prefix="headrace-direct-")


@pytest.fixture(autouse=True, params=[1, 8], ids=["small pages", "few pages"])
def rows_a_page(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(kept, "ROWS_A_PAGE", request.param)
    return int(request.param)


def test_a_page_is_dropped_as_a_whole_and_only_what_is_due_is_read(tmp_path: object) -> None:
    place = Place(Expire(Input((column("k"), DEATH), ()), 10), str(tmp_path))
    rows = [(value, 0, value) for value in range(1, 100)]
    place.step([births(rows)], Clock(-NEVER, 0, True))
    assert [(run.oldest, run.newest) for run in place.runs["alive"]][:3] == [(1, 9), (10, 19), (20, 29)]
    before = place.runs["alive"]
    found = place.step([births([])], Clock(0, 25, True))
    assert signed(found, ["k"]) == Counter({(value, value): -1 for value in range(1, 26)})
    assert place.runs["alive"] == before[2:], "nothing was rewritten"


@pytest.mark.parametrize("width", [0, 1, 4])
@pytest.mark.parametrize("timed", [True, False])
@patient
@given(rows=windows(7), times=cuts)
def test_expire(width: int, timed: bool, rows: list[Row], times: list[int]) -> None:
    root = folder()
    place = Place(Expire(Input((column("k"), DEATH), ("k",)), width), root)
    total: Counter[tuple[int | None, ...]] = Counter()
    for before, now in zip([-NEVER, *times], times, strict=False):
        found = signed(place.step([births(r for r in rows if before < r[1] <= now)], Clock(before, now, timed)), ["k"])
        total.update(found)
        content: Counter[int | None] = Counter()
        for (value, _time), weight in total.items():
            content[value] += weight
        assert +content == present(rows, now)
    if timed:
        wanted = changes([Counter({(v,): n for v, n in present(rows, time).items()}) for time in range(END + 1)])
        assert {key: n for key, n in total.items() if n} == wanted
    shutil.rmtree(root)


@pytest.mark.parametrize("timed", [True, False])
@patient
@given(rows=windows(5), times=cuts)
def test_distinct(timed: bool, rows: list[Row], times: list[int]) -> None:
    root = folder()
    distinct = Place(DirectDistinct(Input((column("k"), DEATH), ("k",)), ("k",), 2), root)
    expire = Place(Expire(Input((column("k"), DEATH), ("k",)), 2), root)
    told = Place(DirectDistinct(Input((column("k"), DEATH), ("k",)), ("k",), 2, signed=True), root)
    total: Counter[tuple[int | None, ...]] = Counter()
    alone: Counter[tuple[int | None, ...]] = Counter()
    for before, now in zip([-NEVER, *times], times, strict=False):
        clock = Clock(before, now, timed)
        given_out = distinct.step([births(r for r in rows if before < r[1] <= now)], clock)
        assert min(given_out.column("__w").to_pylist(), default=1) == 1, "nothing is taken back"
        total.update(signed(expire.step([hashed(given_out, "k")], clock), ["k"]))
        content: Counter[int | None] = Counter()
        for (value, _time), weight in total.items():
            content[value] += weight
        assert +content == Counter(set(present(rows, now)))
        # The signed form, by itself, says the same.
        alone.update(signed(told.step([births(r for r in rows if before < r[1] <= now)], clock), ["k"]))
        assert {key: n for key, n in alone.items() if n} == {key: n for key, n in total.items() if n}
    if timed:
        moments: list[Counter[tuple[int | None, ...]]]
        moments = [Counter({(value,): 1 for value in set(present(rows, time))}) for time in range(END + 1)]
        assert {key: n for key, n in total.items() if n} == changes(moments)
    shutil.rmtree(root)


@pytest.mark.parametrize("scanned", [True, False])
@pytest.mark.parametrize("timed", [True, False])
@patient
@given(left=windows(8), right=windows(3), times=cuts)
def test_join(scanned: bool, timed: bool, left: list[Row], right: list[Row], times: list[int]) -> None:
    root = folder()
    inputs = Input((column("k"), DEATH), ("k",)), Input((column("j"), DEATH), ("j",))
    join = Place(DirectJoin(*inputs, (Equal("k", "j"),), (2, 1), scanned), root)
    expire = Place(Expire(Input((column("k"), column("j"), DEATH), ("k",)), 0 if scanned else 3), root)

    def pairs(time: int) -> Counter[tuple[int | None, ...]]:
        lefts, rights = present(left, time), present(right, time)
        return Counter({(v, v): lefts[v] * rights[v] for v in lefts if v is not None and rights[v]})

    total: Counter[tuple[int | None, ...]] = Counter()
    for before, now in zip([-NEVER, *times], times, strict=False):
        clock = Clock(before, now, timed)
        came = [births((r for r in side if before < r[1] <= now), n) for side, n in ((left, "k"), (right, "j"))]
        found = join.step(came, clock)
        assert min(found.column("__w").to_pylist(), default=1) >= 1
        total.update(signed(expire.step([hashed(found, "k")], clock), ["k", "j"]))
        content: Counter[tuple[int | None, ...]] = Counter()
        for (*values, _time), weight in total.items():
            content[tuple(values)] += weight
        assert +content == pairs(now)
    if timed:
        assert {key: n for key, n in total.items() if n} == changes([pairs(time) for time in range(END + 1)])
    shutil.rmtree(root)


def test_a_side_that_dies_in_order_is_a_queue(tmp_path: object) -> None:
    """Only the last page is written, so no other run is replaced, and old ones go by themselves."""
    inputs = Input((column("k"), DEATH), ("k",)), Input((column("j"), DEATH), ("j",))
    join = Place(DirectJoin(*inputs, (Equal("k", "j"),), (10, 10)), str(tmp_path))
    for now in range(0, 200, 5):
        before = {run for run in join.runs.get("left", ()) if (run.oldest or 0) // 10 < (now + 100) // 10}
        rows = [(value, now, now + 100) for value in range(5)]
        join.step([births(rows), births([], "j")], Clock(now - 5, now, True))
        still = {run for run in before if (run.newest or 0) > now}
        assert still <= set(join.runs["left"])
    assert join.rows("left") <= 5 * (100 // 5 + 3)
    assert np.mean([run.rows for run in join.runs["left"]]) >= 5
