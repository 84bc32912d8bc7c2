"""Message boundaries of large appends, found in windows: rules F1, G1, G4, O3."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import boundaries
from millstream.protocol.boundaries import Index, Messages, ScanUnfinishedError
from millstream.protocol.json_frames import frame, message_ends

values = st.recursive(
    st.none()
    | st.integers()
    | st.text(alphabet='ab"\\,[]{}ä \n')
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\]', max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


class Stored:
    """One append at an offset, whose index is kept; it counts how much of it was fetched."""

    def __init__(self, data: bytes, start: int = 100) -> None:
        self.data = data
        self.start = start
        self.end = start + len(data)
        self.fetched = 0
        self._index = Index(start)

    def bounds(self, position: int) -> tuple[int, int]:
        assert self.start <= position < self.start + len(self.data)
        return self.start, self.end

    def fetch(self, start: int, end: int) -> bytes:
        assert start <= end <= self.end, "what follows is not of this append"
        self.fetched += end - start
        return self.data[start - self.start : end - self.start]

    def index(self, start: int) -> Index:
        assert start == self.start
        return self._index

    def all_ends(self) -> list[int]:
        return [self.start, *(self.start + end for end in message_ends(self.data))]


def until_decided(decide: object) -> object:
    """Decide again until enough is scanned."""
    while True:
        try:
            return decide()  # type: ignore[operator]  # a lambda
        except ScanUnfinishedError:
            continue


@pytest.fixture
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "WINDOW_BYTES", request.param)


@pytest.mark.parametrize("windows", [2, 3, 7, 16, 50, 10_000], indirect=True)
@pytest.mark.usefixtures("windows")
@given(batch=st.lists(values, min_size=1, max_size=12), indent=st.sampled_from([None, 1]))
def test_windows_of_any_size_find_the_same_boundaries(batch: list[object], indent: int | None) -> None:
    """G4, O3: those that parsing the whole append finds."""
    stored = Stored(frame(json.dumps(batch, indent=indent, ensure_ascii=False).encode()))
    ends = stored.all_ends()
    for position in range(stored.start, stored.end):
        messages = Messages(stored, stored.start)
        assert until_decided(lambda m=messages, p=position: m.has_boundary(p)) == (position in ends)


@pytest.mark.parametrize("windows", [2, 5, 16, 10_000], indirect=True)
@pytest.mark.usefixtures("windows")
@given(batch=st.lists(values, min_size=1, max_size=9), data=st.data())
def test_positions_are_found_from_any_boundary(batch: list[object], data: st.DataObject) -> None:
    """F1, G1: the last one in a range, the next one, and the one after so many messages."""
    stored = Stored(frame(json.dumps(batch).encode()))
    ends = stored.all_ends()
    number = data.draw(st.integers(0, len(ends) - 2))
    start, until = ends[number], data.draw(st.integers(ends[number], stored.end))
    count = data.draw(st.integers(1, len(ends) + 1))
    messages = Messages(stored, start)
    inside = [end for end in ends if start < end <= until]
    assert until_decided(lambda: messages.first_after(start)) == ends[number + 1]
    assert until_decided(lambda: messages.last_between(start, until)) == (inside[-1] if inside else None)
    available = len(ends) - 1 - number
    skipped = until_decided(lambda: messages.skip(start, count))
    assert skipped == (ends[min(number + count, len(ends) - 1)], min(count, available))


@pytest.mark.parametrize("windows", [16], indirect=True)
@pytest.mark.usefixtures("windows")
def test_a_fork_sees_no_message_after_its_end() -> None:
    """F1: even if its source's readers have scanned further."""
    stored = Stored(frame(json.dumps(list(range(100, 130))).encode()))
    assert until_decided(lambda: Messages(stored, 100).skip(100, 30)) == (220, 30)
    stored.end = 140
    assert until_decided(lambda: Messages(stored, 100).skip(104, 9)) == (140, 9)
    assert until_decided(lambda: Messages(stored, 100).skip(104, 10)) == (140, 9)


SHAPES = {
    "numbers": b"1," * 2_000_000,
    "arrays": b"[]," * 1_400_000,
    "objects": b'{"id":123,"name":"a, b","tags":["x","y"],"at":{"x":1,"y":[2,3]}},' * 60_000,
    "strings of commas": b'",,,,,,,,,,,,,,",' * 250_000,
    "backslashes": b'"' + b"\\\\" * 2_000_000 + b'",',
    "one text": b'"' + b"x" * 4_000_000 + b'",',
    "one array": b"[" + b"1," * 2_000_000 + b"1],",
    "chains": (b"[0," * 511 + b"0" + b"]" * 511 + b",") * 2_000,
    "chains of objects": (b'{"":' * 511 + b"0" + b"}" * 511 + b",") * 1_500,
    "zigzags": b"[[[[[[0],0],0],0],0],0]," * 160_000,
    "line breaks": b"[" + b"\n" * 4_000_000 + b"],",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_one_attempt_fetches_little_and_all_of_them_are_linear(shape: str) -> None:
    """Whatever the messages are: the last boundary but one, from the beginning, and each window once."""
    stored = Stored(SHAPES[shape])
    attempts, most = 0, 0
    while True:
        attempts, before = attempts + 1, stored.fetched
        try:
            assert Messages(stored, stored.start).has_boundary(stored.end - 1) is False
            break
        except ScanUnfinishedError:
            most = max(most, stored.fetched - before)
    assert most <= boundaries.WINDOW_BYTES
    assert stored.fetched < len(stored.data) + 3 * boundaries.WINDOW_BYTES
    assert attempts < 2 + 1.01 * len(stored.data) / boundaries.WINDOW_BYTES


def test_damaged_content_is_not_scanned_for_ever() -> None:
    """What is no JSON any more gives an error or some answer, but it ends."""
    for damaged in (b"]" * 100_000, b'"' * 100_001, b"\\" * 100_000, b"[" * 100_000):
        messages = Messages(Stored(damaged), 100)
        assert until_decided(lambda m=messages: m.first_after(100)) is not None
