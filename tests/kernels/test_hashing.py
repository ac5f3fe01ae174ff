"""The hash of keys, as engines compute it: states that an engine filled are looked up here."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.algebra.nodes import Column
from headrace.engine import Engine
from headrace.language.types import arrow_type
from headrace.maintenance.operators.base import hash_sql
from headrace.storage.hashing import can_hash, hashes

ROWS = 500
TYPES = {
    "t": "TINYINT",
    "s": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "b": "BOOLEAN",
    "d": "DATE",
    "ts": "TIMESTAMP",
    "ntz": "TIMESTAMP_NTZ",
    "x": "STRING",
    "p": "DECIMAL(18,4)",
    "w": "DECIMAL(38,4)",
    "w0": "DECIMAL(19,0)",
    "w38": "DECIMAL(38,38)",
    "w20": "DECIMAL(38,20)",
    "f": "FLOAT",
    "g": "DOUBLE",
}
KEYS = [[name] for name in TYPES] + [
    ["l", "i"],
    ["x", "l", "x"],
    ["i", "b", "d", "x", "p"],
    ["g", "f"],
    ["w", "l", "w20"],
]


WIDE = {"w": (38, 4), "w0": (19, 0), "w38": (38, 38), "w20": (38, 20)}


def _decimal(draw: random.Random, digits: int, scale: int) -> Decimal:
    """Of any order of size, zero too."""
    with localcontext(prec=50):
        most = 10 ** draw.randint(0, digits) - 1
        return Decimal(draw.randint(-most, most)).scaleb(-scale)


def _table() -> pa.Table:
    draw = random.Random(7)
    lengths = (0, 1, 3, 4, 5, 7, 8, 9, 12, 15, 31, 32, 33, 40, 64, 70, 100)
    floats = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e-30]
    moments = [timedelta(microseconds=draw.randint(-(10**16), 10**16)) for _row in range(ROWS)]
    values: dict[str, list[Any]] = {
        "t": [draw.randint(-128, 127) for _row in range(ROWS)],
        "s": [draw.randint(-(2**15), 2**15 - 1) for _row in range(ROWS)],
        "i": [draw.randint(-(2**31), 2**31 - 1) for _row in range(ROWS)],
        "l": [draw.randint(-(2**63), 2**63 - 1) for _row in range(ROWS)],
        "b": [draw.random() < 0.5 for _row in range(ROWS)],
        "d": [date(1900, 1, 1) + timedelta(days=draw.randint(0, 70_000)) for _row in range(ROWS)],
        "ts": [datetime(2020, 1, 1, tzinfo=UTC) + moment for moment in moments],
        "ntz": [datetime(2020, 1, 1) + moment for moment in moments],
        "x": ["".join(draw.choice("abcÄ€z 漢") for _ in range(draw.choice(lengths))) for _row in range(ROWS)],
        "p": [Decimal(draw.randint(-(10**18) + 1, 10**18 - 1)).scaleb(-4) for _row in range(ROWS)],
        **{name: [_decimal(draw, digits, scale) for _row in range(ROWS)] for name, (digits, scale) in WIDE.items()},
        "f": [draw.choice(floats) for _row in range(ROWS)],
        "g": [draw.choice([*floats, draw.random()]) for _row in range(ROWS)],
    }
    with_nulls = {name: [None if draw.random() < 0.1 else value for value in some] for name, some in values.items()}
    return pa.table({name: pa.array(some, arrow_type(TYPES[name])) for name, some in with_nulls.items()})


def test_hashes_are_those_of_the_engine(engine: Engine) -> None:
    table = _table()
    columns = [Column(name, kind) for name, kind in TYPES.items()]
    texts = [f"{hash_sql(key, columns)} AS h{number}" for number, key in enumerate(KEYS)]
    found = engine.arrow(engine.frame(table).selectExpr(*TYPES, *texts))
    rows = found.select(list(TYPES)).cast(table.schema)
    for number, key in enumerate(KEYS):
        assert np.array_equal(hashes(rows, key), found.column(f"h{number}").to_numpy()), key


def test_slices_and_chunks_hash_like_the_whole() -> None:
    table = _table()
    whole = hashes(table, ["x", "l"])
    pieces = pa.concat_tables([table.slice(0, 3), table.slice(3, 400), table.slice(403)])
    assert np.array_equal(hashes(pieces, ["x", "l"]), whole)
    assert np.array_equal(hashes(table.slice(100, 50), ["x", "l"]), whole[100:150])


def test_no_key_and_no_rows() -> None:
    table = _table()
    assert not hashes(table, []).any()
    assert len(hashes(table.slice(0, 0), ["x", "i", "g"])) == 0


@pytest.mark.parametrize("kind", ["BINARY", "ARRAY<INT>", "INTERVAL DAY TO SECOND"])
def test_what_engines_hash_otherwise_is_left_to_them(kind: str) -> None:
    assert not can_hash([arrow_type(kind)])
    assert not can_hash([arrow_type("INT"), arrow_type(kind)])
