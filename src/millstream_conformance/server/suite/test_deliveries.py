"""Deliveries to receivers that misbehave: redirects, hanging, too much (protocol 7.1, 12.8)."""

from __future__ import annotations

from threading import Event
from typing import Any

from millstream_conformance.server.checks import needs, patient, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.subscriptions import Receiver
from millstream_conformance.server.suite.test_webhooks import DONE, subscribe
from millstream_conformance.server.suite.waiting import eventually

LARGE = {"done": True, "padding": "x" * 2**23}


@rule("S3")
@needs("webhooks")
@patient
@stricter("section 12.8 does not speak of redirects; one that is followed leads anywhere")
def test_a_redirect_is_not_followed(server: Server) -> None:
    """A receiver that redirects has failed, and the other place gets nothing."""
    with Receiver(lambda number: (200, DONE)) as elsewhere:
        moved = {"Location": elsewhere.url}
        with Receiver(lambda number: (307, {}), headers=moved) as receiver:
            subscription = subscribe(server, receiver)
            subscription.stream("in/a").append(b"x")
            receiver.next()
            eventually(lambda: subscription.get().json()["status"] == "failed", 2, "the status failed")
            assert elsewhere.quiet(0.2)
            subscription.delete()


@rule("S3")
@needs("webhooks")
@patient
@stricter("section 12.8 does not limit answers; one without end would fill the server's memory")
def test_an_answer_of_megabytes_acknowledges_nothing(server: Server) -> None:
    """Of an answer of 8 MiB the server reads only the beginning, and takes it for a failure."""
    with Receiver(lambda number: (200, LARGE)) as receiver:
        subscription = subscribe(server, receiver)
        subscription.stream("in/a").append(b"x")
        eventually(lambda: subscription.get().json()["status"] == "failed", 5, "the status failed")
        subscription.delete()


@rule("S3", "S1")
@needs("webhooks")
@patient
@stricter("the protocol does not say that deliveries are independent; one receiver could stop all others")
def test_a_receiver_that_hangs_holds_up_no_other(server: Server) -> None:
    """While one receiver does not answer, another gets its webhooks."""
    begins, ends = Event(), Event()

    def hang(number: int) -> tuple[int, Any]:
        begins.set()
        ends.wait(30)
        return 200, DONE

    with Receiver(hang) as hanging, Receiver(lambda number: (200, DONE)) as quick:
        try:
            slow, fast = subscribe(server, hanging), subscribe(server, quick)
            slow.stream("in/a").append(b"x")
            assert begins.wait(5), "the receiver that hangs was sent nothing within 5 s"
            fast.stream("in/a").append(b"x")
            assert quick.next().json()["subscription_id"] == fast.id
        finally:
            ends.set()
        slow.delete()


@rule("S1")
@needs("webhooks")
@patient
def test_what_comes_during_a_delivery_is_delivered_after_it(server: Server) -> None:
    """`done` acks what the webhook spoke of; what arrived since wakes again with a newer generation."""
    during: dict[str, Any] = {}

    def answer(number: int) -> tuple[int, Any]:
        if number == 0:
            during["tail"] = during["stream"].append(b"later").next_offset
        return 200, DONE

    with Receiver(answer) as receiver:
        subscription = subscribe(server, receiver)
        during["stream"] = subscription.stream("in/a")
        first_tail = during["stream"].append(b"x").next_offset
        first, second = receiver.next().json(), receiver.next().json()
        assert [link["tail_offset"] for link in first["streams"] if link["has_pending"]] == [first_tail]
        assert [link["acked_offset"] for link in second["streams"]] == [first_tail]
        assert second["generation"] > first["generation"]
        name = subscription.relative("in/a")
        eventually(lambda: subscription.links()[name]["acked_offset"] == during["tail"], 2, "the ack")
