"""What Spark reports, added up and explained."""

import pytest

from millstream.spark.pipelines.running import Meter, Progress, explained, lag_bytes


def offset(number: int) -> dict[str, str]:
    return {"offset": f"0000000000000000_{number:016d}"}


def report(batch: int, rows: int = 10, **more: object) -> dict[str, object]:
    return {
        "runId": "one",
        "batchId": batch,
        "durationMs": {"addBatch": 5, "triggerExecution": 500},
        "sources": [{"numInputRows": rows}],
        **more,
    }


def test_each_batch_counts_once_however_often_it_is_reported() -> None:
    shown: list[Progress] = []
    meter = Meter(shown.append)
    for one in (report(0), report(0), report(1, observedMetrics={"records": {"rows": 10, "bad": 3}})):
        meter.add(one)
    meter.add(report(2, durationMs={"latestOffset": 3}))  # a trigger that found nothing
    assert [(one.batch, one.rows, one.batches, one.dead_letters) for one in shown] == [
        (0, 10, 1, 0),
        (1, 20, 2, 3),
    ]
    assert meter.progress.seconds == 1.0


def test_lag_is_what_the_streams_hold_beyond_a_batch() -> None:
    source = {
        "endOffset": {"a": offset(10), "b": offset(5)},
        "latestOffset": {"a": offset(30), "b": offset(5)},
    }
    assert lag_bytes([source, {"endOffset": "1", "latestOffset": None}]) == 20


def test_lag_is_unknown_where_offsets_do_not_count() -> None:
    assert (
        lag_bytes([{"endOffset": {"a": {"offset": "1f_3"}}, "latestOffset": {"a": {"offset": "1f_9"}}}])
        is None
    )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "x\n  millstream.spark.options.OptionError: option url: is missing\nat y",
            "OptionError",
            "option url: is missing",
        ),
        (
            "[USER_RAISED] BadRecordError: in/1: wrong SQLSTATE: P0001",
            "BadRecordError",
            "in/1: wrong",
        ),
        ("Job aborted\nfor no reason", "SparkError", "Job aborted for no reason"),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: No disk SQLSTATE: XXKST\n"
            "=== Streaming Query ===\n...",
            "SparkError",
            "No disk",
        ),
    ],
)
def test_the_cause_is_found_in_what_spark_says(text: str, kind: str, message: str) -> None:
    found = explained(text)
    assert (found.kind, str(found)) == (kind, message)
