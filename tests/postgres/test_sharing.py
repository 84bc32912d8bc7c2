"""What servers share: a change made on one is seen on the others, by whoever waits and by whoever asks."""

import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from postgres.cluster import shared
from postgres.servers import several

TEXT = {"content-type": "text/plain"}
PATIENCE_S = 60


@pytest.fixture(scope="module")
def pair() -> Iterator[list[str]]:
    """The URLs of two servers over one database."""
    cluster = shared()
    with several(cluster.url(cluster.new_schema()), 2) as servers:
        yield [server.url for server in servers]


def test_what_one_has_acknowledged_the_other_shows(pair: list[str]) -> None:
    first, second = pair
    with httpx.Client() as client:
        assert client.put(f"{first}/turns", headers=TEXT).status_code == 201
        content = b""
        for turn in range(30):
            writer, reader = (first, second) if turn % 2 else (second, first)
            client.post(f"{writer}/turns", content=b"%d;" % turn, headers=TEXT).raise_for_status()
            content += b"%d;" % turn
            assert client.get(f"{reader}/turns", params={"offset": "-1"}).content == content
            tail = client.head(f"{reader}/turns").headers["stream-next-offset"]
            assert int(tail.replace("_", "")) == len(content)


def test_a_long_poll_hears_of_an_append_elsewhere(pair: list[str]) -> None:
    """L2."""
    first, second = pair
    httpx.put(f"{first}/poll", headers=TEXT)
    found: list[httpx.Response] = []

    def poll() -> None:
        found.append(
            httpx.get(f"{second}/poll", params={"offset": "now", "live": "long-poll"}, timeout=PATIENCE_S)
        )

    waiting = threading.Thread(target=poll)
    waiting.start()
    _until_it_waits(second)
    httpx.post(f"{first}/poll", content=b"hello", headers=TEXT).raise_for_status()
    waiting.join()
    assert (found[0].status_code, found[0].content) == (200, b"hello")


def test_an_event_stream_follows_what_is_appended_elsewhere_until_it_is_closed_elsewhere(
    pair: list[str],
) -> None:
    """L4, L5."""
    first, second = pair
    httpx.put(f"{first}/sse", headers=TEXT)
    events = ""
    with httpx.stream(
        "GET", f"{second}/sse", params={"offset": "-1", "live": "sse"}, timeout=PATIENCE_S
    ) as stream:
        lines = stream.iter_lines()
        for turn in range(5):
            httpx.post(f"{first}/sse", content=b"m%d" % turn, headers=TEXT).raise_for_status()
            while f"m{turn}" not in events:
                events += next(lines) + "\n"
        httpx.post(f"{first}/sse", headers={"stream-closed": "true"}).raise_for_status()
        events += "\n".join(lines)
    assert '"streamClosed":true' in events.replace(" ", "")


def test_a_glob_hears_of_streams_that_are_created_elsewhere(pair: list[str]) -> None:
    """X9."""
    second = pair[1]
    seen = ""
    with httpx.stream(
        "GET", f"{second}/__ds/events", params={"glob": "/glob/*"}, timeout=PATIENCE_S
    ) as stream:
        lines = stream.iter_lines()
        for number in range(6):
            server = pair[number % 2]
            httpx.put(f"{server}/glob/{number}", content=b"x", headers=TEXT).raise_for_status()
            while f"/glob/{number}" not in seen:
                seen += next(lines) + "\n"


def test_a_name_given_again_elsewhere_is_another_stream(pair: list[str]) -> None:
    """X10."""
    first, second = pair
    with httpx.Client() as client:
        for turn in range(6):
            one, other = (first, second) if turn % 2 else (second, first)
            assert client.put(f"{one}/again", content=b"%d" % turn, headers=TEXT).status_code == 201
            assert client.get(f"{other}/again").content == b"%d" % turn
            assert client.delete(f"{other}/again").status_code == 204
            assert client.get(f"{one}/again").status_code == 404


def test_a_ttl_is_renewed_by_a_read_of_any_server(pair: list[str]) -> None:
    """G8."""
    first, second = pair
    with httpx.Client() as client:
        client.put(f"{first}/ttl", headers={**TEXT, "stream-ttl": "6"})
        ends_s = time.monotonic() + 7.5
        while time.monotonic() < ends_s:
            assert client.get(f"{second}/ttl").status_code == 200
            time.sleep(0.3)
        assert client.head(f"{first}/ttl").status_code == 200


def test_a_producer_may_go_from_server_to_server(pair: list[str]) -> None:
    """R2."""
    with httpx.Client() as client:
        client.put(f"{pair[0]}/producer", headers=TEXT)
        for seq in range(20):
            stamp = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(seq)}
            statuses = [
                client.post(
                    f"{pair[(seq + turn) % 2]}/producer", content=b"x", headers={**TEXT, **stamp}
                ).status_code
                for turn in range(2)
            ]
            assert statuses == [200, 204]
        assert client.get(f"{pair[1]}/producer").content == b"x" * 20


def _until_it_waits(url: str) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while "ds_poll_clients_num 1" not in httpx.get(f"{url}/__ds/metrics").text.replace(".0", ""):
        assert time.monotonic() < give_up_s
        time.sleep(0.02)
