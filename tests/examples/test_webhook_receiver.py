"""The example in FastAPI receives webhooks of a real server, and refuses those of others."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from examples.conftest import EXAMPLES
from millstream import DurableStream
from millstream.subscriptions import Subscriptions
from running import Server, free_port, millstream

WAIT_S = 60


@pytest.fixture
def streams() -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture
def application(streams: Server) -> Iterator[str]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--app-dir",
        str(EXAMPLES),
        "webhook_receiver:app",
        "--port",
        str(port),
    ]
    with subprocess.Popen(
        command, env={**os.environ, "STREAMS": streams.url}, stderr=subprocess.DEVNULL
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            eventually(lambda: is_up(url))
            yield url
        finally:
            process.terminate()


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/orders").status_code == 200
    except httpx.TransportError:
        return False


def eventually(holds: object) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_orders_arrive_once_and_forged_ones_do_not(streams: Server, application: str) -> None:
    subscriptions = Subscriptions(streams.url)
    subscriptions.create_webhook("orders", f"{application}/hook", pattern="orders/**")
    stream = DurableStream.create(f"{streams.url}/orders/1", content_type="application/json")
    for number in range(3):
        tail = stream.append({"n": number}).next_offset
        eventually(lambda number=number: len(httpx.get(f"{application}/orders").json()) == number + 1)
    assert httpx.get(f"{application}/orders").json() == [{"n": 0}, {"n": 1}, {"n": 2}]
    eventually(lambda: [link.acked_offset for link in subscriptions.read("orders").streams] == [tail])
    forged = {"Webhook-Signature": f"t={int(time.time())},kid=ds_x,ed25519={'A' * 86}"}
    for headers, code in ((forged, "UNKNOWN_KEY"), ({}, "MISSING_SIGNATURE")):
        answer = httpx.post(f"{application}/hook", content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (401, code)
