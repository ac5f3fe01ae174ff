"""Parts in an SQLite database in memory: the generated SQL on a second engine, fast enough for many random cases.

SQLite has no timestamps and no intervals, so part timestamps are seconds here; what it lacks of Spark's aggregates is
given to it in Python.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from tests.part_wise import brute_window
from tests.part_wise.brute_window import COLUMNS, Row

_INTERVAL = re.compile(r"INTERVAL '(\d+)' SECONDS?")
#: SQLite would divide decimals that happen to be whole as integers.
_DECIMAL = re.compile(r"DECIMAL\(\d+, \d+\)")
_NAMES = ", ".join(name for name, _ in COLUMNS)


class SqliteStore:
    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        for name, arguments, finish in _AGGREGATES:
            self.database.create_aggregate(name, arguments, _aggregate(finish))

    def put_rows(self, name: str, part: int, start: int, rows: Sequence[Row]) -> None:
        self.database.execute(f"CREATE TABLE {name}_{part} ({_NAMES}, PART_TIMESTAMP)")
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        values = [tuple(float(v) if isinstance(v, Decimal) else v for v in (*row.values(), start)) for row in rows]
        self.database.executemany(f"INSERT INTO {name}_{part} VALUES ({marks})", values)

    def put_query(self, name: str, part: int, start: int, sql: str) -> None:
        sql = _DECIMAL.sub("REAL", _INTERVAL.sub(r"\1", sql))
        self.database.execute(f"CREATE TABLE {name}_{part} AS SELECT *, {start} AS PART_TIMESTAMP FROM ({sql})")

    def named(self, name: str, parts: Sequence[int]) -> str:
        if not parts:
            (table,) = self.database.execute(
                f"SELECT name FROM sqlite_master WHERE name GLOB '{name}_[0-9]*' LIMIT 1"
            ).fetchone()
            return f"(SELECT * FROM {table} WHERE 0)"
        return f"({' UNION ALL '.join(f'SELECT * FROM {name}_{part}' for part in parts)})"

    def rows(self, name: str, part: int) -> list[tuple[Any, ...]]:
        return [row[:-1] for row in self.database.execute(f"SELECT * FROM {name}_{part}")]


def _aggregate(finish: Callable[[list[tuple[Any, ...]]], Any]) -> Any:
    class Aggregate:
        def __init__(self) -> None:
            self.seen: list[tuple[Any, ...]] = []

        def step(self, *values: Any) -> None:
            if values[0] is not None:
                self.seen.append(values)

        def finalize(self) -> Any:
            return finish(self.seen)

    return Aggregate


def _plain(function: Callable[[list[Any]], Any]) -> Callable[[list[tuple[Any, ...]]], Any]:
    return lambda seen: function([value for (value,) in seen])


_AGGREGATES: list[tuple[str, int, Callable[[list[tuple[Any, ...]]], Any]]] = [
    ("var_pop", 1, _plain(lambda values: brute_window._variance(values, 0))),
    ("bool_and", 1, _plain(lambda values: min(values, default=None))),
    ("bool_or", 1, _plain(lambda values: max(values, default=None))),
    ("bit_and", 1, _plain(lambda values: brute_window._folded(values, int.__and__))),
    ("bit_or", 1, _plain(lambda values: brute_window._folded(values, int.__or__))),
    ("bit_xor", 1, _plain(lambda values: brute_window._folded(values, int.__xor__))),
    ("count_if", 1, _plain(sum)),
    ("count", 2, lambda seen: sum(second is not None for _, second in seen)),
    (
        "percentile",
        3,
        lambda seen: brute_window.percentile([x for x, _, n in seen for _ in range(n)], seen[0][1] if seen else 0.5),
    ),
]
