"""Answering a query from views that contain it (SyncSQL 5.2), in whole or in part.

A query is matched in its skinned form: its data part against those of the views (`algebra.matching`), its points
against theirs (`algebra.synchronization`). Of the views that contain it, that with the least work is read, if that is
worth it; where the whole has none, its subqueries are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace.algebra.determinism import nondeterministic
from headrace.algebra.matching.blocks import Block, block_of
from headrace.algebra.matching.compensation import Asked, compensated
from headrace.algebra.matching.parts import operators, with_parts
from headrace.algebra.matching.predicates import Kind, Kinds
from headrace.algebra.synchronization.moments import EVERY_SECOND, Moments, Seconds, Times, both, contains, moments_of
from headrace.algebra.synchronization.skinned import AT_ONCE, Clocked, Skinned, skinned
from headrace.language import Query
from headrace.language.synchronized import joint_name
from headrace.maintenance.logs import relation_fields
from headrace.maintenance.user_aggregates.evaluating import calls_aggregates
from headrace.planner.sharing import Work, is_worth
from headrace.runtime.home import Home, renames_columns, written_query
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object
from headrace.storage.writer import MICROS


@dataclass(frozen=True)
class Reading:
    """A query, or a part of one, over a view that contains it.

    `joint` are the synchronization streams at whose common points it is the same; none: it is at every time.
    """

    view: Object
    part: Query
    query: Query
    joint: tuple[str, ...]
    own: Work
    shared: Work


@dataclass(frozen=True)
class Shared:
    """A query as it is read from views, and which parts of it are."""

    query: Query
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class Reader:
    """Who asks: what it is synchronized by as a whole, and whether it needs the times of changes.

    `sharing` is one of the option's words. `usable` says of a view whether it may be read. `eager`: whoever asks has
    weighed it already.
    """

    by: Clocked = AT_ONCE
    timed: bool = False
    sharing: str = "auto"
    usable: Callable[[Object], bool] = lambda _view: True
    eager: bool = False


def shared_query(home: Home, snapshot: Snapshot, query: Query, reader: Reader) -> Shared | None:
    """The query read from views that contain it or parts of it; None where it is better read as it is."""
    if reader.sharing == "never" or nondeterministic(query) is not None or query.features():
        return None
    if calls_aggregates(snapshot, query):
        return None
    if reader.sharing == "auto" and not reader.eager and not is_worth(work_of(snapshot, query), Work(0, 0)):
        return None
    # What it names it reads already, and what a WITH names would be taken for the view.
    named = {ref.name.lower() for ref in query.relations()} | query.named_in_with
    asked = replace(reader, usable=lambda view: view.name.lower() not in named and reader.usable(view))
    readings: list[Reading] = []

    def read(part: Query) -> Query | None:
        found = best_reading(home, snapshot, part, asked)
        if found is None:
            return None
        readings.append(found)
        return found.query

    made = with_parts(query, read)
    return Shared(made, tuple(readings)) if readings else None


def best_reading(home: Home, snapshot: Snapshot, query: Query, reader: Reader) -> Reading | None:
    """The query over the view that contains it with the least work."""
    found = [
        one
        for one in readings_of(home, snapshot, query, reader)
        if reader.sharing == "always" or (not one.joint and (reader.eager or is_worth(one.own, one.shared)))
    ]
    return min(found, key=lambda one: (one.shared.cost, one.view.id), default=None)


def readings_of(home: Home, snapshot: Snapshot, query: Query, reader: Reader) -> Iterator[Reading]:
    """The ways to read a query from a view that contains it in its data, and is shown at all of its points."""
    form = form_of(snapshot, query, reader.by)
    for view, told in containing(home, snapshot, form):
        if not reader.usable(view) or not _can_be_read(view, reader, form):
            continue
        made = _synchronized(snapshot, form, view, told)
        if made is not None:
            read, joint = made
            own = work_of(snapshot, query)
            yield Reading(view, query, read, joint, own, Work(rows_of(snapshot, view), operators(told)))


def containing(home: Home, snapshot: Snapshot, form: Skinned) -> Iterator[tuple[Object, Query]]:
    """The views that have the data of a skinned form, with the query over each that tells it."""
    if any(snapshot.find(ref.name).option("non_retroactive") for ref in form.data.relations()):
        return
    asked = Asked.of(form.data, lambda name: _columns(snapshot, name))
    if asked is None:
        return
    kinds = _kinds(snapshot, form.data)
    for view in snapshot.objects("view"):
        if (view.system and not view.option("common")) or view.part_wise:
            continue
        block = _block(home, snapshot, view)
        if block is None:
            continue
        made = compensated(asked, block, view.name, view.names, kinds)
        if made is not None:
            yield view, made


def _block(home: Home, snapshot: Snapshot, view: Object) -> Block | None:
    """The data part of a view, in the form that is compared; worked out once a session."""
    # A view of the same number is the same, and so is what it reads: what is replaced has another number.
    key = ("data part", view.id)
    if key not in home.plans:
        plain = not calls_aggregates(snapshot, written_query(view))
        home.plans[key] = block_of_form(snapshot, form_of_view(snapshot, view)) if plain else None
    found: Block | None = home.plans[key]
    return found


def block_of_form(snapshot: Snapshot, form: Skinned) -> Block | None:
    """The data part of a skinned form, in the form that is compared."""
    return block_of(form.data.tree, lambda name: _columns(snapshot, name))


def form_of_view(snapshot: Snapshot, view: Object) -> Skinned:
    """A view's data part over what is no view, and what it is synchronized by."""
    return form_of(snapshot, written_query(view), clocked(view))


def form_of(snapshot: Snapshot, query: Query, by: Clocked) -> Skinned:
    """The skinned form of a query."""
    return skinned(query, by, lambda name: _defined(snapshot, name))


def clocked(view: Object) -> Clocked:
    """What a view changes by as a whole."""
    stream = view.option("sync")
    return Clocked(stream, None if stream is not None else view.option("every"))


def _defined(snapshot: Snapshot, name: str) -> tuple[Query, Clocked] | None:
    item = snapshot.get(name)
    if item is None or not item.maintained or item.part_wise or _is_behind(item) or renames_columns(item):
        return None
    query = written_query(item)
    return None if calls_aggregates(snapshot, query) else (query, clocked(item))


def _is_behind(view: Object) -> bool:
    """Whether a view may show something old at any time."""
    return bool(view.option("after_rows") or view.option("on_demand"))


def _can_be_read(view: Object, reader: Reader, form: Skinned) -> bool:
    """Whether a view tells what its reader needs of it."""
    if _is_behind(view) or view.option("retain") is not None:
        return False
    needs_times = reader.timed or reader.by != AT_ONCE or bool(form.inner)
    return view.log == "signed" or not needs_times


def _synchronized(snapshot: Snapshot, form: Skinned, view: Object, told: Query) -> tuple[Query, tuple[str, ...]] | None:
    """The query over a view, read through the stream that is needed; and the streams that this stands for, if many."""
    theirs = form_of_view(snapshot, view)
    if not is_within(snapshot, form, theirs):
        return None
    if not form.inner:
        return told, ()
    if form.by == AT_ONCE and theirs.by == AT_ONCE and sorted(form.read, key=str) == sorted(theirs.read, key=str):
        return told, ()
    # Where all relations have released what they have, the view shows it as it is.
    own = None if form.by == AT_ONCE else times_of(snapshot, form.by)
    if own is not None and all(contains(times_of(snapshot, clock), own) for clock in form.inner):
        return told, ()
    streams = [clock.stream for clock in form.clocks if clock.stream is not None]
    if len(streams) < len(form.clocks) or any(ref.window is not None for ref in told.relations()):
        return None
    if form.uniform is not None and form.by == AT_ONCE:
        return _through(told, streams[0]), ()
    joint = tuple(sorted(streams))
    return _through(told, joint_name(joint)), joint


def _through(query: Query, stream: str) -> Query:
    """The query with all that it reads synchronized by one stream."""
    for name in {ref.name for ref in query.relations()}:
        query = query.with_sync(name, stream)
    return query


def is_within(snapshot: Snapshot, inner: Skinned, outer: Skinned) -> bool:
    """Whether all points of one form are surely points of another."""
    if not outer.clocks:
        return True
    return bool(inner.clocks) and contains(full_points(snapshot, outer), full_points(snapshot, inner))


def full_points(snapshot: Snapshot, form: Skinned) -> Times:
    """The full points of a skinned form, as far as definitions tell."""
    return both(times_of(snapshot, clock) for clock in form.clocks)


def times_of(snapshot: Snapshot, clock: Clocked) -> Times:
    """The points of one thing that synchronizes."""
    if clock.stream is not None:
        return _moments_of(snapshot, clock.stream)
    every = clock.every or 1
    return Seconds(every // MICROS, frozenset({0})) if every % MICROS == 0 else Moments(f"every {every} us")


def _moments_of(snapshot: Snapshot, name: str) -> Times:
    item = snapshot.get(name)
    if item is None or item.option("clock"):
        return EVERY_SECOND
    if not item.maintained or item.part_wise or clocked(item) != AT_ONCE:
        return Moments(item.name)
    return moments_of(item.name, written_query(item), lambda other: _moments_of(snapshot, other))


def rows_of(snapshot: Snapshot, item: Object) -> int:
    return sum(part.rows for part in snapshot.parts(item))


def work_of(snapshot: Snapshot, query: Query) -> Work:
    """What a query takes that is read as it is written."""
    names = {ref.name.lower() for ref in query.relations()}
    items = [item for name in names if (item := snapshot.get(name)) is not None]
    return Work(sum(rows_of(snapshot, item) for item in items), operators(query))


def _columns(snapshot: Snapshot, name: str) -> list[str] | None:
    item = snapshot.get(name)
    return None if item is None else [field.name for field in relation_fields(item)]


def _kinds(snapshot: Snapshot, query: Query) -> Kinds:
    """How columns of a query are compared, as far as the relations it reads tell."""
    types: dict[str, set[Kind | None]] = {}
    for ref in query.relations():
        for field in relation_fields(snapshot.find(ref.name)):
            types.setdefault(field.name.lower(), set()).add(_kind(field.type))

    def kind(column: str) -> Kind | None:
        found = types.get(column.lower(), set())
        return next(iter(found)) if len(found) == 1 else None

    return kind


def _kind(type_name: str) -> Kind | None:
    name = type_name.upper()
    if name in ("TINYINT", "SMALLINT", "INT", "BIGINT") or name.startswith("DECIMAL"):
        return "number"
    if name in ("FLOAT", "DOUBLE"):
        return "float"
    return "text" if name == "STRING" else None
