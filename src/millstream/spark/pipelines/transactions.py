"""Transactions: the id that identifies a query's batches, wherever they are written from.

Spark keeps a query's id in its checkpoint. Reading it there works inside `foreachBatch`, through Spark
Connect and on any file system, and a new checkpoint has a new id.
"""

import json

from pyspark.sql import SparkSession


def checkpoint_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that a checkpoint belongs to."""
    [line] = [row.value for row in spark.read.text(f"{checkpoint.rstrip('/')}/metadata").collect()]
    return str(json.loads(line)["id"])
