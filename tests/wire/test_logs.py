"""Log lines: one for each event, whatever the event carries, and never a secret."""

import json
import logging
import sys

import httpx
import jwt
import pytest

from millstream.server.telemetry.logs import JsonFormatter, TextFormatter
from running import Server, millstream
from wire.raw_connection import Wire

TEXT = {"Content-Type": "text/plain"}
SECRET = "a secret that is certainly long enough"
HOSTILE = "/a%0A2026-01-01T00:00:00.000Z%20error%20forged%0D%1B%5B31m%E2%80%A8%C2%85%E2%80%AEx%22q"


def lines(server: Server) -> list[str]:
    """What was logged: all but the banner."""
    return [
        line for line in server.output().split("\n") if line and not line.startswith(("millstream", "  "))
    ]


def events(server: Server) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines(server)]


def test_each_event_is_one_json_object() -> None:
    with millstream("--log-format", "json", "--access-log") as server:
        httpx.put(f"{server.url}/chat/1", headers=TEXT)
        httpx.get(f"{server.url}/chat/1?offset=-1")
        httpx.get(f"{server.url}/nowhere")
        server.stop()
        listening, created, read, missing, *ending = events(server)
    assert listening["event"] == "listening"
    assert listening["url"] == server.url
    assert [one["event"] for one in ending] == ["stopping", "stopped"]
    assert (created["method"], created["path"], created["status"]) == ("PUT", "/chat/1", 201)
    assert (read["method"], read["offset"], read["status"], read["client"]) == ("GET", "-1", 200, "127.0.0.1")
    assert missing["status"] == 404
    assert all({"time", "level", "event"} <= one.keys() for one in [listening, created, missing])
    assert isinstance(read["ms"], float)


def test_a_live_read_is_logged_when_it_is_over() -> None:
    with millstream("--log-format", "json", "--access-log") as server:
        httpx.put(f"{server.url}/s", headers=TEXT)
        with Wire(server.url) as watching:
            watching.request("GET", "/s?offset=-1&live=sse")
            assert watching.head()[0] == 200
            httpx.post(f"{server.url}/s", headers={"Stream-Closed": "true"})
            list(watching.events())
        with Wire(server.url) as leaving:
            httpx.put(f"{server.url}/open", headers=TEXT)
            leaving.request("GET", "/open?offset=-1&live=long-poll")
            httpx.head(f"{server.url}/open")
        server.stop()
        logged = [
            (one["method"], one.get("live"), one["status"]) for one in events(server) if "method" in one
        ]
    assert ("GET", "sse", 200) in logged
    assert ("GET", "long-poll", 499) in logged or ("GET", "long-poll", 204) in logged
    assert len(logged) == 6


def test_without_an_access_log_requests_are_not_logged() -> None:
    with millstream() as server:
        httpx.put(f"{server.url}/s", headers=TEXT)
        server.stop()
        assert not [line for line in lines(server) if "/s" in line.removesuffix(server.url)]


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_name_cannot_forge_a_line_or_speak_to_a_terminal(style: str) -> None:
    with millstream("--log-format", style, "--access-log") as server:
        with Wire(server.url) as wire:
            assert wire.ask("GET", HOSTILE).status in (400, 404)
        with Wire(server.url) as wire:
            wire.send(b"GE\x1b[31mT / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert wire.answer().status == 400
        server.stop()
        logged = lines(server)
        output = server.output()
    assert sum("forged" in line for line in logged) == 1
    assert not any(line.startswith("2026-01-01") for line in output.splitlines())
    for unsafe in "\x1b\r\u2028\x85\u202e":
        assert unsafe not in output
    assert sum("refused" in line for line in logged) == 1


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_token_is_logged(style: str) -> None:
    token = jwt.encode({"scope": "admin"}, SECRET, algorithm="HS256")
    options = ("--log-format", style, "--log-level", "debug", "--access-log", "--auth-secret", SECRET)
    with millstream(*options) as server:
        carried = {"Authorization": f"Bearer {token}", "X-JID": token, "X-Signed": token, **TEXT}
        assert httpx.put(f"{server.url}/s", headers=carried).status_code == 201
        httpx.get(f"{server.url}/s?offset=-1&signed={token}&jid={token}&token={token}", headers=carried)
        httpx.get(f"{server.url}/s?signed={token}")
        httpx.get(f"{server.url}/s", headers={"Authorization": "Bearer wrong.token.here"})
        server.stop()
        output = server.output()
    assert output.count("/s") >= 4
    for secret in (token, token.split(".")[1], SECRET, "wrong.token"):
        assert secret not in output


def test_the_level_is_the_least_that_is_logged() -> None:
    with millstream("--log-level", "warning", "--access-log") as server:
        httpx.put(f"{server.url}/s", headers=TEXT)
        server.stop()
        assert lines(server) == []


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_stays_on_its_line(formatter: logging.Formatter) -> None:
    try:
        int("first\nsecond \x1b[2J\x7f")
    except ValueError:
        record = logging.LogRecord("m", logging.ERROR, "f", 1, "it %s", ("broke\n",), sys.exc_info())
    line = formatter.format(record)
    assert "Traceback" in line
    assert "ValueError" in line
    assert not any(unsafe in line for unsafe in "\n\r\x1b\x7f")
