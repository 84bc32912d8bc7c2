"""Listing: a tree for people, lines of JSON for programs, pages for both."""

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator

import pytest

import millstream
import millstream.aio
from cli.commands import Cli
from running import Server
from running import millstream as serving

MANY = 2_300
TRIES = 20  # a busy machine may hold up the writer for as long as is measured


@pytest.fixture(scope="module")
def many() -> Iterator[Server]:
    async def fill(url: str) -> None:
        for start in range(0, MANY, 100):
            await asyncio.gather(
                *(
                    millstream.aio.DurableStream.create(f"{url}/many/{n % 10}/{n:05}")
                    for n in range(start, min(start + 100, MANY))
                )
            )

    with serving() as server:
        asyncio.run(fill(server.url))
        url = server.url + "/chat/1"
        millstream.DurableStream.create(url, content_type="application/json", body=[1, 2, 3]).close()
        millstream.DurableStream.create(server.url + "/chat")
        yield server


def test_every_stream_is_listed_across_pages(many: Server) -> None:
    ended = Cli(many.url)("list")
    paths = [str(record["path"]) for record in ended.records]
    assert len(paths) == MANY + 2
    assert paths == sorted(set(paths))
    [chat] = [record for record in ended.records if record["path"] == "/chat/1"]
    assert (chat["contentType"], chat["bytes"], chat["closed"]) == ("application/json", 6, True)


def test_json_has_all_that_the_server_says(cli: Cli, text: str) -> None:
    """Rule X2."""
    assert cli("append", text, "--message", "inherited").code == 0
    fork = f"{text}-fork"
    assert cli("fork", text, fork).code == 0
    assert cli("append", fork, "--message", "own").code == 0
    with urllib.request.urlopen(f"{cli.url}/__ds/streams?prefix={text}") as answer:
        said = json.load(answer)["streams"]
    listed = cli("list", text, "--output", "json").records
    assert listed == said
    source, forked = listed
    assert (source["inheritedBytes"], forked["inheritedBytes"]) == (0, source["bytes"])
    assert forked["lastWriteMs"] >= forked["createdMs"] >= source["lastWriteMs"]


def test_a_prefix_and_a_glob_choose(many: Server) -> None:
    cli = Cli(many.url)
    assert [one["path"] for one in cli("list", "--prefix", "chat").records] == ["/chat", "/chat/1"]
    assert [one["path"] for one in cli("list", "--glob", "/*/1").records] == ["/chat/1"]
    assert len(cli("list", "--glob", "many/3/*").records) == MANY // 10
    assert cli("list", "--prefix", "/nothing").out == b""


def test_a_terminal_shows_a_tree(many: Server) -> None:
    shown = Cli(many.url).terminal("list", "--prefix", "/chat", NO_COLOR="1").text
    assert shown.splitlines() == [
        "     size  content type              stream",
        "      0 B  application/octet-stream  chat",
        "                                     chat/",
        "      6 B  application/json            1 closed",
        "2 streams, 6 B",
    ]


def test_a_terminal_shows_many(many: Server) -> None:
    lines = Cli(many.url).terminal("list", NO_COLOR="1").text.splitlines()
    assert lines[-1] == f"{MANY + 2:,} streams, 6 B"
    assert len(lines) == MANY + 2 + 1 + 1 + 12  # a header, a sum, and 12 folders


def test_rates_are_measured(cli: Cli, text: str) -> None:
    handle = millstream.DurableStream(cli.url + text, content_type="text/plain")
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.02):
            handle.append("x" * 1000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(TRIES):
            [record] = cli("list", "--prefix", text, "--rates", "--interval", "0.5").records
            rate = record["bytesPerSecond"]
            if rate:
                break
        for _ in range(TRIES):
            shown = cli.terminal("list", "--prefix", text, "--rates", "--interval", "0.5", NO_COLOR="1").text
            if "kB/s" in shown:
                break
    finally:
        stop.set()
        writer.join()
    assert isinstance(rate, float)
    assert 300 < rate < 100_000
    assert "growth" in shown
    assert "kB/s" in shown
    assert "measuring for 0.5 s ..." in shown


def test_a_server_that_lists_nothing_is_told_in_one_line(cli: Cli) -> None:
    ended = cli("list", "--url", f"{cli.url}/somewhere/else")
    assert ended.code == 8
    [line] = ended.err.splitlines()
    assert "This server cannot list streams" in line
