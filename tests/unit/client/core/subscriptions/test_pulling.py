"""A pull worker's decisions (rules S1, S4), against a script: what is sent, and when it waits."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from millstream import TransportError
from millstream.client.core.exchanges import Call, Send, Sleep, Terms
from millstream.client.core.retry import Chance
from millstream.client.core.subscriptions import pulling
from millstream.client.core.subscriptions.models import Claim, Lease, StreamLink, Work
from millstream.client.core.subscriptions.pulling import HandlerError, Puller
from millstream.client.core.subscriptions.requests import Root
from millstream.client.core.transport import Answer
from millstream.client.sync.driving import run
from millstream.subscriptions import SubscriptionNotFoundError
from unit.client.scripted import OFFSETS, Scripted, answer, chunk

INFO = answer(200, b'{"id":"s","type":"pull-wake","wake_stream":"w"}')
OK = answer(200, b'{"ok":true,"next_wake":false}')
MORE = answer(200, b'{"ok":true,"next_wake":true}')
RELEASED = answer(204)


def error(status: int, code: str, **more: Any) -> Answer:
    return answer(status, json.dumps({"error": {"code": code, "message": "No.", **more}}).encode())


def claimed(*ends: int, ttl_ms: int = 30_000) -> Answer:
    links = [
        {
            "path": f"in/{number}",
            "acked_offset": OFFSETS[0],
            "tail_offset": OFFSETS[end],
            "has_pending": end > 0,
        }
        for number, end in enumerate(ends)
    ]
    body = {"wake_id": "w_1", "generation": 3, "token": "secret", "streams": links, "lease_ttl_ms": ttl_ms}
    return answer(200, json.dumps(body).encode())


class Worker:
    """A puller with a script and a clock that the test moves."""

    def __init__(self, *steps: Any, handle: Callable[[Work], Any] | None = None) -> None:
        self.now_s = 100.0
        self.handled: list[tuple[str, bytes]] = []
        self.transport = Scripted(INFO, chunk(b"", 0), *steps)
        terms = Terms(None, 5.0, Chance(lambda: self.now_s, lambda: self.now_s, lambda: 1.0))
        self.core = Puller(
            Root("http://h", {"Authorization": "Bearer mine"}, terms), "s", "me", handle or self.handle
        )
        self.run(self.core.begin())

    def handle(self, work: Work) -> None:
        self.handled.append((work.path, work.data))

    def run(self, plan: Any) -> Any:
        return run(self.transport, plan)

    def work(self) -> Lease | None:
        lease: Lease | None = self.run(self.core.claim())
        if lease is not None:
            self.run(self.core.attend(lease))
        return lease

    def sent(self, end: str) -> list[Any]:
        return [json.loads(one.body) for one in self.transport.asked if one.url.endswith(end)]


def test_what_is_pending_is_read_handled_and_acknowledged() -> None:
    worker = Worker(claimed(2, 0, 1), chunk(b"ab", 2), chunk(b"c", 1), OK, OK)
    worker.work()
    assert worker.handled == [("in/0", b"ab"), ("in/2", b"c")]
    between, done = worker.sent("/ack")
    assert between == {"wake_id": "w_1", "generation": 3, "acks": [{"stream": "in/0", "offset": OFFSETS[2]}]}
    assert done["acks"] == [{"stream": "in/2", "offset": OFFSETS[1]}]
    assert done["done"] is True
    assert worker.core.must_wait, "the server says that there is no more"


def test_an_acknowledgement_carries_the_claims_token_and_a_claim_the_callers() -> None:
    worker = Worker(claimed(1), chunk(b"a", 1), OK)
    worker.work()
    tokens = {one.url.rpartition("/")[2]: one.headers[b"authorization"] for one in worker.transport.asked}
    assert tokens["claim"] == b"Bearer mine"
    assert tokens["ack"] == b"Bearer secret"


def test_with_more_to_do_a_worker_claims_at_once() -> None:
    worker = Worker(claimed(1), chunk(b"a", 1), MORE)
    worker.work()
    assert not worker.core.must_wait


def test_reading_ends_where_the_stream_ended_at_the_claim() -> None:
    """Whoever writes without end must not keep a worker from the other streams."""
    worker = Worker(claimed(2), chunk(b"ab", 2, up_to_date=False), OK)
    worker.work()
    assert worker.transport.finished


def test_a_long_stream_is_acknowledged_piece_by_piece() -> None:
    worker = Worker(claimed(3), chunk(b"a", 1, up_to_date=False), chunk(b"bc", 3), OK, OK)
    worker.work()
    assert [one["acks"][0]["offset"] for one in worker.sent("/ack")] == [OFFSETS[1], OFFSETS[3]]


def test_a_handler_that_fails_releases_and_pauses_longer_each_time() -> None:
    def fail(work: Work) -> None:
        raise ValueError("no")

    worker = Worker(*[claimed(1), chunk(b"a", 1), RELEASED] * 3, handle=fail)
    pauses = []
    for _ in range(3):
        with pytest.raises(HandlerError) as failed:
            worker.work()
        assert isinstance(failed.value.error, ValueError)
        (pause,) = list(worker.core.idle())
        assert isinstance(pause, Sleep)
        pauses.append(pause.seconds)
    assert pauses == [1, 2, 4]
    assert not worker.sent("/ack")
    assert len(worker.sent("/release")) == 3


@pytest.mark.parametrize("code", ["NO_PENDING_WORK", "ALREADY_CLAIMED"])
def test_nothing_to_claim_is_waited_for(code: str) -> None:
    worker = Worker(error(409, code, current_holder="other", generation=3))
    assert worker.work() is None
    assert worker.core.must_wait
    waiting = worker.core.idle()
    first = next(waiting)
    assert isinstance(first, Send)
    assert dict(first.ask.params)["live"] == "long-poll"
    others = b'[{"type":"wake","subscription_id":"other"},7]'
    next_poll = waiting.send(_json(others, 1))
    assert isinstance(next_poll, Send), "a wake of another subscription"
    with pytest.raises(StopIteration):
        waiting.send(_json(b'[{"type":"wake","subscription_id":"s"}]', 2))
    assert not worker.core.must_wait


def _json(body: bytes, end: int) -> Answer:
    return answer(
        200, body, content_type="application/json", stream_next_offset=OFFSETS[end], stream_up_to_date="true"
    )


def test_a_worker_asks_now_and_then_although_nothing_wakes_it() -> None:
    worker = Worker(error(409, "NO_PENDING_WORK"))
    worker.work()
    waiting = worker.core.idle()
    assert isinstance(next(waiting), Send)
    worker.now_s += pulling.MAX_IDLE_S
    with pytest.raises(StopIteration):
        waiting.send(answer(204, stream_next_offset=OFFSETS[0], stream_up_to_date="true"))


def test_a_network_that_fails_is_waited_for() -> None:
    worker = Worker(TransportError("broken"))
    assert worker.work() is None
    assert isinstance(next(worker.core.idle()), Sleep)


def test_a_subscription_that_was_deleted_ends_the_worker() -> None:
    worker = Worker(error(404, "SUBSCRIPTION_NOT_FOUND"))
    with pytest.raises(SubscriptionNotFoundError):
        worker.work()


@pytest.mark.parametrize("step", ["between", "done"])
def test_a_fenced_worker_sends_nothing_more(step: str) -> None:
    fenced = error(409, "FENCED")
    steps = [claimed(1, 1), chunk(b"a", 1), chunk(b"b", 1)]
    worker = Worker(*steps, fenced) if step == "between" else Worker(claimed(1), chunk(b"a", 1), fenced)
    lease = worker.work()
    assert lease is not None
    assert lease.is_lost
    assert worker.transport.finished
    assert worker.core.must_wait


def test_with_a_lease_that_has_run_out_nothing_is_begun() -> None:
    worker = Worker(claimed(1, ttl_ms=1000), chunk(b"a", 1))
    lease = worker.run(worker.core.claim())
    worker.now_s += 1
    worker.run(worker.core.attend(lease))
    assert not worker.handled
    assert not worker.sent("/ack")


def test_a_lease_is_counted_from_when_a_request_was_sent() -> None:
    now = [0.0]
    lease = Lease(Claim("w", 1, "t", 3000, [StreamLink("a")]), 0.0, lambda: now[0])
    assert lease.heartbeat_s == 1
    now[0] = 2.9
    assert not lease.is_lost
    lease.extend(1.0)
    now[0] = 3.9
    assert not lease.is_lost
    now[0] = 4.0
    assert lease.is_lost
    lease.extend(0.5)
    assert lease.is_lost, "an older answer that comes late changes nothing"


@pytest.mark.parametrize(
    ("step", "lost"),
    [(OK, False), (error(409, "FENCED"), True), (answer(500), False), (error(401, "TOKEN_INVALID"), True)],
)
def test_a_heartbeat_extends_or_learns_that_it_is_late(step: Answer, lost: bool) -> None:
    worker = Worker(claimed(1), step)
    lease = worker.run(worker.core.claim())
    worker.run(worker.core.heartbeat(lease))
    assert lease.is_lost is lost


def test_a_worker_that_is_to_stop_finishes_what_it_has_begun() -> None:
    worker = Worker(claimed(1, 1), chunk(b"a", 1), OK)

    def stop(work: Work) -> None:
        worker.handle(work)
        worker.core.is_stopping = True

    worker.core._handle = stop
    worker.work()
    (done,) = worker.sent("/ack")
    assert done["done"] is True
    assert [one["stream"] for one in done["acks"]] == ["in/0"]


def test_a_stream_that_is_gone_is_not_asked_for_again_at_once() -> None:
    worker = Worker(claimed(1), answer(404), OK)
    worker.work()
    assert isinstance(next(worker.core.idle()), Sleep)


def test_what_retention_has_removed_is_passed_over() -> None:
    gone = answer(410, stream_earliest_offset=OFFSETS[2])
    worker = Worker(claimed(3), gone, chunk(b"c", 3), OK)
    worker.work()
    assert worker.handled == [("in/0", b"c")]


def test_a_handler_is_called_as_an_effect() -> None:
    worker = Worker(claimed(1))
    plan = worker.core.attend(worker.run(worker.core.claim()))
    assert isinstance(next(plan), Send)
    called = plan.send(chunk(b"a", 1))
    assert isinstance(called, Call)
    assert called.argument.text == "a"
    plan.close()
