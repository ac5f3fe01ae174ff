"""Runs view delta functions part by part, as the runtime does, with every part a temporary view of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.language import CreateViewDelta, Query
from headrace.language.relations import find_relations

PART_TIMESTAMP = "PART_TIMESTAMP"


def start_of(part: int, length: int) -> datetime:
    return datetime.fromtimestamp(part * length, UTC)


class Parts:
    """The parts of relations by name and number, on a session of the engine."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._frames: dict[tuple[str, int], Any] = {}
        self._lengths: dict[str, int] = {}

    def put(self, name: str, part: int, frame: Any, length: int) -> None:
        self._frames[name, part] = frame
        self._lengths[name] = length

    def fill(self, view: CreateViewDelta, part: int, first: bool) -> list[tuple[Any, ...]]:
        """Compute one part of a view, and give its rows."""
        query, index = (view.initialize, view.initialize_index) if first else (view.update, view.update_index)
        frame = self._spark.sql(self._spark_text(query, index, part))
        table = frame.toArrow()
        self.put(view.name, part, self._spark.createDataFrame(table, frame.schema), view.partition_length)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def schema(self, name: str, part: int) -> dict[str, str]:
        return dict(self._frames[name, part].dtypes)

    def _spark_text(self, query: Query, index: str, part: int) -> str:
        tree = query.tree.copy()
        shown = [ref.part_timestamp for ref in query.relations()]
        names = []
        for table, with_timestamp in zip(find_relations(tree), shown, strict=True):
            (reference,) = table.args["suffixes"]
            first = _number(reference.this.sql(), index, part)
            last = first if reference.args.get("to") is None else _number(reference.args["to"].sql(), index, part)
            table.set("suffixes", None)
            names.append(self._named(table.name, range(first, last + 1), with_timestamp))
        return Query(tree).to_spark(names)

    def _named(self, name: str, parts: Sequence[int], with_timestamp: bool) -> str:
        whole = None
        for part in parts:
            frame = self._frames[name, part]
            if with_timestamp:
                start = start_of(part, self._lengths[name]).isoformat()
                frame = frame.selectExpr("*", f"CAST('{start}' AS TIMESTAMP) AS {PART_TIMESTAMP}")
            whole = frame if whole is None else whole.unionByName(frame)
        view = f"{name}_{parts[0]}_{parts[-1]}_{'t' if with_timestamp else 'p'}"
        assert whole is not None
        whole.createOrReplaceTempView(view)
        return view


def _number(text: str, index: str, part: int) -> int:
    """The value of `j * 5 + 4`."""
    return int(eval(text, {"__builtins__": {}}, {index: part}))
