"""What a server tells: its health, readiness, metrics, facts and history, and what a token allows."""

import signal
import sys
import time
from pathlib import Path

import httpx
import jwt
import pytest

from running import ServerFactory, announced, durable_millstream, millstream, started, uvicorn_server

TEXT = {"Content-Type": "text/plain"}
SECRET = "a secret that is long enough for HS256"


def bearer(scope: str) -> dict[str, str]:
    token = jwt.encode({"scope": scope, "exp": 2_000_000_000}, SECRET, "HS256")
    return {"Authorization": f"Bearer {token}"}


def sample(text: str, name: str) -> float:
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


def test_a_running_server_is_healthy_and_ready() -> None:
    with millstream() as server:
        for path in ("/__ds/healthz", "/__ds/readyz", "/v1/stream/__ds/readyz"):
            answer = httpx.get(server.url + path)
            assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


def test_metrics_count_what_happened_under_the_names_of_the_seed() -> None:
    with millstream() as server:
        url = f"{server.url}/counted"
        httpx.put(url, headers=TEXT)
        for _ in range(3):
            httpx.post(url, content=b"12345", headers=TEXT)
        httpx.get(url)
        httpx.head(url)
        httpx.get(url, params={"offset": "-1", "live": "long-poll"})
        httpx.get(f"{server.url}/missing")
        with httpx.stream("GET", url, params={"offset": "now", "live": "sse"}) as events:
            next(events.iter_raw())
            text = httpx.get(f"{server.url}/__ds/metrics").text
        assert sample(text, "millstream_appends_total") == 3
        assert sample(text, "millstream_appended_bytes_total") == 15
        assert sample(text, "millstream_refused_requests_total") == 1
        assert sample(text, "ds_requests_total") == 5
        assert sample(text, "ds_poll_requests_total") == 1
        assert sample(text, "ds_poll_clients_num") == 0
        assert sample(text, "ds_sse_requests_total") == 1
        assert sample(text, "ds_sse_clients_num") == 1


def test_metrics_need_an_admin_where_tokens_are_asked_for() -> None:
    with millstream("--auth-secret", SECRET) as server:
        for path in ("metrics", "server", "history"):
            assert httpx.get(f"{server.url}/__ds/{path}").status_code == 401
            refused = httpx.get(f"{server.url}/__ds/{path}", headers=bearer("read write"))
            assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
            assert httpx.get(f"{server.url}/__ds/{path}", headers=bearer("admin")).status_code == 200
        assert httpx.get(f"{server.url}/__ds/healthz").status_code == 200


def test_an_unknown_control_path_is_not_a_stream() -> None:
    with millstream() as server:
        for path in ("/__ds/nothing", "/%5f%5fds/x", "//__ds/x", "/v1/stream/__ds/x"):
            assert httpx.put(server.url + path, headers=TEXT).status_code == 404
        assert httpx.post(f"{server.url}/__ds/access").headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("start", [durable_millstream, uvicorn_server], ids=["native", "asgi"])
def test_a_running_server_keeps_samples_of_its_numbers(start: ServerFactory) -> None:
    with start() as server:
        httpx.put(f"{server.url}/s", headers=TEXT)
        httpx.post(f"{server.url}/s", content=b"12345", headers=TEXT)
        deadline_s = time.monotonic() + 60
        while True:
            found = httpx.get(f"{server.url}/__ds/history").json()
            samples = [dict(zip(found["columns"], values, strict=True)) for values in found["samples"]]
            if len(samples) > 1:  # one was kept: the last one is that of now
                break
            assert time.monotonic() < deadline_s, "no sample was kept"
            time.sleep(0.1)
        assert (samples[-1]["appends"], samples[-1]["appendedBytes"]) == (1, 5)
        assert [sample["atMs"] for sample in samples] == sorted(sample["atMs"] for sample in samples)
        facts = httpx.get(f"{server.url}/__ds/server").json()
        assert (facts["streams"], facts["appends"], facts["appendedBytes"]) == (1, 1, 5)
        assert abs(facts["startedMs"] / 1000 - time.time()) < 60


def test_a_durable_server_tells_how_much_room_there_is() -> None:
    with durable_millstream() as server:
        httpx.put(f"{server.url}/s", content=b"x" * 5000, headers=TEXT)
        deadline_s = time.monotonic() + 60
        while (facts := httpx.get(f"{server.url}/__ds/server").json())["storeBytes"] is None:
            assert time.monotonic() < deadline_s, "the sizes were not measured"
        assert facts["storeBytes"] > 5000
        assert facts["freeBytes"] > 0
        assert facts["store"] == "log"
        samples = httpx.get(f"{server.url}/__ds/history").json()
        assert dict(zip(samples["columns"], samples["samples"][-1], strict=True))["syncs"] >= 1


def test_who_has_a_token_can_ask_what_it_allows() -> None:
    with millstream("--auth-secret", SECRET) as server:
        refused = httpx.get(f"{server.url}/__ds/access")
        assert (refused.status_code, refused.json()["code"]) == (401, "MISSING_TOKEN")
        writer = bearer("read:/a/** write:/a/b")
        for path, read, write in ((None, True, True), ("/a/b", True, True), ("/a/c", True, False)):
            query = {} if path is None else {"path": path}
            found = httpx.get(f"{server.url}/__ds/access", params=query, headers=writer).json()
            assert (found["path"], found["read"], found["write"]) == (path, read, write)
            assert (found["admin"], found["expiresMs"]) == (False, 2_000_000_000_000)


def test_the_last_write_is_remembered_by_a_server_that_was_killed(tmp_path: Path) -> None:
    """X2."""

    def listed(url: str) -> dict[str, int]:
        streams = httpx.get(f"{url}/__ds/streams").json()["streams"]
        return {stream["path"]: stream["lastWriteMs"] for stream in streams}

    command = [sys.executable, "-m", "millstream", "serve", "--data", str(tmp_path), "--port", "0"]
    with started(command, announced) as server:
        for name in ("/silent", "/written"):
            httpx.put(server.url + name, headers=TEXT)
        httpx.post(f"{server.url}/written", content=b"x", headers=TEXT)
        before = listed(server.url)
        server.signal(signal.SIGKILL)
    assert before["/written"] >= before["/silent"]
    with started(command, announced) as server:
        assert listed(server.url) == before
