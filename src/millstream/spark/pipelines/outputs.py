"""Outputs: the streams that a pipeline writes, and closing them.

A pipeline writes two columns, `stream` and `value`, so that results and dead letters are written by one
query and committed together.
"""

from collections.abc import Mapping, Sequence

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType

from millstream.protocol.content import Kind, kind_of
from millstream.spark.lookups import Server
from millstream.spark.option_values import stream_name
from millstream.spark.options import OptionError, sink_options
from millstream.spark.pipelines.records import (
    ERROR,
    RAW,
    BadRecords,
    counted,
    is_one_message,
    judged,
    letter,
)
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE
from millstream.spark.sink.outputs import DEFAULT_CONTENT_TYPE, Outputs, OutputStream

_TYPE = "contentType"
_TO_JSON = {"ignoreNullFields": "false"}


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Where results go: to `stream`, or to the stream named by each row's column `stream`.

    `closes` is a glob of streams to close at the end, for rows that name theirs. `options` are those
    of the Spark sink.
    """

    url: str
    stream: str | None = None
    token: str | None = None
    closes: str | None = None
    options: Mapping[str, str] = {}

    def sink(self) -> dict[str, str]:
        """Return the options of the sink, without the stream, which is a column."""
        given = {"url": self.url, **({"token": self.token} if self.token else {}), **self.options}
        return {key: value for key, value in given.items() if key != _TYPE or self.stream is None}

    def prepare(self, letters: str | None) -> None:
        """Create the streams, so that readers can wait for them."""
        if self.stream is not None:
            self._open(self.stream, self.options.get(_TYPE))
        if letters is not None:
            self._open(letters, DEFAULT_CONTENT_TYPE)

    def holds_json(self) -> bool:
        """Return whether values must be JSON."""
        wanted = self.options.get(_TYPE) or DEFAULT_CONTENT_TYPE
        if self.stream is not None:
            return self._open(self.stream, self.options.get(_TYPE)).kind is Kind.JSON
        return kind_of(wanted.encode("latin-1")) is Kind.JSON

    def close(self) -> None:
        """Close the output streams."""
        checked = sink_options(self.sink(), streaming=False)
        outputs = Outputs(checked)
        names = [] if self.stream is None else [stream_name(self.stream)]
        if self.closes is not None:
            names += sorted(Server(checked).matching(stream_name(self.closes)))
        for name in names:
            outputs.close(name)

    def _open(self, name: str, content_type: str | None) -> OutputStream:
        given = self.sink() | ({_TYPE: content_type} if content_type else {})
        return Outputs(sink_options(given, streaming=False)).open(stream_name(name))


def addressed(
    rows: DataFrame, output: Output, bad: BadRecords, pipeline: str, carries: Sequence[str] = ()
) -> DataFrame:
    """Return results as `stream` and `value`; rows that no stream can hold become dead letters.

    A `value` of text or bytes is written as it is, other columns as an object. Columns in `carries` are kept.
    """
    named = {field.name: field.dataType for field in rows.schema.fields}
    if output.stream is None and STREAM not in named:
        raise OptionError("stream", "is missing, and rows have no column stream; name the output with one")
    stream = f.col(STREAM) if output.stream is None else f.lit(stream_name(output.stream))
    fields = [name for name in rows.columns if name not in (RAW, ERROR, *carries)]
    if output.stream is None:
        fields.remove(STREAM)
    error = f.col(ERROR) if ERROR in named else f.lit(None).cast("string")
    error = f.when(error.isNotNull(), error).when(f.coalesce(stream, f.lit("")) == "", "names no stream")
    if isinstance(named.get(VALUE), StringType | BinaryType):
        if lost := set(fields) - {VALUE, STREAM, OFFSET}:
            raise OptionError(
                VALUE, f"is written alone, and {min(lost)!r} would be lost; leave one of them out"
            )
        value = f.col(VALUE)
        error = error.when(value.isNull(), "has no value")
        if output.holds_json():
            error = error.when(~is_one_message(value.cast("string")), "is not JSON")
    else:
        value = f.to_json(f.struct(*(f.col(f"`{name}`") for name in fields)), _TO_JSON)
    raw = f.coalesce(f.col(RAW), value) if RAW in named else value
    made = rows.select(stream.alias(STREAM), value.alias(VALUE), raw.alias(RAW), error.alias(ERROR), *carries)
    return routed(judged(made, bad, f.col(STREAM)), bad, pipeline, carries)


def routed(made: DataFrame, bad: BadRecords, pipeline: str, carries: Sequence[str] = ()) -> DataFrame:
    """Address bad rows to the dead letters, and count them."""
    if bad.name is None:
        return made.select(STREAM, VALUE, *carries)
    is_good = f.col(ERROR).isNull()
    written = f.when(is_good, f.col(VALUE).cast("binary")).otherwise(letter(pipeline, STREAM).cast("binary"))
    stream = f.when(is_good, f.col(STREAM)).otherwise(f.lit(bad.name))
    return counted(made).select(stream.alias(STREAM), written.alias(VALUE), *carries)
