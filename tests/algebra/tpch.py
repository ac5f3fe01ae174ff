"""TPC-H in miniature: the eight relations with a few dozen rows each, made so that the joins of all queries hit."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

QUERIES = Path(__file__).parents[2] / "bench" / "tpch_queries"

SCHEMA: dict[str, dict[str, str]] = {
    "region": {"r_regionkey": "bigint", "r_name": "string", "r_comment": "string"},
    "nation": {"n_nationkey": "bigint", "n_name": "string", "n_regionkey": "bigint", "n_comment": "string"},
    "supplier": {
        "s_suppkey": "bigint", "s_name": "string", "s_address": "string", "s_nationkey": "bigint",
        "s_phone": "string", "s_acctbal": "decimal(15,2)", "s_comment": "string",
    },
    "part": {
        "p_partkey": "bigint", "p_name": "string", "p_mfgr": "string", "p_brand": "string", "p_type": "string",
        "p_size": "int", "p_container": "string", "p_retailprice": "decimal(15,2)", "p_comment": "string",
    },
    "partsupp": {
        "ps_partkey": "bigint", "ps_suppkey": "bigint", "ps_availqty": "int", "ps_supplycost": "decimal(15,2)",
        "ps_comment": "string",
    },
    "customer": {
        "c_custkey": "bigint", "c_name": "string", "c_address": "string", "c_nationkey": "bigint",
        "c_phone": "string", "c_acctbal": "decimal(15,2)", "c_mktsegment": "string", "c_comment": "string",
    },
    "orders": {
        "o_orderkey": "bigint", "o_custkey": "bigint", "o_orderstatus": "string", "o_totalprice": "decimal(15,2)",
        "o_orderdate": "date", "o_orderpriority": "string", "o_clerk": "string", "o_shippriority": "int",
        "o_comment": "string",
    },
    "lineitem": {
        "l_orderkey": "bigint", "l_partkey": "bigint", "l_suppkey": "bigint", "l_linenumber": "int",
        "l_quantity": "decimal(15,2)", "l_extendedprice": "decimal(15,2)", "l_discount": "decimal(15,2)",
        "l_tax": "decimal(15,2)", "l_returnflag": "string", "l_linestatus": "string", "l_shipdate": "date",
        "l_commitdate": "date", "l_receiptdate": "date", "l_shipinstruct": "string", "l_shipmode": "string",
        "l_comment": "string",
    },
}  # fmt: skip

# Few values each, and those that the queries ask for among them.
_WORDS: dict[str, list[str]] = {
    "r_name": ["ASIA", "EUROPE", "AMERICA", "AFRICA"],
    "n_name": ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "INDIA"],
    "p_name": ["green forest", "forest blue", "red rose", "green mint"],
    "p_brand": ["Brand#12", "Brand#23", "Brand#34", "Brand#45"],
    "p_type": ["ECONOMY ANODIZED STEEL", "PROMO BURNISHED BRASS", "MEDIUM POLISHED BRASS", "SMALL BRASS"],
    "p_container": ["SM CASE", "MED BOX", "MED BAG", "LG CASE", "SM PKG", "LG PKG"],
    "c_mktsegment": ["BUILDING", "MACHINERY"],
    "c_phone": ["13-100", "31-200", "23-300", "99-400"],
    "o_orderstatus": ["F", "O"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "3-MEDIUM"],
    "o_comment": ["plain", "special requests", "very special big requests"],
    "s_comment": ["good", "Customer sad Complaints", "fine"],
    "l_returnflag": ["R", "A", "N"],
    "l_linestatus": ["F", "O"],
    "l_shipmode": ["MAIL", "SHIP", "AIR", "AIR REG"],
    "l_shipinstruct": ["DELIVER IN PERSON", "NONE"],
}
_SIZES = {"region": 4, "nation": 6, "supplier": 12, "part": 40, "partsupp": 200, "customer": 16, "orders": 90}
# Some customers have no order.
_KEYS = {"regionkey": 4, "nationkey": 6, "suppkey": 12, "partkey": 40, "custkey": 12, "orderkey": 90}


def tables(seed: int = 52) -> dict[str, pa.Table]:
    """The eight relations as Arrow tables."""
    chance = random.Random(seed)
    return {name: _table(name, columns, chance) for name, columns in SCHEMA.items()}


def _table(name: str, columns: dict[str, str], chance: random.Random) -> pa.Table:
    size = _SIZES.get(name, 1500)
    own = next(iter(columns))
    made: dict[str, list[Any]] = {}
    for column, kind in columns.items():
        stem = column.split("_", 1)[1]
        if column == own and name in _KEYS_OF_THEIR_OWN:
            made[column] = list(range(size))
        elif stem in _KEYS:
            made[column] = [chance.randrange(_KEYS[stem]) for _ in range(size)]
        else:
            made[column] = [_value(column, kind, number, chance) for number in range(size)]
    return pa.table({column: pa.array(made[column], _arrow(kind)) for column, kind in columns.items()})


_KEYS_OF_THEIR_OWN = ("region", "nation", "supplier", "part", "customer", "orders")


def _arrow(kind: str) -> pa.DataType:
    plain = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "date": pa.date32()}
    return plain.get(kind) or pa.decimal128(15, 2)


def _value(column: str, kind: str, number: int, chance: random.Random) -> Any:
    if column in ("r_name", "n_name"):
        return _WORDS[column][number % len(_WORDS[column])]
    if column == "l_shipdate":
        return datetime.date(1993, 1, 1) + datetime.timedelta(days=chance.randrange(0, 6 * 365))
    if kind == "string":
        return chance.choice(_WORDS.get(column, ["a", "b", "c"]))
    if kind == "date":
        return datetime.date(1993, 1, 1) + datetime.timedelta(days=chance.randrange(0, 6 * 365, 7))
    if column == "p_size":
        return chance.choice([15, 14, 3, 9, 5, 49, 1])
    if column == "l_quantity":
        return Decimal(chance.randrange(1, 51))
    if column == "ps_availqty":
        return chance.randrange(1, 400)
    if kind == "int":
        return chance.randrange(1, 16)
    if column in ("l_discount", "l_tax"):
        return Decimal(chance.randrange(3, 9)) / 100
    return Decimal(chance.randrange(100, 5000)) / 100


def queries() -> dict[str, str]:
    """The 22 queries by name."""
    return {path.stem: path.read_text() for path in sorted(QUERIES.glob("q*.sql"))}
