"""The window of a call, and which version of the aggregate computes it in which way (ESL Figure 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from headrace.algebra.user_aggregates.definition import Versions
from headrace.errors import DefinitionError, Place

Kind = Literal["base", "rows", "range"]

#: How a call is computed: the boxes of Figure 2, the base calls, and windows that expire by the clock.
Way = Literal["base", "cumulative", "window", "naive", "tumble", "panes", "active"]


@dataclass(frozen=True)
class Form:
    """The window of a call. `base`: none, the rows of a GROUP BY.

    `length` is rows, the row itself among them (`ROWS 9 PRECEDING` is 10), or microseconds; None is UNBOUNDED.
    `slide` is of the same kind; `active`: rows leave by the clock, and may be told when they do.
    """

    kind: Kind = "base"
    length: int | None = None
    slide: int | None = None
    active: bool = False

    @property
    def tumbles(self) -> bool:
        return self.slide is not None and self.length is not None and self.slide >= self.length


def way_of(versions: Versions, form: Form, *, streaming: bool, place: Place | None = None) -> Way:
    """How a call is computed; `streaming`: over a stream that no window bounds. Raises where it cannot be."""
    base, window = versions.base, versions.window
    if form.kind == "base":
        if base is None:
            raise DefinitionError(
                "WINDOW_AGGREGATE",
                f"{versions.name} is defined for windows alone, and is called without one.",
                hint=f"Call it as {versions.name}(...) OVER (ROWS 9 PRECEDING), or CREATE AGGREGATE {versions.name}.",
                place=place,
            )
        if streaming and base.blocking:
            raise DefinitionError(
                "BLOCKING_AGGREGATE",
                f"{versions.name} tells its result in TERMINATE, when its input has ended, and a stream never ends.",
                hint=f"Call it over a window: {versions.name}(...) OVER (ROWS 9 PRECEDING), or FROM s [ROWS 9].",
                place=place,
            )
        return "base"
    if form.active:
        return "active"
    if form.length is None:
        return "cumulative"
    if form.tumbles and base is not None:
        return "tumble"
    # A pane of one row sums nothing up.
    sums_up = form.slide is not None and math.gcd(form.length, form.slide) > 1
    if sums_up and base is not None and window is not None and window.algebraic:
        return "panes"
    return "window" if window is not None else "naive"
