"""Reading: ranges, the last messages, following to the end."""

import signal
import subprocess
from pathlib import Path

import pytest

import millstream
from cli.commands import COMMAND, Cli, environment
from python_client.faulty_proxy import FaultyProxy


def test_reading_follows_until_the_stream_is_closed(cli: Cli, events: str) -> None:
    cli("append", events, stdin=b"1\n")
    with cli.started("read", events) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        cli("append", events, stdin=b"2\n")
        assert reader.stdout.readline() == b"2\n"
        cli("close", events, "-m", "3")
        out, err = reader.communicate(timeout=60)
    assert (reader.returncode, out, err) == (0, b"3\n", b"")


def test_a_range_is_read_from_offset_until_offset(cli: Cli, events: str) -> None:
    offsets = [str(cli("append", events, stdin=b"%d\n" % n).records[0]["offset"]) for n in range(4)]
    ended = cli("read", events, "--offset", offsets[0], "--until", offsets[2])
    assert (ended.code, ended.out) == (0, b"1\n2\n")
    assert cli("read", events, "--until", offsets[1], "--no-follow").out == b"0\n1\n"
    assert cli("read", events, "--offset", "now", "--no-follow").out == b""


def test_until_waits_for_what_is_not_there_yet(cli: Cli, events: str) -> None:
    first = str(cli("append", events, stdin=b"1\n").records[0]["offset"])
    second = first[:-2] + "04"
    with cli.started("read", events, "--until", second) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        cli("append", events, stdin=b"2\n")
        out, _ = reader.communicate(timeout=60)
    assert (reader.returncode, out) == (0, b"2\n")


@pytest.mark.parametrize(("last", "shown"), [(0, ""), (1, "4\n"), (3, "2\n3\n4\n"), (99, "0\n1\n2\n3\n4\n")])
def test_the_last_messages(cli: Cli, events: str, last: int, shown: str) -> None:
    cli("append", events, stdin=b"0\n1\n2\n")
    cli("append", events, stdin=b"3\n4\n")
    assert cli("read", events, "--last", str(last), "--no-follow").text == shown


def test_the_last_lines_of_text_with_a_line_that_has_no_end(cli: Cli, text: str) -> None:
    cli("append", text, stdin=b"one\ntwo\nthree\nfo")
    cli("append", text, stdin=b"ur")
    assert cli("read", text, "--last", "2", "--no-follow").out == b"three\nfour"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_the_last_messages_of_a_long_stream_cost_no_whole_reading(
    cli: Cli, name: str, content_type: str
) -> None:
    cli("create", name, "--content-type", content_type)
    lines = [b'"%06d %b"\n' % (n, b"x" * 200) for n in range(40_000)]
    cli("append", name, stdin=b"".join(lines))
    with FaultyProxy(cli.url) as proxy:
        through = Cli(proxy.url)
        assert through("read", name, "--last", "3", "--no-follow").out == b"".join(lines[-3:])
        gets = [request.target for request in proxy.seen if request.method == "GET"]
        assert len(gets) <= 2
        assert not [target for target in gets if "offset=-1" in target]
        assert through("read", name, "--last", "9000", "--no-follow").out == b"".join(lines[-9000:])
        assert not [
            request for request in proxy.seen if request.method == "GET" and "offset=-1" in request.target
        ]


def test_messages_with_line_breaks_come_on_one_line(cli: Cli, events: str) -> None:
    millstream.DurableStream(cli.url + events).append(b'{\n  "a":\r\n  1\n}')
    assert cli("read", events, "--no-follow").out == b'{   "a":    1 }\n'


def test_output_that_nobody_reads_ends_the_command_quietly(cli: Cli, events: str) -> None:
    cli("append", events, stdin=b"1\n2\n3\n")
    script = f"set -o pipefail; {' '.join(COMMAND)} read {events} | head -n 1"
    # The stream stays open and silent: the command must notice by itself that `head` has left.
    ended = subprocess.run(
        ["bash", "-c", script],
        env=environment(MILLSTREAM_URL=cli.url),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, b"1\n", b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_large_output_that_is_cut_short_is_quiet(cli: Cli, text: str, unbuffered: str) -> None:
    cli("append", text, stdin=b"x" * 99 + b"\n" + b"y" * 5_000_000)
    script = f"set -o pipefail; {' '.join(COMMAND)} read {text} --no-follow | head -c 10"
    ended = subprocess.run(
        ["bash", "-c", script],
        env=environment(MILLSTREAM_URL=cli.url, PYTHONUNBUFFERED=unbuffered),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, b"x" * 10, b"")


@pytest.mark.parametrize("verb", ["read", "tail"])
def test_ctrl_c_ends_a_reading_quietly(cli: Cli, events: str, verb: str) -> None:
    cli("append", events, stdin=b"1\n")
    with cli.started(verb, events) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        reader.send_signal(signal.SIGINT)
        out, err = reader.communicate(timeout=60)
    assert (reader.returncode, out, err) == (130, b"", b"")


def test_a_file_gets_everything(cli: Cli, text: str, tmp_path: Path) -> None:
    content = b"line\n" * 700_000
    cli("append", text, stdin=content)
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(
            [*COMMAND, "read", text, "--no-follow"],
            env=environment(MILLSTREAM_URL=cli.url),
            stdout=out,
            timeout=60,
            check=True,
        )
    assert (tmp_path / "out").read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--offset", "-1", "--last", "1"], 2, "--offset and --last exclude each other"),
        (["--offset", ""], 2, "--offset is empty"),
        (["--until", "now"], 2, "--until is not a time"),
        (["--until", "9999-12-31T00:00:00Z"], 2, "--until is in the future"),
        (["--since", "soon"], 2, "--since is not a time"),
        (["--since", "10m", "--last", "1"], 2, "--last and --since exclude each other"),
        (["--times", "--format", "raw"], 2, "--times is not for --format raw"),
        (["--offset", "yesterday"], 7, "An offset is -1, now, or"),
        (["--until", "0000000000000000_0000000000000001", "--last", "1"], 2, "--until and --last"),
        (
            ["--offset", "0000000000000000_0000000000000002", "--until", "0" * 16 + "_" + "0" * 16],
            2,
            "--until",
        ),
        (["--last", "-1"], 2, "--last"),
        (["--last", "some"], 2, "--last"),
        (["--colour"], 2, "--colour"),
    ],
)
def test_wrong_ways_to_read(cli: Cli, events: str, arguments: list[str], code: int, complaint: str) -> None:
    ended = cli("read", events, *arguments)
    assert (ended.code, ended.out) == (code, b"")
    [line] = ended.err.splitlines()
    assert line.startswith("millstream read: ")
    assert complaint in line


def test_what_arrived_since_a_time_and_until_another(cli: Cli, events: str) -> None:
    """X7."""
    for number in range(3):
        cli("append", events, stdin=b"%d\n" % number)
    shown = cli("read", events, "--times", "--no-follow").text.splitlines()
    times = [line.partition("\t")[0] for line in shown]
    assert [line.partition("\t")[2] for line in shown] == ["0", "1", "2"]
    assert times == sorted(times)
    assert len(set(times)) == 3  # each is a command of its own
    assert cli("read", events, "--since", times[1], "--no-follow").text == "1\n2\n"
    assert cli("read", events, "--since", times[1], "--until", times[2]).text == "1\n"
    assert cli("read", events, "--until", times[1], "--times").text == f"{times[0]}\t0\n"
    assert cli("read", events, "--since", "10m", "--no-follow").text == "0\n1\n2\n"
    assert cli("read", events, "--since", "2030-01-31T12:00:00+01:00", "--no-follow").text == ""


def test_times_beside_offsets_and_in_objects(cli: Cli, events: str) -> None:
    """X7."""
    text = f"{events}-text"
    cli("create", text, "--content-type", "text/plain")
    cli("append", events, stdin=b"1\n2\n")
    cli("append", text, stdin=b"one\n")
    found = cli("read", events, "--times", "--format", "json", "--last", "1", "--no-follow").records
    assert [one["value"] for one in found] == [2]
    (line,) = cli("read", events, "--times", "--offsets", "--last", "1", "--no-follow").text.splitlines()
    assert line == f"{found[0]['offset']}\t{found[0]['time']}\t2"
    (piece,) = cli("read", text, "--times", "--format", "json", "--no-follow").records
    assert (piece["text"], str(piece["time"])[-1]) == ("one\n", "Z")
    assert cli("read", text, "--times", "--no-follow").code == 2
