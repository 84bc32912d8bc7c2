"""Running: from a query to its end, with progress on the way.

Lag is how many bytes the streams hold that the query has not read: Spark reports how far a batch
went, and the source reports the tails that it saw. Where offsets do not count bytes it is unknown.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millstream.spark.pipelines.inputs import Pace
from millstream.spark.source.offsets import bytes_between

RECORDS, LETTERS = "records", "letters"
"""The names under which queries count what they write, and what they look through for dead letters."""

_POLL_S = 0.3
_RAISED = re.compile(r"^\s*(?:[\w.]*\.)?(\w+Error): (.+)$", re.MULTILINE)
_FRAME = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: | SQLSTATE: \w+$")
_SHOWN = 1000
_BAD_RECORD = re.compile(r"(BadRecordError): (.+)")


class Progress(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How far a pipeline is: its last batch, and all since it was started."""

    batch: int
    batch_rows: int | None
    rows: int | None
    batches: int
    dead_letters: int | None
    lag_bytes: int | None
    seconds: float


class PipelineError(RuntimeError):
    """A pipeline failed; `kind` is the name of the error that ended it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Meter:
    """Adds up what Spark reports about batches, of one run or several; records only where it can."""

    def __init__(self, show: Callable[[Progress], None] | None = None, *, counts: bool = True) -> None:
        self._counts = counts
        self.progress = Progress(
            batch=-1, batch_rows=0, rows=0, batches=0, dead_letters=0, lag_bytes=None, seconds=0.0
        )
        self._show = show
        self._seen: set[tuple[str, int]] = set()

    def run(self, spark: SparkSession, writer: DataStreamWriter, pace: Pace, checkpoint: str) -> None:
        """Start a query and watch it to its end; it is stopped, whatever happens."""
        # Spark finds sources by the active session, and threads other than the first have none: this sets it.
        spark.createDataFrame([], "unused int")
        query = pace.applied(writer.option("checkpointLocation", checkpoint)).start()
        try:
            while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # it takes fractions
                self._take(query)
            self._take(query)
        except StreamingQueryException as error:
            raise explained(str(error)) from error
        finally:
            query.stop()

    def _take(self, query: StreamingQuery) -> None:
        for reported in query.recentProgress:
            self.add(json.loads(reported.json))

    def add(self, reported: Mapping[str, Any]) -> None:
        """Take one of Spark's reports; those that tell of no batch count for nothing."""
        key = (reported["runId"], reported["batchId"])
        if "addBatch" not in reported.get("durationMs", {}) or key in self._seen:
            return
        self._seen.add(key)
        observed = reported.get("observedMetrics", {})
        bad = sum(counts.get("bad") or 0 for counts in observed.values())
        before = self.progress
        # Who looks for dead letters apart reads everything twice, and Spark counts it twice.
        read = sum(source.get("numInputRows", 0) for source in reported["sources"])
        rows = observed.get(LETTERS, {}).get("rows", read) if self._counts else None
        self.progress = Progress(
            batch=reported["batchId"],
            batch_rows=rows,
            rows=None if rows is None else (before.rows or 0) + rows,
            batches=before.batches + 1,
            dead_letters=(before.dead_letters or 0) + bad if self._counts else None,
            lag_bytes=lag_bytes(reported["sources"]),
            seconds=round(before.seconds + reported["durationMs"].get("triggerExecution", 0) / 1000, 3),
        )
        if self._show is not None:
            self._show(self.progress)


def lag_bytes(sources: list[Mapping[str, Any]]) -> int | None:
    """Add up how far a batch's end is from the tails, None when offsets do not tell."""
    total: int | None = None
    for source in sources:
        end, latest = _decoded(source.get("endOffset")), _decoded(source.get("latestOffset"))
        if not isinstance(end, dict) or not isinstance(latest, dict):
            continue
        for name, tail in latest.items():
            at = end.get(name)
            if not isinstance(tail, dict) or not isinstance(at, dict) or "offset" not in tail:
                continue
            apart = bytes_between(at["offset"], tail["offset"])
            if apart is not None:
                total = (total or 0) + max(0, apart)
    return total


def explained(text: str) -> PipelineError:
    """Find what went wrong in what Spark says, which is long."""
    found = _BAD_RECORD.findall(text) or _RAISED.findall(text)
    named = [(kind, message) for kind, message in found if not kind.startswith("Py")]
    kind, message = named[-1] if named else ("SparkError", text.partition("=== Streaming Query")[0])
    said = _FRAME.sub("", " ".join(message.split()))
    return PipelineError(kind, said[:_SHOWN])


def _decoded(offset: Any) -> Any:
    return json.loads(offset) if isinstance(offset, str) and offset else offset
