"""Late records: what came after its window had ended is not lost in silence.

A stateful operator of Spark drops rows whose windows the watermark has passed, and reports how many, but not
which. So when a batch reports some, it is read again, and its records that are older than the watermark
become dead letters with the reason, or stop the pipeline. Such a record can still have been counted in a
window that was open; the letters say how many were not.

A batch has the same letters whenever they are written, and they are written once (`txnVersion` is the batch).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from millstream.spark.options import STREAMING_ONLY
from millstream.spark.pipelines import records
from millstream.spark.pipelines.inputs import FORMAT, Input
from millstream.spark.pipelines.outputs import Output
from millstream.spark.pipelines.quality import expectations
from millstream.spark.pipelines.quality.rules import Rule
from millstream.spark.pipelines.records import ERROR, BadRecords
from millstream.spark.pipelines.running import PipelineError, decoded
from millstream.spark.pipelines.transactions import checkpoint_id
from millstream.spark.sink.columns import OFFSET, STREAM, VALUE

_SINK = "late"
_OF_THE_QUERY = frozenset(
    name.lower()
    for name in (*STREAMING_ONLY, "startingOffsets", "startingTimestamp", "endingTimestamp", "minPartitions")
)


class LateRecords:
    """Finds the late records of batches, and writes them to the dead letters."""

    def __init__(
        self,
        spark: SparkSession,
        source: Input,
        output: Output,
        bad: BadRecords,
        checkpoint: str,
        schema: str,
        event_time: str,
        rules: Sequence[Rule] = (),
        *,
        pipeline: str = "derive",
        lost: str = "came after their windows had ended, and are not in them",
    ) -> None:
        self._spark = spark
        self._source = source
        self._output = output
        self._bad = bad
        self._checkpoint = checkpoint
        self._schema = schema
        self._event_time = event_time
        self._rules = rules
        self._pipeline = pipeline
        self._lost = lost

    def __call__(self, reported: Mapping[str, Any], count: int) -> None:
        """Take one of Spark's reports, of a batch that dropped rows."""
        watermark = reported.get("eventTime", {}).get("watermark")
        text = (
            f"late: older than the watermark, {watermark}, when it was read; {count} records of batch "
            f"{reported['batchId']} {self._lost}"
        )
        if self._bad.name is None:
            raise PipelineError("LateRecordError", text)
        for ranges in reported["sources"]:
            start, end = _offsets(ranges.get("startOffset")), _offsets(ranges.get("endOffset"))
            moved = sorted(name for name in end if name in start and start[name] != end[name])
            if moved and watermark is not None:
                self._write(moved, start, end, watermark, text, int(reported["batchId"]))

    def _write(
        self,
        names: list[str],
        start: dict[str, str],
        end: dict[str, str],
        watermark: str,
        text: str,
        batch: int,
    ) -> None:
        given = {
            key: value for key, value in self._source.options.items() if key.lower() not in _OF_THE_QUERY
        }
        rows = (
            self._spark.read.format(FORMAT)
            .options(**self._source.server(), **given, valueType="string", streams=json.dumps(names))
            .option("startingOffsets", json.dumps({name: start[name] for name in names}))
            .option("endingOffsets", json.dumps({name: end[name] for name in names}))
            .load()
        )
        parsed = records.parsed(rows, self._schema, self._event_time)
        parsed = expectations.kept(expectations.judged(parsed, self._rules), self._rules)
        at = f.col(f"`{self._event_time}`")
        late = parsed.where(f.col(ERROR).isNull() & (at < f.lit(watermark).cast("timestamp")))
        letters = late.withColumn(ERROR, f.lit(text)).select(
            records.letter(self._pipeline, STREAM, OFFSET).alias(VALUE)
        )
        ids = {
            "txnAppId": checkpoint_id(self._spark, self._checkpoint),
            "txnVersion": str(batch),
            "sinkId": _SINK,
        }
        sink = {**self._output.sink(), "stream": str(self._bad.name)}
        letters.write.format(FORMAT).mode("append").options(**sink, **ids).save()


def _offsets(found: Any) -> dict[str, str]:
    """Return where a batch begins or ends in each stream; empty for a source that is not ours."""
    offsets = decoded(found)
    if not isinstance(offsets, dict):
        return {}
    return {name: one["offset"] for name, one in offsets.items() if isinstance(one, dict) and "offset" in one}
