"""Lets Spark find `format("durable-streams")`: it imports every module named `pyspark_*`."""

from millstream.spark.data_source import DurableStreamsSource as DefaultSource

__all__ = ["DefaultSource"]
