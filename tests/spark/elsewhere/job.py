"""One job for every kind of Spark: reads and writes streams in every way, prints nothing, fails loudly.

python -m spark.elsewhere.job URL FOLDER CHECKPOINTS (--master spark://... | --remote sc://...)

    in ─▶ batch        a table, written twice under one key
    in ─▶ streaming    micro-batches, over a restart in which the input has grown
    in ─▶ each-batch   the same through foreachBatch
    in ─▶ ended        until the input ends, then the output ends, too
"""

import argparse
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from millstream import DurableStream
from millstream.spark.sessions import local_session
from millstream.spark.sink.endings import each_batch, run_to_end

FORMAT = "durable-streams"
FIRST, MORE = 600, 200


class Job:
    """Streams in one folder, and a Spark somewhere."""

    def __init__(self, spark: SparkSession, url: str, folder: str, checkpoints: Path) -> None:
        self._spark = spark
        self._url = url
        self._folder = folder
        self._checkpoints = checkpoints
        self._input = DurableStream.create(f"{url}/{folder}/in", content_type="application/json")

    def run(self) -> None:
        self._input.append_all([{"n": n} for n in range(FIRST)])
        for _ in range(2):
            self._write_batch()
        self._write_micro_batches()
        self._input.append_all([{"n": n} for n in range(FIRST, FIRST + MORE)])
        self._write_micro_batches()
        self._write_with_foreach_batch()
        self._input.close()
        self._write_to_the_end()

    def _write_batch(self) -> None:
        rows = self._spark.read.format(FORMAT).options(**self._source(), minPartitions="4").load()
        to = {**self._sink("batch"), "idempotencyKey": f"{self._folder}/once"}
        rows.select("value").write.format(FORMAT).mode("append").options(**to).save()

    def _write_micro_batches(self) -> None:
        writer = self._writer(self._following(maxRowsPerTrigger="250").repartition(3), "streaming")
        self._await(writer.format(FORMAT).options(**self._sink("streaming")))

    def _write_with_foreach_batch(self) -> None:
        sink = {**self._sink("each-batch"), "txnAppId": f"{self._folder}/each-batch"}
        writer = self._writer(self._following(), "each-batch")
        self._await(writer.foreachBatch(each_batch(sink, sink_id="job")))

    def _write_to_the_end(self) -> None:
        run_to_end(self._writer(self._following(untilClosed="true"), "ended"), self._sink("ended"))

    def _await(self, writer: Any) -> None:
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(200), "the query did not end"

    def _following(self, **options: str) -> DataFrame:
        return (
            self._spark.readStream.format(FORMAT).options(**self._source(), **options).load().select("value")
        )

    def _writer(self, frame: DataFrame, name: str) -> Any:
        return frame.writeStream.option("checkpointLocation", str(self._checkpoints / name))

    def _source(self) -> dict[str, str]:
        return {"url": self._url, "streams": f"{self._folder}/in"}

    def _sink(self, name: str) -> dict[str, str]:
        return {"url": self._url, "stream": f"{self._folder}/{name}"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder")
    parser.add_argument("checkpoints", type=Path)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--master")
    place.add_argument("--remote")
    given = parser.parse_args()
    if given.remote:
        spark = SparkSession.builder.remote(given.remote).getOrCreate()
    else:
        settings = {
            "spark.master": given.master,
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
        }
        spark = local_session("elsewhere", settings=settings)
    Job(spark, given.url, given.folder, given.checkpoints).run()
    spark.stop()


if __name__ == "__main__":
    main()
