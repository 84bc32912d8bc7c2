"""Servers that are wrong about parts of many streams."""

from __future__ import annotations

import json
from typing import Any

from conformance.mutants import mutant
from conformance.proxy import Ask, Reply, Send

NEEDS = ("many",)


def is_about_many(ask: Ask) -> bool:
    return ask.method == "POST" and ask.path.endswith("/__ds/parts")


def is_json(ask: Ask) -> bool:
    return is_about_many(ask) and ask.body.startswith(b"{")


def change_outcomes(ask: Ask, reply: Reply, change: Any) -> Reply:
    if is_about_many(ask) and reply.status == 200:
        reply.body = json.dumps({"outcomes": change(json.loads(reply.body)["outcomes"])}).encode()
    return reply


@mutant("X5", needs=NEEDS)
def entries_are_answered_backwards(ask: Ask, send: Send) -> Reply:
    """Outcomes are not in the order of the entries."""
    return change_outcomes(ask, send(ask), lambda found: found[::-1])


@mutant("X5", needs=NEEDS)
def one_bad_entry_refuses_all(ask: Ask, send: Send) -> Reply:
    """The request is refused where one entry is malformed."""
    if is_json(ask) and any("path" not in one for one in json.loads(ask.body)["entries"]):
        return Reply(400, [("content-length", "2")], b"{}")
    return send(ask)


@mutant("X5", needs=NEEDS)
def only_the_first_entry_is_done(ask: Ask, send: Send) -> Reply:
    """The other entries succeed without being done."""
    if not is_json(ask) or ask.query != "commit":
        return send(ask)
    entries = json.loads(ask.body).get("entries")
    if not isinstance(entries, list) or len(entries) < 2:
        return send(ask)
    reply = send(ask.copy(body=json.dumps({"entries": entries[:1]}).encode()))
    return change_outcomes(ask, reply, lambda found: found * len(entries))


@mutant("X5", needs=NEEDS)
def outcomes_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """Outcomes have no offsets."""
    reply = send(ask)
    return change_outcomes(
        ask,
        reply,
        lambda found: [{**one, "nextOffset": "0000000000000000_0000000000000000"} for one in found],
    )


@mutant("X5", needs=NEEDS)
def fingerprints_are_ignored(ask: Ask, send: Send) -> Reply:
    """A duplicate succeeds whatever it holds."""
    if b'"fingerprint"' in ask.body:
        body = json.loads(ask.body)
        for one in [body, *body.get("entries", [])]:
            one.pop("fingerprint", None)
        ask.body = json.dumps(body).encode()
    return send(ask)


@mutant("X5", needs=NEEDS)
def fingerprints_are_ignored_in_requests_of_one(ask: Ask, send: Send) -> Reply:
    """Only commits of many streams compare them."""
    if b'"fingerprint"' in ask.body and not is_about_many(ask):
        body = json.loads(ask.body)
        body.pop("fingerprint")
        ask.body = json.dumps(body).encode()
    return send(ask)


@mutant("X5", needs=NEEDS)
def producers_of_entries_are_ignored(ask: Ask, send: Send) -> Reply:
    """A repeated commit is one of missing parts."""
    if is_json(ask) and b'"producer"' in ask.body:
        body = json.loads(ask.body)
        for one in body["entries"]:
            one.pop("producer", None)
        ask.body = json.dumps(body).encode()
    return send(ask)


@mutant("X5", needs=NEEDS)
def expected_offsets_of_entries_are_ignored(ask: Ask, send: Send) -> Reply:
    """An entry is committed wherever its stream ends."""
    if is_json(ask) and b'"expectedOffset"' in ask.body:
        body = json.loads(ask.body)
        for one in body["entries"]:
            one.pop("expectedOffset", None)
        ask.body = json.dumps(body).encode()
    return send(ask)


@mutant("X5", needs=NEEDS)
def raw_bodies_are_refused(ask: Ask, send: Send) -> Reply:
    """There is only the form in JSON."""
    if is_about_many(ask) and "vnd.millstream.parts" in ask.get("content-type"):
        return Reply(415, [("content-length", "2")], b"{}")
    return send(ask)


@mutant("X5", needs=NEEDS)
def stage_is_the_default(ask: Ask, send: Send) -> Reply:
    """A request that says neither stage nor commit is accepted."""
    if is_about_many(ask) and ask.query not in ("stage", "commit"):
        body = b'{"outcomes":[]}'
        return Reply(200, [("content-type", "application/json"), ("content-length", str(len(body)))], body)
    return send(ask)
