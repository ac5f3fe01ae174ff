"""Batches as in the experiments of the ViewDF paper: a minute each, of pairs or of groups with ten rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MINUTE = 60
MICROS = 1_000_000
_TIMESTAMP = pa.timestamp("us", tz="UTC")


def pairs(rows: int, share: float, minute: int) -> pa.Table:
    """One row for each pair: a share of them with high loss, which is above ten."""
    draw = np.random.default_rng(minute)
    high = draw.random(rows) < share
    loss = np.where(high, draw.integers(11, 50, rows), draw.integers(0, 11, rows)).astype(np.int32)
    numbers = np.arange(rows, dtype=np.int64)
    return pa.table(
        {
            "ts": _times(rows, minute),
            "src": (numbers // 1_000).astype(np.int32),
            "dest": (numbers % 1_000).astype(np.int32),
            "loss": loss,
        }
    )


def readings(rows: int, minute: int, a_group: int = 10) -> pa.Table:
    """Ten rows for each group, in no order."""
    draw = np.random.default_rng(minute)
    groups = np.repeat(np.arange(rows // a_group, dtype=np.int32), a_group)
    draw.shuffle(groups)
    return pa.table({"ts": _times(rows, minute), "G": groups, "A": draw.integers(0, 1_000, rows).astype(np.int32)})


def _times(rows: int, minute: int) -> pa.Array:
    start = minute * MINUTE * MICROS
    return pa.array(start + np.linspace(0, MINUTE * MICROS - 1, rows).astype(np.int64), pa.int64()).cast(_TIMESTAMP)


def write(folder: Path, minute: int, table: pa.Table) -> str:
    """A batch as a file of its own: what recompute and hand-written code read."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"minute{minute:06d}.parquet"
    pq.write_table(table, path)
    return str(path)
