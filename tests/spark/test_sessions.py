"""Sessions: workers run what this process has installed, and each session finds the sources of pipelines."""

import sys

import pyspark
from pyspark.sql import SparkSession

from millstream.spark.pipelines.flushing import one_row


def test_workers_use_the_pyspark_that_is_installed_and_compiled(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, str, str]:
        import pyspark as found

        return sys.executable, sys.prefix, str(found.__file__)

    seen = spark.sparkContext.parallelize([0], 1).map(look).first()
    assert seen == (sys.executable, sys.prefix, pyspark.__file__)


def test_each_session_of_one_spark_finds_the_sources_of_pipelines(spark: SparkSession) -> None:
    for session in (spark, spark, spark.newSession(), spark.newSession()):
        assert one_row(session).isStreaming
