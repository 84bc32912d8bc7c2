"""Servers that are wrong about names and about creating streams."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from urllib.parse import quote, unquote

from conformance.mutants import Memory, mutant
from conformance.proxy import Ask, Reply, Send


@mutant("P1")
def deep_paths_are_unknown(ask: Ask, send: Send) -> Reply:
    """Only paths of up to six segments are streams."""
    return Reply(404, []) if ask.path.count("/") > 6 else send(ask)


@mutant("P1")
def a_child_is_part_of_its_parent(ask: Ask, send: Send) -> Reply:
    """The last segment of a nested path is ignored."""
    if ask.path.endswith("/y"):
        ask.path = ask.path.removesuffix("/y")
    return send(ask)


@mutant("P2")
def reserved_paths_are_streams(ask: Ask, send: Send) -> Reply:
    """`__ds` is an ordinary name."""
    ask.path = re.sub(r"/__ds/", "/ds--/", ask.path)
    return send(ask)


@mutant("P2")
def encoded_reserved_paths_are_streams(ask: Ask, send: Send) -> Reply:
    """The reserved segment is compared before it is decoded."""
    ask.path = re.sub(r"(?i)/(%5f%5f|%5f_|__%64)", "/ds--", ask.path)
    return send(ask)


@mutant("P2")
def reserved_anywhere(ask: Ask, send: Send) -> Reply:
    """`__ds` is refused also further down a path."""
    return Reply(404, []) if "/__ds/" in ask.path.lstrip("/").partition("/")[2] else send(ask)


@mutant("P3")
def control_characters_are_dropped(ask: Ask, send: Send) -> Reply:
    """Control characters in a name are ignored instead of refused."""
    ask.path = re.sub(r"(?i)%(0[0-9a-f]|1[0-9a-f]|7f)", "", ask.path)
    return send(ask)


@mutant("P3")
def dot_segments_are_resolved(ask: Ask, send: Send) -> Reply:
    """`..` climbs."""
    ask.path = posixpath.normpath(re.sub("(?i)%2e", ".", ask.path))
    return send(ask)


@mutant("P3")
def broken_utf8_is_replaced(ask: Ask, send: Send) -> Reply:
    """Names are decoded with replacement characters."""
    if unquote(ask.path) != unquote(ask.path, errors="ignore"):
        ask.path = quote(unquote(ask.path))
    return send(ask)


@mutant("P3")
def names_ignore_case(ask: Ask, send: Send) -> Reply:
    """`Name` and `name` are one stream."""
    ask.path = ask.path.lower()
    return send(ask)


@mutant("P3")
def names_are_normalised(ask: Ask, send: Send) -> Reply:
    """Unicode normal forms are one stream."""
    text = unquote(ask.path, errors="surrogateescape")
    ask.path = (
        quote(unicodedata.normalize("NFC", text), errors="surrogateescape") if "%" in ask.path else ask.path
    )
    return send(ask)


@mutant("P3")
def percent_signs_are_part_of_the_name(ask: Ask, send: Send) -> Reply:
    """Names are not decoded."""
    ask.path = ask.path.replace("%", "%25") if re.search("%[6-9a-z]", ask.path) else ask.path
    return send(ask)


@mutant("P3")
def long_names_are_cut(ask: Ask, send: Send) -> Reply:
    """Names are cut to 900 bytes."""
    ask.path = ask.path[:900]
    return send(ask)


@mutant("C1", "A1")
def created_is_200(ask: Ask, send: Send) -> Reply:
    """A new stream is answered with 200."""
    reply = send(ask)
    reply.status = 200 if ask.method == "PUT" and reply.status == 201 else reply.status
    return reply


@mutant("C1")
def existing_is_201(ask: Ask, send: Send) -> Reply:
    """A stream that exists is answered like a new one."""
    reply = send(ask)
    reply.status = 201 if ask.method == "PUT" and reply.status == 200 else reply.status
    return reply


@mutant("C1")
def configuration_is_not_compared(ask: Ask, send: Send) -> Reply:
    """Any PUT to an existing stream succeeds."""
    reply = send(ask)
    reply.status = 200 if ask.method == "PUT" and reply.status == 409 else reply.status
    return reply


@mutant("C1")
def ttl_is_not_configuration(ask: Ask, send: Send) -> Reply:
    """Two TTLs are the same configuration."""
    reply = send(ask)
    reply.status = (
        200 if ask.method == "PUT" and ask.has("Stream-TTL") and reply.status == 409 else reply.status
    )
    return reply


@mutant("C1")
def content_types_compare_exactly(ask: Ask, send: Send) -> Reply:
    """`Text/Plain` and `text/plain` conflict."""
    reply = send(ask)
    if ask.method == "PUT" and reply.status == 200 and ask.get("Content-Type") != reply.get("Content-Type"):
        reply.status = 409
    return reply


@mutant("C1")
def a_repeated_put_appends(ask: Ask, send: Send) -> Reply:
    """The body of a PUT to an existing stream is appended."""
    reply = send(ask)
    if ask.method == "PUT" and reply.status == 200 and ask.body:
        send(Ask("POST", ask.path, [("Content-Type", ask.get("Content-Type"))], ask.body))
    return reply


@mutant("C2")
def location_is_relative(ask: Ask, send: Send) -> Reply:
    """Location is only a path."""
    reply = send(ask)
    return reply.set("Location", ask.path) if reply.has("Location") else reply


@mutant("C2")
def location_is_missing(ask: Ask, send: Send) -> Reply:
    """201 without Location."""
    return send(ask).drop("Location")


@mutant("C2")
def forwarded_host_is_trusted(ask: Ask, send: Send) -> Reply:
    """Anybody can choose the host in Location."""
    if ask.has("X-Forwarded-Host"):
        ask.set("Host", ask.get("X-Forwarded-Host"))
    return send(ask)


@mutant("C3")
def ttls_are_parsed_kindly(ask: Ask, send: Send) -> Reply:
    """`+60`, `060` and `60.0` are 60."""
    if number := re.fullmatch(r"\+?0*(\d+)(\.0)?", ask.get("Stream-TTL")):
        ask.set("Stream-TTL", number[1])
    return send(ask)


@mutant("C3")
def bad_expiries_are_ignored(ask: Ask, send: Send) -> Reply:
    """An expiry that cannot be parsed is no expiry."""
    reply = send(ask)
    if reply.status == 400 and ask.has("Stream-Expires-At") and not ask.has("Stream-TTL"):
        return send(ask.copy().drop("Stream-Expires-At"))
    return reply


@mutant("C3")
def ttl_wins_over_expiry(ask: Ask, send: Send) -> Reply:
    """Both lifetimes may be given."""
    return send(ask.drop("Stream-Expires-At") if ask.has("Stream-TTL") else ask)


@mutant("C4")
def the_body_of_put_is_lost(ask: Ask, send: Send) -> Reply:
    """A created stream is always empty."""
    return send(ask.copy(body=b"") if ask.method == "PUT" else ask)


@mutant("C4")
def put_cannot_close(ask: Ask, send: Send) -> Reply:
    """Stream-Closed is ignored on PUT."""
    return send(ask.drop("Stream-Closed") if ask.method == "PUT" else ask)


@mutant("C4")
def created_closed_is_not_said(ask: Ask, send: Send) -> Reply:
    """The answer to a closed PUT does not say closed."""
    reply = send(ask)
    return reply.drop("Stream-Closed") if ask.method == "PUT" else reply


@mutant("C4")
def an_empty_array_cannot_create(ask: Ask, send: Send) -> Reply:
    """PUT with `[]` is 400, as POST is."""
    return Reply(400, []) if ask.method == "PUT" and ask.body == b"[]" else send(ask)


@mutant("C5")
def expired_paths_stay_taken(ask: Ask, send: Send, memory: Memory) -> Reply:
    """The configuration of an expired stream is still compared."""
    if ask.method == "PUT" and memory.setdefault(ask.path, ask.get("Content-Type")) != ask.get(
        "Content-Type"
    ):
        return Reply(409, [])
    return send(ask)


@mutant("C6", "G4")
def a_charset_is_added(ask: Ask, send: Send) -> Reply:
    """Text and JSON get a charset that nobody asked for."""
    reply = send(ask)
    if ask.is_catch_up and reply.get("Content-Type") in {"text/plain", "application/json"}:
        reply.set("Content-Type", reply.get("Content-Type") + "; charset=utf-8")
    return reply


@mutant("C6")
def content_types_are_lowercased(ask: Ask, send: Send) -> Reply:
    """The content type is stored in lower case."""
    reply = send(ask)
    return (
        reply.set("Content-Type", reply.get("Content-Type").lower()) if reply.get("Content-Type") else reply
    )


@mutant("C6")
def the_default_type_is_text(ask: Ask, send: Send) -> Reply:
    """A PUT without a content type makes a text stream."""
    if ask.method == "PUT" and not ask.has("Content-Type"):
        ask.set("Content-Type", "text/plain")
    return send(ask)
