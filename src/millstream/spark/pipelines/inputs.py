"""Inputs: which streams a pipeline reads, and when it stops."""

from collections.abc import Iterable, Mapping

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millstream.protocol.globs import glob_matches
from millstream.spark.lookups import Server
from millstream.spark.option_values import stream_name
from millstream.spark.options import OptionError, source_options
from millstream.spark.source.schemas import TIMESTAMP

FORMAT = "durable-streams"
BATCH_BYTES = "64m"


class NothingToReadError(ValueError):
    """No stream matches the pattern of a pipeline that reads what there is."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """Streams of a server: a glob, or names separated by commas. `options` are those of the Spark source."""

    url: str
    streams: str
    token: str | None = None
    options: Mapping[str, str] = {}

    @property
    def pattern(self) -> str | None:
        """The glob, if it is one."""
        return stream_name(self.streams) if "*" in self.streams else None

    def reads(self, name: str) -> bool:
        """Return whether a stream is, or would be, one of these."""
        if self.pattern is not None:
            return glob_matches(self.pattern, name)
        return stream_name(name) in {stream_name(one) for one in self.streams.split(",")}

    def has_arrival(self, column: str) -> bool:
        """Return whether a column is the time of arrival, which the options ask for."""
        return column == TIMESTAMP and source_options(self.source()).include_timestamp

    def server(self) -> dict[str, str]:
        """Return the options that name the server."""
        return {"url": self.url, **({"token": self.token} if self.token else {})}

    def source(self) -> dict[str, str]:
        """Return the options of the source."""
        chosen = {"streams": self.streams} if self.pattern is None else {"pattern": self.pattern}
        return {**self.server(), "maxBytesPerTrigger": BATCH_BYTES, **chosen, **self.options}


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """When a pipeline runs, and when it stops. Set one of these.

    `until_closed`: until all streams have ended. `once`: until everything that exists now is read.
    `every`: forever, at this interval, such as `10 seconds`. With the option `endingTimestamp` of the input,
    `once` ends at that time.
    """

    until_closed: bool = False
    once: bool = False
    every: str | None = None

    @property
    def ends(self) -> bool:
        """Whether the pipeline stops by itself."""
        return self.until_closed or self.once

    def applied(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Set the trigger of a query."""
        if self.until_closed + self.once + (self.every is not None) > 1:
            raise OptionError("pace", "is two things at once; choose until_closed, once or every")
        if self.ends:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=self.every or "0 seconds")


def following(spark: SparkSession, source: Input, pace: Pace, **more: str) -> DataFrame:
    """Read streams as a streaming table."""
    options = {**source.source(), **more}
    if pace.until_closed:
        options["untilClosed"] = "true"
    return spark.readStream.format(FORMAT).options(**options).load()


def look(source: Input, *, ends: bool = False) -> None:
    """Check the options and look up the streams, so that what is wrong is named before Spark is started.

    A pipeline that `ends` by itself would end at once where no stream matches its pattern.
    """
    options = source_options(source.source(), streaming=True).hastened()
    if options.ending_timestamp is not None and not ends:
        raise OptionError("endingTimestamp", "needs a pipeline that ends; give --once")
    server = Server(options)
    if options.pattern is not None and not server.matching(options.pattern) and ends:
        raise NothingToReadError(
            f"no stream matches {source.streams!r}, so there is nothing to do; check the pattern and the url"
        )
    for name in options.streams:
        server.look(name)


def refuse_loops(source: Input, outputs: Iterable[str | None]) -> None:
    """Refuse to write to a stream that is read."""
    for name in outputs:
        if name is not None and source.reads(name):
            raise OptionError(
                "streams",
                f"{source.streams!r} would read what is written, {name!r}; narrow it, or write elsewhere",
            )
