"""Streams to read with Spark, and queries that run to an end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from millstream import DurableStream

JSON = "application/json"
TIMEOUT_S = 90


class Streams:
    """Streams in one folder of a server."""

    def __init__(self, spark: SparkSession | None, url: str, folder: str) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder

    def name(self, short: str) -> str:
        return f"{self.folder}/{short}"

    def create(self, short: str, content_type: str = JSON, messages: Any = ()) -> DurableStream:
        made = DurableStream.create(f"{self.url}/{quote(self.name(short))}", content_type=content_type)
        made.append_all(messages)
        return made

    def batch(self, *shorts: str, **options: Any) -> DataFrame:
        return self._options(self.spark.read.format("durable-streams"), shorts, options).load()

    def following(self, *shorts: str, **options: Any) -> DataFrame:
        return self._options(self.spark.readStream.format("durable-streams"), shorts, options).load()

    def _options(self, reader: Any, shorts: tuple[str, ...], options: dict[str, Any]) -> Any:
        found = {"url": self.url, **options}
        if shorts:
            found["streams"] = ",".join(map(self.name, shorts))
        for name, value in found.items():
            reader = reader.option(name, value)
        return reader


class StopHereError(Exception):
    """A batch that fails on purpose."""


class Recorder:
    """Runs a query and keeps the rows of each micro-batch, by its number."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: dict[int, list[Row]] = {}
        self.fails_in: int | None = None
        self.after_batch: Callable[[int], None] = lambda number: None

    @property
    def rows(self) -> list[Row]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def values(self) -> list[Any]:
        return [row.value for row in self.rows]

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, frame: DataFrame, **trigger: Any) -> "Recorder":
        query = self.start(frame, **trigger)
        try:
            assert query.awaitTermination(TIMEOUT_S), "the query did not end"
        finally:
            query.stop()
        return self

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = batch.collect()
        if number == self.fails_in:
            raise StopHereError(f"batch {number} fails on purpose")
        self.after_batch(number)
