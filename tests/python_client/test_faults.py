"""The client on a bad network: nothing is lost, nothing is doubled, nothing hangs."""

import threading
import time
from collections import Counter
from typing import Any

import pytest

import millstream
from millstream import Retry, TransportError, UnexpectedStatusError
from millstream.client.core.plans import reading
from python_client.faulty_proxy import Fault, FaultyProxy
from running import Server

MESSAGES = 10_000
BATCH_BYTES = 110
MIN_FAULTS = 200
QUICK = Retry(initial_delay_s=0.002, max_delay_s=0.02, max_total_s=30)
JSON = "application/json"

pytestmark = pytest.mark.timeout(120)


def path_of(url: str) -> str:
    return url.split("/", 3)[3]


def test_a_producer_stores_every_message_exactly_once_and_in_order(
    shell: Any, any_server: Server, any_url: str
) -> None:
    shell.DurableStream.create(any_url, content_type=JSON)
    with FaultyProxy(any_server.url, seed=1, rate=0.32) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{path_of(any_url)}", content_type=JSON, retry=QUICK)
        producer = shell.IdempotentProducer(
            stream, "p", max_batch_bytes=BATCH_BYTES, linger_ms=1, retry=QUICK
        )
        for number in range(MESSAGES - 1):
            producer.append(number)
        final = producer.close(MESSAGES - 1)
    assert proxy.fault_count >= MIN_FAULTS, proxy.counts
    assert set(proxy.counts) == set(Fault)
    with shell.stream(any_url, live=False) as response:
        assert response.read_json() == list(range(MESSAGES))
        assert (response.stream_closed, response.offset) == (True, final.final_offset)


@pytest.mark.parametrize("live", [True, "long-poll", "sse"])
def test_a_reader_gets_the_log_whatever_breaks(
    shell: Any, server: Server, url: str, live: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "YOUNG_S", 0)  # so that event streams are not given up
    writer = millstream.DurableStream.create(url, content_type=JSON)

    def write() -> None:
        for start in range(0, 600, 3):
            writer.append_all(range(start, start + 3))
            time.sleep(0.004)
        writer.close()

    thread = threading.Thread(target=write)
    with FaultyProxy(server.url, seed=3, rate=0.5) as proxy:
        thread.start()
        with shell.stream(f"{proxy.url}/{path_of(url)}", live=live, retry=QUICK) as response:
            assert list(response.iter_json()) == list(range(600))
            assert response.stream_closed is True
        thread.join()
    assert proxy.fault_count >= 20, proxy.counts


@pytest.mark.parametrize("live", [False, True, "sse"])
def test_reads_that_are_cut_and_resumed_add_up_to_the_log(
    shell: Any, server: Server, url: str, live: Any
) -> None:
    content = bytes(range(256)) * 200
    millstream.DurableStream.create(url, body=content, closed=True)
    with FaultyProxy(server.url, seed=4, rate=0.6) as proxy:
        got, offset = b"", "-1"
        for _ in range(len(content)):  # each response brings at least a byte, or the end
            with shell.stream(
                f"{proxy.url}/{path_of(url)}", offset=offset, live=live, retry=QUICK
            ) as response:
                for chunk in response.iter_byte_chunks():
                    got += chunk.data
                    break
                offset = response.offset
                if response.stream_closed:
                    break
    assert got == content


def test_plain_appends_are_never_doubled_silently(shell: Any, server: Server, url: str) -> None:
    """Each one is stored once, or raised an error; what raised may be stored once, never twice."""
    shell.DurableStream.create(url, content_type=JSON)
    doubtful = set()
    with FaultyProxy(server.url, seed=5, rate=0.4) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{path_of(url)}", content_type=JSON, retry=QUICK)
        for number in range(300):
            try:
                stream.append(number)
            except (TransportError, UnexpectedStatusError):
                doubtful.add(number)
    stored = Counter(shell.stream(url, live=False).read_json())
    assert max(stored.values()) == 1
    assert set(range(300)) - set(stored) <= doubtful
    assert doubtful & set(stored), "no fault came after the append was stored: this test shows nothing"


def test_a_plain_append_that_was_refused_for_its_number_is_repeated(
    shell: Any, server: Server, url: str
) -> None:
    shell.DurableStream.create(url, content_type=JSON)
    plan = iter([Fault.REFUSE_429, Fault.REFUSE_429, None])
    with FaultyProxy(server.url, choose=lambda request: next(plan)) as proxy:
        stream = shell.DurableStream(f"{proxy.url}/{path_of(url)}", content_type=JSON, retry=QUICK)
        stream.append(1)
    assert shell.stream(url, live=False).read_json() == [1]


@pytest.mark.parametrize(("fault", "form"), [(Fault.REFUSE_429, "seconds"), (Fault.REFUSE_503, "date")])
def test_retry_after_is_respected(shell: Any, server: Server, url: str, fault: Fault, form: str) -> None:
    millstream.DurableStream.create(url, body=b"x", closed=True)
    plan = iter([fault, None])
    asked = (
        "1" if form == "seconds" else time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
    )
    with FaultyProxy(server.url, choose=lambda request: next(plan), retry_after=asked) as proxy:
        with shell.stream(f"{proxy.url}/{path_of(url)}", retry=QUICK) as response:
            assert response.read_bytes() == b"x"
        first, second = proxy.seen
    assert second.at - first.at >= 0.99


def test_what_is_asked_again_and_again_ends_within_its_total(shell: Any, server: Server, url: str) -> None:
    short = Retry(initial_delay_s=0.01, max_delay_s=0.05, max_total_s=0.5)
    started = time.monotonic()
    with (
        FaultyProxy(server.url, choose=lambda request: Fault.FAIL_500) as proxy,
        pytest.raises(UnexpectedStatusError) as caught,
    ):
        shell.stream(f"{proxy.url}/{path_of(url)}", retry=short)
    assert caught.value.status == 500
    assert time.monotonic() - started < 20  # a client's default is minutes
    assert len(proxy.seen) > 5


def test_without_retries_the_first_failure_is_told(shell: Any, server: Server, url: str) -> None:
    with (
        FaultyProxy(server.url, choose=lambda request: Fault.CUT_BEFORE) as proxy,
        pytest.raises(TransportError),
    ):
        shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=None).head()
    assert len(proxy.seen) == 1


def test_a_delete_whose_answer_was_lost_is_still_a_success(shell: Any, server: Server, url: str) -> None:
    millstream.DurableStream.create(url)
    plan = iter([Fault.CUT_AFTER, None])
    with FaultyProxy(server.url, choose=lambda request: next(plan)) as proxy:
        shell.DurableStream(f"{proxy.url}/{path_of(url)}", retry=QUICK).delete()
    with pytest.raises(millstream.StreamNotFoundError):
        shell.DurableStream.head(url)


def test_event_streams_that_die_young_give_way_to_long_polls(shell: Any, server: Server, url: str) -> None:
    writer = millstream.DurableStream.create(url, content_type=JSON)

    timer = threading.Timer(0.5, lambda: writer.close(1))
    with FaultyProxy(
        server.url, choose=lambda r: Fault.CUT_BEFORE if "live=sse" in r.target else None
    ) as proxy:
        timer.start()
        with shell.stream(f"{proxy.url}/{path_of(url)}", live="sse", retry=QUICK) as response:
            assert list(response.iter_json()) == [1]
        timer.join()
        targets = [request.target for request in proxy.seen]
    assert sum("live=sse" in target for target in targets) == 3
    assert any("live=long-poll" in target for target in targets)
