"""A tiny maintainer for tests: view delta functions part by part, on any engine that can keep the rows of a part.

A view is initialized at the first part for which all parts that INITIALIZE mentions exist. In UPDATE, parts before the
first of a relation are empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from headrace.language import CreateViewDelta, parse_one
from tests.part_wise.brute_window import LENGTH, Row


class Store(Protocol):
    """Where parts are kept and queries over them run."""

    def put_rows(self, name: str, part: int, start: int, rows: Sequence[Row]) -> None: ...

    def put_query(self, name: str, part: int, start: int, sql: str) -> None: ...

    def named(self, name: str, parts: Sequence[int]) -> str:
        """A relation that has the rows of these parts and their PART_TIMESTAMP; of no parts, no rows."""
        ...

    def rows(self, name: str, part: int) -> list[tuple[Any, ...]]: ...


_REFERENCE = re.compile(r"(\w+)\[([^\]]*)\]( AS \w+)?")


class PartRunner:
    """Relations with the numbers of their first and last part."""

    def __init__(self, store: Store, source: str, rows: Iterable[Row], first: int, parts: int) -> None:
        self.store = store
        self.known = {source: (first, first + parts - 1)}
        rows = list(rows)
        for part in range(first, first + parts):
            store.put_rows(source, part, part * LENGTH, [row for row in rows if row.part == part])

    def run(self, statement: str) -> None:
        """Make all parts of a view for which there is data."""
        function = parse_one(statement)
        assert isinstance(function, CreateViewDelta)
        name, length = function.name, function.partition_length
        part = 0
        while not self._all_there(function.initialize.sql(), function.initialize_index, part):
            part += 1
            assert part < 100_000, f"{name} cannot be initialized"
        sql, index, first = function.initialize.sql(), function.initialize_index, part
        while self._not_ahead(sql, index, part):
            self.store.put_query(name, part, part * length, self._filled(sql, index, part))
            self.known[name] = (first, part)
            sql, index, part = function.update.sql(), function.update_index, part + 1

    def parts(self, name: str) -> range:
        first, last = self.known[name]
        return range(first, last + 1)

    def _spans(self, sql: str, index: str, part: int) -> list[tuple[str, int, int]]:
        return [(match[1], *_span(match[2], index, part)) for match in _REFERENCE.finditer(sql)]

    def _all_there(self, sql: str, index: str, part: int) -> bool:
        return self._not_ahead(sql, index, part) and all(
            self.known[name][0] <= low for name, low, _ in self._spans(sql, index, part)
        )

    def _not_ahead(self, sql: str, index: str, part: int) -> bool:
        return all(high <= self.known[name][1] for name, _, high in self._spans(sql, index, part))

    def _filled(self, sql: str, index: str, part: int) -> str:
        def put(match: re.Match[str]) -> str:
            low, high = _span(match[2], index, part)
            parts = [number for number in range(low, high + 1) if number >= self.known[match[1]][0]]
            return self.store.named(match[1], parts) + (match[3] or f" AS {match[1]}")

        return _REFERENCE.sub(put, sql)


def _span(reference: str, index: str, part: int) -> tuple[int, int]:
    low, _, high = reference.partition("..")
    first, last = (int(eval(text, {"__builtins__": {}}, {index: part})) for text in (low, high or low))
    return first, last
