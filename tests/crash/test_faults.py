"""The disk refuses, fails, or does half of what it was asked."""

import asyncio
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from crash.folders import OCTETS, opened
from crash.power import make_image, mounted, why_not
from crash.processes import Client, port_of, serving
from millstream.protocol.producers import Stamp
from millstream.protocol.requests import AppendRequest
from millstream.protocol.streams import Append, Duplicate, NoSpace, StoreFailed
from millstream.store.log.disk import RealDisk

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def strace(output: Path, *options: str) -> list[str]:
    """Trace a server; the tracer is its grandchild, so that signals go to the server itself."""
    return ["strace", "-D", "-f", "-qq", "-o", str(output), *options]


# -- Failing syncs ---------------------------------------------------------------------------------------


@needs_strace
def test_a_failed_sync_ends_the_server_and_a_retry_is_stored_once(tmp_path: Path) -> None:
    inject = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=25"]
    folder = tmp_path / "data"
    lines = 0

    def produce(client: Client) -> int:
        stamp = {"producer-id": "p", "producer-epoch": "0", "producer-seq": str(lines)}
        answer = client.request("POST", "/a", b"%04d\n" % lines, stamp)
        return answer[0] if answer is not None else 0

    with serving(folder, prefix=strace(tmp_path / "trace", *inject)) as server:
        writer, reader = Client(port_of(server)), Client(port_of(server))
        assert writer.request("PUT", "/a")
        assert reader.read_all("/a")[0] == 200
        while (status := produce(writer)) == 200:
            lines += 1
        assert status == 503
        assert lines > 3
        seen = reader.request("GET", "/a?offset=-1")
        assert seen is None or (seen[0], seen[2].count(b"\n")) == (
            200,
            lines,
        )  # what was durable, if still served
        assert server._process.wait(60) == 1, server.output()
        assert re.search(r"the disk failed.*Input/output error", server.output()), server.output()
        assert "Traceback" not in server.output()
        writer.close()
        reader.close()
    with serving(folder) as server:
        client = Client(port_of(server))
        assert produce(client) in (200, 204)
        assert client.read_all("/a")[1] == b"".join(b"%04d\n" % number for number in range(lines + 1))
        client.close()


def test_reads_go_on_after_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, durable=True) as data:
        failures: list[str] = []
        data.store.on_failure = failures.append
        data.create("/a", body=b"kept")

        def fail(_descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("millstream.store.log.disk._fdatasync", fail)
        assert data.append("/a", b"lost?") == StoreFailed()
        monkeypatch.undo()
        assert data.append("/a", b"more") == StoreFailed()  # no retry: the page cache lies
        assert data.state()["/a"][0] == b"kept"
        assert failures == ["[Errno 5] Input/output error"]
    with opened(tmp_path, durable=True) as data:
        assert data.state()["/a"][0] in (b"kept", b"keptlost?")


def test_a_failed_sync_of_a_checkpoint_ends_it_all_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with opened(tmp_path, durable=True) as data:
        failures: list[str] = []
        data.store.on_failure = failures.append
        data.create("/a", body=b"kept")
        monkeypatch.setattr("millstream.store.log.disk._fdatasync", fail)
        data.checkpoint()
        monkeypatch.undo()
        assert failures == ["a checkpoint failed: [Errno 5] Input/output error"]
        assert data.append("/a", b"more") == StoreFailed()
    with opened(tmp_path) as data:
        assert data.state()["/a"][0] == b"kept"


# -- Short writes ----------------------------------------------------------------------------------------


def test_a_write_goes_on_after_every_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, pieces = os.pwritev, [b"abc", b"", b"defgh", b"i"]
    disk = RealDisk(tmp_path, durable=False)
    for first in range(1, 9):
        for later in (1, 2, 100):
            sizes = iter([first])

            def short(descriptor: int, buffers: list[bytes], position: int) -> int:
                whole = b"".join(buffers)[: next(sizes, later)]  # noqa: B023  called within this turn
                return real(descriptor, [whole], position)

            monkeypatch.setattr(os, "pwritev", short)
            file = disk.open(f"{first}-{later}", create=True)
            file.write(pieces, 5)
            assert file.read(100, 0) == bytes(5) + b"abcdefghi"
            file.close()
    disk.close()


def test_an_engine_whose_writes_are_all_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, buffers: list[bytes], position: int) -> int:
        return real(descriptor, [b"".join(buffers)[:7]], position)

    monkeypatch.setattr(os, "pwritev", short)
    with opened(tmp_path, segment_bytes=1024) as data:
        data.create("/a")
        for number in range(50):
            data.append("/a", b"%03d" % number * 9)
        data.checkpoint()
        before = data.state()
    with opened(tmp_path) as data:
        assert data.state() == before


# -- No space --------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_takes_back_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev
    full = False

    def pwritev(descriptor: int, buffers: list[bytes], position: int) -> int:
        if full:
            if len(b"".join(buffers)) > 100:  # half of it fits
                real(descriptor, [b"".join(buffers)[:60]], position)
            raise OSError(28, "No space left on device")
        return real(descriptor, buffers, position)

    monkeypatch.setattr(os, "pwritev", pwritev)
    with opened(tmp_path) as data:
        data.create("/a", body=b"kept")
        data.append("/a", b"-too", Stamp(b"p", 0, 0))
        full = True
        store = data.store
        both = [
            store.append("/a", AppendRequest(b"x" * 500, OCTETS, False, Stamp(b"p", 0, 1), None), 0),
            store.append("/a", AppendRequest(b"y", OCTETS, True, Stamp(b"p", 0, 2), None), 0),
        ]
        assert [data.wait(pending) for pending in both] == [NoSpace(), NoSpace()]
        assert data.state()["/a"][:3] == (b"kept-too", (0, 8), False)
        assert data.append("/a", b"z") == NoSpace()
        assert (store.backlog.unsynced_changes, store.backlog.unsynced_bytes) == (0, 0)
        full = False

        async def tick(now_ms: int) -> None:
            store.expire(now_ms)
            while data.engine.runtime.jobs:  # noqa: ASYNC110  the engine has no event for it
                await asyncio.sleep(0.001)

        for now_ms in (5_000, 10_000):
            data.runner.run(tick(now_ms))
        assert isinstance(data.append("/a", b"again", Stamp(b"p", 0, 1)), Append)
        assert isinstance(data.append("/a", b"again", Stamp(b"p", 0, 1)), Duplicate)
        assert (store.backlog.unsynced_changes, store.backlog.unsynced_bytes) == (0, 0)
        data.abandon()
    with opened(tmp_path) as data:
        assert data.state()["/a"][0] == b"kept-tooagain"


@pytest.mark.skipif(why_not("ext4") is not None, reason=why_not("ext4") or "")
def test_a_full_file_system(tmp_path: Path) -> None:
    image = tmp_path / "small.img"
    make_image(image, "ext4", "8M")
    with mounted(image, "loop") as folder:
        (folder / "ballast").write_bytes(bytes(3 * 2**20))
        stored = b""
        with serving(folder / "data") as server:
            client = Client(port_of(server))
            assert client.request("PUT", "/a")
            stored = _fill(client, stored)
            assert client.read_all("/a") == (200, stored, False)
            client.close()
            assert server.stop() == 0, server.output()
        with serving(folder / "data") as server:  # a server starts on a full disk, too
            client = Client(port_of(server))
            assert client.read_all("/a") == (200, stored, False)
            stored = _fill(client, stored)
            assert client.read_all("/a") == (200, stored, False)
            (folder / "ballast").unlink()
            give_up_s = time.monotonic() + 60
            while (answer := client.request("POST", "/a", b"again\n"))[0] == 507:  # type: ignore[index]
                assert time.monotonic() < give_up_s, server.output()
                time.sleep(0.1)
            assert answer is not None
            assert answer[0] == 204, answer
            client.close()
            assert server.stop() == 0, server.output()
        with serving(folder / "data") as server:
            client = Client(port_of(server))
            assert client.read_all("/a") == (200, stored + b"again\n", False)
            client.close()
    image.unlink()


def _fill(client: Client, stored: bytes) -> bytes:
    """Append until there is no room; gives all that was acknowledged."""
    for number in range(1000):
        body = b"%06d\n" % number * 4096
        answer = client.request("POST", "/a", body)
        assert answer is not None
        if answer[0] == 507:
            return stored
        assert answer[0] == 204, answer
        stored += body
    raise AssertionError("the disk is never full")


# -- Answers come after syncs ------------------------------------------------------------------------------


@needs_strace
def test_an_answer_leaves_after_its_sync(tmp_path: Path) -> None:
    calls = "read,recvfrom,recvmsg,write,writev,sendto,sendmsg,pwritev,pwritev2,fdatasync"
    trace = tmp_path / "trace"
    with serving(tmp_path / "data", prefix=strace(trace, "-s", "80", "-e", f"trace={calls}")) as server:
        client = Client(port_of(server))
        assert client.request("PUT", "/a")
        for number in range(20):
            answer = client.request("POST", "/a", b"%d" % number)
            assert answer is not None
            assert answer[0] == 204
        client.close()
    events = [event for line in trace.read_text().splitlines() if (event := _event(line))]
    story = "".join(events)
    assert story.count("Q") == 20
    # Each request is followed by a frame, its sync, and only then an answer.
    assert len(re.findall(r"Q[^A]*?F[^A]*?S[^A]*?A", story)) == 20, story


def _event(line: str) -> str:
    if "POST /a" in line:
        return "Q"
    if "pwritev" in line:
        return "F"
    if "fdatasync" in line and line.rstrip().endswith("= 0"):
        return "S"
    if "HTTP/1.1 204" in line:
        return "A"
    return ""
