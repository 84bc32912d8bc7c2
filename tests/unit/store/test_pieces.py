"""Appended pieces, found again by position."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.pieces import Pieces

chunks = st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=8)


def filled(base: int, appended: list[bytes]) -> Pieces:
    pieces = Pieces(base)
    for piece in appended:
        pieces.append(piece, 0)
    return pieces


@given(chunks, st.integers(0, 100))
def test_every_range_is_what_was_appended(appended: list[bytes], base: int) -> None:
    pieces, whole = filled(base, appended), b"".join(appended)
    assert (pieces.base, pieces.end) == (base, base + len(whole))
    for start in range(len(whole) + 1):
        for end in range(start, len(whole) + 1):
            assert pieces.fetch(base + start, base + end) == whole[start:end]


@given(chunks, st.integers(0, 100))
def test_every_byte_is_in_the_append_that_brought_it(appended: list[bytes], base: int) -> None:
    pieces, start = filled(base, appended), base
    for piece in appended:
        for position in range(start, start + len(piece)):
            assert pieces.bounds(position) == (start, start + len(piece))
        start += len(piece)


def test_a_whole_piece_is_given_without_copying() -> None:
    piece = bytes(1000)
    pieces = filled(0, [b"a", piece, b"b"])
    assert pieces.fetch(1, 1001) is piece


def test_what_was_given_to_others_stays_as_it_was() -> None:
    pieces = Pieces(0)
    other = Pieces(0)
    pieces.append(b"ab", 5)
    pieces.append(b"c", 6)
    given, ends, times = pieces.all()
    pieces.append(b"d", 7)
    again, _, _ = pieces.all()
    pieces.drop(2)
    pieces.append(b"e", 8)
    assert (list(given), list(ends), list(times)) == ([b"ab", b"c"], [2, 3], [5, 6])
    assert list(again) == [b"ab", b"c", b"d"]
    assert pieces.fetch(2, 5) == b"cde"
    pieces.drop(5)
    pieces.append(b"f", 9)
    assert pieces.fetch(5, 6) == b"f"
    assert len(other) == 0
