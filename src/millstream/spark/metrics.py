"""Metrics of streaming queries, as Prometheus text: lag, rows, late rows, dead letters.

Spark does not pass on what a Python source measures, but it reports each batch: where it ended, where the
streams end, and what was counted on the way. A `MetricsListener` sums these reports for all queries of a
session:

    with Exposition(":9464") as metrics:
        spark.streams.addListener(MetricsListener(metrics))

An exposition is a port of this machine, or a file (for the textfile collector of Prometheus' node exporter).
"""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from millstream.spark.options import OptionError
from millstream.spark.pipelines.running import Meter, Progress

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ADDRESS = re.compile(r"(?:([\w.-]*|\[[0-9a-fA-F:]+\]):)?(\d{1,5})")
_LOCAL = "127.0.0.1"
_KEPT = 1000
"""How many queries are remembered; a session that starts more forgets the oldest."""


class _Metric(NamedTuple):
    kind: str
    help: str
    value: Callable[[Progress], float | None]


_PROGRESS: Final = {
    "rows_total": _Metric("counter", "Rows read.", lambda one: one.rows),
    "batches_total": _Metric("counter", "Batches done.", lambda one: one.batches),
    "dead_letters_total": _Metric("counter", "Bad records set aside.", lambda one: one.dead_letters),
    "late_rows_total": _Metric("counter", "Rows that came after their windows.", lambda one: one.late_rows),
    "duplicates_total": _Metric("counter", "Rows whose keys were known.", lambda one: one.duplicates),
    "busy_seconds_total": _Metric("counter", "Time spent in batches.", lambda one: one.seconds),
    "lag_bytes": _Metric("gauge", "Bytes in the streams that are not read.", lambda one: one.lag_bytes),
    "batch_rows": _Metric("gauge", "Rows of the last batch.", lambda one: one.batch_rows),
}
_PREFIX: Final = "millstream_pipeline_"
_UNMET: Final = "unmet_expectations_total"
_AT: Final = "last_batch_timestamp_seconds"
_RUNNING: Final = "running"


class _Query:
    """What is known of a query."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = dict(labels)
        self.progress: Progress | None = None
        self.at = 0.0
        self.is_running = True


class Exposition:
    """Metrics of queries, served at `[HOST]:PORT` or written to a file; without a place, `text` has them."""

    def __init__(self, place: str | None = None) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._queries: dict[str, _Query] = {}
        self._file: Path | None = None
        self._server: ThreadingHTTPServer | None = None
        if place is not None:
            self._open(place)

    @property
    def port(self) -> int | None:
        """The port that is served."""
        return None if self._server is None else int(self._server.server_address[1])

    def begin(self, query: str, labels: Mapping[str, str]) -> None:
        """Add a query, by its id."""
        with self._lock:
            self._queries[query] = _Query(labels)
            while len(self._queries) > _KEPT:
                del self._queries[next(iter(self._queries))]
        self._write()

    def update(self, query: str, progress: Progress) -> None:
        """Set the progress of a query."""
        with self._lock:
            found = self._queries.get(query)
            if found is not None:
                found.progress, found.at = progress, time.time()
        self._write()

    def end(self, query: str) -> None:
        """Mark a query as ended; its counts stay."""
        with self._lock:
            if query in self._queries:
                self._queries[query].is_running = False
        self._write()

    def text(self) -> str:
        """Return all metrics."""
        with self._lock:
            return "".join(f"{line}\n" for line in _lines(list(self._queries.values())))

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, place: str) -> None:
        address = _ADDRESS.fullmatch(place)
        if address is None:
            self._file = Path(place)
            if not self._file.parent.is_dir():
                raise OptionError("metrics", f"{place!r} is neither [HOST]:PORT nor a file in a folder")
            return
        host, port = (address[1] or _LOCAL).strip("[]"), int(address[2])
        try:
            self._server = _serving(self, host, port)
        except (OSError, OverflowError) as error:
            raise OptionError("metrics", f"{place!r} cannot be served: {error}") from None
        threading.Thread(target=self._server.serve_forever, name="millstream-metrics", daemon=True).start()

    def _write(self) -> None:
        """Replace the file, so that a reader sees all of it or the one before."""
        if self._file is None:
            return
        text = self.text()
        written = self._file.with_name(f".{self._file.name}.new")
        # A full disk does not stop a query: the time of the last batch says that the file is old.
        with self._writing, contextlib.suppress(OSError):
            written.write_text(text)
            written.replace(self._file)


class MetricsListener(StreamingQueryListener):
    """Reports all queries of a session; `labels` are added to each."""

    def __init__(self, exposition: Exposition, labels: Mapping[str, str] | None = None) -> None:
        self._exposition = exposition
        self._labels = dict(labels or {})
        self._meters: dict[str, Meter] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Add a query."""
        id = str(event.id)
        self._meters[id] = Meter()
        self._exposition.begin(id, {"query": event.name or id, **self._labels})

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Add a batch."""
        id = str(event.progress.id)
        meter = self._meters.get(id)
        if meter is not None:
            meter.add(json.loads(event.progress.json))
            self._exposition.update(id, meter.progress)

    def onQueryIdle(self, event: object) -> None:
        """Do nothing: Spark reports a query that waits."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Mark a query as ended."""
        self._meters.pop(str(event.id), None)
        self._exposition.end(str(event.id))


def _lines(queries: list[_Query]) -> Iterator[str]:
    """Write metrics in the text format of Prometheus, one after the other for all queries."""
    done = [(query, query.progress) for query in queries if query.progress is not None]
    for name, metric in _PROGRESS.items():
        values = [(query.labels, metric.value(progress)) for query, progress in done]
        yield from _samples(name, metric.kind, metric.help, values)
    unmet = [
        ({**query.labels, "rule": rule}, count)
        for query, progress in done
        for rule, count in progress.expectations.items()
    ]
    yield from _samples(_UNMET, "counter", "Records that did not meet a rule.", unmet)
    times = [(query.labels, query.at) for query, _ in done]
    yield from _samples(_AT, "gauge", "When the last batch was done.", times)
    running = [(query.labels, int(query.is_running)) for query in queries]
    yield from _samples(_RUNNING, "gauge", "Whether the query runs.", running)


def _samples(
    name: str, kind: str, help: str, values: Sequence[tuple[dict[str, str], float | None]]
) -> Iterator[str]:
    found = [(labels, value) for labels, value in values if value is not None]
    if found:
        yield f"# HELP {_PREFIX}{name} {help}"
        yield f"# TYPE {_PREFIX}{name} {kind}"
    for labels, value in found:
        named = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{_PREFIX}{name}{{{named}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _serving(exposition: Exposition, host: str, port: int) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] in ("/", "/metrics")
            body = exposition.text().encode() if found else b"The metrics are at /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing: a scrape is no event."""

    return ThreadingHTTPServer((host, port), Handler)
