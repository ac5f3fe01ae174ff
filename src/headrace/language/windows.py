"""Windows in FROM as plain data: which rows of a stream a query sees at a time.

``[RANGE w]`` and ESL's ``[WINDOW w]`` are lengths of time, ``[ROWS n]`` counts of rows; ``SLIDE`` is of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from headrace.errors import LanguageError, Place
from headrace.language import nodes
from headrace.language.times import parse_duration


@dataclass(frozen=True)
class Window:
    """A window. `length` and `slide` are microseconds for ``range`` and rows for ``rows``; no length is no bound.

    `partition` are the columns of PARTITION BY: each combination of their values has a window of rows of its own.
    """

    kind: Literal["range", "rows"]
    length: int | None
    slide: int | None = None
    partition: tuple[str, ...] = ()
    internal: bool = False


def window_of(suffixes: Sequence[exp.Expr], place: Place | None = None) -> Window | None:
    """The window among what stands behind a relation, if there is one."""
    found = [suffix for suffix in suffixes if isinstance(suffix, nodes.StreamWindow)]
    if len(found) > 1:
        raise LanguageError("DUPLICATE_CLAUSE", "A relation in FROM has one window, and here are two.", place=place)
    return _described(found[0], place) if found else None


def _described(node: nodes.StreamWindow, place: Place | None) -> Window:
    rows = node.args["kind"] == "ROWS"
    partition = node.args.get("partition_by") or ()
    if any(not isinstance(column, exp.Column) for column in partition):
        raise LanguageError(
            "BAD_WINDOW", "A window is partitioned by columns.", place=place, hint="[PARTITION BY k ...]"
        )
    measure = _count if rows else _duration
    return Window(
        "rows" if rows else "range",
        measure(node.args.get("this"), place),
        measure(node.args.get("slide"), place),
        tuple(column.name for column in partition),
        bool(node.args.get("internal")),
    )


def _count(length: nodes.Length | None, place: Place | None) -> int | None:
    if length is None:
        return None
    if length.args.get("unit") or not length.this.name.isdigit() or int(length.this.name) < 1:
        raise LanguageError(
            "BAD_WINDOW",
            f"A window of ROWS has a whole number of rows, 1 or more, not {_shown(length)}.",
            hint="Write [ROWS 100], or [RANGE 10 SECONDS] for a length of time.",
            place=place,
        )
    return int(length.this.name)


def _duration(length: nodes.Length | None, place: Place | None) -> int | None:
    if length is None:
        return None
    micros = parse_duration(_shown(length))
    if micros < 1:
        raise LanguageError(
            "BAD_WINDOW",
            f"A window has a length above 0, not {_shown(length)}.",
            hint="[RANGE 10 SECONDS]",
            place=place,
        )
    return micros


def _shown(length: nodes.Length) -> str:
    unit = length.args.get("unit")
    return length.this.name + (f" {unit.name}" if unit is not None else "")
