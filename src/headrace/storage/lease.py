"""One writer a home: a lease in the catalog, renewed while it is held and checked again inside every commit.

A lease whose process has died on this machine is taken over at once; one that was not renewed for `LIFETIME` seconds
is taken over too. The check inside the commit (fencing) makes a writer that lost its lease without noticing harmless.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from headrace.errors import StorageError
from headrace.storage import faults, schema
from headrace.storage.catalog import Catalog, now_micros

LIFETIME = 30.0
_WRITER = "writer"


class Lease:
    """The right to write to a home, held until `release`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._token = uuid.uuid4().hex
        self._stopped = threading.Event()
        faults.reach("before lease")
        self._acquire()
        faults.reach("after lease")
        self._heart = threading.Thread(target=self._beat, name="headrace-lease", daemon=True)
        self._heart.start()

    def _acquire(self) -> None:
        table = schema.leases
        mine = {
            "token": self._token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started_at": now_micros(),
            "renewed_at": now_micros(),
        }
        try:
            with self._catalog.engine.begin() as connection:
                held = connection.execute(sa.select(table).where(table.c.name == _WRITER)).first()
                if held is None:
                    connection.execute(sa.insert(table).values(name=_WRITER, **mine))
                    return
                if not _abandoned(held.host, held.pid, held.renewed_at):
                    raise StorageError(
                        "HOME_HAS_A_WRITER",
                        f"Another process writes to this home: process {held.pid} on {held.host}.",
                        detail="One process writes at a time; any number may read.",
                        hint="Stop it, or let it do the writing. A writer that died elsewhere frees the home "
                        f"{LIFETIME:.0f} s after its last sign of life.",
                    )
                taken = connection.execute(
                    sa.update(table).where(table.c.name == _WRITER, table.c.token == held.token).values(**mine)
                )
                if taken.rowcount != 1:
                    raise _lost()
        except sa.exc.IntegrityError as error:  # another process inserted its lease first
            raise _lost() from error

    def confirm(self, connection: Connection) -> None:
        """Within a commit: still the holder, or the commit fails."""
        table = schema.leases
        renewed = connection.execute(
            sa.update(table)
            .where(table.c.name == _WRITER, table.c.token == self._token)
            .values(renewed_at=now_micros())
        )
        if renewed.rowcount != 1:
            raise _lost()

    def release(self) -> None:
        self._stopped.set()
        self._heart.join(timeout=5)
        table = schema.leases
        with self._catalog.engine.begin() as connection:
            connection.execute(sa.delete(table).where(table.c.name == _WRITER, table.c.token == self._token))

    def _beat(self) -> None:
        while not self._stopped.wait(LIFETIME / 3):
            try:
                with self._catalog.engine.begin() as connection:
                    self.confirm(connection)
            except (sa.exc.SQLAlchemyError, StorageError):
                # A busy catalog is tried again at the next beat; a lost lease shows at the next commit.
                continue


def _abandoned(host: str, pid: int, renewed_at: int) -> bool:
    if now_micros() - renewed_at > LIFETIME * 1_000_000:
        return True
    if host != socket.gethostname() or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    # A killed child its parent has not waited for still answers signal 0.
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _lost() -> StorageError:
    return StorageError(
        "LEASE_LOST",
        "Another process has become this home's writer; nothing of this change was written.",
        hint="Open the home again to go on from what that process committed.",
    )
