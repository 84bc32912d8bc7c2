"""Sensor streams to a table, and readings that are too hot to a stream."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

URL = os.environ.get("MILLSTREAM_URL", "http://127.0.0.1:4437")
TOO_HOT = 30.0

spark = SparkSession.active()


@dp.table
def readings() -> DataFrame:
    """All readings of all sensors; new sensors are included automatically."""
    streams = spark.readStream.format("durable-streams").options(url=URL, pattern="sensors/*").load()
    parsed = f.from_json("value", "at timestamp, celsius double").alias("reading")
    return streams.select(f.element_at(f.split("stream", "/"), -1).alias("sensor"), parsed).select(
        "sensor", "reading.*"
    )


dp.create_sink("alerts", "durable-streams", {"url": URL, "stream": "alerts"})


@dp.append_flow(target="alerts")
def hot_readings() -> DataFrame:
    """Readings above the limit; each row becomes a JSON object."""
    return spark.readStream.table("readings").where(f.col("celsius") > TOO_HOT)
