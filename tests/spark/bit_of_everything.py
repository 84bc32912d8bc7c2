"""A job that needs most classes of Spark which tests need: tables, streams, and Python in between."""

import sys
from collections.abc import Iterator
from pathlib import Path

from pyarrow import RecordBatch
from pyspark.sql import SparkSession


def unchanged(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Pass Arrow through a worker."""
    return batches


folder = Path(sys.argv[1])
spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 2)
table, copy = str(folder / "table"), str(folder / "copy")
rows = spark.range(100).selectExpr("id", "cast(id as string) as text", "id % 3 as kind")
rows.mapInArrow(unchanged, rows.schema).write.partitionBy("kind").parquet(table)
spark.read.parquet(table).groupBy("kind").count().orderBy("kind").toPandas()
query = (
    spark.readStream.schema(rows.schema)
    .parquet(table)
    .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start(copy, format="json")
)
query.awaitTermination()
spark.createDataFrame([(1, "a")], ["n", "text"]).join(spark.read.json(copy), "text", "left").collect()
spark.stop()
