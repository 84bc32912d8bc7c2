"""A token for one stream never reads another: by no method, no mode, no spelling, no way around."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import jwt
import pytest

from millstream.server.anycable.credentials import sign_name
from running import HASTY_MS, Server, millstream
from wire.raw_connection import Wire

SECRET = "a secret that is long enough for HMAC"
ANYCABLE = "another secret, which is long enough, too"
WORD = b"confidential"


def encode(claims: dict[str, object], secret: str) -> str:
    return jwt.encode(claims, secret, algorithm="HS256")


ADMIN = {"Authorization": f"Bearer {encode({'scope': 'admin'}, SECRET)}"}
FOR_A: dict[str, dict[str, str]] = {
    "a bearer": {"Authorization": f"Bearer {encode({'scope': 'read:/a write:/a'}, SECRET)}"},
    "a bearer for what is below": {"Authorization": f"Bearer {encode({'scope': 'read:/a/**'}, SECRET)}"},
    "a signed name": {
        "X_JID": encode({"ext": "{}"}, ANYCABLE),
        "X_Signed": sign_name(ANYCABLE.encode(), "a"),
    },
}
SECRETS = ["/b", "//a", "/a//", "/A", "/a\u0301", "/b/a", "/a*"]
"""Streams that the tokens are not for, some with names that look like those that they are for."""

TARGETS = [
    "",
    "?offset=-1",
    "?offset=now",
    "?offset=-1&live=long-poll",
    "?offset=-1&live=sse",
    "?offset=-1&limit=1",
]


def quoted(name: str) -> str:
    return "".join(c if c.isascii() else "".join(f"%{byte:02x}" for byte in c.encode()) for c in name)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    secrets = ("--auth-secret", SECRET, "--anycable-secret", ANYCABLE)
    with millstream(*secrets, "--anycable", long_poll_ms=HASTY_MS) as server, Wire(server.url) as wire:
        for name in ["/a", *SECRETS]:
            body = b'["%b"]' % (b"known" if name == "/a" else WORD)
            made = wire.ask("PUT", quoted(name), body, Content_Type="application/json", **ADMIN)
            assert made.status == 201, name
            assert wire.ask("GET", quoted(name), **ADMIN).status == 200  # so that the answer is at hand
        yield server


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("token", FOR_A)
@pytest.mark.parametrize("mount", ["", "/ds"])
def test_no_read_of_another_stream(server: Server, mount: str, token: str, name: str) -> None:
    if token == "a bearer for what is below" and name == "/a//":
        return  # that is below /a/
    with Wire(server.url) as wire:
        tag = wire.ask("GET", quoted(name), **ADMIN).headers["etag"]
        for target in TARGETS:
            for method in ("GET", "HEAD"):
                for extra in ({}, {"If-None-Match": tag}, {"If-None-Match": "*"}):
                    answer = wire.ask(method, mount + quoted(name) + target, **FOR_A[token], **extra)
                    assert answer.status in (401, 403), (method, target, extra)
                    assert WORD not in answer.body
                    assert "etag" not in answer.headers
                    assert "stream-next-offset" not in answer.headers
                    if mount:
                        assert answer.status == 401


@pytest.mark.parametrize("token", FOR_A)
def test_no_change_of_another_stream(server: Server, token: str) -> None:
    with Wire(server.url) as wire:
        before = wire.ask("HEAD", "/b", **ADMIN).headers
        for method, extra in [("POST", {}), ("POST", {"Stream-Closed": "true"}), ("PUT", {}), ("DELETE", {})]:
            body = b"[1]" if method != "DELETE" else None
            headers = {"Content_Type": "application/json"} | FOR_A[token] | extra
            assert wire.ask(method, "/b", body, **headers).status in (401, 403)
        after = wire.ask("HEAD", "/b", **ADMIN).headers
        assert before["stream-next-offset"] == after["stream-next-offset"]
        assert "stream-closed" not in after


def test_no_fork_of_another_stream(server: Server) -> None:
    """Not by any spelling of its name, and not of a stream that a fork of ours was made from."""
    mine = {"Authorization": f"Bearer {encode({'scope': 'read:/mine/** write:/mine/**'}, SECRET)}"}
    with Wire(server.url) as wire:
        for spelling in ("/b", "/%62", "//a", "/A"):
            answer = wire.ask("PUT", "/mine/1", **mine, Stream_Forked_From=spelling)
            assert answer.status in (400, 403, 404), spelling
            assert wire.ask("GET", "/mine/1", **mine).status == 404
        wire.ask("PUT", "/mine/lent", **ADMIN, Stream_Forked_From="/b")
        assert wire.ask("GET", "/b", **mine).status == 403
        assert wire.ask("PUT", "/mine/2", **mine, Stream_Forked_From="/b").status == 403


@pytest.mark.parametrize("scope", ["read:/a", "write:/b", "", "read:/a/**"])
def test_no_listing_of_another_stream(server: Server, scope: str) -> None:
    token = {"Authorization": f"Bearer {encode({'scope': scope}, SECRET)}"}
    with Wire(server.url) as wire:
        for query in ("", "?prefix=/b", "?glob=**", "?prefix=/&limit=1000"):
            answer = wire.ask("GET", f"/__ds/streams{query}", **token)
            assert b'"path":"/b"' not in answer.body
            assert b'"path":"//a"' not in answer.body
        assert b'"/b' not in wire.ask("GET", "/__ds/streams?limit=1", **token).body, "nor in the cursor"


@pytest.mark.parametrize("scope", ["", "write", "write:/b", "reading", "read:"])
def test_who_may_read_nothing_may_not_list(server: Server, scope: str) -> None:
    token = {"Authorization": f"Bearer {encode({'scope': scope}, SECRET)}"}
    with Wire(server.url) as wire:
        for query in ("", "?prefix=/b", "?limit=1", "?limit=nonsense", "?cursor=~x"):
            assert wire.ask("GET", f"/__ds/streams{query}", **token).status == 403


def pages(wire: Wire, limit: int, **token: str) -> Iterator[dict[str, Any]]:
    cursor, count = "", 0
    while cursor is not None:
        target = f"/__ds/streams?prefix=/long/&limit={limit}&cursor={quote(cursor, safe='')}"
        answer = wire.ask("GET", target, **token)
        assert answer.status == 200
        page = json.loads(answer.body)
        yield page
        cursor, count = page["cursor"], count + 1
        assert count < 1000, "the listing does not end"


def test_a_listing_across_a_long_unreadable_stretch_names_nothing_of_it() -> None:
    """Not in a cursor either, whatever the page's size; and nothing readable is left out or doubled."""
    mine = {"Authorization": f"Bearer {encode({'scope': 'read:/long/*/mine'}, SECRET)}"}
    with millstream("--auth-secret", SECRET) as server, Wire(server.url) as wire:
        expected = []
        for number in range(2500):
            name = f"/long/{number:04}/{'mine' if number in (0, 1, 1200, 2400) else 'hidden'}"
            assert wire.ask("PUT", name, **ADMIN).status == 201
            expected += [name] if name.endswith("mine") else []
        for limit in (1, 2, 100, 1000):
            found, cursors = [], []
            for page in pages(wire, limit, **mine):
                assert len(page["streams"]) <= limit
                found += [stream["path"] for stream in page["streams"]]
                cursors.append(page["cursor"] or "")
            assert found == expected
            assert not [cursor for cursor in cursors if "hidden" in cursor]
            sealed = {len(cursor) for cursor in cursors if cursor.startswith("~")}
            assert len(sealed) <= 1, "its length does not tell that of the name"
            assert len(cursors) < 12, "a page looks at more than it shows"
        everything = [stream["path"] for page in pages(wire, 999, **ADMIN) for stream in page["streams"]]
        assert len(everything) == 2500


def test_a_sealed_cursor_cannot_be_made_or_changed(server: Server) -> None:
    with Wire(server.url) as wire:
        for cursor in ("~", "~/b", "~" + "A" * 1408, "~" + "A" * 10_000, "~%ff", "~===", "~\u00e4"):
            answer = wire.ask("GET", f"/__ds/streams?cursor={quoted(cursor)}", **ADMIN)
            assert answer.status == 400, cursor


def test_a_fork_does_not_name_a_source_that_may_not_be_read(server: Server) -> None:
    lent = {"Authorization": f"Bearer {encode({'scope': 'read:/lent/**'}, SECRET)}"}
    with Wire(server.url) as wire:
        assert wire.ask("PUT", "/lent/fork", **ADMIN, Stream_Forked_From="/b").status == 201
        for token, source in [(lent, None), (ADMIN, "/b")]:
            [listed] = json.loads(wire.ask("GET", "/__ds/streams?prefix=/lent/", **token).body)["streams"]
            assert (listed["path"], listed["forkedFrom"]) == ("/lent/fork", source)


def test_no_answer_that_was_kept_for_another(server: Server) -> None:
    """Answers are kept in memory by URL: what a token got, nobody else gets, and the other way round."""
    with Wire(server.url) as wire:
        for _ in range(3):
            answer = wire.ask("GET", "/b", **ADMIN)
            assert (answer.status, answer.headers["cache-control"]) == (200, "private, no-store")
            assert wire.ask("GET", "/b").status == 401
            assert wire.ask("GET", "/b?!").status == 401


def test_what_a_caller_may_share_is_not_told_to_another() -> None:
    """G6: with credentials private, without them public, whatever was asked before, and how."""
    with millstream() as server, Wire(server.url) as wire:
        wire.ask("PUT", "/s", b"x")
        for target in ("/s", "/s?!", "/s?!x", "/s?offset=-1", "/s?!offset=-1"):
            for _ in range(2):
                assert wire.ask("GET", target).headers["cache-control"].startswith("public")
                private = wire.ask("GET", target, Authorization="Basic eDp5")
                assert private.headers["cache-control"].startswith("private")


PRIVATE_READS = [
    ("GET", ""),
    ("HEAD", ""),
    ("GET", "?offset=now"),
    ("GET", "?offset=-1&live=long-poll"),
    ("GET", "?offset=now&live=long-poll"),
]


@pytest.mark.parametrize("mount", ["", "/ds"])
@pytest.mark.parametrize("token", ["a bearer", "a signed name"])
def test_everything_that_needed_a_token_is_private(server: Server, token: str, mount: str) -> None:
    with Wire(server.url) as wire:
        for method, target in PRIVATE_READS:
            answer = wire.ask(method, f"{mount}/a{target}", **FOR_A[token])
            assert answer.status in (200, 204)
            assert answer.headers["cache-control"] == "private, no-store"
        wire.request("GET", f"{mount}/a?offset=-1&live=sse", **FOR_A[token])
        cache = wire.head()[1]["cache-control"].split(", ")
        assert {"private", "no-cache", "no-store"} <= set(cache)
