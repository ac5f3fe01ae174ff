"""A real SIGKILL at every kind of step, on both catalogs; afterwards nothing is lost, doubled or half done.

One child runs the whole story and tells all points it passes. Others run it again, each on its own copy of the home,
and are killed at one of them. The test process then opens what is left.
"""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.home import query_of
from headrace.session import Session
from headrace.storage.records import Object, Part, RefreshRecord
from tests.conftest import rows
from tests.crash import story
from tests.crash.conftest import Place, Stage
from tests.storage import postgres

pytestmark = pytest.mark.slow

ON_SQLITE = 36
#: Killed, and killed again while the leftovers of the first death are cleared away.
TWICE = 3
ON_POSTGRES = 7

#: The heart of the matter: here every refresh of the story is killed, not only some.
INSIDE_REFRESH = "inside commit: refresh"
KINDS = {
    *(
        f"{step} commit: {what}"
        for step in ("before", "inside", "after")
        for what in ("declaration", "change", "refresh", "housekeeping")
    ),
    "before write",
    "after write",
    "landed",
    "states written",
    "before delete",
    "after delete",
    "before lease",
    "after lease",
    "before dropping snapshots",
    "inside dropping snapshots",
    "after dropping snapshots",
}


@dataclass(frozen=True)
class Run:
    """A home whose child was killed at `points`."""

    place: Place
    points: tuple[int, ...]
    children: Future[list[int]]


@dataclass(frozen=True)
class Played:
    """The uninterrupted run: the points it passed, and how it ended."""

    declared: Path
    points: list[tuple[int, str]]
    end: dict[str, Any]


@pytest.fixture(scope="module")
def played(stage: Stage) -> Played:
    declared = stage.declare(None)
    place = stage.copy(declared, "whole")
    log = stage.root / "faults"
    assert stage.child(place, HEADRACE_FAULT_LOG=str(log)) == 0, place.errors
    points = [(int(number), _kind(point)) for number, point in (line.split(" ", 1) for line in log.open())]
    with place.open(stage.engine) as session:
        assert story.position(session, len(story.OPERATIONS)) == len(story.OPERATIONS)
        return Played(declared, points, end(session))


def _kind(point: str) -> str:
    """A point's name without the path or the statement it is about."""
    step, commit, reason = point.strip().partition(" commit: ")
    if not commit:
        return re.sub(r" \S*[/.]\S*", "", step)
    first = reason.split(" ")[0]
    return f"{step} commit: {_REASONS.get(first, 'declaration')}"


_REASONS = {
    "refresh": "refresh",
    "housekeeping": "housekeeping",
    **dict.fromkeys(("feed", "insert", "update", "delete", "merge"), "change"),
}


@pytest.fixture(scope="module")
def on_sqlite(stage: Stage, played: Played) -> list[Run]:
    runs = []
    for point in chosen(played):
        place = stage.copy(played.declared, f"sqlite-{point}")
        runs.append(Run(place, (point,), stage.start(place, point)))
    return runs


@pytest.fixture(scope="module")
def killed_twice(stage: Stage, played: Played) -> list[Run]:
    # What is written and not committed is an orphan. The second child passes the lease (points 1 and 2), then clears.
    runs = []
    for point in spread(played.points, {"before commit: refresh"}, TWICE):
        place = stage.copy(played.declared, f"twice-{point}")
        runs.append(Run(place, (point, 3), stage.start(place, point, 3)))
    return runs


@pytest.fixture(scope="module")
def on_postgres(stage: Stage, played: Played) -> list[Run]:
    template = postgres.new_database()
    declared = stage.declare(template)
    runs = []
    kinds = {INSIDE_REFRESH, "before commit: refresh", "after commit: refresh", "inside commit: change"}
    kinds |= {"inside commit: housekeeping", "inside dropping snapshots", "before delete"}
    for point in spread(played.points, kinds, ON_POSTGRES):
        place = stage.copy(declared, f"postgres-{point}", postgres.new_database(template.rsplit("/", 1)[1]))
        runs.append(Run(place, (point,), stage.start(place, point)))
    return runs


def chosen(played: Played) -> list[int]:
    """Where children are killed: inside every refresh's commit, and spread over all other kinds of step."""
    inside = [number for number, kind in played.points if kind == INSIDE_REFRESH]
    return inside + spread(played.points, KINDS - {INSIDE_REFRESH}, ON_SQLITE - len(inside))


def spread(points: Sequence[tuple[int, str]], kinds: set[str], count: int) -> list[int]:
    """`count` points of the given kinds: as many of each as there are, and those evenly spread over the run."""
    by_kind: dict[str, list[int]] = defaultdict(list)
    for number, kind in points:
        if kind in kinds:
            by_kind[kind].append(number)
    shares = dict.fromkeys(by_kind, 0)
    while sum(shares.values()) < count:
        open_kinds = [kind for kind in shares if shares[kind] < len(by_kind[kind])]
        shares[min(open_kinds, key=lambda kind: shares[kind])] += 1
    found = []
    for kind, share in shares.items():
        numbers = by_kind[kind]
        found += [numbers[(2 * index + 1) * len(numbers) // (2 * share)] for index in range(share)]
    return sorted(found)


def test_every_kind_of_step_can_be_killed(played: Played) -> None:
    assert {kind for _number, kind in played.points} == KINDS
    points = chosen(played)
    assert len(set(points)) == ON_SQLITE >= 25
    assert {kind for number, kind in played.points if number in points} == KINDS


@pytest.mark.parametrize("number", range(ON_SQLITE))
def test_killed_once(on_sqlite: list[Run], stage: Stage, played: Played, number: int) -> None:
    check(on_sqlite[number], stage, played)


@pytest.mark.parametrize("number", range(TWICE))
def test_killed_again_while_clearing_up(killed_twice: list[Run], stage: Stage, played: Played, number: int) -> None:
    check(killed_twice[number], stage, played)


@pytest.mark.parametrize("number", range(ON_POSTGRES))
def test_killed_once_on_postgres(on_postgres: list[Run], stage: Stage, played: Played, number: int) -> None:
    check(on_postgres[number], stage, played)


def check(run: Run, stage: Stage, played: Played) -> None:
    assert set(run.children.result()) == {-signal.SIGKILL}, run.place.errors
    with run.place.open(stage.engine) as session:
        # No accepted row is lost or doubled, and what was in flight is there as a whole or not at all.
        done = story.position(session, story.accepted(run.place.folder / "journal"))
        named = session._home.catalog.named_files()
        assert named <= set(session._home.files.all())
        for view in views(session):
            assert rows(session.table(view.name)) == as_last_refreshed(session, view), view.name
        session.refresh()
        assert set(session._home.files.all()) == session._home.catalog.named_files()
        for view in views(session):
            assert rows(session.table(view.name)) == recomputed(session, view), view.name
        state = story.states()[done]
        state.land()
        assert story.observed(session) == state.relations()
        story.go_on(session, run.place.incoming, None, done)
        assert end(session) == played.end
        assert set(session._home.files.all()) == session._home.catalog.named_files()


def views(session: Session) -> list[Object]:
    return session._home.snapshot().objects("view")


def recomputed(session: Session, view: Object) -> list[tuple[Any, ...]]:
    """The view's query in batch over the relations as they are."""
    return rows(session._home.relations().evaluate(query_of(view)))


def as_last_refreshed(session: Session, view: Object) -> list[tuple[Any, ...]]:
    """The view's query in batch over what had arrived when the view was last refreshed."""
    relations = session._home.relations()
    last = relations.source.last_refresh(view)
    assert last is not None
    return rows(replace(relations, source=_Arrived(relations.source, last.read_snapshot)).evaluate(query_of(view)))


class _Arrived:
    """Objects as they are, with only the rows that had arrived in a snapshot."""

    def __init__(self, source: Any, number: int) -> None:
        self._source = source
        self._number = number

    def find(self, name: str, *kinds: str) -> Object:
        found: Object = self._source.find(name, *kinds)
        return found

    def parts(self, item: Object) -> Sequence[Part]:
        return [part for part in self._source.parts(item) if part.arrived_in <= self._number]

    def needs(self, item: Object) -> list[Object]:
        found: list[Object] = self._source.needs(item)
        return found

    def objects(self, *kinds: str) -> list[Object]:
        found: list[Object] = self._source.objects(*kinds)
        return found

    def last_refresh(self, item: Object) -> RefreshRecord | None:
        found: RefreshRecord | None = self._source.last_refresh(item)
        return found


def end(session: Session) -> dict[str, Any]:
    """All there is to see in a home: relations, views, their change streams, how far streams have come, the clock."""
    found: dict[str, Any] = dict(story.observed(session))
    for view in views(session):
        found[view.name] = rows(session.table(view.name))
        if view.log == "signed":
            found[f"changes of {view.name}"] = rows(session.changes(view.name))
    snapshot = session._home.snapshot()
    for item in snapshot.objects("source", "stream", "table"):
        landed = sorted(path.rsplit("/", 1)[1] for path in snapshot.landed_files(item))
        found[f"progress of {item.name}"] = (snapshot.progress(item), landed)
    found["clock"] = snapshot.clock
    return found
