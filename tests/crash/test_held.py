"""A stream that cannot be saved is held back: all others are saved, and nothing of any is lost or doubled.

The cause is real: something else has the name of the stream's file.
"""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crash.folders import NOW_MS, Opened, files_of, opened
from crash.processes import Client, kill, port_of, serving, start
from crash.test_backlog import tick
from millstream.protocol.lifecycle import Delete
from millstream.protocol.producers import Stamp
from millstream.protocol.streams import Append, Duplicate, NotSaved
from millstream.store.log.files import layout
from millstream.store.log.files.layout import Layout
from millstream.store.log.tools.archives import new_archive
from millstream.store.log.tools.backup import back_up, restore
from millstream.store.log.tools.check import verify
from running import announced

LAYOUT = Layout(2**26)
LIMIT = 6 * 2**16
PIECE = b"x" * 2**14
REST = b"-" * 2_000  # some of them are too much for a pack


@pytest.fixture(autouse=True)
def without_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every stream files of its own, whose names can be taken."""
    monkeypatch.setattr(layout, "PACKED_BYTES", 0)


def block(folder: Path, data: Opened, name: str) -> Path:
    """Keep a stream from being saved; gives what is in the way."""
    entry = data.engine.streams.find(name)
    assert entry is not None
    path = folder / LAYOUT.content_name(entry.stream.id)
    path.mkdir(parents=True)
    return path


def log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "wal").glob("*.wal"))


def test_a_checkpoint_saves_all_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(tmp_path, segment_bytes=4096) as data:
        data.create("/bad", body=b"x")
        blocked = block(tmp_path, data, "/bad")
        for number in range(3):
            assert isinstance(data.append("/bad", b"%d" % number), Append)
            data.create(f"/{number}", body=b"z" * 5_000)
            tick(data, NOW_MS + number * 60_000)
            assert list(data.engine.streams.dirty) == [data.engine.streams.find("/bad").stream.id]  # type: ignore[union-attr]
            data.until(lambda: log_bytes(tmp_path) < 8_000)  # the log is released as ever
        assert data.store.measures is not None
        assert data.store.measures.unsaved_streams == 1
        assert data.store.measures.checkpoint_failures == 0
        assert data.store.failure is None
        assert caplog.text.count("/bad cannot be saved") == 1
        state = data.state()
        data.abandon()
    assert verify(tmp_path).is_sound
    for _ in range(2):
        with opened(tmp_path) as data:
            assert data.state() == state
            data.abandon()
    with opened(tmp_path) as data:
        assert data.state() == state
        assert state["/bad"][0] == b"x012"  # type: ignore[index]
        data.append("/bad", b"3")
        data.checkpoint()
        data.append("/bad", b"4")
        blocked.rmdir()
        data.checkpoint()
        assert not data.engine.streams.dirty
        assert data.engine.measures.unsaved_streams == 0
        data.append("/bad", b"5")
        data.abandon()
    with opened(tmp_path) as data:
        assert data.state()["/bad"][0] == b"x012345"  # type: ignore[index]
    assert verify(tmp_path).is_sound


def test_only_a_stream_that_holds_back_too_much_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, max_unsaved_bytes=LIMIT) as data:
        data.create("/bad")
        data.create("/good")
        block(tmp_path, data, "/bad")
        refused = 0
        for number in range(60):
            found = data.append("/bad", PIECE)
            refused += found == NotSaved("/bad")
            assert isinstance(found, Append) or refused, found
            assert isinstance(data.append("/good", PIECE), Append)
            tick(data, NOW_MS + number * 10_000)
        assert refused > 40
        assert data.store.failure is None
        data.abandon()
    with opened(tmp_path, max_unsaved_bytes=LIMIT) as data:
        assert data.append("/bad", PIECE) == NotSaved("/bad"), "also after a restart"
        assert isinstance(data.delete("/bad"), Delete)
        data.checkpoint()
        assert not data.engine.streams.held_back
        assert list(data.engine.catalog.held()) == []
        assert isinstance(data.create("/bad", body=b"x"), object)
        assert isinstance(data.append("/bad", PIECE), Append)


def test_forks_of_a_stream_that_was_never_saved(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/source", body=b"abc")
        block(tmp_path, data, "/source")
        data.create("/fork", forked_from="/source", body=b"def")
        data.checkpoint()
        data.create("/second", forked_from="/fork")
        data.delete("/source")  # forks need it
        data.checkpoint()
        state = data.state()
        data.abandon()
    assert verify(tmp_path).is_sound
    with opened(tmp_path) as data:
        assert data.state() == state
        assert state["/fork"][0] == b"abcdef"  # type: ignore[index]
        data.delete("/fork")
        data.delete("/second")
        data.checkpoint()
        assert data.state() == {}
        assert list(data.engine.catalog.held()) == []
        data.abandon()
    with opened(tmp_path) as data:
        assert data.state() == {}


def test_producers_and_parts_of_a_stream_that_is_held_back(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/bad")
        data.stage("/bad", "one", b"first")
        data.checkpoint()
        block(tmp_path, data, "/bad")
        data.append("/bad", b"x", Stamp(b"p", 0, 0))
        data.stage("/bad", "two", b"second")
        data.checkpoint()
        data.commit("/bad", "two", "one", stamp=Stamp(b"p", 0, 1))
        data.checkpoint()
        data.abandon()
    with opened(tmp_path) as data:
        assert isinstance(data.commit("/bad", "two", "one", stamp=Stamp(b"p", 0, 1)), Duplicate)
        assert isinstance(data.append("/bad", b"x", Stamp(b"p", 0, 0)), Duplicate)
        assert data.state()["/bad"][0] == b"xsecondfirst"  # type: ignore[index]
        data.abandon()
    assert verify(tmp_path).is_sound


def test_a_backup_has_what_is_held_back(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as data:
        data.create("/bad", body=b"x")
        block(tmp_path / "data", data, "/bad")
        data.checkpoint()
        data.append("/bad", b"y")
        with new_archive(tmp_path / "copy.tar") as archive:
            back_up(tmp_path / "data", archive)
        state = data.state()
    assert restore(tmp_path / "copy.tar", tmp_path / "restored").is_sound
    with opened(tmp_path / "restored") as data:
        assert data.state() == state
        data.checkpoint()
        assert not data.engine.streams.held_back, "nothing is in the way there"


def test_a_row_that_is_too_big(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/good", body=b"x")
        data.create("/bad", body=b"y")
        entry = data.engine.streams.find("/bad")
        assert entry is not None
        entry.stream.deadline_ms = 2**70  # SQLite has no such number
        data.checkpoint()
        assert list(data.engine.streams.held_back) == [entry.stream.id]
        data.abandon()
    with opened(tmp_path) as data:
        assert {name: facts[0] for name, facts in data.state().items()} == {"/good": b"x", "/bad": b"y"}  # type: ignore[index]


def test_a_file_that_cannot_be_removed_stops_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        data.create("/gone", body=b"x")
        path = block(tmp_path, data, "/gone")
        data.delete("/gone")
        data.create("/good", body=b"y")
        data.checkpoint()
        assert list(data.engine.streams.removed), "it is tried again"
        data.abandon()
    with opened(tmp_path) as data:
        assert data.state().keys() == {"/good"}
    assert path.is_dir()
    assert not any(name.endswith(f"{path.name}/x") for name in files_of(tmp_path))


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


def wait_for_unsaved_streams(client: Client, wanted: int) -> None:
    def is_so() -> bool:
        answer = client.request("GET", "/__ds/metrics")
        assert answer is not None
        found = re.search(rb"^millstream_unsaved_streams (\d+)", answer[2], re.MULTILINE)
        assert found is not None
        return int(found[1]) == wanted

    wait_until(is_so)


@pytest.mark.parametrize(
    "failpoint", ["checkpoint.written", "checkpoint.committed", "checkpoint.cleaned", "segment.released"]
)
def test_a_kill_at_a_failpoint_of_a_checkpoint_that_holds_back(tmp_path: Path, failpoint: str) -> None:
    (tmp_path / LAYOUT.content_name(1)).mkdir(parents=True)
    acknowledged = {"/bad": 0, "/good": 0}
    for count in (1, 2, 3):
        environment = {"MILLSTREAM_FAILPOINT": f"{failpoint}:{count}"}
        server = start(tmp_path, environment=environment)
        try:
            announced(server)
            client, number = Client(port_of(server)), 0
            while all(client.request("PUT", name) for name in acknowledged):
                for name in acknowledged:
                    client.request(
                        "POST", f"{name}?part={number}", b"unused"
                    )  # a checkpoint removes its file
                    client.request("DELETE", f"{name}?part={number - 4}")
                    number += 1
                    answer = client.request("POST", name, b"%08d" % acknowledged[name] + REST)
                    acknowledged[name] += answer is not None and answer[0] == 204
            assert server._process.wait(60) == -9, server.output()
        finally:
            server.stop()
        assert verify(tmp_path).is_sound
        with serving(tmp_path) as server:
            client = Client(port_of(server))
            for name, count_before in acknowledged.items():
                _, data, _ = client.read_all(name)
                numbers = [int(data[at : at + 8]) for at in range(0, len(data), 8 + len(REST))]
                assert numbers[:count_before] == list(range(count_before))
                assert len(numbers) <= count_before + 1  # one was stored, and its answer was lost
                if len(numbers) > count_before:
                    acknowledged[name] += 1
            client.close()


@pytest.mark.timeout(120)
def test_over_the_wire_with_kills(tmp_path: Path) -> None:
    options = ["--max-unsaved-bytes", "1200000"]
    content = {"/bad": b"", "/good": b""}
    (tmp_path / LAYOUT.content_name(1)).mkdir(parents=True)  # the first stream's
    for life in range(3):
        with serving(tmp_path, options=options) as server:
            client = Client(port_of(server))
            for name in content:
                assert client.request("PUT", name)[0] in (200, 201)  # type: ignore[index]
                assert client.read_all(name)[1] == content[name]
            for number in range(20):
                for name in content:
                    body = f"{life}:{number};".encode() * 500
                    assert client.request("POST", name, body)[0] == 204  # type: ignore[index]
                    content[name] += body
                if number == 10:
                    wait_for_unsaved_streams(client, 1)
            kill(server)
            client.close()
        assert verify(tmp_path).is_sound
    with serving(tmp_path, options=options) as server:
        client = Client(port_of(server))
        statuses = set()
        for _ in range(60):
            answer = client.request("POST", "/bad", b"x" * 20_000)
            assert answer is not None
            statuses.add(answer[0])
            if answer[0] == 503:
                assert json.loads(answer[2])["code"] == "STREAM_NOT_SAVED"
                break
            content["/bad"] += b"x" * 20_000
            assert client.request("POST", "/good", b"y")[0] == 204  # type: ignore[index]
            content["/good"] += b"y"
            time.sleep(0.05)
        assert statuses == {204, 503}
        assert client.request("POST", "/good", b"y")[0] == 204  # type: ignore[index]
        content["/good"] += b"y"
        (tmp_path / LAYOUT.content_name(1)).rmdir()
        wait_for_unsaved_streams(client, 0)
        assert client.request("POST", "/bad", b"z")[0] == 204  # type: ignore[index]
        content["/bad"] += b"z"
        kill(server)
        client.close()
    with serving(tmp_path, options=options) as server:
        client = Client(port_of(server))
        for name, wanted in content.items():
            assert client.read_all(name)[1] == wanted
        client.close()
