"""What `read` and `tail` write: lines, objects with offsets, or content as it is."""

import json

import pytest

from cli.commands import Cli


def offset(count: int) -> str:
    return f"{0:016}_{count:016}"


@pytest.fixture
def three(cli: Cli, events: str) -> str:
    """A stream of three messages from two appends."""
    cli("append", events, "-m", '{"n": 1}', "-m", "2")
    cli("append", events, "--message", '[\n"three"]')
    return events


OFFSETS = [offset(9), offset(11), offset(22)]


def test_objects_have_each_message_and_the_offset_after_it(cli: Cli, three: str) -> None:
    ended = cli("read", three, "--no-follow", "--format", "json")
    assert [(one["offset"], one["value"]) for one in ended.records] == list(
        zip(OFFSETS, [{"n": 1}, 2, ["three"]], strict=True)
    )
    for at, rest in zip(OFFSETS, ([2, ["three"]], [["three"]], []), strict=True):
        after = cli("read", three, "--no-follow", "--format", "json", "--offset", at)
        assert [one["value"] for one in after.records] == rest


def test_offsets_of_the_last_messages(cli: Cli, three: str) -> None:
    for command in (["read", "--no-follow", "--last", "2"], ["tail", "--last", "2"]):
        cli("close", three)
        ended = cli(*command[:1], three, *command[1:], "--format", "json")
        assert [one["offset"] for one in ended.records] == OFFSETS[1:]


def test_lines_can_begin_with_their_offsets(cli: Cli, three: str) -> None:
    ended = cli("read", three, "--no-follow", "--offsets")
    assert ended.text.splitlines() == [
        f'{OFFSETS[0]}\t{{"n": 1}}', f"{OFFSETS[1]}\t2", f'{OFFSETS[2]}\t[ "three"]'
    ]  # fmt: skip
    shown = cli.terminal("read", three, "--no-follow", "--offsets", NO_COLOR="1").text
    assert shown.splitlines() == ended.text.splitlines()


def test_raw_is_what_the_server_sends(cli: Cli, three: str) -> None:
    ended = cli("read", three, "--no-follow", "--format", "raw")
    assert json.loads(ended.out) == [{"n": 1}, 2, ["three"]]


def test_other_content_is_text_or_base64(cli: Cli, text: str, name: str) -> None:
    cli("append", text, "--message", "Grüße")
    [one] = cli("read", text, "--no-follow", "--format", "json").records
    assert one == {"offset": offset(8), "text": "Grüße\n"}
    cli("append", text, stdin=b"\xff\n")
    assert [*one] == ["offset", "text"]
    [one] = cli("read", text, "--no-follow", "--format", "json", "--offset", offset(8)).records
    assert one == {"offset": offset(10), "base64": "/wo="}


def test_offsets_of_lines_need_messages(cli: Cli, text: str) -> None:
    ended = cli("read", text, "--no-follow", "--offsets")
    assert ended.code == 2
    assert "--offsets is for streams of JSON messages" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_message_of_the_command_line_is_a_string_with_text(cli: Cli, events: str) -> None:
    [appended] = cli("append", events, "--text", "-m", "Hello", "--close").records
    assert (appended["messages"], appended["closed"]) == (1, True)
    assert cli("read", events).out == b'"Hello"\n'


def test_a_message_of_the_command_line_is_stored_once_by_a_producer(cli: Cli, events: str) -> None:
    for _ in range(2):
        assert cli("append", events, "-m", "1", "--producer", "p", "--epoch", "7").code == 0
    assert cli("read", events, "--no-follow").out == b"1\n"


def test_list_takes_a_prefix(cli: Cli, events: str) -> None:
    for prefix in (events[:-3], events[1:-3]):
        assert [one["path"] for one in cli("list", prefix).records] == [events]
    assert cli("list", f"{events}-none").records == []
