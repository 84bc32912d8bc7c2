"""The watchdog measures the event loop and says where it is blocked."""

import asyncio
import logging
import sys
import time

import pytest

from millstream.server.telemetry import watchdog as module
from millstream.server.telemetry.watchdog import Watchdog


def observed(watchdog: Watchdog) -> tuple[int, int]:
    """How often the loop was measured, and how often it was later than a quarter of a second."""
    [family] = watchdog.collect()
    counts = {
        sample.labels["le"]: sample.value for sample in family.samples if sample.name.endswith("_bucket")
    }
    return int(counts["+Inf"]), int(counts["+Inf"] - counts["0.25"])


def watch(max_lag_s: float, blocks: int) -> Watchdog:
    def sleep_on_the_loop() -> None:
        time.sleep(0.6)

    async def main() -> Watchdog:
        watchdog = Watchdog(max_lag_s)
        watchdog.start()
        for _ in range(blocks):
            await asyncio.sleep(0.3)
            sleep_on_the_loop()
        await asyncio.sleep(0.3)
        watchdog.stop()
        return watchdog

    return asyncio.run(main())


def test_each_time_that_the_loop_is_blocked_is_logged_once_with_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "millstream"):
        watchdog = watch(0.25, 2)
    blocked = [
        vars(record)["millstream_fields"]
        for record in caplog.records
        if record.getMessage() == "event loop blocked"
    ]
    mine = [fields for fields in blocked if "sleep_on_the_loop < " in fields["stack"]]
    assert len(mine) == 2  # a busy machine may hold up the loop elsewhere, too
    assert mine[0]["ms"] > 250
    assert "test_watchdog.py:" in mine[0]["stack"]
    assert observed(watchdog)[1] >= 2


def test_an_idle_loop_is_measured_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "millstream"):
        watchdog = watch(60.0, 0)
    assert observed(watchdog)[0] >= 1
    assert not caplog.records


def test_zero_disables_the_log_and_not_the_measurement(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "millstream"):
        watchdog = watch(0, 1)
    assert not caplog.records
    assert observed(watchdog)[1] >= 1


def test_a_stack_is_one_line_with_a_limit() -> None:
    def deeper(levels: int) -> str:
        if levels:
            return deeper(levels - 1)
        return module._stack(sys._getframe())

    stack = deeper(50)
    assert stack.startswith("test_watchdog.py:")
    assert stack.count(" < ") == module._MAX_FRAMES - 1
    assert module._stack(None) == ""
