"""What calls over windows tell, by looking at every window from anew: slow, and plain to see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.algebra.user_aggregates.forms import Form
from tests.user_aggregates.running import SECOND, Row

#: Rows of a window, the oldest first, to what is told of it: a list of result rows.
Told = Callable[[list[Row]], list[Row]]


def naive(given: Sequence[Row], form: Form, tell: Told, upto: float, *, group: int | None = None) -> list[Row]:
    """For each result: the values of the row it stands beside, the results, the time.

    `group` is the place of the value that windows are partitioned by. Windows that slide by time tell when a slot is
    over, which is when the clock has reached its end.
    """
    groups: dict[Any, list[Row]] = {}
    for row in given:
        groups.setdefault(None if group is None else row[group], []).append(row)
    found: list[Row] = []
    for rows in groups.values():
        for beside, window, time in windows(rows, form, upto):
            found += [(*beside[1:], *result, time) for result in tell(window)]
    return found


def windows(rows: list[Row], form: Form, upto: float) -> Iterator[tuple[Row, list[Row], float]]:
    """Of one group: the row that a result stands beside, the rows of its window, the time when it is told."""
    length = form.length
    if form.kind == "rows":
        for number, row in enumerate(rows, 1):
            if form.slide is None or number % form.slide == 0:
                yield row, rows[0 if length is None else max(0, number - length) : number], row[0]
        return
    seconds = None if length is None else length / SECOND
    if form.slide is None:
        for number, row in enumerate(rows, 1):
            yield row, [one for one in rows[:number] if seconds is None or one[0] >= row[0] - seconds], row[0]
        return
    slide = form.slide / SECOND
    for end in sorted({(row[0] // slide + 1) * slide for row in rows}):
        inside = [one for one in rows if one[0] < end and (seconds is None or one[0] >= end - seconds)]
        slot = [one for one in inside if one[0] >= end - slide]
        if end <= upto and slot:
            yield slot[-1], inside, end


def actively(
    given: Sequence[Row], seconds: float, arrives: Told, leaves: Callable[[Row, list[Row]], list[Row]], upto: float,
    *, group: int | None = None,
) -> list[Row]:  # fmt: skip
    """ACTIVE EXPIRATION: `arrives` is told of the window with the row that came, `leaves` of a row and those it leaves.

    A row that came at t leaves at t + `seconds`, before rows that come then.
    """
    groups: dict[Any, list[Row]] = {}
    for row in given:
        groups.setdefault(None if group is None else row[group], []).append(row)
    found: list[Row] = []
    for rows in groups.values():
        for number, row in enumerate(rows):
            inside = [one for one in rows[: number + 1] if one[0] + seconds > row[0]]
            found += [(*row[1:], *result, row[0]) for result in arrives(inside)]
            end = row[0] + seconds
            if end <= upto:
                left = [one for at, one in enumerate(rows) if at > number and (one[0] < end)]
                found += [(*row[1:], *result, end) for result in leaves(row, left)]
    return found
