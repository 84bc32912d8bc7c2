"""What a server tells about itself: health, readiness and metrics."""

import httpx

from running import millstream

TEXT = {"Content-Type": "text/plain"}


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
    with millstream("--auth-secret", "a secret that is long enough") as server:
        assert httpx.get(f"{server.url}/__ds/metrics").status_code == 401
        assert httpx.get(f"{server.url}/__ds/healthz").status_code == 200


def test_an_unknown_control_path_is_not_a_stream() -> None:
    with millstream() as server:
        for path in ("/__ds/nothing", "/%5f%5fds/x", "//__ds/x", "/v1/stream/__ds/x"):
            assert httpx.put(server.url + path, headers=TEXT).status_code == 404
        assert httpx.post(f"{server.url}/__ds/streams").headers["allow"] == "GET, HEAD, OPTIONS"
