"""Identities: the producer id and epoch of a batch, so that writing it again changes nothing.

    streaming query     {query id}/{sink id}     the epoch is the batch's id
    foreachBatch        {txnAppId}/{sinkId}      the epoch is txnVersion
    batch with a key    {idempotencyKey}/{sinkId}
    batch without       a unique name

The server compares them with the last accepted ones. Pure: what Spark knows about a task is an argument.
"""

from collections.abc import Callable
from urllib.parse import quote

import msgspec

from millstream.client.core.models import ProducerStamp
from millstream.spark.options import OptionError, SinkOptions

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"

_ONLY_SINK = "0"


class Identity(msgspec.Struct, frozen=True):
    """A producer's id, and the batch as its epoch."""

    id: str
    epoch: int

    def stamp(self, seq: int = 0) -> ProducerStamp:
        """Return the stamp of one request."""
        return ProducerStamp(self.id, self.epoch, seq)

    def of_partition(self, number: int) -> "Identity":
        """Return the identity of one partition's producer."""
        return Identity(f"{self.id}/{number}", self.epoch)


Property = Callable[[str], str | None]


def of_stream(options: SinkOptions, property: Property) -> Identity:
    """Identify a batch of a streaming query by the task's properties."""
    query, batch = property(QUERY_ID), property(BATCH_ID)
    if query is None or batch is None:
        raise OptionError(
            "commit", f"cannot work: Spark does not say which query this is ({QUERY_ID}, {BATCH_ID})"
        )
    return Identity(_joined(query, options.sink_id or _ONLY_SINK), int(batch))


def of_batch(options: SinkOptions, property: Property, once: str) -> Identity:
    """Identify a batch write; `once` is a unique name for a write without a key."""
    if property(QUERY_ID) is not None:
        _check_repeatable(options)
    sink = options.sink_id or _ONLY_SINK
    if options.txn_app_id is not None and options.txn_version is not None:
        return Identity(_joined(options.txn_app_id, sink), options.txn_version)
    if options.idempotency_key is not None:
        return Identity(_joined(options.idempotency_key, sink), 0)
    return Identity(_joined(once, sink), 0)


def _check_repeatable(options: SinkOptions) -> None:
    """Refuse a write inside foreachBatch that would be doubled, or lost, when its batch is repeated."""
    if options.idempotency_key is not None:
        raise OptionError(
            "idempotencyKey",
            "is the same for every batch of foreachBatch, so only the first would count; "
            "set txnAppId, txnVersion and sinkId instead",
        )
    given = {"txnAppId": options.txn_app_id, "sinkId": options.sink_id}
    for name, value in given.items():
        if value is None:
            raise OptionError(
                name,
                "is missing inside foreachBatch, where a repeated batch would be written twice; set txnAppId "
                "(an id of the query), txnVersion (the batch's id) and sinkId (a name for this write), "
                "or use millstream.spark.sink.endings.each_batch",
            )


def _joined(*parts: str) -> str:
    """Join names into one that is a valid header and unambiguous."""
    return "/".join(quote(part, safe=":@!$&'()*+,;= ") for part in parts)
