"""Landing what has arrived at the sources, inside a refresh's transaction.

FILES, PORT and RATE land by our own lander: how far a stream has read its source is committed with the rows. A port's
lines stay in its buffer until the commit has succeeded. Structured Streaming sources are in `streaming.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from headrace.language.types import arrow_type
from headrace.runtime.files import land_new_files
from headrace.runtime.home import Home
from headrace.runtime.landing import Reject, land_rows_or_reject, reject, streams_over
from headrace.runtime.rate import make_rows, rows_due
from headrace.sources.lines import LineOptions
from headrace.sources.port import PortListener
from headrace.storage.catalog import now_micros
from headrace.storage.records import Object
from headrace.storage.transactions import Transaction

#: The connectors a refresh takes rows from; MEMORY is fed.
CONNECTORS = ("FILES", "PORT", "RATE", "STREAMING")


class Listeners:
    """The ports this process listens on."""

    def __init__(self) -> None:
        self._open: dict[int, PortListener] = {}
        self._taken: list[PortListener] = []

    def open(self, source: Object) -> PortListener:
        """Listen on a source's port, if we do not yet."""
        if source.id not in self._open:
            self._open[source.id] = listener_of(source).start()
        return self._open[source.id]

    def adopt(self, source: Object, listener: PortListener) -> None:
        """Keep a listener that was started before its source was committed."""
        self._open[source.id] = listener

    def get(self, source: Object) -> PortListener | None:
        return self._open.get(source.id)

    def close(self, source: Object) -> None:
        listener = self._open.pop(source.id, None)
        if listener is not None:
            listener.close()

    def take(self, listener: PortListener, max_rows: int) -> tuple[pa.Table, pa.Array, list[Reject]]:
        """Rows waiting at a port, to be given back or let go of by `settle`."""
        arrival = listener.take(max_rows)
        self._taken.append(listener)
        rejects = [Reject(item.line, item.reason, f"port {listener.port}") for item in arrival.parsed.rejected]
        return arrival.parsed.table, arrival.arrived_at_micros, rejects

    def settle(self, *, landed: bool) -> None:
        """After the commit, or after its failure."""
        for listener in self._taken:
            listener.commit() if landed else listener.rollback()
        self._taken.clear()

    def stop(self) -> None:
        """Take no more connections; what was received can still be taken."""
        for listener in self._open.values():
            listener.stop()

    def close_all(self) -> None:
        for listener in self._open.values():
            listener.close()
        self._open.clear()


def listener_of(source: Object) -> PortListener:
    """A listener for a PORT source, not started yet."""
    given = {name: source.option(name) for name in ("delimiter", "header", "null_value")}
    return PortListener(
        int(source.option("port")),
        pa.schema([(field.name, arrow_type(field.type)) for field in source.columns]),
        format=source.option("format", "auto"),
        host=source.option("host", "127.0.0.1"),
        options=LineOptions(**{name: value for name, value in given.items() if value is not None}),
    )


def poll(home: Home, listeners: Listeners, transaction: Transaction, sources: Iterable[Object]) -> tuple[int, bool]:
    """Land what has arrived at `sources`. Returns the number of rows, and whether a batch was full and more waits."""
    landed, more = 0, False
    for source in sources:
        streams = streams_over(transaction.base, source)
        if not streams:
            continue
        connector = source.option("connector")
        if connector == "FILES":
            for stream in streams:
                rows, left = land_new_files(home, transaction, source, stream)
                landed, more = landed + rows, more or left
        elif connector == "PORT":
            rows = _land_port(home, listeners, transaction, source, streams)
            landed, more = landed + rows, more or rows >= batch_limit(home, source)
        elif connector == "RATE":
            rows = _land_rate(home, transaction, source, streams)
            landed, more = landed + rows, more or rows >= batch_limit(home, source)
    return landed, more


def batch_limit(home: Home, source: Object) -> int:
    return int(source.option("max_rows_per_batch") or home.option("max_rows_per_batch"))


def _land_port(
    home: Home, listeners: Listeners, transaction: Transaction, source: Object, streams: list[Object]
) -> int:
    listener = listeners.open(source)
    table, arrived, rejects = listeners.take(listener, batch_limit(home, source))
    reject(transaction, source, rejects)
    if not table.num_rows:
        return 0
    if home.clock_mode == "manual":
        arrived = pa.repeat(pa.scalar(transaction.advanced_to or 0, pa.int64()), table.num_rows)
    origin = f"port {listener.port}"
    return land_rows_or_reject(transaction, source, streams, table, arrived, home.clock_mode, origin)


def _land_rate(home: Home, transaction: Transaction, source: Object, streams: list[Object]) -> int:
    landed = 0
    per_second = float(source.option("rows_per_second"))
    now = (transaction.advanced_to or 0) if home.clock_mode == "manual" else now_micros()
    for stream in streams:
        position = transaction.offset(stream) or {"start": now, "rows": 0}
        count = min(rows_due(position["start"], position["rows"], now, per_second), batch_limit(home, source))
        table, arrived = make_rows(source.columns, position["start"], position["rows"], count, per_second)
        transaction.set_offset(stream, {"start": position["start"], "rows": position["rows"] + count})
        if count:
            landed += land_rows_or_reject(transaction, source, [stream], table, arrived, home.clock_mode, source.name)
    return landed
