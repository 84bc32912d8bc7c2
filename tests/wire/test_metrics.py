"""The numbers of a running server: on its own path and on the admin port, for the engine, too."""

import asyncio
import platform
import signal
import time
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from millstream.server.request import Request
from millstream.server.telemetry.engine_metrics import SizeWatch
from millstream.server.telemetry.latencies import Latencies
from millstream.store.measures import Histogram, Sizes
from millstream.store.memory import MemoryEngine
from millstream.store.table import Table
from running import HASTY_MS, ServerFactory, durable_millstream, free_port, millstream, uvicorn_server
from wire.inprocess import run, serving, until
from wire.raw_connection import Wire, request

TEXT = {"Content-Type": "text/plain"}
Numbers = dict[tuple[str, str], float]


def numbers(url: str) -> Numbers:
    """Every sample, by its name and the value of its label."""
    answer = httpx.get(url).raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_the_engine_tells_of_syncs_checkpoints_sizes_and_recovery(tmp_path: Path) -> None:
    with millstream("--store", "log", "--data", str(tmp_path)) as server:
        url = f"{server.url}/s"
        httpx.put(url, headers=TEXT)
        for _ in range(5):
            httpx.post(url, content=b"x" * 1000, headers=TEXT)
        found = numbers(f"{server.url}/__ds/metrics")
        syncs = found["millstream_sync_seconds_count", ""]
        assert 1 <= syncs <= 6
        assert found["millstream_sync_seconds_sum", ""] > 0
        assert found["millstream_sync_seconds_bucket", "+Inf"] == syncs
        assert found["millstream_sync_records_count", ""] == syncs
        assert found["millstream_sync_records_sum", ""] == 6  # a create and five appends
        assert found["millstream_durable_lag_records", ""] == 0
        assert found["millstream_durable_lag_seconds", ""] == 0
        assert found["millstream_recovery_seconds", ""] > 0
        assert found["millstream_log_bytes", ""] > 5000
        assert found["millstream_store_bytes", ""] > 5000
        assert found["millstream_disk_free_bytes", ""] > 0
        deadline_s = time.monotonic() + 60
        while not numbers(f"{server.url}/__ds/metrics")["millstream_checkpoint_seconds_count", ""]:
            assert time.monotonic() < deadline_s, "no checkpoint was counted"
            time.sleep(0.2)


def test_an_engine_without_a_disk_tells_nothing_of_one() -> None:
    with millstream() as server:
        names = {name for name, _ in numbers(f"{server.url}/__ds/metrics")}
        assert "millstream_sync_seconds_count" not in names
        assert "millstream_appends_total" in names


def test_live_readers_are_told_by_mode() -> None:
    with millstream("--long-poll-timeout-ms", "60000") as server:
        httpx.put(f"{server.url}/s", headers=TEXT)
        with Wire(server.url) as polling, Wire(server.url) as watching, Wire(server.url) as other:
            polling.request("GET", "/s?offset=-1&live=long-poll")
            watching.request("GET", "/s?offset=-1&live=sse")
            watching.head()
            other.ask("HEAD", "/s")
            found = numbers(f"{server.url}/__ds/metrics")
            assert found["millstream_readers", "sse"] == 1
            assert found["millstream_readers", "long-poll"] == 1


def labelled(url: str) -> dict[tuple[str, ...], float]:
    """Every sample, by its name and the values of its labels, in the order of the labels' names."""
    text = httpx.get(url).raise_for_status().text
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for sample in samples
    }


@pytest.mark.parametrize("start", [millstream, uvicorn_server], ids=["native", "asgi"])
def test_the_time_of_requests_is_told_by_route_and_status(start: ServerFactory) -> None:
    with start(long_poll_ms=HASTY_MS) as server, httpx.Client(base_url=server.url) as client:
        client.put("/s", headers=TEXT)
        for _ in range(3):
            client.post("/s", content=b"x", headers=TEXT)
        client.post("/missing", content=b"x", headers=TEXT)
        client.get("/s?offset=now&live=long-poll")
        client.get("/s?offset=-1")
        client.request("COPY", "/s")
        client.get("/__ds/healthz")
        found = labelled(f"{server.url}/__ds/metrics")
        count, total = "millstream_request_seconds_count", "millstream_request_seconds_sum"
        assert found[count, "create", "201"] == 1
        assert found[count, "append", "204"] == 3
        assert found[count, "append", "404"] == 1
        assert found[count, "read", "200"] == 1
        assert found[count, "live", "204"] == 1
        assert found[count, "other", "405"] == 1
        assert found[count, "control", "200"] == 1
        assert found[total, "live", "204"] >= 0.9 * HASTY_MS / 1000  # timers may fire a little early
        assert found["millstream_request_seconds_bucket", "0.2", "live", "204"] == 0
        assert found["millstream_request_seconds_bucket", "+Inf", "live", "204"] == 1


def test_requests_are_timed_one_by_one_when_few_and_sampled_when_many() -> None:
    def counted(latencies: Latencies) -> float:
        [family] = latencies.collect()
        return max((sample.value for sample in family.samples), default=0)

    latencies = Latencies()
    asked = Request(b"GET", b"/s", b"", {}, b"")
    for _ in range(50):
        for _ in range(20):
            timing = latencies.sample()
            assert timing is not None, "so few are timed, each of them"
            timing.end(asked, 200)
        latencies.start_interval()
    assert counted(latencies) == 1000
    timed = 0
    for _ in range(10_000):
        timing = latencies.sample()
        if timing is not None:
            timing.end(asked, 200)
            timed += 1
    assert timed < 500
    assert abs(counted(latencies) - 11_000) < 40


def test_routes_and_statuses_are_few_whatever_methods_come() -> None:
    latencies = Latencies()
    for number in range(1000):
        latencies.count(b"M%d" % number, 405, 0.0, 1)
    [family] = latencies.collect()
    assert {tuple(sample.labels.values())[:2] for sample in family.samples} == {("other", "405")}
    assert max(sample.value for sample in family.samples) == 1000


def test_streams_and_the_version_are_told() -> None:
    with millstream() as server:
        for name in ("a", "b", "c"):
            httpx.put(f"{server.url}/{name}")
        httpx.delete(f"{server.url}/b")
        found = labelled(f"{server.url}/__ds/metrics")
        assert found["millstream_streams",] == 2
        [build] = [labels for labels in found if labels[0] == "millstream_build_info"]
        assert set(build[1:]) == {version("millstream"), platform.python_version()}


def test_a_reader_that_does_not_read_is_counted_when_it_is_given_up() -> None:
    async def main() -> None:
        async with serving(sse_ttl_s=0.1, idle_timeout_s=5) as served:
            writer, stalled = await served.connect(), await served.connect()
            writer.send(request("PUT", "/s", Content_Type="text/plain"))
            assert await writer.status() == 201
            stalled.reader._transport.pause_reading()  # type: ignore[attr-defined]
            stalled.send(request("GET", "/s?offset=-1&live=sse"))
            await until(lambda: bool(served.live.feeds))
            for _ in range(20):
                writer.send(request("POST", "/s", bytes(2**20)))
                assert await writer.status() == 204
            await until(lambda: not served.live.feeds)
            assert served.routes.metrics.dropped == 0
            for _ in range(4):
                served.pass_time(6)
                await asyncio.sleep(0)
            assert served.routes.metrics.dropped == 1

    run(main())


def test_what_is_refused_before_it_is_a_request_is_counted() -> None:
    with millstream() as server:
        with Wire(server.url) as wire:
            wire.send(b"nonsense\r\n\r\n")
            assert wire.answer().status == 400
        assert numbers(f"{server.url}/__ds/metrics")["millstream_refused_requests_total", ""] == 1


# -- The admin port --------------------------------------------------------------------------------


def test_the_admin_port_needs_no_token_and_knows_no_stream() -> None:
    port = free_port()
    secret = "a secret that is long enough"
    with durable_millstream("--admin-port", str(port), "--auth-secret", secret) as server:
        admin = f"http://127.0.0.1:{port}"
        assert ("millstream_sync_seconds_count", "") in numbers(f"{admin}/metrics")
        assert httpx.get(f"{admin}/healthz").status_code == 200
        assert httpx.get(f"{admin}/readyz").json() == {"status": "ready"}
        assert httpx.get(f"{admin}/s").status_code == 404
        assert httpx.put(f"{admin}/metrics").status_code == 405
        assert httpx.get(f"{server.url}/__ds/metrics").status_code == 401
        assert "access-control-allow-origin" not in httpx.get(f"{admin}/metrics").headers


def test_the_admin_port_tells_that_the_server_drains() -> None:
    port = free_port()
    with millstream("--admin-port", str(port), "--drain-timeout-s", "20") as server:
        httpx.put(f"{server.url}/s", headers=TEXT)
        with Wire(server.url) as sending:
            sending.send(request("POST", "/s", b"", Content_Length="5") + b"he")
            httpx.head(f"{server.url}/s")
            server.signal(signal.SIGTERM)
            deadline_s = time.monotonic() + 60
            while httpx.get(f"http://127.0.0.1:{port}/readyz").status_code != 503:
                assert time.monotonic() < deadline_s
            assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
            sending.send(b"llo")
            assert sending.answer().status == 204
        server.wait_for_exit()  # before a second signal would end it at once


# -- The pieces ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (1.0, 0), (1.5, 1), (2.0, 1), (9.0, 2)])
def test_a_value_counts_in_the_first_bucket_that_is_not_below_it(value: float, bucket: int) -> None:
    histogram = Histogram((1, 2))
    histogram.observe(value)
    assert histogram.counts[bucket] == 1
    assert sum(histogram.counts) == 1
    assert histogram.sum == value


def test_sizes_are_not_looked_up_again_at_every_scrape() -> None:
    class Counting(Table):
        looked = 0

        def measure_sizes(self) -> Sizes:
            self.looked += 1
            return Sizes(self.looked, 0)

    store = Counting(MemoryEngine())
    watch = SizeWatch(store)
    deadline_s = time.monotonic() + 60
    while (found := watch.latest()) is None:
        assert time.monotonic() < deadline_s
    assert [watch.latest() for _ in range(5)] == [found] * 5
    assert store.looked == 1
