"""Appending: lines, files and bytes, in batches, with and without a producer."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

import millstream
from cli.commands import COMMAND, Cli, environment, on_terminal
from running import free_port, listening_on, started
from running import millstream as serving


def test_each_line_is_a_message_with_its_own_bytes(cli: Cli, events: str) -> None:
    lines = b'{"big": 12345678901234567890,  "b":1.50}\n\n  [1, 2] \r\n"\\ud800"\nnull'
    [report] = cli("append", events, stdin=lines).records
    assert (report["messages"], report["bytes"], report["closed"]) == (4, len(lines), False)
    read = cli("read", events, "--no-follow").out
    assert read == b'{"big": 12345678901234567890,  "b":1.50}\n[1, 2]\n"\\ud800"\nnull\n'


def test_lines_become_strings_with_text(cli: Cli, events: str) -> None:
    cli("append", events, "--text", stdin='say "hä"\r\n\nend'.encode())
    assert cli("read", events, "--no-follow").out == '"say \\"hä\\""\n""\n"end"\n'.encode()


def test_text_and_bytes_stay_as_they_are(cli: Cli, text: str) -> None:
    content = b"one\r\ntwo\x1b[31m\n\xff\x00 three"
    cli("append", text, stdin=content)
    assert cli("read", text, "--no-follow").out == content
    noise = os.urandom(300_000)
    cli("create", f"{text}.bin")
    [report] = cli("append", f"{text}.bin", stdin=noise).records
    assert report["bytes"] == len(noise)
    assert cli("read", f"{text}.bin", "--no-follow").out == noise


def test_json_on_a_text_stream_is_checked_line_by_line(cli: Cli, text: str) -> None:
    assert cli("append", text, "--json", stdin=b'{"a": 1}\n').code == 0
    assert cli("append", text, "--json", stdin=b"a\n").code == 7
    assert cli("read", text, "--no-follow").out == b'{"a": 1}\n'


def test_files_come_in_their_order_and_standard_input_is_a_dash(
    cli: Cli, events: str, tmp_path: Path
) -> None:
    (tmp_path / "a.ndjson").write_text("1\n2")
    (tmp_path / "b.ndjson").write_text("4\n")
    assert cli("append", events, "a.ndjson", "-", "b.ndjson", stdin=b"3\n", cwd=tmp_path).code == 0
    assert cli("read", events, "--no-follow").out == b"1\n2\n3\n4\n"


@pytest.mark.parametrize("producer", [[], ["--producer", "importer"]])
def test_a_bad_line_is_named_and_everything_before_it_is_stored(
    cli: Cli, events: str, tmp_path: Path, producer: list[str]
) -> None:
    (tmp_path / "in.ndjson").write_text("1\n\n2\n{oops\n3\n")
    ended = cli("append", events, "in.ndjson", *producer, cwd=tmp_path)
    assert (ended.code, ended.out) == (7, b"")
    [line] = ended.err.splitlines()
    assert line.startswith("millstream append: Line 4 of in.ndjson is not JSON (Expecting property name")
    assert "2 messages before it were appended" in line
    assert "`jq -c .`" in line
    assert cli("read", events, "--no-follow").out == b"1\n2\n"


@pytest.mark.parametrize(
    "content", [b"[1,\n", b"\xff\n", b"NaN\n", b"[" * 100_000 + b"\n", b"{} {}\n", b"'a'\n"]
)
def test_what_is_not_json_is_refused(cli: Cli, events: str, content: bytes) -> None:
    ended = cli("append", events, stdin=content)
    assert ended.code == 7
    [line] = ended.err.splitlines()
    assert "Line 1 of standard input" in line
    assert "0 messages before it were appended" in line


@pytest.mark.parametrize("producer", [[], ["--producer", "importer"]])
def test_a_large_input_comes_through_in_batches(cli: Cli, events: str, producer: list[str]) -> None:
    lines = b"".join(b'{"n": %d, "padding": "%b"}\n' % (n, b"x" * 80) for n in range(60_000))
    [report] = cli("append", events, *producer, stdin=lines).records
    assert report["messages"] == 60_000
    assert cli("read", events, "--no-follow").out == lines
    assert cli("head", events).records[0]["offset"] == report["offset"]


@pytest.mark.parametrize("producer", [[], ["--producer", "typist"]])
def test_lines_are_there_for_readers_while_their_writer_goes_on(
    cli: Cli, text: str, producer: list[str]
) -> None:
    with cli.started("append", text, *producer) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"a line\n")
        writer.stdin.flush()
        with millstream.stream(cli.url + text) as response:
            assert next(response.iter_text()) == "a line\n"
        assert writer.poll() is None
        writer.stdin.close()
        assert writer.wait(60) == 0


def test_each_run_of_a_producer_appends_anew(cli: Cli, events: str) -> None:
    for _ in range(2):
        assert (
            cli("append", events, "--producer", "importer", stdin=b"1\n").records[0]["duplicateBatches"] == 0
        )
    assert cli("read", events, "--no-follow").out == b"1\n1\n"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/octet-stream"])
def test_the_same_input_in_the_same_epoch_is_stored_once(cli: Cli, name: str, content_type: str) -> None:
    cli("create", name, "--content-type", content_type)
    lines = b"".join(b'"%06d %b"\n' % (n, b"x" * 90) for n in range(30_000))
    repeat = ["append", name, "--producer", "importer", "--epoch", "1"]
    assert cli(*repeat, stdin=lines).code == 0
    [report] = cli(*repeat, stdin=lines).records
    assert isinstance(report["duplicateBatches"], int)
    assert report["duplicateBatches"] >= 3
    assert cli("read", name, "--no-follow").out == lines


def test_a_killed_import_goes_on_where_it_was(cli: Cli, events: str) -> None:
    lines = [b'{"n": %d, "padding": "%b"}\n' % (n, b"x" * 200) for n in range(60_000)]
    repeat = ["append", events, "--producer", "importer", "--epoch", "7"]
    with cli.started(*repeat) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"".join(lines[:40_000]))
        deadline = time.monotonic() + 60
        while cli("head", events).records[0]["offset"] < "0000000000000000_0000000001000000":
            assert time.monotonic() < deadline
        writer.send_signal(signal.SIGKILL)
    [report] = cli(*repeat, stdin=b"".join(lines)).records
    assert report["duplicateBatches"] != 0
    assert cli("read", events, "--no-follow").out == b"".join(lines)


def test_an_older_run_of_a_producer_is_fenced(cli: Cli, events: str) -> None:
    assert cli("append", events, "--producer", "p", "--epoch", "5", stdin=b"1\n").code == 0
    ended = cli("append", events, "--producer", "p", "--epoch", "4", stdin=b"2\n")
    assert ended.code == 5
    assert "took over with epoch 5" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("producer", [[], ["--producer", "importer"]])
def test_close_follows_the_last_message(cli: Cli, events: str, producer: list[str]) -> None:
    [report] = cli("append", events, "--close", *producer, stdin=b"1\n").records
    assert report["closed"] is True
    assert cli("read", events).out == b"1\n"
    ended = cli("append", events, stdin=b"2\n")
    assert ended.code == 5
    assert "closed stream" in ended.err


def test_nothing_to_append_is_fine(cli: Cli, events: str) -> None:
    [report] = cli("append", events).records
    assert (report["messages"], report["offset"]) == (0, None)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--json", "--text"], "exclude each other"),
        (["--epoch", "1"], "--epoch needs --producer"),
        (["--producer", ""], "is not a valid producer name"),
        (["--producer", "hä"], "is not a valid producer name"),
        (["--binary"], "A JSON stream takes no bytes"),
        (["missing.ndjson"], "missing.ndjson cannot be read: No such file"),
        (["."], ". cannot be read: It is a folder"),
    ],
)
def test_wrong_ways_to_append(cli: Cli, events: str, arguments: list[str], complaint: str) -> None:
    ended = cli("append", events, *arguments, stdin=b"1\n")
    assert ended.code == 2
    [line] = ended.err.splitlines()
    assert line.startswith("millstream append: ")
    assert complaint in line
    assert cli("read", events, "--no-follow").out == b""


def test_a_message_that_is_too_large_is_told_in_one_line(name: str) -> None:
    with serving("--max-body-bytes", "1000") as server:
        cli = Cli(server.url)
        cli("create", name, "--json")
        ended = cli("append", name, stdin=json.dumps("x" * 2000).encode())
        assert ended.code == 7
        assert "too large" in ended.err
        assert "--max-body-bytes" in ended.err


def test_a_producer_outlives_a_restart_of_the_server(name: str, tmp_path: Path) -> None:
    port = free_port()
    command = [*COMMAND, "serve", "--port", str(port), "--data", str(tmp_path)]
    cli = Cli(f"http://127.0.0.1:{port}")
    lines = [b'{"n": %d}\n' % n for n in range(2000)]
    with started(command, listening_on(port)) as server:
        cli("create", name, "--json")
        with cli.started("append", name, "--producer", "steady") as writer:
            assert writer.stdin is not None
            writer.stdin.write(b"".join(lines[:1000]))
            writer.stdin.flush()
            deadline = time.monotonic() + 60
            while not cli("read", name, "--no-follow").out:
                assert time.monotonic() < deadline
            server.signal(signal.SIGKILL)
            server.stop()
            writer.stdin.write(b"".join(lines[1000:]))
            writer.stdin.close()
            with started(command, listening_on(port)):
                assert writer.wait(60) == 0
                assert cli("read", name, "--no-follow").out == b"".join(lines)


def test_progress_shows_on_a_terminal_and_the_rate_at_the_end(cli: Cli, events: str, tmp_path: Path) -> None:
    (tmp_path / "in.ndjson").write_bytes(b'{"n": 1}\n' * 1_000_000)
    shown = cli.terminal("append", events, str(tmp_path / "in.ndjson")).text
    assert "appending" in shown
    assert "/9.0 MB" in shown
    assert "━" in shown
    last = shown.splitlines()[-1]
    assert "appended 1,000,000 messages, 9.0 MB in " in last
    assert "/s" in last


def test_a_person_who_types_is_told_how_to_end(cli: Cli, events: str) -> None:
    ended = on_terminal([*COMMAND, "append", events], b"1\n\x04", environment(MILLSTREAM_URL=cli.url))
    assert ended.code == 0
    assert "Ctrl+D ends" in ended.text
    assert cli("read", events, "--no-follow").out == b"1\n"


def test_an_append_can_expect_where_the_stream_ends(cli: Cli, events: str) -> None:
    """X6: batch after batch, and the close at the end."""
    [before] = cli("head", events).records
    [report] = cli("append", events, "--expected-offset", before["offset"], stdin=b"1\n2\n").records
    ended = cli("append", events, "--expected-offset", before["offset"], stdin=b"3\n")
    assert ended.code == 5
    [line] = ended.err.splitlines()
    assert f"The stream ends at {report['offset']}, not where it was expected to" in line
    assert "(0 messages were appended before)" in line
    assert cli("append", events, "-m", "3", "--expected-offset", "now").code == 7
    late = cli("append", events, "--close", "--expected-offset", before["offset"], stdin=b"")
    assert late.code == 5
    assert cli("append", events, "--close", "--expected-offset", report["offset"], stdin=b"3\n").code == 0
    assert cli("read", events).out == b"1\n2\n3\n"


def test_a_producer_expects_nothing(cli: Cli, events: str) -> None:
    ended = cli("append", events, "--producer", "p", "--expected-offset", "0_0", stdin=b"1\n")
    assert ended.code == 2
