"""Readers: what Spark calls to plan and to read, in batch and in streaming queries.

Planning runs in one process on the driver, reading in workers, which receive the pickled reader.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pyarrow
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from millstream.client.core import errors
from millstream.spark.lookups import Found, Server
from millstream.spark.options import OptionError, SourceOptions
from millstream.spark.source import offsets, planning, ranges
from millstream.spark.source.batches import End, needs_rows, record_batches, row_counts
from millstream.spark.source.counting import Budget
from millstream.spark.source.following import DataLossError, Follower
from millstream.spark.source.holding import Holding, no_earlier
from millstream.spark.source.offsets import Position, Positions
from millstream.spark.source.planning import Partition, Range
from millstream.spark.source.prepared import PreparedRanges, can_be_kept, key_of
from millstream.spark.source.ranges import RangeError, Rows, Unsplit
from millstream.spark.source.schemas import TIMESTAMP, fields_of
from millstream.spark.workers import settle

_log = logging.getLogger(__name__)

T = TypeVar("T")


class StreamPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: Partition) -> None:
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"StreamPartition({', '.join(one.stream for one in self.ranges)})"


class _Reading:
    """The part that batch and streaming reads share."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.server = Server(options)
        self.follower = Follower(options, self.server)
        self._has_times = options.include_timestamp and TIMESTAMP in schema.fieldNames()

    def first_contact(self) -> Follower:
        """Return a follower that soon gives up: a wrong address should be named at once."""
        hastened = self.options.hastened()
        return Follower(hastened, Server(hastened))

    def plan(self, start: Positions, end: Positions) -> list[StreamPartition]:
        """Plan the partitions between two offsets of the query."""
        found = planning.partitions(
            start,
            end,
            self.follower.step,
            partition_bytes=self.options.partition_bytes,
            min_partitions=self.options.min_partitions,
            shows_closed=self.options.include_closed,
        )
        return [StreamPartition(one) for one in found]

    def batches(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one partition; Spark passes an empty one if there is none."""
        if not isinstance(partition, StreamPartition):
            return iter(())
        settle()
        return (
            self._through_files(partition.ranges)
            if self.options.cache_directory
            else self._made(partition.ranges)
        )

    def _made(self, some: Iterable[Range]) -> Iterator[pyarrow.RecordBatch]:
        """Read ranges and make their columns, small ranges together."""
        fields, schema = fields_of(self.options, self.schema), to_arrow_schema(self.schema, timezone="UTC")
        if self.options.counts:
            counted = (
                (one.stream, rows) for one in some for rows in self._unless_lost(one, self._count(one))
            )
            return iter([row_counts(counted, schema)])
        return record_batches((rows for one in some for rows in self._range(one)), schema, fields)

    def _through_files(self, some: Iterable[Range]) -> Iterator[pyarrow.RecordBatch]:
        """Take the columns of large ranges from files, if they are there."""
        fields, schema = fields_of(self.options, self.schema), to_arrow_schema(self.schema, timezone="UTC")
        prepared = PreparedRanges(self.options.cache_directory or "", self.options.cache_bytes)

        def kept(one: Range) -> Iterator[pyarrow.RecordBatch]:
            # Asked each time, so that a stream that is gone, trimmed or forbidden is the same with files.
            self.server.check(one.stream, one.start.offset, one.start.incarnation)
            yield from prepared.batches(
                key_of(self.server.url, one, schema, fields), lambda: self._all_of(one)
            )

        for keeps, group in itertools.groupby(some, can_be_kept):
            if not keeps:
                yield from self._made(group)
                continue
            for one in group:
                yield from self._unless_lost(one, kept(one))
                if self._shows_end(one):
                    yield from record_batches([End(one.stream, ranges.end_of(one))], schema, fields)

    def _all_of(self, one: Range) -> Iterator[pyarrow.RecordBatch]:
        """Make the columns of one range, or fail."""
        fields, schema = fields_of(self.options, self.schema), to_arrow_schema(self.schema, timezone="UTC")
        if self.options.counts:
            return iter([row_counts([(one.stream, rows) for rows in self._count(one)], schema)])
        return record_batches(self._read(one), schema, fields)

    def _read(self, one: Range) -> Iterator[Rows | Unsplit]:
        fields = fields_of(self.options, self.schema)
        if fields is None or needs_rows(to_arrow_schema(self.schema, timezone="UTC")):
            return ranges.read_range(self.server, one, times=self._has_times)
        return ranges.read_messages(self.server, one, times=self._has_times)

    def _count(self, one: Range) -> Iterator[int]:
        yield ranges.count_rows(self.server, one)

    def _range(self, one: Range) -> Iterator[Rows | Unsplit | End]:
        yield from self._unless_lost(one, self._read(one))
        if self._shows_end(one):
            yield End(one.stream, ranges.end_of(one))

    def _shows_end(self, one: Range) -> bool:
        return one.ends_stream and self.options.include_closed

    def _unless_lost(self, one: Range, found: Iterator[T]) -> Iterator[T]:
        """Fail because the range is gone, or go on without the rest of it."""
        try:
            yield from found
        except (errors.StreamNotFoundError, errors.StreamGoneError, RangeError) as error:
            if self.options.fail_on_data_loss:
                raise DataLossError(
                    f"{one.stream} was read only in part: {error}. "
                    "Set the option failOnDataLoss to false to go on without the rest"
                ) from error
            _log.warning("%s was read only in part: %s", one.stream, error)


class BatchReader(DataSourceReader):
    """Reads the streams' current content, or what lies between two offsets."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._reading = _Reading(options, schema)

    def partitions(self) -> list[StreamPartition]:
        """Plan the whole read."""
        start = self._reading.first_contact().beginning()
        return self._reading.plan(start, self._reading.follower.ending(start))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one partition."""
        return self._reading.batches(partition)


class RefusedReader(DataSourceStreamReader):
    """Says why a streaming query cannot be read.

    Spark hides an error of `streamReader` behind one of its own; an error of the reader reaches the user.
    """

    def __init__(self, reason: ValueError) -> None:
        self._reason = reason

    def initialOffset(self) -> dict[str, Any]:
        """Refuse a new query."""
        raise self._reason

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Refuse a query that goes on."""
        raise self._reason

    def getDefaultReadLimit(self) -> ReadLimit:
        """Refuse any query."""
        raise self._reason

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[StreamPartition]:
        """Refuse a repeated batch."""
        raise self._reason

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read nothing: there are no partitions."""
        raise self._reason


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the streams, micro-batch by micro-batch."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._reading = _Reading(options, schema)
        self._options = options
        self._is_finite = False
        self._target: dict[str, Found] | None = None
        self._seen: dict[str, Found] = {}
        self._holding = Holding.of(options, self._reading.follower)

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        return offsets.encode(self._reading.first_contact().beginning())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch. Spark passes on one limit; `latestOffset` applies both."""
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_rows_per_trigger is not None:
            return ReadMaxRows(self._options.max_rows_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the current tails, to end there; with `untilClosed` the query ends with the streams."""
        self._is_finite = True
        if not self._options.until_closed:
            self._target = self._reading.follower.targets()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch; waits a little if nothing is new."""
        for option, is_set in (
            ("untilClosed", self._options.until_closed),
            ("endingTimestamp", self._options.ending_timestamp is not None),
        ):
            if is_set and not self._is_finite:
                raise OptionError(option, "needs a query that can end; add trigger(availableNow=True)")
        follower = self._reading.follower
        positions = offsets.decode(start)
        while True:
            if self._target is None:
                self._seen = follower.wait(positions)
            elif self._options.ending_timestamp is not None:
                self._seen = no_earlier(self._target, positions)
            else:
                self._seen = self._target
            ends = follower.advance(positions, self._seen, self._budget(limit))
            if self._holding is not None and self._target is None:
                ends = self._holding.released(positions, ends, self._seen)
            must_wait = self._options.until_closed and not follower.is_finished(positions, self._seen)
            if ends != positions or not must_wait:
                return offsets.encode(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the last known tails, for the query's progress."""
        return offsets.encode({name: Position(found.tail) for name, found in self._seen.items()}) or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[StreamPartition]:
        """Plan a micro-batch, new or repeated after a restart."""
        return self._reading.plan(offsets.decode(start), offsets.decode(end))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Read one partition."""
        return self._reading.batches(partition)

    def _budget(self, limit: ReadLimit) -> Budget:
        if isinstance(limit, ReadAllAvailable):
            return Budget()
        return Budget(self._options.max_rows_per_trigger, self._options.max_bytes_per_trigger)
