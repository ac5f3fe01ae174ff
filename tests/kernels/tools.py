"""Random small tables of every type, and rows as plain Python values that can be counted."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

NAN = float("nan")

#: A busy machine is no failure.
patient = settings(deadline=None)

#: For each type, few values, so that rows repeat, with the edges of the type among them. NULL is added.
POOLS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -(2**63), 2**63 - 1]),
    (pa.int32(), [0, 1, 2]),
    (pa.int8(), [0, -128, 127]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float64(), [0.0, -0.0, 1.5, NAN, -NAN, float("inf"), float("-inf"), -1e300]),
    (pa.float32(), [0.0, -0.0, 1.5, NAN]),
    (pa.string(), ["", "a", "b", "ä", "\U0001f600", "\uffff", "a\x00"]),
    (pa.large_string(), ["", "a"]),
    (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [date(1970, 1, 1), date(1600, 1, 1), date(2024, 2, 29)]),
    (pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, tzinfo=UTC)]),
    (pa.timestamp("us"), [datetime(1970, 1, 1), datetime(2024, 2, 29, 12)]),
    (pa.time64("us"), [time(0), time(23, 59)]),
    (pa.duration("us"), [timedelta(0), timedelta(days=-1)]),
    (pa.decimal128(12, 3), [Decimal("0.000"), Decimal("1.500"), Decimal("-123456789.125")]),
    (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")]),
    (pa.dictionary(pa.int32(), pa.string()), ["x", "y"]),
    (pa.null(), []),
    (pa.list_(pa.float64()), [[], [None], [1.0], [-0.0], [0.0], [NAN, 1.0], [NAN, None]]),
    (pa.list_(pa.list_(pa.string())), [[], [[]], [None], [["a", None]], [["a"], ["b"]]]),
    (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": None, "b": None}, {"a": 1, "b": "x"}, {"a": 1, "b": None}],
    ),
    (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", 1), ("b", None)], [("b", None), ("a", 1)]]),
]
NESTED = [(kind, pool) for kind, pool in POOLS if pa.types.is_nested(kind)]
FLAT = [(kind, pool) for kind, pool in POOLS if not pa.types.is_nested(kind)]
#: Types a key or row usually has, for tests that are not about types.
COMMON = [POOLS[0], POOLS[4], POOLS[6], POOLS[15]]


def plain(value: Any) -> Any:
    """A value that equals another exactly when SQL groups them together."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return ("struct", *((name, plain(item)) for name, item in value.items()))
    if isinstance(value, list):
        items = [plain(item) for item in value]
        return (
            ("map", frozenset(items))
            if items and isinstance(items[0], tuple) and items[0][:1] == ("entry",)
            else ("list", *items)
        )
    if isinstance(value, tuple):
        return ("entry", *map(plain, value))
    if isinstance(value, bool):
        return ("bool", value)
    return value


def rows(table: pa.Table, columns: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
    """The rows as tuples of plain values."""
    names = table.column_names if columns is None else columns
    if not names:
        return [()] * table.num_rows
    lists = [[plain(value) for value in table.column(name).to_pylist()] for name in names]
    return list(zip(*lists, strict=True))


def counted(table: pa.Table, columns: Sequence[str], measure: str = "__w") -> Counter[tuple[Any, ...]]:
    """How often each row occurs, without those that do not."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row, weight in zip(rows(table, columns), table.column(measure).to_pylist(), strict=True):
        found[row] += weight
    return nonzero(found)


def nonzero(found: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({row: weight for row, weight in found.items() if weight})


def column(kind: pa.DataType, values: Iterable[Any]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(list(values), kind.value_type).dictionary_encode()
    return pa.array(list(values), kind)


@st.composite
def tables(
    draw: st.DrawFn,
    kinds: Sequence[tuple[pa.DataType, list[Any]]],
    *,
    prefix: str = "c",
    max_size: int = 12,
    times: bool = False,
    weights: tuple[int, int] | None = (-2, 2),
    measures: Sequence[str] = ("__w",),
) -> pa.Table:
    """Rows of the given types, in one to three chunks, with `__h` that sometimes collides."""
    size = draw(st.integers(0, max_size))
    found: dict[str, Any] = {}
    for number, (kind, pool) in enumerate(kinds):
        value = st.one_of(st.none(), st.sampled_from(pool)) if pool else st.none()
        found[f"{prefix}{number}"] = column(kind, draw(st.lists(value, min_size=size, max_size=size)))
    table = pa.table(found) if found else pa.table({"__none": pa.nulls(size)})
    if times:
        listed = draw(st.lists(st.sampled_from([5, 7, 2**50, -(2**62), 2**62 + 1]), min_size=size, max_size=size))
        table = table.append_column("__t", pa.array(listed, pa.int64()))
    if weights is not None:
        for name in measures:
            weight = st.integers(*weights).filter(lambda number: number != 0)
            table = table.append_column(
                name, pa.array(draw(st.lists(weight, min_size=size, max_size=size)), pa.int64())
            )
    table = table.drop_columns(["__none"]) if "__none" in table.column_names else table
    cut = draw(st.integers(0, size))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)]) if table.num_columns else table


def with_hash(table: pa.Table, keys: Sequence[str], *, collide: bool) -> pa.Table:
    """The table with `__h` of its key: the same for all, or nearly a real one."""
    if collide:
        hashes = [0] * table.num_rows
    else:
        hashes = [zlib.crc32(_spelled(row).encode()) % 7 - 3 for row in rows(table, keys)]
    return table.append_column("__h", pa.array(hashes, pa.int64()))


def _spelled(value: Any) -> str:
    """A plain value as text that is the same for equal ones, in every process."""
    if isinstance(value, tuple):
        return f"({','.join(map(_spelled, value))})"
    return f"{{{','.join(sorted(map(_spelled, value)))}}}" if isinstance(value, frozenset) else repr(value)


def kinds(pools: Sequence[tuple[pa.DataType, list[Any]]], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(pools), min_size=1, max_size=most)


def unscaled(value: Decimal, scale: int) -> int:
    """A decimal as the whole number it is stored as."""
    with localcontext() as context:
        context.prec = 60
        return int(value.scaleb(scale))
