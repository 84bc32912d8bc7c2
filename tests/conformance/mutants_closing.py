"""Servers that are wrong about closing, and about what a closed stream answers."""

from __future__ import annotations

from conformance.mutants import Memory, mutant
from conformance.mutants_appending import stream_type, unstamped
from conformance.proxy import Ask, Reply, Send


@mutant("A4")
def only_lower_case_true_closes(ask: Ask, send: Send) -> Reply:
    """`Stream-Closed: TRUE` is ignored."""
    return send(ask.drop("Stream-Closed") if ask.get("Stream-Closed") not in {"", "true"} else ask)


@mutant("A4")
def any_value_closes(ask: Ask, send: Send) -> Reply:
    """`Stream-Closed: false` closes."""
    return send(ask.set("Stream-Closed", "true") if ask.has("Stream-Closed") else ask)


@mutant("A4")
def other_values_offend(ask: Ask, send: Send) -> Reply:
    """`Stream-Closed: yes` is 400."""
    return Reply(400, []) if ask.has("Stream-Closed") and not ask.closes else send(ask)


@mutant("A4")
def close_only_checks_the_content_type(ask: Ask, send: Send) -> Reply:
    """A close without a body is refused for its content type."""
    given = ask.get("Content-Type")
    if ask.method == "POST" and ask.closes and not ask.body and given and given != stream_type(ask, send):
        return Reply(409, [])
    return send(ask)


@mutant("A5")
def the_conflict_does_not_say_closed(ask: Ask, send: Send) -> Reply:
    """409 without Stream-Closed."""
    reply = send(ask)
    return reply.drop("Stream-Closed") if reply.status == 409 else reply


@mutant("A5")
def the_conflict_does_not_say_where(ask: Ask, send: Send) -> Reply:
    """409 without the final offset."""
    reply = send(ask)
    return reply.drop("Stream-Next-Offset") if reply.status == 409 else reply


@mutant("A5")
def closed_is_400(ask: Ask, send: Send) -> Reply:
    """Appending to a closed stream is 400."""
    reply = send(ask)
    reply.status = 400 if reply.status == 409 and reply.has("Stream-Closed") else reply.status
    return reply


@mutant("A6")
def closing_twice_conflicts(ask: Ask, send: Send, memory: Memory) -> Reply:
    """The second close is 409."""
    reply = send(ask)
    if ask.method == "POST" and ask.closes and not ask.body and reply.status == 204:
        reply.status = 409 if memory.get(ask.path) else 204
        memory[ask.path] = True
    return reply


@mutant("A6")
def strangers_may_close_again(ask: Ask, send: Send) -> Reply:
    """Close-only of a closed stream succeeds for every producer."""
    reply = send(ask)
    if ask.closes and not ask.body and reply.status == 409 and reply.has("Stream-Closed"):
        reply.status = 204
    return reply


@mutant("A6")
def zombies_are_told_closed(ask: Ask, send: Send) -> Reply:
    """A stale epoch's close of an open stream is 409 instead of 403."""
    reply = send(ask)
    if ask.closes and not ask.body and reply.status == 403:
        reply.status = 409
    return reply


@mutant("A6")
def stamped_close_only_skips_sequencing(ask: Ask, send: Send) -> Reply:
    """Producer headers of a close-only are ignored."""
    return send(unstamped(ask) if ask.method == "POST" and ask.closes and not ask.body else ask)


@mutant("A7")
def a_retried_close_conflicts(ask: Ask, send: Send) -> Reply:
    """The closing append is not recognised when it comes again."""
    reply = send(ask)
    if ask.method == "POST" and ask.body and reply.has("Stream-Closed") and reply.status == 204:
        reply.status = 409 if ask.has("Producer-Id") else 204
    return reply


@mutant("A7")
def the_closing_producer_may_do_anything(ask: Ask, send: Send) -> Reply:
    """Any tuple of the closing producer is a repeat."""
    reply = send(ask)
    if reply.status == 409 and reply.has("Stream-Closed") and ask.get("Producer-Id") == "p":
        reply.status = 204
    return reply


@mutant("A7", "A5")
def an_unstamped_retry_of_a_close_succeeds(ask: Ask, send: Send) -> Reply:
    """Closing with a body is idempotent without a producer."""
    reply = send(ask)
    if ask.closes and ask.body and reply.status == 409 and not ask.has("Producer-Id"):
        reply.status = 204
    return reply


@mutant("A8", needs=("restart",))
def closers_are_forgotten(ask: Ask, send: Send, memory: Memory) -> Reply:
    """After a restart nobody knows who closed a stream."""
    memory["restarted"] = memory.get("restarted") or "/restarted" in ask.path
    return send(unstamped(ask) if memory["restarted"] and ask.closes else ask)


@mutant("R4", needs=("restart",))
def producers_are_forgotten(ask: Ask, send: Send, memory: Memory) -> Reply:
    """After a restart producers start from nothing."""
    memory["restarted"] = memory.get("restarted") or "/restarted" in ask.path
    return send(unstamped(ask) if memory["restarted"] and ask.method == "POST" else ask)
