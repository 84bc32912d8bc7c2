"""Servers that are wrong about arrival times and about the last messages."""

from __future__ import annotations

import json

from conformance.mutants import Memory, mutant
from conformance.proxy import Ask, Reply, Send

FIRST, LAST, START = "Stream-First-Time", "Stream-Last-Time", "Stream-Start-Offset"
TIME, COUNT = ("time",), ("last",)


def is_from(ask: Ask, kind: str) -> bool:
    return ask.method == "GET" and ask.param("offset").startswith(kind)


@mutant("X7", needs=TIME)
def times_are_ignored(ask: Ask, send: Send) -> Reply:
    """A read from a time begins at the start."""
    return send(ask.with_param("offset", "-1") if is_from(ask, "time:2") else ask)


@mutant("X7", needs=TIME)
def times_ago_are_the_tail(ask: Ask, send: Send) -> Reply:
    """What arrived before the request is skipped."""
    return send(ask.with_param("offset", "now") if is_from(ask, "time:-") else ask)


@mutant("X7", needs=TIME)
def a_time_begins_after_its_append(ask: Ask, send: Send) -> Reply:
    """The append of that very time is skipped."""
    given = ask.param("offset")
    if is_from(ask, "time:2") and given.endswith("Z") and "." in given:
        return send(ask.with_param("offset", f"{given[:-1]}1Z"))
    return send(ask)


@mutant("X7", needs=TIME)
def resolved_offsets_are_not_told(ask: Ask, send: Send) -> Reply:
    """Nobody learns where a read began."""
    return send(ask).drop(START)


@mutant("X7", needs=TIME)
def times_lose_their_milliseconds(ask: Ask, send: Send) -> Reply:
    """Times are whole seconds."""
    reply = send(ask)
    for name in (FIRST, LAST):
        if reply.has(name):
            reply.set(name, f"{reply.get(name)[:19]}Z")
    return reply


@mutant("X7", needs=TIME)
def the_first_time_is_the_last(ask: Ask, send: Send) -> Reply:
    """All of a stream seems to have arrived at once."""
    reply = send(ask)
    return reply.set(FIRST, reply.get(LAST)) if reply.has(FIRST) else reply


@mutant("X7", needs=TIME)
def bad_times_are_the_tail(ask: Ask, send: Send) -> Reply:
    """What is no time is answered as if it were one."""
    reply = send(ask)
    return (
        send(ask.copy().with_param("offset", "now"))
        if is_from(ask, "time:") and reply.status == 400
        else reply
    )


@mutant("X7", "G6", needs=TIME)
def times_ago_are_cached(ask: Ask, send: Send) -> Reply:
    """A cache would give the same messages for ever."""
    reply = send(ask)
    return reply.set("Cache-Control", "public, max-age=60") if is_from(ask, "time:-") else reply


@mutant("X7", needs=(*TIME, "list"))
def listings_have_no_times(ask: Ask, send: Send) -> Reply:
    """They are always null."""
    reply = send(ask)
    if "/__ds/streams" in ask.path and reply.status == 200:
        page = json.loads(reply.body)
        page["streams"] = [{**one, "firstTime": None, "lastTime": None} for one in page["streams"]]
        reply.body = json.dumps(page).encode()
    return reply


@mutant("X8", needs=COUNT)
def the_last_are_one_too_many(ask: Ask, send: Send) -> Reply:
    """One message more than was asked for."""
    given = ask.param("offset")
    if is_from(ask, "last:") and given[5:].isdigit() and len(given) < 9:
        return send(ask.with_param("offset", f"last:{int(given[5:]) + 1}"))
    return send(ask)


@mutant("X8", needs=COUNT)
def the_last_are_everything(ask: Ask, send: Send) -> Reply:
    """The number is ignored."""
    return send(ask.with_param("offset", "-1") if is_from(ask, "last:") else ask)


@mutant("X8", needs=COUNT)
def the_last_are_remembered(ask: Ask, send: Send, memory: Memory) -> Reply:
    """The same answer is given after an append."""
    if not is_from(ask, "last:") or ask.param("live"):
        return send(ask)
    key = f"{ask.path}?{ask.query}"
    if key not in memory:
        memory[key] = send(ask)
    reply: Reply = memory[key]
    return reply


@mutant("X8", needs=COUNT)
def negative_numbers_are_none(ask: Ask, send: Send) -> Reply:
    """`last:-1` is answered like `last:0`."""
    return send(ask.with_param("offset", "last:0") if ask.param("offset") == "last:-1" else ask)
