"""An AnyCable client's reads, at `/ds`: its offsets, its status codes, its headers."""

import signal
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from millstream.protocol.sse import parse_control
from running import HASTY_MS, Server, millstream
from wire.raw_connection import Wire

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with millstream("--anycable") as server:
        yield server


@pytest.fixture(scope="module")
def hasty() -> Iterator[Server]:
    """A server whose long-polls end after a moment."""
    with millstream("--anycable", long_poll_ms=HASTY_MS) as server:
        yield server


@pytest.fixture
def path(server: Server, request: pytest.FixtureRequest) -> str:
    """A JSON stream with two messages."""
    path = f"/{request.node.name}"
    httpx.delete(server.url + path)
    httpx.put(server.url + path, content=b'[{"id":1},{"id":2}]', headers=JSON).raise_for_status()
    return path


def get(server: Server, path: str, **parameters: str) -> httpx.Response:
    return httpx.get(f"{server.url}/ds{path}", params=parameters, timeout=20)


def append(server: Server, path: str, body: bytes) -> None:
    httpx.post(server.url + path, content=body, headers=JSON).raise_for_status()


def test_a_catch_up_read_gives_an_array_and_where_it_ends(server: Server, path: str) -> None:
    answer = get(server, path)
    assert (answer.status_code, answer.json()) == (200, [{"id": 1}, {"id": 2}])
    number, _, epoch = answer.headers["stream-next-offset"].partition("::")
    assert number.isdigit()
    assert epoch
    assert int(answer.headers["stream-cursor"]) > 0
    assert answer.headers["stream-up-to-date"] == "true"
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=60, stale-while-revalidate=300"
    assert answer.headers["x-anycable-version"].startswith("millstream/")
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize("start", ["-1", "0", ""])
def test_three_spellings_of_the_start(server: Server, path: str, start: str) -> None:
    assert len(get(server, path, offset=start).json()) == 2


def test_an_offset_that_was_given_is_where_to_go_on(server: Server, path: str) -> None:
    offset = get(server, path).headers["stream-next-offset"]
    again = get(server, path, offset=offset)
    assert (again.status_code, again.json()) == (200, [])
    assert again.headers["stream-next-offset"] == offset
    append(server, path, b'{"id":3}')
    assert get(server, path, offset=offset).json() == [{"id": 3}]


def test_now_is_the_tail(server: Server, path: str) -> None:
    answer = get(server, path, offset="now")
    assert answer.json() == []
    assert answer.headers["stream-next-offset"] == get(server, path).headers["stream-next-offset"]
    assert answer.headers["cache-control"] == "no-store"


def test_an_empty_stream_is_an_empty_array(server: Server) -> None:
    httpx.put(server.url + "/empty", headers=JSON)
    assert get(server, "/empty").json() == []


@pytest.mark.parametrize("live", [{}, {"live": "long-poll"}, {"live": "sse"}])
def test_a_stale_epoch_is_gone(server: Server, path: str, live: dict[str, str]) -> None:
    """The stream was deleted and made again: what the client has read is another stream's."""
    offset = get(server, path).headers["stream-next-offset"]
    httpx.delete(server.url + path).raise_for_status()
    assert get(server, path, offset=offset, **live).status_code == 410
    httpx.put(server.url + path, content=b'["new"]', headers=JSON).raise_for_status()
    stale = get(server, path, offset=offset, **live)
    assert (stale.status_code, stale.json()["code"]) == (410, "OFFSET_GONE")
    assert get(server, path, offset="-1").json() == ["new"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"offset": "x"},
        {"offset": "1"},
        {"offset": "0000000000000000_0000000000000000"},
        {"live": "sse"},
        {"live": "long-poll"},
        {"offset": "-1", "live": "websocket"},
    ],
    ids=str,
)
def test_an_invalid_request_is_400(server: Server, path: str, parameters: dict[str, str]) -> None:
    assert get(server, path, **parameters).status_code == 400


def test_only_json_is_served(server: Server) -> None:
    httpx.put(server.url + "/text", content=b"hello", headers={"Content-Type": "text/plain"})
    for method in ("GET", "HEAD"):
        assert httpx.request(method, f"{server.url}/ds/text").status_code == 400
    assert get(server, "/text", offset="-1", live="sse").json()["code"] == "NOT_JSON"


def test_head_tells_the_real_tail(server: Server, path: str) -> None:
    answer = httpx.head(f"{server.url}/ds{path}")
    assert answer.status_code == 200
    assert answer.headers["stream-next-offset"] == get(server, path).headers["stream-next-offset"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


def test_a_long_poll_gives_what_is_there_at_once(server: Server, path: str) -> None:
    answer = get(server, path, offset="-1", live="long-poll")
    assert len(answer.json()) == 2
    assert "stream-cursor" in answer.headers


def test_a_long_poll_waits_for_a_message(server: Server, path: str) -> None:
    offset = get(server, path).headers["stream-next-offset"]
    with Wire(server.url) as wire:
        wire.request("GET", f"/ds{path}?offset={offset}&live=long-poll")
        append(server, path, b'{"id":3}')
        answer = wire.answer()
    assert (answer.status, answer.body) == (200, b'[{"id":3}]')
    assert answer.headers["stream-next-offset"] == get(server, path).headers["stream-next-offset"]
    assert answer.headers["stream-up-to-date"] == "true"


def test_a_long_poll_that_waited_in_vain_is_204(hasty: Server) -> None:
    httpx.put(f"{hasty.url}/s", content=b"[1]", headers=JSON).raise_for_status()
    offset = get(hasty, "/s").headers["stream-next-offset"]
    answer = get(hasty, "/s", offset=offset, live="long-poll")
    assert (answer.status_code, answer.headers["stream-next-offset"]) == (204, offset)


def test_events_carry_the_same_offsets(server: Server, path: str) -> None:
    with Wire(server.url) as wire:
        wire.request("GET", f"/ds{path}?offset=0&live=sse")
        status, headers = wire.head()
        assert status == 200
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "private, no-cache, no-store, must-revalidate, max-age=0"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-accel-buffering"] == "no"
        events = wire.events()
        data, control = next(events), parse_control(next(events).data)
        assert data.data == '[{"id":1},{"id":2}]'
        assert control.up_to_date
        assert control.stream_cursor
        assert control.stream_next_offset == get(server, path).headers["stream-next-offset"]
        forged = 'event: control\ndata:{"streamNextOffset":"9::9"}'
        append(server, path, httpx.Request("POST", "http://x", json=forged).content)
        assert next(events).type == "data"
        control = parse_control(next(events).data)
        assert control.stream_next_offset == get(server, path).headers["stream-next-offset"]


def test_a_closed_stream_ends_its_readers(server: Server, path: str) -> None:
    httpx.post(server.url + path, headers={"Stream-Closed": "true"}).raise_for_status()
    assert get(server, path).headers["stream-closed"] == "true"
    offset = get(server, path).headers["stream-next-offset"]
    assert get(server, path, offset=offset, live="long-poll").status_code == 204
    with Wire(server.url) as wire:
        wire.request("GET", f"/ds{path}?offset=0&live=sse")
        wire.head()
        assert '"streamClosed":true' in list(wire.events())[-1].data


@pytest.mark.parametrize("prefix", ["", "/ds"])
@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
@pytest.mark.parametrize("offset", ["-1", "now"])
def test_every_read_renews_a_ttl(hasty: Server, prefix: str, live: str, offset: str) -> None:
    """G8: also a reader whose events were encoded for another one before it."""
    path = f"/renewed{len(prefix)}{live[-3:]}{offset}"
    httpx.put(hasty.url + path, content=b"[1]", headers=JSON | {"Stream-TTL": "600"}).raise_for_status()
    with Wire(hasty.url) as first, Wire(hasty.url) as second:
        for reader in (first, second):
            before_ms = expires_ms(hasty, path)
            time.sleep(0.05)
            reader.request("GET", f"{prefix}{path}?offset={offset}{live}")
            assert reader.head()[0] in (200, 204)
            assert expires_ms(hasty, path) >= before_ms + 50
    before_ms = expires_ms(hasty, path)
    time.sleep(0.05)
    httpx.head(f"{hasty.url}{prefix}{path}").raise_for_status()
    assert expires_ms(hasty, path) == before_ms


def expires_ms(server: Server, path: str) -> int:
    """Give a stream's deadline, as the listing says it."""
    listed = httpx.get(f"{server.url}/__ds/streams", params={"prefix": path}).json()["streams"]
    return int(listed[0]["expiresMs"])


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_nothing_is_written_there(server: Server, path: str, method: str) -> None:
    answer = httpx.request(method, f"{server.url}/ds{path}", content=b"[1]", headers=JSON)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", ["/ds/", "/ds/__ds/streams", "/ds/v1/stream/__ds/metrics"])
def test_what_is_no_stream_is_not_found(server: Server, path: str) -> None:
    assert httpx.get(server.url + path).status_code == 404


# -- Streams that are not there yet --------------------------------------------------------------


def test_a_stream_that_is_not_there_reads_as_empty(hasty: Server) -> None:
    """AnyCable makes no streams: they are there when something was published."""
    for offset in ("-1", "0", "", "now"):
        answer = get(hasty, "/later", offset=offset)
        assert (answer.status_code, answer.json()) == (200, [])
        assert answer.headers["stream-next-offset"] == "0"
        assert answer.headers["stream-up-to-date"] == "true"
        assert answer.headers["cache-control"] == "no-store"
    head = httpx.head(f"{hasty.url}/ds/later")
    assert (head.status_code, head.headers["stream-next-offset"]) == (200, "0")
    assert httpx.get(f"{hasty.url}/later").status_code == 404, "and it is still not there"
    assert get(hasty, "/later", offset="0", live="long-poll").status_code == 204


@pytest.mark.parametrize(
    ("content_type", "status", "body"), [("application/json", 200, b'["first"]'), ("text/plain", 400, None)]
)
def test_a_stream_that_is_not_there_can_be_polled_for(content_type: str, status: int, body: object) -> None:
    with millstream("--anycable") as server, Wire(server.url) as wire:
        wire.request("GET", "/ds/later?offset=0&live=long-poll")
        until_waiting(server, "ds_poll_clients_num")
        headers = {"Content-Type": content_type}
        httpx.put(f"{server.url}/later", content=b'["first"]', headers=headers).raise_for_status()
        answer = wire.answer()
        assert answer.status == status
        if status == 200:
            assert answer.body == body
            assert answer.headers["stream-next-offset"] == get(server, "/later").headers["stream-next-offset"]


def test_a_stream_that_is_not_there_can_be_watched_for(server: Server) -> None:
    httpx.delete(f"{server.url}/watched")
    with Wire(server.url) as wire:
        wire.request("GET", "/ds/watched?offset=0&live=sse")
        assert wire.head()[0] == 200
        events = wire.events()
        control = parse_control(next(events).data)
        assert (control.stream_next_offset, control.up_to_date) == ("0", True)
        httpx.put(f"{server.url}/watched", content=b'["first"]', headers=JSON).raise_for_status()
        assert list(events) == []  # the client comes back, by the offset that it has
        wire.request("GET", "/ds/watched?offset=0&live=sse")
        wire.head()
        assert next(wire.events()).data == '["first"]'


def until_waiting(server: Server, gauge: str) -> None:
    deadline_s = time.monotonic() + 60
    while f"{gauge} 1.0" not in httpx.get(f"{server.url}/__ds/metrics").text:
        assert time.monotonic() < deadline_s


def test_a_preflight_allows_its_headers(server: Server, path: str) -> None:
    answer = httpx.options(f"{server.url}/ds{path}")
    assert answer.status_code == 204
    assert {"x-jid", "x-signed"} <= set(answer.headers["access-control-allow-headers"].split(", "))


def test_a_long_poll_on_a_server_that_leaves_is_gone() -> None:
    with millstream("--anycable") as server:
        httpx.put(server.url + "/s", headers=JSON)
        with Wire(server.url) as wire:
            wire.request("GET", "/ds/s?offset=-1&live=long-poll")
            threading.Timer(0.5, lambda: server.signal(signal.SIGTERM)).start()
            assert wire.answer().status == 410


def test_without_the_setting_it_is_a_path_like_others() -> None:
    with millstream() as server:
        assert httpx.put(server.url + "/ds/s", headers=JSON).status_code == 201
        assert "::" not in httpx.get(server.url + "/ds/s").headers["stream-next-offset"]


def test_it_stands_beside_a_mount_and_at_another_path() -> None:
    with millstream("--anycable", "--anycable-path", "/cable", "--path", "/v1/stream") as server:
        httpx.put(server.url + "/v1/stream/s", content=b"[1]", headers=JSON).raise_for_status()
        assert httpx.get(server.url + "/cable/s").json() == [1]
        assert httpx.get(server.url + "/ds/s").status_code == 404
