"""Reading through the wire: rules G1 to G8, X1, X2, F4."""

import gzip
import json
import time
import uuid
import zlib
from collections.abc import Iterator

import brotli
import httpx
import pytest
import zstandard

from running import millstream, uvicorn_server

SERVERS = {"native": millstream, "asgi": uvicorn_server}
TEXT = {"Content-Type": "text/plain"}
LINES = b"".join(b"line %d\n" % number for number in range(500))
CODINGS = {
    "gzip": (gzip.compress, gzip.decompress),
    "deflate": (zlib.compress, zlib.decompress),
    "br": (lambda body: brotli.compress(body, quality=4), brotli.decompress),
    "zstd": (zstandard.compress, lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body)),
}


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with SERVERS[request.param]() as server, httpx.Client(base_url=server.url) as client:
        del client.headers["Accept-Encoding"]
        yield client


@pytest.fixture
def path(client: httpx.Client) -> str:
    """A new stream that holds 500 lines."""
    path = f"/reading/{uuid.uuid4()}"
    assert client.put(path, content=LINES, headers=TEXT).status_code == 201
    return path


def raw(client: httpx.Client, path: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """Read without decoding the body."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    with client.stream("GET", path, headers=fields) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("coding", CODINGS)
def test_an_answer_is_compressed_as_the_client_likes(client: httpx.Client, path: str, coding: str) -> None:
    """G5."""
    answer, body = raw(client, path, Accept_Encoding=coding)
    assert answer.headers["Content-Encoding"] == coding
    assert answer.headers["Vary"] == "accept-encoding"
    assert answer.headers["Content-Type"] == "text/plain"
    assert int(answer.headers["Content-Length"]) == len(body) < len(LINES) / 2
    assert CODINGS[coding][1](body) == LINES


def test_an_answer_is_not_compressed_when_it_is_not_worth_it(client: httpx.Client, path: str) -> None:
    """G5."""
    for query, headers in [
        ("?limit=1023", {"Accept_Encoding": "gzip"}),
        ("", {}),
        ("", {"Accept_Encoding": "identity"}),
    ]:
        answer, body = raw(client, path + query, **headers)
        assert "Content-Encoding" not in answer.headers
        assert LINES.startswith(body)


def test_a_large_chunk_is_compressed_too(client: httpx.Client) -> None:
    """G5: beside the event loop."""
    path = f"/reading/{uuid.uuid4()}"
    client.put(path, content=b"0123456789" * 20_000, headers=TEXT)
    answer, body = raw(client, path, Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == b"0123456789" * 20_000


@pytest.mark.parametrize("coding", ["identity", *CODINGS])
def test_a_tag_of_any_coding_saves_the_body(client: httpx.Client, path: str, coding: str) -> None:
    """G3."""
    tag = client.get(path, headers={"Accept-Encoding": coding}).headers["ETag"]
    for accepted in ("identity", "gzip", coding):
        again = client.get(path, headers={"If-None-Match": tag, "Accept-Encoding": accepted})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["Stream-Next-Offset"]
        assert again.headers["Stream-Up-To-Date"] == "true"
    client.post(path, content=b"more", headers=TEXT)
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 200


def test_each_coding_has_a_tag_of_its_own(client: httpx.Client, path: str) -> None:
    """G3."""
    tags = {
        client.get(path, headers={"Accept-Encoding": coding}).headers["ETag"] for coding in ["x", *CODINGS]
    }
    assert len(tags) == 5


def test_an_append_after_conditional_reads_is_accepted(client: httpx.Client, path: str) -> None:
    for tag in ('"one"', '"another"'):
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 200
    assert client.post(path, content=b"x", headers=TEXT).status_code == 204
    assert client.get(path).content.endswith(b"x")


def test_closing_is_never_hidden_behind_a_304(client: httpx.Client, path: str) -> None:
    """G3."""
    tag = client.get(path).headers["ETag"]
    client.post(path, headers={"Stream-Closed": "true"})
    answer = client.get(path, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.headers["Stream-Closed"]) == (200, "true")


def test_a_bounded_reader_gets_its_range_in_pieces(client: httpx.Client, path: str) -> None:
    """G7: and nothing of what was appended since."""
    end = client.head(path).headers["Stream-Next-Offset"]
    client.post(path, content=b"later", headers=TEXT)
    offset, pieces = "-1", []
    while offset != end:
        answer = client.get(path, params={"offset": offset, "until": end, "limit": "1000"})
        assert 0 < len(answer.content) <= 1000
        assert "Stream-Up-To-Date" not in answer.headers
        pieces.append(answer.content)
        offset = answer.headers["Stream-Next-Offset"]
    assert b"".join(pieces) == LINES
    done = client.get(path, params={"offset": end, "until": end})
    assert (done.status_code, done.content, done.headers["Stream-Next-Offset"]) == (200, b"", end)


def test_a_json_reader_gets_whole_messages(client: httpx.Client) -> None:
    """G4, G7."""
    path = f"/reading/{uuid.uuid4()}"
    messages = [{"number": number, "text": "ä" * number} for number in range(50)]
    client.put(path, content=json.dumps(messages), headers={"Content-Type": "application/json"})
    offset, read = "-1", []
    while len(read) < 50:
        answer = client.get(path, params={"offset": offset, "limit": "100"})
        assert answer.headers["Content-Type"] == "application/json"
        read += answer.json()
        offset = answer.headers["Stream-Next-Offset"]
    assert read == messages
    assert client.get(path, params={"offset": offset}).content == b"[]"


@pytest.mark.parametrize("query", ["offset=-1", "offset=now", "offset=-1&limit=1500", "offset=nonsense"])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_head_tells_what_a_get_would(client: httpx.Client, path: str, query: str, coding: str) -> None:
    """X1."""
    got = client.get(f"{path}?{query}", headers={"Accept-Encoding": coding})
    asked = client.head(f"{path}?{query}", headers={"Accept-Encoding": coding})
    changing = {"date", "content-length", "connection", "transfer-encoding"}
    assert asked.status_code == got.status_code
    assert {k: v for k, v in asked.headers.items() if k not in changing} == {
        k: v for k, v in got.headers.items() if k not in changing
    }


def test_a_listing_is_read_page_by_page(client: httpx.Client) -> None:
    """X2."""
    folder = f"/listed/{uuid.uuid4()}"
    names = sorted(f"{folder}/{number}" for number in range(7))
    for name in names:
        client.put(name)
    found, cursor = [], ""
    while cursor is not None:
        page = client.get("/__ds/streams", params={"prefix": folder, "limit": "3", "cursor": cursor})
        assert page.headers["Content-Type"] == "application/json"
        found += [stream["path"] for stream in page.json()["streams"]]
        cursor = page.json()["cursor"]
    assert found == names


@pytest.mark.parametrize("lifetime", ["ttl", "expiry"], ids=["Stream-TTL", "Stream-Expires-At"])
def test_a_stream_ends_promptly_and_takes_its_readers_along(client: httpx.Client, lifetime: str) -> None:
    """F4, L6: less than a second late; nobody has to ask."""
    path = f"/reading/{uuid.uuid4()}"
    ends_s = time.time() + 1
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ends_s)) + f".{int(ends_s % 1 * 1000):03d}Z"
    headers = {"Stream-TTL": "1"} if lifetime == "ttl" else {"Stream-Expires-At": stamp}
    assert client.put(path, headers=headers).status_code == 201
    with client.stream("GET", path, params={"offset": "-1", "live": "sse"}) as events:
        assert events.status_code == 200
        assert b"streamClosed" not in events.read()
    assert -0.2 < time.time() - ends_s < 3
    assert client.get(path).status_code == 404
    assert client.put(path, headers=TEXT).status_code == 201


# -- Request bodies ------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", CODINGS)
def test_a_compressed_body_is_taken(client: httpx.Client, path: str, coding: str) -> None:
    """A11."""
    body = CODINGS[coding][0](b"packed")
    headers = TEXT | {"Content-Encoding": coding}
    assert client.post(path, content=body, headers=headers).status_code == 204
    assert client.get(path).content == LINES + b"packed"
    created = client.put(f"{path}/new", content=body, headers=headers)
    assert created.status_code == 201
    assert client.get(f"{path}/new").content == b"packed"


@pytest.mark.parametrize("coding", CODINGS)
def test_a_compressed_body_that_is_cut_short_is_refused(client: httpx.Client, path: str, coding: str) -> None:
    """A11."""
    body = CODINGS[coding][0](LINES)[:-3]
    answer = client.post(path, content=body, headers=TEXT | {"Content-Encoding": coding})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ENCODING")


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_refused(client: httpx.Client, path: str, coding: str) -> None:
    """A11."""
    bomb = CODINGS[coding][0](bytes(100_000_000))
    answer = client.post(path, content=bomb, headers=TEXT | {"Content-Encoding": coding})
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
    assert client.get(path).content == LINES


def test_an_unknown_coding_is_refused(client: httpx.Client, path: str) -> None:
    """A11."""
    answer = client.post(path, content=b"x", headers=TEXT | {"Content-Encoding": "lzma"})
    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_ENCODING")


def test_a_body_over_the_limit_is_refused(client: httpx.Client, path: str) -> None:
    """A11."""
    try:
        answer = client.post(path, content=bytes(17 * 2**20), headers=TEXT)
    except httpx.TransportError:
        pytest.skip("this server hangs up on a client that goes on sending")
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
