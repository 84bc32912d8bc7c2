"""Reports: what a pipeline does, as messages of a stream that the web page shows.

    with Reports(url, pipeline="archive", source="orders/*", target="./orders") as reports:
        archive(spark, orders, "./orders", on_progress=reports)

A pipeline never waits for its reports and never fails because of them: a thread appends what there is, once
a second at most, and what cannot be written is dropped. Each report has the totals of its run, so the next
one makes up for it. A run without batches reports that it is alive, so one that says nothing for much longer
than `withinSeconds` is gone.

    start -> (batch | alive)* -> done | stopped | failed
"""

import datetime
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import msgspec

from millstream.client.core.errors import MillstreamError, StreamNotFoundError
from millstream.client.core.retry import Retry
from millstream.client.sync.streams import DurableStream
from millstream.spark.option_values import stream_name
from millstream.spark.pipelines.running import Progress

STREAM: Final = "_pipelines"
RETAINED_BYTES: Final = 4 * 2**20
"""A stream of reports that is created keeps this much: about ten thousand."""

ALIVE_S: Final = 30
_APART_S = 1.0
_LAST_S = 10.0
"""How long the end of a pipeline waits for its last report."""
_LONGEST = 300
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]*@")
_STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)


class Reports:
    """Reports one run of a pipeline to a stream; call it with each progress.

    `source` and `target` say what is read and written; together with `pipeline` they are the name under
    which runs are shown. `on_problem` is called once, with the first error that kept a report from being
    written.
    """

    def __init__(
        self,
        url: str,
        *,
        pipeline: str,
        source: str,
        target: str | None = None,
        stream: str = STREAM,
        token: str | None = None,
        on_problem: Callable[[MillstreamError], None] | None = None,
    ) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else None
        self._handle = DurableStream(
            f"{url.rstrip('/')}/{quote(stream_name(stream))}",
            content_type="application/json",
            headers=self._headers,
            retry=Retry(max_total_s=_LAST_S / 2),
            timeout=_LAST_S / 2,
        )
        self._said = {
            "pipeline": pipeline,
            "source": _shown(source),
            "target": None if target is None else _shown(target),
            "run": uuid.uuid4().hex,
            "host": socket.gethostname(),
            "startedAt": _now(),
            "batchAt": None,
            "withinSeconds": ALIVE_S,
        }
        self._on_problem = on_problem
        self._progress: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._waiting: list[dict[str, Any]] = []
        self._has_ended = False
        self._thread = threading.Thread(target=self._write, name="millstream-reports", daemon=True)

    def __call__(self, progress: Progress) -> None:
        """Report a batch."""
        with self._changed:
            self._progress = msgspec.to_builtins(progress)
            self._said["batchAt"] = _now()
        self._add("batch")

    def __enter__(self) -> Self:
        """Report the start."""
        self._add("start")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end, and wait for that, not for long."""
        if error is None:
            self._add("done")
        elif _was_stopped(error):
            self._add("stopped")
        else:
            self._add("failed", error=" ".join(str(error).split())[:_LONGEST] or type(error).__name__)
        with self._changed:
            self._has_ended = True
            self._changed.notify()
        self._thread.join(_LAST_S)

    def _add(self, event: str, **more: str) -> None:
        with self._changed:
            if self._waiting and self._waiting[-1]["event"] in ("batch", "alive"):
                self._waiting.pop()  # the totals are in the next one
            self._waiting.append({"event": event, **self._said, "at": _now(), **self._progress, **more})
            self._changed.notify()

    def _write(self) -> None:
        """Append what waits, until the end; runs in a thread."""
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting or self._has_ended, ALIVE_S):
                    self._add("alive")
                reports, self._waiting = self._waiting, []
                has_ended = self._has_ended
            if reports:
                self._append(reports)
            if has_ended:
                return
            with self._changed:
                self._changed.wait_for(lambda: self._has_ended, _APART_S)

    def _append(self, reports: list[dict[str, Any]]) -> None:
        try:
            try:
                self._handle.append_all(reports)
            except StreamNotFoundError:
                self._create()
                self._handle.append_all(reports)
        except MillstreamError as problem:
            if self._on_problem is not None:
                self._on_problem(problem)
            self._on_problem = None

    def _create(self) -> None:
        DurableStream.create(
            self._handle.url,
            content_type="application/json",
            retain_bytes=RETAINED_BYTES,
            headers=self._headers,
        )


def _was_stopped(error: BaseException) -> bool:
    """Return whether somebody stopped the pipeline, which makes other errors on the way out."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, _STOPS):
            return True
        found = found.__context__
    return False


def _shown(place: str) -> str:
    """Return a place without credentials, not too long."""
    return _CREDENTIALS.sub("", place)[:_LONGEST]


def _now() -> str:
    at = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
