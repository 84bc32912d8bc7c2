"""Servers that are wrong about encoded bodies and about producers."""

from __future__ import annotations

import re

from conformance.mutants import Memory, mutant
from conformance.mutants_appending import PRODUCER, unstamped
from conformance.proxy import Ask, Reply, Send


@mutant("A11")
def compressed_bodies_are_stored_compressed(ask: Ask, send: Send) -> Reply:
    """Content-Encoding is ignored."""
    return send(ask.drop("Content-Encoding"))


@mutant("A11")
def unknown_encodings_are_ignored(ask: Ask, send: Send) -> Reply:
    """A body in an unknown encoding is stored as it is."""
    return send(ask.drop("Content-Encoding") if ask.get("Content-Encoding") == "rot13" else ask)


@mutant("A11")
def unknown_encodings_are_400(ask: Ask, send: Send) -> Reply:
    """415 would have said why."""
    reply = send(ask)
    reply.status = 400 if reply.status == 415 else reply.status
    return reply


@mutant("A11")
def damaged_bodies_are_accepted(ask: Ask, send: Send) -> Reply:
    """What does not decode is appended as it is."""
    reply = send(ask)
    if reply.status == 400 and ask.has("Content-Encoding") and ask.body:
        return send(ask.copy().drop("Content-Encoding"))
    return reply


@mutant("A11", "H4")
def giants_are_refused_late(ask: Ask, send: Send) -> Reply:
    """A body that is too large is 400 instead of 413."""
    reply = send(ask)
    reply.status = 400 if reply.status == 413 else reply.status
    return reply


@mutant("A11", "H4")
def bombs_are_accepted(ask: Ask, send: Send) -> Reply:
    """The size of a body is not checked after decoding."""
    return Reply(204, []) if len(ask.body) > 500_000 and ask.has("Content-Encoding") else send(ask)


@mutant("R1")
def half_a_producer_is_ignored(ask: Ask, send: Send) -> Reply:
    """Incomplete producer headers are dropped."""
    return send(ask if all(ask.has(name) for name in PRODUCER) else unstamped(ask))


@mutant("R1")
def empty_producer_ids_are_accepted(ask: Ask, send: Send) -> Reply:
    """A producer may have no name."""
    return send(
        ask.set("Producer-Id", "anonymous") if ask.has("Producer-Id") and not ask.get("Producer-Id") else ask
    )


@mutant("R1")
def producer_numbers_are_parsed_kindly(ask: Ask, send: Send) -> Reply:
    """`+0`, `0.0` and `0x0` are 0."""
    for name in ("Producer-Epoch", "Producer-Seq"):
        if re.fullmatch(r"[+]0|0\.0|0e0|0x0", ask.get(name)):
            ask.set(name, "0")
    return send(ask)


@mutant("R1")
def producer_numbers_are_unlimited(ask: Ask, send: Send) -> Reply:
    """Numbers beyond 2^53-1 are accepted."""
    for name in ("Producer-Epoch", "Producer-Seq"):
        if re.fullmatch(r"\d{16,}", ask.get(name)) and int(ask.get(name)) > 9007199254740991:
            ask.set(name, "0")
    return send(ask)


@mutant("R1")
def empty_numbers_are_zero(ask: Ask, send: Send) -> Reply:
    """An empty epoch or seq counts as 0."""
    for name in ("Producer-Epoch", "Producer-Seq"):
        if ask.has(name) and not ask.get(name):
            ask.set(name, "0")
    return send(ask)


@mutant("R2")
def producers_may_start_anywhere(ask: Ask, send: Send) -> Reply:
    """An unknown producer is accepted with any seq."""
    reply = send(ask)
    if reply.status == 409 and reply.get("Producer-Expected-Seq") == "0":
        again = send(unstamped(ask))
        again.status = 200
        return again
    return reply


@mutant("R2")
def fencing_is_409(ask: Ask, send: Send) -> Reply:
    """A zombie gets 409."""
    reply = send(ask)
    reply.status = 409 if reply.status == 403 else reply.status
    return reply


@mutant("R2")
def fencing_does_not_say_the_epoch(ask: Ask, send: Send) -> Reply:
    """403 without Producer-Epoch."""
    reply = send(ask)
    return reply.drop("Producer-Epoch") if reply.status == 403 else reply


@mutant("R2")
def fencing_echoes_the_zombies_epoch(ask: Ask, send: Send) -> Reply:
    """403 with the epoch that the client sent."""
    reply = send(ask)
    return reply.set("Producer-Epoch", ask.get("Producer-Epoch")) if reply.status == 403 else reply


@mutant("R2")
def zombies_may_write(ask: Ask, send: Send) -> Reply:
    """A lower epoch is accepted."""
    reply = send(ask)
    if reply.status == 403:
        send(unstamped(ask))
        reply.status = 200
    return reply


@mutant("R2")
def new_epochs_may_start_anywhere(ask: Ask, send: Send) -> Reply:
    """A higher epoch with a seq above 0 is 409 instead of 400."""
    reply = send(ask)
    if reply.status == 400 and all(ask.get(name).isdigit() for name in PRODUCER[1:]) and ask.body:
        reply.status = 409
    return reply


@mutant("R2")
def gaps_are_accepted(ask: Ask, send: Send) -> Reply:
    """A seq may be left out."""
    reply = send(ask)
    if reply.status == 409 and reply.has("Producer-Expected-Seq"):
        send(unstamped(ask))
        reply.status = 200
    return reply


@mutant("R2")
def gaps_do_not_say_what_is_expected(ask: Ask, send: Send) -> Reply:
    """409 without Producer-Expected-Seq."""
    return send(ask).drop("Producer-Expected-Seq")


@mutant("R2")
def gaps_do_not_say_what_came(ask: Ask, send: Send) -> Reply:
    """409 without Producer-Received-Seq."""
    return send(ask).drop("Producer-Received-Seq")


@mutant("R2")
def producer_ids_ignore_case(ask: Ask, send: Send) -> Reply:
    """`P` and `p` are one producer."""
    return send(ask.set("Producer-Id", ask.get("Producer-Id").lower()) if ask.get("Producer-Id") else ask)


@mutant("R2")
def epochs_belong_to_the_server(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A producer that was fenced on one stream is fenced on all."""
    if ask.has("Producer-Epoch") and ask.get("Producer-Epoch").isdigit():
        key, epoch = ask.get("Producer-Id"), int(ask.get("Producer-Epoch"))
        if epoch < memory.get(key, 0):
            return Reply(403, [("Producer-Epoch", str(memory[key]))])
        memory[key] = epoch
    return send(ask)


@mutant("R3")
def repeats_echo_their_own_seq(ask: Ask, send: Send) -> Reply:
    """Producer-Seq of a repeat is not the highest one."""
    reply = send(ask)
    return reply.set("Producer-Seq", ask.get("Producer-Seq")) if reply.has("Producer-Seq") else reply


@mutant("R3")
def epochs_are_not_echoed(ask: Ask, send: Send) -> Reply:
    """Success without Producer-Epoch."""
    reply = send(ask)
    return reply.drop("Producer-Epoch") if reply.status < 300 else reply


@mutant("R3")
def seqs_are_not_echoed(ask: Ask, send: Send) -> Reply:
    """Success without Producer-Seq."""
    return send(ask).drop("Producer-Seq")


@mutant("R4", "R2")
def retries_append_again(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A repeat is answered as one, and stored all the same."""
    reply = send(ask)
    if ask.method == "POST" and ask.has("Producer-Id") and reply.status == 204 and ask.body:
        send(unstamped(ask))
    return reply


@mutant("R4")
def a_repeat_replaces_nothing_but_fails_on_other_bytes(ask: Ask, send: Send, memory: Memory) -> Reply:
    """A repeat with another body is refused."""
    key = (*tuple(ask.get(name) for name in PRODUCER), ask.path)
    if ask.method == "POST" and ask.has("Producer-Id") and memory.setdefault(str(key), ask.body) != ask.body:
        return Reply(409, [])
    return send(ask)


@mutant("R4")
def refused_appends_use_up_their_seq(ask: Ask, send: Send, memory: Memory) -> Reply:
    """After a refusal the same stamp is taken for a repeat."""
    key = str((ask.path, *(ask.get(name) for name in PRODUCER)))
    if ask.method == "POST" and ask.has("Producer-Id") and memory.get(key):
        return Reply(204, [])
    reply = send(ask)
    memory[key] = reply.status in {400, 409}
    return reply


@mutant("R4", "R2")
def refused_appends_are_stored(ask: Ask, send: Send) -> Reply:
    """A fenced append is refused and stored."""
    reply = send(ask)
    if reply.status == 403 and ask.body:
        send(unstamped(ask))
    return reply


@mutant("R5")
def overtaking_appends_are_stored_as_they_come(ask: Ask, send: Send) -> Reply:
    """Pipelined appends that overtake each other change places."""
    reply = send(ask)
    if reply.status == 409 and reply.has("Producer-Expected-Seq"):
        again = send(unstamped(ask))
        again.status = 200
        return again
    return reply


@mutant("R5", "R4")
def racing_retries_are_all_new(ask: Ask, send: Send) -> Reply:
    """Every copy of a racing retry is acknowledged as new."""
    reply = send(ask)
    reply.status = 200 if ask.has("Producer-Id") and reply.status == 204 else reply.status
    return reply
