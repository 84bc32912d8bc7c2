"""A driver to be killed: copies a stream through Spark, in a shape that no two runs share.

python -m spark.sink.driver URL FOLDER CHECKPOINT [--master spark://...] [--seed N] [--faulty] [--streams N]

With --streams, rows go to so many streams, by their numbers. With --faulty, tasks fail at their first attempt
or, on a cluster, are slow: Spark repeats and doubles them.
"""

import argparse
import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from millstream.spark.sessions import local_session

ROWS_PER_BATCH = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder")
    parser.add_argument("checkpoint")
    parser.add_argument("--master")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faulty", action="store_true")
    parser.add_argument("--streams", type=int)
    arguments = parser.parse_args()
    spark = _session(arguments.master)
    chance = random.Random(arguments.seed)
    source = {
        "url": arguments.url,
        "streams": f"{arguments.folder}/in",
        "maxRowsPerTrigger": ROWS_PER_BATCH,
    }
    rows = spark.readStream.format("durable-streams").options(**source).load().select("value")
    schema = "value string"
    sink = {"url": arguments.url, "partBytes": "500"}
    if arguments.streams:
        number = sql.get_json_object("value", "$.n").cast("int") % arguments.streams
        rows = rows.select("value", sql.concat(sql.lit(f"{arguments.folder}/wide/"), number).alias("stream"))
        schema = "value string, stream string"
    else:
        sink["stream"] = f"{arguments.folder}/out"
    salt = sql.xxhash64("value", sql.lit(chance.randrange(2**31)))
    is_slow = not spark.sparkContext.master.startswith("local")
    shaped = rows.repartition(chance.randint(2, 4), salt).mapInArrow(
        _make_trouble(arguments.faulty, is_slow=is_slow), schema
    )
    query = (
        shaped.writeStream.format("durable-streams")
        .options(**sink)
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def _session(master: str | None) -> SparkSession:
    settings = {
        "spark.driver.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.3",
        "spark.executor.memory": "512m",
    }
    if master is not None:
        settings["spark.master"] = master
        settings["spark.executor.extraJavaOptions"] = os.environ.get("SPARK_SUBMIT_OPTS", "")
    return local_session("killed", cores="2", settings=settings)


def _make_trouble(faulty: bool, *, is_slow: bool) -> Any:
    def pass_on(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        first = faulty and context is not None and context.attemptNumber() == 0
        for batch in batches:
            order = list(range(batch.num_rows))
            random.shuffle(order)
            yield batch.take(pyarrow.array(order))
        if first and context.partitionId() == 0 and random.random() < 0.5:
            raise RuntimeError("fails at its first attempt, on purpose")
        if first and is_slow and context.partitionId() == 1:
            time.sleep(3)

    return pass_on


if __name__ == "__main__":
    main()
