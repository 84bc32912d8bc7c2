"""JSON framing: rules A3, A10, G4."""

import json
import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.protocol import json_frames, json_slices
from millstream.protocol.errors import MalformedError
from millstream.protocol.json_frames import MAX_DEPTH, frame, message_ends, wrap

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (b"1", b"1,"),
        (b'{"a":1}', b'{"a":1},'),
        (b" \r\n\t1 \n", b"1,"),
        (b"[]", b""),
        (b" [ ] ", b""),
        (b"[1,2]", b"1,2,"),
        (b"[ 1 , 2 ]", b"1,2,"),
        (b"[[1,2],[3]]", b"[1,2],[3],"),
        (b"[[]]", b"[],"),
        (b"[[[]]]", b"[[]],"),
        (b'"[1,2]"', b'"[1,2]",'),
    ],
)
def test_one_level_of_array_is_flattened(body: bytes, stored: bytes) -> None:
    """A10."""
    assert frame(body) == stored


@pytest.mark.parametrize(
    "message",
    [
        b"18446744073709551617",  # 2^64 + 1
        b"9" * 1_000_000,
        b"-0",
        b"1.10",
        b"1E+400",
        b'{"b": 1,  "a" :2, "b":3}',
        b'"\\u00e4\\/\\ud83d\\ude00"',
        '"ä\u2028😀\x7f"'.encode(),
        b'"a,b]\\"],"',
        b'{ "a": [ 1, 2 ],\n "b": null }',
    ],
)
def test_a_message_keeps_its_own_bytes(message: bytes) -> None:
    """A10: big integers, key order, repeated keys, escapes and inner spacing survive."""
    assert frame(message) == message + b","
    assert frame(b"[" + message + b", " + message + b"]") == (message + b",") * 2


@pytest.mark.parametrize(
    "message",
    [
        b'"\\ud800"',
        b'"\\uDFFF tail"',
        b'{"\\ud83d":"\\udc00\\ud83d"}',
        b'"\\\\ud800 \\ud800"',
        b'["\\ud800",1,"\\ud800"]',
    ],
)
def test_an_escaped_surrogate_without_its_partner_is_json_too(message: bytes) -> None:
    """A10: JavaScript writes them, and they stay as they were written."""
    stored = frame(b"[1," + message + b" , " + message + b"]")
    assert stored == b"1," + message + b"," + message + b","
    assert message_ends(stored) == [2, 3 + len(message), len(stored)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"1 2",
        b"[1]]",
        b"[1],",
        b"nul",
        b"nullx",
        b"01",
        b"+1",
        b".5",
        b"1.",
        b"1e",
        b"- 1",
        b"0x10",
        b"{1:2}",
        b"{a:1}",
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a"}',
        b'"abc',
        b'"a\nb"',
        b'"\\x41"',
        b'"\\u12"',
        b'"\\ud800',
        b"\x0c1",
        b"1\x00",
        b"\xef\xbb\xbf1",
        b"undefined",
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    """A3."""
    with pytest.raises(MalformedError) as refused:
        frame(body)
    assert refused.value.code == "INVALID_JSON"


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"inf"])
@pytest.mark.parametrize("place", [b"%b", b"[1,%b]", b'{"a":%b}'])
def test_numbers_that_json_does_not_have_are_refused(place: bytes, number: bytes) -> None:
    """A3."""
    with pytest.raises(MalformedError):
        frame(place % number)


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"])
@pytest.mark.parametrize("place", [b'"%b"', b'["a","%b"]', b'{"%b":1}'])
def test_invalid_utf8_is_refused_wherever_it_is(place: bytes, text: bytes) -> None:
    """A3."""
    with pytest.raises(MalformedError):
        frame(place % text)


NESTINGS = {
    "arrays": (b"[", b"", b"]"),
    "objects": (b'{"a":', b"1", b"}"),
    "both": (b'[{"[":', b"1", b"}]"),
    "with strings": (b'["[[[\\"[[",', b"1", b"]"),
}


def nested(levels: int, kind: str) -> bytes:
    opening, core, closing = NESTINGS[kind]
    times = levels // 2 if kind == "both" else levels
    return opening * times + core + closing * times


@pytest.mark.parametrize("kind", NESTINGS)
def test_512_levels_are_taken(kind: str) -> None:
    """A3."""
    assert frame(nested(MAX_DEPTH, kind))


@pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 5_000, 100_000])
@pytest.mark.parametrize("kind", NESTINGS)
def test_deeper_json_is_refused(kind: str, levels: int) -> None:
    """A3."""
    with pytest.raises(MalformedError) as refused:
        frame(nested(levels, kind))
    assert refused.value.code == "JSON_TOO_DEEP"


@pytest.mark.parametrize("kind", ["arrays", "objects", "with strings"])
def test_513_levels_are_refused_beside_a_shallow_message_too(kind: str) -> None:
    """A3: one bad message refuses the batch."""
    with pytest.raises(MalformedError):
        frame(nested(MAX_DEPTH + 1, kind))
    with pytest.raises(MalformedError):
        frame(b"[1," + nested(MAX_DEPTH, kind) + b"]")


def test_width_is_not_depth() -> None:
    """A3."""
    assert frame(b"[%b]" % b",".join([b"[{}]"] * 10_000)).count(b"[{}]") == 10_000
    assert frame(b"{%b}" % b",".join(b'"%d":[[]]' % key for key in range(1_000)))


@given(st.lists(values, max_size=6), st.sampled_from([None, 1]))
def test_what_is_wrapped_is_what_was_sent(messages: list[object], indent: int | None) -> None:
    """A10, G4."""
    body = json.dumps(messages, indent=indent).encode()
    assert json.loads(wrap(frame(body))) == messages


@given(st.lists(values, min_size=1, max_size=6))
def test_message_ends_undo_framing(messages: list[object]) -> None:
    """A10, F1: cut at its ends, stored content gives back each message."""
    stored = frame(json.dumps(messages).encode())
    starts = [0, *message_ends(stored)]
    cut = [stored[start : end - 1] for start, end in pairwise(starts)]
    assert [json.loads(message) for message in cut] == messages
    assert starts[-1] == len(stored)


def test_nothing_stored_is_an_empty_array_without_ends() -> None:
    """G4."""
    assert wrap(b"") == b"[]"
    assert message_ends(b"") == []


@given(values, st.data())
def test_damaged_json_is_judged_as_the_standard_library_judges_it(value: object, data: st.DataObject) -> None:
    """A3: a second opinion on bodies of which one byte was changed, dropped or doubled."""
    body = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + 1] = data.draw(st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b",", b"[", b"}"]))
    try:
        frame(bytes(body))
        accepted = True
    except MalformedError:
        accepted = False
    assert accepted == is_json(bytes(body))


def is_json(body: bytes) -> bool:
    def no_constant(name: str) -> object:
        raise ValueError(name)

    try:
        text = body.decode()
        json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return False
    return re.match(r"[ \t\r\n]*\ufeff", text) is None


@pytest.mark.parametrize("space", ["\r\n", "  ", " \n", "\n", ""])
@pytest.mark.parametrize("value", [{"text": "x" * 3000}, ["x" * 3000], [{"n": n} for n in range(500)]])
def test_space_around_a_long_body_is_not_stored_and_costs_no_byte_of_it(value: object, space: str) -> None:
    """Rule A10: a body that is long enough for the quick way gives the same bytes, wherever its space is."""
    text = json.dumps(value, separators=(",", ":"))
    items = value if isinstance(value, list) else [value]
    kept = "".join(json.dumps(item, separators=(",", ":")) + "," for item in items).encode()
    for body in (space + text, text + space, space + text + space):
        assert frame(body.encode()) == kept


# -- Long bodies, in slices ----------------------------------------------------------------------


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices and windows of a few bytes, so that short bodies are long."""
    for module in (json_frames, json_slices):
        monkeypatch.setattr(module, "SLICE_BYTES", 24)
    monkeypatch.setattr(json_slices, "_WINDOW_BYTES", 7)
    monkeypatch.setattr(json_slices, "_GUESS_BYTES", 10)


def judged(body: bytes, how: Callable[[bytes], bytes]) -> bytes | str:
    try:
        return how(body)
    except MalformedError as error:
        return error.code


@pytest.mark.usefixtures("small_slices")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(values, max_size=20), st.sampled_from([None, 1]), st.data())
def test_a_body_in_slices_is_judged_as_a_whole_one(
    messages: list[object], indent: int | None, data: st.DataObject
) -> None:
    """A3, A10: also when a byte of it was changed, dropped or doubled."""
    body = json.dumps(messages, indent=indent, ensure_ascii=data.draw(st.booleans())).encode(
        errors="surrogatepass"
    )
    assert judged(body, frame) == judged(body, json_frames._frame)
    at = data.draw(st.integers(0, len(body) - 1))
    change = data.draw(st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b",", b"[", b"}", b"\\ud800"]))
    damaged = body[:at] + change + body[at + 1 :]
    assert judged(damaged, frame) == judged(damaged, json_frames._frame)


AWKWARD = {
    "commas in strings": b'["a,b","c],[d","e\\",\\"f"' + b',"g,h"' * 20 + b"]",
    "long strings": b'["' + b"x" * 100 + b'","' + b'\\"' * 60 + b'"]',
    "long objects": b'[{"a":[' + b"1," * 50 + b'1]},{"a":[' + b"1," * 50 + b"1]},2,3]",
    "long and short": b"[" + b"1," * 20 + b"[" + b"1," * 40 + b"1]" + b",1" * 20 + b"]",
    "spaces": b"[ " + b"  1 ,  " * 20 + b" 1  ]  ",
    "only spaces": b"[" + b" " * 100 + b"]",
    "one scalar": b'  "' + b"x" * 100 + b'"  ',
    "other letters": ("[" + '"\u00e4\u20ac", ' * 20 + "1]").encode().decode("unicode_escape").encode(),
    "surrogates": b'["\\ud800"' + b',"\\\\ud800\\ud800"' * 20 + b"]",
    "no item": b"[1," + b"1," * 40 + b"]",
    "no first item": b"[" + b",1" * 40 + b"]",
    "no item between": b"[" + b"1," * 20 + b"," + b"1," * 20 + b"1]",
    "two arrays": b"[" + b"1," * 20 + b"1],[" + b"1," * 20 + b"1]",
    "no end": b"[" + b"1," * 40,
    "another end": b"[" + b"1," * 40 + b"1}",
    "cut bytes": b'["' + b"\xc3" * 60 + b'"]',
    "a backslash at the end": b'["' + b"x" * 60 + b'\\"]',
}


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("which", AWKWARD)
def test_awkward_bodies_in_slices(which: str) -> None:
    """A3, A10."""
    assert judged(AWKWARD[which], frame) == judged(AWKWARD[which], json_frames._frame)


@pytest.mark.usefixtures("small_slices")
@given(st.lists(values, min_size=2, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_end_that_is_found_is_between_two_messages(messages: list[object]) -> None:
    items = json.dumps(messages).encode()[1:-1]
    end = json_slices.find_end(items, 0)
    assert end == len(items) or items[end : end + 1] == b","
    found = json.loads(b"[" + items[:end] + b"]")
    assert found == messages[: len(found)]


@given(values)
def test_depth_is_counted(value: object) -> None:
    def depth(value: object) -> int:
        if isinstance(value, dict):
            value = list(value.values())
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    assert json_slices.depth_of(json.dumps(value).encode()) == depth(value)
