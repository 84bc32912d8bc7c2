"""Servers that are wrong about forks and their lifetimes."""

from __future__ import annotations

import re

from conformance.mutants import mutant
from conformance.proxy import Ask, Reply, Send

FORKS = ("forks",)


@mutant("F1", needs=FORKS)
def fork_offsets_are_ignored(ask: Ask, send: Send) -> Reply:
    """A fork always starts at the tail."""
    return send(ask.drop("Stream-Fork-Offset"))


@mutant("F1", needs=FORKS)
def forks_start_empty(ask: Ask, send: Send) -> Reply:
    """A fork inherits nothing."""
    if ask.has("Stream-Forked-From") and send(Ask("HEAD", ask.get("Stream-Forked-From"), [])).status == 200:
        ask.set("Stream-Fork-Offset", f"{0:016d}_{0:016d}").drop("Stream-Fork-Sub-Offset")
    return send(ask)


@mutant("F1", needs=FORKS)
def fork_offsets_are_clamped(ask: Ask, send: Send) -> Reply:
    """A fork offset that is refused is replaced by the tail."""
    reply = send(ask)
    if reply.status == 400 and ask.has("Stream-Fork-Offset") and not ask.has("Stream-Fork-Sub-Offset"):
        return send(ask.copy().drop("Stream-Fork-Offset"))
    return reply


@mutant("F1", needs=FORKS)
def forks_may_change_their_type(ask: Ask, send: Send) -> Reply:
    """The content type of a fork is not compared."""
    return send(ask.drop("Content-Type") if ask.has("Stream-Forked-From") else ask)


@mutant("F1", needs=FORKS)
def missing_sources_are_409(ask: Ask, send: Send) -> Reply:
    """A fork of nothing is a conflict."""
    reply = send(ask)
    reply.status = 409 if ask.has("Stream-Forked-From") and reply.status == 404 else reply.status
    return reply


@mutant("F1", "C1", needs=FORKS)
def forks_cannot_be_repeated(ask: Ask, send: Send) -> Reply:
    """The same fork again is a conflict."""
    reply = send(ask)
    reply.status = 409 if ask.has("Stream-Forked-From") and reply.status == 200 else reply.status
    return reply


@mutant("F1", "C1", needs=FORKS)
def fork_points_are_not_configuration(ask: Ask, send: Send) -> Reply:
    """Another fork at the same path succeeds."""
    reply = send(ask)
    reply.status = 200 if ask.has("Stream-Fork-Offset") and reply.status == 409 else reply.status
    return reply


@mutant("F1", needs=FORKS)
def forks_inherit_closure(ask: Ask, send: Send) -> Reply:
    """A fork of a finished stream is finished."""
    source = ask.get("Stream-Forked-From")
    if source and send(Ask("HEAD", source, [])).has("Stream-Closed"):
        ask.set("Stream-Closed", "true")
    return send(ask)


@mutant("F1", needs=FORKS)
def sub_offsets_are_ignored(ask: Ask, send: Send) -> Reply:
    """A fork begins at its offset, whatever the sub-offset."""
    return send(ask.drop("Stream-Fork-Sub-Offset"))


@mutant("F1", needs=FORKS)
def sub_offsets_are_parsed_kindly(ask: Ask, send: Send) -> Reply:
    """`+1` and `01` are 1."""
    if number := re.fullmatch(r"\+?0*([1-9]\d*)(\.0)?", ask.get("Stream-Fork-Sub-Offset")):
        ask.set("Stream-Fork-Sub-Offset", number[1])
    return send(ask)


@mutant("F1", needs=FORKS)
def sub_offsets_are_clamped(ask: Ask, send: Send) -> Reply:
    """A sub-offset that is too far is cut back."""
    reply = send(ask)
    if reply.status == 400 and ask.get("Stream-Fork-Sub-Offset").isdigit() and ask.has("Stream-Fork-Offset"):
        return send(ask.copy().set("Stream-Fork-Sub-Offset", "0"))
    return reply


@mutant("F1", needs=FORKS)
def sub_offsets_need_nothing(ask: Ask, send: Send) -> Reply:
    """A sub-offset without a source is ignored."""
    return send(ask if ask.has("Stream-Forked-From") else ask.drop("Stream-Fork-Sub-Offset"))


@mutant("F1", needs=FORKS)
def forks_do_not_inherit_lifetimes(ask: Ask, send: Send) -> Reply:
    """A fork without a lifetime lives a day."""
    if ask.has("Stream-Forked-From") and not ask.has("Stream-TTL") and not ask.has("Stream-Expires-At"):
        ask.set("Stream-TTL", "86400")
    return send(ask)


@mutant("F2", needs=FORKS)
def deleted_sources_are_404(ask: Ask, send: Send) -> Reply:
    """A soft-deleted stream looks as if it had never been."""
    reply = send(ask)
    reply.status = 404 if reply.status == 410 else reply.status
    return reply


@mutant("F2", needs=FORKS)
def deleted_sources_can_be_forked(ask: Ask, send: Send) -> Reply:
    """Forking a deleted source is 404."""
    reply = send(ask)
    reply.status = 404 if ask.has("Stream-Forked-From") and reply.status == 409 else reply.status
    return reply


@mutant("F2", needs=FORKS)
def deleted_sources_can_be_recreated(ask: Ask, send: Send) -> Reply:
    """The path of a deleted source is free at once."""
    reply = send(ask)
    if ask.method == "PUT" and reply.status == 409 and not ask.has("Stream-Forked-From"):
        reply.status = 201
    return reply


@mutant("F2", needs=FORKS)
def deleted_sources_are_never_cleaned_up(ask: Ask, send: Send) -> Reply:
    """What was soft-deleted stays so."""
    reply = send(ask)
    reply.status = 410 if ask.method == "HEAD" and reply.status == 404 else reply.status
    return reply


@mutant("F3", needs=FORKS)
def forks_show_their_source(ask: Ask, send: Send) -> Reply:
    """Answers name the source."""
    reply = send(ask)
    if ask.method == "PUT" and ask.has("Stream-Forked-From"):
        reply.set("Stream-Forked-From", ask.get("Stream-Forked-From"))
    return reply


@mutant("F3", needs=FORKS)
def fork_headers_show_in_head(ask: Ask, send: Send) -> Reply:
    """HEAD names the fork offset."""
    reply = send(ask)
    return reply.set("Stream-Fork-Offset", reply.get("Stream-Next-Offset")) if ask.method == "HEAD" else reply
