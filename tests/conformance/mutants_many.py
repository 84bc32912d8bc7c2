"""Servers that are wrong about many streams on one connection."""

from __future__ import annotations

import json
from urllib.parse import unquote

from conformance.mutants import mutant
from conformance.proxy import Ask, Reply, Send


def is_about_many(ask: Ask) -> bool:
    return ask.path.endswith("/__ds/events")


def field_of(block: str, name: str) -> object:
    """A field of the JSON of an event that is not data."""
    if "event: data" in block or "data:" not in block:
        return None
    return json.loads(block.partition("data:")[2]).get(name)


def map_many(ask: Ask, send: Send, change: object) -> Reply:
    reply = send(ask)
    return reply.map_events(change) if is_about_many(ask) else reply  # type: ignore[arg-type]  # a callable


@mutant("X9")
def events_of_many_have_no_ids(ask: Ask, send: Send) -> Reply:
    """Events do not say where to go on."""

    def change(block: str) -> str:
        return "\n".join(line for line in block.split("\n") if not line.startswith("id:"))

    return map_many(ask, send, change)


@mutant("X9")
def events_of_many_have_no_paths(ask: Ask, send: Send) -> Reply:
    """Control events do not name their stream."""

    def change(block: str) -> str:
        path = field_of(block, "streamPath")
        return block.replace(f'"streamPath":{json.dumps(path, ensure_ascii=False)},', "") if path else block

    return map_many(ask, send, change)


@mutant("X9")
def streams_join_without_their_type(ask: Ask, send: Send) -> Reply:
    """No content type precedes the data."""

    def change(block: str) -> str:
        return block.replace('"streamContentType"', '"type"')

    return map_many(ask, send, change)


@mutant("X9")
def deleted_streams_leave_in_silence(ask: Ask, send: Send) -> Reply:
    """A deleted stream has no last event."""
    return map_many(ask, send, lambda block: ": gone" if field_of(block, "streamDeleted") else block)


@mutant("X9")
def a_missing_stream_refuses_all(ask: Ask, send: Send) -> Reply:
    """One stream that is not there is 404 for all."""
    if is_about_many(ask) and ask.method == "GET":
        for part in ask.query.split("&"):
            name, _, value = part.partition("=")
            path = unquote(value).rpartition("@")[0]
            if name == "stream" and path.startswith("/") and "__ds" not in path:
                found = send(Ask("HEAD", ask.path.removesuffix("/__ds/events") + path, list(ask.fields)))
                if found.status == 404:
                    found.set("content-length", "0")
                    return found
    return send(ask)


@mutant("X9")
def globs_begin_at_the_beginning(ask: Ask, send: Send) -> Reply:
    """Streams that a glob finds are read from their first byte."""
    asks_now = is_about_many(ask) and ask.param("glob") and ask.param("from") in ("", "now")
    if asks_now:
        ask.target += "&from=-1"
    return send(ask)


@mutant("X9")
def a_position_in_globs_is_forgotten(ask: Ask, send: Send) -> Reply:
    """A reader of a glob that comes back misses what was created meanwhile."""
    if is_about_many(ask) and ":" in ask.param("from"):
        origin = ask.param("from").replace(":", "%3A")
        ask.target = ask.target.replace(f"from={origin}", "from=now")
    return send(ask)


@mutant("X9")
def streams_may_be_named_without_offsets(ask: Ask, send: Send) -> Reply:
    """A stream without an offset is read from the beginning."""
    if is_about_many(ask) and ask.query == "stream=/a":
        ask.target += "@-1"
    return send(ask)
