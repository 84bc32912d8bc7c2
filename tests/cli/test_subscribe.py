"""`millstream subscribe`, `millstream worker` and `millstream keys`: as a user runs them."""

import json
import signal
import time
from pathlib import Path

import pytest

from cli.commands import Cli
from cli.test_completion import completed
from millstream import DurableStream
from millstream.subscriptions import Subscriptions

WAIT_S = 60


@pytest.fixture
def folder(name: str) -> str:
    """A folder of streams, as subscriptions name it."""
    return name.lstrip("/")


@pytest.fixture
def id(folder: str) -> str:
    return folder.replace("/", "-")


@pytest.fixture
def subscribed(cli: Cli, folder: str, id: str) -> str:
    """A pull-wake subscription to a folder."""
    made = cli("subscribe", "create", id, "--wake", f"/{folder}/wake", "--pattern", f"/{folder}/in/**")
    assert made.code == 0, made.err
    return id


def append(cli: Cli, path: str, *messages: object) -> DurableStream:
    stream = DurableStream.create(f"{cli.url}/{path}", content_type="application/json")
    stream.append_all(messages)
    return stream


def test_a_subscription_is_created_shown_listed_and_deleted(cli: Cli, folder: str, id: str) -> None:
    options = [
        "--wake",
        f"{folder}/wake",
        "--pattern",
        f"{folder}/in/*",
        "--lease",
        "5",
        "--description",
        "mine",
    ]
    for _ in range(2):
        (made,) = cli("subscribe", "create", id, *options).records
        assert (made["id"], made["type"], made["lease_ttl_ms"]) == (id, "pull-wake", 5000)
    (shown,) = cli("subscribe", "show", id).records
    assert (shown["description"], shown["pattern"]) == ("mine", f"{folder}/in/*")
    listed = [one for one in cli("subscribe", "list").records if one["id"] == id]
    assert [one["status"] for one in listed] == ["active"]
    text = cli("subscribe", "show", id, "--output", "text").text
    assert f"{folder}/wake" in text
    assert "lag           none" in text
    assert id in cli.terminal("subscribe", "list").text
    (deleted,) = cli("subscribe", "delete", id).records
    assert deleted == {"subscription": id, "deleted": True}
    assert cli("subscribe", "show", id).code == 4


def test_another_configuration_is_a_conflict(cli: Cli, subscribed: str, folder: str) -> None:
    again = cli("subscribe", "create", subscribed, "--wake", f"{folder}/wake", "--pattern", "other/**")
    assert again.code == 5
    assert "The id is taken by another subscription" in again.err
    assert len(again.err.splitlines()) == 1


def test_streams_are_added_and_removed(cli: Cli, subscribed: str, folder: str) -> None:
    path = f"{folder}/elsewhere"
    append(cli, path)
    assert cli("subscribe", "add", subscribed, f"/{path}").records == [
        {"subscription": subscribed, "added": [path]}
    ]
    (shown,) = cli("subscribe", "show", subscribed).records
    assert [link["path"] for link in shown["streams"]] == [path]  # type: ignore[attr-defined]
    assert cli("subscribe", "remove", subscribed, path).code == 0
    (shown,) = cli("subscribe", "show", subscribed).records
    assert shown["streams"] == []


def test_a_webhook_that_fails_is_shown_with_its_error_and_tried_on_demand(
    cli: Cli, folder: str, id: str
) -> None:
    hook = "http://127.0.0.1:1/hook"
    assert cli("subscribe", "create", id, "--webhook", hook, "--pattern", f"{folder}/in/**").code == 0
    append(cli, f"{folder}/in/a", 1)
    deadline = time.monotonic() + WAIT_S
    while (found := Subscriptions(cli.url).read(id)).status != "failed" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found.status == "failed"
    text = cli("subscribe", "list", "--output", "text").text
    (row,) = [line for line in text.splitlines() if id in line]
    assert row.startswith("failed")
    assert "cannot be reached" in row
    assert "1 stream" in row
    assert cli("subscribe", "retry", id).records == [{"subscription": id, "retried": True}]
    assert cli("subscribe", "delete", id, "--yes").code == 0


def test_ids_are_completed(cli: Cli, subscribed: str) -> None:
    assert completed(cli, f"millstream subscribe show {subscribed[:-4]}") == [subscribed]
    assert completed(cli, f"millstream worker {subscribed[:-4]}") == [subscribed]


def test_keys_are_rotated(cli: Cli) -> None:
    (first,) = cli("keys", "rotate").records
    (second,) = cli("keys", "rotate").records
    assert str(first["kid"]).startswith("ds_")
    assert first["kid"] != second["kid"]
    assert first["kid"] in second["retired"]  # type: ignore[operator]


# -- Workers -------------------------------------------------------------------------------------


def test_a_command_gets_messages_as_lines_and_acknowledges_by_its_exit_code(
    cli: Cli, subscribed: str, folder: str
) -> None:
    append(cli, f"{folder}/in/a", {"n": 1}, {"n": 2, "text": "two\nlines"})
    command = 'echo "$MILLSTREAM_STREAM $MILLSTREAM_SUBSCRIPTION"; cat'
    ended = cli("worker", subscribed, "--once", "--exec", command)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.text.splitlines()
    assert lines[0] == f"{folder}/in/a {subscribed}"
    assert [json.loads(line) for line in lines[1:]] == [{"n": 1}, {"n": 2, "text": "two\nlines"}]
    assert cli("worker", subscribed, "--once", "--exec", "cat").out == b""


def test_bytes_come_as_they_are(cli: Cli, subscribed: str, folder: str) -> None:
    stream = DurableStream.create(f"{cli.url}/{folder}/in/raw", content_type="application/octet-stream")
    stream.append(b"\xff\x00no line end")
    assert cli("worker", subscribed, "--once", "--exec", "cat").out == b"\xff\x00no line end"


@pytest.mark.parametrize(
    ("command", "how"), [("exit 3", "exited with 3"), ("kill -9 $$", "ended by signal 9")]
)
def test_a_command_that_fails_leaves_its_messages_pending(
    cli: Cli, subscribed: str, folder: str, command: str, how: str
) -> None:
    append(cli, f"{folder}/in/a", "again")
    failed = cli("worker", subscribed, "--once", "--exec", command)
    assert failed.code == 1
    assert how in failed.err
    assert len(failed.err.splitlines()) == 1
    assert cli("worker", subscribed, "--once", "--exec", "cat").text == '"again"\n'


def test_a_command_that_does_not_read_its_input_is_no_problem(cli: Cli, subscribed: str, folder: str) -> None:
    append(cli, f"{folder}/in/a", *["x" * 1000] * 1000)
    assert cli("worker", subscribed, "--once", "--exec", "true").code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_stop_lets_its_command_finish(
    cli: Cli, subscribed: str, folder: str, tmp_path: Path, number: signal.Signals
) -> None:
    began, ends, done = (tmp_path / name for name in ("began", "ends", "done"))
    command = f"touch {began}; while ! test -e {ends}; do sleep 0.05; done; cat > {done}"
    with cli.started("worker", subscribed, "--exec", command) as process:
        append(cli, f"{folder}/in/a", "kept")
        wait_for(began)
        process.send_signal(number)
        ends.touch()
        assert process.wait(WAIT_S) == 0
    assert done.read_text() == '"kept"\n'
    assert cli("worker", subscribed, "--once", "--exec", "cat").out == b"", "it was acknowledged"


def test_an_idle_worker_stops_at_once(cli: Cli, subscribed: str, folder: str, tmp_path: Path) -> None:
    with cli.started("worker", subscribed, "--exec", f"cat >> {tmp_path / 'out'}") as process:
        for number in range(3):
            append(cli, f"{folder}/in/a", number)
            deadline = time.monotonic() + WAIT_S
            while time.monotonic() < deadline:
                if (tmp_path / "out").exists() and f"{number}\n" in (tmp_path / "out").read_text():
                    break
                time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    assert (tmp_path / "out").read_text() == "0\n1\n2\n"


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} is not there"
        time.sleep(0.02)
