"""Transactions: under which name a query's batches are known, wherever they are written from.

Spark keeps a query's id in its checkpoint. Reading it there works inside `foreachBatch`, through
Spark Connect and on any file system, and a checkpoint that was made anew has another id.
"""

import json

from pyspark.sql import SparkSession


def checkpoint_id(spark: SparkSession, checkpoint: str) -> str:
    """Give the id of the query that a checkpoint belongs to."""
    [line] = [row.value for row in spark.read.text(f"{checkpoint.rstrip('/')}/metadata").collect()]
    return str(json.loads(line)["id"])
