"""The data source `durable-streams`: the entry point that Spark calls.

spark.read.format("durable-streams").option("url", ...).option("streams", "chat/1").load()
spark.readStream.format("durable-streams").option("url", ...).option("pattern", "chat/*").load()
frame.write.format("durable-streams").mode("append").option("url", ...).option("stream", "out").save()
frame.writeStream.format("durable-streams").option("url", ...).option("stream", "out").start()
"""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import BinaryType, StringType, StructType

from millstream.protocol.content import Kind
from millstream.spark.lookups import Server
from millstream.spark.options import SourceOptions, sink_options, source_options
from millstream.spark.sink.columns import columns_of
from millstream.spark.sink.writers import BatchWriter, StreamWriter
from millstream.spark.source.following import Follower
from millstream.spark.source.readers import BatchReader, RefusedReader, StreamReader
from millstream.spark.source.schemas import COUNTED, checked, own_columns

NAME = "durable-streams"


class OutputModeError(ValueError):
    """The output mode is not one that streams support."""


class DurableStreamsSource(DataSource):
    """Durable streams as tables."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns; the type of `value` depends on the streams' content types."""
        options = source_options(self.options).hastened()
        if options.counts:
            return COUNTED
        value_type = options.value_type or _value_type(options)
        return own_columns(options, BinaryType() if value_type == "binary" else StringType())

    def reader(self, schema: StructType) -> BatchReader:
        """Make the reader of a batch query."""
        options = source_options(self.options, streaming=False)
        return BatchReader(options, checked(options, schema))

    def streamReader(self, schema: StructType) -> StreamReader | RefusedReader:
        """Make the reader of a streaming query."""
        try:
            options = source_options(self.options, streaming=True)
            return StreamReader(options, checked(options, schema))
        except ValueError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Make the writer of a batch write."""
        options = sink_options(self.options, streaming=False)
        if overwrite:
            raise OutputModeError('streams can only be appended to; use mode("append")')
        return BatchWriter(options, columns_of(schema, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Make the writer of a streaming query."""
        options = sink_options(self.options, streaming=True)
        if overwrite:
            raise OutputModeError(
                'a stream cannot be rewritten with every batch; use outputMode("append"), or append each '
                "result with foreachBatch(millstream.spark.sink.endings.each_batch(...))"
            )
        return StreamWriter(options, columns_of(schema, options))


def _value_type(options: SourceOptions) -> str:
    found = Follower(options, Server(options)).look()
    return "binary" if any(stream.kind is Kind.BINARY for stream in found.values()) else "string"
