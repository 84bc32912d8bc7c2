"""Identities: a repeated batch is recognised, and no two batches are taken for one."""

import pytest

from millstream.client.core.models import ProducerStamp
from millstream.spark.options import OptionError, sink_options
from millstream.spark.sink.identities import BATCH_ID, QUERY_ID, Identity, of_batch, of_stream

URL = {"url": "http://127.0.0.1:4437", "stream": "out"}
IN_QUERY = {QUERY_ID: "q1", BATCH_ID: "7"}.get


def _nothing(name: str) -> None:
    return None


def test_a_streaming_batch_is_known_by_its_query_and_its_number() -> None:
    identity = of_stream(sink_options(URL, streaming=True), IN_QUERY)
    assert identity == Identity("q1/0", 7)
    assert identity.stamp() == ProducerStamp("q1/0", 7, 0)
    assert identity.of_partition(3).stamp(2) == ProducerStamp("q1/0/3", 7, 2)


def test_a_task_that_knows_no_query_does_not_guess() -> None:
    with pytest.raises(OptionError, match="does not say which query"):
        of_stream(sink_options(URL, streaming=True), _nothing)


def test_a_batch_write_is_known_by_its_key_or_only_once() -> None:
    keyed = sink_options({**URL, "idempotencyKey": "day/1"}, streaming=False)
    assert of_batch(keyed, _nothing, "a") == of_batch(keyed, _nothing, "b") == Identity("day%2F1/0", 0)
    plain = sink_options(URL, streaming=False)
    assert of_batch(plain, _nothing, "a") != of_batch(plain, _nothing, "b")


def test_names_that_hold_a_slash_are_not_confused() -> None:
    first = sink_options({**URL, "idempotencyKey": "a/b", "sinkId": "c"}, streaming=False)
    second = sink_options({**URL, "idempotencyKey": "a", "sinkId": "b/c"}, streaming=False)
    assert of_batch(first, _nothing, "x") != of_batch(second, _nothing, "x")


def test_inside_foreach_batch_all_three_ids_are_needed() -> None:
    whole = {**URL, "txnAppId": "app", "txnVersion": "7", "sinkId": "s"}
    assert of_batch(sink_options(whole, streaming=False), IN_QUERY, "x") == Identity("app/s", 7)
    for missing in (("sinkId",), ("txnAppId", "txnVersion", "sinkId")):
        given = {name: value for name, value in whole.items() if name not in missing}
        with pytest.raises(OptionError, match="is missing inside foreachBatch"):
            of_batch(sink_options(given, streaming=False), IN_QUERY, "x")
