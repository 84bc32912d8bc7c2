"""Traces, by the real SDK: a span for each request, and nothing of it where they are off."""

import asyncio
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from millstream.server.access.auth import Auth
from millstream.server.access.tokens import Keyring
from millstream.server.run import clock_ms
from millstream.server.settings import Settings
from millstream.server.telemetry.access_log import ObservedRoutes
from millstream.server.telemetry.tracing import Tracing
from millstream.store.memory import memory_store
from running import announced, started
from wire.inprocess import run, serving_routes

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


def test_each_request_is_a_span_of_the_trace_that_it_came_with() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace", reason="needs millstream[otel]")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, StatusCode

    exporter = InMemorySpanExporter()
    provider = trace.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)

    async def main() -> None:
        settings = Settings(store="memory", long_poll_timeout_ms=50, allowed_hosts=("h",))
        routes = ObservedRoutes(memory_store(), settings, Auth(Keyring([])), clock_ms, [tracing])
        async with serving_routes(routes) as served:
            client = await served.connect()
            client.send(b"PUT /chat/1 HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n\r\n")
            assert await client.status() == 201
            asked = f"Host: h\r\ntraceparent: 00-{TRACE}-{PARENT}-01\r\nauthorization: Bearer sesame"
            target = "/chat/1?offset=-1&live=long-poll&signed=sesame"
            client.send(f"GET {target} HTTP/1.1\r\n{asked}\r\n\r\n".encode())
            assert await client.status() == 204
            client.send(b"GET /__ds/nothing HTTP/1.1\r\nHost: h\r\ntraceparent: rubbish\r\n\r\n")
            assert await client.status() == 404
            client = await served.connect()
            client.send(b"GET /chat/1?offset=-1&live=sse HTTP/1.1\r\nHost: h\r\n\r\n")
            assert await client.status() == 200
            await asyncio.sleep(0.01)
            assert len(exporter.get_finished_spans()) == 3  # the event stream goes on
        tracing.close()

    run(main())
    created, polled, missing, followed = exporter.get_finished_spans()
    assert created.name == "PUT stream"
    assert created.kind is SpanKind.SERVER
    assert created.attributes["http.response.status_code"] == 201
    assert created.attributes["url.path"] == "/chat/1"
    assert created.attributes["client.address"] == "127.0.0.1"
    assert created.parent is None
    assert f"{polled.context.trace_id:032x}" == TRACE
    assert f"{polled.parent.span_id:016x}" == PARENT
    assert polled.attributes["millstream.live"] == "long-poll"
    assert polled.attributes["http.response.status_code"] == 204
    assert polled.end_time - polled.start_time >= 40_000_000
    assert "sesame" not in polled.to_json()
    assert (missing.name, missing.parent, missing.status.status_code) == (
        "GET control",
        None,
        StatusCode.UNSET,
    )
    assert followed.attributes["millstream.live"] == "sse"


def test_spans_are_sent_to_where_the_variables_say() -> None:
    service = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="needs millstream[otel]"
    )
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
        }
        command = [
            sys.executable,
            "-m",
            "millstream",
            "serve",
            "--port",
            "0",
            "--store",
            "memory",
            "--traces",
        ]
        with started(command, announced, variables) as server:
            httpx.put(f"{server.url}/s")
            assert server.stop() == 0  # what was not sent yet is sent then
            assert "Traceback" not in server.output()
        collector.shutdown()
    [sent] = [service.ExportTraceServiceRequest.FromString(body) for body in received]
    [resource] = sent.resource_spans
    assert ("service.name", "millstream") in [
        (one.key, one.value.string_value) for one in resource.resource.attributes
    ]
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["PUT stream"]


@pytest.mark.parametrize("hidden", [False, True], ids=["installed", "not installed"])
def test_nothing_of_it_is_imported_when_traces_are_off(hidden: bool) -> None:
    program = f"""
import sys
if {hidden}:
    sys.modules["opentelemetry"] = None
import asyncio
from millstream.server.run import open_store, running_routes
from millstream.server.settings import Settings, SettingsError
async def main(**settings):
    wanted = Settings(store="memory", **settings)
    async with running_routes(wanted, open_store(wanted)):
        print([name for name in sys.modules if name.startswith("opentelemetry.")])
asyncio.run(main())
if {hidden}:
    try:
        asyncio.run(main(traces=True))
    except SettingsError as error:
        print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.splitlines()[0] == "[]"
    if hidden:
        assert 'pip install "millstream[otel]"' in ran.stdout.splitlines()[1]
