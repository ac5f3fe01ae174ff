"""The catalog's tables.

Names are plural, times end in `_at` and are microseconds since the epoch. `*_in` columns name the snapshot in which a
thing appeared or ended, so that one integer selects a consistent state of everything.
A released version of this schema is never edited: `FORMAT` grows, and the new version brings old homes along.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text

FORMAT = 1

metadata = MetaData()
# SQLite only counts up by itself on INTEGER primary keys.
Identity = BigInteger().with_variant(Integer, "sqlite")

homes = Table(
    "homes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("options", Text, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("token", String(64), nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("renewed_at", BigInteger, nullable=False),
)

objects = Table(
    "objects",
    metadata,
    Column("id", Identity, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("log", String(16), nullable=False),
    Column("definition", Text, nullable=False),
    Column("columns", Text, nullable=False),
    Column("key", Text),
    Column("time_kind", String(16), nullable=False),
    Column("time_column", Text),
    Column("partition_length", BigInteger),
    Column("options", Text, nullable=False),
    Column("system", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_in", BigInteger, nullable=False),
    Column("ended_in", BigInteger),
)

dependencies = Table(
    "dependencies",
    metadata,
    Column("object_id", BigInteger, ForeignKey("objects.id"), primary_key=True),
    Column("needs_id", BigInteger, ForeignKey("objects.id"), primary_key=True),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("committed_at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("clock", BigInteger),
    Column("advanced_to", BigInteger),
)

parts = Table(
    "parts",
    metadata,
    Column("id", Identity, primary_key=True, autoincrement=True),
    Column("object_id", BigInteger, ForeignKey("objects.id"), nullable=False),
    Column("first_part", BigInteger, nullable=False),
    Column("last_part", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("files", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("oldest", BigInteger),
    Column("newest", BigInteger),
    Column("inserts_only", Boolean, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    Column("added_in", BigInteger, nullable=False),
    Column("removed_in", BigInteger),
    # A roll-up moves rows without changing them: views need not be refreshed for it.
    Column("arrived_in", BigInteger, nullable=False),
    Index("parts_by_object", "object_id", "removed_in"),
    # What a commit has changed is looked for after each.
    Index("parts_by_commit", "added_in"),
    Index("parts_by_end", "removed_in"),
)

progress = Table(
    "progress",
    metadata,
    Column("object_id", BigInteger, ForeignKey("objects.id"), primary_key=True),
    Column("newest", BigInteger),
    Column("next_unit", BigInteger, nullable=False),
    Column("late_rows", BigInteger, nullable=False),
    Column("dropped_rows", BigInteger, nullable=False),
    Column("rejected_rows", BigInteger, nullable=False),
)

offsets = Table(
    "offsets",
    metadata,
    Column("stream_id", BigInteger, ForeignKey("objects.id"), primary_key=True),
    Column("position", Text, nullable=False),
)

failures = Table(
    "failures",
    metadata,
    Column("object_id", BigInteger, ForeignKey("objects.id"), primary_key=True),
    Column("message", Text, nullable=False),
    Column("failed_at", BigInteger, nullable=False),
)

landed_files = Table(
    "landed_files",
    metadata,
    Column("stream_id", BigInteger, ForeignKey("objects.id"), primary_key=True),
    Column("path", String(1024), primary_key=True),
    Column("landed_in", BigInteger, nullable=False),
)

refreshes = Table(
    "refreshes",
    metadata,
    Column("id", Identity, primary_key=True, autoincrement=True),
    Column("object_id", BigInteger, ForeignKey("objects.id"), nullable=False),
    Column("snapshot_id", BigInteger, nullable=False),
    Column("read_snapshot", BigInteger, nullable=False),
    Column("point", BigInteger),
    Column("reaches", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("rows_in", BigInteger, nullable=False),
    Column("rows_out", BigInteger, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("strategy", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    Index("refreshes_by_object", "object_id", "snapshot_id"),
    Index("refreshes_by_snapshot", "snapshot_id"),
)
