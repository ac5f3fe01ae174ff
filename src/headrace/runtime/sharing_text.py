"""EXPLAIN SHARING: the skinned form of a view, and the views that contain it: in their data, and at all its points."""

from __future__ import annotations

from headrace.algebra.matching.compensation import compensation
from headrace.algebra.matching.predicates import Kind, Kinds
from headrace.algebra.synchronization.moments import EVERY_SECOND, Moments, Times, both, contains, moments_of, words
from headrace.algebra.synchronization.skinned import Skinned, skinned
from headrace.errors import DefinitionError
from headrace.language import Query
from headrace.maintenance.logs import relation_fields
from headrace.runtime.home import written_query
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object


def explain_sharing(snapshot: Snapshot, view: Object) -> str:
    """The skinned form of a view in words, with the views that it is contained in."""
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
    return "\n".join([*lines, *_readable_from(snapshot, view, found)])


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


def _readable_from(snapshot: Snapshot, view: Object, form: Skinned) -> list[str]:
    """The views that contain this one, and how it would be read from them."""
    lines = []
    for other in snapshot.objects("view"):
        if other.id == view.id or other.system or other.part_wise:
            continue
        theirs = skinned_form(snapshot, other)
        made = compensation(form.data, theirs.data, other.name, other.names, _kinds(snapshot, form.data))
        if made is None:
            continue
        if _within(snapshot, form, theirs):
            lines.append(f"It could be read from {other.name}: {made.sql()}")
        else:
            lines.append(f"{other.name} has the data for it, but not surely at all of its points.")
    return lines


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


def _within(snapshot: Snapshot, inner: Skinned, outer: Skinned) -> bool:
    """Whether all points of one form are surely points of another."""
    if not outer.streams:
        return True
    return bool(inner.streams) and contains(moments(snapshot, outer), moments(snapshot, inner))
