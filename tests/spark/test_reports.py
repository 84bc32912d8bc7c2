"""Reports of pipelines: what is in the stream, and that no pipeline waits for them or fails with them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from millstream import DurableStream, stream
from millstream.client.core.errors import MillstreamError
from millstream.spark import reports as module
from millstream.spark.pipelines.running import Progress
from millstream.spark.reports import Reports
from running import Server, free_port


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_APART_S", 0)
    monkeypatch.setattr(module, "_LAST_S", 2)


def progress(batch: int = 0) -> Progress:
    return Progress(
        batch=batch,
        batch_rows=5,
        rows=5 * (batch + 1),
        batches=batch + 1,
        dead_letters=2,
        late_rows=1,
        expectations={"positive": 6},
        lag_bytes=81920,
        seconds=2.5,
    )


def reports(url: str, name: str, **more: Any) -> Reports:
    return Reports(url, **{"pipeline": "archive", "source": "in/*", "stream": name, **more})


def following(server: Server, name: str) -> Iterator[dict[str, Any]]:
    """Give reports as they come."""
    DurableStream.create(
        f"{server.url}/{name}", content_type="application/json", retain_bytes=module.RETAINED_BYTES
    )
    with stream(f"{server.url}/{name}", live=True) as response:
        yield from response.iter_json()


def written(server: Server, name: str) -> list[dict[str, Any]]:
    with stream(f"{server.url}/{name}", live=False) as response:
        return list(response.read_json())


def test_a_run_reports_its_start_its_batches_and_its_end(server: Server) -> None:
    follow = following(server, "run")
    with reports(server.url, "run", target="./table") as report:
        start = next(follow)
        assert (start["event"], start["batchAt"], "rows" in start) == ("start", None, False)
        assert (start["pipeline"], start["source"], start["target"]) == ("archive", "in/*", "./table")
        for number in range(2):
            report(progress(number))
            batch = next(follow)
            assert batch["event"] == "batch"
            assert batch.items() >= msgspec.to_builtins(progress(number)).items()
            assert start["startedAt"] <= batch["batchAt"] <= batch["at"]
    done = next(follow)
    assert done == {**batch, "event": "done", "at": done["at"]}
    assert (start["run"], start["startedAt"]) == (done["run"], done["startedAt"])


def test_a_stream_that_there_is_not_is_created_and_keeps_the_newest(server: Server) -> None:
    with reports(server.url, "/ops/new räports"):
        pass
    name = "ops/new%20r%C3%A4ports"
    assert [one["event"] for one in written(server, name)] == ["start", "done"]
    assert DurableStream(f"{server.url}/{name}").head().retain_bytes == module.RETAINED_BYTES


def test_a_run_without_batches_reports_that_it_is_alive(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALIVE_S", 0.05)
    follow = following(server, "idle")
    with reports(server.url, "idle") as report:
        report(progress())
        alive = next(one for one in follow if one["event"] == "alive")
        again = next(one for one in follow if one["event"] == "alive" and "rows" in one)
    assert again["at"] >= alive["at"]
    assert again["rows"] == 5, "the totals are in every report"


@pytest.mark.parametrize(
    ("raised", "event", "error"),
    [
        (RuntimeError("no room\n left"), "failed", "no room left"),
        (ValueError(), "failed", "ValueError"),
        (KeyboardInterrupt(), "stopped", None),
        (SystemExit(143), "stopped", None),
    ],
)
def test_the_end_says_what_ended_it(
    server: Server, raised: BaseException, event: str, error: str | None
) -> None:
    name = f"end/{raised!r}"
    with pytest.raises(type(raised)), reports(server.url, name):
        raise raised
    last = written(server, name)[-1]
    assert (last["event"], last.get("error")) == (event, error)


def test_what_fails_because_it_was_stopped_was_stopped(server: Server) -> None:
    """The JVM may be gone when the query is to be stopped."""
    with pytest.raises(ConnectionError), reports(server.url, "stopped"):
        try:
            raise SystemExit(143)
        finally:
            raise ConnectionError("the JVM is gone")
    assert written(server, "stopped")[-1]["event"] == "stopped"


def test_places_are_shown_without_credentials(server: Server) -> None:
    with reports(server.url, "safe", source="https://a:b@host/x", target="s3a://key:secret@bucket/t"):
        pass
    found = written(server, "safe")[-1]
    assert (found["source"], found["target"]) == ("https://host/x", "s3a://bucket/t")


@pytest.mark.parametrize("place", ["gone", "text"])
def test_reports_that_cannot_be_written_are_left_out_and_one_is_complained_of(
    server: Server, place: str
) -> None:
    DurableStream.create(f"{server.url}/text", content_type="text/plain")
    url = server.url if place == "text" else f"http://127.0.0.1:{free_port()}"
    problems: list[MillstreamError] = []
    with reports(url, "text", on_problem=problems.append) as report:
        report(progress())
        report(progress(1))
    assert len(problems) == 1
