"""Servers that are wrong about changing what lives (rule X10)."""

from __future__ import annotations

import json

from conformance.mutants import mutant
from conformance.proxy import Ask, Reply, Send

PATCH = ("patch",)


def is_trim(ask: Ask) -> bool:
    return ask.method == "POST" and "trim=" in ask.query


@mutant("X10", needs=PATCH)
def a_patch_is_accepted_and_does_nothing(ask: Ask, send: Send) -> Reply:
    """204, and all stays as it was."""
    if ask.method == "PATCH":
        ask.drop("Stream-TTL", "Stream-Expires-At", "Stream-Retain-Bytes", "Stream-Retain-Seconds")
    return send(ask)


@mutant("X10", needs=PATCH)
def what_is_not_named_is_removed(ask: Ask, send: Send) -> Reply:
    """A PATCH replaces everything."""
    if ask.method == "PATCH":
        for name in ("Stream-Retain-Bytes", "Stream-Retain-Seconds"):
            if not ask.has(name):
                ask.set(name, "none")
    return send(ask)


@mutant("X10", needs=PATCH)
def none_is_malformed(ask: Ask, send: Send) -> Reply:
    """Limits cannot be removed."""
    if ask.method == "PATCH" and "none" in (ask.get("Stream-TTL"), ask.get("Stream-Retain-Bytes")):
        ask.set("Stream-TTL", "x")
    return send(ask)


@mutant("X10", "C3", needs=PATCH)
def what_is_malformed_is_left_out(ask: Ask, send: Send) -> Reply:
    """The rest of the PATCH is done."""
    reply = send(ask.copy())
    if ask.method == "PATCH" and reply.status == 400:
        limit = ask.get("Stream-Retain-Bytes")
        changed = ask.drop("Stream-TTL", "Stream-Expires-At", "Stream-Retain-Seconds", "Stream-Attributes")
        send(changed.set("Stream-Retain-Bytes", limit if limit.isdigit() and limit != "0" else "1000"))
    return reply


@mutant("X10", needs=PATCH)
def a_closed_stream_cannot_be_patched(ask: Ask, send: Send) -> Reply:
    """409, as for an append."""
    reply = send(ask)
    if ask.method == "PATCH" and reply.get("Stream-Closed") == "true":
        reply.status = 409
    return reply


@mutant("X10", "C1", needs=PATCH)
def only_what_is_set_now_can_be_created_again(ask: Ask, send: Send) -> Reply:
    """A program that creates its streams when it starts is refused after a PATCH."""
    found = send(Ask("HEAD", ask.path, [("Host", ask.get("Host"))])) if ask.method == "PUT" else None
    reply = send(ask)
    if found is not None and found.status == 200 and reply.status == 200:
        reply.status = 200 if found.get("Stream-TTL") == ask.get("Stream-TTL") else 409
    return reply


@mutant("X10", needs=PATCH)
def attributes_are_replaced(ask: Ask, send: Send) -> Reply:
    """What a PATCH does not name is gone."""
    if ask.method == "PATCH" and ask.get("Stream-Attributes").startswith("{"):
        found = send(Ask("HEAD", ask.path, [("Host", ask.get("Host"))]))
        known = json.loads(found.get("Stream-Attributes") or "{}")
        try:
            noted = json.loads(ask.get("Stream-Attributes"))
        except ValueError:
            return send(ask)
        ask.set("Stream-Attributes", json.dumps({**dict.fromkeys(known), **noted}))
    return send(ask)


@mutant("X10", needs=PATCH)
def attributes_are_secret(ask: Ask, send: Send) -> Reply:
    """No answer has Stream-Attributes."""
    return send(ask).drop("Stream-Attributes")


@mutant("X10", "X2", needs=(*PATCH, "list"))
def a_listing_ignores_attributes(ask: Ask, send: Send) -> Reply:
    """attr.NAME selects nothing."""
    if ask.path.endswith("/__ds/streams") and ask.method == "GET":
        for name in ("attr.team", "attr.tier"):
            ask.with_param(name, None)
    return send(ask)


@mutant("X10", "X2", needs=(*PATCH, "list"))
def a_deletion_ignores_attributes(ask: Ask, send: Send) -> Reply:
    """It deletes everything below the prefix."""
    return send(ask.with_param("attr.tier", None) if ask.method == "DELETE" else ask)


@mutant("X10", needs=PATCH)
def a_trim_is_accepted_and_does_nothing(ask: Ask, send: Send) -> Reply:
    """204 with the wanted start, and everything stays."""
    if is_trim(ask):
        before = ask.param("trim")
        reply = send(ask.with_param("trim", "-1"))
        return reply.set("Stream-Earliest-Offset", before) if before[:1].isdigit() else reply
    return send(ask)


@mutant("X10", "O3", needs=PATCH)
def a_trim_beyond_the_tail_drops_everything(ask: Ask, send: Send) -> Reply:
    """It counts as now."""
    if is_trim(ask) and ask.param("trim").startswith("9"):
        ask.with_param("trim", "now")
    return send(ask)


@mutant("X10", needs=PATCH)
def a_trim_does_not_say_where_the_stream_begins(ask: Ask, send: Send) -> Reply:
    """204 without Stream-Earliest-Offset."""
    reply = send(ask)
    return reply.drop("Stream-Earliest-Offset") if is_trim(ask) else reply


@mutant("X10", needs=PATCH)
def incarnations_are_paths(ask: Ask, send: Send) -> Reply:
    """A stream that is made anew has the one that it had."""
    reply = send(ask)
    return reply.set("Stream-Incarnation", ask.path) if reply.has("Stream-Incarnation") else reply


@mutant("X10", needs=PATCH)
def reads_do_not_say_the_incarnation(ask: Ask, send: Send) -> Reply:
    """Only HEAD and PUT do."""
    reply = send(ask)
    return reply.drop("Stream-Incarnation") if ask.is_read else reply


@mutant("X10", "G3", needs=PATCH)
def entity_tags_survive_a_deletion(ask: Ask, send: Send) -> Reply:
    """A tag is made of the path and the range."""
    given = ask.get("If-None-Match")
    reply = send(ask.drop("If-None-Match"))
    if ask.is_catch_up and reply.has("ETag"):
        tag = f'"{len(ask.path)}:{reply.get("Stream-Next-Offset")}:{len(reply.body)}"'
        reply.set("ETag", tag)
        if given == tag:
            reply.status, reply.body = 304, b""
    return reply


@mutant("X10", "L1", needs=PATCH)
def timeouts_are_ignored(ask: Ask, send: Send) -> Reply:
    """A long-poll waits as long as the server likes."""
    return send(ask.with_param("timeout", None) if ask.is_poll and ask.param("timeout").isdigit() else ask)


@mutant("X10", "L1", needs=PATCH)
def timeouts_are_read_leniently(ask: Ask, send: Send) -> Reply:
    """What is not a number is left out."""
    if ask.is_poll and "timeout=" in ask.query and not ask.param("timeout").isdigit():
        ask.with_param("timeout", None)
    return send(ask)


@mutant("X10", "A10", needs=PATCH)
def only_application_json_is_json(ask: Ask, send: Send) -> Reply:
    """Other types with +json hold bytes."""
    if "+json" in ask.get("Content-Type").lower():
        ask.set("Content-Type", "application/octet-stream")
    return send(ask)
