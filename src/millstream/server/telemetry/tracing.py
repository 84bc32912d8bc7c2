"""OpenTelemetry traces: one span per request. OpenTelemetry is an extra and is imported only when used.

OpenTelemetry's own variables set the collector, the sampling and the service name
(`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME`, ...). A request with a W3C
`traceparent` joins that trace.
"""

import os
from typing import TYPE_CHECKING

from millstream.protocol.names import STREAM_ROOTS, is_reserved
from millstream.server.request import Request
from millstream.server.settings import SettingsError
from millstream.server.telemetry.access_log import Ended, described

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


class Tracing:
    """Records a span per request; an observer."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("millstream")
        self._server = SpanKind.SERVER
        self._failed = Status(StatusCode.ERROR)
        self._propagator = TraceContextTextMapPropagator()

    def __call__(self, request: Request) -> Ended:
        """Start the span of a request."""
        carried = {
            name: request.headers[name.encode()].decode("latin-1")
            for name in ("traceparent", "tracestate")
            if name.encode() in request.headers
        }
        about = described(request)
        path = about["path"]
        kind = "control" if is_reserved(path, STREAM_ROOTS) else "stream"
        attributes = {
            "http.request.method": about["method"],
            "url.path": path,
            "url.scheme": request.scheme.decode("latin-1"),
            "client.address": about["client"],
            "http.request.body.size": len(request.body),
            "millstream.live": about.get("live", ""),
        }
        span = self._tracer.start_span(
            f"{about['method']} {kind}",
            context=self._propagator.extract(carried),
            kind=self._server,
            attributes={name: value for name, value in attributes.items() if value != ""},
        )

        def ended(status: int, size: int) -> None:
            span.set_attribute("http.response.status_code", status)
            span.set_attribute("http.response.body.size", size)
            if status >= 500:
                span.set_status(self._failed)
            span.end()

        return ended

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


def open_tracing() -> Tracing:
    """Set up tracing from OpenTelemetry's variables."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        raise SettingsError('--traces needs OpenTelemetry: pip install "millstream[otel]".') from None
    name = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "millstream"}
    provider = TracerProvider(resource=Resource.create(name), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
