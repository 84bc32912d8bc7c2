"""What a terminal shows: colours that are ours, and content that it cannot be made to obey."""

import re

import pytest

from cli.commands import Cli

OURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = b"\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\x00\x7f \xe2\x80\xaertl \xc2\x9b0m \xff"


@pytest.mark.parametrize("verb", [["read", "--no-follow"], ["tail"]])
def test_hostile_text_is_shown_and_not_obeyed(cli: Cli, text: str, verb: list[str]) -> None:
    cli("append", text, "--close", stdin=b"before\n\t" + HOSTILE + b"\nafter")
    shown = OURS.sub("", cli.terminal(verb[0], text, *verb[1:]).text)
    assert r"\x1b]0;owned\x07\x1b[2J\x9b31m\x0d\x08\x00\x7f \u202ertl \x9b0m \xff" in shown
    assert "before\n" in shown
    assert "\nafter\n" in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)


def test_hostile_messages_are_shown_and_not_obeyed(cli: Cli, events: str) -> None:
    message = '{"a": "\\u001b[2J \x7f\x9b31m \u202e \u2028"}\n'
    cli("append", events, "--close", stdin=message.encode())
    shown = OURS.sub("", cli.terminal("read", events).text)
    assert shown.startswith(r'{"a": "\u001b[2J \x7f\x9b31m \u202e \u2028"}' + "\n")
    assert cli("read", events).out == message.encode()


def test_messages_are_coloured_and_the_end_is_told(cli: Cli, events: str) -> None:
    cli("append", events, "--close", stdin=b'{"key": ["text", -1.5e3, true, null]}\n')
    shown = cli.terminal("tail", events).text
    assert '\x1b[34m"key"\x1b[0m: [\x1b[32m"text"\x1b[0m' in shown
    assert "-- closed at 0000000000000000_0000000000000038 --" in shown
    assert OURS.sub("", shown).startswith('{"key": ["text", -1.5e3, true, null]}\n')


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_refused(cli: Cli, events: str, variables: dict[str, str]) -> None:
    cli("append", events, "--close", stdin=b'{"key": 1}\n')
    assert "\x1b" not in cli.terminal("read", events, **variables).text


def test_an_error_cannot_be_made_to_obey_either(cli: Cli) -> None:
    ended = cli("head", "/nothing/\x1b[2Jhere\nsecond")
    assert ended.code in (4, 7)
    [line] = ended.err.splitlines()
    assert "\x1b" not in line


@pytest.mark.parametrize(
    "verb",
    ["create", "append", "read", "tail", "head", "close", "delete", "fork", "list", "bench", "completion"],
)
def test_every_verb_explains_itself(cli: Cli, verb: str) -> None:
    shown = cli(verb, "--help")
    assert shown.code == 0
    assert shown.text.startswith(f"Usage: millstream {verb} ")
    if verb != "completion":
        assert "MILLSTREAM_URL" in shown.text
        assert "MILLSTREAM_TOKEN" in shown.text
