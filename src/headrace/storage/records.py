"""The catalog's rows as small frozen values, so that nobody above this layer sees a database row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LATE_SUFFIX = "__late"
REJECTED_SUFFIX = "__rejected"
HELPER_SUFFIX = "__helper"
#: The stream of the clock's seconds.
CLOCK = "clockStr"


@dataclass(frozen=True)
class Field:
    """A column: its name and its Spark DDL type."""

    name: str
    type: str
    not_null: bool = False


@dataclass(frozen=True)
class Object:
    """A source, stream, table or view; and, which only those see who ask for them, states and aggregates.

    `log` says what its rows in storage mean (see `maintenance.logs`): ``append``, ``upsert``, ``signed`` or
    ``state``; ``none`` for a source or an aggregate. `time_kind` is ``external``, ``internal`` or ``latent`` for
    streams.
    """

    id: int
    name: str
    kind: str
    log: str
    definition: str
    columns: tuple[Field, ...]
    key: tuple[str, ...] | None
    time_kind: str = "none"
    time_column: str | None = None
    partition_length: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    system: bool = False
    created_in: int = 0

    @property
    def maintained(self) -> bool:
        """Whether it has a query: a view, or a stream made AS SELECT."""
        return self.kind == "view" or bool(self.option("derived"))

    @property
    def part_wise(self) -> bool:
        """Whether it is a view that is made part by part: by a view delta function."""
        return self.kind == "view" and bool(self.option("part_wise"))

    @property
    def on_grid(self) -> bool:
        """Whether it changes only at points of its own: of REFRESH EVERY, or of the stream it is synchronized by."""
        return self.option("every") is not None or self.option("sync") is not None

    @property
    def forgets_rows(self) -> bool:
        """Whether RETAIN lets rows go: those of a stream that arrive, and of a view that is made part by part.

        What a table or another view lets go of is only its history.
        """
        return self.part_wise or (self.kind == "stream" and not self.maintained)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)


@dataclass(frozen=True)
class Part:
    """Some rows of an object's log: files that never change, covering the temporal parts `first` to `last`."""

    id: int
    object_id: int
    first: int
    last: int
    version: int
    files: tuple[str, ...]
    rows: int
    bytes: int
    oldest: int | None
    newest: int | None
    inserts_only: bool
    changed_at: int
    added_in: int
    arrived_in: int


@dataclass(frozen=True)
class Progress:
    """How far a stream has come: its newest time, the next unit of arrival, and what went astray."""

    newest: int | None = None
    next_unit: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    rejected_rows: int = 0


@dataclass(frozen=True)
class SnapshotInfo:
    """One committed state of the home."""

    id: int
    committed_at: int
    reason: str
    clock: int | None
    advanced_to: int | None


@dataclass(frozen=True)
class RefreshRecord:
    """What one refresh of one view did.

    `point` is the time the view is now at, `reaches` how far each input (by id) was read, `read_snapshot` the snapshot
    in which they were read.
    """

    object_id: int
    read_snapshot: int
    point: int | None
    reaches: Mapping[str, int]
    started_at: int
    seconds: float
    rows_in: int
    rows_out: int
    jobs: int
    strategy: str
    reason: str
    snapshot_id: int = 0


def dump(value: Any) -> str:
    """JSON as the catalog stores it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def load(text: str | None) -> Any:
    return None if text is None else json.loads(text)
