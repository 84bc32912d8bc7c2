"""Flushing: when streams have ended, windows that are still open are complete.

Spark gives a window out when the watermark has passed its end, and the watermark only moves with
data: the last windows of a closed stream would never come. So one more source takes part in the
query, which is silent until it is told that the end is reached; then it gives one row from the far
future. The row moves the watermark and is dropped. That it was given is part of the checkpoint.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from millstream.spark.pipelines.records import LAST_TIME

_NAME = "millstream-end"
_REACHED = "reached"


class _EndReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, reached: int) -> None:
        self._reached = reached

    def initialOffset(self) -> dict[str, Any]:
        return {_REACHED: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {_REACHED: max(start[_REACHED], self._reached)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(None)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (LAST_TIME,)


class EndSource(DataSource):
    """One row, once the end is reached."""

    @classmethod
    def name(cls) -> str:
        """Give the name for `format`."""
        return _NAME

    def schema(self) -> str:
        """Give the columns."""
        return "at string"

    def streamReader(self, schema: StructType) -> _EndReader:
        """Make what Spark asks."""
        return _EndReader(int(self.options[_REACHED]))


def with_end(
    spark: SparkSession, rows: DataFrame, event_time: str, delay: str, *, reached: bool
) -> DataFrame:
    """Give rows a watermark that goes to the end of time once the end is reached."""
    spark.dataSource.register(EndSource)
    end = spark.readStream.format(_NAME).option(_REACHED, str(int(reached))).load()
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    columns = [
        (f.col("at") if name == event_time else f.lit(None)).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]
    marked = rows.unionByName(end.select(*columns)).withWatermark(event_time, delay)
    # It looks at the time, so that Spark does not filter before it has seen the watermark.
    return marked.where(f.col(f"`{event_time}`") < f.lit(LAST_TIME).cast("timestamp"))


def one_row(spark: SparkSession) -> DataFrame:
    """Give a streaming table that holds one row, ever: for work that is done once for each checkpoint."""
    spark.dataSource.register(EndSource)
    return spark.readStream.format(_NAME).option(_REACHED, "1").load()
