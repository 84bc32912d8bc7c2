"""Closing a closed stream: the eleven named cases that a server once got wrong.

All through the wire, on the native server and on the ASGI app. A closed stream is not simply a
409: a repeated close is a success, a retry by the producer that closed is a success, and every
refusal says why in its headers.
"""

import uuid
from collections.abc import Iterator

import httpx
import pytest

from running import millstream, uvicorn_server

CLOSE = {"Stream-Closed": "true"}
TEXT = {"Content-Type": "text/plain"}
SERVERS = {"native": millstream, "asgi": uvicorn_server}


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with SERVERS[request.param]() as server, httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def path(client: httpx.Client) -> str:
    """A new, open text stream."""
    path = f"/closing/{uuid.uuid4()}"
    assert client.put(path, headers=TEXT).status_code == 201
    return path


@pytest.fixture
def closed_path(client: httpx.Client, path: str) -> str:
    """A text stream that was closed, by nobody in particular, after one message."""
    assert client.post(path, content=b"message", headers=TEXT | CLOSE).status_code == 204
    return path


def producer(producer_id: str, epoch: int, seq: int) -> dict[str, str]:
    return {"Producer-Id": producer_id, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}


def content(client: httpx.Client, path: str) -> bytes:
    return client.get(path).content


def assert_closed_at_tail(client: httpx.Client, path: str, answer: httpx.Response) -> None:
    """The answer says that the stream is closed, and where it ends."""
    assert answer.headers.get("Stream-Closed") == "true"
    assert answer.headers.get("Stream-Next-Offset") == client.head(path).headers["Stream-Next-Offset"]


def test_close_idempotent(client: httpx.Client, path: str) -> None:
    for _ in range(3):
        answer = client.post(path, headers=CLOSE)
        assert answer.status_code == 204
        assert_closed_at_tail(client, path, answer)


@pytest.mark.parametrize(
    "content_type", [{"Content-Type": "application/json"}, {}], ids=["mismatched", "missing"]
)
def test_close_only_ignores_content_type(
    client: httpx.Client, path: str, content_type: dict[str, str]
) -> None:
    for _ in range(2):  # on the open stream, then on the closed one
        answer = client.post(path, headers=content_type | CLOSE)
        assert answer.status_code == 204
        assert_closed_at_tail(client, path, answer)


def test_append_to_closed_stream_409(client: httpx.Client, closed_path: str) -> None:
    answer = client.post(closed_path, content=b"more", headers=TEXT)
    assert answer.status_code == 409
    assert answer.headers.get("Stream-Closed") == "true"
    assert content(client, closed_path) == b"message"


def test_append_and_close_to_closed_stream_409(client: httpx.Client, closed_path: str) -> None:
    answer = client.post(closed_path, content=b"more", headers=TEXT | CLOSE)
    assert answer.status_code == 409
    assert_closed_at_tail(client, closed_path, answer)
    assert content(client, closed_path) == b"message"


def test_idempotent_close_duplicate_returns_204(client: httpx.Client, path: str) -> None:
    closing = TEXT | CLOSE | producer("p", 0, 0)
    assert client.post(path, content=b"final", headers=closing).status_code == 200
    answer = client.post(path, content=b"final", headers=closing)
    assert answer.status_code == 204
    assert_closed_at_tail(client, path, answer)
    assert (answer.headers["Producer-Epoch"], answer.headers["Producer-Seq"]) == ("0", "0")
    assert content(client, path) == b"final"


@pytest.mark.parametrize("body", [b"other", b""], ids=["with-body", "close-only"])
def test_idempotent_close_different_tuple_returns_409(client: httpx.Client, path: str, body: bytes) -> None:
    client.post(path, content=b"final", headers=TEXT | CLOSE | producer("p", 0, 0))
    answer = client.post(path, content=body, headers=TEXT | CLOSE | producer("q", 0, 0))
    assert answer.status_code == 409
    assert_closed_at_tail(client, path, answer)
    assert content(client, path) == b"final"


@pytest.mark.parametrize("body", [b"other", b""], ids=["with-body", "close-only"])
def test_idempotent_close_different_seq_returns_409(client: httpx.Client, path: str, body: bytes) -> None:
    client.post(path, content=b"final", headers=TEXT | CLOSE | producer("p", 0, 0))
    answer = client.post(path, content=body, headers=TEXT | CLOSE | producer("p", 0, 1))
    assert answer.status_code == 409
    assert_closed_at_tail(client, path, answer)
    assert content(client, path) == b"final"


def test_idempotent_close_only_duplicate_returns_204(client: httpx.Client, path: str) -> None:
    closing = CLOSE | producer("p", 0, 0)
    assert client.post(path, headers=closing).status_code == 204
    answer = client.post(path, headers=closing)
    assert answer.status_code == 204
    assert_closed_at_tail(client, path, answer)
    assert (answer.headers["Producer-Epoch"], answer.headers["Producer-Seq"]) == ("0", "0")


def test_409_includes_stream_offset(client: httpx.Client, closed_path: str) -> None:
    answer = client.post(closed_path, content=b"more", headers=TEXT)
    assert answer.status_code == 409
    assert_closed_at_tail(client, closed_path, answer)


def test_close_with_different_body_dedup(client: httpx.Client, path: str) -> None:
    closing = TEXT | CLOSE | producer("p", 0, 0)
    client.post(path, content=b"first body", headers=closing)
    answer = client.post(path, content=b"another body", headers=closing)
    assert answer.status_code == 204
    assert_closed_at_tail(client, path, answer)
    assert content(client, path) == b"first body"


def test_producer_duplicate_should_return_204_even_with_stream_seq_header(
    client: httpx.Client, path: str
) -> None:
    stamped = TEXT | producer("p", 0, 0) | {"Stream-Seq": "001"}
    assert client.post(path, content=b"once", headers=stamped).status_code == 200
    assert client.post(path, content=b"once", headers=stamped).status_code == 204
    assert content(client, path) == b"once"
