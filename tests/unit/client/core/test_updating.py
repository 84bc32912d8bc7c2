"""The loop that reads, decides and appends (rule X6), against a script: what is sent, and when it ends."""

from typing import Any

import pytest

from millstream import DurableStream, OffsetConflictError, Retry, StaleEpochError, TransportError
from millstream.client.core.plans import updating
from millstream.client.core.transport import Answer
from unit.client.scripted import OFFSETS, Scripted, answer, chunk

URL = "http://h/counter"
HEAD = answer(200, content_type="text/plain", millstream_extensions="expect")
STORED = answer(200, stream_next_offset=OFFSETS[3])


def conflict(tail: int) -> Answer:
    body = b'{"code":"EXPECTED_OFFSET_CONFLICT"}'
    return answer(409, body, content_type="application/problem+json", stream_next_offset=OFFSETS[tail])


def sent(transport: Scripted, method: bytes) -> list[dict[bytes, bytes]]:
    return [dict(request.headers) for request in transport.asked if request.method == method]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating, "CONFLICTS", Retry(initial_delay_s=0, max_delay_s=0, max_attempts=3))


def update(*steps: Any, decide: Any = lambda _: "x") -> Scripted:
    transport = Scripted(HEAD, *steps)
    DurableStream(URL, client=transport, retry=Retry(initial_delay_s=0)).update(decide)
    assert transport.finished
    return transport


def test_an_append_expects_where_the_reading_ended() -> None:
    transport = update(chunk(b"a", 1, up_to_date=False), chunk(b"b", 2), STORED)
    (post,) = sent(transport, b"POST")
    assert post[b"stream-expected-offset"] == OFFSETS[2].encode()
    assert post[b"producer-seq"] == b"0"


def test_no_cache_may_answer_for_the_stream() -> None:
    transport = update(chunk(b"", 0), STORED)
    assert all(one[b"cache-control"] == b"no-cache" for one in sent(transport, b"GET"))


def test_each_append_has_an_epoch_of_its_own_and_its_retries_have_the_same() -> None:
    transport = update(chunk(b"", 0), conflict(1), chunk(b"a", 1), answer(500), answer(503), STORED)
    first, second, again, once_more = sent(transport, b"POST")
    assert first[b"producer-id"] == second[b"producer-id"]
    assert int(second[b"producer-epoch"]) == int(first[b"producer-epoch"]) + 1
    assert second == again == once_more


def test_an_epoch_that_is_refused_is_replaced_by_one_above() -> None:
    """The stream has forgotten producers, and takes no new one with an epoch that these may have used."""
    transport = update(chunk(b"", 0), answer(403, producer_epoch="700"), STORED)
    assert sent(transport, b"POST")[-1][b"producer-epoch"] == b"701"
    assert update(chunk(b"", 0), STORED) is not None


def test_an_epoch_that_is_refused_after_a_doubt_ends_it() -> None:
    """Whether the first attempt was stored cannot be known any more."""
    with pytest.raises(StaleEpochError):
        update(chunk(b"", 0), answer(500), answer(403, producer_epoch="700"))


def test_too_many_producers_leave_the_stamp_out() -> None:
    full = answer(403, b'{"code":"TOO_MANY_PRODUCERS"}', content_type="application/problem+json")
    transport = update(chunk(b"", 0), full, answer(204, stream_next_offset=OFFSETS[1]))
    last = sent(transport, b"POST")[-1]
    assert b"producer-id" not in last
    assert last[b"stream-expected-offset"] == OFFSETS[0].encode()


def test_a_conflict_without_a_stamp_after_a_doubt_may_be_with_itself() -> None:
    """Also for users who retry appends that are in doubt: deciding again could store it twice."""
    full = answer(403, b'{"code":"TOO_MANY_PRODUCERS"}', content_type="application/problem+json")
    transport = Scripted(HEAD, chunk(b"", 0), full, answer(500), conflict(1))
    log = DurableStream(URL, client=transport, retry=Retry(initial_delay_s=0, doubtful_appends=True))
    with pytest.raises(TransportError, match="this append may be in it"):
        log.update(lambda _: "x")
    assert transport.finished


def test_conflicts_are_limited() -> None:
    steps = [step for tail in range(3) for step in (chunk(b"", tail), conflict(tail + 1))]
    with pytest.raises(OffsetConflictError) as refused:
        update(*steps)
    assert refused.value.current_offset == OFFSETS[3]


def test_updates_at_the_same_time_have_ids_of_their_own() -> None:
    inner: list[Scripted] = []
    outer = update(
        chunk(b"", 0),
        STORED,
        decide=lambda _: [inner.append(update(chunk(b"", 0), STORED)), "x"][1],
    )
    ids = {one[b"producer-id"] for transport in (outer, *inner) for one in sent(transport, b"POST")}
    assert len(ids) == 2
