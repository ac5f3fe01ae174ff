"""Structured Streaming sources: Spark reads them, `foreachBatch` lands each micro-batch, exactly once.

The id of the last landed batch is committed with its rows. Spark replays a batch whose end it had not noted yet; a
batch whose id is in the catalog already is passed over.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import DefinitionError, EngineError, InputError
from headrace.maintenance.logs import quoted
from headrace.runtime.files import land_files
from headrace.runtime.home import Home
from headrace.runtime.landing import streams_over
from headrace.sources.globs import list_files
from headrace.storage.records import Object


def land_available(home: Home, source: Object) -> int:
    """Land all a source has now. Returns the number of rows."""
    home.engine.need("structured_streaming")
    landed = _Lander(home, source)
    reader = home.engine.spark.readStream.format(source.option("format"))
    for name, value in dict(source.option("options") or {}).items():
        reader = reader.option(name, _text(value))
    if source.option("format") in ("json", "csv", "parquet", "orc", "text"):
        reader = reader.schema(", ".join(f"{quoted(field.name)} {field.type}" for field in source.columns))
    with home.engine.translated():
        query = (
            reader.load()
            .writeStream.foreachBatch(landed.batch)
            .option("checkpointLocation", home.files.spark_path(f"{source.name.lower()}/checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if landed.error is not None:
                raise landed.error from error
            raise EngineError("STREAM_FAILED", f"Reading {source.name} failed: {str(error).splitlines()[0]}") from error
    return landed.rows


class _Lander:
    def __init__(self, home: Home, source: Object) -> None:
        self._home = home
        self._source = source
        self.rows = 0
        self.error: Exception | None = None

    def batch(self, frame: Any, number: int) -> None:
        """Land one micro-batch."""
        try:
            self._land(frame, number)
        except Exception as error:
            self.error = error
            raise

    def _land(self, frame: Any, number: int) -> None:
        home, source = self._home, self._source
        columns = {name.lower(): name for name in frame.columns}
        for field in source.columns:
            if field.name.lower() not in columns:
                raise DefinitionError(
                    "MISSING_COLUMN",
                    f"The format {source.option('format')} gives no column {field.name} ({source.name}).",
                    hint=f"It gives: {', '.join(frame.columns)}.",
                )
        wanted = [
            f"CAST({quoted(columns[field.name.lower()])} AS {field.type}) AS {quoted(field.name)}"
            for field in source.columns
        ]
        with home.transaction(f"land batch {number} of {source.name}") as transaction:
            streams = streams_over(transaction.base, source)
            if not streams:
                raise InputError("NO_STREAM", f"No stream takes rows from {source.name}.")
            with home.files.stage() as folder:
                home.engine.write(frame.selectExpr(*wanted), folder)
                entries = list_files(f"{folder}/*.parquet")
                for stream in streams:
                    # A stream that joined later starts with the batches that come after it.
                    if number <= (transaction.offset(stream) or {"batch": -1})["batch"]:
                        continue
                    self.rows += land_files(
                        home, transaction, source, stream, entries, "parquet", remember=False, together=True
                    )
                    transaction.set_offset(stream, {"batch": number})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
