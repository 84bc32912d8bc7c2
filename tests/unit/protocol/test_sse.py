"""Server-sent events: rules L4, L5, L7."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.content import Kind
from millstream.protocol.errors import MalformedError
from millstream.protocol.json_frames import frame
from millstream.protocol.offsets import format_offset
from millstream.protocol.sse import (
    KEEP_ALIVE,
    Control,
    Event,
    Parser,
    control_event,
    data_event,
    decode_base64,
    event_content,
    long_data_event,
    parse_control,
    whole_characters,
)


def parse(*pieces: bytes) -> list[Event]:
    parser = Parser()
    return [event for piece in pieces for event in parser.feed(piece)]


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


# -- Writing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "content", "event"),
    [
        (Kind.TEXT, b"hello", b"event: data\ndata:hello\n\n"),
        (Kind.TEXT, b"a\nb", b"event: data\ndata:a\ndata:b\n\n"),
        (Kind.TEXT, b"a\r\nb\rc\n", b"event: data\ndata:a\ndata:b\ndata:c\ndata:\n\n"),
        (Kind.TEXT, b" a\n  b\n\n c", b"event: data\ndata:  a\ndata:   b\ndata:\ndata:  c\n\n"),
        (Kind.TEXT, b"\n", b"event: data\ndata:\ndata:\n\n"),
        (Kind.JSON, b'{"a":1},2,', b'event: data\ndata:[{"a":1},2]\n\n'),
        (Kind.JSON, b'{"a":\n1},', b'event: data\ndata:[{"a":\ndata:1}]\n\n'),
        (Kind.BINARY, b"\x00\xff\n", b"event: data\ndata:AP8K\n\n"),
    ],
)
def test_a_data_event_is_written_to_the_letter(kind: Kind, content: bytes, event: bytes) -> None:
    """L4: one space after `event:`, none after `data:` unless the line begins with one."""
    assert data_event(kind, content) == event


@given(st.text(alphabet="a \r\n", max_size=40), st.lists(st.integers(0, 50), max_size=5))
def test_a_data_event_in_pieces_is_the_same_event(space: str, cuts: list[int]) -> None:
    """L4: wherever the message is cut, also between line breaks and spaces."""
    message = f"[{space}]".encode()
    edges = [0, *sorted(min(cut, len(message)) for cut in cuts), len(message)]
    pieces = [message[start:end] for start, end in pairwise(edges)]
    assert b"".join(long_data_event(pieces)) == data_event(Kind.JSON, message + b",")


def lines_of(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


@given(st.text(min_size=1))
def test_a_text_payload_survives_but_for_its_line_endings(text: str) -> None:
    """L4."""
    [event] = parse(data_event(Kind.TEXT, text.encode()))
    assert event.type == "data"
    assert event.data.split("\n") == lines_of(text)


@given(st.binary(min_size=1))
def test_a_binary_payload_survives_as_base64(content: bytes) -> None:
    """L4."""
    [event] = parse(data_event(Kind.BINARY, content))
    assert decode_base64(event.data) == content


@given(
    st.lists(st.text() | st.integers() | st.lists(st.text()), min_size=1, max_size=4),
    st.sampled_from([None, 1]),
)
def test_a_json_payload_is_one_array(messages: list[object], indent: int | None) -> None:
    """L4."""
    [event] = parse(data_event(Kind.JSON, frame(json.dumps(messages, indent=indent).encode())))
    assert json.loads(event.data) == messages


FORGERIES = [
    b"x\n\nevent: control\ndata:{}\n\n",
    b"x\r\rdata:forged\r\r",
    b"x\r\n\r\nevent: control\r\n",
    b"\n\n: comment\n\nretry: 1\n\nid: 5\n\n",
    b"event: control",
    b"\xef\xbb\xbfdata: x\n\n",
]


@pytest.mark.parametrize("payload", FORGERIES)
@pytest.mark.parametrize("kind", [Kind.TEXT, Kind.BINARY])
def test_no_payload_forges_an_event(kind: Kind, payload: bytes) -> None:
    """L4."""
    stream = KEEP_ALIVE + data_event(kind, payload) + control_event(9, 1, True, False)
    assert [event.type for event in parse(stream)] == ["data", "control"]


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\xff", "\ufffd"),
        (b"a\xc3", "a\ufffd"),
        (b"\xa4b", "\ufffdb"),
        (b"ok\xed\xa0\x80", "ok\ufffd\ufffd\ufffd"),
    ],
)
def test_text_that_is_not_utf8_is_shown_as_replacement_characters(content: bytes, shown: str) -> None:
    """L7: what goes over the wire is always valid UTF-8."""
    event = data_event(Kind.TEXT, content)
    assert event.decode() == f"event: data\ndata:{shown}\n\n"


@given(st.text(), st.integers(0, 3))
def test_a_cut_character_is_held_back(text: str, cut: int) -> None:
    """L7: exactly the bytes of the unfinished character, whatever was cut."""
    content = text.encode()[: len(text.encode()) - cut]
    whole = whole_characters(content)
    assert content[:whole] == content.decode(errors="ignore").encode()
    assert whole_characters(text.encode()) == len(text.encode())


@pytest.mark.parametrize(
    ("kind", "at_end", "sent"),
    [
        (Kind.TEXT, False, b"a"),
        (Kind.TEXT, True, b"a\xe2\x82"),
        (Kind.BINARY, False, b"a\xe2\x82"),
        (Kind.BINARY, True, b"a\xe2\x82"),
    ],
)
def test_only_text_that_goes_on_is_held_back(kind: Kind, at_end: bool, sent: bytes) -> None:
    """L7: at the end of a closed stream the rest of the character never comes."""
    assert event_content(kind, b"a\xe2\x82", at_end=at_end) == sent


@pytest.mark.parametrize(
    "content", [b"\xff", b"a\xfe", b"a\xc0", b"\xc1", b"\xf5", b"\xf8\x80", b"\x80", b"\xbf" * 5]
)
def test_bytes_that_never_become_a_character_are_not_held_back(content: bytes) -> None:
    """L7: or a reader of a text that is not UTF-8 would wait for its last byte."""
    assert whole_characters(content) == len(content)


@pytest.mark.parametrize(
    ("cursor", "up_to_date", "closed", "fields"),
    [
        (7, False, False, '"streamCursor":"7"'),
        (7, True, False, '"streamCursor":"7","upToDate":true'),
        (7, True, True, '"upToDate":true,"streamClosed":true'),
        (None, True, True, '"upToDate":true,"streamClosed":true'),
    ],
)
def test_a_control_event_is_one_flat_line(
    cursor: int | None, up_to_date: bool, closed: bool, fields: str
) -> None:
    """L5: and a closed stream has no cursor."""
    event = control_event(42, cursor, up_to_date, closed).decode()
    assert event == f'event: control\ndata:{{"streamNextOffset":"{format_offset(42).decode()}",{fields}}}\n\n'


@given(st.integers(0, 10**20), st.integers(0, 10**9), st.booleans(), st.booleans())
def test_what_a_control_event_says_is_what_is_read(
    offset: int, cursor: int, up_to_date: bool, closed: bool
) -> None:
    """L5."""
    [event] = parse(control_event(offset, cursor, up_to_date, closed))
    assert parse_control(event.data) == Control(
        stream_next_offset=format_offset(offset).decode(),
        stream_cursor=None if closed else str(cursor),
        up_to_date=up_to_date or closed,
        stream_closed=closed,
    )


# -- Reading -------------------------------------------------------------------------------------

STREAMS = {
    "events": (b"event: data\ndata:1\n\nevent: control\ndata:2\n\n", [("data", "1"), ("control", "2")]),
    "several lines": (b"data:a\ndata:b\ndata:\n\n", [("message", "a\nb\n")]),
    "one space is dropped": (b"data: a\ndata:  b\ndata:c\n\n", [("message", "a\n b\nc")]),
    "comments": (b": keep-alive\n\n:x\ndata:a\n:y\n\n", [("message", "a")]),
    "other fields": (b"id: 1\nretry: 5\nnonsense\ndatax: 1\ndata:a\n\n", [("message", "a")]),
    "no colon": (b"data\ndata\n\n", [("message", "\n")]),
    "no data, no event": (b"event: data\n\ndata:a\n\n", [("message", "a")]),
    "an empty line of data": (b"data:\n\n", [("message", "")]),
    "the last type counts": (b"event: a\nevent: b\ndata:1\n\n", [("b", "1")]),
    "an unfinished event": (b"data:a\n\ndata:b\n", [("message", "a")]),
    "colons in values": (b"data::a:b\n\n", [("message", ":a:b")]),
    "a byte order mark": (b"\xef\xbb\xbfdata:a\n\n", [("message", "a")]),
    "characters": ("data:ä€😀\n\n".encode(), [("message", "ä€😀")]),
    "a broken character": (b"data:\xff\xc3\n\n", [("message", "\ufffd\ufffd")]),
    "line separators of Unicode": ("data:a\u2028b\x85c\x0b\n\n".encode(), [("message", "a\u2028b\x85c\x0b")]),
    "blank lines": (b"\n\n\n\ndata:a\n\n\n\n", [("message", "a")]),
}


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("how", ["whole", "byte by byte", "in twos", "with empty pieces"])
@pytest.mark.parametrize("which", STREAMS)
def test_events_are_the_same_however_they_arrive(which: str, how: str, ending: bytes) -> None:
    """L4."""
    stream, events = STREAMS[which]
    stream = stream.replace(b"\n", ending)
    pieces = {
        "whole": [stream],
        "byte by byte": byte_by_byte(stream),
        "in twos": [stream[at : at + 2] for at in range(0, len(stream), 2)],
        "with empty pieces": [piece for byte in byte_by_byte(stream) for piece in (byte, b"")],
    }[how]
    assert [(event.type, event.data) for event in parse(*pieces)] == events


@given(
    st.lists(
        st.sampled_from(
            [b"data:", b"event: x", b"a", b" ", b":", b"\n", b"\r", b"\r\n", b"\xc3\xa4", b"\xff"]
        )
    )
)
def test_any_bytes_are_read_alike_in_any_pieces(tokens: list[bytes]) -> None:
    """L4."""
    stream = b"".join(tokens)
    assert parse(stream) == parse(*byte_by_byte(stream)) == parse(*tokens)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "null",
        "[]",
        "{",
        "{}",
        '{"upToDate":true}',
        '{"streamNextOffset":5}',
        '{"streamNextOffset":null}',
        '{"streamNextOffset":"1","upToDate":"yes"}',
        '{"streamNextOffset":"1","streamClosed":1}',
        '{"streamNextOffset":"1","streamCursor":7}',
        '{"streamNextOffset":"1"} trailing',
    ],
)
def test_a_control_event_that_is_not_one_is_refused(data: str) -> None:
    """L5."""
    with pytest.raises(MalformedError) as refused:
        parse_control(data)
    assert refused.value.code == "INVALID_CONTROL_EVENT"


def test_a_control_event_may_say_more_than_we_know() -> None:
    """L5."""
    assert parse_control('{"streamNextOffset":"1","new":{"x":1}}') == Control("1")
    assert parse_control('{"streamNextOffset":"1","streamClosed":true}').up_to_date


def test_base64_may_be_broken_into_lines() -> None:
    """L4."""
    assert decode_base64("AP8K\nAP8K\n") == b"\x00\xff\n" * 2
    assert decode_base64("") == b""


@pytest.mark.parametrize("data", ["A", "AP8", "AP8*", "AP-_", "ÄÄÄÄ"])
def test_what_is_not_base64_is_refused(data: str) -> None:
    """L4."""
    with pytest.raises(MalformedError) as refused:
        decode_base64(data)
    assert refused.value.code == "INVALID_BASE64"
