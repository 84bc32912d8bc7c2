"""Following live: what is there, what comes, cuts, and the end."""

import json
import signal
import subprocess
import time
from pathlib import Path

from cli.commands import COMMAND, Cli
from running import free_port, listening_on, started


def test_tail_begins_with_the_last_ten_and_ends_at_eof(cli: Cli, events: str) -> None:
    cli("append", events, stdin=b"".join(b"%d\n" % n for n in range(20)))
    with cli.started("tail", events) as follower:
        assert follower.stdout is not None
        assert [follower.stdout.readline() for _ in range(10)] == [b"%d\n" % n for n in range(10, 20)]
        cli("append", events, stdin=b"20\n")
        assert follower.stdout.readline() == b"20\n"
        cli("close", events)
        out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out, err) == (0, b"", b"")


def test_tail_of_a_closed_stream_ends_at_once(cli: Cli, events: str) -> None:
    cli("append", events, "--close", stdin=b"1\n2\n")
    for arguments, shown in (([], b"1\n2\n"), (["--last", "1"], b"2\n"), (["--last", "0"], b"")):
        ended = cli("tail", events, *arguments)
        assert (ended.code, ended.out) == (0, shown)
    assert cli("tail", events, "--offset", "-1").out == b"1\n2\n"
    assert cli("tail", events, "--offset", "now").code == 0


def test_raw_bytes_come_through_a_pipe(cli: Cli, text: str) -> None:
    content = b"\x1b[31mred\x1b[0m \x00\xff\r\n"
    cli("append", text, "--close", stdin=content)
    assert cli("tail", text).out == content


def test_tail_resumes_after_a_kill_and_a_restart_of_the_server(tmp_path: Path, name: str) -> None:
    port = free_port()
    command = [*COMMAND, "serve", "--port", str(port), "--data", str(tmp_path)]
    cli = Cli(f"http://127.0.0.1:{port}")
    with started(command, listening_on(port)) as server:
        cli("create", name, "--json")
        cli("append", name, stdin=b"1\n")
        with cli.started("tail", name) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"1\n"
            server.signal(signal.SIGKILL)
            server.stop()
            _wait_until_told(follower)
            with started(command, listening_on(port)):
                cli("append", name, stdin=b"2\n")
                assert follower.stdout.readline() == b"2\n"
                cli("close", name, "-m", "3")
                out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out) == (0, b"3\n")
    assert err == b"resumed\n"


def _wait_until_told(follower: "subprocess.Popen[bytes]") -> None:
    """A cut is reported once, in one line, and the command continues."""
    assert follower.stderr is not None
    line = follower.stderr.readline().decode()
    assert "retrying (Ctrl+C to stop)" in line
    time.sleep(1)  # long enough for several further attempts
    assert follower.poll() is None


def test_a_stream_that_is_deleted_meanwhile_ends_with_code_4(cli: Cli, events: str) -> None:
    cli("append", events, stdin=b"1\n")
    with cli.started("tail", events) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"1\n"
        cli("delete", events)
        _, err = follower.communicate(timeout=60)
    assert follower.returncode == 4
    assert len(err.decode().splitlines()) == 1


def test_a_server_that_is_not_there_is_told_soon(name: str) -> None:
    began = time.monotonic()
    ended = Cli(f"http://127.0.0.1:{free_port()}")("tail", name)
    assert ended.code == 3
    [line] = ended.err.splitlines()
    assert line.startswith("millstream tail: Could not connect to 127.0.0.1:")
    assert "`millstream serve` starts one" in line
    assert time.monotonic() - began < 20


def test_several_streams_are_followed_together(cli: Cli, name: str) -> None:
    """X9: each line begins with its path; the command ends when all streams have ended."""
    for number in (1, 2):
        cli("create", f"{name}/{number}", "--json")
        cli("append", f"{name}/{number}", stdin=b'"old"\n')
    with cli.started("tail", f"{name}/1", f"{name}/2", "--offset", "-1") as follower:
        assert follower.stdout is not None
        assert {follower.stdout.readline() for _ in range(2)} == {
            f'/{name.lstrip("/")}/{number}\t"old"\n'.encode() for number in (1, 2)
        }
        cli("append", f"{name}/2", stdin=b'"new"\n')
        assert follower.stdout.readline() == f'/{name.lstrip("/")}/2\t"new"\n'.encode()
        for number in (1, 2):
            cli("close", f"{name}/{number}")
        out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out) == (0, b"")
    assert err.count(b" is closed at ") == 2


def test_a_glob_is_followed_with_streams_that_are_created_later(cli: Cli, name: str) -> None:
    """X9."""
    path = f"/{name.lstrip('/')}"
    cli("create", f"{path}/first", "--json")
    with cli.started("tail", "--glob", f"{path}/*", "--offset", "-1", "--format", "json") as follower:
        assert follower.stdout is not None
        cli("append", f"{path}/first", stdin=b"1\n")
        first = json.loads(follower.stdout.readline())
        assert (first["path"], first["value"]) == (f"{path}/first", 1)
        cli("create", f"{path}/second", "--content-type", "text/plain")
        cli("append", f"{path}/second", stdin=b"text")
        second = json.loads(follower.stdout.readline())
        assert (second["path"], second["text"]) == (f"{path}/second", "text")
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=60)


def test_several_streams_are_refused_with_what_is_for_one(cli: Cli, name: str) -> None:
    for arguments in (["--last", "3"], ["--offsets"], ["--offset", "0_0"], ["--format", "raw"]):
        assert cli("tail", name, f"{name}2", *arguments).code == 2
    assert cli("tail").code == 2
    assert cli("tail", name, f"{name}2").code == 4
