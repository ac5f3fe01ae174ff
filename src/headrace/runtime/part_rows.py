"""How many rows lie in a range of temporal parts, by what the catalog tells of the files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from headrace.storage.records import Part

#: The rows of a file of more parts than these are counted for each part that is asked for.
_MOST_PARTS = 1_000


class PartRows:
    """About how many rows an object's parts have. A file's rows are taken to be spread evenly over its parts."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.files = len(parts)
        spread = [piece for part in parts for piece in _pieces(part)]
        by_first = sorted(spread)
        by_last = sorted(spread, key=lambda piece: piece[1])
        self._firsts = [first for first, _last, _rows in by_first]
        self._lasts = [last for _first, last, _rows in by_last]
        self._begun = [0, *accumulate(rows for _first, _last, rows in by_first)]
        self._ended = [0, *accumulate(rows for _first, _last, rows in by_last)]

    def between(self, first: int, last: int) -> int:
        """The rows in the parts from `first` to `last`."""
        return self._begun[bisect_right(self._firsts, last)] - self._ended[bisect_left(self._lasts, first)]

    def next_after(self, part: int) -> int | None:
        """The first part from `part` on in which there are rows; None when there is none."""
        inside = self._begun[bisect_right(self._firsts, part)] - self._ended[bisect_left(self._lasts, part)]
        if inside > 0:
            return part
        place = bisect_left(self._firsts, part)
        return self._firsts[place] if place < len(self._firsts) else None


def _pieces(part: Part) -> list[tuple[int, int, int]]:
    """A file as pieces with their first and last part and their rows: none of them empty, as far as is known."""
    span = part.last - part.first + 1
    if span == 1 or span > _MOST_PARTS or not part.rows:
        return [(part.first, part.last, part.rows)]
    return [(number, number, -(-part.rows // span)) for number in range(part.first, part.last + 1)]
