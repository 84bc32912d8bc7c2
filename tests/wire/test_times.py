"""Reads from a time and of the last messages through the wire: rules X7, X8."""

import json
import time
import uuid
from collections.abc import Iterator

import httpx
import pytest

from running import ServerFactory, millstream, uvicorn_server

SERVERS: dict[str, ServerFactory] = {"native": millstream, "asgi": uvicorn_server}
JSON = {"Content-Type": "application/json"}
TEXT = {"Content-Type": "text/plain"}
FIRST, LAST, START, NEXT = (
    "Stream-First-Time",
    "Stream-Last-Time",
    "Stream-Start-Offset",
    "Stream-Next-Offset",
)


@pytest.fixture(scope="module", params=SERVERS)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with SERVERS[request.param]() as server, httpx.Client(base_url=server.url) as client:
        yield client


@pytest.fixture
def path(client: httpx.Client) -> str:
    """A new JSON stream."""
    path = f"/times/{uuid.uuid4()}"
    assert client.put(path, headers=JSON).status_code == 201
    return path


def append(client: httpx.Client, path: str, *values: object) -> None:
    assert client.post(path, content=json.dumps(values), headers=JSON).status_code == 204
    time.sleep(0.003)  # the next one has another time


def test_a_stream_is_read_by_its_times(client: httpx.Client, path: str) -> None:
    """X7: what one answer says, the next request may use."""
    for number in range(5):
        append(client, path, number)
    offset, seen = "-1", []
    while True:
        answer = client.get(path, params={"offset": offset, "times": "true"})
        assert answer.headers[FIRST] == answer.headers[LAST]
        seen.append((answer.json(), answer.headers[LAST]))
        offset = answer.headers[NEXT]
        if "Stream-Up-To-Date" in answer.headers:
            break
    assert [values for values, _ in seen] == [[0], [1], [2], [3], [4]]
    for number, (_, moment) in enumerate(seen):
        found = client.get(path, params={"offset": f"time:{moment}"})
        assert found.json() == list(range(number, 5))
        assert client.get(path, params={"offset": found.headers[START]}).json() == found.json()
        head = client.head(path, params={"offset": f"time:{moment}"})
        assert head.headers[START] == found.headers[START]


def test_a_recent_answer_is_not_given_for_a_later_time(client: httpx.Client, path: str) -> None:
    """X7: the server keeps small answers until the stream changes; one of a time ago changes by itself."""
    for _ in range(20):
        begun_s = time.monotonic()
        append(client, path, 1)
        answer = client.get(path, params={"offset": "time:-1s"}).json()
        if time.monotonic() - begun_s < 0.9:  # otherwise a second may have passed
            break
    assert answer[-1:] == [1]
    time.sleep(1.05)
    assert client.get(path, params={"offset": "time:-1s"}).json() == []


def test_the_last_messages_are_never_stale(client: httpx.Client, path: str) -> None:
    """X8."""
    for number in range(5):
        append(client, path, number, number)
        assert client.get(path, params={"offset": "last:1"}).json() == [number]


def test_a_plus_sign_is_explained(client: httpx.Client, path: str) -> None:
    """X7: in a query it is a space."""
    answer = client.get(f"{path}?offset=time:2030-01-31T12:00:00+01:00")
    assert answer.status_code == 400
    assert "%2B" in answer.json()["detail"]
    assert client.get(path, params={"offset": "time:2030-01-31T12:00:00+01:00"}).status_code == 200


def test_the_last_of_a_compressed_answer(client: httpx.Client, path: str) -> None:
    """X8, G5."""
    append(client, path, *("word " * 20 for _ in range(100)))
    answer = client.get(path, params={"offset": "last:50"}, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.json()) == 50


def test_characters_that_appends_cut_are_whole_in_timed_events(client: httpx.Client) -> None:
    """X7, L7."""
    path = f"/times/{uuid.uuid4()}"
    client.put(path, headers=TEXT)
    euro = "€uro".encode()
    for piece in (b"a" + euro[:1], euro[1:2], euro[2:] + b"b", euro[:2]):
        client.post(path, content=piece, headers=TEXT)
        time.sleep(0.003)
    client.post(path, headers={"Stream-Closed": "true"})
    with client.stream("GET", path, params={"offset": "-1", "live": "sse", "times": "true"}) as events:
        text = "".join(events.iter_text())
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    data = [lines[1].removeprefix("data:") for lines in blocks if lines[0] == "event: data"]
    assert data == ["a", "€urob", "\ufffd"]
    controls = [json.loads(lines[1][5:]) for lines in blocks if lines[0] == "event: control"]
    times = [control["streamLastTime"] for control in controls]
    assert times == sorted(times)
    assert controls[-1]["streamClosed"] is True
    assert all("streamClosed" not in control for control in controls[:-1])
