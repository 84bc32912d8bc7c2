"""Flushing: when streams have ended, open windows are complete, and are emitted.

Spark emits a window when the watermark has passed its end, and the watermark only moves with data: the last
windows of a closed stream would never be emitted. So the query has one more source, which is empty until
the end is reached; then it returns one row from the far future. The row moves the watermark and is
dropped. The checkpoint records that it was returned.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from millstream.spark.pipelines.records import LAST_TIME
from millstream.spark.sessions import register

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
        """Return what the name begins with."""
        return "millstream-end"

    def schema(self) -> str:
        """Return the columns."""
        return "at string"

    def streamReader(self, schema: StructType) -> _EndReader:
        """Make the reader of a streaming query."""
        return _EndReader(int(self.options[_REACHED]))


def with_end(
    spark: SparkSession, rows: DataFrame, event_time: str, delay: str, *, reached: bool
) -> DataFrame:
    """Add a watermark that moves to the far future once the end is reached."""
    end = spark.readStream.format(register(spark, EndSource)).option(_REACHED, str(int(reached))).load()
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    columns = [
        (f.col("at") if name == event_time else f.lit(None)).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]
    marked = rows.unionByName(end.select(*columns)).withWatermark(event_time, delay)
    # The filter uses the time, so that Spark does not apply it before the watermark.
    return marked.where(f.col(f"`{event_time}`") < f.lit(LAST_TIME).cast("timestamp"))


def one_row(spark: SparkSession) -> DataFrame:
    """Return a streaming table of exactly one row, for work that is done once for each checkpoint."""
    return spark.readStream.format(register(spark, EndSource)).option(_REACHED, "1").load()
