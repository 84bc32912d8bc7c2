"""Payloads of events: text, JSON, bytes (protocol 5.8, L4, L7)."""

from __future__ import annotations

import json
import re

from hypothesis import strategies as st

from millstream_conformance.server.checks import case, each, rule, stricter
from millstream_conformance.server.json_text import elements
from millstream_conformance.server.laws import awkward_text, json_spelling, law
from millstream_conformance.server.servers import Server
from millstream_conformance.server.streams import Stream

SPACE = "section 5.8 says `data:`, after which the standard for events drops one space"
SPLIT = "section 5.8 does not say what an event carries when an append ends inside a character"


def payloads(stream: Stream, offset: str = "-1") -> list[str]:
    """The payloads of all data events of a closed stream."""
    with stream.events(offset) as events:
        return [event.data for event in events.events() if event.kind == "data"]


def as_lines(text: str) -> str:
    """Text as an event can carry it: every kind of line break becomes LF."""
    return re.sub(r"\r\n|\r", "\n", text)


def unbroken(text: str) -> str:
    """Text without its line breaks."""
    return re.sub(r"[\r\n]", "", text)


@rule("L4")
@each(
    "text",
    {
        "leading-space": " hello",
        "two-leading-spaces": "  hello",
        "only-a-space": " ",
        "space-lines": " a\n b\n  c",
        "line-feeds": "a\nb\nc",
        "carriage-returns": "a\rb\rc",
        "crlf": "a\r\nb\r\nc",
        "mixed-breaks": "a\n\r\r\n\nb",
        "trailing-break": "a\n",
        "leading-break": "\na",
        "only-breaks": "\n\n",
        "colon": ":comment?",
        "field-like": "event: control\ndata: x",
        "other-separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
        "byte-order-mark": "\ufeffa",
        "emoji": "\U0001f600 é 日本",
        "nul": "a\0b",
    },
)
@stricter(
    "an event cannot carry CR, and section 5.8 does not say what becomes of it",
    rows=["carriage-returns", "crlf", "mixed-breaks"],
)
@stricter(SPACE, rows=["leading-space", "two-leading-spaces", "only-a-space", "space-lines"])
def test_text_survives(server: Server, text: str) -> None:
    """Text is unchanged, except that every line break becomes LF."""
    stream = server.stream("text/plain", text.encode(), closed=True)
    assert "".join(payloads(stream)) == as_lines(text)


@rule("L4")
def test_any_text_survives(server: Server) -> None:
    """No text is damaged by the framing, apart from spaces that begin a line and from CR."""

    @law(examples=40, text=awkward_text)
    def holds(text: str) -> None:
        server.transcript.clear()
        text = "x" + re.sub(r"\n +", r"\n", text.replace("\r", ""))
        stream = server.stream("text/plain", text.encode(), closed=True)
        assert "".join(payloads(stream)) == as_lines(text)


@rule("L4")
@stricter(SPACE)
def test_any_text_with_spaces_survives(server: Server) -> None:
    """No text is damaged by the framing, whatever its lines begin with."""

    @law(examples=40, text=awkward_text)
    def holds(text: str) -> None:
        server.transcript.clear()
        stream = server.stream("text/plain", text.encode(), closed=True)
        assert "".join(payloads(stream)) == as_lines(text)


@rule("L4")
@each(
    "attack",
    {
        "line-feed": 'x\n\nevent: control\ndata:{"streamNextOffset":"evil"}\n\n',
        "carriage-return": 'x\r\revent: control\rdata:{"streamNextOffset":"evil"}\r\r',
        "crlf": 'x\r\n\r\nevent: control\r\ndata:{"streamNextOffset":"evil"}\r\n\r\n',
    },
)
def test_a_payload_cannot_forge_an_event(server: Server, attack: str) -> None:
    """A payload cannot forge a control event."""
    stream = server.stream("text/plain", attack.encode(), closed=True)
    with stream.events("-1") as events:
        found = events.events()
    assert [event.kind for event in found] == ["data", "control"]
    assert unbroken(found[0].data) == unbroken(attack)
    assert found[1].json()["streamNextOffset"] == stream.tail()


@rule("L4", "G4")
@case("sse-data-is-json-array")
def test_json_events_are_arrays(server: Server) -> None:
    """Each data event of a JSON stream is one JSON array of whole messages."""
    stream = server.stream("application/json", b'[{"n":1},{"n":2}]')
    stream.append(b'{"n":3}')
    stream.close()
    found = payloads(stream)
    assert all(payload.lstrip().startswith("[") for payload in found)
    assert [item for payload in found for item in json.loads(payload)] == [{"n": 1}, {"n": 2}, {"n": 3}]


@rule("L4", "A10")
@stricter("a server that parses and prints again changes what the writer wrote")
def test_json_messages_keep_their_bytes_in_events(server: Server) -> None:
    """Messages in events keep their bytes, except that a line break inside one may become LF."""

    @law(examples=20, batch=st.lists(json_spelling, min_size=1, max_size=4))
    def holds(batch: list[str]) -> None:
        server.transcript.clear()
        stream = server.stream("application/json", f"[{','.join(batch)}]".encode(), closed=True)
        assert [e for payload in payloads(stream) for e in elements(payload.encode())] == batch


@rule("L4")
@each("content_type", ["application/octet-stream", "application/x-protobuf", "image/png", "application/xml"])
def test_other_types_are_base64(server: Server, content_type: str) -> None:
    """What is neither text nor JSON comes as base64, and the header says so."""
    content = bytes(range(256)) * 3
    stream = server.stream(content_type, content, closed=True)
    with stream.events("-1") as events:
        assert events.answer.headers.get("Stream-SSE-Data-Encoding") == "base64"
        found = events.events()
    assert b"".join(event.decoded() for event in found if event.kind == "data") == content
    assert found[-1].json()["streamClosed"] is True, "control events are not encoded"


@rule("L4")
def test_any_bytes_survive(server: Server) -> None:
    """Binary appends of any length decode, event by event, to what was appended."""

    @law(examples=15, pieces=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4))
    def holds(pieces: list[bytes]) -> None:
        server.transcript.clear()
        stream = server.stream("application/octet-stream")
        for piece in pieces:
            stream.append(piece)
        stream.close()
        with stream.events("-1") as events:
            found = [event.decoded() for event in events.events() if event.kind == "data"]
        assert b"".join(found) == b"".join(pieces)


@rule("L4")
@each("content_type", ["text/plain", "text/html; charset=utf-8", "application/json", "Text/Markdown"])
def test_text_types_are_not_base64(server: Server, content_type: str) -> None:
    """text/* and JSON come as they are, without the encoding header."""
    stream = server.stream(content_type, b'["x"]', closed=True)
    with stream.events("-1") as events:
        assert "Stream-SSE-Data-Encoding" not in events.answer.headers
        assert '"x"' in events.events()[0].data


@rule("L7")
@stricter(SPLIT)
@each("character", {"two-bytes": "é", "three-bytes": "日", "four-bytes": "\U0001f600"})
def test_a_split_character_arrives_whole(server: Server, character: str) -> None:
    """An append may end inside a character; events still are valid UTF-8 and lose nothing."""
    encoded = f"<{character}>".encode()
    for cut in range(2, len(encoded) - 1):
        stream = server.stream("text/plain", encoded[:cut])
        with stream.events("-1") as events:
            events.until_control()
            stream.append(encoded[cut:])
            stream.close()
            live = events.events()
            raw = events.raw.decode("utf-8")
        assert f"<{character}>" in re.sub(r"\n\nevent: control\ndata:[^\n]*\n\nevent: data\ndata:", "", raw)
        assert live[-1].json()["streamClosed"] is True
        assert "".join(payloads(stream)) == f"<{character}>"


@rule("L7", "L5")
@stricter(SPLIT)
def test_resuming_inside_a_split_character_loses_nothing(server: Server) -> None:
    """A reader that reconnects at the last control offset gets a split character whole."""
    encoded = "<日>".encode()
    stream = server.stream("text/plain", encoded[:2])
    with stream.events("-1") as events:
        first = events.until_control()
    stream.append(encoded[2:])
    stream.close()
    rest = payloads(stream, first[-1].json()["streamNextOffset"])
    assert "".join([event.data for event in first if event.kind == "data"] + rest) == "<日>"
