"""EXPLAIN SHARING: the skinned form of a view, and the views that contain it: in their data, and at all its points."""

from __future__ import annotations

from headrace.algebra.synchronization.moments import words
from headrace.algebra.synchronization.skinned import Skinned
from headrace.errors import DefinitionError
from headrace.language import format_duration, quote_name
from headrace.runtime.home import Home, written_query
from headrace.runtime.shared_views import SHARED
from headrace.runtime.sharing import (
    Reader,
    Reading,
    Shared,
    clocked,
    containing,
    form_of_view,
    full_points,
    readings_of,
)
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object


def explain_sharing(home: Home, view: Object) -> str:
    """The skinned form of a view in words, with the views that it is contained in."""
    if not view.maintained or view.part_wise:
        raise DefinitionError(
            "NOT_A_VIEW",
            f"{view.name} has no query whose data and synchronization could be told apart.",
            hint="EXPLAIN SHARING is for views over queries.",
        )
    snapshot = home.snapshot()
    found = form_of_view(snapshot, view)
    lines = [
        f"{view.name} in its skinned form:",
        f"data: {found.data.sql()}",
        f"synchronization: {_when(snapshot, found)}",
    ]
    return "\n".join([*lines, *shared_lines(view), *_readable_from(home, snapshot, view, found)])


def shared_lines(view: Object) -> list[str]:
    """That a view is read from others, if it is."""
    return [f"It is read from views that contain it: {view.option(SHARED)}"] if view.option(SHARED) else []


def readings_in_words(shared: Shared) -> list[str]:
    """What would be read from where, and why."""
    return [f"It would be read from {_counted(one)}: {one.query.sql()}" for one in shared.readings]


def _counted(one: Reading) -> str:
    return f"{quote_name(one.view.name)} ({one.shared.rows:,} rows instead of {one.own.rows:,})"


def _when(snapshot: Snapshot, form: Skinned) -> str:
    if not form.clocks:
        return "whenever something changes"
    streams = [clock.stream for clock in form.clocks if clock.stream is not None]
    named = f"the points of {' and '.join(streams)}: " if streams else ""
    every = [clock.every for clock in form.clocks if clock.every is not None]
    if not streams and len(every) == 1:
        return f"every {format_duration(every[0])}"
    return f"{named}{words(full_points(snapshot, form))}"


def _readable_from(home: Home, snapshot: Snapshot, view: Object, form: Skinned) -> list[str]:
    """The views that contain this one, and how it would be read from them."""
    read = {item.id for item in _all_inputs(snapshot, view)}
    reader = Reader(clocked(view), view.log == "signed", "always")
    readable = {one.view.id: one for one in readings_of(home, snapshot, written_query(view), reader)}
    lines = []
    for other, _told in containing(home, snapshot, form):
        if other.id == view.id or other.id in read or other.system:
            continue
        one = readable.get(other.id)
        if one is None:
            lines.append(f"{other.name} has the data for it, but not surely at all of its points.")
        else:
            lines.append(f"It could be read from {_counted(one)}: {one.query.sql()}")
    return lines


def _all_inputs(snapshot: Snapshot, view: Object) -> list[Object]:
    """What a view reads, also through others."""
    found = list(snapshot.needs(view))
    for item in found:
        found += [other for other in snapshot.needs(item) if other not in found]
    return found
