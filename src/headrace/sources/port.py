"""A TCP port that takes lines from many clients at once and hands them over in two phases.

One thread reads all sockets. Whole lines wait in a queue bounded in rows and bytes; while it is full no socket is read,
so the senders' own TCP connections slow them down. `take` hands rows over and keeps them until `commit` says that they
have landed; `rollback` gives them back. Lines are only cut here: they are parsed when they are taken.

**What TCP promises.** A sender whose `send` succeeded knows that a kernel has its bytes, not that its rows have landed:
what had not been committed is lost if this process dies. A sender that must know writes the line ``#ack on``. After a
commit that holds lines of its connection it is answered ``ok <n>``: the first n lines of this connection have landed
(every line counts, also an empty, header or rejected one, except ``#ack on`` itself). A sender that keeps its lines
until they are acknowledged, and sends the others again on a new connection, loses none. It sends a line twice only if
the connection breaks after the commit and before the answer arrives.

**A last line without its line end.** On a plain connection it is taken when the client leaves, for senders that never
write one. On a connection with ``#ack on`` it is dropped, neither counted nor rejected: half a line can look like a
row, and as it was not acknowledged its sender will send it again, whole.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import TracebackType

import pyarrow as pa

from headrace.errors import InputError
from headrace.sources.lines import Format, LineOptions, check_schema, is_header_line
from headrace.sources.port_queue import Arrival, Connection, Queue, Waiting, read_taken
from headrace.sources.readers import LineFramer, Lines

__all__ = ["ACK_LINE", "Arrival", "Pending", "PortListener"]

ACK_LINE = b"#ack on"

_CHUNK_BYTES = 64 << 10
_TICK_SECONDS = 0.5
_STOP_SECONDS = 2.0
_STOP_BYTES = 8 << 20  # what one kernel may still hold of one connection
_CUT_BY_US = "the listener stopped before the end of the line"


@dataclass(frozen=True)
class Pending:
    """What has arrived and not landed: lines waiting, lines in the open take, the bytes of both, and open clients."""

    rows: int
    taken_rows: int
    bytes: int
    connections: int


class PortListener:
    """Listens on a port from `start` to `stop`.

    Parameters
    ----------
    port
        The port, or 0 for any free one; `port` tells which once started.
    schema, format, options
        What lines are; with format ``auto`` a line that starts with ``{`` or ``[`` is JSON and any other CSV.
    limit_rows, limit_bytes
        How much may wait before senders are slowed down; passed by at most one read of 64 KiB and the line it ends.
    max_line_bytes
        A longer line is thrown away as it streams by and rejected.
    max_connections
        Further clients wait until one leaves. Memory is at most `limit_bytes` plus this many unfinished lines.
    """

    def __init__(
        self,
        port: int,
        schema: pa.Schema,
        format: Format = "auto",
        host: str = "127.0.0.1",
        *,
        options: LineOptions | None = None,
        limit_rows: int = 1_000_000,
        limit_bytes: int = 256 << 20,
        max_line_bytes: int = 1 << 20,
        max_connections: int = 1024,
    ) -> None:
        check_schema(schema)
        self.port = port
        self.host = host
        self._schema = schema
        self._format: Format = format
        self._options = replace(options or LineOptions(), max_line_bytes=max_line_bytes)
        self._limit_rows = limit_rows
        self._limit_bytes = limit_bytes
        self._max_connections = max_connections
        self._queue = Queue()
        self._connections: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._server: socket.socket | None = None
        self._reading: dict[socket.socket, Connection | None] = {}  # what the selector watches; the server maps to None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._clock = 0
        self._waker: socket.socket | None = None
        self._woken: socket.socket | None = None

    # --- for the owner ---

    def start(self) -> PortListener:
        """Bind and listen; returns itself."""
        try:
            self._server = socket.create_server((self.host, self.port), backlog=128)
        except OSError as error:
            raise self._cannot_listen(error) from None
        self.port = self._server.getsockname()[1]
        self._server.setblocking(False)
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"headrace-port-{self.port}", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Accept and read no more, after taking what had already arrived; it can still be taken and committed.

        Connections that asked for acknowledgement stay open until their lines are committed, or until `close`.
        """
        self._stopping = True
        self._wake()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS * 5)
            self._thread = None

    def close(self) -> None:
        """Stop, and drop every connection."""
        self.stop()
        with self._queue.lock:
            for connection in list(self._connections):
                self._drop(connection)
        self._selector.close()
        for sock in (self._waker, self._woken):
            if sock is not None:
                sock.close()

    def __enter__(self) -> PortListener:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pending(self) -> Pending:
        """How much waits, for status and scheduling."""
        with self._queue.lock:
            queue = self._queue
            open_now = sum(not connection.ended for connection in self._connections)
            return Pending(queue.rows - queue.taken_rows, queue.taken_rows, queue.bytes, open_now)

    def wait(self, rows: int = 1, timeout: float = 1.0) -> bool:
        """Wait until this many lines can be taken; whether they can."""
        with self._queue.lock:
            return self._queue.lock.wait_for(lambda: self._queue.rows - self._queue.taken_rows >= rows, timeout)

    def take(self, max_rows: int = 131_072) -> Arrival:
        """Hand over at most this many lines, oldest first. They stay ours until `commit`."""
        return read_taken(self._queue.take(max_rows), self._format, self._schema, self._options)

    def commit(self) -> None:
        """The rows of the open take have landed: forget them, tell the senders that asked, read on."""
        with self._queue.lock:
            taken = self._queue.close_take()
            for block in taken:
                self._queue.rows -= len(block.lines)
                self._queue.bytes -= block.size
                block.connection.landed += len(block.lines)
            for connection in {block.connection for block in taken}:
                if connection.wants_ack and not connection.deaf and connection in self._connections:
                    connection.unsent += f"ok {connection.landed}\n".encode()
            self._send_acks()
        self._wake()

    def rollback(self) -> None:
        """The rows of the open take have not landed: the next take gives them again, in the same order."""
        with self._queue.lock:
            self._queue.waiting.extendleft(reversed(self._queue.close_take()))
            self._queue.lock.notify_all()

    # --- in the thread ---

    def _run(self) -> None:
        while not self._stopping:
            self._watch()
            for key, _ in self._selector.select(_TICK_SECONDS):
                if self._woken is not None and key.fileobj is self._woken:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(4096)
                elif key.fileobj is self._server:
                    self._accept()
                elif not self._full():
                    self._read_safely(key.data)
            with self._queue.lock:
                self._send_acks()
        self._finish()

    def _full(self) -> bool:
        return self._queue.rows >= self._limit_rows or self._queue.bytes >= self._limit_bytes

    def _watch(self) -> None:
        """Watch what may be read now: nothing of the clients while the queue is full, no new ones while too many."""
        wanted: dict[socket.socket, Connection | None] = {}
        with self._queue.lock:
            if not self._full():
                wanted = {one.sock: one for one in self._connections if not one.ended}
            if self._server is not None and len(self._connections) < self._max_connections:
                wanted[self._server] = None
        for sock in self._reading.keys() - wanted.keys():
            with contextlib.suppress(KeyError, ValueError, OSError):
                self._selector.unregister(sock)
        for sock in wanted.keys() - self._reading.keys():
            try:
                self._selector.register(sock, selectors.EVENT_READ, wanted[sock])
            except (KeyError, ValueError, OSError):  # it broke meanwhile
                connection = wanted.pop(sock)
                if connection is not None:
                    self._end(connection)
        self._reading = wanted

    def _accept(self) -> None:
        assert self._server is not None
        try:
            sock, _ = self._server.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(0.05)  # out of descriptors: the client waits in the backlog
            return
        sock.setblocking(False)
        with self._queue.lock:
            self._connections.add(Connection(sock, LineFramer(self._options.max_line_bytes)))

    def _read_safely(self, connection: Connection) -> None:
        try:
            self._read(connection)
        except Exception:  # whatever one client brings about ends its connection and no other
            self._end(connection)

    def _read(self, connection: Connection) -> int:
        """Read once; how many bytes came."""
        try:
            data = connection.sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            self._put(connection, connection.framer.feed(data))
        else:
            if not connection.wants_ack:
                self._put(connection, connection.framer.finish(), unfinished=True)
            self._end(connection)
        return len(data)

    def _put(self, connection: Connection, found: Iterable[Lines], *, unfinished: bool = False) -> None:
        self._clock = max(self._clock, time.time_ns() // 1000)
        for block in found:
            lines = block.lines
            if block.overlong is None:
                lines = self._without_control(connection, lines)
            if lines:
                connection.received += len(lines)
                self._queue.put(Waiting(connection, lines, block.size, self._clock, block.overlong, unfinished))

    def _without_control(self, connection: Connection, lines: list[bytes]) -> list[bytes]:
        if ACK_LINE in lines or ACK_LINE + b"\r" in lines:
            kept = [line for line in lines if line.rstrip(b"\r") != ACK_LINE]
            connection.wants_ack |= len(kept) < len(lines)
            lines = kept
        if connection.first and lines:
            connection.first = False
            first = lines[0].removeprefix(b"\xef\xbb\xbf")
            if self._options.header and is_header_line(first, self._schema, self._options):
                first = b""  # skipped as empty, and still counted for the sender
            lines[0] = first
        return lines

    def _end(self, connection: Connection) -> None:
        """No more will be read; an acknowledged connection lives on until its last line is committed."""
        with self._queue.lock:
            connection.ended = True
            self._drop_if_done(connection)

    def _finish(self) -> None:
        """Take what the kernel already holds, within bounds, then let the connections go."""
        deadline = time.monotonic() + _STOP_SECONDS
        if self._server is not None:
            self._accept_waiting(deadline)
            self._server.close()
            self._server = None
        with self._queue.lock:
            connections = [one for one in self._connections if not one.ended]
        for connection in connections:
            size = 0
            while not connection.ended and size < _STOP_BYTES and time.monotonic() < deadline:
                came = self._read(connection)
                if not came:
                    break
                size += came
            if not connection.ended:
                for block in connection.framer.finish() if not connection.wants_ack else ():
                    # Cut by us, not by the sender: half a line may look like a row, and must not become one.
                    connection.received += 1
                    refused = block.overlong or _CUT_BY_US
                    self._queue.put(Waiting(connection, block.lines, block.size, self._clock, refused))
                self._end(connection)

    def _accept_waiting(self, deadline: float) -> None:
        before = -1
        while before != len(self._connections) and time.monotonic() < deadline:
            before = len(self._connections)
            self._accept()

    # --- under the queue's lock ---

    def _send_acks(self) -> None:
        for connection in list(self._connections):
            if connection.unsent:
                try:
                    sent = connection.sock.send(connection.unsent)
                    connection.unsent = connection.unsent[sent:]
                except BlockingIOError:
                    # It does not read its answers. They add up, so the newest is enough.
                    half, newest = connection.unsent.split(b"\n", 1)[0], f"ok {connection.landed}".encode()
                    connection.unsent = half + b"\n" + (b"" if half == newest else newest + b"\n")
                except OSError:
                    # It is gone; what it sent before may still be read, so the reader finds the end.
                    connection.unsent = b""
                    connection.deaf = True
            self._drop_if_done(connection)

    def _drop_if_done(self, connection: Connection) -> None:
        owes = connection.unsent or connection.landed < connection.received
        owed = connection.wants_ack and not connection.deaf and owes
        if connection.ended and not owed:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._connections.discard(connection)
        with contextlib.suppress(OSError):
            connection.sock.close()

    def _wake(self) -> None:
        if self._waker is not None:
            with contextlib.suppress(OSError):
                self._waker.send(b"\0")

    def _cannot_listen(self, error: OSError) -> InputError:
        place = f"{self.host}:{self.port}"
        if error.errno == errno.EADDRINUSE:
            return InputError(
                "PORT_IN_USE",
                f"Port {self.port} is in use.",
                detail=f"Another program listens on {place}.",
                hint=f"Stop it (`lsof -i :{self.port}` names it), or register the source with another port.",
            )
        return InputError(
            "PORT_NOT_AVAILABLE",
            f"Cannot listen on {place}.",
            detail=str(error),
            hint="Use a port of 1024 or more, and an address of this machine.",
        )
