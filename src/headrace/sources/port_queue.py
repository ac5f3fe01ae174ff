"""What the port holds between arrival and landing: connections, waiting lines, and the open take."""

from __future__ import annotations

import socket
import threading
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headrace.errors import InputError
from headrace.sources.lines import Format, LineOptions, Parsed, Rejected, parse_lines, shorten
from headrace.sources.readers import LineFramer

_CUT_BY_CLIENT = " (the client disconnected before the end of the line)"


@dataclass(frozen=True)
class Arrival:
    """Rows that arrived, in order of arrival, and when each did: microseconds since the epoch, never decreasing."""

    parsed: Parsed
    arrived_at_micros: pa.Array


@dataclass(eq=False)
class Connection:
    """One client, and how many of its lines have come and have landed."""

    sock: socket.socket
    framer: LineFramer
    first: bool = True
    wants_ack: bool = False
    deaf: bool = False  # an answer could not be sent, and none will be
    ended: bool = False
    received: int = 0
    landed: int = 0
    unsent: bytes = b""


@dataclass(frozen=True)
class Waiting:
    """Lines of one connection that came together."""

    connection: Connection
    lines: list[bytes]
    size: int
    arrived_at: int
    refused: str | None = None  # the one line is no row, for this reason
    unfinished: bool = False

    def cut(self, count: int) -> tuple[Waiting, Waiting]:
        head = self.lines[:count]
        size = min(self.size, sum(map(len, head)) + count)
        return replace(self, lines=head, size=size), replace(self, lines=self.lines[count:], size=self.size - size)


@dataclass
class Queue:
    """Waiting lines and those in the open take, under one lock."""

    lock: threading.Condition = field(default_factory=threading.Condition)
    waiting: deque[Waiting] = field(default_factory=deque)
    taken: list[Waiting] | None = None
    rows: int = 0  # waiting and taken
    taken_rows: int = 0
    bytes: int = 0

    def put(self, block: Waiting) -> None:
        with self.lock:
            self.waiting.append(block)
            self.rows += len(block.lines)
            self.bytes += block.size
            self.lock.notify_all()

    def take(self, max_rows: int) -> list[Waiting]:
        with self.lock:
            if self.taken is not None:
                raise InputError(
                    "TAKE_OPEN", "A take is open.", hint="Call commit() or rollback() before the next take()."
                )
            taken: list[Waiting] = []
            while self.waiting and max_rows > 0:
                block = self.waiting.popleft()
                if len(block.lines) > max_rows:
                    block, rest = block.cut(max_rows)
                    self.waiting.appendleft(rest)
                taken.append(block)
                max_rows -= len(block.lines)
            self.taken = taken
            self.taken_rows = sum(len(block.lines) for block in taken)
            return taken

    def close_take(self) -> list[Waiting]:
        if self.taken is None:
            raise InputError("NO_TAKE_OPEN", "No take is open.", hint="Call take() first.")
        taken, self.taken, self.taken_rows = self.taken, None, 0
        return taken


def read_taken(taken: list[Waiting], format: Format, schema: pa.Schema, options: LineOptions) -> Arrival:
    """Parse what a take holds."""
    lines: list[bytes] = []
    refused: dict[int, tuple[str, bytes]] = {}
    unfinished: set[int] = set()
    for block in taken:
        if block.refused is not None:
            refused[len(lines)] = (block.refused, block.lines[0])
            lines.append(b"")
            continue
        if block.unfinished:
            unfinished.add(len(lines))
        lines += block.lines
    parsed = parse_lines(lines, format, schema, options)
    rejected = [
        replace(one, reason=one.reason + _CUT_BY_CLIENT) if one.position in unfinished else one
        for one in parsed.rejected
    ]
    rejected += [Rejected(place, shorten(head), reason) for place, (reason, head) in refused.items()]
    rejected.sort(key=lambda one: one.position)
    moments = np.array([block.arrived_at for block in taken], np.int64)
    times = np.repeat(moments, np.array([len(block.lines) for block in taken], np.int64))
    arrived = pa.array(times, pa.int64()).take(parsed.positions)
    return Arrival(replace(parsed, rejected=rejected), arrived)
