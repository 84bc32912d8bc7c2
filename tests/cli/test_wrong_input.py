"""Every command there is, given something wrong: one line that says what, and the code that belongs to it."""

from pathlib import Path

import pytest

from cli.commands import Cli
from millstream.cli.exits import Exit

WRONG: dict[str, list[tuple[list[str], int, str]]] = {
    "serve": [(["--port", "99999"], Exit.USAGE, "--port: 99999 is above the largest value")],
    "create": [(["STREAM", "--content-type", "text/plain"], Exit.CONFLICT, "The path is taken")],
    "append": [
        (["NOTHING"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM", "no.json"], Exit.USAGE, "no.json"),
        (["STREAM", "no.json", "--message", "1"], Exit.USAGE, "--message and files exclude each other"),
        (["STREAM", "--message", "bye"], Exit.BAD_INPUT, "--message 'bye' is not JSON"),
    ],
    "read": [
        (["NOTHING"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM", "--format", "xml"], Exit.USAGE, "'xml' is not one of"),
        (["STREAM", "--format", "json", "--offsets"], Exit.USAGE, "--offsets is for --format lines"),
    ],
    "tail": [
        (["NOTHING"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM", "--last", "-1"], Exit.USAGE, "--last"),
        (["STREAM", "--offset", "yesterday"], Exit.BAD_INPUT, "An offset is -1, now, or"),
    ],
    "head": [(["NOTHING"], Exit.NOT_FOUND, "There is no such stream")],
    "close": [
        (["NOTHING"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM", "--message", "{no json"], Exit.BAD_INPUT, "JSON"),
    ],
    "delete": [
        (["NOTHING"], Exit.NOT_FOUND, "There is no such stream"),
        ([], Exit.USAGE, "Missing argument"),
        (["--prefix", "STREAM"], Exit.USAGE, "no terminal to ask on"),
        (["--yes", "--prefix", ""], Exit.USAGE, "--prefix is empty"),
        (["--yes", "--prefix", "/x/", "--glob", ""], Exit.USAGE, "--glob is empty"),
        (["--yes", "STREAM", "--prefix", "/x/"], Exit.USAGE, "excludes --prefix"),
    ],
    "set": [
        (["NOTHING", "--ttl", "60"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM", "--retain-bytes", "few"], Exit.USAGE, "--retain-bytes is a number from 1 on, or none"),
        (["STREAM", "--attribute", "team"], Exit.USAGE, "'team' is not an attribute"),
        (["STREAM", "--ttl", "1", "--expires-at", "x"], Exit.USAGE, "exclude each other"),
        (["STREAM", "--expires-at", "tomorrow"], Exit.BAD_INPUT, "xpires"),
    ],
    "trim": [
        (["NOTHING", "--before", "now"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM"], Exit.USAGE, "Missing option '--before'"),
        (["STREAM", "--before", "yesterday"], Exit.BAD_INPUT, "ffset"),
    ],
    "fork": [
        (["NOTHING", "/new"], Exit.NOT_FOUND, "There is no such stream"),
        (["STREAM", "/new", "--offset", "yesterday"], Exit.BAD_INPUT, "ffset"),
        (["STREAM", "/new", "--ttl", "1", "--expires-at", "x"], Exit.USAGE, "exclude each other"),
    ],
    "list": [
        (["--glob"], Exit.USAGE, "'--glob' requires an argument"),
        (["--output"], Exit.USAGE, "millstream list: Option '--output' requires an argument"),
        (["/a", "--prefix", "/b"], Exit.USAGE, "PREFIX and --prefix exclude each other"),
        (["--profile", "prod"], Exit.USAGE, "There is no profile 'prod'"),
        (["--profile", "prod", "--url", "http://h"], Exit.USAGE, "--url and --profile exclude each other"),
    ],
    "token": [(["everything"], Exit.USAGE, "A scope is read, write or admin")],
    "health": [
        (["--config", "no.toml"], Exit.USAGE, "no.toml cannot be read"),
        (["--pid", "0"], Exit.USAGE, "--pid"),
        (["--pid", "999999999"], Exit.FAILED, "process 999999999 cannot be read"),
    ],
    "check": [(["nowhere"], Exit.FAILED, "is not a data folder")],
    "backup": [(["nowhere", "--to", "copy"], Exit.FAILED, "is not a data folder")],
    "restore": [(["nowhere", "--to", "data"], Exit.FAILED, "does not exist")],
    "migrate": [
        (["nowhere", "copy"], Exit.FAILED, "nowhere is not a data folder"),
        (["nowhere"], Exit.USAGE, "Missing argument"),
    ],
    "bench": [(["--seconds", "0"], Exit.USAGE, "--seconds")],
    "completion": [(["tcsh"], Exit.USAGE, "tcsh")],
    "worker": [
        (["nobody", "--exec", "cat"], Exit.NOT_FOUND, "There is no such subscription"),
        (["nobody"], Exit.USAGE, "Missing option '--exec'"),
        (["nobody", "--exec", " "], Exit.USAGE, "--exec is empty"),
        (["nobody", "--exec", "cat", "--name", ""], Exit.USAGE, "--name is empty"),
    ],
    "subscribe": [
        (["frobnicate"], Exit.USAGE, "No such command 'frobnicate'"),
        (["create", "s", "--pattern", "a/*"], Exit.USAGE, "Give --webhook or --wake, one of them"),
        (["create", "s", "--wake", "w"], Exit.USAGE, "Give --pattern or --stream"),
        (["create", "s", "--wake", "w", "--pattern", "/"], Exit.USAGE, "'/' is not a path on the server"),
        (["create", "s", "--wake", "w", "--pattern", "a", "--lease", "0.5"], Exit.USAGE, "--lease"),
        (
            ["create", "s", "--webhook", "https://10.0.0.1/", "--pattern", "a"],
            Exit.BAD_INPUT,
            "--webhook-allow",
        ),
        (["show", "nobody"], Exit.NOT_FOUND, "There is no such subscription"),
        (["add", "nobody", "a/b"], Exit.NOT_FOUND, "There is no such subscription"),
        (["add", "nobody"], Exit.USAGE, "Missing argument"),
        (["remove", "nobody", "http://h/a"], Exit.USAGE, "'http://h/a' is not a path on the server"),
        (["delete", "nobody"], Exit.NOT_FOUND, "There is no such subscription"),
        (["retry", "nobody"], Exit.NOT_FOUND, "There is no such subscription"),
    ],
    "capacity": [
        (["--streams", "0"], Exit.USAGE, "0 is not in the range x>=1"),
        (["--appends-per-s", "many"], Exit.USAGE, "'many' is not a valid float"),
    ],
    "keys": [(["frobnicate"], Exit.USAGE, "No such command 'frobnicate'")],
    "profile": [
        (["frobnicate"], Exit.USAGE, "No such command 'frobnicate'"),
        (["add", "prod"], Exit.USAGE, "Missing option '--url'"),
        (
            ["add", "prod", "--url", "prod.example.com"],
            Exit.USAGE,
            "'prod.example.com' is not a server's URL",
        ),
        (["add", "a b", "--url", "http://h"], Exit.USAGE, "'a b' is not a profile's name"),
        (["add", "prod", "--url", "http://h", "--token-file", "no.txt"], Exit.USAGE, "no.txt cannot be read"),
        (["add", "prod", "--url", "http://h", "--token-file", "-"], Exit.USAGE, "no token on standard input"),
        (["use", "prod"], Exit.USAGE, "There is no profile 'prod'"),
        (["use"], Exit.USAGE, "Give the name of a profile, or --none"),
        (["remove", "prod"], Exit.USAGE, "There is no profile 'prod'"),
    ],
    "conformance": [
        (["server", "localhost"], Exit.USAGE, "not an http(s) URL: 'localhost'"),
        (["server", "http://127.0.0.1:9", "--only", "closur"], Exit.USAGE, "closur"),
        (["client"], Exit.USAGE, "Missing argument 'command'"),
        (["client", "--", "./no-such-program"], Exit.USAGE, "the adapter cannot be started"),
        (["frobnicate"], Exit.USAGE, "No such command 'frobnicate'"),
    ],
    "pipeline": [(["frobnicate"], Exit.USAGE, "No such command 'frobnicate'")],
}


@pytest.fixture(scope="module")
def commands() -> list[str]:
    """What the help lists."""
    listed = Cli("")("--help").text.partition("Commands:\n")[2].splitlines()
    return [line.split()[0] for line in listed if line.startswith("  ") and line[2:3].isalpha()]


def test_each_command_tells_what_is_wrong_with_its_input_in_one_line(
    commands: list[str], cli: Cli, events: str, tmp_path: Path
) -> None:
    assert set(commands) - WRONG.keys() == set(), "give these something wrong, too"
    assert len(commands) >= 17
    names = {"STREAM": events, "NOTHING": f"{events}-none"}
    complaints = []
    for command in commands:
        for arguments, code, complaint in WRONG[command]:
            ended = cli(
                command,
                *(names.get(word, word) for word in arguments),
                cwd=tmp_path,
                XDG_CONFIG_HOME=str(tmp_path),
            )
            lines = ended.err.splitlines()
            if ended.code != code or ended.out or len(lines) != 1 or complaint not in lines[0]:
                complaints.append((command, arguments, ended))
    assert complaints == []
    assert list(tmp_path.iterdir()) == []
