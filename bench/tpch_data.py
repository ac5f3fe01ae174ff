"""TPC-H data: made by tpchgen-cli, kept as Parquet files, with the last 1 % of orders and customers held back.

A data set is a folder with `base` (one or more files a table) and `held` (new orders, their lines, and new customers,
for the changes to come). The generator's types are kept: keys are BIGINT and sums of money DECIMAL(15,2). Only its
Arrow string views become strings, which is what everybody reads.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import caches
from headrace.errors import EngineError
from headrace.language.types import arrow_type
from headrace.session import Session

#: How much of orders and customer is held back, with the lines of those orders.
HELD = 0.01

#: Lines are cut into files of about so many rows, so that an engine's tasks can share the work.
ROWS_A_FILE = 1_500_000


@dataclass(frozen=True)
class Relation:
    """One of the eight: its columns with their types, its key, and which columns hold which relation's key."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    refers: Mapping[tuple[str, ...], str]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.columns.items()])

    @property
    def declared(self) -> str:
        """The columns as a CREATE statement lists them."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns.items())

    @property
    def foreign_keys(self) -> str:
        """Clauses of a CREATE statement, of the foreign keys that hold from the beginning: plans may build on them."""
        return "".join(
            f" FOREIGN KEY ({', '.join(of)}) REFERENCES {other} ({', '.join(RELATIONS[other].key)}) RELY"
            for of, other in self.refers.items()
            if of not in DANGLING
        )


def _relation(name: str, columns: str, key: str, **refers: str) -> Relation:
    pairs = (column.split() for column in columns.split(","))
    found = {column: _TYPES[kind] for column, kind in pairs}
    return Relation(name, found, tuple(key.split()), {tuple(of.split()): relation for relation, of in refers.items()})


_TYPES = {"k": "BIGINT", "i": "INT", "s": "STRING", "m": "DECIMAL(15,2)", "d": "DATE"}

#: The eight relations, each after those it refers to.
RELATIONS: dict[str, Relation] = {
    relation.name: relation
    for relation in (
        _relation("region", "r_regionkey k, r_name s, r_comment s", "r_regionkey"),
        _relation(
            "nation",
            "n_nationkey k, n_name s, n_regionkey k, n_comment s",
            "n_nationkey",
            region="n_regionkey",
        ),
        _relation(
            "supplier",
            "s_suppkey k, s_name s, s_address s, s_nationkey k, s_phone s, s_acctbal m, s_comment s",
            "s_suppkey",
            nation="s_nationkey",
        ),
        _relation(
            "customer",
            "c_custkey k, c_name s, c_address s, c_nationkey k, c_phone s, c_acctbal m, c_mktsegment s, c_comment s",
            "c_custkey",
            nation="c_nationkey",
        ),
        _relation(
            "part",
            "p_partkey k, p_name s, p_mfgr s, p_brand s, p_type s, p_size i, p_container s, p_retailprice m,"
            " p_comment s",
            "p_partkey",
        ),
        _relation(
            "partsupp",
            "ps_partkey k, ps_suppkey k, ps_availqty i, ps_supplycost m, ps_comment s",
            "ps_partkey ps_suppkey",
            part="ps_partkey",
            supplier="ps_suppkey",
        ),
        _relation(
            "orders",
            "o_orderkey k, o_custkey k, o_orderstatus s, o_totalprice m, o_orderdate d, o_orderpriority s, o_clerk s,"
            " o_shippriority i, o_comment s",
            "o_orderkey",
            customer="o_custkey",
        ),
        _relation(
            "lineitem",
            "l_orderkey k, l_partkey k, l_suppkey k, l_linenumber i, l_quantity m, l_extendedprice m, l_discount m,"
            " l_tax m, l_returnflag s, l_linestatus s, l_shipdate d, l_commitdate d, l_receiptdate d,"
            " l_shipinstruct s, l_shipmode s, l_comment s",
            "l_orderkey l_linenumber",
            orders="l_orderkey",
            partsupp="l_partkey l_suppkey",
        ),
    )
}

#: The base has orders of customers that are held back.
DANGLING = (("o_custkey",),)

#: What is held back is cut by this column.
_CUT_BY = {"customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey"}


@dataclass(frozen=True)
class DataSet:
    """The files of one scale factor."""

    scale: float
    folder: Path

    def base(self, table: str) -> list[Path]:
        """The files of what is there from the beginning."""
        return sorted((self.folder / "base" / table).glob("*.parquet"))

    def glob(self, table: str) -> str:
        return str(self.folder / "base" / table / "*.parquet")

    def rows(self, table: str) -> int:
        return sum(int(pq.read_metadata(path).num_rows) for path in self.base(table))

    def read(self, table: str) -> pa.Table:
        """All base rows of a table; for small scales, and small tables of large ones."""
        return pa.concat_tables([pq.read_table(path) for path in self.base(table)])

    def held(self, table: str) -> pa.Table:
        """The rows held back, by key."""
        return pq.read_table(self.folder / "held" / f"{table}.parquet").sort_by(_CUT_BY[table])


def data_set(scale: float, cache: str | Path | None = None, done: Callable[[], None] = lambda: None) -> DataSet:
    """The data of a scale factor, generated the first time it is asked for. `done` is called `pieces(scale)` times."""
    path = caches.folder(cache) / "tpch" / f"sf{scale:g}"
    if path.exists():
        for _piece in range(pieces(scale)):
            done()
    return DataSet(scale, caches.kept(path, lambda folder: _make(folder, scale, done)))


def pieces(scale: float) -> int:
    """Into how many files the large tables are cut."""
    return max(1, round(6_000_000 * scale / ROWS_A_FILE))


def _make(folder: Path, scale: float, done: Callable[[], None]) -> None:
    (folder / "held").mkdir()
    for name in RELATIONS:
        (folder / "base" / name).mkdir(parents=True)
    raw = folder / "raw"
    last = pieces(scale)
    for piece in range(1, last + 1):
        # The generator needs a second to start, so it is asked for several tables at once.
        _generate(raw, scale, tuple(_CUT_BY), piece, last)
        for name in _CUT_BY:
            _write(folder, scale, name, sorted(raw.glob(f"{name}/*.parquet")), piece, cut=piece == last)
        shutil.rmtree(raw)
        done()
    small = tuple(name for name in RELATIONS if name not in _CUT_BY)
    _generate(raw, scale, small, 1, 1)
    for name in small:
        _write(folder, scale, name, sorted(raw.glob(f"{name}/*.parquet")), 1, cut=False)
    shutil.rmtree(raw)


def _write(folder: Path, scale: float, name: str, made: list[Path], piece: int, *, cut: bool) -> None:
    """Write generated rows with our types; where there is a `cut`, on its two sides."""
    schema = RELATIONS[name].schema
    late: list[pa.Table] = []
    with pq.ParquetWriter(folder / "base" / name / f"{piece:03}.parquet", schema) as writer:
        for rows in _batches(made, schema):
            # Below 1,000 suppliers the standard's formula may give a part the same supplier twice.
            rows = rows if name != "partsupp" else _first_of_each(rows, RELATIONS[name].key)
            if cut:
                new = pc.greater(rows.column(_CUT_BY[name]), _last_key_of_base(name, scale))
                late.append(rows.filter(new))
                rows = rows.filter(pc.invert(new))
            if rows.num_rows:
                writer.write_table(rows)
    if cut:
        pq.write_table(pa.concat_tables(late), folder / "held" / f"{name}.parquet")


def _last_key_of_base(name: str, scale: float) -> int:
    """The key that the first 99 % end with. Order keys are sparse: of each 32, the generator uses the first 8."""
    if name == "customer":
        return int(150_000 * scale * (1 - HELD))
    index = int(1_500_000 * scale * (1 - HELD))
    return (index >> 3 << 5) | (index & 7)


def codes(rows: pa.Table, key: Sequence[str]) -> np.ndarray:
    """Each row's key as one number."""
    found = np.zeros(rows.num_rows, dtype=np.int64)
    for name in key:
        found = (found << 24) + rows.column(name).to_numpy().astype(np.int64)
    return found


def _first_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    _found, first = np.unique(codes(rows, key), return_index=True)
    return rows if len(first) == rows.num_rows else rows.take(pa.array(np.sort(first)))


def _batches(paths: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=500_000):
            yield pa.Table.from_batches([batch]).cast(schema)


def _generate(folder: Path, scale: float, tables: tuple[str, ...], part: int, parts: int) -> None:
    command = [_generator(), "parquet", "--scale-factor", f"{scale:g}", "--tables", ",".join(tables)]
    command += ["--parts", str(parts), "--part", str(part), "--output-dir", str(folder), "--quiet"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        raise RuntimeError(f"tpchgen-cli failed: {told.stderr.strip() or told.stdout.strip()}")


def _generator() -> str:
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise EngineError(
            "BENCH_NOT_INSTALLED", "The benchmarks need tpchgen-cli.", hint="pip install 'headrace[bench]'"
        )
    return found


# --- Into a home -----------------------------------------------------------------------------------------------------


def declare_streams(session: Session, data: DataSet | None = None, *, whole: bool = False) -> None:
    """The eight as streams with a key, whose rows say what they do in a column `op`; NULL there means `+`.

    With a data set, the next refresh lands its base files in bulk. It is the quickest way in: tasks do it, and nothing
    is looked up. Changes are then fed. `whole`: no row of theirs is left without what it refers to, and foreign keys
    are declared.
    """
    for relation in RELATIONS.values():
        source = "" if data is None else f" SOURCE FILES '{data.glob(relation.name)}' FORMAT parquet"
        session.sql(
            f"CREATE STREAM {relation.name} (op STRING, {relation.declared}) KEY ({', '.join(relation.key)}){source}"
            f"{relation.foreign_keys if whole else ''} WITH (op = 'op')"
        )


def declare_tables(session: Session) -> None:
    """The eight as tables with a primary key, empty."""
    for relation in RELATIONS.values():
        session.sql(f"CREATE TABLE {relation.name} ({relation.declared}, PRIMARY KEY ({', '.join(relation.key)}))")
