"""Creating, describing, closing, forking and deleting streams."""

import time

import pytest

from cli.commands import Cli
from running import millstream

START = "0000000000000000_0000000000000000"


def test_a_stream_is_created_once_and_found_the_second_time(cli: Cli, name: str) -> None:
    for is_new in (True, False):
        ended = cli("create", name, "--json")
        assert (ended.code, ended.err) == (0, "")
        fields = {"contentType": "application/json", "offset": START, "url": cli.url + name}
        assert ended.records == [{"stream": name, "created": is_new, **fields}]


def test_create_says_whether_the_stream_is_new(cli: Cli, name: str) -> None:
    assert cli.terminal("create", name, "--json").text.startswith(f"{name} is created: application/json")
    assert cli.terminal("create", name, "--json").text.startswith(f"{name} was there already: ")


def test_a_stream_holds_bytes_unless_told_otherwise(cli: Cli, name: str) -> None:
    assert cli("create", name).records[0]["contentType"] == "application/octet-stream"


def test_head_tells_what_is_known(cli: Cli, name: str) -> None:
    cli("create", name, "--content-type", "text/plain", "--ttl", "300")
    [found] = cli("head", name).records
    assert found == {
        "stream": name,
        "contentType": "text/plain",
        "offset": START,
        "closed": False,
        "ttlSeconds": 300,
        "expiresAt": None,
        "retainBytes": None,
        "retainSeconds": None,
        "earliestOffset": None,
        "firstTime": None,
        "lastTime": None,
        "attributes": {},
        "incarnation": found["incarnation"],
    }
    shown = cli.terminal("head", name, NO_COLOR="1").text
    assert "text/plain" in shown
    assert "300 s" in shown
    assert "open" in shown
    assert "keeps" not in shown


def test_a_stream_that_keeps_its_newest_tells_where_it_begins(cli: Cli, name: str) -> None:
    """Rules X4, O4."""
    limits = ["--retain-bytes", "10", "--retain-seconds", "600"]
    assert cli("create", name, "--content-type", "text/plain", *limits).code == 0
    assert cli("create", name, "--content-type", "text/plain", *limits).code == 0
    assert cli("create", name, "--content-type", "text/plain").code == 5
    for line in (b"gone, it is too old\n", b"this is the newest\n"):
        assert cli("append", name, stdin=line).code == 0
    begins = f"{0:016}_{20:016}"
    deadline_s = time.monotonic() + 60
    while (found := cli("head", name).records[0])["earliestOffset"] != begins:
        assert time.monotonic() < deadline_s, found
    assert (found["retainBytes"], found["retainSeconds"]) == (10, 600)
    shown = cli.terminal("head", name, NO_COLOR="1").text
    assert "the newest 10 bytes, the last 600 s" in shown
    assert begins in shown
    assert cli("read", name, "--no-follow").out == b"this is the newest\n"
    ended = cli("read", name, "--no-follow", "--offset", START)
    assert ended.code == 4
    [line] = ended.err.splitlines()
    assert begins in line


def test_names_are_taken_as_they_are_spelled(cli: Cli, name: str) -> None:
    spelled = f"{name}/a b?c#ü%20"
    assert cli("create", spelled, "--json").records[0]["stream"] == spelled
    assert cli("head", cli.url + f"{name}/a%20b%3Fc%23%C3%BC%2520").code == 0
    assert cli("head", spelled.lstrip("/")).code == 0


def test_a_url_wins_over_the_server_option(cli: Cli, events: str) -> None:
    assert cli("head", cli.url + events, "--url", "http://127.0.0.1:9").code == 0


def test_streams_below_a_path_are_named_without_it() -> None:
    with millstream("--path", "/v1/stream") as server:
        below = Cli(server.url + "/v1/stream/")
        assert below("create", "/a/b", "--json").code == 0
        assert [one["path"] for one in below("list").records] == ["/a/b"]
        assert below("head", "/a/b").code == 0
        assert below("fork", "/a/b", "/a/c").code == 0
        assert Cli(server.url)("head", "/v1/stream/a/c").code == 0


def test_close_ends_a_stream_with_a_last_message(cli: Cli, events: str) -> None:
    [closed] = cli("close", events, "--message", '{"bye": 1}').records
    assert closed == {"stream": events, "closed": True, "offset": START[:-2] + "11"}
    assert cli("read", events).out == b'{"bye": 1}\n'
    assert cli("close", events).code == 0
    assert cli("close", events, "-m", "1").code == 5


def test_a_last_message_that_is_not_json_is_refused(cli: Cli, events: str) -> None:
    ended = cli("close", events, "--message", "bye")
    assert ended.code == 7
    assert ended.err.startswith("millstream close: The last message is not JSON.")
    assert cli("head", events).records[0]["closed"] is False


def test_a_fork_begins_with_its_source(cli: Cli, events: str) -> None:
    offset = cli("append", events, stdin=b"1\n2\n").records[0]["offset"]
    cli("append", events, stdin=b"3\n")
    [whole] = cli("fork", events, f"{events}-whole").records
    assert whole["forkedFrom"] == events
    assert cli("fork", events, f"{events}-part", "--offset", str(offset)).code == 0
    assert cli("read", f"{events}-whole", "--no-follow").out == b"1\n2\n3\n"
    assert cli("read", f"{events}-part", "--no-follow").out == b"1\n2\n"


def test_deleting_asks_on_a_terminal(cli: Cli, events: str) -> None:
    kept = cli.terminal("delete", events, typed=b"n\n")
    assert kept.code == 1
    assert f"Delete {events} for good?" in kept.text
    assert "was kept" in kept.text
    gone = cli.terminal("delete", events, typed=b"y\n")
    assert gone.code == 0
    assert gone.text.endswith(f"{events} is deleted\n")
    assert cli("head", events).code == 4


def test_deleting_a_prefix_asks_how_many_on_a_terminal(cli: Cli, events: str) -> None:
    for number in range(3):
        cli("create", f"{events}/{number}")
    kept = cli.terminal("delete", "--prefix", f"{events}/", typed=b"n\n")
    assert kept.code == 1
    assert f"Delete 3 streams whose paths begin with {events}/ for good?" in kept.text
    assert "Nothing was deleted" in kept.text
    gone = cli.terminal("delete", "--prefix", f"{events}/", "--glob", f"{events}/[!x]*", typed=b"")
    assert gone.text.endswith("0 streams are deleted\n"), "nothing matches, so there is nothing to ask"
    gone = cli.terminal("delete", "--prefix", f"{events}/", typed=b"y\n")
    assert gone.code == 0
    assert gone.text.endswith("3 streams are deleted\n")
    assert cli("head", events).code == 0
    assert cli("head", f"{events}/1").code == 4


def test_a_prefix_is_deleted_from_a_script_that_says_yes(cli: Cli, events: str) -> None:
    for number in range(3):
        cli("create", f"{events}/{number}")
    refused = cli("delete", "--prefix", f"{events}/")
    assert refused.code == 2
    assert "--yes" in refused.err
    glob = f"{events}/[01]"
    assert cli("delete", "--yes", "--glob", f"{events}/1").records == [
        {"prefix": None, "glob": f"{events}/1", "deleted": 1}
    ]
    assert cli("delete", "--yes", "--glob", glob).records[0]["deleted"] == 0, "a glob has stars only"
    assert cli("delete", "-y", "--prefix", f"{events}/").records == [
        {"prefix": f"{events}/", "glob": None, "deleted": 2}
    ]


def test_several_streams_are_deleted_without_a_question_when_piped(cli: Cli, events: str) -> None:
    cli("create", f"{events}-2")
    ended = cli("delete", events, f"{events}-2")
    assert ended.records == [{"stream": events, "deleted": True}, {"stream": f"{events}-2", "deleted": True}]
    assert cli("delete", events).code == 4


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--json", "--content-type", "text/plain"], "--json and --content-type exclude each other"),
        (["--ttl", "5", "--expires-at", "2030-01-01T00:00:00Z"], "--ttl and --expires-at exclude each other"),
        (["--content-type", "ü"], "is not a content type"),
        (["--ttl", "soon"], "Invalid value for '--ttl'"),
        (["--retain-bytes", "0"], "Invalid value for '--retain-bytes'"),
        (["--retain-seconds", "1d"], "Invalid value for '--retain-seconds'"),
    ],
)
def test_wrong_ways_to_create(cli: Cli, name: str, arguments: list[str], complaint: str) -> None:
    ended = cli("create", name, *arguments)
    assert ended.code == 2
    [line] = ended.err.splitlines()
    assert line.startswith("millstream create: ")
    assert complaint in line
    assert cli("head", name).code == 4


def test_a_wrong_time_is_refused_by_the_server_in_one_line(cli: Cli, name: str) -> None:
    ended = cli("create", name, "--expires-at", "tomorrow")
    assert ended.code == 7
    assert len(ended.err.splitlines()) == 1


def test_a_stream_is_changed(cli: Cli, name: str) -> None:
    """Rule X10."""
    cli("create", name, "--json", "--attribute", "team=a", "-a", "tier=1")
    assert cli("head", name).records[0]["attributes"] == {"team": "a", "tier": "1"}
    limits = ["--ttl", "300", "--retain-bytes", "1000", "--retain-seconds", "60"]
    [found] = cli("set", name, *limits, "-a", "owner=x=y", "--remove-attribute", "tier").records
    assert (found["ttlSeconds"], found["retainBytes"], found["retainSeconds"]) == (300, 1000, 60)
    assert found["attributes"] == {"team": "a", "owner": "x=y"}
    [found] = cli("set", name, "--ttl", "none", "--expires-at", "2099-01-01T00:00:00Z").records
    assert (found["ttlSeconds"], found["expiresAt"]) == (None, "2099-01-01T00:00:00Z")
    [found] = cli("set", name, "--expires-at", "none", "--retain-bytes", "none").records
    assert (found["expiresAt"], found["retainBytes"], found["retainSeconds"]) == (None, None, 60)
    shown = cli.terminal("set", name, NO_COLOR="1").text
    assert "team=a, owner=x=y" in shown
    listed = cli("list", name, "--attribute", "team=a").records
    assert [one["path"] for one in listed] == [name]
    assert cli("list", name, "--attribute", "team=b").records == []


def test_a_change_that_makes_no_sense_is_refused_before_it_is_sent(cli: Cli, name: str) -> None:
    for wrong in (["--ttl", "x"], ["--retain-bytes", "0"], ["-a", "team"], ["-a", "=x"]):
        assert cli("set", name, *wrong).code == 2, wrong
    assert cli("set", name, "--ttl", "1", "--expires-at", "2099-01-01T00:00:00Z").code == 2
    assert cli("set", name, "--ttl", "1").code == 4


def test_a_stream_is_trimmed(cli: Cli, name: str) -> None:
    """Rule X10."""
    cli("create", name, "--content-type", "text/plain")
    cli("append", name, stdin=b"one\n")
    end = cli("head", name).records[0]["offset"]
    cli("append", name, stdin=b"two\n")
    [found] = cli("trim", name, "--before", end).records
    assert (found["stream"], found["earliestOffset"]) == (name, end)
    assert cli("read", name, "--no-follow").out == b"two\n"
    assert cli("trim", name, "--before", "now").code == 0
    assert cli("read", name, "--no-follow").out == b""
