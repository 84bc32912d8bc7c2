"""Redirects: followed where that is safe, with a bound, and never with a token to another origin."""

import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

import millstream
from millstream import UnexpectedStatusError
from python_client.answering_server import AnsweringServer
from python_client.faulty_proxy import Request
from running import Server

JSON = "application/json"
SECRETS = {"Authorization": "Bearer secret", "X-Api-Key": "secret", "Cookie": "a=secret"}


def moved(status: int, location: str) -> bytes:
    fields = f"location: {location}\r\ncontent-length: 0\r\nconnection: close"
    return f"HTTP/1.1 {status} Moved\r\n{fields}\r\n\r\n".encode()


def to(server: Server, status: int) -> Any:
    return lambda request: moved(status, server.url + request.target)


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("live", [False, True, "sse"])
def test_everything_follows_with_its_method_and_body(
    shell: Any, server: Server, status: int, live: Any
) -> None:
    with AnsweringServer(to(server, status)) as old:
        url = f"{old.url}/redirects/{uuid.uuid4()}"
        stream = shell.DurableStream.create(url, content_type=JSON)
        stream.append(1)
        with shell.IdempotentProducer(stream, "p") as producer:
            producer.append(2)
        stream.close(3)
        assert stream.head().stream_closed is True
        with shell.stream(url, live=live) as response:
            assert response.read_json() == [1, 2, 3]
        stream.delete()


@pytest.mark.parametrize("status", [301, 302])
def test_reads_follow_the_older_redirects_and_writes_do_not(shell: Any, server: Server, status: int) -> None:
    path = f"/redirects/{uuid.uuid4()}"
    millstream.DurableStream.create(server.url + path, content_type=JSON, body=[1])
    with AnsweringServer(to(server, status)) as old:
        stream = shell.DurableStream(old.url + path, content_type=JSON)
        assert stream.head().exists
        assert stream.stream(live=False).read_json() == [1]
        with pytest.raises(UnexpectedStatusError) as caught:
            stream.append(2)
        assert caught.value.status == status
    assert millstream.stream(server.url + path, live=False).read_json() == [1]


def test_a_token_goes_to_its_own_origin_only(shell: Any) -> None:
    final = b"HTTP/1.1 200 OK\r\nstream-next-offset: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    with AnsweringServer(lambda _: final) as other:

        def redirect(request: Request) -> bytes:
            if request.target == "/first":
                return moved(307, "/second")
            return moved(307, f"{other.url}/third")

        with AnsweringServer(redirect) as own:
            stream = shell.DurableStream(f"{own.url}/first", content_type="text/plain", headers=SECRETS)
            stream.append("hello", producer=millstream.ProducerStamp("p", 0, 0))
    assert [request.headers.get("authorization") for request in own.seen] == ["Bearer secret"] * 2
    [received] = other.seen
    assert b"secret" not in received.head
    assert (received.method, received.body) == ("POST", b"hello")
    assert (received.headers["content-type"], received.headers["producer-id"]) == ("text/plain", "p")


def test_redirects_in_a_circle_end(shell: Any) -> None:
    with AnsweringServer(lambda request: moved(308, request.target)) as server:
        with pytest.raises(UnexpectedStatusError, match="more than 5 times"):
            shell.DurableStream(f"{server.url}/s").head()
        with pytest.raises(UnexpectedStatusError, match="more than 5 times"):
            shell.stream(f"{server.url}/s")
    assert len(server.seen) == 12


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/s", "file:///etc/passwd"])
def test_other_protocols_are_not_followed(shell: Any, location: str) -> None:
    with (
        AnsweringServer(lambda _: moved(307, location)) as server,
        pytest.raises(UnexpectedStatusError) as caught,
    ):
        shell.DurableStream(f"{server.url}/s").head()
    assert caught.value.status == 307
    assert urlsplit(caught.value.url).path == "/s"
