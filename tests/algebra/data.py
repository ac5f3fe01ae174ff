"""Small relations with NULLs and duplicates, on an engine as temporary views, and queries compared as bags."""

from __future__ import annotations

import contextlib
import datetime
import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.algebra.binder import Bound, bind
from headrace.algebra.cells import join_by_cells
from headrace.algebra.core import to_core
from headrace.algebra.pushdown import optimise
from headrace.algebra.text import to_sql
from headrace.engine import Engine
from headrace.language import Query, Select, parse_one

from . import tpch


def day(number: int | None) -> datetime.date | None:
    return None if number is None else datetime.date(2024, 1, number)


def moment(seconds: float) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)


#: Each relation: its columns with their types, and its rows.
TABLES: dict[str, tuple[dict[str, str], list[tuple[Any, ...]]]] = {
    "t": (
        {"k": "int", "v": "int", "s": "string", "p": "decimal(10,2)", "dt": "date"},
        [
            (1, 10, "x", Decimal("1.50"), day(1)),
            (1, 10, "x", Decimal("1.50"), day(1)),
            (1, 11, "y", Decimal("2.00"), day(2)),
            (2, 20, None, None, day(3)),
            (2, None, "x", Decimal("0.25"), None),
            (3, 5, "z", Decimal("-1.00"), day(1)),
            (None, 30, "z", Decimal("7.00"), day(4)),
            (None, None, None, None, None),
            (4, 0, "", Decimal("0.00"), day(2)),
            (5, -7, "y", Decimal("9.99"), day(5)),
        ],
    ),
    "u": (
        {"k": "int", "w": "int", "s": "string", "q": "decimal(12,4)"},
        [
            (1, 100, "x", Decimal("1.5000")),
            (1, 11, "q", Decimal("2.0000")),
            (2, 200, "y", None),
            (2, 20, None, Decimal("0.2500")),
            (2, 20, None, Decimal("0.2500")),
            (None, 300, "z", Decimal("7.0000")),
            (6, None, "x", Decimal("3.3333")),
            (5, 5, "y", Decimal("9.9900")),
        ],
    ),
    "b": (
        {"k": "bigint", "g": "string", "n": "string"},
        [(1, "a", "1"), (2, "a", "2"), (2, "b", "3"), (None, "b", "4"), (7, None, "1"), (4, "a", None)],
    ),
    "c": ({"k": "int", "y": "int"}, [(1, 1), (2, 1), (2, 10), (3, None), (None, 2), (5, 5), (5, 5), (10, 20)]),
    "e": ({"k": "int", "x": "int"}, []),
    "m": (
        {"id": "int", "at": "timestamp", "x": "bigint"},
        [
            (1, moment(0), -1),
            (2, moment(0.5), -(2**63)),
            (3, moment(-3), -(2**63) + 10),
            (4, moment(4.999999), 0),
            (5, moment(5), 11),
            (6, None, None),
            (7, moment(5), 12),
            (8, moment(10), -12),
            (9, moment(-0.000001), 2**63 - 1),
            (10, moment(1), 2**63 - 2),
            (11, moment(1), 2**63 - 11),
        ],
    ),
    "n": (
        {"id": "int", "a": "array<int>", "st": "struct<f:int,g:string>"},
        [
            (1, [1, 2, 2], {"f": 10, "g": "p"}),
            (2, [], {"f": 20, "g": None}),
            (3, None, None),
            (4, [None, 5], {"f": None, "g": "q"}),
        ],
    ),
}

_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(12,4)": pa.decimal128(12, 4),
    "array<int>": pa.list_(pa.int32()),
    "struct<f:int,g:string>": pa.struct([("f", pa.int32()), ("g", pa.string())]),
}

SCHEMA: dict[str, dict[str, str]] = {name: columns for name, (columns, _) in TABLES.items()} | tpch.SCHEMA


def load(engine: Engine) -> None:
    """Make all relations known to the engine."""
    for name, (columns, rows) in TABLES.items():
        cells = [[row[i] for row in rows] for i in range(len(columns))]
        arrays = [pa.array(cell, _ARROW[kind]) for cell, kind in zip(cells, columns.values(), strict=True)]
        engine.frame(pa.table(dict(zip(columns, arrays, strict=True)))).createOrReplaceTempView(name)
    for name, table in tpch.tables().items():
        engine.frame(table).createOrReplaceTempView(name)


def types_of(engine: Engine, text: str) -> tuple[str, ...]:
    with engine.translated():
        return tuple(field.dataType.simpleString() for field in engine.sql(text).schema)


def query(text: str) -> Query:
    statement = parse_one(text)
    assert isinstance(statement, Select)
    return statement.query


def bound(engine: Engine, text: str) -> Bound:
    """The query, bound with the engine's types."""
    parsed = query(text)
    stored = [(ref.name, tuple(SCHEMA[ref.name.lower()].items())) for ref in parsed.relations()]
    return bind(parsed, stored, lambda asked: types_of(engine, asked))


def bag(engine: Engine, text: str) -> Counter[tuple[Any, ...]]:
    """The rows of a text, each with how often it is there."""
    table = engine.arrow(engine.sql(text))
    columns = [column.to_pylist() for column in table.columns]
    return Counter(tuple(map(_plain, row)) for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.9g}")
    if isinstance(value, Decimal):
        return value.normalize() + 0
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return tuple((k, _plain(v)) for k, v in value.items()) if isinstance(value, dict) else value


def sqlite_bag(text: str) -> Counter[tuple[Any, ...]]:
    """The rows as SQLite sees them: an independent judge of plain SQL over numbers and strings."""
    base = sqlite3.connect(":memory:")
    for name in ("t", "u", "b", "e"):
        columns, rows = TABLES[name]
        base.execute(f"create table {name} ({', '.join(columns)})")
        cells = [tuple(float(v) if isinstance(v, Decimal) else v for v in row) for row in rows]
        cells = [tuple(v.isoformat() if isinstance(v, datetime.date) else v for v in row) for row in cells]
        base.executemany(f"insert into {name} values ({', '.join('?' * len(columns))})", cells)
    found = Counter(tuple(map(_plain, row)) for row in base.execute(text))
    base.close()
    return found


def judged(text: str, got: Counter[Any], judges: Sequence[Any]) -> str | None:
    """None if a judge's own answer is `got`; else what the last of them says. Judges are engines or give one."""
    told = "no engine runs it"
    for judge in judges:
        engine: Engine = judge() if callable(judge) else judge
        with contextlib.suppress(Exception):
            wanted = bag(engine, text)
            if wanted == got:
                return None
            told = f"{engine.kind}: too many {dict(got - wanted)}, missing {dict(wanted - got)}"
    return told


def answer(engine: Engine, text: str, *, raw: bool = False, cut: bool = False) -> tuple[Counter[Any], str]:
    """What the operator tree of the query gives, and its text; `cut`: in core form, with band joins by cells."""
    found = bound(engine, text)
    root = found.root if raw else optimise(found.root)
    root = join_by_cells(to_core(root)) if cut else root
    assert root.names == found.root.names
    assert len(found.output) == len(root.columns)
    written = to_sql(root, lambda scan: scan.name.lower())
    return bag(engine, written), written
