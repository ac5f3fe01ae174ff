"""Who is read from other views: a view that is declared, and a query that is asked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.algebra.synchronization.skinned import Clocked
from headrace.language import CreateStream, CreateView, Options, Query, parse_one, quote_name
from headrace.maintenance.relations import Relations
from headrace.runtime.freshness import is_fresh
from headrace.runtime.home import Home
from headrace.runtime.options import checked
from headrace.runtime.regulators import drop_unread_regulators, ensure_joint_stream, ensure_regulators
from headrace.runtime.shared_views import SHARED, dependents, share, unshare
from headrace.runtime.sharing import Reader, Shared, shared_query
from headrace.runtime.views import as_typed, inputs_of
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object


def shared_view(
    home: Home,
    statement: CreateView | CreateStream,
    *,
    make: bool = True,
    eager: bool = False,
    usable: Callable[[Object], bool] = lambda _view: True,
) -> Shared | None:
    """How a view that is declared is read from others; None where it is read as it is written.

    With `make`, streams that its synchronization needs are made. `eager`: it is known to be worth it. `usable` says of
    a view whether it may be read.
    """
    reader = reader_of(home, statement)
    if reader is None or statement.query is None:
        return None
    asked = replace(reader, eager=eager, usable=lambda view: reader.usable(view) and usable(view))
    found = shared_query(home, home.snapshot(), statement.query, asked)
    for one in found.readings if make and found is not None else ():
        if one.joint:
            ensure_joint_stream(home, one.joint)
    return found


def settle_sharing(home: Home, name: str) -> None:
    """Let a view be read as its option says now: from others, or by its own query."""
    view = home.snapshot().find(name, "view")
    statement = parse_one(view.definition)
    if not isinstance(statement, CreateView) or view.part_wise:
        return
    options = Options({**statement.options, "sharing": view.option("sharing")})
    # Nor from what itself reads this view, by whatever way.
    readers = {other.id for other in _all_readers(home.snapshot(), view)}
    shared = shared_view(home, replace(statement, options=options), usable=lambda other: other.id not in readers)
    ensure_regulators(home, statement.query if shared is None else shared.query)
    with home.transaction(f"sharing of {view.name}") as transaction:
        snapshot = transaction.base
        if shared is None and view.option(SHARED):
            unshare(transaction, view)
        elif shared is not None and shared.query.sql() != view.option(SHARED):
            typed = as_typed(home, snapshot, home.relations(transaction), shared.query, view.columns)
            read = inputs_of(snapshot, typed.through_regulators())
            stream = view.option("sync")
            share(transaction, view, typed.sql(), [*read, *([] if stream is None else [snapshot.find(stream)])])
    drop_unread_regulators(home)


def _all_readers(snapshot: Snapshot, view: Object) -> list[Object]:
    """What reads a view, also through others, by its text or not."""
    found = [view]
    for item in found:
        readers = {other.id: other for other in (*snapshot.dependents(item), *dependents(snapshot, item))}
        found += [other for other in readers.values() if other not in found]
    return found


def reader_of(home: Home, statement: CreateView | CreateStream) -> Reader | None:
    """Who asks, where a statement declares a view that may be read from others."""
    if isinstance(statement, CreateStream) or statement.partition_length is not None:
        return None
    options = checked("view", dict(statement.options), statement.name)
    triggers = () if statement.refresh is None else statement.refresh.triggers
    # How many rows have come is counted where they come.
    if any(trigger.rows is not None for trigger in triggers):
        return None
    stream = next((one.stream for one in triggers if one.stream is not None), statement.sync_by)
    every = next((one.every for one in triggers if one.every is not None), None)
    # What asks for one way of doing it means its own query.
    plain = all(options.get(name) in (None, "auto") for name in ("strategy", "tuples", "rewriting"))
    sharing = options.get("sharing") or (str(home.option("sharing")) if plain else "never")
    timed = statement.output == "STREAMED" or statement.query.output == "STREAMED"
    known = home.snapshot().get(stream) if stream is not None else None
    by = Clocked(every=every) if stream is None else Clocked(known.name if known else stream)
    return Reader(by, timed, sharing, _not_called(statement.name))


def _not_called(name: str) -> Callable[[Object], bool]:
    return lambda view: view.name.lower() != name.lower()


def shared_answer(home: Home, relations: Relations, query: Query) -> Shared | None:
    """How a query that is asked once is answered from views that show what is there now."""
    if any(ref.sync is not None or ref.as_of is not None for ref in query.relations()):
        return None
    sharing = str(home.option("sharing"))
    usable = Reader(sharing=sharing, usable=lambda view: is_fresh(relations, view))
    return shared_query(home, home.snapshot(), query, usable)


def names_of(shared: Shared) -> str:
    """The views that are read."""
    return " and ".join(dict.fromkeys(quote_name(one.view.name) for one in shared.readings))
