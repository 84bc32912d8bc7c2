"""Reading: rules O3, G1, G2, G7."""

import itertools

import pytest

from engines.driving import JSON, Engine
from millstream.protocol.offsets import NOW
from millstream.protocol.reads import Chunk, OffsetUnaligned


@pytest.fixture
def letters(engine: Engine) -> Engine:
    """An engine with the stream /s that holds `abcdefghij` in four appends."""
    engine.create("/s", b"abc")
    for data in (b"d", b"efg", b"hij"):
        engine.append("/s", data)
    return engine


@pytest.mark.parametrize("position", range(12))
@pytest.mark.parametrize("max_bytes", [1, 2, 3, 4, 100])
def test_a_chunk_begins_where_it_was_asked_for_and_ends_in_time(
    letters: Engine, position: int, max_bytes: int
) -> None:
    """G1, O3: past the tail is at the tail."""
    found = letters.chunk("/s", position, max_bytes=max_bytes)
    start = min(position, 10)
    assert (found.start, found.data) == (start, b"abcdefghij"[start : start + max_bytes])
    assert found.end == start + len(found.data)
    assert found.up_to_date is (found.end == 10)


def test_now_is_the_tail(letters: Engine) -> None:
    """G2."""
    found = letters.chunk("/s", NOW)
    assert (found.start, found.end, found.data, found.up_to_date) == (10, 10, b"", True)


@pytest.mark.parametrize(
    ("bounds", "data"),
    [
        ({"until": 4}, b"abcd"),
        ({"until": 10}, b"abcdefghij"),
        ({"until": 99}, b"abcdefghij"),
        ({"until": 0}, b""),
        ({"limit": 5}, b"abcde"),
        ({"until": 4, "limit": 9}, b"abcd"),
        ({"limit": 2, "max_bytes": 1}, b"a"),
    ],
)
def test_a_bounded_read_stays_in_its_bounds(letters: Engine, bounds: dict[str, int], data: bytes) -> None:
    """G7."""
    found = letters.chunk("/s", **bounds)
    assert found.data == data
    assert found.up_to_date is (len(data) == 10)


def test_a_partial_chunk_of_a_closed_stream_is_not_its_end(letters: Engine) -> None:
    """G1."""
    letters.append("/s", closes=True)
    assert not letters.chunk("/s", max_bytes=9).at_end
    assert letters.chunk("/s", 9, max_bytes=1).at_end
    assert letters.chunk("/s", 10).at_end


def test_a_peek_measures_and_fetches_nothing(letters: Engine) -> None:
    """X1."""
    found = letters.read("/s", 2, max_bytes=3, peek=True)
    assert isinstance(found, Chunk)
    assert (found.start, found.end, found.data, found.up_to_date) == (2, 5, b"", False)


@pytest.mark.parametrize(("held_bytes", "data"), [(3, b"cde"), (4, b"cde"), (2, b"")])
def test_a_chunk_longer_than_what_is_held_comes_without_its_data(
    letters: Engine, held_bytes: int, data: bytes
) -> None:
    found = letters.read("/s", 2, max_bytes=3, held_bytes=held_bytes)
    assert isinstance(found, Chunk)
    if letters.store.is_shared:
        data = b"cde"  # what a read has promised may be gone elsewhere, so it is given at once
    assert (found.start, found.end, found.data, found.is_held) == (2, 5, data, bool(data))


MESSAGES = [b'{"a":1}', b"22", b'"three"', b"[4,4]", b"5"]


@pytest.fixture
def messages(engine: Engine) -> Engine:
    """An engine with the JSON stream /s that holds five messages in three appends."""
    engine.create("/s", b"[%b,%b]" % tuple(MESSAGES[:2]), content_type=JSON)
    engine.append("/s", b"[%b,%b]" % tuple(MESSAGES[2:4]), content_type=JSON)
    engine.append("/s", MESSAGES[4], content_type=JSON)
    return engine


BOUNDARIES = list(itertools.accumulate((len(message) + 1 for message in MESSAGES), initial=0))


@pytest.mark.parametrize("max_bytes", [1, 5, 8, 11, 12, 20, 1000])
def test_json_is_read_in_whole_messages_at_least_one_at_a_time(messages: Engine, max_bytes: int) -> None:
    """G1, G4."""
    position, read = 0, b""
    while position < BOUNDARIES[-1]:
        found = messages.chunk("/s", position, max_bytes=max_bytes)
        assert found.start == position < found.end
        assert found.end in BOUNDARIES
        fits = found.end - found.start <= max_bytes
        assert fits or BOUNDARIES.index(found.end) == BOUNDARIES.index(position) + 1
        position, read = found.end, read + found.data
    assert read == b"".join(message + b"," for message in MESSAGES)


def test_an_offset_inside_a_message_is_refused(messages: Engine) -> None:
    """O3, G7."""
    for position in set(range(BOUNDARIES[-1])) - set(BOUNDARIES):
        assert messages.read("/s", position) == OffsetUnaligned()
        assert messages.read("/s", until=position) == OffsetUnaligned()


def test_lone_surrogates_do_not_disturb_reading_in_pieces(engine: Engine) -> None:
    """A10, G1."""
    engine.create("/s", b'["\\ud800",1,"\\udfff"]', content_type=JSON)
    assert engine.chunk("/s", max_bytes=1).data == b'"\\ud800",'
    assert engine.chunk("/s", 9, max_bytes=1).data == b"1,"
    assert engine.chunk("/s", 11, max_bytes=1).data == b'"\\udfff",'


def test_a_long_stream_is_read_back_as_it_was_written(engine: Engine) -> None:
    """G1: across whatever pieces, files or caches an engine keeps it in, before and after a restart."""
    engine.create("/s")
    pieces = [bytes([number % 251]) * (1 + 37 * number) for number in range(120)]
    for piece in pieces:
        engine.append("/s", piece)
    whole = b"".join(pieces)
    for _ in range(2):
        position = 0
        while position < len(whole):
            found = engine.chunk("/s", position, max_bytes=9_999)
            assert found.data == whole[position : position + 9_999]
            position = found.end
        engine.restart()
