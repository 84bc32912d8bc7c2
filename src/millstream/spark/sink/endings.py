"""Endings: what a sink cannot do by itself, because Spark does not notify it.

run_to_end      run a finite query, and close its outputs when it has read everything
each_batch      a function for `foreachBatch`: for update mode, and for several sinks in one query
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millstream.spark.lookups import Server
from millstream.spark.options import OptionError, sink_options
from millstream.spark.sink.identities import QUERY_ID
from millstream.spark.sink.outputs import Outputs

_FORMAT = "durable-streams"


def run_to_end(
    writer: DataStreamWriter, options: Mapping[str, Any], *, closes: str | None = None
) -> StreamingQuery:
    """Run a query until it has read everything, then close its output.

    With the source option `untilClosed`, that is when all of its streams have ended. `closes` is a glob over
    the server's listing, for rows that name their streams; without it the option `stream` is closed. A query
    that fails or is interrupted closes nothing; run again, it resumes from its checkpoint.
    """
    given = {name: str(value) for name, value in options.items()}
    checked = sink_options(given, streaming=True)
    if checked.stream is None and closes is None:
        raise OptionError("stream", "is missing; set it, or name what is to be closed with closes")
    query = writer.format(_FORMAT).options(**given).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    outputs = Outputs(checked)
    names = [] if checked.stream is None else [outputs.open(checked.stream).name]
    if closes is not None:
        names += Server(checked).matching(closes)
    for name in names:
        outputs.close(name)
    return query


def each_batch(options: Mapping[str, Any], *, sink_id: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that appends each batch, exactly once.

    For queries in update or complete mode, whose results are appended; and, with different `sink_id`s, for
    several sinks in one query. `txnAppId` defaults to the query's id.
    """
    given = {name: str(value) for name, value in options.items()}

    def write(batch: DataFrame, number: int) -> None:
        named = {name.lower() for name in given}
        ids = {"txnVersion": str(number), "sinkId": sink_id}
        if "txnappid" not in named:
            ids["txnAppId"] = _query_id(batch)
        batch.write.format(_FORMAT).mode("append").options(**given, **ids).save()

    return write


def _query_id(batch: DataFrame) -> str:
    found = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if not found:
        raise OptionError("txnAppId", "is missing, and Spark does not say which query this is; set it")
    return str(found)
