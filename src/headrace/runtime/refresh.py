"""Bringing views up to date, all in one transaction.

A view is due when something it reads has changed and its policy says so. Views are refreshed in the order of their
dependencies, each reading what the transaction already holds of those before it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from headrace.errors import EngineError
from headrace.language import Query
from headrace.maintenance.deltas import NoDelta
from headrace.maintenance.kept import Held
from headrace.maintenance.points import grid_of, point_at, reaches, refresh_time
from headrace.maintenance.relations import Relations
from headrace.maintenance.sync_points import last_full_point
from headrace.planner.cost import Costs
from headrace.runtime.books import Book, Way, book_of, note
from headrace.runtime.call_steps import NoStep, Stepping, Steps, steps_of
from headrace.runtime.deltas import Deltas
from headrace.runtime.differential import (
    Built,
    build_states,
    can_stand,
    changed_rows,
    columns_read,
    content_of_states,
    costs,
    gather,
    is_timed,
    refresh_by_changes,
    unique,
)
from headrace.runtime.directing import clock_of
from headrace.runtime.freshness import has_changed
from headrace.runtime.home import Home, own_query, query_of
from headrace.runtime.info import counted
from headrace.runtime.maintainer import refresh_parts
from headrace.runtime.plans import Plan
from headrace.runtime.shared_views import ANEW, SHARED, own_inputs, unshare
from headrace.runtime.starts import BEGINNING, CHANGED_FROM, FULL_POINT, start_of
from headrace.runtime.states import drop, held
from headrace.runtime.strategy import (
    DIFFERENTIAL,
    FEW_ROWS,
    FIRST_TIME,
    RECOMPUTE,
    cannot_follow,
    find_plan,
    mode_of,
    refuse,
    strategy_note,
)
from headrace.runtime.translated_views import choose_anew
from headrace.runtime.whole import correct_log, extend_log, replace_content
from headrace.storage.catalog import Snapshot, now_micros
from headrace.storage.records import Object, RefreshRecord
from headrace.storage.transactions import Transaction


@dataclass
class Refreshed:
    """What a refresh did, view by view."""

    views: list[RefreshRecord] = field(default_factory=list)
    landed: int = 0
    snapshot: int = 0


def in_order(snapshot: Snapshot, wanted: Iterable[Object]) -> list[Object]:
    """Maintained objects among `wanted` and all they read, each after what it reads."""
    ordered: dict[int, Object] = {}

    def visit(item: Object) -> None:
        if item.id in ordered:
            return
        for other in snapshot.needs(item):
            visit(other)
        ordered[item.id] = item

    for item in wanted:
        visit(item)
    return [item for item in ordered.values() if item.maintained]


def refresh_due(
    home: Home,
    transaction: Transaction,
    only: Object | None = None,
    failed: Callable[[Object, EngineError], None] | None = None,
) -> list[RefreshRecord]:
    """Refresh every view that is due; with `only`, that view and all views it reads, due or not.

    With `failed`, a view whose query fails is told there and left as it was, and so is everything that reads it.
    """
    snapshot = transaction.base
    wanted = [only] if only is not None else [item for item in snapshot.objects("view", "stream") if item.maintained]
    done: list[RefreshRecord] = []
    stale: set[int] = set()
    deltas = Deltas(home, transaction)
    _expect_inputs(home, transaction, deltas, in_order(snapshot, wanted), asked=only is not None)
    for view in in_order(snapshot, wanted):
        relations = home.relations(transaction)
        inputs = snapshot.needs(view)
        if stale & {item.id for item in inputs}:
            # A view that only shares what failed goes its own way.
            if not _goes_alone(snapshot, view, stale):
                stale.add(view.id)
                continue
            view = unshare(transaction, view)
            inputs = transaction.needs(view)
            relations = home.relations(transaction)
        changed = view.part_wise or has_changed(relations, view, inputs)
        if not (changed and (only or _due(relations, transaction, view, inputs))):
            continue
        mark = transaction.mark()
        try:
            if view.part_wise:
                if view.option("guessed"):
                    choose_anew(home, transaction, view)
                made = refresh_parts(home, transaction, view)
                done += [] if made is None else [made]
            else:
                done.append(refresh_view(home, transaction, view, query_of(view), inputs, deltas))
        except EngineError as error:
            if failed is None:
                raise _naming(view, error) from error
            transaction.reset(mark)
            deltas.current.reset()
            if error.condition != "ENGINE_GONE":  # that is no fault of the view
                transaction.note_failure(view, error.message)
            failed(view, error)
            stale.add(view.id)
    deltas.current.leave(lambda view: _follows(home, transaction, view))
    return done


def _goes_alone(snapshot: Snapshot, view: Object, stale: set[int]) -> bool:
    """Whether a view is only read from others, and its own query reads nothing that has failed."""
    own = own_query(view)
    there = all(snapshot.get(ref.name) is not None for ref in own.relations())
    return view.option(SHARED) is not None and there and not stale & {item.id for item in own_inputs(snapshot, view)}


def _expect_inputs(
    home: Home, transaction: Transaction, deltas: Deltas, views: Iterable[Object], *, asked: bool
) -> None:
    """Say which keyed objects lie behind all these views: what they have become is worked out once."""
    snapshot = transaction.base
    relations = home.relations(transaction)
    found: dict[int, Object] = {}
    shown: dict[int, set[str]] = defaultdict(set)
    wanted = {view.id for view in views}
    # Views that are not refreshed now will want to know later what has changed.
    for view in [item for item in snapshot.objects("view", "stream") if item.maintained and not item.part_wise]:
        inputs = snapshot.needs(view)
        plan = None if mode_of(view).never else find_plan(home, snapshot, view, query_of(view))
        if not isinstance(plan, Plan):
            continue
        for item, columns in columns_read(plan).items():
            shown[item].update(columns)
        if view.id in wanted and (asked or _due(relations, transaction, view, inputs)):
            found.update({item.id: item for item in inputs if item.log == "upsert"})
    deltas.current.expect(list(found.values()), reaches(relations, found.values()), shown)


def _follows(home: Home, transaction: Transaction, view: Object) -> bool:
    """Whether a view is maintained by its changes, as far as it can be."""
    if view.part_wise or mode_of(view).never:
        return False
    return isinstance(find_plan(home, transaction.base, view, query_of(view)), Plan)


def _naming(view: Object, error: EngineError) -> EngineError:
    return EngineError(
        error.condition,
        f"The view {view.name} could not be refreshed: {error.message}",
        detail="Nothing was changed: every object is as it was before this refresh.",
        hint=f"Mend the rows it fails on, or DROP VIEW {view.name} and create it with a query that bears them.",
    )


def _due(relations: Relations, transaction: Transaction, view: Object, inputs: list[Object]) -> bool:
    """Whether the view's policy lets it be refreshed now."""
    last = transaction.base.last_refresh(view)
    grid, after, demand = grid_of(relations, view), view.option("after_rows"), view.option("on_demand")
    if last is None or not (grid or after or demand):
        return True
    if grid is not None and transaction.clock is not None:
        reached = grid.floor(transaction.clock)
        if last.point is None or (reached is not None and reached > last.point):
            return True
        if view.option("sync") is not None and _came_late(transaction, inputs, last):
            return True
    if after is not None:
        return _rows_since(transaction, inputs, last.read_snapshot) >= after
    return False


def _came_late(transaction: Transaction, inputs: Iterable[Object], last: RefreshRecord) -> bool:
    """Whether something has come for a time that a view has already shown."""
    assert last.point is not None
    for item in inputs:
        if item.maintained:
            made = transaction.refresh_of(item)
            if made is not None and made.reaches.get(CHANGED_FROM, BEGINNING) <= last.point:
                return True
        new = (part for part in transaction.parts(item) if part.arrived_in > last.read_snapshot)
        if any(part.oldest is not None and part.oldest <= last.point for part in new):
            return True
    return False


def _rows_since(transaction: Transaction, inputs: Iterable[Object], snapshot: int) -> int:
    return sum(part.rows for item in inputs for part in transaction.parts(item) if part.arrived_in > snapshot)


def refresh_view(
    home: Home,
    transaction: Transaction,
    view: Object,
    query: Query,
    inputs: list[Object],
    deltas: Deltas | None = None,
) -> RefreshRecord:
    """Bring one view up to date in the transaction, by its changes or as a whole.

    Without `deltas`, this is the only one.
    """
    work = _Refresh(home, transaction, view, query, inputs, deltas or Deltas(home, transaction))
    with home.engine.counting() as count:
        done = work.run()
    if deltas is None:
        work.deltas.current.leave(lambda other: _follows(home, transaction, other))
    full = last_full_point(work.relations, view, work.point)
    record = RefreshRecord(
        object_id=view.id,
        read_snapshot=transaction.version,
        point=work.point,
        reaches={
            **{str(item): time for item, time in work.reached.items()},
            CHANGED_FROM: BEGINNING if work.start is None else work.start,
            **({} if full is None else {FULL_POINT: full}),
        },
        started_at=work.started,
        seconds=time.perf_counter() - work.began,
        rows_in=done.rows_in,
        rows_out=done.rows_out,
        jobs=count.jobs,
        strategy=done.strategy,
        reason=done.reason + strategy_note(work.last, done.strategy),
        snapshot_id=transaction.version,
    )
    transaction.record(record)
    return record


@dataclass(frozen=True)
class _Done:
    strategy: str
    reason: str
    rows_in: int
    rows_out: int


class _Refresh:
    """One refresh of one view."""

    def __init__(
        self,
        home: Home,
        transaction: Transaction,
        view: Object,
        query: Query,
        inputs: list[Object],
        deltas: Deltas,
    ) -> None:
        self.started, self.began = now_micros(), time.perf_counter()
        self.home, self.transaction, self.view, self.query = home, transaction, view, query
        self.inputs, self.deltas = inputs, deltas
        self.relations = home.relations(transaction)
        self.last = self.relations.source.last_refresh(view)
        self.reached = reaches(self.relations, inputs)
        self.point = _point(
            self.relations, view, transaction, refresh_time(self.relations, query, inputs, self.reached)
        )
        self.start = start_of(
            home, transaction, self.relations, view, inputs, self.reached, self.last, deltas.changed_from
        )
        self.mode = mode_of(view)

    def run(self) -> _Done:
        if self.mode.never:
            return self._whole("that was asked for", None)
        steps = steps_of(self.home, self.relations, self.view, self.query)
        if isinstance(steps, Steps):
            return self._stepped(steps)
        plan = steps or find_plan(self.home, self.transaction.base, self.view, self.query)
        if isinstance(plan, str):
            if self.mode.strict:
                raise refuse(self.view, plan)
            return self._whole(plan, None)
        kept = held(self.transaction, self.view, plan.program)
        if self.last is None:
            return self._whole(FIRST_TIME, plan)
        if self.view.option(ANEW):
            now = self.transaction.current(self.view)
            options = {key: value for key, value in now.options.items() if key != ANEW}
            self.transaction.alter(replace(now, options=options))
            return self._whole("it is read from others than before", plan)
        if kept is None or not (self.mode.always or self.deltas.current.keeps(plan.inputs, columns_read(plan))):
            return self._whole("what it keeps to follow changes was not there", plan)
        if self._synchronized_anew():
            return self._whole("points came late at which it is synchronized", plan)
        book = book_of(self.transaction, self.view)
        place = book.place(self.last)
        try:
            way, book, reason = self._way(plan, kept, book, self.last, place)
            if way is Way.STAND:
                return self._beside(book, reason)
            if way is Way.BUILD:
                return self._whole(reason, plan)
            return self._followed(plan, kept, book, place, catching_up=way is Way.CATCH_UP)
        except NoDelta as error:
            if self.mode.strict:
                raise cannot_follow(self.view, str(error)) from error
            return self._whole(str(error), plan)

    def _stepped(self, steps: Steps) -> _Done:
        """Take in the rows that are new, one after another; all of them where that cannot be done."""
        work = Stepping(self.home, self.transaction, self.relations, self.view, steps)
        reached = self.reached.get(steps.item.id)
        reason = FIRST_TIME
        if self.last is not None:
            try:
                done = work.go_on(self.last, self.point, reached)
                told = f"{counted(done.rows_in, 'new row')}, {counted(done.groups, 'group')} of state looked at"
                return _Done(DIFFERENTIAL, told, done.rows_in, done.rows_out)
            except NoStep as error:
                if self.mode.strict:
                    raise cannot_follow(self.view, str(error)) from error
                reason = str(error)
        done = work.begin(self.point, reached)
        return _Done(RECOMPUTE, reason, done.rows_in, done.rows_out)

    def _way(
        self, plan: Plan, kept: dict[tuple[int, str], Held], book: Book, last: RefreshRecord, place: RefreshRecord
    ) -> tuple[Way, Book, str]:
        """What to do, by what it would cost; and that in words, where the view is computed as a whole."""
        if self.mode.always or not can_stand(self.view, plan):
            return (Way.FOLLOW if book.stands is None else Way.CATCH_UP), book, ""
        counts = [changed_rows(self.deltas, plan, since) for since in (last, place)]
        now, all_ = (self._cost(plan, kept, book, rows, place) for rows in counts)
        way, book = book.choose(now.changes, all_.changes, all_.whole)
        if way is Way.CATCH_UP:
            return way, book, ""
        return way, book, self._compared(plan, sum(counts[1].values()), all_)

    def _cost(
        self, plan: Plan, kept: dict[tuple[int, str], Held], book: Book, rows: dict[int, int], place: RefreshRecord
    ) -> Costs:
        clock = clock_of(place, self.point, timed=is_timed(self.view))
        return costs(self.home, plan, kept, clock, rows, self._total(plan), book)

    def _compared(self, plan: Plan, rows: int, cost: Costs) -> str:
        changed, total = counted(rows, "changed row"), counted(self._total(plan), "row")
        took = f"as a whole it takes about {cost.whole:.2g} s, by the changes {cost.changes:.2g} s"
        return f"{changed} of {total}: {took}"

    def _followed(
        self, plan: Plan, kept: dict[tuple[int, str], Held], book: Book, place: RefreshRecord, *, catching_up: bool
    ) -> _Done:
        """Bring the states forward by the changes, and the view with them if it stands where they do."""
        began = time.perf_counter()
        changes = gather(self.deltas, self.relations, self.view, plan, place, self.point)
        rows = {number: delta.rows for number, delta in changes.items()}
        cost = self._cost(plan, kept, book, rows, place)
        if not (self.mode.always or cost.by_changes or catching_up or can_stand(self.view, plan)):
            return self._whole(self._compared(plan, sum(rows.values()), cost), plan)
        clock = clock_of(place, self.point, timed=is_timed(self.view))
        done = refresh_by_changes(
            self.home, self.transaction, self.view, plan, kept, changes, clock, write=not catching_up
        )
        told = f"{counted(done.rows_in, 'changed row')}, {counted(done.looked_at, 'row')} of state looked at"
        if sum(rows.values()):
            book = book.with_followed(time.perf_counter() - began, cost)
        if not catching_up:
            note(self.transaction, self.view, book)
            return _Done(DIFFERENTIAL, told, done.rows_in, done.rows_out)
        note(self.transaction, self.view, replace(book, stands=None, owed=0.0))
        content = content_of_states(self.home, self.transaction, self.view, plan, self.point)
        written = replace_content(
            self.home, self.transaction, self.relations, self.view, self.query, self.point, content
        )
        told = f"what it keeps to follow changes was brought up to date: {told}"
        return _Done(RECOMPUTE, told, done.rows_in, written)

    def _beside(self, book: Book, reason: str) -> _Done:
        """Compute the view as a whole, and leave its states where they are."""
        assert self.last is not None
        began = time.perf_counter()
        rows = replace_content(self.home, self.transaction, self.relations, self.view, self.query, self.point, None)
        book = book.standing(self.last).with_whole(time.perf_counter() - began)
        note(self.transaction, self.view, book)
        return _Done(RECOMPUTE, reason, _rows_since(self.transaction, self.inputs, self.last.read_snapshot), rows)

    def _total(self, plan: Plan) -> int:
        return sum(part.rows for item in unique(plan.inputs) for part in self.relations.source.parts(item))

    def _whole(self, reason: str, plan: Plan | None) -> _Done:
        """Compute the view as a whole, and keep what is needed to follow changes from now on if that is worth it."""
        with self.home.files.stage() as stage:
            return self._filled(reason, plan, stage)

    def _filled(self, reason: str, plan: Plan | None, stage: str) -> _Done:
        book = book_of(self.transaction, self.view)
        began = time.perf_counter()
        built = Built()
        if plan is not None and self._worth_keeping(plan):
            built, failed = self._with_states(plan, stage)
            book = replace(book, built=time.perf_counter() - began, stands=None, owed=0.0)
            reason += "" if failed is None else f"; what it keeps to follow changes could not be made: {failed}"
        else:
            drop(self.transaction, self.view)
        # What is measured is the query alone, as it would be without states.
        began = time.perf_counter()
        if self.view.log == "state":
            rows = replace_content(
                self.home, self.transaction, self.relations, self.view, self.query, self.point, built.content
            )
        else:
            rows = extend_log(
                self.transaction, self.relations, self.view, self.query, self.inputs, self.start, self.point
            )
            if built.content is not None:
                rows += correct_log(self.home, self.transaction, self.view, built.content, self.point)
        if built.spared is not None:
            book = book.with_whole(time.perf_counter() - began + built.spared)
        note(self.transaction, self.view, book)
        since = -1 if self.last is None else self.last.read_snapshot
        return _Done(RECOMPUTE, reason, _rows_since(self.transaction, self.inputs, since), rows)

    def _with_states(self, plan: Plan, stage: str) -> tuple[Built, str | None]:
        """The view's content as its states tell it, or why they could not be made: then the view does without."""
        mark = self.transaction.mark()
        told = (self.home, self.transaction, self.deltas, self.view, plan, self.point, self.reached)
        try:
            return build_states(*told, stage), None
        except EngineError as error:
            if self.mode.strict or error.condition == "ENGINE_GONE":
                raise
            self.transaction.reset(mark)
            drop(self.transaction, self.view)
            return Built(), error.message

    def _synchronized_anew(self) -> bool:
        """Whether what was released before would now be released at other points."""
        if self.view.option("sync") is None or self.view.log == "state" or self.last is None:
            return False
        return self.start is not None and self.last.point is not None and self.start <= self.last.point

    def _worth_keeping(self, plan: Plan) -> bool:
        return self.mode.always or self._total(plan) >= FEW_ROWS[self.home.engine.kind]


def _point(relations: Relations, view: Object, transaction: Transaction, newest: int | None) -> int | None:
    """The time the view will be at: the newest its query can be asked for, on the grid if it has one."""
    if not view.on_grid:
        return newest
    clock = transaction.clock if transaction.clock is not None else newest
    return None if clock is None else point_at(relations, view, clock)
