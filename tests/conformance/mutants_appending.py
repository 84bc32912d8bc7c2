"""Servers that are wrong about appends."""

from __future__ import annotations

import json
import re

from conformance.mutants import Memory, mutant
from conformance.proxy import Ask, Reply, Send

PRODUCER = ("Producer-Id", "Producer-Epoch", "Producer-Seq")


def unstamped(ask: Ask) -> Ask:
    return ask.copy().drop(*PRODUCER)


def stream_type(ask: Ask, send: Send) -> str:
    return send(Ask("HEAD", ask.path, [])).get("Content-Type")


@mutant("A1")
def appends_are_200(ask: Ask, send: Send) -> Reply:
    """A plain append is answered with 200."""
    reply = send(ask)
    if ask.method == "POST" and reply.status == 204 and not ask.has("Producer-Id"):
        reply.status = 200
    return reply


@mutant("A1")
def producer_appends_are_204(ask: Ask, send: Send) -> Reply:
    """New data and repeats cannot be told apart."""
    reply = send(ask)
    reply.status = 204 if ask.method == "POST" and reply.status == 200 else reply.status
    return reply


@mutant("A1")
def repeats_are_200(ask: Ask, send: Send) -> Reply:
    """A repeat looks like new data."""
    reply = send(ask)
    if ask.method == "POST" and reply.status == 204 and ask.has("Producer-Id"):
        reply.status = 200
    return reply


@mutant("A1")
def appends_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """An append is answered without the next offset."""
    reply = send(ask)
    return reply.drop("Stream-Next-Offset") if ask.method == "POST" else reply


@mutant("A1")
def repeats_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """A repeat is answered without the next offset."""
    reply = send(ask)
    return reply.drop("Stream-Next-Offset") if ask.has("Producer-Id") and reply.status == 204 else reply


@mutant("A1")
def closes_do_not_say_closed(ask: Ask, send: Send) -> Reply:
    """A close is answered without Stream-Closed."""
    reply = send(ask)
    return reply.drop("Stream-Closed") if ask.method == "POST" and reply.status < 300 else reply


@mutant("A1")
def some_appends_are_lost(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Every fifth append is acknowledged and forgotten."""
    if ask.method == "POST" and not ask.closes and not ask.has("Producer-Id"):
        memory["n"] = memory.get("n", 0) + 1
        if memory["n"] % 5 == 0:
            tail = send(Ask("HEAD", ask.path, [])).get("Stream-Next-Offset")
            return Reply(204, [("Stream-Next-Offset", tail)])
    return send(ask)


@mutant("A1")
def some_appends_are_doubled(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Every fifth append is written twice."""
    memory["n"] = memory.get("n", 0) + (ask.method == "POST")
    if ask.method == "POST" and not ask.closes and memory["n"] % 5 == 0:
        send(unstamped(ask))
    return send(ask)


@mutant("A1", "G1")
def newlines_are_normalised(ask: Ask, send: Send) -> Reply:
    """Bytes are treated as text."""
    return send(ask.copy(body=ask.body.replace(b"\r", b"\n")) if ask.method in {"POST", "PUT"} else ask)


@mutant("A2")
def any_content_type_is_accepted(ask: Ask, send: Send) -> Reply:
    """The content type of an append is ignored."""
    if ask.method == "POST" and ask.body and ask.has("Content-Type"):
        ask.set("Content-Type", stream_type(ask, send) or ask.get("Content-Type"))
    return send(ask)


@mutant("A2")
def content_type_comes_before_closure(ask: Ask, send: Send) -> Reply:
    """A closed stream complains about the content type first."""
    reply = send(ask)
    if ask.method == "POST" and reply.status == 409 and ask.get("Content-Type") == "application/xml":
        reply.drop("Stream-Closed")
    return reply


@mutant("A2")
def syntax_comes_before_existence(ask: Ask, send: Send) -> Reply:
    """Half a producer on a missing stream is 400."""
    present = sum(ask.has(name) for name in PRODUCER)
    return Reply(400, []) if ask.method == "POST" and 0 < present < 3 else send(ask)


@mutant("A2", "R4")
def sequence_comes_before_repeats(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A retry with its old Stream-Seq is refused."""
    seq, last = ask.get("Stream-Seq"), memory.get(ask.path, "")
    if ask.method == "POST" and seq and ask.has("Producer-Id"):
        if seq <= last:
            return Reply(409, [])
        memory[ask.path] = seq
    return send(ask)


@mutant("A3")
def empty_appends_are_accepted(ask: Ask, send: Send) -> Reply:
    """An empty body is a successful append of nothing."""
    return Reply(204, []) if ask.method == "POST" and not ask.body and not ask.closes else send(ask)


@mutant("A3")
def untyped_bodies_are_accepted(ask: Ask, send: Send) -> Reply:
    """A body without a content type has the stream's."""
    if ask.method == "POST" and ask.body and not ask.has("Content-Type"):
        ask.set("Content-Type", stream_type(ask, send))
    return send(ask)


@mutant("A3")
def empty_batches_are_accepted(ask: Ask, send: Send) -> Reply:
    """`[]` is a successful append of nothing."""
    if (
        ask.method == "POST"
        and re.fullmatch(rb"\s*\[\s*\]\s*", ask.body)
        and "json" in ask.get("Content-Type")
    ):
        return Reply(204, [("Stream-Next-Offset", send(Ask("HEAD", ask.path, [])).get("Stream-Next-Offset"))])
    return send(ask)


@mutant("A3")
def not_a_number_is_accepted(ask: Ask, send: Send) -> Reply:
    """NaN and Infinity are stored as null."""
    if ask.method == "POST" and ask.get("Content-Type") == "application/json":
        ask.body = re.sub(rb"-?(NaN|Infinity)", b"null", ask.body)
    return send(ask)


@mutant("A3")
def broken_utf8_in_json_is_repaired(ask: Ask, send: Send) -> Reply:
    """Invalid UTF-8 becomes replacement characters."""
    if ask.method == "POST" and ask.get("Content-Type") == "application/json":
        ask.body = ask.body.decode("utf-8", "replace").encode()
    return send(ask)


@mutant("A3")
def depth_is_not_limited(ask: Ask, send: Send) -> Reply:
    """JSON may nest for ever."""
    return (
        Reply(204, []) if ask.method == "POST" and len(ask.body) > 1000 and b"[[[[" in ask.body else send(ask)
    )


@mutant("A3", "C6")
def everything_with_json_in_its_name_is_parsed(ask: Ask, send: Send) -> Reply:
    """`application/ndjson` is validated as JSON."""
    kind = ask.get("Content-Type")
    if ask.method == "POST" and "json" in kind and kind != "application/json" and not kind.endswith("+json"):
        try:
            json.loads(ask.body)
        except ValueError:
            return Reply(400, [])
    return send(ask)


@mutant("A9")
def stream_seq_is_ignored(ask: Ask, send: Send) -> Reply:
    """Stream-Seq never refuses."""
    return send(ask.drop("Stream-Seq"))


@mutant("A9")
def an_equal_stream_seq_passes(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Stream-Seq may repeat."""
    seq = ask.get("Stream-Seq")
    if seq and memory.get(ask.path) == seq:
        ask.drop("Stream-Seq")
    reply = send(ask)
    if seq and reply.status < 300:
        memory[ask.path] = seq
    return reply


@mutant("A9")
def stream_seq_is_global(ask: Ask, send: Send, memory: Memory) -> Reply:
    """One sequence for all streams."""
    seq = ask.get("Stream-Seq")
    if ask.method == "POST" and seq:
        if seq <= memory.get("last", "") and memory.get("path") != ask.path:
            return Reply(409, [])
        memory.update(last=seq, path=ask.path)
    return send(ask)


@mutant("A9")
def stream_seq_ignores_case(ask: Ask, send: Send) -> Reply:
    """Stream-Seq compares without case."""
    return send(ask.set("Stream-Seq", ask.get("Stream-Seq").lower()) if ask.has("Stream-Seq") else ask)


@mutant("A10")
def json_is_parsed_and_printed(ask: Ask, send: Send) -> Reply:
    """Messages are re-encoded when they are read."""
    reply = send(ask)
    if ask.is_catch_up and reply.status == 200 and reply.get("Content-Type").startswith("application/json"):
        reply.body = json.dumps(json.loads(reply.body)).encode()
    return reply


@mutant("A10")
def big_integers_become_floats(ask: Ask, send: Send) -> Reply:
    """Numbers beyond 2^53 are rounded."""
    reply = send(ask)
    if ask.is_catch_up and reply.status == 200 and reply.get("Content-Type") == "application/json":
        big = re.compile(rb"\d{17,}")
        reply.body = big.sub(lambda found: str(int(float(found[0]))).encode(), reply.body)
    return reply


@mutant("A10")
def two_levels_are_flattened(ask: Ask, send: Send) -> Reply:
    """Arrays in arrays are flattened too."""
    if ask.method == "POST" and ask.body.startswith(b"[[") and ask.body.endswith(b"]]"):
        ask.body = ask.body[1:-1] if ask.body.count(b"[") == 2 else ask.body.replace(b"],[", b",")[1:-1]
    return send(ask)


@mutant("A10")
def arrays_are_not_flattened(ask: Ask, send: Send) -> Reply:
    """A batch is one message."""
    if (
        ask.method == "POST"
        and ask.get("Content-Type").startswith("application/json")
        and ask.body[:1] == b"["
    ):
        ask.body = b"[" + ask.body + b"]"
    return send(ask)


@mutant("A10")
def batches_commit_their_good_part(ask: Ask, send: Send) -> Reply:
    """The elements before a bad one are stored."""
    reply = send(ask)
    if ask.method == "POST" and reply.status == 400 and ask.body.startswith(b"[1,2,"):
        send(ask.copy(body=b"[1,2]"))
    return reply


@mutant("A10")
def parameters_end_json_mode(ask: Ask, send: Send) -> Reply:
    """`application/json; v=2` is bytes."""
    if (
        ask.method == "POST"
        and ask.get("Content-Type").startswith("application/json;")
        and ask.body == b"oops"
    ):
        return Reply(204, [])
    return send(ask)
