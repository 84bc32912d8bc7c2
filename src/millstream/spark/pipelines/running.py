"""Running: run a query to its end, with progress.

Lag is the number of bytes in the streams that the query has not read: Spark reports where a batch ended, and
the source reports the tails. If offsets do not count bytes, lag is unknown.
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
from millstream.spark.source.offsets import bytes_between, unpacked

RECORDS, LETTERS, EXPECTATIONS = "records", "letters", "expectations"
"""The names of the metrics for records written, for records checked for dead letters, and for rules."""

_POLL_S = 0.3
_RAISED = re.compile(r"^\s*(?:[\w.]*\.)?(\w+Error): (.+)$", re.MULTILINE)
_FRAME = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: | SQLSTATE: \w+$")
_SHOWN = 1000
_BAD_RECORD = re.compile(r"((?:BadRecord|Expectation)Error): (.+)")


class Progress(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The progress of a pipeline: its last batch, and totals since its start."""

    batch: int
    batch_rows: int | None
    rows: int | None
    batches: int
    dead_letters: int | None
    late_rows: int = 0
    """Rows that stateful operators dropped, because their windows had ended."""
    expectations: dict[str, int] = {}
    """Records that did not meet a rule, by its name."""
    duplicates: int = 0
    """Records that were dropped, because their keys had been seen."""
    lag_bytes: int | None
    seconds: float


class PipelineError(RuntimeError):
    """A pipeline failed; `kind` is the name of the error that ended it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Meter:
    """Sums Spark's reports about batches, over one run or several; records only if Spark counts them."""

    def __init__(
        self,
        show: Callable[[Progress], None] | None = None,
        *,
        counts: bool = True,
        on_late: Callable[[Mapping[str, Any], int], None] | None = None,
    ) -> None:
        self._counts = counts
        self._on_late = on_late
        self.progress = Progress(
            batch=-1, batch_rows=0, rows=0, batches=0, dead_letters=0, lag_bytes=None, seconds=0.0
        )
        self._show = show
        self._newest: dict[str, int] = {}  # the last batch of each run, because Spark repeats its reports

    def run(self, spark: SparkSession, writer: DataStreamWriter, pace: Pace, checkpoint: str) -> None:
        """Start a query and wait for its end; it is always stopped."""
        # Spark finds data sources by the active session, which only the first thread has: this sets it.
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
        """Add one of Spark's reports; those without a batch are ignored."""
        run, batch = reported["runId"], reported["batchId"]
        if "addBatch" not in reported.get("durationMs", {}) or batch <= self._newest.get(run, -1):
            return
        self._newest[run] = batch
        observed = reported.get("observedMetrics", {})
        bad = sum(counts.get("bad") or 0 for name, counts in observed.items() if name != EXPECTATIONS)
        before = self.progress
        # A separate query for dead letters reads everything twice, and Spark counts it twice.
        read = sum(source.get("numInputRows", 0) for source in reported["sources"])
        late = late_rows(reported)
        unmet = observed.get(EXPECTATIONS, {})
        rows = observed.get(LETTERS, {}).get("rows", read) if self._counts else None
        self.progress = Progress(
            batch=batch,
            batch_rows=rows,
            rows=None if rows is None else (before.rows or 0) + rows,
            batches=before.batches + 1,
            dead_letters=(before.dead_letters or 0) + bad if self._counts else None,
            late_rows=before.late_rows + late,
            expectations=before.expectations
            | {name: before.expectations.get(name, 0) + (count or 0) for name, count in unmet.items()},
            duplicates=before.duplicates + _duplicates(reported),
            lag_bytes=lag_bytes(reported["sources"]),
            seconds=round(before.seconds + reported["durationMs"].get("triggerExecution", 0) / 1000, 3),
        )
        if self._show is not None:
            self._show(self.progress)
        if late and self._on_late is not None:
            self._on_late(reported, late)


def late_rows(reported: Mapping[str, Any]) -> int:
    """Count the rows that a batch's stateful operators dropped because of the watermark."""
    return sum(one.get("numRowsDroppedByWatermark", 0) for one in reported.get("stateOperators", []))


def _duplicates(reported: Mapping[str, Any]) -> int:
    operators = reported.get("stateOperators", [])
    return sum(one.get("customMetrics", {}).get("numDroppedDuplicateRows", 0) for one in operators)


def lag_bytes(sources: list[Mapping[str, Any]]) -> int | None:
    """Sum the distance of a batch's end from the tails; None if offsets do not count bytes."""
    total: int | None = None
    for source in sources:
        end, latest = decoded(source.get("endOffset")), decoded(source.get("latestOffset"))
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
    """Extract the cause from Spark's long error message."""
    found = _BAD_RECORD.findall(text) or _RAISED.findall(text)
    named = [(kind, message) for kind, message in found if not kind.startswith("Py")]
    kind, message = named[-1] if named else ("SparkError", text.partition("=== Streaming Query")[0])
    said = _FRAME.sub("", " ".join(message.split()))
    return PipelineError(kind, said[:_SHOWN])


def decoded(offset: Any) -> Any:
    """Return an offset that Spark reports: a text or an object, of our source or of another."""
    found = json.loads(offset) if isinstance(offset, str) and offset else offset
    return unpacked(found) if isinstance(found, dict) else found
