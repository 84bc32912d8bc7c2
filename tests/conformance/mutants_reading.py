"""Servers that are wrong about offsets and reads."""

from __future__ import annotations

from conformance.mutants import mutant
from conformance.proxy import Ask, Reply, Send

OFFSET = "Stream-Next-Offset"


def is_json(reply: Reply) -> bool:
    return reply.get("Content-Type").lower().startswith("application/json")


@mutant("O1")
def offsets_lose_their_zeros(ask: Ask, send: Send) -> Reply:
    """Offsets are not padded, so they do not sort."""
    given = ask.param("offset")
    if given.isdigit():
        ask.with_param("offset", f"{0:016d}_{int(given):016d}")
    reply = send(ask)
    tail = reply.get(OFFSET)
    return reply.set(OFFSET, str(int(tail.rpartition("_")[2]))) if tail else reply


@mutant("O1")
def offsets_stand_still(ask: Ask, send: Send) -> Reply:
    """Every offset is the start."""
    reply = send(ask)
    return reply.set(OFFSET, f"{0:016d}_{0:016d}") if reply.has(OFFSET) else reply


@mutant("O1", "G1")
def offsets_are_one_too_far(ask: Ask, send: Send) -> Reply:
    """A read says one byte more than it gave."""
    reply = send(ask)
    if ask.is_catch_up and reply.has(OFFSET):
        reply.set(OFFSET, f"{0:016d}_{int(reply.get(OFFSET)[17:]) + 1:016d}")
    return reply


@mutant("O1")
def offsets_contain_commas(ask: Ask, send: Send) -> Reply:
    """Offsets are not URL-safe."""
    if "," in ask.param("offset"):
        ask.with_param("offset", ask.param("offset").replace(",", "_"))
    reply = send(ask)
    return reply.set(OFFSET, reply.get(OFFSET).replace("_", ",")) if reply.has(OFFSET) else reply


@mutant("O2")
def minus_one_is_the_tail(ask: Ask, send: Send) -> Reply:
    """`-1` skips everything."""
    return send(ask.with_param("offset", "now") if ask.param("offset") == "-1" else ask)


@mutant("O2")
def the_empty_stream_is_at_minus_one(ask: Ask, send: Send) -> Reply:
    """A sentinel is handed out as an offset."""
    reply = send(ask)
    return reply.set(OFFSET, "-1") if reply.get(OFFSET).endswith("_0000000000000000") else reply


@mutant("O3")
def bad_offsets_are_the_start(ask: Ask, send: Send) -> Reply:
    """What is not an offset reads from the start."""
    reply = send(ask)
    return send(ask.copy().with_param("offset", "-1")) if ask.is_catch_up and reply.status == 400 else reply


@mutant("O3")
def empty_offsets_are_the_start(ask: Ask, send: Send) -> Reply:
    """`offset=` reads from the start."""
    return send(
        ask.with_param("offset", "-1") if ask.query.startswith("offset=&") or ask.query == "offset=" else ask
    )


@mutant("O3")
def the_last_of_two_offsets_counts(ask: Ask, send: Send) -> Reply:
    """`offset` may be repeated."""
    return send(ask.with_param("offset", ask.param("offset")) if ask.query.count("offset=") > 1 else ask)


@mutant("O3")
def live_reads_accept_bad_offsets(ask: Ask, send: Send) -> Reply:
    """Only catch-up reads check the offset."""
    reply = send(ask)
    if ask.param("live") and reply.status == 400 and "offset=" in ask.query:
        return Reply(204, [])
    return reply


@mutant("O3")
def past_the_tail_is_400(ask: Ask, send: Send) -> Reply:
    """A reader that is ahead is refused."""
    return Reply(400, []) if ask.is_catch_up and ask.param("offset").endswith("99999") else send(ask)


@mutant("G1")
def up_to_date_is_never_said(ask: Ask, send: Send) -> Reply:
    """Readers never learn that they are at the tail."""
    return send(ask).drop("Stream-Up-To-Date") if ask.param("offset") != "-1" or ask.is_poll else send(ask)


@mutant("G1")
def up_to_date_is_always_said(ask: Ask, send: Send) -> Reply:
    """Partial answers claim to reach the tail."""
    reply = send(ask)
    return reply.set("Stream-Up-To-Date", "true") if ask.is_catch_up and reply.status == 200 else reply


@mutant("G1")
def closed_is_said_too_early(ask: Ask, send: Send) -> Reply:
    """Partial answers of a closed stream say closed."""
    reply = send(ask)
    if ask.is_catch_up and reply.status == 200 and send(Ask("HEAD", ask.path, [])).has("Stream-Closed"):
        reply.set("Stream-Closed", "true")
    return reply


@mutant("G1")
def closed_is_not_said_with_data(ask: Ask, send: Send) -> Reply:
    """Only the empty read at the end says closed."""
    reply = send(ask)
    return reply.drop("Stream-Closed") if ask.is_catch_up and reply.body else reply


@mutant("G1")
def closed_is_not_said_at_the_tail(ask: Ask, send: Send) -> Reply:
    """The empty read at the end does not say closed."""
    reply = send(ask)
    return reply.drop("Stream-Closed") if ask.is_catch_up and not reply.body else reply


@mutant("G1", "G3")
def reads_have_no_etag(ask: Ask, send: Send) -> Reply:
    """ETag is missing."""
    return send(ask).drop("ETag")


@mutant("G1", "G6")
def reads_have_no_caching(ask: Ask, send: Send) -> Reply:
    """Cache-Control is missing."""
    return send(ask).drop("Cache-Control") if ask.is_catch_up else send(ask)


@mutant("G1", "G8")
def missing_streams_are_empty(ask: Ask, send: Send) -> Reply:
    """A stream that does not exist reads as empty."""
    reply = send(ask)
    reply.status = 200 if ask.is_catch_up and reply.status == 404 else reply.status
    return reply


@mutant("G2")
def now_is_the_start(ask: Ask, send: Send) -> Reply:
    """`now` returns everything."""
    return send(ask.with_param("offset", "-1") if ask.is_catch_up and ask.param("offset") == "now" else ask)


@mutant("G2")
def now_can_be_cached(ask: Ask, send: Send) -> Reply:
    """`now` has the caching of a catch-up read."""
    reply = send(ask)
    return reply.set("Cache-Control", "public, max-age=60") if ask.param("offset") == "now" else reply


@mutant("G2")
def now_has_an_etag(ask: Ask, send: Send) -> Reply:
    """`now` can be revalidated."""
    reply = send(ask)
    return reply.set("ETag", '"now"') if ask.is_catch_up and ask.param("offset") == "now" else reply


@mutant("G2", "G4")
def empty_json_is_nothing(ask: Ask, send: Send) -> Reply:
    """An empty JSON read has no body."""
    reply = send(ask)
    reply.body = b"" if ask.is_catch_up and is_json(reply) and reply.body == b"[]" else reply.body
    return reply


@mutant("G2")
def now_does_not_say_closed(ask: Ask, send: Send) -> Reply:
    """`now` on a finished stream looks open."""
    return send(ask).drop("Stream-Closed") if ask.param("offset") == "now" else send(ask)


@mutant("G4", "A10")
def json_reads_are_lines(ask: Ask, send: Send) -> Reply:
    """JSON streams read as newline-delimited values."""
    reply = send(ask)
    if ask.is_catch_up and is_json(reply) and reply.body[:1] == b"[":
        reply.body = reply.body[1:-1]
    return reply


@mutant("G7")
def unknown_parameters_offend(ask: Ask, send: Send) -> Reply:
    """A parameter that is not known is 400."""
    return Reply(400, []) if ask.param("foo") else send(ask)


@mutant("G7", "X1", needs=("until",))
def until_is_ignored(ask: Ask, send: Send) -> Reply:
    """`until` does not bound."""
    return send(ask.with_param("until", None) if ask.param("until") else ask)


@mutant("G7", "X1", needs=("until",))
def limit_is_ignored(ask: Ask, send: Send) -> Reply:
    """`limit` does not limit."""
    return send(ask.with_param("limit", None) if ask.param("limit") else ask)


@mutant("X1", needs=("until",))
def head_ignores_read_parameters(ask: Ask, send: Send) -> Reply:
    """HEAD always tells the tail."""
    if ask.method == "HEAD":
        ask.target = ask.path
    return send(ask)
