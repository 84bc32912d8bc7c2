"""Sessions: workers run what this process has installed, and are not slowed down by Spark's archive of it."""

import sys

import pyspark
from pyspark.sql import SparkSession


def test_workers_use_the_pyspark_that_is_installed_and_compiled(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, str, str]:
        import pyspark as found

        return sys.executable, sys.prefix, str(found.__file__)

    seen = spark.sparkContext.parallelize([0], 1).map(look).first()
    assert seen == (sys.executable, sys.prefix, pyspark.__file__)
