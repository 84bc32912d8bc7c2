"""Text for people, JSON for programs, and --output for those who want the other."""

import json
from pathlib import Path

import pytest

from cli.commands import Cli
from running import durable_millstream

COMMANDS = {
    "create": ["create", "NAME-new", "--json"],
    "append": ["append", "NAME", "--message", "1"],
    "head": ["head", "NAME"],
    "fork": ["fork", "NAME", "NAME-fork"],
    "close": ["close", "NAME"],
    "list": ["list", "NAME"],
    "bench": ["bench", "--seconds", "0.1", "--connections", "1"],
    "delete": ["delete", "--yes", "NAME"],
    "delete many": ["delete", "--yes", "--prefix", "NAME-many/"],
    "token": ["token", "read", "--secret", "0123456789abcdef0123456789abcdef"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_result_is_json_or_text_as_asked(cli: Cli, events: str, command: str) -> None:
    words = [word.replace("NAME", events) for word in COMMANDS[command]]
    on_terminal = cli.terminal(*words, "--output", "json", NO_COLOR="1")
    assert on_terminal.code == 0, on_terminal.text
    lines = [
        line for line in on_terminal.out.splitlines() if not line.startswith(b"\x1b")
    ]  # progress is text
    assert all(json.loads(line) for line in lines if line), on_terminal.text
    if command in ("delete", "fork"):  # they cannot be done twice
        cli("delete", "--yes", f"{events}-fork")
        cli("create", events, "--json")
    piped = cli(*words, "-o", "text")
    assert piped.code == 0, piped.err
    assert not piped.out.startswith(b"{")
    assert b"\x1b" not in piped.out


def test_backup_restore_and_check_write_json_into_a_pipe(cli: Cli, tmp_path: Path) -> None:
    data, copy, restored = (str(tmp_path / name) for name in ("data", "copy.tar", "restored"))
    with durable_millstream("--data", data) as server:
        Cli(server.url)("create", "/s", "--json")
        [made] = cli("backup", data, "--to", copy).records
        assert made["backup"] == copy
        assert isinstance(made["files"], int)
    [back] = cli("restore", copy, "--to", restored).records
    assert back == {"folder": restored, "sound": True, "streams": 1, "lastRecord": made["lastRecord"]}
    [sound] = cli("check", restored).records
    assert (sound["folder"], sound["sound"], sound["streams"], sound["notes"]) == (restored, True, 1, [])
    assert cli("check", restored, "--output", "text").text.startswith(f"{restored} is sound: 1 streams")
    assert cli.terminal("check", restored).text.startswith(f"{restored} is sound")


def test_a_damaged_folder_is_told_in_json_and_by_the_code(cli: Cli, tmp_path: Path) -> None:
    with durable_millstream("--data", str(tmp_path)) as server:
        Cli(server.url)("create", "/s", "--json")
    (tmp_path / "catalog.db").write_bytes(b"not a catalog")
    ended = cli("check", str(tmp_path))
    assert ended.code == 1
    if ended.out:
        [report] = ended.records
        assert report["sound"] is False
        assert report["notes"]
    else:
        assert len(ended.err.splitlines()) == 1
