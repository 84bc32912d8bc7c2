"""Servers that differ from ours where PROTOCOL.md leaves a choice: they fail stricter checks only.

Each is our server behind a proxy that makes another choice. What a variant does was seen in a public
server. The variants keep verdicts fair: a check that starts to demand one of these choices fails here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from conformance.proxy import Ask, MutatingProxy, Mutation, Reply, Send
from millstream_conformance.server import Result, discover, run_checks
from running import HASTY_MS, millstream

TRIES = 3  # the checks measure time, and other tests keep this machine busy
VARIANTS: dict[str, tuple[tuple[str, ...], Mutation]] = {}


def allowed(*rules: str) -> Callable[[Mutation], Mutation]:
    """Register a variant, with the rules whose checks see the difference."""

    def register(variant: Callable[[Ask, Send], Reply]) -> Mutation:
        VARIANTS[variant.__name__.replace("_", "-")] = (rules, variant)
        return variant

    return register


@allowed("C3", "F1")
def empty_headers_are_absent(ask: Ask, send: Send) -> Reply:
    """An empty lifetime or fork offset counts as none."""
    ask.fields = [
        (name, value)
        for name, value in ask.fields
        if value or name.lower() not in {"stream-ttl", "stream-expires-at", "stream-fork-offset"}
    ]
    return send(ask)


@allowed("L1")
def unknown_live_modes_are_catch_up_reads(ask: Ask, send: Send) -> Reply:
    """Sections 5.7 and 5.8 define two modes and do not say what another value is."""
    is_known = ask.param("live") in {"", "long-poll", "sse"}
    return send(ask if is_known else ask.with_param("live", None))


@allowed("G3")
def any_tag_matches_none(ask: Ask, send: Send) -> Reply:
    """`If-None-Match: *` is ignored."""
    return send(ask.drop("If-None-Match") if ask.get("If-None-Match") == "*" else ask)


@allowed("G3", "G5")
def etags_name_the_end_only(ask: Ask, send: Send) -> Reply:
    """Reads of one stream from two offsets are two URLs, so they may share an ETag.

    Also one that a stream had before it was made anew, but not with the extension `patch`, which forbids it.
    """
    tag, ask = ask.get("If-None-Match"), ask.copy().drop("If-None-Match")
    reply = send(ask)
    if reply.has("Millstream-Extensions"):
        reply.set("Millstream-Extensions", reply.get("Millstream-Extensions").replace(", patch", ""))
    if reply.has("ETag"):
        named = [reply.get(name) for name in ("Stream-Next-Offset", "Stream-Closed", "Content-Encoding")]
        reply.set("ETag", f'"{"-".join(named)}"')
        if reply.get("ETag").strip('"') in tag.replace("W/", ""):
            reply.status, reply.body = 304, b""
    return reply


@allowed("A3")
def json_may_nest_128_levels(ask: Ask, send: Send) -> Reply:
    """RFC 8259 lets a parser limit the depth."""
    if ask.method == "POST" and ask.get("Content-Type") == "application/json" and b'{"a":' * 129 in ask.body:
        return Reply(400, [])
    return send(ask)


@allowed("R1")
def numbers_may_have_a_plus_sign(ask: Ask, send: Send) -> Reply:
    """`+0` is an integer: only Stream-TTL excludes the sign."""
    for name in ("Producer-Epoch", "Producer-Seq"):
        if re.fullmatch(r"\+\d+", ask.get(name)):
            ask.set(name, ask.get(name)[1:])
    return send(ask)


@allowed("G8", "F1")
def head_shows_both_lifetimes(ask: Ask, send: Send) -> Reply:
    """Section 5.5 has both headers as optional: one is computed from the other."""
    reply = send(ask)
    if ask.method == "HEAD" and reply.has("Stream-TTL"):
        reply.set("Stream-Expires-At", "2098-07-06T05:04:03Z")
    elif ask.method == "HEAD" and reply.has("Stream-Expires-At"):
        reply.set("Stream-TTL", "2276160327")
    return reply


@allowed("C3", "C4", "F4")
def what_cannot_be_created_is_500(ask: Ask, send: Send) -> Reply:
    """Section 5.1 gives no status for a body that is not JSON, nor for an expiry in the past."""
    reply = send(ask)
    is_past = ask.get("Stream-Expires-At").startswith("2001-")
    if ask.method == "PUT" and (is_past or (reply.status == 400 and ask.body)):
        return Reply(500, [])
    return reply


@allowed("C3")
def ttls_have_a_maximum(ask: Ask, send: Send) -> Reply:
    """Section 5.1 names no largest TTL, and forbids none."""
    return Reply(400, []) if len(ask.get("Stream-TTL")) > 10 else send(ask)


@allowed("F1")
def a_plain_put_matches_a_fork(ask: Ask, send: Send) -> Reply:
    """Section 5.1 compares content type, lifetime and closure only."""
    reply = send(ask)
    if ask.method == "PUT" and reply.status == 409 and not ask.has("Stream-Forked-From"):
        reply.status = 200 if send(Ask("HEAD", ask.path, [])).status == 200 else 409
    return reply


@allowed("F1")
def sub_offsets_may_pass_appends(ask: Ask, send: Send) -> Reply:
    """A server that keeps bytes only has no boundary before the tail."""
    reply = send(ask)
    if reply.status == 400 and ask.get("Stream-Fork-Sub-Offset") == "3" and ask.has("Stream-Fork-Offset"):
        return send(ask.copy().drop("Stream-Fork-Offset", "Stream-Fork-Sub-Offset"))
    return reply


@allowed("L4")
def lines_are_prefixed_with_data_and_a_colon(ask: Ask, send: Send) -> Reply:
    """Section 5.8 says `data:`; a space that begins a line is then lost in reading."""
    return send(ask).map_events(lambda block: re.sub(r"(?m)^data:  ", "data: ", block))


@allowed("L4", "L7")
def text_is_decoded_append_by_append(ask: Ask, send: Send) -> Reply:
    """An append that ends inside a character, and a CR LF, are not mentioned in section 5.8."""
    if ask.method in {"PUT", "POST"} and ask.get("Content-Type") == "text/plain":
        text = ask.body.decode("utf-8", "replace")
        ask.body = re.sub("\r\n?", lambda found: "\n" * len(found[0]), text).encode()
    return send(ask)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with millstream(long_poll_ms=HASTY_MS) as server:
        yield server.url


def failures(url: str, variant: Mutation, rules: tuple[str, ...]) -> list[Result]:
    with MutatingProxy(url, variant) as proxy:
        run = run_checks(proxy.url, discover(rules=rules), tries=TRIES)
        if proxy.errors:
            raise proxy.errors[0]
    return run.failures


@pytest.mark.parametrize("name", VARIANTS)
def test_an_allowed_server_fails_stricter_checks_only(name: str, url: str) -> None:
    rules, variant = VARIANTS[name]
    failed = failures(url, variant, rules)
    required = [
        f"{result.check.id}: {result.message}" for result in failed if not result.check.notes.stricter
    ]
    assert not required, "\n".join(required)
    assert failed, "no check sees the difference: the variant proves nothing"


def test_a_server_without_sub_offsets_is_told_so(url: str) -> None:
    """Sub-offsets are a part of their own: without them, the other checks of forks still run."""

    def ignoring(ask: Ask, send: Send) -> Reply:
        return send(ask.drop("Stream-Fork-Sub-Offset"))

    with MutatingProxy(url, ignoring) as proxy:
        run = run_checks(proxy.url, discover(rules=["F1"]), tries=TRIES)
    assert not run.failures, [result.check.id for result in run.failures]
    outcomes = {result.check.id: result.outcome for result in run.results}
    assert outcomes["fork_points/a_sub_offset_counts_bytes[first]"] == "skipped"
    assert outcomes["forks/a_fork_begins_with_its_source"] == "passed"


def test_one_fault_of_forks_is_no_failure_of_all_forks(url: str) -> None:
    """A server that wants the content type of every fork fails the checks of that, and no other."""

    def demanding(ask: Ask, send: Send) -> Reply:
        lacks_type = ask.has("Stream-Forked-From") and not ask.has("Content-Type")
        is_there = lacks_type and send(Ask("HEAD", ask.get("Stream-Forked-From"), [])).status == 200
        return Reply(409, []) if is_there else send(ask)

    failed = failures(url, demanding, ("F1", "F2", "F3"))
    assert {result.check.id for result in failed} == {
        "forks/a_fork_has_its_sources_content_type",
        "forks/creating_the_same_fork_again_without_a_type_is_200",
    }
