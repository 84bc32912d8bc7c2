"""Starting, stopping and limits of a real server process: rules C2, L6, P1, P4, H4."""

import contextlib
import json
import resource
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from running import Server, millstream, started
from wire.raw_connection import HungUpError, Wire, request

TEXT = {"Content-Type": "text/plain"}
AT_ONCE_S = 8.0  # the timeouts that must not be waited for are longer


def exit_status(server: Server) -> int:
    """Wait for a server that was told to stop; a second signal might find it without a handler."""
    return server.wait_for_exit()


# -- Stopping ------------------------------------------------------------------------------------


@pytest.fixture
def patient() -> Iterator[Server]:
    """A server on which nothing ends by itself while a test runs."""
    with millstream("--long-poll-timeout-ms", "60000", "--drain-timeout-s", "20") as server:
        httpx.put(server.url + "/s", headers=TEXT)
        yield server


def test_a_server_that_stops_answers_what_was_begun(patient: Server) -> None:
    """L6: waiting readers at once, a request that is still being sent when it is whole; then it is gone."""
    with (
        Wire(patient.url) as polling,
        Wire(patient.url) as watching,
        Wire(patient.url) as sending,
        Wire(patient.url) as idle,
    ):
        idle.ask("HEAD", "/s")
        polling.request("GET", "/s?offset=-1&live=long-poll")
        watching.request("GET", "/s?offset=-1&live=sse")
        assert watching.head()[0] == 200
        events = watching.events()
        next(events)
        sending.send(request("POST", "/s", b"", Content_Length="11") + b"hello ")
        idle.ask("HEAD", "/s")  # by now the server has read all of the above
        begun_s = time.monotonic()
        patient.signal(signal.SIGTERM)
        assert polling.answer().status == 204
        assert polling.is_closed()
        assert list(events) == []
        assert watching.is_closed()
        assert idle.is_closed()
        assert patient.exit_code is None  # it waits for the body
        sending.send(b"world")
        answer = sending.answer()
        assert (answer.status, answer.headers["connection"]) == (204, "close")
        assert answer.headers["stream-next-offset"].endswith("11")
        assert sending.is_closed()
        assert exit_status(patient) == 0
        assert time.monotonic() - begun_s < AT_ONCE_S


def test_a_server_that_stops_takes_no_new_connections(patient: Server) -> None:
    """L6."""
    with Wire(patient.url) as sending:
        sending.send(request("POST", "/s", b"", Content_Length="5") + b"he")
        httpx.head(patient.url + "/s")
        patient.signal(signal.SIGINT)
        deadline_s = time.monotonic() + AT_ONCE_S
        while time.monotonic() < deadline_s:
            try:
                Wire(patient.url).socket.close()
            except ConnectionError:
                break
        else:
            pytest.fail("connections are still taken")
        sending.send(b"llo")
        assert sending.answer().status == 204
    assert exit_status(patient) == 0


def test_a_server_does_not_wait_for_ever() -> None:
    """A client that never finishes is given up."""
    with millstream("--drain-timeout-s", "0.5") as server, Wire(server.url) as sending:
        sending.send(request("POST", "/s", b"", Content_Length="5") + b"he")
        httpx.head(server.url + "/s")
        begun_s = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun_s < AT_ONCE_S
        with pytest.raises(HungUpError):
            sending.answer()


# -- Limits --------------------------------------------------------------------------------------


def test_a_full_server_says_so_and_recovers() -> None:
    """H4."""
    with millstream("--max-connections", "3") as server:
        for _ in range(2):
            wires = [Wire(server.url) for _ in range(3)]
            assert [wire.ask("GET", "/nowhere").status for wire in wires] == [404] * 3
            for _ in range(5):
                with Wire(server.url) as one_more:
                    answer = one_more.ask("GET", "/nowhere")
                    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                    assert one_more.is_closed()
            assert [wire.ask("GET", "/nowhere").status for wire in wires] == [404] * 3
            for wire in wires:
                wire.socket.close()
            assert until_served(server)


def until_served(server: Server) -> bool:
    deadline_s = time.monotonic() + AT_ONCE_S
    while time.monotonic() < deadline_s:
        with Wire(server.url) as wire, contextlib.suppress(HungUpError, ConnectionError):
            if wire.ask("GET", "/nowhere").status == 404:
                return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_a_server_without_descriptors_recovers() -> None:
    """H4: accepting goes on when there is room again."""
    with millstream() as server:
        in_use = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (in_use + 10, hard))
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        crowd = [socket.create_connection(address) for _ in range(30)]
        time.sleep(0.2)
        for one in crowd:
            one.close()
        assert until_served(server)


def test_many_streams_at_once_are_all_served() -> None:
    """No spurious error: a reference server answered 532 of 900 appends with 404 here."""
    with millstream() as server:
        failures: list[str] = []

        def work(worker: int) -> None:
            with Wire(server.url) as wire:
                paths = [f"/{worker}/{number}" for number in range(30)]
                wire.send(b"".join(request("PUT", path, Content_Type="text/plain") for path in paths))
                failures.extend(path for path in paths if wire.answer().status != 201)
                for text in (b"a", b"b", b"c"):
                    wire.send(b"".join(request("POST", path, text) for path in paths))
                    failures.extend(path for path in paths if wire.answer().status != 204)
                wire.send(b"".join(request("GET", path) for path in paths))
                failures.extend(path for path in paths if wire.answer().body != b"abc")

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(10)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failures == []
        listed = httpx.get(server.url + "/__ds/streams?limit=1000").json()["streams"]
        assert len(listed) == 300


# -- Where it is found ---------------------------------------------------------------------------


def test_streams_live_below_a_mount_prefix() -> None:
    """P1, C2."""
    with millstream("--path", "/v1/stream") as server:
        assert f"{server.url}/v1/stream" in server.output()
        root = server.url + "/v1/stream"
        created = httpx.put(root + "/chat/a", content=b"x", headers=TEXT)
        assert (created.status_code, created.headers["Location"]) == (201, root + "/chat/a")
        assert httpx.get(created.headers["Location"]).content == b"x"
        fork = httpx.put(root + "/chat/b", headers={"Stream-Forked-From": "/v1/stream/chat/a"})
        assert fork.status_code == 201
        assert httpx.get(root + "/chat/b").content == b"x"
        assert httpx.get(server.url + "/chat/a").status_code == 404
        assert len(httpx.get(root + "/__ds/streams").json()["streams"]) == 2


@pytest.mark.parametrize("trusted", [False, True])
def test_a_location_believes_a_proxy_only_when_told_to(trusted: bool) -> None:
    """C2."""
    with millstream(*(["--trust-forwarded"] if trusted else [])) as server:
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "public.example"}
        location = httpx.put(server.url + "/s", headers=forwarded).headers["Location"]
        assert location == ("https://public.example/s" if trusted else server.url + "/s")


def test_https_is_served_with_a_certificate(certificate: tuple[Path, Path]) -> None:
    """C2: and said so in every URL."""
    cert, key = certificate
    command = [sys.executable, "-m", "millstream", "serve", "--port", "0", "--store", "memory"]
    command += ["--tls-cert", str(cert), "--tls-key", str(key), "--long-poll-timeout-ms", "200"]

    def announced(server: Server) -> None:
        server.wait_until(lambda: "https://127.0.0.1:" in server.output())
        server.url = "https://127.0.0.1:" + server.output().split("https://127.0.0.1:")[1].split()[0]

    with started(command, announced) as server:
        context = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=server.url, verify=context) as client:
            created = client.put("/s", content=b"hello " * 50_000, headers=TEXT)
            assert created.headers["Location"] == server.url + "/s"
            assert client.get("/s", headers={"Accept-Encoding": "identity"}).content == b"hello " * 50_000
            assert client.get("/s?offset=now&live=long-poll").status_code == 204
            with client.stream("GET", "/s?offset=now&live=sse") as events:
                control = next(line for line in events.iter_lines() if line.startswith("data:"))
                assert json.loads(control[5:])["upToDate"] is True
            assert client.post("/s", content=bytes(17 * 2**20), headers=TEXT).status_code == 413
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(server.url.replace("https", "http"))
        assert server.stop() == 0
        assert "Traceback" not in server.output()
