"""History: what is kept of the server's numbers, by a clock that the test sets."""

import json
from typing import Any

from millstream.server.telemetry.history import EVERY_MS, KEPT_MS, History, Sample
from unit.server.bench import NEW_YEAR_2030_MS, Bench, bench_with_stream, code

START_MS = NEW_YEAR_2030_MS


def history() -> History:
    """Each sample counts the milliseconds since the start as appends."""
    return History(lambda now_ms: Sample(now_ms, now_ms - START_MS, 0, 0, 0, None, None))


def times(samples: list[Sample]) -> list[int]:
    return [sample.at_ms - START_MS for sample in samples]


def test_a_sample_is_taken_every_five_seconds_however_often_the_clock_ticks() -> None:
    kept = history()
    for ms in range(0, 12_000, 250):
        kept.tick(START_MS + ms)
    assert times(kept.since(0, START_MS + 12_000)) == [0, 5_000, 10_000, 12_000]


def test_the_last_fifteen_minutes_are_kept_and_no_more() -> None:
    kept = history()
    for ms in range(0, 3 * KEPT_MS, EVERY_MS):
        kept.tick(START_MS + ms)
    found = times(kept.since(0, START_MS + 3 * KEPT_MS - 1))
    assert found[0] == 2 * KEPT_MS
    assert len(found) == KEPT_MS // EVERY_MS + 1
    assert (
        len(kept.since(0, START_MS + 10 * KEPT_MS)) == 1
    )  # after a pause only the numbers of now are recent


def test_who_has_the_earlier_samples_gets_the_later_ones_and_now() -> None:
    kept = history()
    for ms in (0, 5_000, 10_000):
        kept.tick(START_MS + ms)
    assert times(kept.since(START_MS + 5_000, START_MS + 11_000)) == [10_000, 11_000]
    assert times(kept.since(START_MS + 10_000, START_MS + 11_000)) == [11_000]
    assert times(kept.since(START_MS, START_MS + 10_000)) == [5_000, 10_000]  # now is there once


def test_a_clock_that_is_set_back_begins_a_new_history() -> None:
    kept = history()
    for ms in (0, 5_000, 10_000, 4_000, 9_000):
        kept.tick(START_MS + ms)
    assert times(kept.since(0, START_MS + 9_500)) == [4_000, 9_000, 9_500]


def asked(bench: Bench, target: str) -> Any:
    return json.loads(bench.reply("GET", target).body)


def test_the_server_gives_its_history_by_columns() -> None:
    bench = bench_with_stream()
    bench.routes.overview.history.tick(bench.now_ms)
    bench.reply("POST", "/s", b"hello")
    bench.now_ms += 2_000
    found = asked(bench, "/__ds/history")
    assert (found["everyMs"], found["keptMs"]) == (5_000, 900_000)
    first, now = (dict(zip(found["columns"], values, strict=True)) for values in found["samples"])
    assert (first["atMs"], first["appends"], first["appendedBytes"]) == (START_MS, 0, 0)
    assert (now["atMs"], now["appends"], now["appendedBytes"]) == (START_MS + 2_000, 1, 5)
    assert (now["syncs"], now["syncSeconds"]) == (None, None)  # in memory there is no disk
    assert len(asked(bench, f"/__ds/history?after={START_MS}")["samples"]) == 1
    assert code(bench.reply("GET", "/__ds/history?after=-1")) == "INVALID_INTEGER"


def test_the_server_gives_its_version_its_uptime_and_totals() -> None:
    bench = bench_with_stream()
    bench.reply("POST", "/s", b"hello")
    bench.reply("GET", "/s")
    bench.now_ms += 90_500
    found = asked(bench, "/__ds/server")
    assert found["version"]
    assert (found["startedMs"], found["uptimeSeconds"]) == (START_MS, 90)
    assert (found["streams"], found["appends"], found["appendedBytes"]) == (1, 1, 5)
    assert (found["store"], found["durability"], found["storeBytes"]) == ("memory", None, None)
