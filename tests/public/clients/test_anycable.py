"""The public Python client as AnyCable's users point it: at `/ds`, with a JWT and a signed name."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Literal

import httpx
import jwt
import pytest
from durable_streams import DurableStream

from millstream.server.anycable.credentials import make_jwt, sign_name
from running import Server, millstream

SECRET = "a secret that is long enough for HMAC"
ANYCABLE = "another secret, which is long enough, too"
NAME = "chat:2021"


@pytest.fixture(scope="module")
def anycable() -> Iterator[Server]:
    with millstream("--anycable", "--auth-secret", SECRET, "--anycable-secret", ANYCABLE) as server:
        yield server


def writer(server: Server) -> httpx.Client:
    token = jwt.encode({"scope": "write"}, SECRET, algorithm="HS256")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return httpx.Client(base_url=server.url, headers=headers)


@pytest.mark.parametrize("live", ["long-poll", "sse"])
def test_a_reader_catches_up_follows_and_resumes(anycable: Server, live: Literal["long-poll", "sse"]) -> None:
    credentials = {
        "X-JID": make_jwt(ANYCABLE.encode(), '{"user":1}', 60),
        "X-Signed": sign_name(ANYCABLE.encode(), NAME),
    }
    with ExitStack() as stack:
        appending = stack.enter_context(writer(anycable))
        appending.delete(f"/{NAME}")
        appending.put(f"/{NAME}", content=b'[{"id":1},{"id":2}]').raise_for_status()
        url = f"{anycable.url}/ds/{NAME}"
        reader = stack.enter_context(DurableStream.connect(url, headers={**credentials}))
        received, offset = [], ""
        with reader.stream(offset="-1", live=live) as session:
            for event in session.iter_events(mode="json"):
                received += event.data
                offset = event.next_offset
                if len(received) == 2:
                    appending.post(f"/{NAME}", content=b'{"id":3}').raise_for_status()
                if len(received) == 3:
                    break
        assert [message["id"] for message in received] == [1, 2, 3]
        assert "::" in offset
        appending.post(f"/{NAME}", content=b'{"id":4}').raise_for_status()
        with reader.stream(offset=offset, live=False) as session:
            assert session.read_json() == [{"id": 4}]
