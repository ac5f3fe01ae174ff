"""Keeping all sources and views going until told to stop."""

from __future__ import annotations

import logging
import threading

from headrace.errors import EngineError, HeadraceError, StorageError
from headrace.runtime.home import Home
from headrace.runtime.info import counted
from headrace.runtime.ingest import Listeners
from headrace.runtime.landing import streams_over
from headrace.runtime.refresh import Refreshed
from headrace.runtime.refreshing import refresh
from headrace.storage.records import Object

log = logging.getLogger("headrace")

#: An engine's own server that has grown to so many bytes is replaced between two rounds.
_GROWN = 4 << 30


def run(home: Home, listeners: Listeners, stop: threading.Event, every: float) -> None:
    """Land and refresh every `every` seconds. What had been received when `stop` came is landed before returning."""
    snapshot = home.snapshot()
    for source in snapshot.objects("source"):
        if source.option("connector") == "PORT" and streams_over(snapshot, source):
            listeners.open(source)
    while not stop.is_set():
        step(home, listeners)
        if home.engine.renew(_GROWN):
            log.info("the engine's server was gone or had grown large: a new one goes on")
        stop.wait(every)
    listeners.stop()
    step(home, listeners)


def step(home: Home, listeners: Listeners) -> Refreshed | None:
    """One round. A fault in the data is logged and the rest goes on; a lost home ends the loop."""

    def failed(view: Object, error: EngineError) -> None:
        log.error("view %s was left as it is: %s", view.name, error.message)

    try:
        done = refresh(home, listeners, failed=failed)
    except StorageError:
        raise
    except HeadraceError as error:
        log.error("%s", error)
        return None
    if done.views or done.landed:
        landed, views = counted(done.landed, "row"), counted(len(done.views), "view")
        log.info("landed %s, refreshed %s, snapshot %d", landed, views, done.snapshot)
    return done
