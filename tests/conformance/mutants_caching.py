"""Servers that are wrong about caching, compression, metadata and lifetimes."""

from __future__ import annotations

import gzip
import hashlib
import time

from conformance.mutants import Memory, mutant
from conformance.proxy import Ask, Reply, Send

OFFSET = "Stream-Next-Offset"


@mutant("G3")
def etags_are_made_of_the_content(ask: Ask, send: Send) -> Reply:
    """Two streams with the same bytes share an ETag."""
    reply = send(ask)
    if ask.is_catch_up and reply.has("ETag"):
        reply.set("ETag", f'"{hashlib.md5(reply.body).hexdigest()}"')
    return reply


@mutant("G3")
def etags_ignore_closure(ask: Ask, send: Send) -> Reply:
    """Closing does not change the ETag."""
    reply = send(ask)
    if ask.is_catch_up and reply.has("ETag"):
        tag = f'"{hashlib.md5(ask.target.encode()).hexdigest()}{reply.get(OFFSET)}"'
        if ask.get("If-None-Match") == tag:
            return Reply(304, [(k, v) for k, v in reply.fields if k.lower() != "etag"]).set("ETag", tag)
        reply.set("ETag", tag)
    return reply


@mutant("G3")
def etags_are_made_of_the_url(ask: Ask, send: Send) -> Reply:
    """More data does not change the ETag."""
    reply = send(ask)
    tag = f'"{hashlib.md5(ask.target.encode()).hexdigest()}"'
    return reply.set("ETag", tag) if ask.is_catch_up and reply.has("ETag") else reply


@mutant("G3")
def etags_survive_a_recreation(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A new stream at an old path has the old ETags."""
    reply = send(ask)
    if ask.is_catch_up and reply.has("ETag"):
        key = f"{ask.target}{reply.get(OFFSET)}{reply.get('Stream-Closed')}"
        reply.set("ETag", memory.setdefault(key, reply.get("ETag")))
    return reply


@mutant("G3")
def if_none_match_is_ignored(ask: Ask, send: Send) -> Reply:
    """Nothing is ever 304."""
    return send(ask.drop("If-None-Match"))


@mutant("G3")
def anything_matches(ask: Ask, send: Send) -> Reply:
    """Any If-None-Match gives 304."""
    return send(ask.set("If-None-Match", "*") if ask.has("If-None-Match") else ask)


@mutant("G3")
def only_one_etag_is_compared(ask: Ask, send: Send) -> Reply:
    """Lists in If-None-Match do not match."""
    return send(ask.drop("If-None-Match") if "," in ask.get("If-None-Match") else ask)


@mutant("G3")
def not_modified_says_nothing(ask: Ask, send: Send) -> Reply:
    """304 has no stream headers."""
    reply = send(ask)
    return reply.drop(OFFSET, "Stream-Up-To-Date") if reply.status == 304 else reply


@mutant("G3")
def not_modified_hides_the_end(ask: Ask, send: Send) -> Reply:
    """304 does not say closed."""
    reply = send(ask)
    return reply.drop("Stream-Closed") if reply.status == 304 else reply


@mutant("G5")
def nothing_is_compressed(ask: Ask, send: Send) -> Reply:
    """Accept-Encoding is ignored."""
    return send(ask.drop("Accept-Encoding"))


@mutant("G5")
def everything_is_compressed(ask: Ask, send: Send) -> Reply:
    """Small bodies are compressed, and large ones unasked."""
    reply = send(ask)
    if ask.is_catch_up and reply.body and not reply.has("Content-Encoding"):
        reply.body = gzip.compress(reply.body)
        reply.set("Content-Encoding", "gzip")
    return reply


@mutant("G5")
def vary_is_missing(ask: Ask, send: Send) -> Reply:
    """A cache may hand gzip to a client that cannot read it."""
    return send(ask).drop("Vary")


@mutant("G5")
def refused_encodings_are_used(ask: Ask, send: Send) -> Reply:
    """`gzip;q=0` counts as gzip."""
    return send(ask.set("Accept-Encoding", "gzip") if "q=0" in ask.get("Accept-Encoding") else ask)


@mutant("G5", "L4")
def events_claim_to_be_compressed(ask: Ask, send: Send) -> Reply:
    """Events are compressed."""
    reply = send(ask)
    return reply.set("Content-Encoding", "gzip") if reply.is_events and ask.has("Accept-Encoding") else reply


@mutant("G6")
def credentials_do_not_matter(ask: Ask, send: Send) -> Reply:
    """A read with credentials is public."""
    reply = send(ask)
    if ask.is_catch_up and ask.has("Authorization"):
        reply.set("Cache-Control", "public, max-age=60, stale-while-revalidate=300")
    return reply


@mutant("G6", "G8")
def metadata_can_be_cached(ask: Ask, send: Send) -> Reply:
    """HEAD may be stored."""
    reply = send(ask)
    return reply.set("Cache-Control", "public, max-age=60") if ask.method == "HEAD" else reply


@mutant("G6")
def empty_polls_can_be_cached(ask: Ask, send: Send) -> Reply:
    """A long-poll's 204 may be stored."""
    reply = send(ask)
    return reply.set("Cache-Control", "public, max-age=60") if reply.status == 204 and ask.is_poll else reply


@mutant("G8")
def head_renews_the_ttl(ask: Ask, send: Send) -> Reply:
    """Looking keeps a stream alive."""
    if ask.method == "HEAD":
        send(ask.copy(method="GET"))
    return send(ask)


@mutant("G8")
def head_shows_what_remains(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Stream-TTL counts down."""
    reply = send(ask)
    if ask.method == "HEAD" and reply.get("Stream-TTL"):
        reply.set("Stream-TTL", str(int(reply.get("Stream-TTL")) - 1))
    return reply


@mutant("G8")
def head_does_not_say_closed(ask: Ask, send: Send) -> Reply:
    """HEAD hides closure."""
    return send(ask).drop("Stream-Closed") if ask.method == "HEAD" else send(ask)


@mutant("G8")
def reads_do_not_renew(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A read does not count as use."""
    if ask.method == "PUT" and ask.get("Stream-TTL") == "1":
        memory[ask.path] = True
    if ask.is_catch_up and memory.get(ask.path):
        return send(Ask("HEAD", ask.path, []))
    return send(ask)


@mutant("G8")
def writes_do_not_renew(ask: Ask, send: Send, memory: Memory) -> Reply:
    """An append does not count as use."""
    if ask.method == "PUT" and ask.get("Stream-TTL") == "1":
        memory[ask.path] = True
    return Reply(204, []) if ask.method == "POST" and memory.get(ask.path) else send(ask)


def _events_without_renewal(ask: Ask, send: Send) -> Reply:
    """An event stream that ends after its control event and never reaches the server."""
    tail = send(Ask("HEAD", ask.path, [])).get("Stream-Next-Offset")
    control = f'event: control\ndata:{{"streamNextOffset":"{tail}","streamCursor":"1","upToDate":true}}\n\n'
    return Reply(200, [("Content-Type", "text/event-stream")], control.encode())


@mutant("G8")
def event_readers_do_not_renew(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Connecting to the events does not count as use."""
    if ask.method == "PUT" and ask.get("Stream-TTL") == "1":
        memory[ask.path] = True
    if ask.param("live") == "sse" and memory.get(ask.path):
        return _events_without_renewal(ask, send)
    return send(ask)


@mutant("G8")
def only_the_first_event_reader_renews(ask: Ask, send: Send, memory: Memory) -> Reply:
    """An event reader that joins another one does not count as use."""
    if ask.method == "PUT" and ask.get("Stream-TTL") == "1":
        memory[ask.path] = 0
    if ask.param("live") == "sse" and ask.path in memory:
        memory[ask.path] += 1
        if memory[ask.path] > 1:
            return _events_without_renewal(ask, send)
    return send(ask)


@mutant("G8", "F4")
def expiries_are_renewed(ask: Ask, send: Send) -> Reply:
    """Reading moves a fixed deadline."""
    if ask.method == "PUT" and ask.get("Stream-Expires-At").startswith(time.strftime("%Y")):
        ask.drop("Stream-Expires-At").set("Stream-TTL", "1")
    return send(ask)


@mutant("F4")
def expiry_is_late(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Expired streams linger."""
    reply = send(ask)
    if ask.method == "HEAD" and reply.status == 200:
        memory[ask.path] = time.monotonic()
    if ask.method == "HEAD" and reply.status == 404 and time.monotonic() - memory.get(ask.path, 0) < 3:
        reply.status = 200
    return reply


@mutant("F4")
def deleting_nothing_succeeds(ask: Ask, send: Send) -> Reply:
    """DELETE of a missing stream is 204."""
    reply = send(ask)
    reply.status = 204 if ask.method == "DELETE" and reply.status == 404 else reply.status
    return reply


@mutant("F4")
def deleted_streams_are_410(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A path that was deleted once is gone for ever."""
    reply = send(ask)
    if ask.method == "DELETE" and reply.status == 204:
        memory[ask.path] = True
    if memory.get(ask.path) and reply.status == 404:
        reply.status = 410
    return reply
