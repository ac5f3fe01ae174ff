"""How many rows lie in a range of temporal parts, by what the catalog tells of the files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from headrace.storage.records import Part


class PartRows:
    """The rows of an object's parts. A file that holds rows of several parts counts for each of them as a whole."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.files = len(parts)
        by_first = sorted(parts, key=lambda part: part.first)
        by_last = sorted(parts, key=lambda part: part.last)
        self._firsts = [part.first for part in by_first]
        self._lasts = [part.last for part in by_last]
        self._begun = [0, *accumulate(part.rows for part in by_first)]
        self._ended = [0, *accumulate(part.rows for part in by_last)]

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
