"""Parts as rows on the driver, and queries over them on Spark."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from tests.part_wise.brute_window import COLUMNS, Row

_COLUMNS = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS)


class SparkStore:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.schemas: dict[str, StructType] = {}
        self.kept: dict[tuple[str, int], tuple[datetime, list[tuple[Any, ...]]]] = {}
        self.numbers = itertools.count()

    def put_rows(self, name: str, part: int, start: int, rows: Sequence[Row]) -> None:
        self.schemas[name] = StructType.fromDDL(_COLUMNS)
        self.kept[name, part] = (datetime.fromtimestamp(start, UTC), [row.values() for row in rows])

    def put_query(self, name: str, part: int, start: int, sql: str) -> None:
        frame = self.spark.sql(sql)
        known = self.schemas.setdefault(name, frame.schema)
        # The parts of a relation are of one kind, whichever query made them.
        assert [(f.name, f.dataType) for f in known] == [(f.name, f.dataType) for f in frame.schema], name
        self.kept[name, part] = (datetime.fromtimestamp(start, UTC), [tuple(row) for row in frame.collect()])

    def named(self, name: str, parts: Sequence[int]) -> str:
        rows = [(*row, start) for part in parts for start, found in [self.kept[name, part]] for row in found]
        fields = [StructField(field.name, field.dataType) for field in self.schemas[name]]
        schema = StructType([*fields, StructField("PART_TIMESTAMP", TimestampType())])
        view = f"part_wise_{next(self.numbers)}"
        self.spark.createDataFrame(rows, schema).createOrReplaceTempView(view)
        return view

    def rows(self, name: str, part: int) -> list[tuple[Any, ...]]:
        return self.kept[name, part][1]

    def types(self, name: str) -> list[tuple[str, str]]:
        return [(field.name, field.dataType.simpleString()) for field in self.schemas[name]]
