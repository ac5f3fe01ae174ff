"""A whole refresh: land what has arrived, bring every due view up to date, commit once, tidy up."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import DefinitionError, EngineError
from headrace.language import format_time
from headrace.runtime.books import book_of
from headrace.runtime.current import positions
from headrace.runtime.home import Home
from headrace.runtime.ingest import CONNECTORS, Listeners, poll
from headrace.runtime.landing import streams_over
from headrace.runtime.refresh import Refreshed, in_order, refresh_due
from headrace.runtime.retention import forget, forget_helper_parts, unneeded_parts
from headrace.runtime.streaming import land_available
from headrace.runtime.synchronization import tick
from headrace.storage import housekeeping
from headrace.storage.catalog import Snapshot
from headrace.storage.records import Object

Failed = Callable[[Object, EngineError], None]


def refresh(home: Home, listeners: Listeners, view: str | None = None, failed: Failed | None = None) -> Refreshed:
    """Land and refresh until nothing that was waiting is left.

    With `view`, only that view, what it reads, and the sources behind it. Each batch is a transaction of its own; a
    batch ends at a source's `max_rows_per_batch`. A view whose query fails makes the refresh fail and changes nothing,
    unless `failed` is given to take note of it: then the others go on without it.
    """
    done = Refreshed()
    snapshot = home.snapshot()
    for source in _sources(snapshot, None if view is None else _maintained(snapshot, view)):
        if source.option("connector") == "STREAMING" and streams_over(snapshot, source):
            done.landed += land_available(home, source)
    while True:
        with home.writing:
            full = _batch(home, listeners, view, failed, done)
        if not full:
            break
    done.snapshot = home.snapshot().id
    tidy(home)
    return done


def _batch(home: Home, listeners: Listeners, view: str | None, failed: Failed | None, done: Refreshed) -> bool:
    try:
        with home.transaction("refresh" if view is None else f"refresh {view}") as transaction:
            only = None if view is None else _maintained(transaction.base, view)
            sources = _sources(transaction.base, only)
            landed, more = poll(home, listeners, transaction, sources)
            tick(home, transaction)
            done.views += refresh_due(home, transaction, only, failed)
    except BaseException:
        listeners.settle(landed=False)
        raise
    listeners.settle(landed=True)
    done.landed += landed
    return more


def _maintained(snapshot: Snapshot, name: str) -> Object:
    item = snapshot.find(name, "view", "stream")
    if not item.maintained:
        raise DefinitionError("WRONG_KIND", f"{item.name} is a stream that takes rows in; there is nothing to refresh.")
    return item


def _sources(snapshot: Snapshot, only: Object | None) -> list[Object]:
    polled = [item for item in snapshot.objects("source") if item.option("connector") in CONNECTORS]
    if only is None:
        return polled
    behind: set[int] = set()
    pending = [only]
    for item in pending:
        for other in snapshot.needs(item):
            if other.id not in behind:
                behind.add(other.id)
                pending.append(other)
    return [item for item in polled if item.id in behind]


def advance(home: Home, time: int) -> Refreshed:
    """Move the clock to `time` and refresh what falls due."""
    done = Refreshed()
    with home.transaction(f"advance clock to {format_time(time)}") as transaction:
        now = transaction.advanced_to if home.clock_mode == "manual" else transaction.clock
        if now is not None and time < now:
            raise DefinitionError(
                "CLOCK_BACKWARDS",
                f"The clock stands at {format_time(now)} and cannot go back to {format_time(time)}.",
                hint="Read the past with AS OF.",
            )
        transaction.advanced_to = time
        transaction.clock = time
        tick(home, transaction)
        done.views += refresh_due(home, transaction)
    done.snapshot = home.snapshot().id
    tidy(home)
    return done


def tidy(home: Home) -> None:
    """Roll up small files, drop what RETAIN and the snapshot limits let go of."""
    snapshot = home.snapshot()
    most = int(home.option("rollup_parts"))
    crowded = [item for item in snapshot.objects() if housekeeping.is_crowded(item, snapshot.parts(item), most)]
    forgetful = [item for item in snapshot.objects() if item.option("retain") is not None]
    helpers = [item for item in snapshot.objects("view") if item.option("helper")]
    unneeded = [(item, first) for item in helpers if (first := unneeded_parts(home, snapshot, item)) is not None]
    if crowded or forgetful or unneeded:
        with home.transaction("housekeeping") as transaction:
            for item in forgetful:
                forget(home, transaction, item)
            for item, first in unneeded:
                forget_helper_parts(transaction, item, first)
            for item in crowded:
                housekeeping.roll_up(transaction, item, most, _read_in(transaction.base, item))
    housekeeping.drop_old_snapshots(
        home.catalog, home.files, int(home.option("keep_snapshots")), int(home.option("keep_seconds"))
    )


def _read_in(snapshot: Snapshot, item: Object) -> list[int]:
    """The snapshots in which the views over an object, directly or not, read it last, or what is kept for them did."""
    readers = in_order(snapshot, _readers(snapshot, item))
    found = [(view, last) for view in readers if (last := snapshot.last_refresh(view)) is not None]
    # States may stand still while their view goes on.
    places = [book_of(snapshot, view).place(last) for view, last in found]
    read = [record.read_snapshot for record in (*(last for _view, last in found), *places)]
    return read + positions(snapshot, item)


def _readers(snapshot: Snapshot, item: Object) -> list[Object]:
    found = list(snapshot.dependents(item))
    for other in found:
        found += [reader for reader in snapshot.dependents(other) if reader not in found]
    return found
