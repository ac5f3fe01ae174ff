"""EXPLAIN SHARING: the skinned form of a view, and which views are synchronized at some or all of its points."""

from __future__ import annotations

from headrace.algebra.synchronization.moments import EVERY_SECOND, Moments, Times, both, contains, moments_of, words
from headrace.algebra.synchronization.skinned import Skinned, skinned
from headrace.errors import DefinitionError
from headrace.language import Query
from headrace.runtime.home import written_query
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object


def explain_sharing(snapshot: Snapshot, view: Object) -> str:
    """The skinned form of a view in words, with those whose skinned form shows the same data."""
    if not view.maintained or view.part_wise:
        raise DefinitionError(
            "NOT_A_VIEW",
            f"{view.name} has no query whose data and synchronization could be told apart.",
            hint="EXPLAIN SHARING is for views over queries.",
        )
    found = skinned_form(snapshot, view)
    lines = [
        f"{view.name} in its skinned form:",
        f"data: {found.data.sql()}",
        f"synchronization: {_when(snapshot, found)}",
    ]
    return "\n".join([*lines, *_same_data(snapshot, view, found)])


def skinned_form(snapshot: Snapshot, view: Object) -> Skinned:
    """A view's data part over what is no view, and the streams it is synchronized by."""
    return skinned(written_query(view), view.option("sync"), lambda name: _defined(snapshot, name))


def _defined(snapshot: Snapshot, name: str) -> tuple[Query, str | None] | None:
    item = snapshot.get(name)
    if item is None or not item.maintained or item.part_wise:
        return None
    return written_query(item), item.option("sync")


def _when(snapshot: Snapshot, form: Skinned) -> str:
    if not form.streams:
        return "whenever something changes"
    named = " and ".join(form.streams)
    return f"the points of {named}: {words(moments(snapshot, form))}"


def moments(snapshot: Snapshot, form: Skinned) -> Times:
    """The full points of a skinned form, as far as definitions tell."""
    return both(_moments_of(snapshot, name) for name in form.streams)


def _moments_of(snapshot: Snapshot, name: str) -> Times:
    item = snapshot.get(name)
    if item is None or item.option("clock"):
        return EVERY_SECOND
    if not item.maintained or item.part_wise:
        return Moments(item.name)
    return moments_of(item.name, written_query(item), lambda other: _moments_of(snapshot, other))


def _same_data(snapshot: Snapshot, view: Object, form: Skinned) -> list[str]:
    lines = []
    for other in snapshot.objects("view"):
        if other.id == view.id or other.system or other.part_wise:
            continue
        theirs = skinned_form(snapshot, other)
        if theirs.data.sql() != form.data.sql():
            continue
        if _within(snapshot, form, theirs) and _within(snapshot, theirs, form):
            lines.append(f"{other.name} shows the same at the same points.")
        elif _within(snapshot, form, theirs):
            lines.append(f"{other.name} shows the same, at all points of {view.name} and more.")
        elif _within(snapshot, theirs, form):
            lines.append(f"{other.name} shows the same, at some of the points of {view.name}.")
        else:
            lines.append(f"{other.name} shows the same data, at other points.")
    return lines


def _within(snapshot: Snapshot, inner: Skinned, outer: Skinned) -> bool:
    """Whether all points of one form are surely points of another."""
    if not outer.streams:
        return True
    return bool(inner.streams) and contains(moments(snapshot, outer), moments(snapshot, inner))
