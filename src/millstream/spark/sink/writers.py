"""The sink: what Spark calls to write, in batch and in streaming queries.

Tasks deliver their rows and report the results to the driver, which commits them. Only tasks know from
Spark which query and batch they belong to, so they send that identity along.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow
import pyarrow.compute
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from millstream.client.core import errors
from millstream.spark.options import SinkOptions
from millstream.spark.sink import deliveries, encoding, identities
from millstream.spark.sink.columns import CLOSED, Columns
from millstream.spark.sink.deliveries import Delivered, Delivery
from millstream.spark.sink.encoding import EncodedRows
from millstream.spark.sink.identities import Identity
from millstream.spark.sink.outputs import Outputs
from millstream.spark.sink.routing import by_stream
from millstream.spark.workers import settle


class SinkError(errors.MillstreamError):
    """A batch could not be written."""

    default_code = "SINK"


class TaskMessage(WriterCommitMessage):
    """The result of one task, for the driver."""

    def __init__(self, identity: Identity, partition: int, delivered: dict[str, Delivered]) -> None:
        self.identity = identity
        self.partition = partition
        self.delivered = delivered


class _Writing:
    """The part that batch and streaming writes share."""

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def deliver(self, batches: Iterator[pyarrow.RecordBatch], identity: Identity) -> TaskMessage:
        """Write a task's rows; runs on an executor."""
        settle()
        partition = _context().partitionId()
        options, outputs = self._options, Outputs(self._options)
        delivery = Delivery(
            outputs, identity, partition, part_bytes=options.part_bytes, sorts=options.order == "sort"
        )
        try:
            for batch in batches:
                for portion in encoding.portions(batch, options.part_bytes):
                    self._deliver_batch(portion, outputs, delivery)
            return TaskMessage(identity, partition, delivery.finish())
        except BaseException as error:
            if not isinstance(
                error, errors.TransportError
            ):  # the server is unreachable, so dropping would fail, too
                delivery.abandon()
            if isinstance(error, errors.MillstreamError):
                raise _explained(error, identity) from error
            raise

    def commit(self, messages: Sequence[Any], closes: Sequence[str] = ()) -> None:
        """Commit a batch; runs on the driver."""
        found = sorted((one for one in messages if one is not None), key=lambda one: one.partition)
        if not found:
            return
        identity = found[0].identity
        try:
            deliveries.commit(
                Outputs(self._options),
                identity,
                [one.delivered for one in found],
                closes,
                compares=self._options.compare_replays and self._options.idempotency_key is None,
            )
        except errors.MillstreamError as error:
            raise _explained(error, identity) from error

    def abort(self, messages: Sequence[Any]) -> None:
        """Drop a batch; runs on the driver."""
        found = [one.delivered for one in messages if one is not None]
        deliveries.drop(Outputs(self._options), *found)

    def _deliver_batch(self, batch: pyarrow.RecordBatch, outputs: Outputs, delivery: Delivery) -> None:
        if self._columns.has_closed:
            batch = self._without_ends(batch, outputs, delivery)
        rows, runs = by_stream(batch, self._options.stream)
        outputs.open_all([name for name, _, _ in runs])
        encoder = encoding.Encoder(rows, self._columns)
        for name, begin, end in runs:
            output = outputs.open(name)
            if output.commit == "producer":  # its requests must not depend on how rows are grouped
                some = rows.slice(begin, end - begin)
                content: Iterable[EncodedRows] = encoding.messages(some, self._columns, output.kind, name)
            else:
                content = encoder.pieces(begin, end, output.kind, name, self._options.part_bytes)
            delivery.add(output, content, end - begin)

    def _without_ends(
        self, batch: pyarrow.RecordBatch, outputs: Outputs, delivery: Delivery
    ) -> pyarrow.RecordBatch:
        """Mark the streams that end, and leave out the rows that say so."""
        ends = pyarrow.compute.fill_null(batch.column(batch.schema.get_field_index(CLOSED)), False)
        ending = by_stream(batch.filter(ends), self._options.stream).runs
        outputs.open_all([name for name, _, _ in ending])
        for name, _, _ in ending:
            delivery.end(outputs.open(name))
        return batch.filter(pyarrow.compute.invert(ends)) if ending else batch


class BatchWriter(DataSourceArrowWriter):
    """Writes a table, once."""

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._writing = _Writing(options, columns)
        self._once = str(uuid.uuid4())

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskMessage:
        """Write one partition."""
        identity = identities.of_batch(self._options, _context().getLocalProperty, self._once)
        return self._writing.deliver(iterator, identity)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the write."""
        closes: list[str] = []
        if self._options.close_on_end:
            closes = [name for one in messages if isinstance(one, TaskMessage) for name in one.delivered]
            closes += [self._options.stream] if self._options.stream is not None else []
        self._writing.commit(messages, closes)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the write."""
        self._writing.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a streaming query, each once."""

    def __init__(self, options: SinkOptions, columns: Columns) -> None:
        self._options = options
        self._writing = _Writing(options, columns)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskMessage:
        """Write one partition."""
        identity = identities.of_stream(self._options, _context().getLocalProperty)
        return self._writing.deliver(iterator, identity)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the batch."""
        self._writing.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop the batch."""
        self._writing.abort(messages)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # Spark calls write inside tasks
    return context


def _explained(error: errors.MillstreamError, identity: Identity) -> SinkError:
    """Add which batch was refused, and what that means."""
    hint = ""
    if isinstance(error, errors.StaleEpochError):
        hint = (
            f". Batch {error.current_epoch} of the same query is there already: another copy of this query "
            "runs, or its checkpoint was set back"
        )
    elif error.code == "FINGERPRINT_DIFFERS":
        hint = (
            ". The batch was written before with other rows: the checkpoint was set back, or the query gives "
            "other rows each time it runs. What the batch has more now would be lost; start with a new "
            "checkpoint, or set the option compareReplays to false if the first rows are as good"
        )
    elif isinstance(error, errors.StreamClosedError):
        hint = ". The stream has ended; write to another one"
    elif isinstance(error, errors.SequenceGapError):
        hint = ". The batch was repeated in another shape; use commit=parts"
    return SinkError(
        f"Batch {identity.epoch} of {identity.id} was not written: {error}{hint}",
        status=error.status,
        code=error.code,
    )
