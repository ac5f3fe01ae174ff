"""A SELECT with calls of aggregates over the rows it reads, in the order of the stream."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.algebra.user_aggregates.definition import Versions
from headrace.algebra.user_aggregates.forms import Form


@dataclass(frozen=True)
class Call:
    """One call: its versions and window, and columns of the rows it reads.

    `arguments` and `partition` name columns; `results` are the names of its results, as many as it returns columns.
    Arguments are in the types of the parameters, where those have types.
    """

    versions: Versions
    form: Form
    arguments: tuple[str, ...]
    partition: tuple[str, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """All calls of one SELECT, and the columns of its rows that are shown beside their results."""

    calls: tuple[Call, ...]
    passed: tuple[str, ...]
    streaming: bool


def run_whole(block: Block, rows: pa.Table, upto: int | None) -> pa.Table:
    """All results over all rows, which stand in the order of the stream: `passed`, the results, `__t`.

    Rows have `__t` (microseconds, int64). `upto` is the time of the clock, up to which rows leave windows by
    themselves; None: as far as the rows tell.
    """
    raise NotImplementedError
