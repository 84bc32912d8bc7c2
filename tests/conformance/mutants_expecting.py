"""Servers that are wrong about compare-and-append."""

from __future__ import annotations

from conformance.mutants import Memory, mutant
from conformance.mutants_appending import PRODUCER
from conformance.proxy import Ask, Reply, Send

EXPECTED = "Stream-Expected-Offset"
NEEDS = ("expect",)


def tail_of(ask: Ask, send: Send) -> str:
    return send(Ask("HEAD", ask.path, [])).get("Stream-Next-Offset")


def is_conflict(ask: Ask, reply: Reply) -> bool:
    return ask.has(EXPECTED) and reply.status == 409 and b"EXPECTED_OFFSET_CONFLICT" in reply.body


@mutant("X6", needs=NEEDS)
def expectations_are_ignored(ask: Ask, send: Send) -> Reply:
    """Every append is accepted, wherever the stream ends."""
    return send(ask.drop(EXPECTED))


@mutant("X6", needs=NEEDS)
def a_tail_past_the_expected_one_is_accepted(ask: Ask, send: Send) -> Reply:
    """It is enough that the stream has been at the expected offset."""
    if ask.has(EXPECTED) and ask.get(EXPECTED) < tail_of(ask, send):
        ask.drop(EXPECTED)
    return send(ask)


@mutant("X6", needs=NEEDS)
def a_tail_before_the_expected_one_is_accepted(ask: Ask, send: Send) -> Reply:
    """An offset that is not there yet is expected successfully."""
    if ask.has(EXPECTED) and ask.get(EXPECTED) > tail_of(ask, send) and "_" in ask.get(EXPECTED):
        ask.drop(EXPECTED)
    return send(ask)


@mutant("X6", needs=NEEDS)
def expectations_are_checked_before_the_append(ask: Ask, send: Send, memory: Memory) -> Reply:
    """The check and the append are two steps, so two writers can both win."""
    if ask.has(EXPECTED) and ask.get(EXPECTED) == tail_of(ask, send) and memory.get(ask.path) is None:
        memory[ask.path] = ask.get(EXPECTED)
    if ask.has(EXPECTED) and memory.get(ask.path) == ask.get(EXPECTED):
        ask.drop(EXPECTED)
    return send(ask)


@mutant("X6", needs=NEEDS)
def conflicts_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """A conflict is answered without the tail."""
    reply = send(ask)
    return reply.drop("Stream-Next-Offset") if is_conflict(ask, reply) else reply


@mutant("X6", needs=NEEDS)
def conflicts_say_what_was_expected(ask: Ask, send: Send) -> Reply:
    """A conflict is answered with the expected offset instead of the tail."""
    reply = send(ask)
    return reply.set("Stream-Next-Offset", ask.get(EXPECTED)) if is_conflict(ask, reply) else reply


@mutant("X6", needs=NEEDS)
def conflicts_say_closed(ask: Ask, send: Send) -> Reply:
    """A conflict looks like a closed stream."""
    reply = send(ask)
    return reply.set("Stream-Closed", "true") if is_conflict(ask, reply) else reply


@mutant("X6", needs=NEEDS)
def conflicts_have_another_code(ask: Ask, send: Send) -> Reply:
    """A conflict cannot be told from other refusals."""
    reply = send(ask)
    if is_conflict(ask, reply):
        reply.body = reply.body.replace(b"EXPECTED_OFFSET_CONFLICT", b"CONFLICT")
        reply.drop("Content-Length")
    return reply


@mutant("X6", needs=NEEDS)
def malformed_expectations_are_conflicts(ask: Ask, send: Send) -> Reply:
    """What is no offset is only unequal to the tail."""
    reply = send(ask)
    if ask.has(EXPECTED) and reply.status == 400:
        return Reply(409, [("Stream-Next-Offset", tail_of(ask, send))])
    return reply


@mutant("X6", needs=NEEDS)
def malformed_expectations_are_ignored(ask: Ask, send: Send) -> Reply:
    """What is no offset expects nothing."""
    reply = send(ask)
    return send(ask.copy().drop(EXPECTED)) if ask.has(EXPECTED) and reply.status == 400 else reply


@mutant("X6", needs=NEEDS)
def expectations_come_before_closure(ask: Ask, send: Send) -> Reply:
    """A closed stream says first that it ends elsewhere."""
    reply = send(ask)
    is_closed = reply.status == 409 and reply.get("Stream-Closed") == "true"
    if ask.has(EXPECTED) and is_closed and ask.get(EXPECTED) != reply.get("Stream-Next-Offset"):
        reply.drop("Stream-Closed")
    return reply


@mutant("X6", needs=NEEDS)
def expectations_come_before_a_second_close(ask: Ask, send: Send) -> Reply:
    """Closing a closed stream again is a conflict."""
    if ask.has(EXPECTED) and ask.closes and not ask.body and ask.get(EXPECTED) != tail_of(ask, send):
        return Reply(409, [("Stream-Next-Offset", tail_of(ask, send))])
    return send(ask)


@mutant("X6", needs=NEEDS)
def expectations_come_before_repeats(ask: Ask, send: Send) -> Reply:
    """A producer's append whose answer was lost cannot be repeated."""
    if ask.has(EXPECTED) and ask.has("Producer-Id"):
        return send(ask.copy().drop(*PRODUCER))
    return send(ask)


@mutant("X6", needs=NEEDS)
def closes_ignore_expectations(ask: Ask, send: Send) -> Reply:
    """A close happens wherever the stream ends."""
    return send(ask.drop(EXPECTED) if ask.closes else ask)


@mutant("X6", needs=(*NEEDS, "parts"))
def commits_ignore_expectations(ask: Ask, send: Send) -> Reply:
    """A commit of parts happens wherever the stream ends."""
    return send(ask.drop(EXPECTED) if ask.param("parts") == "commit" else ask)


@mutant("X6", needs=NEEDS)
def sequences_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """A 409 of Stream-Seq is answered without the tail."""
    reply = send(ask)
    return reply.drop("Stream-Next-Offset") if ask.has("Stream-Seq") and reply.status == 409 else reply


@mutant("X6", needs=NEEDS)
def head_has_no_tag(ask: Ask, send: Send) -> Reply:
    """HEAD gives no ETag."""
    reply = send(ask)
    return reply.drop("ETag") if ask.method == "HEAD" else reply


@mutant("X6", needs=NEEDS)
def head_has_one_tag_for_ever(ask: Ask, send: Send) -> Reply:
    """The tag names the stream and not its tail."""
    reply = send(ask)
    is_plain_head = ask.method == "HEAD" and not ask.query and reply.status == 200
    return reply.set("ETag", '"one"') if is_plain_head else reply


@mutant("X6", needs=NEEDS)
def tags_are_ignored(ask: Ask, send: Send) -> Reply:
    """If-Match is not looked at."""
    return send(ask.drop("If-Match") if ask.method == "POST" else ask)


@mutant("X6", needs=NEEDS)
def tags_conflict_with_409(ask: Ask, send: Send) -> Reply:
    """A tag that does not match is 409."""
    reply = send(ask)
    reply.status = 409 if reply.status == 412 else reply.status
    return reply


@mutant("X6", needs=NEEDS)
def tags_compare_weakly(ask: Ask, send: Send) -> Reply:
    """A weak tag matches."""
    return send(ask.set("If-Match", ask.get("If-Match").replace("W/", "")) if ask.has("If-Match") else ask)


@mutant("X6", needs=NEEDS)
def a_star_matches_nothing(ask: Ask, send: Send) -> Reply:
    """If-Match: * is a tag that no stream has."""
    return Reply(412, []) if ask.get("If-Match") == "*" else send(ask)


@mutant("X6", "H1", needs=NEEDS)
def pages_may_not_expect(ask: Ask, send: Send) -> Reply:
    """Preflight answers do not allow the header."""
    reply = send(ask)
    if allowed := reply.get("Access-Control-Allow-Headers"):
        kept = [name for name in allowed.split(", ") if name.lower() != EXPECTED.lower()]
        reply.set("Access-Control-Allow-Headers", ", ".join(kept))
    return reply
